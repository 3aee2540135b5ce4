"""Scores of parsers on gold words and on text, and the tables of several seeds."""

import pytest
import spacy
from evaluate import evaluate, gold_examples, scores_of
from parsers import make_nlp
from report import GOLD, OFFICIAL
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
