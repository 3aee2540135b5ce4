"""Constraints: against enumeration of all trees that comply, and what contradictory ones get."""

import math
from collections import defaultdict

import numpy as np
import pytest
import spacy
from parsers import assign, gold_examples, join, kbest, make_nlp, settable, train
from reference import enumerate_trees
from spacy.tokens import Doc
from strategies import rng_for

from spacy_rootmind import NoTreeError
from spacy_rootmind.annotation.sentences import TokenRow
from spacy_rootmind.guidelines.constraints import Constraints, preset_heads
from spacy_rootmind.network.architecture import ParserInput
from spacy_rootmind.pipeline.prediction import plan_sentences
from spacy_rootmind.pipeline.sentence_parser import PredictionContext
from spacy_rootmind.pipeline.settings import Settings

FIRST = ["She", "saw", "the", "cat", "."]
SECOND = ["He", "came", "."]
WORDS = FIRST + SECOND
GIVEN = [True, False, False, False, False, True, False, False]
VOCAB = spacy.blank("xx").vocab


# --- in the component --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def unsure(quickstart_docs):
    """A parser that has learnt little, of Docs with several sentences."""
    nlp = make_nlp()
    return train(nlp, gold_examples(join(quickstart_docs[:40], 4), nlp), steps=12, size=5)


@pytest.fixture
def parser_with(unsure):
    """Gives the pipeline constraints from a function, and other settings, until the next call."""
    with settable(unsure) as set_all:
        yield lambda constrain, **settings: set_all(constraints=constrain, **settings)


def heads_of(doc):
    return [token.head.i for token in doc]


def bounds_of(doc):
    return [(sentence.start, sentence.end) for sentence in doc.sents]


CASES = [
    Constraints(),
    Constraints(forced=[(0, 2), (0, 2)]),
    Constraints(forced=[(3, 3), (0, 4)]),
    Constraints(forbidden=[(0, 1), (1, 1), (2, 3), (3, 1), (4, 1)]),
    Constraints(forced=[(2, 0)], forbidden=[(4, 3)]),
    Constraints(labels=[(3, "nsubj")]),
    Constraints(labels=[(0, "obj"), (3, "obj")]),
    Constraints(labels=[(1, "ROOT"), (4, "det")]),
    Constraints(forced=[(2, 1)], labels=[(2, "obj"), (4, "punct")]),
]


def complying_law(nlp, constraints, temperature):
    """The trees over FIRST that comply, with their probabilities: by enumeration and Bayes' rule.

    Scores of arcs are the network's own; labels have the probabilities of a free parse.
    """
    parser = nlp.get_pipe("root_mst")
    assign(parser, arc_threshold=1e-12)
    doc = nlp(Doc(nlp.vocab, words=FIRST, sent_starts=GIVEN[:5]))
    labels = defaultdict(dict)
    for token in doc:
        for arc in token._.arcs:
            labels[token.i, arc.head.i][arc.dep] = arc.prob
    [arcs] = parser.model.predict(ParserInput([doc], [[np.arange(5)]])).trees.arcs
    scores = arcs[0, :6, :6].astype(np.float64) / temperature
    law = {}
    for heads in enumerate_trees(5, True)[:, 1:]:
        tree = tuple(np.where(heads == 0, np.arange(5), heads - 1).tolist())
        if all(tree[i] == head for i, head in constraints.forced) and all(
            tree[i] != head for i, head in constraints.forbidden
        ):
            shares = [labels[i, tree[i]] for i, _ in constraints.labels]
            law[tree] = math.exp(scores[np.arange(1, 6), heads].sum()) * math.prod(
                own.get(label, 0.0) / sum(own.values())
                for own, (_, label) in zip(shares, constraints.labels, strict=True)
            )
    total = sum(law.values())
    return {tree: weight / total for tree, weight in law.items() if weight > 0}


@pytest.mark.one_each("constraints")
@pytest.mark.parametrize("temperature", [1.0, 2.5])
@pytest.mark.parametrize("constraints", CASES)
def test_probabilities_are_those_of_complying_trees(parser_with, constraints, temperature):
    law = complying_law(parser_with(None, temperature=temperature), constraints, temperature)
    nlp = parser_with(
        lambda doc: constraints,
        # The most probable tree, which need not be that of the best labelled tree.
        decode="tree",
        confidence=True,
        temperature=temperature,
        arc_threshold=1e-9,
        **kbest(k=50),
    )
    doc = nlp(Doc(nlp.vocab, words=FIRST, sent_starts=GIVEN[:5]))
    [sentence] = doc.sents
    best = tuple(heads_of(doc))
    assert best == max(law, key=law.get)
    for token in doc:
        own = sum(prob for tree, prob in law.items() if tree[token.i] == token.head.i)
        assert token._.head_prob == pytest.approx(own, abs=2e-5)
    assert sentence._.parse_log_prob == pytest.approx(math.log(law[best]), abs=1e-4)
    entropy = -sum(prob * math.log(prob) for prob in law.values())
    assert sentence._.parse_entropy == pytest.approx(entropy, abs=1e-4)
    found = dict.fromkeys(law, 0.0)
    for own in sentence._.parses:
        found[tuple(own.heads.tolist())] += math.exp(own.log_prob)
    assert all(found[tree] <= law[tree] + 2e-5 for tree in found)
    for i, head in constraints.forced:
        assert doc[i].head.i == head
        assert doc[i]._.head_prob == pytest.approx(1.0, abs=1e-6)
    for i, label in constraints.labels:
        assert doc[i].dep_ == label
        assert doc[i]._.arc_prob == doc[i]._.head_prob
        assert {arc.dep for arc in doc[i]._.arcs} == {label}
        assert sum(arc.prob for arc in doc[i]._.arcs) == pytest.approx(1.0, abs=1e-4)
        assert all(own.deps[i] == label for own in sentence._.parses)


@pytest.mark.parametrize(
    "constrain", [lambda doc: Constraints(), preset_heads()], ids=["own", "preset_heads"]
)
def test_no_constraints_change_nothing(parser_with, constrain):
    for words in (WORDS, FIRST, ["\n", " ", *SECOND], [" "], []):
        a, b = Doc(VOCAB, words=words), Doc(VOCAB, words=words)
        a = parser_with(constrain, confidence=True)(a)
        b = parser_with(None, confidence=True)(b)
        assert heads_of(a) == heads_of(b)
        assert bounds_of(a) == bounds_of(b)
        assert [t._.head_prob for t in a] == [t._.head_prob for t in b]


def test_whitespace_inside_arcs_is_no_matter(parser_with):
    words = ["\n", "She", " ", "saw", "\n", "the", " ", "old", "cat", "\n"]
    # Any iterables are read once.
    arcs = {"forced": iter([(1, 8)]), "forbidden": iter([(5, 3)])}
    constraints = Constraints(**arcs)
    nlp = parser_with(lambda doc: constraints, confidence=True)
    doc = nlp(Doc(nlp.vocab, words=words))
    [sentence] = doc.sents
    assert doc[1].head.i == 8
    assert doc[5].head.i != 3
    assert [doc[i].head.i for i in (0, 2, 4, 6, 9)] == [1, 1, 3, 5, 8]
    assert sum(token.head == token for token in sentence) == 1


# --- boundaries --------------------------------------------------------------------------------


def plan(doc, constraints, log_odds, **settings):
    settings = Settings(constraints=lambda doc: constraints, **settings)
    context = PredictionContext(settings, ("ROOT", "dep"))
    return plan_sentences(TokenRow([doc]), np.asarray(log_odds, dtype="f"), context)[0].tolist()


def test_boundaries_do_not_cut_forced_arcs():
    rng = rng_for("constraints cuts")
    for _ in range(100):
        n = int(rng.integers(2, 15))
        doc = Doc(VOCAB, words=["a"] * n)
        tokens = rng.integers(0, n, size=(int(rng.integers(0, 3)), 2)).tolist()
        forced = list(dict([arc for arc in tokens if arc[0] != arc[1]]).items())
        log_odds = rng.normal(size=n) * 5
        starts = plan(doc, Constraints(forced=forced), log_odds)
        together = [sorted(arc) for arc in forced]
        uncut = [i for i in range(1, n) if not any(a < i <= b for a, b in together)]
        assert starts == [0] + [i for i in uncut if log_odds[i] > 0] + [n]


def test_forced_roots_come_into_sentences_of_their_own():
    doc = Doc(VOCAB, words=["a"] * 6)
    log_odds = [-1, -2, -4, -3, -1, -1]
    two = Constraints(forced=[(4, 4), (1, 1)])
    # At the most likely boundary between the roots: not before token 1.
    assert plan(doc, two, log_odds) == [0, 4, 6]
    assert plan(doc, two, [-1, -2, -4, -0.5, -1, -1]) == [0, 3, 6]
    # One that is likely anyway is enough.
    assert plan(doc, two, [-1, 3, -4, 2, -1, 3]) == [0, 1, 3, 5, 6]
    three = Constraints(forced=[(4, 4), (1, 1), (5, 5), (2, 1)])
    assert plan(doc, three, log_odds) == [0, 4, 5, 6]
    # Within an arc there is no boundary, however likely.
    nested = Constraints(forced=[(4, 4), (1, 1), (3, 1)])
    assert plan(doc, nested, [-1, 2, 9, 9, -5, -1]) == [0, 1, 4, 6]


def test_forced_roots_without_boundaries_to_find(parser_with, monkeypatch):
    """A parser that learnt none takes a Doc for one sentence otherwise; given ones stay."""
    nlp = parser_with(lambda doc: Constraints(forced=[(1, 1), (3, 3)]))
    monkeypatch.setitem(nlp.get_pipe("root_mst").cfg, "finds_boundaries", False)
    doc = nlp(Doc(nlp.vocab, words=FIRST))
    assert [sentence.root.i for sentence in doc.sents] == [1, 3]
    nlp = parser_with(lambda doc: Constraints(forced=[(3, 3), (7, 7)]), sentences="given")
    doc = nlp(Doc(nlp.vocab, words=WORDS, sent_starts=GIVEN))
    assert bounds_of(doc) == [(0, 5), (5, 8)]
    assert [sentence.root.i for sentence in doc.sents] == [3, 7]


def test_root_labels_come_into_sentences_of_their_own(parser_with):
    doc = Doc(VOCAB, words=["a"] * 6)
    roots = Constraints(labels=[(4, "ROOT"), (1, "ROOT")])
    assert plan(doc, roots, [-1, -2, -4, -3, -1, -1]) == [0, 4, 6]
    assert plan(doc, roots, [-1, 3, -4, 2, -1, 3]) == [0, 1, 3, 5, 6]
    nlp = parser_with(lambda doc: Constraints(labels=[(1, "ROOT"), (3, "ROOT")]))
    doc = nlp(Doc(nlp.vocab, words=FIRST))
    assert [t.i for t in doc if t.head == t] == [1, 3]
    with pytest.raises(ValueError, match="forced roots of the same sentence"):
        nlp(Doc(nlp.vocab, words=FIRST, sent_starts=GIVEN[:5]))


def test_boundaries_give_way_where_no_word_could_be_the_root():
    doc = Doc(VOCAB, words=["a"] * 6)
    label = Constraints(labels=[(2, "dep")])
    # A word that is alone joins the side whose boundary is less likely.
    assert plan(doc, label, [-1, -1, 3, 2, -1, 1]) == [0, 2, 5, 6]
    assert plan(doc, label, [-1, -1, 2, 3, -1, 1]) == [0, 3, 5, 6]
    # Next to another word it depends on that one.
    assert plan(doc, label, [-1, -1, 3, -1, 2, 1]) == [0, 2, 4, 5, 6]
    # At the ends of a Doc there is one side; sentences are joined until one word can be the root.
    ends = Constraints(labels=[(0, "dep"), (4, "dep"), (5, "dep")])
    assert plan(doc, ends, [9, 9, -1, -1, 3, 2]) == [0, 6]
    assert plan(doc, ends, [9, 9, 3, -1, 3, 2]) == [0, 2, 6]
    barred = Constraints(forbidden=[(2, 2)], forced=[(3, 4)])
    assert plan(doc, barred, [-1, -1, 3, 2, -1, 1]) == [0, 2, 5, 6]
    everywhere = Constraints(labels=[(i, "dep") for i in range(6)])
    for mode in ("auto", "doc"):
        assert plan(doc, everywhere, [9] * 6, sentences=mode) == [0, 6]
    with_space = Doc(VOCAB, words=["a", "\n", "a", "\n", "a"])
    assert plan(with_space, label, [-1, 3, 3, -1, 2]) == [0, 2, 5]


def test_a_label_overrules_a_line_end_and_not_the_doc(parser_with):
    nlp = parser_with(lambda doc: Constraints(labels=[(0, "nsubj")]), line_ends=True)
    words = ["She", "\n", *FIRST[1:]]
    doc = nlp(Doc(nlp.vocab, words=words))
    assert doc[0].dep_ == "nsubj"
    assert doc[0].head.i > 1
    given = Doc(nlp.vocab, words=words, sent_starts=[True, False, True, False, False, False])
    match = "no tree with a single root meets the constraints on the sentence 'She'"
    with pytest.raises(ValueError, match=match):
        nlp(given)
    assert not given.has_annotation("DEP")


def test_constraints_and_length_go_together():
    doc = Doc(VOCAB, words=["a"] * 6)
    arcs = Constraints(forced=[(1, 2), (4, 3)])
    log_odds = [-1, -9, -1, -9, -1, -9]
    assert plan(doc, arcs, log_odds, max_sentence_length=2) == [0, 1, 3, 5, 6]
    assert plan(doc, arcs, log_odds, max_sentence_length=3) == [0, 3, 6]
    with pytest.raises(ValueError, match="max_sentence_length"):
        plan(doc, arcs, log_odds, max_sentence_length=1)


# --- contradictions ----------------------------------------------------------------------------

NO_TREE, CONFLICT = "no tree with a single root", "both forced and forbidden"
CONTRADICTIONS = [
    (Constraints(forced=[(0, 1), (0, 2)]), "two forced heads"),
    (Constraints(forced=[(0, 1)], forbidden=[(0, 1)]), CONFLICT),
    (Constraints(forced=[(0, 1), (1, 0)]), NO_TREE),
    (Constraints(forbidden=[(i, i) for i in range(8)]), NO_TREE),
    (Constraints(forbidden=[(0, i) for i in range(8)]), NO_TREE),
    (Constraints(forced=[(1, 1), (3, 3), (0, 4)]), "forced roots of the same sentence"),
    (Constraints(forced=[(9, 1)]), "from 0 to 8"),
    (Constraints(forbidden=[(-1, 1)]), "from 0 to 8"),
    (Constraints(forced=[(8, 0)]), r"except whitespace, received \(8, 0\)"),
    (Constraints(forbidden=[(0, 8)]), r"except whitespace, received \(0, 8\)"),
    ([(0, 1)], "expected the constraints of a Doc as"),
    (None, "expected the constraints of a Doc as"),
    (Constraints(forced=[(0, 1, 2)]), r"forced as pairs .* received \[\(0, 1, 2\)\]"),
    (Constraints(forced=[(0, 1.5)]), "forced as pairs"),
    (Constraints(forbidden=7), "forbidden as pairs"),
    (Constraints(labels=[(0, "nsbj")]), "'She'.*the parser's labels.*received 'nsbj'"),
    (Constraints(labels=[(0, 3)]), "the parser's labels.*received 3"),
    (Constraints(labels=["obj"]), r"labels as pairs .* received \['obj'\]"),
    (Constraints(labels=[(9, "obj")]), "from 0 to 8"),
    (Constraints(labels=[(0, "obj"), (0, "nsubj")]), "two labels, 'obj' and 'nsubj'"),
    (Constraints(forced=[(0, 0)], labels=[(0, "obj")]), CONFLICT),
    (Constraints(forced=[(0, 1)], labels=[(0, "ROOT")]), "two forced heads"),
]


def assert_untouched(doc, starts=None):
    assert not doc.has_annotation("DEP")
    assert [t.head.i for t in doc] == list(range(len(doc)))
    assert doc.user_data == {}
    expected = [None] * len(doc) if starts is None else starts
    assert [t.is_sent_start for t in doc][1:] == expected[1:]


@pytest.mark.parametrize(("bad", "message"), CONTRADICTIONS, ids=repr)
def test_contradictions_are_an_error(parser_with, bad, message):
    nlp = parser_with(lambda doc: bad)
    doc = Doc(nlp.vocab, words=[*WORDS, "\n"])
    with pytest.raises(ValueError, match=message):
        nlp(doc)
    assert_untouched(doc)


def raise_error(doc):
    raise KeyError("mine")


# Found when constraints are made, when they are read, and when a tree is looked for.
FAILURES = [
    (raise_error, KeyError),
    (lambda doc: None, ValueError),
    (lambda doc: Constraints(forced=[(0, 1), (1, 0)]), NoTreeError),
]


@pytest.mark.parametrize(("constrain", "error"), FAILURES)
def test_an_error_is_that_of_its_doc_alone(parser_with, constrain, error):
    nlp = parser_with(lambda doc: constrain(doc) if len(doc) == len(WORDS) else Constraints())
    failed = []
    parser = nlp.get_pipe("root_mst")
    parser.set_error_handler(lambda name, pipe, docs, error: failed.append((docs, error)))
    docs = [Doc(nlp.vocab, words=words) for words in (FIRST, WORDS, SECOND, [])]
    try:
        assert [len(doc) for doc in nlp.pipe(docs)] == [5, 3, 0]
    finally:
        parser.set_error_handler(spacy.util.raise_error)
    [([doc], found)] = failed
    assert doc is docs[1]
    assert type(found) is error
    assert_untouched(doc)


@pytest.mark.parametrize(
    ("mode", "starts"),
    [
        ("auto", GIVEN),
        ("given", GIVEN),
        ("auto", [None, None, False, False, None, None, None, None]),
        ("doc", None),
        ("doc", GIVEN),
    ],
)
def test_constraints_that_given_sentences_do_not_allow_are_an_error(parser_with, mode, starts):
    cases = [(Constraints(forced=[(1, 1), (3, 3)]), "forced roots of the same sentence")]
    if mode != "doc" and starts is GIVEN:
        across = {"forced": [(6, 1)]}, {"forced": [(1, 6)]}
        cases += [(Constraints(**arcs), "in two sentences") for arcs in across]
    for constraints, message in cases:
        nlp = parser_with(lambda doc, own=constraints: own, sentences=mode)
        doc = Doc(nlp.vocab, words=WORDS, sent_starts=starts)
        with pytest.raises(ValueError, match=message):
            nlp(doc)
        assert_untouched(doc, starts)


# --- preset heads --------------------------------------------------------------------------------


def test_preset_heads_keep_a_label_without_a_head(parser_with):
    # spaCy stores such a token as its own head; only the label tells that it is no root.
    nlp = parser_with(preset_heads(), confidence=True)
    heads, deps = [1, 1, 3, None, 1], ["nsubj", "ROOT", "det", "obj", "punct"]
    doc = nlp(Doc(nlp.vocab, words=FIRST, heads=heads, deps=deps))
    [sentence] = doc.sents
    assert [doc[i].head.i for i in (0, 1, 2, 4)] == [1, 1, 3, 1]
    assert doc[3].head.i != 3
    assert doc[3].dep_ == "obj"
    assert sentence.root.i == 1
    doc = Doc(nlp.vocab, words=FIRST)
    doc[1].dep_, doc[2].dep_ = "nsubj", "ROOT"
    assert [nlp(doc)[i].dep_ for i in (1, 2)] == ["nsubj", "ROOT"]
    assert doc[2].head.i == 2


def test_preset_heads_keep_edits(parser_with):
    nlp = parser_with(preset_heads(), confidence=True)
    doc = Doc(nlp.vocab, words=FIRST)
    doc[0].head, doc[0].dep_ = doc[3], "nsubj"
    doc = nlp(doc)
    assert doc[0].head.i == 3
    assert doc[0]._.head_prob == pytest.approx(1.0)
    # Edits of a parse are kept as well.
    doc = parser_with(None)(Doc(nlp.vocab, words=FIRST, sent_starts=GIVEN[:5]))
    moved = next(token for token in doc if token.head != token and not list(token.children))
    moved.head = next(token for token in doc if token not in (moved, moved.head))
    expected = heads_of(doc)
    assert heads_of(parser_with(preset_heads()).get_pipe("root_mst")(doc)) == expected
    cycle = Doc(nlp.vocab, words=FIRST, heads=[1, 0, 3, 1, 1], deps=["x"] * 5)
    with pytest.raises(ValueError, match="no tree with a single root"):
        nlp(cycle)
    assert heads_of(cycle) == [1, 0, 3, 1, 1]


def test_preset_heads_take_no_boundary_from_a_missing_head():
    heads, deps = [1, 1, 3, None, None], ["nsubj", "ROOT", "det", "obj", "punct"]
    doc = Doc(VOCAB, words=[*FIRST[:-1], "Now"], heads=heads, deps=deps)
    assert [t.i for t in doc if t.is_sent_start] == [0, 2, 4]
    context = PredictionContext(Settings(constraints=preset_heads()), ("ROOT", "obj", "punct"))
    log_odds = np.array([-1, -1, -1, -1, 1], dtype="f")
    # A word with another label than the root's cannot be a sentence by itself.
    assert plan_sentences(TokenRow([doc]), log_odds, context)[0].tolist() == [0, 5]
    doc[4].dep_ = "ROOT"
    # Training reads such Docs alike; what is unknown is for the network to say.
    assert plan_sentences(TokenRow([doc]), log_odds, context)[0].tolist() == [0, 4, 5]
    assert plan_sentences(TokenRow([doc]), -log_odds, context)[0].tolist() == [0, 2, 5]


@pytest.mark.parametrize(
    ("words", "heads", "deps", "expected"),
    [
        # The parser's label of roots, in any case, and that of the settings.
        (FIRST, [3, 3, 1, 3, 3], ["x", "a", "b", "ROOT", "z"], None),
        (FIRST, [3, 3, 1, 3, 3], ["x", "a", "b", "root", "z"], None),
        # Heads that are whitespace are passed over.
        (["a", "\n", "b"], [1, 2, 2], ["x", "", "ROOT"], [2, 0, 2]),
        # Crossing arcs.
        (
            ["\n", "a", "b", " ", "c", "d", "\n"],
            [1, 4, 5, 2, 4, 4, 5],
            ["dep", "x", "x", "dep", "ROOT", "x", "dep"],
            None,
        ),
    ],
)
def test_preset_heads_of_whole_trees_are_kept(parser_with, words, heads, deps, expected):
    nlp = parser_with(preset_heads())
    assert heads_of(nlp(Doc(nlp.vocab, words=words, heads=heads, deps=deps))) == (expected or heads)
