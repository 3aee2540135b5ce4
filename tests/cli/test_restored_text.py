"""CoNLL-U has the text of the files that it was made from, character by character."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from unicodedata import normalize

import pytest
import spacy
from commandline import parse_options
from fuzzing import fuzz
from hypothesis import example, given
from hypothesis import strategies as st
from restored import restore

from spacy_rootmind.cli.parse import ParseRun
from spacy_rootmind.formats.lines import short_names

WORDS = ["She", "saw", "me.", "It's", "10|3", "a\\b", "e\u0301", "\u2060", ".", "# newdoc", "\\s"]
SPACES = [" ", " ", "  ", "\t", "\n", "\n", "\r\n", "\r\n", "\n\n", "\r\n \r\n", "\r", "\x0c\n"]
SPACES += ["\u00a0", "\u2028", "\x1f", "\n\u3000\n"]
TEXTS = st.lists(st.sampled_from([*WORDS, *SPACES]), max_size=25).map("".join)
FILES = st.lists(TEXTS, min_size=1, max_size=3)


@pytest.fixture(scope="module")
def nlp(pipeline):
    return spacy.load(pipeline)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("files")


def parse_files(nlp, paths, form=None):
    """Parse files; returns the CoNLL-U that is written."""
    names = [str(path) for path in paths]
    with TemporaryDirectory() as folder:
        output = Path(folder, "out.conllu")
        options = parse_options("", names, str(output), from_format=form, quiet=True)
        assert ParseRun(options, nlp, "conllu").run() == 0
        return output.read_bytes().decode("utf8")


@pytest.mark.parametrize("form", ["text", "paragraphs"])
@fuzz(20)
@given(files=FILES)
@example(files=["\n \r\nShe saw\r\nme. It's \n\r\n\n", "She saw", "\ufeffme.\r\n"])
def test_text_of_files_is_restored(form, files, nlp, folder):
    paths = [folder / f"{number}.txt" for number in range(len(files))]
    for path, text in zip(paths, files, strict=True):
        path.write_bytes(text.encode())
    restored = restore(parse_files(nlp, paths, form))
    # UD wants Unicode's normal form C, and a file without words has no sentences.
    assert [(name, normalize("NFC", "".join(texts))) for name, texts in restored] == [
        (path.name, normalize("NFC", text.removeprefix("\ufeff")))
        for path, text in zip(paths, files, strict=True)
        if text.removeprefix("\ufeff").strip()
    ]


@fuzz(20)
@given(texts=st.lists(TEXTS, min_size=1, max_size=5))
def test_text_of_json_records_is_restored(texts, nlp, folder):
    path = folder / "a.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), "utf8")
    restored = [text for _, own in restore(parse_files(nlp, [path])) for text in own]
    assert [normalize("NFC", text) for text in restored] == [
        normalize("NFC", text) for text in texts if text.strip()
    ]


def test_names_of_sentences_are_short_and_the_same_from_any_folder(nlp, tmp_path, monkeypatch):
    paths = [tmp_path / name for name in ("in a/x.txt", "in b/x.txt", "in b/y.txt")]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.write_text("She slept.\n\nIt rained.\n")
    written = parse_files(nlp, paths)
    named = [line[12:] for line in written.split("\n") if line.startswith("# sent_id = ")]
    files = ["in%20a%2Fx.txt", "in%20b%2Fx.txt", "y.txt"]
    assert named == [f"{file}:{line}-1" for file in files for line in (1, 3)]
    monkeypatch.chdir(tmp_path / "in a")
    assert parse_files(nlp, ["x.txt", "../in b/x.txt", "../in b/y.txt"]) == written


def test_short_names_tell_files_apart():
    paths = ["s3://one/a/x.txt", "s3://two/a/x.txt", "s3://two/a/y.txt", "s3://two/y.txt"]
    names = ["one/a/x.txt", "two/a/x.txt", "a/y.txt", "two/y.txt"]
    assert short_names([*paths, *paths]) == dict(zip(paths, names, strict=True))


def test_documents_are_told_apart_where_treebanks_meet(nlp, tmp_path):
    row = "\t".join(["1", "x", *"_" * 8])
    contents = {"a": row, "b": f"{row}\n\n{row}", "c": f"# newdoc\n# sent_id = c\n{row}"}
    for name, content in contents.items():
        (tmp_path / f"{name}.conllu").write_text(content + "\n\n")
    written = parse_files(nlp, [tmp_path / f"{name}.conllu" for name in contents])
    marks = [
        [line for line in sentence.split("\n") if line.startswith("# newdoc")]
        for sentence in written.strip().split("\n\n")
    ]
    assert marks == [[], ["# newdoc id = b.conllu"], [], ["# newdoc"]]
