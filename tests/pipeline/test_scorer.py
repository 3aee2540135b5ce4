"""Scores against counts made by hand."""

import pytest
import spacy
from parsers import read_conllu
from spacy.tokens import Doc
from spacy.training import Example

from spacy_rootmind.pipeline.scorer import score_parses

WORDS = ["She", "saw", "the", "cat", ".", "It", "slept", "."]
HEADS = [1, 1, 3, 1, 1, 6, 6, 6]
DEPS = ["nsubj", "ROOT", "det", "obj", "punct", "nsubj", "ROOT", "punct"]
STARTS = [True, False, False, False, False, True, False, False]


@pytest.fixture(scope="module")
def vocab():
    return spacy.blank("xx").vocab


def make_doc(vocab, heads=HEADS, deps=DEPS, words=WORDS, **kwargs):
    return Doc(vocab, words=words, heads=heads, deps=deps, **kwargs)


def test_score_of_the_gold_tree_is_perfect(vocab):
    scores = score_parses([Example(make_doc(vocab), make_doc(vocab))])
    for name in (
        "dep_uas",
        "dep_las",
        "dep_ls",
        "dep_uas_all",
        "dep_las_all",
        "dep_uem",
        "dep_lem",
        "root_acc",
        "sents_f",
    ):
        assert scores[name] == 1.0, name
    assert scores["root_violations"] == 0.0


def test_score_counts_heads_labels_and_sentences(vocab):
    # "the" gets a wrong head, "cat" a wrong label, the last full stop a wrong head.
    predicted = make_doc(
        vocab,
        heads=[1, 1, 1, 1, 1, 6, 6, 5],
        deps=["nsubj", "ROOT", "det", "iobj", "punct", "nsubj", "ROOT", "punct"],
    )
    scores = score_parses([Example(predicted, make_doc(vocab))])
    assert scores["dep_uas_all"] == pytest.approx(6 / 8)
    assert scores["dep_las_all"] == pytest.approx(5 / 8)
    assert scores["dep_uas"] == pytest.approx(5 / 6)
    assert scores["dep_las"] == pytest.approx(4 / 6)
    assert scores["dep_ls"] == pytest.approx(5 / 6)
    assert scores["dep_uem"] == 0.0
    assert scores["root_acc"] == 1.0


def test_score_counts_exact_sentences_and_roots(vocab):
    predicted = make_doc(
        vocab,
        heads=[0, 0, 3, 1, 1, 6, 6, 6],
        deps=["ROOT", "ccomp", "det", "obj", "punct", "nsubj", "ROOT", "punct"],
    )
    scores = score_parses([Example(predicted, make_doc(vocab))])
    assert scores["dep_uem"] == 0.5
    assert scores["dep_lem"] == 0.5
    assert scores["root_acc"] == 0.5
    assert scores["root_violations"] == 0.0


def test_score_counts_sentences_with_several_roots(vocab):
    doc = make_doc(vocab, sent_starts=STARTS)
    # spaCy starts a sentence at every root, so a violation needs heads that leave their sentence.
    predicted = Doc(vocab, words=WORDS[:4], heads=[2, 3, 2, 3], deps=["a", "b", "ROOT", "ROOT"])
    reference = Doc(vocab, words=WORDS[:4], heads=[1, 1, 3, 1], deps=DEPS[:4])
    scores = score_parses([Example(doc, make_doc(vocab)), Example(predicted, reference)])
    assert scores["root_violations"] > 0.0


def test_score_leaves_out_words_without_gold_heads(vocab):
    gold = make_doc(vocab, deps=[*DEPS[:3], "", *DEPS[4:]])
    predicted = make_doc(vocab, heads=[1, 1, 3, 2, 1, 6, 6, 6])
    scores = score_parses([Example(predicted, gold)])
    assert scores["dep_uas_all"] == 1.0


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


def test_score_of_real_gold_trees_is_perfect(ud_folder):
    for name in ("UD_English-EWT/en_ewt-ud-dev", "UD_Irish-IDT/ga_idt-ud-dev"):
        docs = read_conllu(ud_folder / f"{name}.conllu", spacy.blank("xx").vocab, limit=60)
        scores = score_parses([Example(doc.copy(), doc) for doc in docs])
        assert scores["dep_las_all"] == scores["dep_lem"] == scores["root_acc"] == 1.0


def test_conll18_las_leaves_subtypes_out(vocab):
    gold = make_doc(vocab, deps=[*DEPS[:3], "obl:tmod", *DEPS[4:]])
    predicted = make_doc(vocab, deps=[*DEPS[:3], "obl:npmod", *DEPS[4:]])
    scores = score_parses([Example(predicted, gold)])
    assert scores["dep_las_all"] == pytest.approx(7 / 8)
    assert scores["dep_las_conll18"] == 1.0


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
