"""Scores of parsers on gold words and on text, and the tables of several seeds."""

import pytest
import report
import spacy
import srsly
from evaluate import evaluate, gold_examples, scores_of
from parsers import make_nlp
from report import EVALUATIONS, GOLD, OFFICIAL, rows, summarize, write_tables
from spacy.tokens import Doc, DocBin
from spacy.training import Corpus


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


def test_evaluation_has_all_test_sets(corpora, pipeline):
    scores = evaluate(pipeline, corpora / "syntactic")
    assert set(scores) == {OFFICIAL, GOLD}
    nlp = spacy.load(pipeline)
    gold = scores_of(nlp, gold_examples(nlp, corpora / "syntactic" / "test.spacy"))
    assert scores[GOLD] == gold
    assert scores[GOLD]["root_violations"] == 0.0
    # Columns that no component predicts are not scored.
    assert set(scores[OFFICIAL]) == {"Words", "Sentences", "UAS", "LAS", "CLAS"}
    assert 0.1 < scores[OFFICIAL]["LAS"] < scores[OFFICIAL]["UAS"] < scores[GOLD]["dep_uas_all"]
    # Fused words cannot be right in text.
    assert scores[OFFICIAL]["Words"] < 0.99


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
    summary = summarize(scores, ABOUT, "syntactic-cpu")
    write_tables(summary, tmp_path)
    assert srsly.read_json(tmp_path / "summary.json") == srsly.json_loads(srsly.json_dumps(summary))
    table = rows(summary)
    assert ["gold words and sentences", "LAS", "50.00", "75.00", "62.50", "17.68"] in table
    assert ["gold words and sentences", "correct roots", "", "75.00", "", ""] in table
    # No seed has it.
    assert not [row for row in table if row[1] == "XPOS" and row[0] != EVALUATIONS[OFFICIAL]]
    lines = (tmp_path / "summary.md").read_text(encoding="utf8").splitlines()
    assert "UD_Made-Up" in lines[0]
    assert "3 train, 2 test. one. two." in lines[0]
    shown = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    assert shown[0] == ["test set", "score in %", "seed 0", "seed 1", "mean", "deviation"]
    assert shown[2:] == table
