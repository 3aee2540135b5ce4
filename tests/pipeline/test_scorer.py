"""Scores against counts made by hand."""

import itertools

import numpy as np
import pytest
import spacy
from spacy.pipeline.dep_parser import parser_score
from spacy.tokens import Doc
from spacy.training import Example

from spacy_rootmind.pipeline.scorer import score_parses

WORDS = ["She", "saw", "the", "cat", ".", "It", "slept", "."]
HEADS = [1, 1, 3, 1, 1, 6, 6, 6]
DEPS = ["nsubj", "ROOT", "det", "obj", "punct", "nsubj", "ROOT", "punct"]
ALL = ["dep_uas", "dep_las", "dep_ls", "dep_uas_all", "dep_las_all", "dep_uem", "dep_lem"]
ALL += ["root_acc", "sents_f"]
STARTS = [True, False, False, False, False, True, False, False]


@pytest.fixture(scope="module")
def vocab():
    return spacy.blank("xx").vocab


def make_doc(vocab, heads=HEADS, deps=DEPS, words=WORDS, **kwargs):
    return Doc(vocab, words=words, heads=heads, deps=deps, **kwargs)


@pytest.mark.parametrize(
    ("predicted", "gold", "expected"),
    [
        ({}, {}, dict.fromkeys(ALL, 1.0)),
        # "the" gets a wrong head, "cat" a wrong label, the last full stop a wrong head.
        (
            {"heads": [1, 1, 1, 1, 1, 6, 6, 5], "deps": [*DEPS[:3], "iobj", *DEPS[4:]]},
            {},
            {
                **{"dep_uas_all": 6 / 8, "dep_las_all": 5 / 8, "dep_uas": 5 / 6, "dep_las": 4 / 6},
                **{"dep_ls": 5 / 6, "dep_uem": 0.0, "root_acc": 1.0},
            },
        ),
        # Another root of the first sentence.
        (
            {"heads": [0, 0, *HEADS[2:]], "deps": ["ROOT", "ccomp", *DEPS[2:]]},
            {},
            {"dep_uem": 0.5, "dep_lem": 0.5, "root_acc": 0.5},
        ),
        # A word without a gold head.
        (
            {"heads": [1, 1, 3, 2, 1, 6, 6, 6]},
            {"deps": [*DEPS[:3], "", *DEPS[4:]]},
            {"dep_uas_all": 1.0},
        ),
        # Subtypes count, except in the shared task of 2018.
        (
            {"deps": [*DEPS[:3], "obl:npmod", *DEPS[4:]]},
            {"deps": [*DEPS[:3], "obl:tmod", *DEPS[4:]]},
            {"dep_las_all": 7 / 8, "dep_las_conll18": 1.0},
        ),
    ],
)
def test_scores(vocab, predicted, gold, expected):
    scores = score_parses([Example(make_doc(vocab, **predicted), make_doc(vocab, **gold))])
    assert {name: scores[name] for name in expected} == pytest.approx(expected)
    assert scores["root_violations"] == 0.0


def test_score_counts_sentences_with_several_roots(vocab):
    doc = make_doc(vocab, sent_starts=STARTS)
    # spaCy starts a sentence at every root, so a violation needs heads that leave their sentence.
    predicted = Doc(vocab, words=WORDS[:4], heads=[2, 3, 2, 3], deps=["a", "b", "ROOT", "ROOT"])
    reference = Doc(vocab, words=WORDS[:4], heads=[1, 1, 3, 1], deps=DEPS[:4])
    scores = score_parses([Example(doc, make_doc(vocab)), Example(predicted, reference)])
    assert scores["root_violations"] > 0.0


def test_score_counts_misaligned_words_as_wrong(vocab):
    reference = Doc(vocab, words=["a", "bc"], heads=[0, 0], deps=["ROOT", "x"])
    predicted = Doc(
        vocab,
        words=["a", "b", "c"],
        spaces=[True, False, True],
        heads=[0, 0, 1],
        deps=["ROOT", "x", "x"],
    )
    scores = score_parses([Example(predicted, reference)])
    assert scores["dep_uas_all"] == 0.5
    assert scores["dep_uem"] == 0.0


def test_scores_of_nothing_and_of_unparsed_docs(vocab):
    scores = score_parses([Example(Doc(vocab), Doc(vocab))])
    assert scores["dep_uas_all"] is None
    assert scores["root_violations"] is None
    scores = score_parses([Example(Doc(vocab, words=WORDS), make_doc(vocab))])
    assert scores["dep_uas_all"] == 0.0
    assert scores["root_violations"] is None


def test_conll18_las_is_an_f1_over_both_tokenizations(vocab):
    """The gold "cat" is two predicted words, and neither counts: 7 of 8 and of 9 words are right.

    One of these words, "the", is wrong as well: its gold head is "cat".
    """
    words = ["She", "saw", "the", "ca", "t", ".", "It", "slept", "."]
    spaces = [True, True, True, False, True, True, True, True, False]
    heads = [1, 1, 3, 1, 3, 1, 7, 7, 7]
    deps = ["nsubj", "ROOT", "det", "obj", "flat", "punct", "nsubj", "ROOT", "punct"]
    predicted = Doc(vocab, words=words, spaces=spaces, heads=heads, deps=deps)
    scores = score_parses([Example(predicted, make_doc(vocab))])
    assert scores["dep_las_conll18"] == pytest.approx(2 * 6 / (8 + 9))


def spaced(vocab, deps=("nsubj", "dep", "ROOT", "dep")):
    return Doc(vocab, words=["She", " ", "slept", "\n"], heads=[2, 0, 2, 2], deps=list(deps))


def partly_annotated(vocab):
    return Doc(vocab, words=WORDS, heads=[None, *HEADS[1:]], deps=["", *DEPS[1:]])


def example_of(make, vocab):
    """A Doc against itself, or against the same tree where heads are missing."""
    gold = make(vocab)
    return Example(make_doc(vocab) if make is partly_annotated else gold.copy(), gold)


@pytest.mark.parametrize(
    "makers",
    [
        [make_doc],
        [spaced],
        [partly_annotated],
        *itertools.permutations([make_doc, spaced, partly_annotated]),
    ],
)
def test_right_parses_have_full_scores_in_any_order(vocab, makers):
    scores = score_parses([example_of(make, vocab) for make in makers])
    # spaCy's boundaries of a Doc that lacks heads follow from the heads that it has.
    names = ["dep_las_conll18", *(name for name in ALL if name != "sents_f")]
    assert {name: scores[name] for name in names} == dict.fromkeys(names, 1.0)
    assert {score["f"] for score in scores["dep_las_per_type"].values()} == {1.0}


def test_predicted_words_that_cover_no_gold_head_do_not_count(vocab):
    """Two gold words without heads are one predicted word, and a third is two."""
    gold = Doc(
        vocab,
        words=["can", "not", "gonna", "go"],
        spaces=[False, True, True, False],
        heads=[None, None, None, 3],
        deps=["", "", "", "ROOT"],
    )
    predicted = Doc(
        vocab,
        words=["cannot", "gon", "na", "go"],
        spaces=[True, False, True, False],
        heads=[3, 3, 1, 3],
        deps=["aux", "aux", "x", "ROOT"],
    )
    scores = score_parses([Example(predicted, gold)])
    assert scores["dep_uas"] == scores["dep_las"] == scores["dep_las_conll18"] == 1.0


def test_scores_of_complete_docs_are_those_of_spacy(vocab, quickstart_docs):
    rng = np.random.default_rng(0)
    examples = [Example(damaged(doc, rng), doc) for doc in quickstart_docs[:60]]
    for settings in ({}, {"ignore_labels": ("det", "p")}):
        expected = parser_score(examples, **settings)
        scores = score_parses(examples, **settings)
        assert 0.3 < scores["dep_las"] < scores["dep_uas"] < 0.9
        assert {name: scores[name] for name in expected} == expected


def damaged(gold, rng):
    """Other heads and labels for some words; some words are split, or merged with the next."""
    words, spaces = [], []
    merge = False
    for token in gold:
        piece, space = token.text, bool(token.whitespace_)
        if merge and words and not spaces[-1]:
            words[-1] += piece
            spaces[-1] = space
        elif len(piece) > 3 and rng.random() < 0.1:
            words += [piece[:2], piece[2:]]
            spaces += [False, space]
        else:
            words.append(piece)
            spaces.append(space)
        merge = rng.random() < 0.3
    doc = Doc(gold.vocab, words=words, spaces=spaces)
    y2x = Example(doc, gold).alignment.y2x
    heads, deps = [0] * len(doc), ["x"] * len(doc)
    for token in gold:
        i = int(y2x[token.i][0])
        heads[i] = int(y2x[token.head.i][0]) if rng.random() < 0.8 else i
        deps[i] = token.dep_ if rng.random() < 0.8 else "punct"
    return Doc(gold.vocab, words=words, spaces=spaces, heads=heads, deps=deps)
