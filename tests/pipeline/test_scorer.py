"""Scores against counts made by hand."""

import pytest
import spacy
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
        # Subtypes count, but for the shared task of 2018.
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

    Of these "the", whose gold head is "cat", is wrong as well.
    """
    words = ["She", "saw", "the", "ca", "t", ".", "It", "slept", "."]
    spaces = [True, True, True, False, True, True, True, True, False]
    heads = [1, 1, 3, 1, 3, 1, 7, 7, 7]
    deps = ["nsubj", "ROOT", "det", "obj", "flat", "punct", "nsubj", "ROOT", "punct"]
    predicted = Doc(vocab, words=words, spaces=spaces, heads=heads, deps=deps)
    scores = score_parses([Example(predicted, make_doc(vocab))])
    assert scores["dep_las_conll18"] == pytest.approx(2 * 6 / (8 + 9))


def test_whitespace_counts_nowhere(vocab):
    words = ["She", " ", "slept", "\n"]
    doc = Doc(vocab, words=words, heads=[2, 0, 2, 2], deps=["nsubj", "", "ROOT", ""])
    scores = score_parses([Example(doc.copy(), doc)])
    for name in ("dep_uas_all", "dep_las_all", "dep_las_conll18", "dep_uem", "root_acc"):
        assert scores[name] == 1.0, name
