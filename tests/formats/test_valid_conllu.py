"""The CoNLL-U that is written passes level 2 of UD's validator."""

import pytest
import spacy
from commandline import errors_in, parse_options
from conftest import QUICKSTART

from spacy_rootmind.cli.parse import parse as run_parse
from spacy_rootmind.formats.conllu import write_conllu
from spacy_rootmind.formats.records import InputRecord
from spacy_rootmind.formats.registry import read_records
from spacy_rootmind.parsing.stream import parse_records

# Whitespace of all kinds, letters of two characters, and what CoNLL-U uses itself.
AWKWARD = (
    "  The cat (a\u00a0\u00a0tabby) slept.  It\tdidn't\u2003purr.\n\n\u00a0She did.",
    "The cafe\u0301 in Co\u0302te d'Ivoire isn't A\u030angstro\u0308m's.",
    "1\u00a0000\u00a0000 | 50 % of a_b\\c = d; x\u2028y\u0085z.",
    "\U0001f600 !!! ... -- ?! #hash _ __ https://example.org/a_(b)?c=d|e",
    "He has two of his own; 1/2 of the second, 3rd, 1st and 20th.",
)


@pytest.fixture(scope="module")
def nlp(web_pipeline):
    """The English pipeline, which has tags, features and labels of UD."""
    return spacy.load(web_pipeline)


def parse(nlp, records):
    """Parse records to CoNLL-U; all must be valid."""
    found = parse_records(nlp, iter(records))
    data = b"".join(write_conllu(doc, record) for record, doc in found)
    assert data
    return data.decode("utf8")


def test_text_becomes_valid_conllu(nlp):
    names = ["a b/c", "A\u030a", "B", "%", None]
    records = [
        InputRecord("in", i, text=text, fields={} if name is None else {"id": name})
        for i, (text, name) in enumerate(zip(AWKWARD, names, strict=True))
    ]
    assert not errors_in(parse(nlp, records), level=2)


@pytest.mark.parametrize("form", ["text", "paragraphs"])
def test_text_of_files_becomes_valid_conllu(form, web_pipeline, tmp_path):
    """The files are in two folders, without a last line end, and get probabilities."""
    contents = {"in a": "\n She saw\r\nhim.\r\n\r\nIt rained.", "in b": "\ufeffNo.\n\n\nYes. "}
    for folder, content in contents.items():
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.txt").write_text(content, encoding="utf8")
    names = [str(tmp_path / folder / "x.txt") for folder in contents]
    output = tmp_path / "out.conllu"
    options = parse_options(
        web_pipeline, names, str(output), from_format=form, confidence=True, arcs=0.01
    )
    assert run_parse(options) == 0
    text = output.read_text(encoding="utf8")
    assert text.count("# newdoc") == 2
    assert not errors_in(text, level=2)


@pytest.mark.parametrize("name", ["English-EWT", "English-GUM"])
def test_treebanks_stay_valid(name, nlp, ud_folder):
    """With enhanced graphs, empty nodes and multiword tokens."""
    [path] = (ud_folder / f"UD_{name}").glob("*-ud-test.conllu")
    records = list(read_records([str(path)]))[::16]
    given = [record.sentence.rows for record in records]
    assert any(row[8] != "_" for rows in given for row in rows)
    text = parse(nlp, records)
    assert not errors_in(text, level=2)
    written = [line.split("\t") for line in text.splitlines() if line[:1].isdigit()]
    tags = [value for rows in given for row in rows if row[0].isdigit() for value in row[2:6]]
    new_tags = [value for row in written if row[0].isdigit() for value in row[2:6]]
    assert all(a in (b, "_") for a, b in zip(tags, new_tags, strict=True))


def test_the_validator_finds_errors():
    text = (QUICKSTART / "assets" / "en_quick-ud-dev.conllu").read_text(encoding="utf8")
    assert not errors_in(text, level=2)
    unsorted = text.replace("Number=Sing", "NumForm=Word|Number=Sing")
    assert "unsorted-features" in errors_in(unsorted, level=2)
