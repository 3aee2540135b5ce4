"""Records of parse details: into a Doc, and back."""

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
    StoredTrees,
)
from spacy_rootmind.annotation.extensions import register_extensions
from spacy_rootmind.annotation.records import read_record, store_records

VOCAB = spacy.blank("xx").vocab


def make_doc():
    """A Doc of two sentences; the first has three words and two whitespace tokens."""
    words = ["one", " ", "two", "three", "\n", "four"]
    heads, deps = [0, 0, 0, 2, 3, 5], ["ROOT", "dep", "a", "c", "dep", "ROOT"]
    return Doc(VOCAB, words=words, heads=heads, deps=deps)


def make_record():
    """Details of its first sentence."""
    return ParseDetails(
        np.array([0, 0, 0, 2, 3], "i4"),
        np.array([True, False, True, True, False]),
        Confidence(
            ("ROOT", "a", "c"),
            np.array([0.5, 0.25, 1.0], "f4"),
            -1.5,
            0.75,
            np.array([0, 1, 2], "i4"),
            np.array([0.5, 0.125, 0.75], "f4"),
            np.array([np.nan, 0.25, 0.5], "f4"),
        ),
        ArcTable(
            ("ROOT", "a", "c"),
            np.array([0, 1, 1, 2]),
            np.array([0, 0, 2, 1]),
            np.array([0, 1, 2, 1]),
            np.array([0.9, 0.6, 0.3, 0.8]),
        ),
        Alternatives(
            ("ROOT", "a", "c"),
            np.array([[0, 0, 1], [1, 1, 1]], "i4"),
            np.array([[0, 1, 2], [1, 0, 1]], "i4"),
            np.array([-0.5, -2.0]),
        ),
        guideline_status=NOT_PROVEN,
    )


def test_whitespace_has_the_head_and_label_of_the_parse():
    register_extensions()
    doc = stored_doc()
    sentence = doc[:5]
    assert [token._.head_prob for token in sentence] == [0.5, 1.0, 0.25, 1.0, 1.0]
    assert [token._.arc_prob for token in sentence] == [0.5, 1.0, 0.125, 0.75, 1.0]
    assert [token._.sent_start_prob for token in sentence] == [None, None, 0.25, 0.5, None]
    arcs = [(arc.token.i, arc.head.i, arc.dep) for arc in sentence._.arcs]
    assert arcs == [(0, 0, "ROOT"), (2, 0, "a"), (2, 3, "c"), (3, 2, "a")]
    assert [len(token._.arcs) for token in sentence] == [1, 0, 2, 1, 0]
    parses = sentence._.parses
    assert [parse.heads.tolist() for parse in parses] == [[0, 0, 0, 2, 3], [2, 0, 2, 2, 3]]
    labels = [["ROOT", "dep", "a", "c", "dep"], ["a", "dep", "ROOT", "a", "dep"]]
    assert [parse.deps for parse in parses] == labels


def test_details_of_a_sentence_without_words():
    register_extensions()
    nothing, no_probs = np.zeros(0, "i4"), np.zeros(0, "f4")
    doc = Doc(VOCAB, words=[" ", "\n"], heads=[0, 0], deps=["ROOT", "dep"])
    table = (), nothing, nothing, nothing, np.zeros(0)
    details = ParseDetails(
        np.zeros(2, "i4"),
        np.zeros(2, "?"),
        Confidence((), no_probs, 0.0, 0.0, nothing, no_probs, no_probs),
        ArcTable(*table),
        Alternatives((), np.zeros((1, 0), "i4"), np.zeros((1, 0), "i4"), np.zeros(1)),
        StoredTrees(*table, np.zeros((0, 0), "f4"), False),
    )
    store_records(doc, [(0, 2, details)])
    for names, values in (
        (("head_prob", "arc_prob"), [1.0, 1.0]),
        (("sent_start_prob",), [None, None]),
        (("arcs",), [[], []]),
    ):
        assert all([getattr(token._, name) for token in doc] == values for name in names)
    [parse] = doc[:]._.parses
    assert (parse.heads.tolist(), parse.deps) == ([0, 0], ["ROOT", "dep"])
    prob = doc[:]._.trees.prob
    assert prob([(doc[1], doc[0], None)]) == prob([(doc[0], doc[0], None)]) == 1.0
    assert prob([(doc[1], doc[0], "dep")]) == 0.0


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
    confidence = Confidence(("dep",), probs, 0.0, 0.0, zeros, probs)
    details = ParseDetails(zeros, np.ones(1, "?"), confidence)
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
