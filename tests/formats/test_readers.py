"""Records of all formats, and the messages for invalid ones."""

import itertools
import json
from pathlib import Path

import pytest
import spacy
from commandline import lines_in

from spacy_rootmind.formats import lines as inputs_module
from spacy_rootmind.formats.conllu import read_conllu
from spacy_rootmind.formats.jsonl import read_jsonl
from spacy_rootmind.formats.lines import InputError, Line, check_inputs
from spacy_rootmind.formats.records import Failure, InputRecord
from spacy_rootmind.formats.registry import read_records
from spacy_rootmind.formats.text import read_paragraphs, read_texts


@pytest.fixture(scope="module")
def nlp():
    """A pipeline that only tokenizes."""
    return spacy.blank("xx")


def read(reader, data):
    return list(reader("in", lines_in(data)))


def texts(found):
    return [record.text for record in found if isinstance(record, InputRecord)]


def failures(found):
    return [(f.line, f.reason) for f in found if isinstance(f, Failure)]


def read_file(path, data, form=None):
    path.write_bytes(data)
    return list(read_records([str(path)], form))


# --- text --------------------------------------------------------------------------------------


def test_texts_are_lines_as_they_are(tmp_path):
    data = "\ufeffOne.\r\n\n  Two \u2028 three. \n \t\nNo end".encode()
    found = read_file(tmp_path / "a.txt", data)
    assert texts(found) == ["One.", "  Two \u2028 three. ", "No end"]
    assert [record.line for record in found] == [1, 3, 5]


def test_paragraphs_keep_their_line_ends(tmp_path):
    data = b"\n\nOne\ntwo. \n \nThree\n\n\n"
    found = read_file(tmp_path / "a.txt", data, "paragraphs")
    assert texts(found) == ["One\ntwo. ", "Three"]
    assert [record.line for record in found] == [3, 6]


@pytest.mark.parametrize(
    ("reader", "data", "expected"),
    [
        (read_texts, b"One.\n\nTw\xffo.\n\nThree.", ["One.", "Three."]),
        # A paragraph fails as a whole, at the wrong line.
        (read_paragraphs, b"One.\n\nTw\xffo\nmore.\n\nThree.", ["One.", "Three."]),
    ],
)
def test_text_that_is_not_utf8_is_a_failure_and_the_rest_is_read(reader, data, expected):
    found = read(reader, data)
    assert texts(found) == expected
    [(line, reason)] = failures(found)
    assert line == 1 + data[: data.index(b"\xff")].count(b"\n")
    assert "0xff at 3" in reason


def test_line_without_end_takes_bounded_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(inputs_module, "MAX_LINE", 10)
    data = b"short\n" + b"x" * 35 + b"\n0123456789\r\n" + b"y" * 11
    found = read_file(tmp_path / "a.txt", data)
    assert texts(found) == ["short"]
    assert [line for line, _ in failures(found)] == [2, 3, 4]
    monkeypatch.setattr(inputs_module, "MAX_LINE", 12)
    assert texts(read_file(tmp_path / "a.txt", data)) == ["short", "0123456789", "y" * 11]


# --- JSONL -------------------------------------------------------------------------------------


def test_jsonl_text_and_fields():
    found = read(read_jsonl, b'{"text": "One.", "id": 7}\n\n{"text": ""}')
    assert texts(found) == ["One.", ""]
    assert found[0].fields == {"text": "One.", "id": 7}
    assert found[0].words is None


def test_jsonl_tokens_and_sentences(nlp):
    data = [
        {"tokens": ["It", "rained", "."]},
        {"tokens": [["It", "rained", "."], ["She", "left"]]},
        {"tokens": []},
        {"tokens": [[]]},
    ]
    flat, nested, empty, hollow = read(read_jsonl, "\n".join(map(json.dumps, data)).encode())
    assert flat.words == ["It", "rained", "."]
    assert flat.starts is None
    assert nested.words == ["It", "rained", ".", "She", "left"]
    assert nested.starts == [True, False, False, True, False]
    assert [s.text for s in nested.make_doc(nlp).sents] == ["It rained .", "She left"]
    assert len(empty.make_doc(nlp)) == len(hollow.make_doc(nlp)) == 0


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ('{"text": "x"', "Expecting"),
        ('["text"]', "expected an object"),
        ('"text"', "expected an object"),
        ('{"txt": "x"}', "found neither"),
        ('{"text": null}', "found neither"),
        ('{"text": 1}', '"text" to be a string'),
        ('{"tokens": "x"}', '"tokens" to be a list'),
        ('{"tokens": ["x", ""]}', "to be strings"),
        ('{"tokens": ["x", ["y"]]}', "to be strings"),
        ('{"tokens": [["x", null]]}', "to be strings"),
        ('{"tokens": [{"start": 0, "end": 1}]}', "to be strings"),
        ('{"text": "x y", "tokens": ["x", "y"]}', "found both"),
        ("[" * 100_000, "recursion depth"),
        ('{"text": "x", "a": ' + "[" * 200_000 + "]" * 200_000 + "}", "recursion depth"),
        ('{"a":' * 100_000, "recursion depth"),
        ('{"text": ' + "9" * 5000 + "}", "not a record"),
    ],
)
def test_invalid_json_is_a_failure_and_the_rest_is_read(source, reason):
    found = read(read_jsonl, f'{{"text": "a"}}\n{source}\n{{"text": "b"}}'.encode())
    assert texts(found) == ["a", "b"]
    [(line, given)] = failures(found)
    assert line == 2
    assert reason in given


# --- CoNLL-U -----------------------------------------------------------------------------------


def test_conllu_has_one_sentence_per_record(dev_conllu, nlp):
    found = list(read_records([str(dev_conllu)]))
    blocks = dev_conllu.read_text(encoding="utf8").strip().split("\n\n")
    assert len(found) == len(blocks)
    for record, block in zip(found, blocks, strict=True):
        doc = record.make_doc(nlp)
        assert f"# text = {doc.text}".strip() in block.splitlines()
        assert f"# sent_id = {record.fields['sent_id']}" in block.splitlines()
        assert len(list(doc.sents)) == 1
    assert found[1].line == 1 + len(blocks[0].splitlines()) + 1


def test_invalid_conllu_is_a_failure_and_the_rest_is_read(dev_conllu):
    data = dev_conllu.read_bytes()
    first, second, third, *_ = data.split(b"\n\n")
    broken = second.replace(b"\t", b" ", 1)
    found = read(read_conllu, b"\n\n".join([first, broken, third]))
    assert [type(record) for record in found] == [InputRecord, Failure, InputRecord]
    n_comments = sum(line.startswith(b"#") for line in second.splitlines())
    assert found[1].line == len(first.splitlines()) + 1 + n_comments + 1


# --- all of them -------------------------------------------------------------------------------

# The readers, the lines of a record, and how many lines they read beyond it: a text of a file has
# the whitespace up to the next one, which is read as well.
ENDLESS = {
    "text": (read_texts, [b"One."], 1),
    "paragraphs": (read_paragraphs, [b"One.", b""], 2),
    "jsonl": (read_jsonl, [b'{"text": "One."}'], 0),
    "conllu": (read_conllu, [b"\t".join([b"1", b"x", *[b"_"] * 8]), b""], 0),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_readers_read_no_further_than_they_must(name):
    reader, pattern, n_ahead = ENDLESS[name]
    n_read = 0

    def count():
        nonlocal n_read
        for data in itertools.cycle(pattern):
            n_read += 1
            yield Line(n_read, data)

    records = reader("in", count())
    for done in range(1, 1000):
        assert isinstance(next(records), InputRecord)
        assert n_read == done * len(pattern) + n_ahead


def test_suffix_decides_on_the_format(tmp_path):
    for name in ("a.csv", "b"):
        with pytest.raises(InputError, match="cannot tell the format"):
            read_file(tmp_path / name, b"One.")
    assert texts(read_file(tmp_path / "a.csv", b"One.", "text")) == ["One."]
    assert texts(read_file(tmp_path / "a.JSONL", b'{"text": "One."}')) == ["One."]
    for name in ("a.md", "a.eml", "a.SRT"):
        paragraphs = texts(read_file(tmp_path / name, b"# One\nmore.\n\nTwo."))
        assert paragraphs == ["# One\nmore.", "Two."]


def test_a_file_is_no_stream_whatever_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    [record] = read_file(Path("stdin"), b"One.\n\n\n", "text")
    assert record.after == "\n\n\n"


@pytest.mark.parametrize("name", ["missing.txt", ""])
def test_inputs_must_be_files(tmp_path, name):
    with pytest.raises(InputError, match=r"not found|Is a directory"):
        check_inputs([str(tmp_path / name)])


@pytest.mark.parametrize("columns", ["ID FORM UPOS", "ID FORM LEMMA UPOS XPOS FEATS X HEAD Y MISC"])
def test_conllu_plus_is_named_and_not_read(columns):
    """Ten columns, too, since they are others."""
    row = "\t".join(["1", "x", *"_" * (len(columns.split()) - 2)])
    data = f"# global.columns = {columns}\n{row}\n\n{row}\n\n".encode()
    [(line, reason)] = failures(read(read_conllu, data))
    assert line == 1
    assert "CoNLL-U Plus: convert it to ID FORM LEMMA" in reason
    # With the columns of CoNLL-U, the file is CoNLL-U.
    data = data.replace(columns.encode(), b"ID FORM LEMMA UPOS XPOS FEATS HEAD DEPREL DEPS MISC")
    assert failures(read(read_conllu, data)) == [] or len(columns.split()) != 10
