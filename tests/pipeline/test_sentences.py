"""Sentences: those that a Doc has, those that the parser finds, and what it learns them from."""

import itertools
import logging

import numpy as np
import pytest
import spacy
from conftest import SMALL_MODEL, gold_examples, make_nlp, train
from reference import random_heads
from spacy.tokens import Doc
from spacy.training import Example
from strategies import rng_for

from spacy_rootmind.annotate import SentenceParse, annotate, doc_parse
from spacy_rootmind.gold import GoldBatch, gold_boundaries, training_starts
from spacy_rootmind.known import known_starts, reference_heads
from spacy_rootmind.loss import MISSING
from spacy_rootmind.models import ParserInput
from spacy_rootmind.sentences import bounds, scored_tokens

VOCAB = spacy.blank("en").vocab
TEXT = "The teacher woke up. A dog that she met slept. Who broke the old window?"
TEXT_STARTS = [0, 5, 12]


def join(docs, size):
    return [Doc.from_docs(docs[i : i + size]) for i in range(0, len(docs), size)]


@pytest.fixture(scope="module")
def several(quickstart_docs):
    """A parser alone in its pipeline that has learnt Docs of five sentences; do not change it."""
    nlp = make_nlp()
    return train(nlp, gold_examples(join(quickstart_docs[:200], 5), nlp), steps=100, size=4)


@pytest.fixture
def make(several):
    """Makes pipelines with the same weights and other settings."""
    weights = several.get_pipe("root_mst").to_bytes(exclude=["vocab"])

    def make(**config):
        nlp = make_nlp(**config)
        nlp.get_pipe("root_mst").from_bytes(weights, exclude=["vocab"])
        return nlp

    return make


def starts_of(doc):
    return [sentence.start for sentence in doc.sents]


def boundary_scores(nlp, doc):
    """The network's log-odds of a start, token by token."""
    model = nlp.get_pipe("root_mst").model
    return model.predict(ParserInput([doc], [[np.arange(len(doc))]])).boundaries


def assert_parsed(doc):
    """Assert what holds for any parsed Doc, whitespace anywhere."""
    assert "".join(s.text_with_ws for s in doc.sents) == doc.text
    for sentence in doc.sents:
        words = [token for token in sentence if not token.is_space]
        [root] = [token for token in sentence if token.head == token]
        assert sentence.root == root
        assert root.dep_ == "ROOT"
        assert not words or root in words
        for token in sentence:
            assert token.head in sentence
            assert token.sent.start == sentence.start
            if token != root:
                assert token.dep_ not in ("", "ROOT")
            # From head to head one comes to the root.
            above = token
            for _ in range(len(sentence)):
                above = above.head
            assert above == root
        spaces = [token for token in sentence if token.is_space]
        for token in spaces:
            if words:
                before = [word for word in words if word.i < token.i]
                assert token.head == (before[-1] if before else words[0])
                assert not list(token.children)
            else:
                assert token.head == sentence[0]
            assert token == root or token.dep_ == "dep"


def random_words(rng, n, spaces=0.3):
    """Words and punctuation, with runs of whitespace anywhere."""
    plain = ["The", "cat", "slept", ".", "She", "saw", "him", "!", "and", "Tom"]
    blank = ["\n", " ", "\n\n", "\t"]
    return [
        blank[rng.integers(len(blank))]
        if rng.random() < spaces
        else plain[rng.integers(len(plain))]
        for _ in range(n)
    ]


# --- finding them ------------------------------------------------------------------------------


def test_the_parser_alone_finds_sentences_of_its_training_docs(several, quickstart_docs):
    scores = several.evaluate(gold_examples(join(quickstart_docs[:200], 5), several))
    assert scores["sents_f"] > 0.9
    assert scores["dep_uas"] > 0.9
    assert scores["root_violations"] == 0.0


def test_the_parser_alone_finds_sentences_of_other_texts(several, quickstart_docs):
    docs = join(quickstart_docs[200:260], 4)
    scores = several.evaluate(gold_examples(docs, several))
    assert scores["sents_f"] > 0.8
    # One start a Doc is no achievement.
    assert len(docs) < 0.3 * sum(len(list(doc.sents)) for doc in several.pipe(d.text for d in docs))
    assert starts_of(several(TEXT)) == TEXT_STARTS


@pytest.mark.parametrize("space", ["\n", "\n\n", " "])
def test_sentences_are_found_with_whitespace_between_them(several, quickstart_docs, space):
    """Treebanks have no whitespace tokens to learn from, and texts are full of them."""
    right = found = gold = 0
    for i in range(200, 260, 4):
        words, starts = [], set()
        for doc in quickstart_docs[i : i + 4]:
            starts.add(len(words))
            words += [*(token.text for token in doc), space]
        own = set(starts_of(several(Doc(several.vocab, words=words))))
        right += len(own & starts) - 1
        found += len(own) - 1
        gold += len(starts) - 1
    assert 2 * right / (found + gold) > 0.8


def test_found_starts_are_those_of_positive_log_odds(several):
    rng = rng_for("log odds")
    found = 0
    for _ in range(20):
        doc = several(Doc(several.vocab, words=random_words(rng, 40)))
        scores = boundary_scores(several, doc)
        expected = [t.i for t in doc if t.i == 0 or (scores[t.i] > 0 and not t.is_space)]
        assert starts_of(doc) == expected
        found += len(expected) - 1
    assert found > 20


def test_found_starts_do_not_depend_on_the_batch(several, quickstart_docs):
    texts = ["", "Yes", *(doc.text for doc in join(quickstart_docs[100:140], 3)), " \n ", TEXT]
    alone = [starts_of(several(text)) for text in texts]
    for size in (1, 3, 100):
        assert [starts_of(doc) for doc in several.pipe(texts, batch_size=size)] == alone
    assert [starts_of(d) for d in several.pipe(texts[::-1], batch_size=100)] == alone[::-1]
    assert [starts_of(d) for d in several.pipe(texts, n_process=2, batch_size=4)] == alone


def test_parsing_again_keeps_sentences(several):
    doc = several(TEXT)
    heads = [token.head.i for token in doc]
    again = several.get_pipe("root_mst")(doc)
    assert starts_of(again) == TEXT_STARTS
    assert [token.head.i for token in again] == heads


def test_predict_with_boundaries_to_find_leaves_docs_alone(several):
    doc = several.make_doc(TEXT)
    several.get_pipe("root_mst").predict([doc])
    assert not doc.has_annotation("SENT_START")
    assert not doc.has_annotation("DEP")


def test_predict_says_when_the_boundary_weights_are_damaged(make):
    nlp = make()
    linear = nlp.get_pipe("root_mst").model.get_ref("boundaries").layers[0].layers[-1]
    linear.set_param("W", linear.get_param("W") * np.nan)
    with pytest.raises(ValueError, match="not finite"):
        nlp(TEXT)


# --- keeping them ------------------------------------------------------------------------------


def test_auto_keeps_all_boundaries_of_a_doc(several):
    rng = rng_for("kept")
    for _ in range(20):
        words = random_words(rng, int(rng.integers(1, 25)))
        starts = [bool(x) for x in rng.random(len(words)) < 0.3]
        starts[0] = True
        doc = several(Doc(several.vocab, words=words, sent_starts=starts))
        assert starts_of(doc) == np.flatnonzero(starts).tolist()
        assert_parsed(doc)


def test_auto_takes_partial_annotation_for_what_it_says(several):
    rng = rng_for("partial")
    forced = forbidden = free = 0
    for _ in range(40):
        words = random_words(rng, int(rng.integers(2, 30)), spaces=0.2)
        marks = [[None, None, None, True, False][i] for i in rng.integers(0, 5, size=len(words))]
        doc = several(Doc(several.vocab, words=words, sent_starts=marks))
        scores = boundary_scores(several, doc)
        found = set(starts_of(doc))
        assert 0 in found
        for token, mark in list(zip(doc, marks, strict=True))[1:]:
            if mark is None:
                assert (token.i in found) == (scores[token.i] > 0 and not token.is_space)
                free += token.i in found
            else:
                assert (token.i in found) == mark
                forced += mark and scores[token.i] <= 0
                forbidden += not mark and scores[token.i] > 0
        assert_parsed(doc)
    # All of that occurred.
    assert min(forced, forbidden, free) > 10


def test_auto_takes_marks_that_a_user_sets_token_by_token(several):
    doc = several.make_doc(TEXT)
    doc[2].is_sent_start = True
    doc[5].is_sent_start = False
    assert starts_of(several(doc)) == [0, 2, 12]


def test_first_token_starts_a_sentence_whatever_is_said(several):
    doc = Doc(several.vocab, words=["She", "slept"], sent_starts=[False, True])
    assert starts_of(several(doc)) == [0, 1]


@pytest.mark.parametrize("name", ["sentencizer", "senter"])
def test_auto_keeps_what_an_earlier_component_found(several, quickstart_docs, name):
    nlp = spacy.blank("en")
    nlp.add_pipe(name, config={"punct_chars": ["old", "."]} if name == "sentencizer" else {})
    if name == "senter":
        examples = gold_examples(join(quickstart_docs[:10], 5), nlp)
        nlp.initialize(lambda: examples)
        nlp.update(examples)
    nlp.add_pipe("root_mst", source=several)
    differs = False
    for text in (TEXT, "She slept", "It rained? Yes."):
        expected = starts_of(nlp.get_pipe(name)(nlp.make_doc(text)))
        assert starts_of(nlp(text)) == expected
        differs |= starts_of(several(text)) != expected
    assert differs


def test_auto_keeps_boundaries_beside_labels_that_came_first(several):
    # An earlier component that sets DEP makes spaCy itself refuse to set boundaries.
    doc = several.make_doc(TEXT)
    doc[0].dep_ = "det"
    assert starts_of(several(doc)) == TEXT_STARTS
    assert_parsed(doc)


@pytest.mark.parametrize("mode", ["auto", "given"])
def test_boundaries_are_kept_beside_labels_without_heads(make, mode):
    # As from a sentencizer and rules that set labels after it: there is no tree yet.
    nlp = make(sentences=mode)
    doc = Doc(nlp.vocab, words=["She", "slept", "The", "dog", "came"], sent_starts=[1, 0, 1, 0, 0])
    doc[2].dep_ = "det"
    assert starts_of(nlp(doc)) == [0, 2]


@pytest.mark.parametrize("mode", ["auto", "given"])
def test_boundaries_are_kept_of_trees_with_another_label_on_roots(make, mode):
    nlp = make(sentences=mode)
    words, heads = ["She", "slept", "The", "dog", "came"], [1, 1, 3, 4, 4]
    deps = ["a", "top", "b", "c", "top"]
    assert starts_of(nlp(Doc(nlp.vocab, words=words, heads=heads, deps=deps))) == [0, 2]


# --- whitespace --------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_whitespace_anywhere_leaves_sound_trees(several, share):
    rng = rng_for("whitespace", share)
    for _ in range(25):
        doc = Doc(several.vocab, words=random_words(rng, int(rng.integers(1, 25)), share))
        doc = several(doc)
        assert_parsed(doc)
        assert not any(s[0].is_space for s in list(doc.sents)[1:])


@pytest.mark.parametrize("share", [0.2, 0.7])
def test_whitespace_under_a_users_own_boundaries(several, share):
    rng = rng_for("own boundaries", share)
    of_spaces_only = starting_with_space = 0
    for _ in range(40):
        words = random_words(rng, int(rng.integers(1, 25)), share)
        starts = [bool(x) for x in rng.random(len(words)) < 0.4]
        doc = several(Doc(several.vocab, words=words, sent_starts=starts))
        assert starts_of(doc) == sorted({0, *np.flatnonzero(starts).tolist()})
        assert_parsed(doc)
        of_spaces_only += sum(all(t.is_space for t in s) for s in doc.sents)
        starting_with_space += sum(s[0].is_space for s in doc.sents)
    assert of_spaces_only > 5
    assert starting_with_space > 10


@pytest.mark.parametrize(
    ("words", "heads"),
    [
        (["\n"], [0]),
        (["\n", " ", "\n"], [0, 0, 0]),
        (["\n", " ", "Yes"], [2, 2, 2]),
        (["Yes", "\n", " "], [0, 0, 0]),
        (["\n", "Yes", "\n"], [1, 1, 1]),
    ],
)
def test_whitespace_at_the_ends_of_a_doc(several, words, heads):
    doc = several(Doc(several.vocab, words=words))
    assert [token.head.i for token in doc] == heads
    assert len(list(doc.sents)) == 1


def test_whitespace_between_sentences_belongs_to_the_one_before(several):
    doc = several.make_doc("\n " + TEXT.replace(". ", ".\n\n  \n") + "\n\n")
    for token in doc:
        if token.text in ("A", "Who"):
            token.is_sent_start = True
    doc = several(doc)
    assert_parsed(doc)
    assert [sentence[0].text for sentence in list(doc.sents)[1:]] == ["A", "Who"]
    assert all(sentence[-1].is_space for sentence in doc.sents)


def test_any_tree_comes_into_the_doc_with_whitespace_anywhere():
    rng = rng_for("any tree")
    crossing = 0
    for _ in range(150):
        n = int(rng.integers(1, 40))
        doc = Doc(VOCAB, words=random_words(rng, n, 0.3))
        starts = bounds(np.flatnonzero(rng.random(n) < 0.15), n)
        sentences = scored_tokens(doc, starts)
        trees = [random_heads(rng, len(words), True) for words in sentences]
        parses = [
            SentenceParse(tree, ["ROOT" if h == 0 else "x" for h in tree[1:].tolist()], {})
            for tree in trees
        ]
        annotate(doc, doc_parse(doc, starts, sentences, iter(parses), "ROOT"))
        assert starts_of(doc) == starts[:-1].tolist()
        assert_parsed(doc)
        for words, tree in zip(sentences, trees, strict=True):
            for word, head in zip(words.tolist(), tree[1:].tolist(), strict=True):
                assert doc[word].head.i == (word if head == 0 else words[head - 1])
        crossing += any(t.left_edge.i < t.i < t.head.i < t.right_edge.i for t in doc)
    assert crossing > 10


# --- one sentence a Doc ------------------------------------------------------------------------


def warnings_of(caplog):
    return [r.getMessage() for r in caplog.records if "cannot be learnt" in r.getMessage()]


def test_training_docs_of_one_sentence_each_are_told_of_and_learnt(
    quickstart_docs, caplog, tmp_path
):
    nlp = make_nlp()
    with caplog.at_level(logging.WARNING, logger="spacy"):
        nlp.initialize(lambda: gold_examples(quickstart_docs[:20], nlp))
    [message] = warnings_of(caplog)
    assert message.startswith("[root_mst]")
    assert "one sentence" in message
    examples = gold_examples(quickstart_docs[:20], nlp)
    parser = nlp.get_pipe("root_mst")
    before = parser.model.get_ref("boundaries").to_bytes()
    optimizer = nlp.resume_training()
    for _ in range(3):
        nlp.update(examples, sgd=optimizer)
    assert parser.model.get_ref("boundaries").to_bytes() == before
    nlp.to_disk(tmp_path)
    bare = make_nlp()
    bare.get_pipe("root_mst").from_bytes(parser.to_bytes(exclude=["vocab"]), exclude=["vocab"])
    for pipeline in (nlp, spacy.load(tmp_path), make_nlp().from_bytes(nlp.to_bytes()), bare):
        doc = pipeline(TEXT * 3)
        assert len(list(doc.sents)) == 1
        # Where something is known it counts still.
        doc = pipeline.make_doc(TEXT)
        doc[12].is_sent_start = True
        assert starts_of(pipeline(doc)) == [0, 12]


def test_training_docs_of_several_sentences_are_not_warned_of(quickstart_docs, caplog):
    for docs in (
        join(quickstart_docs[:20], 2),
        [*quickstart_docs[:10], *join(quickstart_docs[10:12], 2)],
    ):
        nlp = make_nlp()
        with caplog.at_level(logging.WARNING, logger="spacy"):
            nlp.initialize(lambda docs=docs, nlp=nlp: gold_examples(docs, nlp))
        assert warnings_of(caplog) == []
        assert nlp.get_pipe("root_mst").cfg["finds_boundaries"] is True


@pytest.mark.parametrize("mode", ["given", "doc"])
def test_other_modes_have_nothing_to_warn_of(quickstart_docs, caplog, mode):
    nlp = make_nlp(sentences=mode)
    with caplog.at_level(logging.WARNING, logger="spacy"):
        nlp.initialize(lambda: gold_examples(quickstart_docs[:10], nlp))
    assert warnings_of(caplog) == []


def test_docs_that_find_boundaries_survive_a_round_trip(several, make, tmp_path):
    several.to_disk(tmp_path)
    for nlp in (spacy.load(tmp_path), make_nlp().from_bytes(several.to_bytes()), make()):
        assert starts_of(nlp(TEXT)) == TEXT_STARTS


# --- given -------------------------------------------------------------------------------------


def test_given_demands_boundaries(make):
    nlp = make(sentences="given")
    doc = nlp.make_doc(TEXT)
    with pytest.raises(ValueError, match=r"^\[root_mst\] .*no sentence boundaries.*sentencizer"):
        nlp(doc)
    assert not doc.has_annotation("DEP")
    assert not doc.has_annotation("SENT_START")


def test_given_names_the_component(make, several):
    nlp = spacy.blank("en")
    nlp.add_pipe("root_mst", name="trees", config={"model": SMALL_MODEL, "sentences": "given"})
    weights = several.get_pipe("root_mst").to_bytes(exclude=["vocab"])
    nlp.get_pipe("trees").from_bytes(weights, exclude=["vocab"])
    with pytest.raises(ValueError, match=r"^\[trees\] "):
        nlp(TEXT)


def test_given_in_a_stream_fails_for_that_doc_alone(make):
    nlp = make(sentences="given")
    failed = []
    nlp.set_error_handler(lambda name, proc, docs, error: failed.append((name, docs, error)))
    words = ["She", "slept", ".", "Yes"]
    starts = [True, False, False, True]
    docs = [
        Doc(nlp.vocab, words=words, sent_starts=starts),
        nlp.make_doc("Nothing is known here."),
        nlp.make_doc("Yes"),
        nlp.make_doc(""),
        Doc(nlp.vocab, words=words, sent_starts=starts),
    ]
    out = list(nlp.pipe(docs))
    assert [doc is docs[i] for doc, i in zip(out, (0, 2, 3, 4), strict=True)] == [True] * 4
    assert starts_of(out[0]) == starts_of(out[3]) == [0, 3]
    [(name, [doc], error)] = failed
    assert (name, doc) == ("root_mst", docs[1])
    assert "no sentence boundaries" in str(error)
    assert not doc.has_annotation("DEP")


def test_given_takes_unknown_for_no(make):
    nlp = make(sentences="given")
    doc = nlp.make_doc(TEXT)
    doc[12].is_sent_start = True
    assert starts_of(nlp(doc)) == [0, 12]


def test_given_learns_from_gold_boundaries(quickstart_docs):
    nlp = make_nlp(sentences="given")
    docs = join(quickstart_docs[:40], 4)
    train(nlp, gold_examples(docs, nlp), steps=60, size=5)
    examples = gold_examples(docs, nlp)
    for example in examples:
        for token, gold in zip(example.predicted, example.reference, strict=True):
            token.is_sent_start = gold.is_sent_start
    scores = nlp.evaluate(examples)
    assert scores["sents_f"] == 1.0
    assert scores["dep_uas"] > 0.9


# --- the whole Doc -------------------------------------------------------------------------------


def test_doc_mode_takes_a_doc_for_one_sentence(make):
    nlp = make(sentences="doc")
    doc = nlp.make_doc(TEXT)
    assert len(list(nlp(doc).sents)) == 1
    words = ["She", "slept", ".", "\n", "Yes"]
    doc = nlp(Doc(nlp.vocab, words=words, sent_starts=[True, False, False, True, True]))
    assert len(list(doc.sents)) == 1
    assert_parsed(doc)
    assert len(list(nlp(Doc(nlp.vocab, words=["\n", "\n"], sent_starts=[1, 1])).sents)) == 1


def test_doc_mode_parses_what_another_parser_had_split(several, make):
    doc = several(TEXT)
    assert starts_of(doc) == TEXT_STARTS
    doc = make(sentences="doc").get_pipe("root_mst")(doc)
    assert starts_of(doc) == [0]
    assert_parsed(doc)


def test_doc_mode_trains_on_whole_docs(quickstart_docs):
    docs = join(quickstart_docs[:6], 3)
    nlp = make_nlp(sentences="doc")
    examples = gold_examples(docs, nlp)
    for example in examples:
        assert training_starts(example, "ROOT", "doc").tolist() == [0, len(example.predicted)]
    gold = GoldBatch.from_examples(examples, "ROOT", "doc")
    assert [len(sentences) for sentences in gold.sentences] == [1, 1]
    assert (gold.heads == MISSING).sum() == 2
    for example, doc in zip(examples, docs, strict=True):
        # Also where boundaries are there.
        example.predicted[3].is_sent_start = True
        assert training_starts(example, "ROOT", "doc").tolist() == [0, len(doc)]


@pytest.mark.parametrize("objective", ["head_selection", "tree_crf", "perceptron"])
@pytest.mark.parametrize("mode", ["auto", "given", "doc"])
def test_every_mode_trains_with_every_objective(quickstart_docs, mode, objective):
    nlp = make_nlp(sentences=mode, objective=objective)
    examples = gold_examples(join(quickstart_docs[:6], 3), nlp)
    optimizer = nlp.initialize(lambda: examples)
    optimizer.learn_rate = 0.01
    losses = [nlp.update(examples, sgd=optimizer, drop=0.0)["root_mst"] for _ in range(15)]
    assert np.isfinite(losses).all()
    assert losses[-1] < 0.7 * losses[0]


@pytest.mark.parametrize("value", ["", "AUTO", "sentence"])
def test_unknown_mode_is_refused(value):
    with pytest.raises(
        ValueError, match=r"\[root_mst\] expected sentences to be one of auto, given"
    ):
        make_nlp(sentences=value)


def test_mode_is_saved_with_the_pipeline(make, tmp_path):
    make(sentences="doc").to_disk(tmp_path)
    assert spacy.load(tmp_path).get_pipe("root_mst").sentences == "doc"
    nlp = spacy.load(tmp_path, config={"components.root_mst.sentences": "auto"})
    assert starts_of(nlp(TEXT)) == TEXT_STARTS


# --- loss and gradient of the boundary head ------------------------------------------------------


@pytest.fixture
def learning(quickstart_docs):
    """A parser that has learnt little, and examples with all that may be odd about them."""
    nlp = make_nlp()
    examples = gold_examples(join(quickstart_docs[:8], 4), nlp)
    nlp.initialize(lambda: examples)
    words = ["She", "slept", ".", "\n", "It", "rained", "."]
    unknown = Doc(nlp.vocab, words=words)
    partial = Doc(nlp.vocab, words=words, sent_starts=[None, None, False, None, True, None, None])
    for gold in (unknown, partial, Doc(nlp.vocab)):
        plain = [token.text for token in gold]
        examples.append(Example(Doc(nlp.vocab, words=plain), gold))
    return nlp.get_pipe("root_mst"), examples


def scores_of(parser, examples):
    gold = GoldBatch.from_examples(examples, parser.root_label, parser.sentences)
    docs = [eg.predicted for eg in examples]
    return gold, parser.model.predict(ParserInput(docs, gold.sentences))


def test_boundary_gradient_in_the_component_matches_finite_differences(learning):
    parser, examples = learning
    gold, scores = scores_of(parser, examples)
    boundaries = scores.boundaries.astype("d")
    _, gradient = parser.get_loss(examples, scores._replace(boundaries=boundaries))
    assert (
        gradient.boundaries.shape == boundaries.shape == (sum(len(e.predicted) for e in examples),)
    )
    step = 1e-4
    for i in range(len(boundaries)):
        losses = []
        for change in (step, -step):
            moved = boundaries.copy()
            moved[i] += change
            losses.append(parser.get_loss(examples, scores._replace(boundaries=moved))[0])
        numeric = (losses[0] - losses[1]) / (2 * step)
        assert gradient.boundaries[i] == pytest.approx(numeric, abs=1e-5)
        assert (gradient.boundaries[i] != 0) == (gold.boundaries[i] != MISSING)


def test_boundary_gradient_of_unknown_tokens_is_zero(learning):
    parser, examples = learning
    _, scores = scores_of(parser, examples[2:])
    _, gradient = parser.get_loss(examples[2:], scores)
    known = np.zeros(14, dtype=bool)
    known[[7 + 2, 7 + 4]] = True
    assert (gradient.boundaries != 0).tolist() == known.tolist()


@pytest.mark.parametrize("mode", ["given", "doc"])
def test_boundaries_are_not_learnt_in_other_modes(quickstart_docs, mode):
    nlp = make_nlp(sentences=mode)
    examples = gold_examples(join(quickstart_docs[:8], 4), nlp)
    optimizer = nlp.initialize(lambda: examples)
    parser = nlp.get_pipe("root_mst")
    _, scores = scores_of(parser, examples)
    assert parser.get_loss(examples, scores)[1].boundaries is None
    before = parser.model.get_ref("boundaries").to_bytes()
    nlp.update(examples, sgd=optimizer)
    assert parser.model.get_ref("boundaries").to_bytes() == before


def test_boundary_gradient_reaches_the_token_vectors(quickstart_docs):
    # Two words of one sentence each: nothing but the boundary is to be learnt.
    nlp = make_nlp()
    gold = Doc(nlp.vocab, words=["Yes", "No"], heads=[0, 1], deps=["ROOT", "ROOT"])
    examples = [Example(Doc(nlp.vocab, words=["Yes", "No"]), gold)]
    optimizer = nlp.initialize(lambda: examples)
    before = nlp.get_pipe("root_mst").model.get_ref("tok2vec").to_bytes()
    nlp.update(examples, sgd=optimizer, drop=0.0)
    assert nlp.get_pipe("root_mst").model.get_ref("tok2vec").to_bytes() != before


# --- gold boundaries -----------------------------------------------------------------------------


def example_of(predicted, gold, spaces=None, gold_spaces=None, **annotation):
    return Example(
        Doc(VOCAB, words=predicted, spaces=spaces),
        Doc(VOCAB, words=gold, spaces=gold_spaces, **annotation),
    )


def starts_at(n, *starts):
    return [i in starts for i in range(n)]


def truths_of(example):
    return gold_boundaries(example, "ROOT").tolist()


def test_gold_boundaries_of_equal_tokens():
    words = ["a", "b", "c", "d"]
    example = example_of(words, words, sent_starts=starts_at(4, 0, 2))
    assert truths_of(example) == [MISSING, 0, 1, 0]
    heads = example_of(words, words, heads=[1, 1, 2, 2], deps=["x", "ROOT", "ROOT", "x"])
    assert truths_of(heads) == [MISSING, 0, 1, 0]


def test_gold_boundaries_of_crossing_trees():
    # The second sentence's root is not its first word.
    words = ["a", "b", "c", "d", "e"]
    example = example_of(words, words, heads=[0, 4, 4, 1, 4], deps=["ROOT", "x", "x", "x", "ROOT"])
    assert truths_of(example) == [MISSING, 1, 0, 0, 0]


def test_gold_boundaries_of_split_tokens():
    # Both pieces of "bc" come from the token that starts a sentence; the first piece starts it.
    example = example_of(
        ["a", "b", "c", "d"],
        ["a", "bc", "d"],
        spaces=[True, False, True, False],
        sent_starts=starts_at(3, 0, 1),
    )
    truths = truths_of(example)
    assert truths[:2] == [MISSING, 1]
    assert truths[2] in (0, MISSING)
    assert truths[3] == 0


def test_gold_boundaries_of_merged_tokens():
    example = example_of(
        ["a", "bc", "de", "f"],
        ["a", "b", "c", "d", "e", "f"],
        gold_spaces=[True, False, True, False, True, False],
        sent_starts=starts_at(6, 0, 1, 5),
    )
    assert truths_of(example) == [MISSING, 1, 0, 1]


def test_gold_boundaries_within_a_merged_token_teach_nothing_wrong():
    # The token ends one sentence and starts another: a tree cannot have both.
    example = example_of(
        ["a", "bc", "d"],
        ["a", "b", "c", "d"],
        gold_spaces=[True, False, True, False],
        sent_starts=starts_at(4, 0, 2),
    )
    truths = truths_of(example)
    assert truths[2] == 0
    starts = training_starts(example, "ROOT").tolist()
    assert (truths[1] == 1) == (1 in starts)


@pytest.mark.parametrize(
    ("words", "starts", "expected"),
    [
        # Leading whitespace is no question, and neither is the first word.
        (["\n", "a", "b", "c"], (0, 3), [-1, -1, 0, 1]),
        (["\n", "a", "b", "c"], (0, 1, 3), [-1, -1, 0, 1]),
        # Whitespace between: the sentence's first word counts.
        (["a", "b", "\n", "c"], (0, 2), [-1, 0, -1, 1]),
        (["a", "b", "\n", "c"], (0, 3), [-1, 0, -1, 1]),
        (["a", "\n", "b", " ", "c"], (0, 1, 3), [-1, -1, 1, -1, 1]),
        # A sentence of whitespace alone is followed by one.
        (["a", "\n", "\n", "b"], (0, 1, 3), [-1, -1, -1, 1]),
        (["a", "b", "\n"], (0, 2), [-1, 0, -1]),
        (["\n", "\n"], (0, 1), [-1, -1]),
    ],
)
def test_gold_boundaries_beside_whitespace(words, starts, expected):
    example = example_of(words, words, sent_starts=starts_at(len(words), *starts))
    assert truths_of(example) == expected


def test_gold_boundaries_where_only_one_side_has_whitespace():
    more = example_of(["a", "\n", "b", "\n", "c"], ["a", "b", "c"], sent_starts=starts_at(3, 0, 1))
    assert truths_of(more) == [MISSING, MISSING, 1, MISSING, 0]
    less = example_of(["a", "b", "c"], ["a", "\n", "b", "\n", "c"], sent_starts=starts_at(5, 0, 1))
    assert truths_of(less) == [MISSING, 1, 0]


def test_gold_boundaries_of_partial_marks():
    words = ["a", "b", "c", "d", "e"]
    example = example_of(words, words, sent_starts=[None, None, True, False, None])
    assert truths_of(example) == [MISSING, MISSING, 1, 0, MISSING]


def test_gold_boundaries_of_partial_marks_on_other_tokens():
    # "bc" covers tokens of which nothing is known.
    example = example_of(
        ["a", "bc", "d", "e", "f"],
        ["a", "b", "c", "d", "ef"],
        spaces=[True, True, True, False, False],
        gold_spaces=[True, False, True, True, False],
        sent_starts=[None, None, None, True, None],
    )
    assert truths_of(example) == [MISSING, MISSING, 1, MISSING, MISSING]


def test_gold_boundaries_of_missing_heads():
    words = ["She", "saw", "the", "cat", "."]
    labelled = example_of(
        words,
        words,
        heads=[1, 1, 3, None, None],
        deps=["nsubj", "ROOT", "det", "obj", "punct"],
    )
    # spaCy starts sentences at "the" and ".", because the head above each is missing.
    assert [t.i for t in labelled.reference if t.is_sent_start] == [0, 2, 4]
    assert truths_of(labelled) == [MISSING, 0, MISSING, 0, MISSING]
    joined = example_of(
        [*words, "It", "rained"],
        [*words, "It", "rained"],
        heads=[1, 1, 3, None, 1, 6, 6],
        deps=["nsubj", "ROOT", "det", "obj", "punct", "nsubj", "ROOT"],
    )
    # Nothing starts between a word and its head.
    assert truths_of(joined) == [MISSING, 0, 0, 0, 0, 1, 0]


def without_some_heads(doc, gone, keep_labels):
    heads = [None if lost else token.head.i for token, lost in zip(doc, gone, strict=True)]
    deps = [
        "" if lost and not keep_labels else token.dep_
        for token, lost in zip(doc, gone, strict=True)
    ]
    return Doc(VOCAB, words=[token.text for token in doc], heads=heads, deps=deps)


@pytest.mark.parametrize("keep_labels", [True, False])
@pytest.mark.parametrize("rate", [0.02, 0.1, 0.3, 0.6, 0.95])
def test_missing_heads_teach_no_false_boundary(rate, keep_labels, quickstart_docs):
    """SpaCy marks a sentence where a tree starts, also one that has lost its first words."""
    rng = rng_for("missing heads", rate, keep_labels)
    n_starts = n_known = 0
    for gold in join(quickstart_docs[:120], 4):
        reference = without_some_heads(gold, rng.random(len(gold)) < rate, keep_labels)
        example = Example(Doc(VOCAB, words=[token.text for token in gold]), reference)
        truths = gold_boundaries(example, "ROOT")
        starts = set(starts_of(gold)[1:])
        assert set(np.flatnonzero(truths == 1).tolist()) <= starts
        assert not starts & set(np.flatnonzero(truths == 0).tolist())
        n_starts += len(starts)
        n_known += int((truths == 1).sum())
        # Sentences to train with cut no tree in two.
        sentence = np.zeros(len(gold), dtype=int)
        sentence[training_starts(example, "ROOT")[:-1]] = 1
        sentence = np.cumsum(sentence)
        heads = reference_heads(reference, "ROOT")[0]
        known = np.flatnonzero(heads != MISSING)
        assert (sentence[known] == sentence[heads[known]]).all()
    if rate <= 0.1:
        assert n_known > 0.5 * n_starts


def test_words_without_a_head_between_two_trees_are_cut_somewhere():
    words = ["She", "slept", "A", "dog", "barked"]
    example = example_of(
        words,
        words,
        heads=[1, 1, None, 4, 4],
        deps=["nsubj", "ROOT", "", "nsubj", "ROOT"],
    )
    assert truths_of(example) == [MISSING, 0, MISSING, MISSING, 0]
    assert training_starts(example, "ROOT").tolist() == [0, 3, 5]
    # Words without a head before the first tree are no sentence.
    start = example_of(words[2:], words[2:], heads=[None, 2, 2], deps=["", "nsubj", "ROOT"])
    assert truths_of(start) == [MISSING, MISSING, 0]
    assert training_starts(start, "ROOT").tolist() == [0, 3]


def test_heads_set_by_hand_leave_open_where_sentences_start():
    doc = Doc(VOCAB, words=["The", "old", "dog", "barks", "in", "the", "house"])
    doc[3].dep_ = "ROOT"
    doc[6].head = doc[3]
    doc[6].dep_ = "obl"
    assert doc[3].is_sent_start
    assert known_starts(doc, "ROOT").tolist() == [1, 0, 0, 0, -1, -1, -1]


def test_boundaries_that_heads_did_not_make_are_known():
    doc = Doc(VOCAB, words=["a", "b", "c", "d"], sent_starts=starts_at(4, 0, 2))
    doc[3].dep_ = "ROOT"
    assert known_starts(doc, "ROOT").tolist() == [1, -1, 1, -1]


def test_whitespace_without_a_head_hides_no_boundary():
    words = ["She", "slept", "\n", "Dogs", " ", "bark"]
    heads = [1, 1, None, 5, None, 5]
    deps = ["nsubj", "ROOT", "", "nsubj", "", "ROOT"]
    example = example_of(words, words, heads=heads, deps=deps)
    assert truths_of(example) == [MISSING, 0, MISSING, 1, MISSING, 0]
    assert training_starts(example, "ROOT").tolist() == [0, 3, 6]


def test_heads_on_a_cycle_are_learnt_around(make, several):
    """All heads of four words; spaCy has no root for a sentence that is cut out of a cycle."""
    parser = make().get_pipe("root_mst")
    words = ["a", "b", "c", "d"]
    examples = []
    for heads in itertools.product(range(4), repeat=4):
        deps = ["ROOT" if head == i else "x" for i, head in enumerate(heads)]
        examples.append(example_of(words, words, heads=list(heads), deps=deps))
    for i in range(0, len(examples), 64):
        assert np.isfinite(parser.update(examples[i : i + 64])["root_mst"])
    for parse in parser.predict([example.reference for example in examples]):
        assert len(parse.starts) >= 2


def test_gold_boundaries_of_docs_that_say_nothing():
    words = ["a", "b", "c"]
    assert truths_of(example_of(words, words)) == [MISSING] * 3
    assert truths_of(example_of([], [])) == []
    assert truths_of(example_of(["a"], ["a"])) == [MISSING]
    assert truths_of(example_of(["a"], ["a"], sent_starts=[True])) == [MISSING]
    assert truths_of(example_of(words, words, tags=["X"] * 3)) == [MISSING] * 3


def test_gold_boundaries_agree_with_those_that_are_trained_on():
    """On equal tokens, fully marked, against a plain reading of the reference."""
    rng = rng_for("gold boundaries")
    for _ in range(100):
        n = int(rng.integers(1, 20))
        words = random_words(rng, n)
        marks = [bool(x) for x in rng.random(n) < 0.3]
        marks[0] = True
        example = example_of(words, words, sent_starts=marks)
        plain = [i for i in range(n) if not words[i].isspace()]
        sentence = np.cumsum(marks)
        expected = [MISSING] * n
        for before, word in itertools.pairwise(plain):
            expected[word] = int(sentence[before] != sentence[word])
        assert truths_of(example) == expected


def test_gold_boundaries_of_every_real_doc_are_its_sentences(quickstart_docs):
    for gold in join(quickstart_docs[:40], 4):
        [example] = gold_examples([gold], spacy.blank("en"))
        truths = gold_boundaries(example, "ROOT")
        assert [0, *np.flatnonzero(truths == 1).tolist()] == starts_of(gold)
        assert (truths == MISSING).sum() == 1


# --- odd batches ---------------------------------------------------------------------------------


def test_update_takes_odd_docs_among_others(learning):
    parser, examples = learning
    blank = Example(Doc(parser.vocab, words=["\n", " "]), Doc(parser.vocab, words=["\n", " "]))
    alone = parser.update(examples[:1])["root_mst"]
    assert alone > 0
    together = parser.update([*examples[2:3], blank, examples[-1], examples[0], blank])
    assert together["root_mst"] == pytest.approx(alone, rel=1e-4)


def test_update_with_some_boundaries_on_the_doc_trains_the_rest_on_gold(quickstart_docs):
    """A Doc that is annotated in part keeps what it has; elsewhere sentences are the gold ones."""
    gold = Doc.from_docs(quickstart_docs[:4])
    [example] = gold_examples([gold], spacy.blank("en"))
    expected = training_starts(example, "ROOT").tolist()
    assert expected == [*starts_of(gold), len(gold)]
    example.predicted[expected[1]].is_sent_start = True
    assert training_starts(example, "ROOT").tolist() == expected
