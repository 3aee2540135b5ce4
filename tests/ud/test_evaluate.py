"""Scores of parsers on gold words and on text, and the tables of several seeds."""

import csv

import official
import pytest
import report
import spacy
import srsly
from evaluate import (
    align,
    evaluate,
    gold_examples,
    scores_of,
    sentence_score,
    text_examples,
    word_scores,
)
from parsers import make_nlp
from report import EVALUATIONS, GOLD, OFFICIAL, TEXT, summarize, write_tables
from spacy.scorer import Scorer
from spacy.tokens import Doc, DocBin
from spacy.training import Alignment, Corpus


def lists(alignment):
    """For each item of an alignment, its counterparts."""
    pairs = []
    for ragged in (alignment.x2y, alignment.y2x):
        pairs.append([ragged[i].tolist() for i in range(len(ragged.lengths))])
    return pairs


def test_words_are_aligned_by_their_place_in_the_text():
    nlp = spacy.blank("xx")
    doc = nlp("Il parle  du chat, l'un.")
    assert [t.text for t in doc] == ["Il", "parle", " ", "du", "chat", ",", "l'un", "."]
    # Il, parle, de, le, chat, ",", l', un, .
    spans = [(0, 2), (3, 8), (10, 12), (10, 12), (13, 17), (17, 18), (19, 21), (21, 23), (23, 24)]
    x2y, y2x = lists(align(doc, spans))
    assert x2y == [[0], [1], [], [2, 3], [4], [5], [6, 7], [8]]
    assert y2x == [[0], [1], [3], [3], [4], [5], [6], [6], [7]]


def test_alignment_is_spacys_where_words_spell_the_text(quickstart_docs):
    nlp = spacy.blank("xx")
    for reference in quickstart_docs[:100]:
        spans = [(token.idx, token.idx + len(token)) for token in reference]
        doc = nlp(reference.text)
        theirs = Alignment.from_strings([t.text for t in doc], [t.text for t in reference])
        assert lists(align(doc, spans)) == lists(theirs)


@pytest.fixture(scope="module")
def pipeline(corpora, tmp_path_factory):
    """A parser that finds sentences: one that has seen Docs of several."""
    nlp = make_nlp()
    examples = list(Corpus(corpora / "orthographic" / "train.spacy")(nlp))
    optimizer = nlp.initialize(lambda: examples)
    optimizer.learn_rate = 0.01
    for _ in range(15):
        nlp.update(examples, sgd=optimizer, drop=0.0)
    path = tmp_path_factory.mktemp("pipeline")
    nlp.to_disk(path)
    return path


def join_sentences(doc):
    """A Doc in which every second sentence is joined to the one before it."""
    heads = [token.head.i for token in doc]
    roots = [sentence.root.i for sentence in doc.sents]
    for first, second in zip(roots[::2], roots[1::2], strict=False):
        heads[second] = first
    words = [token.text for token in doc]
    spaces = [bool(token.whitespace_) for token in doc]
    return Doc(doc.vocab, words=words, spaces=spaces, heads=heads, deps=[t.dep_ for t in doc])


def test_gold_sentences_stay_whole_and_together(corpora, pipeline, tmp_path):
    nlp = spacy.load(pipeline)
    references = DocBin().from_disk(corpora / "syntactic" / "test.spacy").get_docs(nlp.vocab)
    path = tmp_path / "joined.spacy"
    DocBin(docs=[join_sentences(doc) for doc in references]).to_disk(path)
    examples = gold_examples(nlp, path)
    found = []
    for example in examples:
        doc, reference = example.predicted, example.reference
        assert [t.text_with_ws for t in doc] == [t.text_with_ws for t in reference]
        found.append([sentence.start for sentence in doc.sents])
        assert found[-1] == [sentence.start for sentence in reference.sents]
    assert [len(starts) for starts in found] == [5, 5, 3]
    # The parser does not find them by itself.
    docs = [nlp(Doc(nlp.vocab, [t.text for t in example.reference])) for example in examples]
    assert all(len(list(doc.sents)) > len(own) for doc, own in zip(docs, found, strict=True))


def test_scores_from_text_are_the_official_ones(corpora, pipeline):
    """The same Docs are scored, in which fused words are one token, and lost."""
    folder = corpora / "syntactic"
    nlp = spacy.load(pipeline)
    examples = text_examples(nlp, folder / "test.spacy")
    scores = scores_of(nlp, examples)
    for component in ("morphologizer", "trainable_lemmatizer"):
        nlp.add_pipe(component)
    for token in (token for example in examples for token in example.predicted):
        token.pos_, token.lemma_ = "NOUN", token.text.lower()
    right = official.score([example.predicted for example in examples], folder / "test.conllu")
    of_words = word_scores(nlp, examples)
    assert of_words["upos_f"] == pytest.approx(right["UPOS"])
    assert of_words["lemma_f"] == pytest.approx(right["Lemmas"])
    assert 0.1 < of_words["upos_f"] < of_words["lemma_f"] < of_words["words_f"]
    assert scores["words_f"] == pytest.approx(right["Words"])
    assert sentence_score(examples) == pytest.approx(right["Sentences"])
    assert scores["dep_las_conll18"] == pytest.approx(right["LAS"])
    assert 0.05 < scores["dep_las_conll18"] < scores["words_f"] < 0.99


def test_sentences_are_scored_like_spacys_where_words_spell_them(corpora):
    examples = text_examples(spacy.blank("xx"), corpora / "orthographic" / "test.spacy")
    for example in examples:
        starts = {sentence.start_char for sentence in example.reference.sents}
        for token in example.predicted:
            token.is_sent_start = (token.idx in starts and token.i % 5 > 0) or token.text == "the"
    expected = Scorer.score_spans(examples, "sents", getter=lambda doc, _: doc.sents)
    assert 0.1 < expected["sents_f"] < 0.9
    assert sentence_score(examples) == pytest.approx(expected["sents_f"])


def test_evaluation_has_all_test_sets(corpora, pipeline):
    scores = evaluate(pipeline, corpora / "syntactic")
    assert set(scores) == {OFFICIAL, GOLD, TEXT}
    nlp = spacy.load(pipeline)
    gold = scores_of(nlp, gold_examples(nlp, corpora / "syntactic" / "test.spacy"))
    assert scores[GOLD] == gold
    assert scores[GOLD]["root_violations"] == 0.0
    # Paragraphs have the same words as Docs of ten sentences.
    assert scores[OFFICIAL]["Words"] == scores[TEXT]["words_f"] < 0.99
    # Columns that no component predicts are not scored.
    assert set(scores[OFFICIAL]) == {"Words", "Sentences", "UAS", "LAS", "CLAS"}
    assert 0.1 < scores[OFFICIAL]["LAS"] < scores[OFFICIAL]["UAS"] < scores[GOLD]["dep_uas_all"]
    # Fused words cannot be right.
    assert scores[TEXT]["dep_uas_all"] < scores[GOLD]["dep_uas_all"]


# --- tables ------------------------------------------------------------------------------------

ABOUT = {
    "treebank": "UD_Made-Up",
    "words": "syntactic",
    "lang": "en",
    "counts": {"train": {"sentences": 3}, "test": {"sentences": 2}},
    "remarks": ["one", "two"],
}


def made_scores(value, **changed):
    scores = {name: dict.fromkeys(shown, value) for name, shown in report.SHOWN.items()}
    scores[GOLD].update(changed)
    return scores


def test_tables_agree(tmp_path):
    scores = {0: made_scores(0.5, root_acc=None), 1: made_scores(0.75)}
    for seed in scores:
        del scores[seed][GOLD]["xpos_f"]
        scores[seed][TEXT]["xpos_f"] = None
    summary = summarize(scores, ABOUT, "syntactic-cpu")
    write_tables(summary, tmp_path)
    assert srsly.read_json(tmp_path / "summary.json") == srsly.json_loads(srsly.json_dumps(summary))
    with (tmp_path / "summary.csv").open(encoding="utf8", newline="") as file:
        header, *table = csv.reader(file)
    assert header == ["test set", "score in %", "seed 0", "seed 1", "mean", "deviation"]
    assert ["gold words and sentences", "LAS", "50.00", "75.00", "62.50", "17.68"] in table
    assert ["gold words and sentences", "correct roots", "", "75.00", "", ""] in table
    # No seed has it.
    assert not [row for row in table if row[1] == "XPOS" and row[0] != EVALUATIONS[OFFICIAL]]
    lines = (tmp_path / "summary.md").read_text(encoding="utf8").splitlines()
    assert "UD_Made-Up" in lines[0]
    assert "3 train, 2 test. one. two." in lines[0]
    shown = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    assert shown[0] == header
    assert shown[2:] == table
