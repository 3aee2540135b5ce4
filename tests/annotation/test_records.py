"""Records of parse details: from words to tokens, into a Doc, and back."""

import numpy as np
import pytest
import spacy
from parsers import COPIES
from spacy.tokens import Doc

from spacy_rootmind.annotation.details import (
    NOT_PROVEN,
    Alternatives,
    ArcTable,
    Confidence,
    ParseDetails,
)
from spacy_rootmind.annotation.extensions import register_extensions
from spacy_rootmind.annotation.records import read_record, store_records

VOCAB = spacy.blank("xx").vocab
NAMES = ("ROOT", "a", "b", "c")


def make_details():
    """Details of a sentence of three words."""
    return ParseDetails(
        Confidence(
            np.array([0.5, 0.25, 1.0], "f4"),
            -1.5,
            0.75,
            np.array([0, 1, 3], "i4"),
            np.array([0.5, 0.125, 0.75], "f4"),
            NAMES,
            np.array([np.nan, 0.25, 0.5], "f4"),
        ),
        ArcTable(
            np.array([1, 2, 2, 3]),
            np.array([0, 1, 3, 2]),
            np.array([0, 1, 3, 1]),
            np.array([0.9, 0.6, 0.3, 0.8]),
            NAMES,
        ),
        Alternatives(
            np.array([[0, 1, 2], [2, 0, 2]], "i4"),
            np.array([[0, 1, 3], [1, 0, 1]], "i4"),
            np.array([-0.5, -2.0]),
            NAMES,
        ),
        guideline_status=NOT_PROVEN,
    )


def make_doc():
    """A Doc of two sentences; the first has three words and two whitespace tokens."""
    words = ["one", " ", "two", "three", "\n", "four"]
    heads, deps = [0, 0, 0, 2, 3, 5], ["ROOT", "dep", "a", "c", "dep", "ROOT"]
    return Doc(VOCAB, words=words, heads=heads, deps=deps)


def make_record():
    return make_details().over_tokens(np.array([0, 2, 3]), np.array([0, 0, 0, 2, 3], "i4"))


def test_details_over_tokens():
    details = make_record()
    found = details.confidence
    assert found.head_probs.tolist() == [0.5, 1.0, 0.25, 1.0, 1.0]
    assert found.arc_probs.tolist() == [0.5, 1.0, 0.125, 0.75, 1.0]
    assert [found.label_names[i] for i in found.labels] == ["ROOT", "dep", "a", "c", "dep"]
    np.testing.assert_array_equal(found.start_probs, [np.nan, np.nan, 0.25, 0.5, np.nan])
    arcs = details.arcs
    names = [arcs.label_names[i] for i in arcs.labels]
    found = list(zip(arcs.dependents.tolist(), arcs.heads.tolist(), names, strict=True))
    assert found == [(0, 0, "ROOT"), (2, 0, "a"), (2, 3, "c"), (3, 2, "a")]
    parses = details.alternatives
    assert parses.heads.tolist() == [[0, 0, 0, 2, 3], [2, 0, 2, 2, 3]]
    names = [[parses.label_names[i] for i in labels] for labels in parses.labels]
    assert names == [["ROOT", "dep", "a", "c", "dep"], ["a", "dep", "ROOT", "a", "dep"]]
    assert "b" not in parses.label_names


def test_details_of_a_sentence_without_words():
    nothing, no_probs = np.zeros(0, "i8"), np.zeros(0, "f4")
    details = ParseDetails(
        Confidence(no_probs, 0.0, 0.0, nothing, no_probs, NAMES, no_probs),
        ArcTable(nothing, nothing, nothing, np.zeros(0), NAMES),
        Alternatives(np.zeros((1, 0), "i4"), np.zeros((1, 0), "i4"), np.zeros(1), NAMES),
    ).over_tokens(nothing, np.zeros(2, "i4"))
    found = details.confidence
    assert found.head_probs.tolist() == found.arc_probs.tolist() == [1.0, 1.0]
    assert [found.label_names[i] for i in found.labels] == ["ROOT", "dep"]
    assert np.isnan(found.start_probs).tolist() == [True, True]
    assert details.arcs.label_names == ()
    parses = details.alternatives
    assert parses.heads.tolist() == [[0, 0]]
    assert [parses.label_names[i] for i in parses.labels[0]] == ["ROOT", "dep"]


def assert_same(found, expected):
    assert found.tree.tolist() == expected.tree.tolist()
    assert found.guideline_status == expected.guideline_status
    for name in ("confidence", "arcs", "alternatives"):
        a, b = getattr(found, name), getattr(expected, name)
        assert type(a) is type(b)
        for field, value in vars(b).items():
            np.testing.assert_array_equal(getattr(a, field), value)
            if field == "label_names":
                assert type(getattr(a, field)) is tuple


def stored_doc():
    doc = make_doc()
    store_records(doc, [(0, 5, make_record())])
    return doc


@pytest.mark.parametrize("copy", [lambda doc: doc, *COPIES.values()], ids=["same", *COPIES])
def test_records_are_read_as_they_were_stored(copy):
    doc = copy(stored_doc())
    assert_same(read_record(doc[:5]), make_record())


def test_storing_again_replaces_all_records():
    doc = stored_doc()
    doc.user_data["mine"] = 1
    probs, zeros = np.ones(1, "f4"), np.zeros(1, "i4")
    details = ParseDetails(Confidence(probs, 0.0, 0.0, zeros, probs, ("dep",)), tree=zeros)
    store_records(doc, [(5, 6, details)])
    assert read_record(doc[5:6]).confidence.head_probs.tolist() == [1.0]
    with pytest.raises(ValueError, match="expected one of the sentences that root_mst parsed"):
        read_record(doc[:5])
    store_records(doc, [])
    assert read_record(doc[:5]) is None
    assert doc.user_data == {"mine": 1}


def test_a_record_is_read_once_however_many_tokens_ask(monkeypatch):
    doc = Doc(VOCAB).from_bytes(stored_doc().to_bytes())
    register_extensions()
    checked = []
    read = ParseDetails.from_dict
    monkeypatch.setattr(ParseDetails, "from_dict", lambda data: checked.append(1) or read(data))
    for _ in range(2):
        assert [token._.head_prob for token in doc[:5]] == [0.5, 1.0, 0.25, 1.0, 1.0]
        assert doc[:5]._.parses
    assert len(checked) == 1
    # Records that this process has made itself need no check.
    assert [token._.head_prob for token in stored_doc()[:5]]
    assert len(checked) == 1
