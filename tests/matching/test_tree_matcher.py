"""Matches over all trees, by enumeration, spaCy's DependencyMatcher and the parser's samples."""

from collections import defaultdict
from itertools import product

import numpy as np
import pytest
import spacy
from reference import enumerate_trees
from spacy.matcher import DependencyMatcher
from spacy.tokens import Doc

import spacy_rootmind
from spacy_rootmind import TreeDistribution, TreeMatcher
from spacy_rootmind.annotation.details import ParseDetails, StoredTrees
from spacy_rootmind.annotation.records import store_records

OPERATORS = [
    *("<", ">", "<<", ">>", ".", ".*", ";", ";*", "$+", "$-", "$++", "$--"),
    *(">+", ">-", ">++", ">--", "<+", "<-", "<++", "<--"),
]
WORDS = ["a", "b"]
# Conditions on the tokens of random Docs, and of real sentences.
RANDOM_NODES = [
    {},
    {"ORTH": "a"},
    {"DEP": "x"},
    {"DEP": {"NOT_IN": ["x"]}},
    {"DEP": {"REGEX": "^ROOT|y"}, "ORTH": "a"},
    {"ORTH": {"NOT_IN": ["a"]}, "DEP": "x"},
]
REAL_NODES = [
    {"POS": "VERB"},
    {"POS": {"IN": ["NOUN", "PROPN", "PRON"]}},
    {"DEP": {"IN": ["nsubj", "obj", "obl", "ROOT"]}},
    {"POS": {"NOT_IN": ["DET"]}},
]
TEXT = (
    "She saw the man with the telescope. The old man the boat near the river, and we left. "
    "He told the girl that he liked the story about the dog."
)


def make_pattern(rng, nodes, *operators):
    """A pattern whose nodes have relations to random earlier ones."""
    pattern = [{"RIGHT_ID": "0", "RIGHT_ATTRS": nodes[rng.integers(len(nodes))]}]
    for i, operator in enumerate(operators, start=1):
        attributes = nodes[rng.integers(len(nodes))]
        left = str(rng.integers(i))
        pattern.append(
            {"LEFT_ID": left, "REL_OP": operator, "RIGHT_ID": str(i), "RIGHT_ATTRS": attributes}
        )
    return pattern


def make_patterns(rng, nodes):
    """A pattern of three nodes for each operator, with another random one."""
    return {
        operator: make_pattern(rng, nodes, operator, OPERATORS[rng.integers(len(OPERATORS))])
        for operator in OPERATORS
    }


def make_matcher(kind, nlp, patterns):
    matcher = kind(nlp.vocab)
    for key, pattern in patterns.items():
        matcher.add(key, [pattern])
    return matcher


def spacy_matches(matcher, patterns, doc):
    """The matches of DependencyMatcher, without children of a root that it calls its siblings."""
    found = set()
    for number, tokens in matcher(doc):
        pattern = patterns[key := doc.vocab.strings[number]]
        place = {node["RIGHT_ID"]: token for node, token in zip(pattern, tokens, strict=True)}
        lefts = [place[n["LEFT_ID"]] for n in pattern[1:] if n["REL_OP"].startswith("$")]
        if not any(doc[left].head.i == left for left in lefts):
            found.add((key, *tokens))
    return found


def random_trees(rng, n):
    """Random weights of arcs, and probabilities of the labels x and y; z has the rest, unlisted."""
    log_weights = rng.normal(scale=2, size=(n, n))
    log_weights = (log_weights - log_weights.max(axis=1, keepdims=True)).astype(np.float32)
    if n > 3:
        log_weights[0, 2] = -np.inf
    scores = np.zeros((n + 1, n + 1))
    scores[1:, 1:], scores[1:, 0] = log_weights, log_weights.diagonal()
    deps, heads = np.nonzero(np.ones((n, n)))
    label_probs = rng.dirichlet(np.ones(3), size=(n, n))[..., :2]
    label_probs[np.arange(n), np.arange(n)] = [1, 0]
    marginals = TreeDistribution(scores).marginals[1:, 1:] + np.diag(
        TreeDistribution(scores).marginals[1:, 0]
    )
    rows = [
        (dep, head, 0 if dep == head else label + 1, probs * marginals[dep, head])
        for dep, head in zip(deps, heads, strict=True)
        for label, probs in enumerate(label_probs[dep, head])
    ]
    columns = [np.array(column, dtype=np.int32) for column in list(zip(*rows, strict=True))[:3]]
    probs = np.array([row[3] for row in rows])
    stored = StoredTrees(("ROOT", "x", "y"), *columns, probs, log_weights, False)
    return stored, scores, label_probs


def enumerate_matches(matcher, patterns, words, scores, label_probs):
    """The probability of each match, from all labelled trees."""
    n, totals = len(words), defaultdict(float)
    trees = enumerate_trees(n, single_root=True)
    weights = np.exp([scores[np.arange(1, n + 1), tree[1:]].sum() for tree in trees])
    for tree, prob in zip(trees, weights / weights.sum(), strict=True):
        heads = [token if head == 0 else head - 1 for token, head in enumerate(tree[1:].tolist())]
        for labels in product(*([0] if head == i else [1, 2, 3] for i, head in enumerate(heads))):
            own = prob
            for i, (head, label) in enumerate(zip(heads, labels, strict=True)):
                probs = [1.0, *label_probs[i, head], 1 - label_probs[i, head].sum()]
                own *= probs[label]
            deps = [("ROOT", "x", "y", "z")[label] for label in labels]
            doc = Doc(matcher.vocab, words=words, heads=heads, deps=deps)
            for match in spacy_matches(matcher, patterns, doc):
                totals[match] += own
    return {match: prob for match, prob in totals.items() if prob > 1e-12}


@pytest.mark.parametrize(("n", "seed"), [(2, 0), (3, 14), (3, 15), (4, 2)])
def test_enumeration(n, seed):
    rng, nlp = np.random.default_rng(seed), spacy.blank("en")
    patterns = make_patterns(rng, RANDOM_NODES)
    if n == 4:
        patterns = {key: patterns[key] for key in rng.choice(OPERATORS, 5, replace=False)}
    stored, scores, label_probs = random_trees(rng, n)
    words = rng.choice(WORDS, n).tolist()
    theirs = make_matcher(DependencyMatcher, nlp, patterns)
    expected = enumerate_matches(theirs, patterns, words, scores, label_probs)
    doc = Doc(nlp.vocab, words=words, heads=[0] * n, deps=["ROOT", *["x"] * (n - 1)])
    details = ParseDetails(np.zeros(n, np.int32), np.ones(n, np.bool_), trees=stored)
    store_records(doc, [(0, n, details)])
    matcher = make_matcher(TreeMatcher, nlp, patterns)
    found = {
        (match.key, *(token.i for token in match.tokens)): match
        for match in matcher(doc, threshold=0)
    }
    # Nothing is pruned that is probable enough; only the bounds of chains may end elsewhere.
    for threshold in (0.1, 0.4):
        listed = {(m.key, *(token.i for token in m.tokens)) for m in matcher(doc, threshold)}
        probable = {key for key, match in found.items() if match.prob >= threshold}
        assert all(abs(found[key].prob - threshold) < 0.01 for key in listed ^ probable)
        assert all(found[key].low < found[key].high for key in listed ^ probable)
    assert found.keys() >= {match for match, prob in expected.items() if prob > 1e-9}
    for key, match in found.items():
        prob = expected.get(key, 0.0)
        assert match.low - 1e-9 <= prob <= match.high + 1e-9
        assert match.high - match.low <= 0.01
        if not {">>", "<<"} & {node.get("REL_OP") for node in patterns[match.key]}:
            assert match.low == match.prob == match.high
    parsed = spacy_matches(theirs, patterns, doc)
    assert {key for key, match in found.items() if match.in_parse} == parsed & found.keys()


@pytest.fixture(scope="module")
def nlp(web_pipeline):
    nlp = spacy.load(web_pipeline)
    spacy_rootmind.configure(nlp, keep_trees=True, confidence=True)
    return nlp


def test_matches_of_the_parse(nlp):
    rng, doc = np.random.default_rng(0), nlp(TEXT + " \n It ended.")
    # The Doc keeps no labels of less probable arcs.
    assert all(token._.arc_prob > 1e-3 for token in doc)
    for _ in range(2):
        patterns = make_patterns(rng, REAL_NODES)
        expected = spacy_matches(make_matcher(DependencyMatcher, nlp, patterns), patterns, doc)
        matches = make_matcher(TreeMatcher, nlp, patterns)(doc, threshold=0.0005)
        found = {(m.key, *(token.i for token in m.tokens)) for m in matches if m.in_parse}
        assert found == expected
        assert len(expected) > 20
        assert [m.prob for m in matches] == sorted((m.prob for m in matches), reverse=True)


def relation(left, operator, right, **attributes):
    return {"LEFT_ID": left, "REL_OP": operator, "RIGHT_ID": right, "RIGHT_ATTRS": attributes}


def test_probabilities_of_arcs(nlp):
    [sent] = nlp("She saw the man with the telescope.").sents
    for token in sent:
        prob = sent._.trees.prob
        assert prob([(token, token.head, None)]) == pytest.approx(token._.head_prob, abs=1e-5)
        assert prob([(token, token.head, token.dep_)]) == pytest.approx(token._.arc_prob, abs=1e-5)
    she, saw, _, man, *_ = sent
    both = prob([(she, saw, "nsubj"), (man, saw, "obj"), (man, saw, None)])
    assert 0.9 < both <= min(she._.arc_prob, man._.arc_prob)
    assert prob([]) == pytest.approx(1)
    # No tree has these: two heads, two labels, a cycle, two roots, a label that is none.
    assert prob([(she, saw, None), (she, man, None)]) == 0
    assert prob([(she, saw, "nsubj"), (she, saw, "obj")]) == 0
    assert prob([(she, saw, None), (saw, she, None)]) == 0
    assert prob([(she, she, None), (saw, saw, None)]) == 0
    assert prob([(she, saw, "Nsubj")]) == 0
    with pytest.raises(ValueError, match="tokens of the sentence 'She saw the man"):
        prob([(she, nlp("Other words")[0], None)])


def test_trees_move_with_a_sentence(nlp):
    matcher = make_matcher(
        TreeMatcher, nlp, {"svo": [{"RIGHT_ID": "v", "RIGHT_ATTRS": {"POS": "VERB"}},
                                   relation("v", ">", "s", DEP="nsubj")]}
    )  # fmt: skip
    doc = nlp(TEXT)
    last = list(doc.sents)[-1]
    in_last = [(m.prob, m.in_parse) for m in matcher(last)]
    assert in_last
    alone = last.as_doc(copy_user_data=True)
    assert [(m.prob, m.in_parse) for m in matcher(alone)] == in_last
    with pytest.raises(ValueError, match="keep_trees=True"):
        matcher(last.as_doc())
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[0:2])
    with pytest.raises(ValueError, match="tokenized again"):
        matcher(doc)


def test_a_label_may_have_been_removed(nlp):
    pattern = [{"RIGHT_ID": "s", "RIGHT_ATTRS": {"DEP": "nsubj"}}]
    matcher, doc = make_matcher(TreeMatcher, nlp, {"subject": pattern}), nlp("She saw him.")
    [before] = matcher(doc)
    doc[0].dep_ = ""
    [after] = matcher(doc)
    assert (after.prob, before.in_parse, after.in_parse) == (before.prob, True, False)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ([], "E012"),
        ([{"RIGHT_ID": "a"}], "KeyError: 'RIGHT_ATTRS'"),
        ([{"RIGHT_ID": "a", "RIGHT_ATTRS": 5}], "AttributeError"),
        ([{"RIGHT_ID": "a", "RIGHT_ATTRS": {"HEAD": 1}}], "HEAD -> Extra inputs|HEAD"),
        ([{"RIGHT_ID": "a", "RIGHT_ATTRS": {"DEP": {"REGEX": "("}}}], "unterminated"),
        ([{"RIGHT_ID": "a", "RIGHT_ATTRS": {"OP": "+"}}], "E1016"),
        ([{"RIGHT_ID": "a", "RIGHT_ATTRS": {"OP": "!"}}], 'expected no "OP"'),
        ([{"RIGHT_ID": "a", "RIGHT_ATTRS": {}}, relation("a", ">>>", "b")], "E1007"),
        ([{"RIGHT_ID": "a", "RIGHT_ATTRS": {}}, relation("c", ">", "b")], "E101"),
    ],
)
def test_invalid_patterns(pattern, message):
    matcher = TreeMatcher(spacy.blank("en").vocab)
    with pytest.raises(ValueError, match=message):
        matcher.add("key", [pattern])
    assert matcher(Doc(matcher.vocab, words=["a"])) == []
