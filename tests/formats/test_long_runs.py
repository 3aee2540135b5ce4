"""Texts on which spaCy's tokenizer alone would take minutes."""

import random
import re

import pytest
import spacy

from spacy_rootmind.formats import records
from spacy_rootmind.formats.records import PIECE, InputRecord


@pytest.fixture(scope="module")
def nlp():
    return spacy.blank("xx")


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """Make runs of more than 100 characters long."""
    monkeypatch.setattr(records, "LONG_RUN", re.compile(r"(?<!\S)\S{101,}"))


def tokenized(nlp, text):
    """The record of a text, and its Doc."""
    record = InputRecord("in", 1, text=text)
    return record, record.make_doc(nlp)


@pytest.mark.parametrize("alphabet", ["ab", "(!\"'.,$", "é\u0301😀語", "a b\t\n\u00a0\u2028 "])
@pytest.mark.parametrize("seed", range(4))
def test_text_stays_the_same_and_words_are_bounded(nlp, alphabet, seed):
    rng = random.Random(seed)
    text = "".join(
        "".join(rng.choices(alphabet, k=rng.choice([5, 99, 100, 101, 260]))) + rng.choice(" \n")
        for _ in range(10)
    )
    record, doc = tokenized(nlp, text)
    runs = [run for run in text.split() if len(run) > 100]
    assert [text[start:end] for start, end in record.long_runs] == runs
    assert doc.text == text
    assert max(len(token.text) for token in doc if not token.is_space) <= 100


def test_the_rest_of_a_text_is_tokenized_as_ever(nlp):
    before, after = "I don't  know (U.S.), ", "\n gonna see Mr. Smith's 5km."
    _, doc = tokenized(nlp, f"{before}{'x' * 120}{after}")
    expected = [*nlp(before), *nlp(after)]
    found = [token for token in doc if "x" not in token.text]
    for attribute in ("text", "whitespace_", "norm_"):
        assert [getattr(t, attribute) for t in found] == [getattr(t, attribute) for t in expected]
    assert [len(token) for token in doc if "x" in token.text] == [PIECE, PIECE, 20]


def test_texts_beyond_spacys_limit_are_refused_as_before():
    nlp = spacy.blank("xx")
    nlp.max_length = 150
    with pytest.raises(ValueError, match="E088"):
        tokenized(nlp, "(" * 151)


def test_given_words_and_other_tokenizers_are_left_alone(nlp):
    given = InputRecord("in", 1, text="x" * 200, words=["x" * 200])
    assert len(given.make_doc(nlp)) == 1
    record, doc = tokenized(spacy.blank("zh"), "語" * 300)
    assert given.long_runs == record.long_runs == []
    assert len(doc) == 300
