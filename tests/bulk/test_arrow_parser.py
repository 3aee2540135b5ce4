"""`ArrowParser`, against `nlp.pipe`."""

import pickle

import pytest
import spacy
from parsers import add_initialized

pa = pytest.importorskip("pyarrow", reason="needs pyarrow: the extra [arrow]")

from spacy_rootmind.bulk import ArrowParser
from spacy_rootmind.bulk.rows import SENTENCES
from spacy_rootmind.parsing.settings import ParserSettings

TEXTS = [
    "The cat saw a dog. The dog slept.",
    "",
    "She saw him,\n\nand he saw her.  ",
    "   ",
    "A girl wrote the letter to a guest.",
]

CODE = """
from spacy.language import Language

@Language.component("bulk_test_fails")
def fails(doc):
    if any(token.text == "unbearable" for token in doc):
        raise ValueError("cannot stand it")
    return doc
"""


def table_of(texts, **columns):
    return pa.table({"id": [f"d{i}" for i in range(len(texts))], "text": texts, **columns})


def rows_of(found, name):
    return [row for row in found.to_pylist() if row["id"] == name]


def assert_row_is(row, sentence):
    """Assert that a row has the tokens and the tree of a sentence that was parsed elsewhere."""
    assert row["error"] is None
    assert row["tokens"] == [token.text for token in sentence]
    assert row["spaces"] == [bool(token.whitespace_) for token in sentence]
    assert row["heads"] == [token.head.i - sentence.start for token in sentence]
    assert row["deps"] == [token.dep_ for token in sentence]
    assert (row["start"], row["end"]) == (sentence.start_char, sentence.end_char)
    assert row["offsets"] == [token.idx - sentence.start_char for token in sentence]


def test_rows_are_what_the_pipeline_finds_one_by_one(pipeline, trained):
    found = ArrowParser(pipeline)(table_of(TEXTS))
    assert found.schema.equals(SENTENCES, check_metadata=True)
    for i, text in enumerate(TEXTS):
        rows = rows_of(found, f"d{i}")
        sentences = list(trained(text).sents)
        assert [row["sentence"] for row in rows] == list(range(len(sentences) or 1))
        for row, sentence in zip(rows, sentences, strict=bool(sentences)):
            assert_row_is(row, sentence)
    [empty] = rows_of(found, "d1")
    assert (empty["tokens"], empty["heads"], empty["error"]) == ([], [], None)


def test_probabilities_arcs_and_parses_are_those_of_the_component(pipeline):
    settings = {
        "components.root_mst.confidence": True,
        "components.root_mst.arc_threshold": 0.1,
        "components.root_mst.alternatives": "kbest",
        "components.root_mst.n_alternatives": 3,
    }
    nlp = spacy.load(pipeline, config=settings)
    parser = ArrowParser(pipeline, confidence=True, arcs=0.1, alternatives="kbest", k=3)
    rows = parser(table_of(TEXTS[:1])).to_pylist()
    for row, sentence in zip(rows, nlp(TEXTS[0]).sents, strict=True):
        assert row["head_probs"] == pytest.approx([t._.head_prob for t in sentence], abs=1e-4)
        assert row["log_prob"] == pytest.approx(sentence._.parse_log_prob, abs=1e-3)
        assert row["entropy"] == pytest.approx(sentence._.parse_entropy, abs=1e-3)
        arcs = [
            (a.token.i - sentence.start, a.head.i - sentence.start, a.dep) for a in sentence._.arcs
        ]
        assert [(a["token"], a["head"], a["dep"]) for a in row["arcs"]] == arcs
        assert [(p["heads"], p["deps"]) for p in row["parses"]] == [
            (parse.heads.tolist(), parse.deps) for parse in sentence._.parses
        ]
    plain = ArrowParser(pipeline)(table_of(TEXTS[:1])).to_pylist()
    assert {row[name] for row in plain for name in ("head_probs", "arcs", "parses")} == {None}


def test_record_batches_and_sliced_tables_are_parsed(pipeline):
    parser = ArrowParser(pipeline)
    whole = parser(table_of(TEXTS))
    [batch] = table_of(TEXTS).to_batches()
    assert parser(batch).equals(whole)
    parts = [parser(table_of(TEXTS).slice(i, 2)) for i in (0, 2, 4)]
    assert pa.concat_tables(parts).column("heads").equals(whole.column("heads"))
    assert parser(table_of(TEXTS).slice(0, 0)).num_rows == 0


def test_schema_has_a_version():
    assert SENTENCES.metadata == {b"spacy_rootmind.bulk.schema": b"2"}
    # Version 2 never changes.
    names = "id sentence start end tokens offsets spaces heads deps pos tags morphs lemmas words"
    names += " head_probs log_prob entropy arcs parses error"
    assert " ".join(SENTENCES.names) == names


def test_tokens_are_kept(pipeline):
    tokens = [[["The", "cat", "slept", "."], ["He", "saw", "her"]], None, [["Hi"]]]
    found = ArrowParser(pipeline)(table_of([None, "Hi", "Bye"], tokens=tokens))
    first, second = rows_of(found, "d0")
    assert first["tokens"] == ["The", "cat", "slept", "."]
    assert second["tokens"] == ["He", "saw", "her"]
    assert (second["start"], second["end"]) == (16, 26)
    assert [row["tokens"] for row in rows_of(found, "d1")] == [["Hi"]]
    [wrong] = rows_of(found, "d2")
    assert wrong["error"].endswith('a field "text" or "tokens", found both')
    # Values that JSON does not have, either.
    [wrong] = ArrowParser(pipeline)(table_of([None], tokens=[[b"Hi"]])).to_pylist()
    assert wrong["error"].startswith('input: expected "tokens" to be strings')


@pytest.mark.parametrize("other", [None, "ner"])
def test_errors_of_single_documents_become_rows(other, pipeline, tmp_path):
    code = tmp_path / "code.py"
    code.write_text(CODE)
    nlp = spacy.load(pipeline)
    spacy.util.import_file("bulk_test_code", code)
    if other is not None:
        add_initialized(nlp, other, first=True)
    nlp.add_pipe("bulk_test_fails")
    nlp.to_disk(tmp_path / "fails")
    texts = ["The cat slept.", "The unbearable cat.", None, "The dog slept."]
    parser = ArrowParser(tmp_path / "fails", code=code)
    errors = parser(table_of(texts))["error"].to_pylist()
    assert errors[0] is errors[3] is None
    assert "cannot stand it" in errors[1]
    assert [error.split(":")[0] for error in errors[1:3]] == ["pipeline", "input"]


def test_texts_that_spacy_refuses_are_errors(pipeline):
    found = ArrowParser(pipeline)(table_of([TEXTS[0], "a " * 500_001, TEXTS[1]])).to_pylist()
    [refused] = [row for row in found if row["error"] is not None]
    assert refused["id"] == "d1"
    assert refused["error"].startswith("pipeline: [E088]")
    assert {row["id"] for row in found} == {"d0", "d1", "d2"}


def test_a_parser_can_be_pickled_and_loads_once(pipeline, monkeypatch):
    calls = []
    load = ParserSettings.load
    monkeypatch.setattr(ParserSettings, "load", lambda self: calls.append(1) or load(self))
    parser = ArrowParser(pipeline, confidence=False, k=7)
    copy = pickle.loads(pickle.dumps(parser))
    assert not calls
    assert copy(table_of(TEXTS)).equals(parser(table_of(TEXTS)))
    assert len(calls) == 1
    assert len(pickle.dumps(parser)) < 2000


def test_columns_can_be_named(pipeline):
    data = pa.table({"body": TEXTS, "number": range(len(TEXTS))})
    found = ArrowParser(pipeline, text="body", id_column="number")(data)
    assert set(found.column("id").to_pylist()) == set("01234")
    with pytest.raises(ValueError, match="expected a column 'id' and 'text', found body, number"):
        ArrowParser(pipeline)(data)
    nameless = ArrowParser(pipeline, id_column=None)(table_of(TEXTS))
    assert nameless.column("id").null_count == nameless.num_rows


def test_columns_of_empty_documents_are_empty_lists(web_pipeline):
    parser = ArrowParser(web_pipeline, confidence=True, arcs=0.1)
    found = parser(table_of(["", "Hi there"]))
    [empty], [other] = rows_of(found, "d0"), rows_of(found, "d1")
    lists = {field.name for field in SENTENCES if pa.types.is_list(field.type)}
    assert {name for name in lists if empty[name] == []} == lists
    # Columns with a value for each token can be unnested together.
    of_tokens = lists - {"arcs", "parses", "words"}
    assert {len(other[name]) for name in of_tokens} == {2}


def test_wrong_arguments_are_refused(pipeline, tmp_path):
    with pytest.raises(ValueError, match="expected alternatives as one of"):
        ArrowParser(pipeline, alternatives="best")(table_of(TEXTS))
    with pytest.raises(ValueError, match="Cannot load"):
        ArrowParser(tmp_path / "nothing")(table_of(TEXTS))
