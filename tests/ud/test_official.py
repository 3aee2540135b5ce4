"""The official scorer: what it is given, and that the parser's own score is the same."""

import random

import pytest
import spacy
from conftest import QUICKSTART
from official import paragraphs, score
from parsers import read_conllu
from spacy.tokens import Doc
from spacy.training import Example
from ud_treebanks import PARAGRAPH, SIZES

from spacy_rootmind.pipeline.scorer import score_parses

DEV = QUICKSTART / "assets" / "en_quick-ud-dev.conllu"


def sentence_texts(path):
    lines = path.read_text("utf8").splitlines()
    return [line.partition("= ")[2] for line in lines if line.startswith("# text =")]


@pytest.mark.parametrize("mark", ["# newpar", "# newdoc id = a"])
def test_paragraphs_are_as_marked(mark, made, tmp_path):
    text = (made[0] / "en_made-ud-test.conllu").read_text("utf8")
    path = tmp_path / "test.conllu"
    path.write_text(text.replace("# newpar", mark), encoding="utf8")
    sentences = sentence_texts(path)
    expected = [" ".join(sentences[i : i + PARAGRAPH]) for i in range(0, SIZES["test"], PARAGRAPH)]
    assert [paragraph.rstrip() for paragraph in paragraphs(path, 10**6)] == expected


def test_text_without_marks_is_one_paragraph_cut_where_it_is_too_long():
    [text] = paragraphs(DEV, 10**6)
    assert text.split() == " ".join(sentence_texts(DEV)).split()
    pieces = list(paragraphs(DEV, 300))
    assert "".join(pieces) == text
    assert all(200 < len(piece) <= 300 for piece in pieces[:-1])


def with_random_arcs(doc, rng):
    """A copy of a sentence's Doc with other arcs to some words below the root, and other labels."""
    heads = [token.head.i for token in doc]
    labels = [token.dep_ for token in doc]
    [root] = doc.sents
    for token in doc:
        if token.i != root.root.i and rng.random() < 0.5:
            heads[token.i] = root.root.i
            labels[token.i] = rng.choice([labels[token.i], f"{labels[token.i]}:own", "dep"])
    words, spaces = [t.text for t in doc], [bool(t.whitespace_) for t in doc]
    return Doc(doc.vocab, words=words, spaces=spaces, heads=heads, deps=labels)


def test_own_las_on_gold_tokens_is_the_official_one():
    """To the digit; and all right parses have 1."""
    docs = read_conllu(DEV, spacy.blank("en").vocab)
    rng = random.Random(0)
    parses = [with_random_arcs(doc, rng) for doc in docs]
    own = score_parses([Example(parse, doc) for parse, doc in zip(parses, docs, strict=True)])
    official = score(parses, DEV)
    assert official["LAS"] == own["dep_las_conll18"]
    assert official["UAS"] == own["dep_uas_all"]
    assert 0.3 < official["LAS"] < official["UAS"] < 0.9
    perfect = score(docs, DEV)
    assert perfect["LAS"] == perfect["Words"] == perfect["Sentences"] == 1.0
