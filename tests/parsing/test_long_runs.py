"""Texts on which spaCy's tokenizer alone would take minutes."""

import random

import pytest
import spacy

from spacy_rootmind.formats.records import Failure, InputRecord
from spacy_rootmind.parsing.long_runs import PIECE, cut_long_runs


@pytest.fixture(scope="module")
def nlp():
    return spacy.blank("xx")


def cut_texts(nlp, texts, max_length=100):
    """Cut texts; returns the records and the warnings."""
    warnings = []
    records = (InputRecord("in", i + 1, text=text) for i, text in enumerate(texts))
    return list(cut_long_runs(records, nlp, max_length, warnings.append)), warnings


@pytest.mark.parametrize("alphabet", ["ab", "(!\"'.,$", "é\u0301😀語", "a b\t\n\u00a0\u2028 "])
@pytest.mark.parametrize("seed", range(4))
def test_text_stays_the_same_and_words_are_bounded(nlp, alphabet, seed):
    rng = random.Random(seed)
    text = "".join(
        "".join(rng.choices(alphabet, k=rng.choice([5, 99, 100, 101, 260]))) + rng.choice(" \n")
        for _ in range(10)
    )
    [record], warnings = cut_texts(nlp, [text])
    longest = max(map(len, text.split()), default=0)
    assert len(warnings) == (longest > 100)
    doc = record.make_doc(nlp)
    assert doc.text == text
    assert max(len(token.text) for token in doc if not token.is_space) <= 100
    if not warnings:
        assert record.pieces is None


def test_the_rest_of_a_text_is_tokenized_as_ever(nlp):
    before, after = "I don't  know (U.S.), ", "\n gonna see Mr. Smith's 5km."
    [record], [warning] = cut_texts(nlp, [f"{before}{'x' * 120}{after}"])
    doc = record.make_doc(nlp)
    expected = [*nlp(before), *nlp(after)]
    found = [token for token in doc if "x" not in token.text]
    for attribute in ("text", "whitespace_", "norm_"):
        assert [getattr(t, attribute) for t in found] == [getattr(t, attribute) for t in expected]
    assert [len(token) for token in doc if "x" in token.text] == [PIECE, PIECE, 20]
    assert warning == (
        "in:1: tokenized 120 characters without whitespace, from character 23 on, in pieces; "
        "--max-word-length sets which runs are cut"
    )


def test_several_runs_have_one_warning(nlp):
    records, warnings = cut_texts(nlp, ["a", f"{'b' * 101} c {'d' * 300} {'e' * 102}"])
    assert records[0].pieces is None
    assert len(warnings) == 1
    assert "in:2: tokenized 300 characters" in warnings[0]
    assert "from character 105 on and 2 more" in warnings[0]


def test_small_limits_bound_the_pieces(nlp):
    [record], _ = cut_texts(nlp, ["abcdefgh ij"], max_length=3)
    assert [token.text for token in record.make_doc(nlp)] == ["abc", "def", "gh", "ij"]


def test_given_words_failures_and_other_tokenizers_are_left_alone(nlp):
    given = [InputRecord("in", 1, text="x" * 200, words=["x" * 200]), Failure("in", 2, "bad")]
    assert list(cut_long_runs(iter(given), nlp, 100, pytest.fail)) == given
    chinese = spacy.blank("zh")
    [record], warnings = cut_texts(chinese, ["語" * 300])
    assert warnings == []
    assert len(record.make_doc(chinese)) == 300


def test_texts_beyond_spacys_limit_are_refused_as_before():
    nlp = spacy.blank("xx")
    nlp.max_length = 150
    [record], _ = cut_texts(nlp, ["(" * 151])
    with pytest.raises(ValueError, match="E088"):
        record.make_doc(nlp)


def test_tokenizer_never_gets_a_longer_run_than_allowed(nlp, monkeypatch):
    rng = random.Random(0)
    words = ["".join(rng.choices("()[]{}$#*!?", k=rng.choice([3, 900, 5000]))) for _ in range(12)]
    [record], _ = cut_texts(nlp, [" ".join(words)], max_length=1000)
    given = []
    tokenizer = nlp.tokenizer
    monkeypatch.setattr(nlp, "tokenizer", lambda text: given.append(text) or tokenizer(text))
    record.make_doc(nlp)
    # One piece has the end of a run, a run that is short enough, and the start of the next.
    runs = [len(run) for text in given for run in text.split()]
    assert sum(runs) == sum(map(len, words))
    assert max(runs) == 900
