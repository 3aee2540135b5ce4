"""Outputs have their name once complete, and nothing is overwritten without --force."""

import os
from contextlib import suppress
from pathlib import Path

import pytest
import spacy
from spacy.tokens import Doc, DocBin

from spacy_rootmind.cli.parse import new_file
from spacy_rootmind.formats.docbin import DocsOutput
from spacy_rootmind.formats.records import InputRecord
from spacy_rootmind.parsing.settings import RunError

RECORD = InputRecord("in", 1, text="x")


@pytest.fixture(scope="module")
def nlp():
    return spacy.blank("xx")


def test_file_has_its_name_once_it_is_complete(tmp_path):
    path = tmp_path / "out"
    with new_file(path, force=False) as stream:
        stream.write(b"a")
        assert os.listdir(tmp_path) == ["out.partial"]
    assert os.listdir(tmp_path) == ["out"]
    with pytest.raises(RunError, match="already exists"), new_file(path, force=False):
        pass
    with suppress(KeyboardInterrupt), new_file(path, force=True) as stream:
        stream.write(b"b")
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == ["out"]
    assert path.read_bytes() == b"a"


def test_output_that_appears_while_a_run_writes_is_not_overwritten(tmp_path):
    path = tmp_path / "out"
    with (
        pytest.raises(RunError, match="Another run has completed"),
        new_file(path, force=False),
    ):
        path.write_text("mine")
    assert os.listdir(tmp_path) == ["out"]
    assert path.read_text() == "mine"


def test_unfinished_output_is_kept_without_force(tmp_path):
    # As a run leaves it that was killed, or that still runs.
    (tmp_path / "out.partial").touch()
    path = tmp_path / "out"
    with pytest.raises(RunError, match="did not finish"), new_file(path, force=False):
        pass
    assert os.listdir(tmp_path) == ["out.partial"]
    with new_file(tmp_path / "out", force=True):
        pass
    assert os.listdir(tmp_path) == ["out"]


def test_folders_are_not_overwritten(tmp_path):
    for force in (False, True):
        # The last two have no name.
        for path in (tmp_path, Path("."), Path("/")):
            with pytest.raises(RunError, match="is a folder"), new_file(path, force=force):
                pass


def docs_in(output, nlp):
    return list(DocBin().from_bytes(output.end()).get_docs(nlp.vocab))


def test_doc_that_cannot_be_packed_leaves_the_others_in_order(nlp):
    output = DocsOutput()
    for text in ("One.", "Wrong.", "Two."):
        doc = nlp(text)
        if text != "Wrong.":
            assert output.add(output.prepare(doc, RECORD)) == b""
            continue
        doc.user_data["number"] = object()
        with pytest.raises(TypeError):
            output.prepare(doc, RECORD)
    assert [doc.text for doc in docs_in(output, nlp)] == ["One.", "Two."]


def test_vectors_of_a_transformer_are_not_written(nlp):
    # As spacy-transformers and spacy-curated-transformers do.
    Doc.set_extension("trf_data", default=None, force=True)
    try:
        doc = nlp("Text.")
        doc._.trf_data = [0.5] * 1000
        doc.user_data["number"] = 7
        output = DocsOutput()
        output.add(output.prepare(doc, RECORD))
        [written] = docs_in(output, nlp)
        assert written._.trf_data is None
        assert written.user_data["number"] == 7
    finally:
        Doc.remove_extension("trf_data")
