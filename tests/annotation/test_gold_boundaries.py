"""Sentence starts of reference Docs: the known ones, and the ones to train on."""

import itertools
import re

import numpy as np
import pytest
import spacy
from parsers import join, random_words, starts_of
from spacy.tokens import Doc
from spacy.training import Example
from strategies import rng_for

from spacy_rootmind.annotation.gold import gold_boundaries, training_starts
from spacy_rootmind.annotation.reading import annotated_heads, annotated_starts
from spacy_rootmind.annotation.sentences import TokenRow
from spacy_rootmind.trees.conventions import MISSING

VOCAB = spacy.blank("xx").vocab


def example_of(predicted, gold, spaces=None, gold_spaces=None, **annotation):
    return Example(
        Doc(VOCAB, words=predicted, spaces=spaces),
        Doc(VOCAB, words=gold, spaces=gold_spaces, **annotation),
    )


def starts_at(n, *starts):
    return [i in starts for i in range(n)]


def truths_of(example):
    return gold_boundaries(example, "ROOT").tolist()


def docs_of(predicted, gold=None, starts=(), **annotation):
    """An example, given texts: a bar is between tokens without a space, `n` is a line end."""
    words, spaces = tokens(predicted)
    gold_words, gold_spaces = tokens(gold or predicted)
    if starts:
        annotation["sent_starts"] = starts_at(len(gold_words), *starts)
    return example_of(words, gold_words, spaces, gold_spaces, **annotation)


def tokens(text):
    """The tokens of a text, and whether there is a space after each."""
    found = [(token, " ") for chunk in text.split() for token in chunk.split("|")]
    marks = re.findall(r"[ |]", text)
    words = ["\n" if token == "n" else token for token, _ in found]
    return words, [*(mark == " " for mark in marks), False]


@pytest.mark.parametrize(
    ("predicted", "gold", "starts", "expected"),
    [
        # Both pieces of "bc" come from the token that starts a sentence; the first piece starts it.
        ("a b|c d", "a bc d", (0, 1), [-1, 1, (0, -1), 0]),
        ("a bc de f", "a b|c d|e f", (0, 1, 5), [-1, 1, 0, 1]),
        # Only one side has whitespace.
        ("a n b n c", "a b c", (0, 1), [-1, -1, 1, -1, 0]),
        ("a b c", "a n b n c", (0, 1), [-1, 1, 0]),
        # Docs that say nothing.
        ("a b c", None, (), [-1, -1, -1]),
        ("a", None, (), [-1]),
        ("a", None, (0,), [-1]),
        # Marks of some tokens: "bc" covers tokens of which nothing is known.
        ("a b c d e", None, [None, None, True, False, None], [-1, -1, 1, 0, -1]),
        ("a bc d e|f", "a b|c d ef", [None, None, None, True, None], [-1, -1, 1, -1, -1]),
    ],
)
def test_gold_boundaries(predicted, gold, starts, expected):
    """A -1 is an unknown predicted token; a pair lists the possible values."""
    marks = {"sent_starts": starts} if isinstance(starts, list) else {"starts": starts}
    truths = truths_of(docs_of(predicted, gold, **marks))
    for found, right in zip(truths, expected, strict=True):
        assert found in (right if isinstance(right, tuple) else (right,))


def test_gold_boundaries_within_a_merged_token_teach_nothing_wrong():
    # The token ends one sentence and starts another: a tree cannot have both.
    example = docs_of("a bc d", "a b|c d", (0, 2))
    truths = truths_of(example)
    assert truths[2] == 0
    starts = training_starts(example, "ROOT").tolist()
    assert (truths[1] == 1) == (1 in starts)


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
        heads = annotated_heads(reference, "ROOT")[0]
        known = np.flatnonzero(heads != MISSING)
        assert (sentence[known] == sentence[heads[known]]).all()
    if rate <= 0.1:
        assert n_known > 0.5 * n_starts


TREES = [
    ("a b c d", [1, 1, 2, 2], "x ROOT ROOT x", [-1, 0, 1, 0], [0, 2, 4]),
    # Crossing trees: the second sentence's root is not its first word.
    ("a b c d e", [0, 4, 4, 1, 4], "ROOT x x x ROOT", [-1, 1, 0, 0, 0], [0, 1, 5]),
    # spaCy starts false sentences at tokens without a head, here "cat" and ".".
    (
        *("She saw the cat .", [1, 1, 3, None, None], "nsubj ROOT det obj punct"),
        *([-1, 0, -1, 0, -1], None),
    ),
    # Nothing starts between a word and its head.
    (
        *("She saw the cat . It rained", [1, 1, 3, None, 1, 6, 6]),
        *("nsubj ROOT det obj punct nsubj ROOT", [-1, 0, 0, 0, 0, 1, 0], [0, 5, 7]),
    ),
    # Words without a head between two trees are cut somewhere.
    (
        *("She slept A dog barked", [1, 1, None, 4, 4], "nsubj ROOT - nsubj ROOT"),
        *([-1, 0, -1, -1, 0], [0, 3, 5]),
    ),
    # Words without a head before the first tree are no sentence.
    ("A dog barked", [None, 2, 2], "- nsubj ROOT", [-1, -1, 0], [0, 3]),
    # Whitespace without a head hides no boundary.
    (
        *("She slept n Dogs n bark", [1, 1, None, 5, None, 5], "nsubj ROOT - nsubj - ROOT"),
        *([-1, 0, -1, 1, -1, 0], [0, 3, 6]),
    ),
]


@pytest.mark.parametrize(("text", "heads", "deps", "truths", "starts"), TREES)
def test_boundaries_of_trees(text, heads, deps, truths, starts):
    """A minus is no label."""
    example = docs_of(text, heads=heads, deps=[dep.strip("-") for dep in deps.split()])
    assert truths_of(example) == truths
    assert starts is None or training_starts(example, "ROOT").tolist() == starts


def test_no_sentence_of_whitespace_starts_where_nothing_is_stated():
    row = TokenRow([Doc(VOCAB, words=["\n", "a", " ", "b"]), Doc(VOCAB, words=["a", "b"])])
    assert annotated_starts(row, "ROOT").tolist() == [1, -1, -1, 0, 1, 0]


def test_heads_set_by_hand_leave_open_where_sentences_start():
    doc = Doc(VOCAB, words=["The", "old", "dog", "barks", "in", "the", "house"])
    doc[3].dep_ = "ROOT"
    doc[6].head = doc[3]
    doc[6].dep_ = "obl"
    assert doc[3].is_sent_start
    assert annotated_starts(TokenRow([doc]), "ROOT").tolist() == [1, 0, 0, 0, -1, -1, -1]


def test_boundaries_that_heads_did_not_make_are_known():
    doc = Doc(VOCAB, words=["a", "b", "c", "d"], sent_starts=starts_at(4, 0, 2))
    doc[3].dep_ = "ROOT"
    assert annotated_starts(TokenRow([doc]), "ROOT").tolist() == [1, -1, 1, -1]


def test_gold_boundaries_of_other_annotation():
    assert truths_of(docs_of("a b c", tags=["X"] * 3)) == [MISSING] * 3
    assert truths_of(example_of([], [])) == []


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
