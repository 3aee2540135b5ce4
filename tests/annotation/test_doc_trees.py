"""Trees written into a Doc, against plain Python over the same heads."""

import numpy as np
import pytest
import spacy
from reference import random_heads
from spacy.tokens import Doc

from spacy_rootmind.annotation.doc_trees import set_trees


@pytest.fixture(scope="module")
def vocab():
    return spacy.blank("xx").vocab


def plain_doc(vocab, n):
    return Doc(vocab, words=[f"w{i}" for i in range(n)])


def write(doc, heads, starts, label="dep"):
    deps = np.full(len(doc), doc.vocab.strings.add(label), dtype=np.uint64)
    set_trees(doc, np.asarray(heads, np.int32), deps, np.asarray([*starts, len(doc)], np.int32))


def subtree_of(heads, node):
    """All tokens from which following heads leads to `node`."""
    inside = []
    for i in range(len(heads)):
        j = i
        while j != node and heads[j] != j:
            j = heads[j]
        if j == node:
            inside.append(i)
    return inside


def random_doc_heads(rng, lengths):
    """Token heads of several random sentences, a root's being its own index."""
    heads, starts = [], []
    for n in lengths:
        start = len(heads)
        starts.append(start)
        tree = random_heads(rng, n, True)[1:]
        heads += [start + i if h == 0 else start + int(h) - 1 for i, h in enumerate(tree)]
    return heads, starts


def assert_doc_agrees(doc, heads, starts):
    stops = [*starts[1:], len(heads)]
    assert [(s.start, s.end) for s in doc.sents] == list(zip(starts, stops, strict=True))
    assert [token.head.i for token in doc] == list(heads)
    for token in doc:
        subtree = subtree_of(heads, token.i)
        dependents = [i for i, h in enumerate(heads) if h == token.i and i != token.i]
        assert token.left_edge.i == min(subtree)
        assert token.right_edge.i == max(subtree)
        assert [t.i for t in token.lefts] == [i for i in dependents if i < token.i]
        assert [t.i for t in token.rights] == [i for i in dependents if i > token.i]
        assert token.n_lefts + token.n_rights == len(dependents)
        assert sorted(t.i for t in token.subtree) == subtree
    for sentence in doc.sents:
        assert heads[sentence.root.i] == sentence.root.i


@pytest.mark.parametrize("n_sentences", [1, 5])
def test_set_trees_of_random_sentences(vocab, n_sentences):
    rng = np.random.default_rng(n_sentences)
    for _ in range(30):
        lengths = [60] if n_sentences == 1 else rng.integers(1, 30, size=n_sentences)
        heads, starts = random_doc_heads(rng, lengths)
        doc = plain_doc(vocab, len(heads))
        write(doc, heads, starts)
        assert_doc_agrees(doc, heads, starts)


def test_set_trees_overwrites_an_earlier_parse(vocab):
    doc = plain_doc(vocab, 4)
    write(doc, [1, 1, 3, 3], [0, 2])
    write(doc, [0, 0, 1, 2], [0], label="other")
    assert_doc_agrees(doc, [0, 0, 1, 2], [0])
    assert {token.dep_ for token in doc} == {"other"}


@pytest.mark.parametrize(
    ("heads", "starts", "message"),
    [
        ([1, 0, 2], [0], "cycle"),
        ([0, 1, 1], [0], "2 roots"),
        ([1, 2, 0], [0], "0 roots"),
        ([0, 0, 0], [0, 2], "outside its sentence"),
        ([0, 0, 3], [0], "outside its sentence"),
        ([0, 0, -1], [0], "outside its sentence"),
        ([0, 0], [0], "expected 3 heads"),
        ([0, 0, 0], [1], "sentence starts"),
        ([0, 0, 2], [0, 2, 1, 2], "ascending"),
    ],
)
def test_set_trees_refuses_before_writing(vocab, heads, starts, message):
    doc = plain_doc(vocab, 3)
    write(doc, [2, 2, 2], [0])
    deps = np.full(len(heads), doc.vocab.strings["dep"], dtype=np.uint64)
    with pytest.raises(ValueError, match=message):
        set_trees(doc, np.asarray(heads, np.int32), deps, np.asarray([*starts, 3], np.int32))
    assert_doc_agrees(doc, [2, 2, 2], [0])


def test_set_trees_empty_doc(vocab):
    doc = plain_doc(vocab, 0)
    write(doc, [], [])
    assert len(doc) == 0
