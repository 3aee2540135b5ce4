"""Outputs have their name once complete, and nothing is overwritten without --force."""

import os

import pytest
import spacy
from spacy.tokens import Doc, DocBin
from spacy.training import Corpus

from spacy_rootmind.cli.errors import CommandError
from spacy_rootmind.cli.outputs import DocsOutput, FileOutput, check_free
from spacy_rootmind.formats.records import InputRecord


def write_text(doc, record, n_before):
    return f"{n_before}: {doc}\n".encode()


@pytest.fixture(scope="module")
def nlp():
    return spacy.blank("xx")


def put_docs(output, nlp, first, stop):
    for i in range(first, stop):
        doc = nlp(f"Text {i}.")
        doc.user_data["number"] = i
        output.write(output.prepare(doc, InputRecord("in", i, text=doc.text), 0))


def complete(output):
    output.finish()
    output.close()


def numbers_in(docs):
    return [(doc.text, doc.user_data["number"]) for doc in docs]


def make_output(folder, name, **options):
    if name == "out.txt":
        return FileOutput(write_text, folder / name, **options)
    return DocsOutput(folder / name, **options)


every_kind = pytest.mark.parametrize("name", ["out.txt", "out.spacy"])


def test_file_has_its_name_once_it_is_complete(tmp_path):
    output = make_output(tmp_path / "sub", "out.txt")
    output.start()
    output.write(output.prepare("a", InputRecord("in", 1, text="a"), 3))
    assert os.listdir(output.path.parent) == ["out.txt.partial"]
    complete(output)
    assert output.path.read_text() == "3: a\n"
    assert os.listdir(output.path.parent) == ["out.txt"]


@every_kind
def test_output_that_appears_while_a_run_writes_is_not_overwritten(name, tmp_path):
    output = make_output(tmp_path, name)
    output.start()
    output.path.write_text("mine")
    with pytest.raises(CommandError, match="Another run has completed"):
        output.finish()
    output.close()
    assert os.listdir(tmp_path) == [name]
    assert output.path.read_text() == "mine"


# --- files of Docs -----------------------------------------------------------------------------


@pytest.mark.parametrize("n_docs", [0, 1, 5])
def test_docs_are_written_in_order(n_docs, tmp_path, nlp):
    output = DocsOutput(tmp_path / "out.spacy")
    output.start()
    put_docs(output, nlp, 0, n_docs)
    complete(output)
    assert os.listdir(tmp_path) == ["out.spacy"]
    expected = [(f"Text {i}.", i) for i in range(n_docs)]
    assert numbers_in(DocBin().from_disk(output.path).get_docs(nlp.vocab)) == expected
    examples = list(Corpus(output.path)(nlp))
    assert [example.reference.text for example in examples] == [text for text, _ in expected]


# --- names -------------------------------------------------------------------------------------


@every_kind
def test_unfinished_output_is_kept_without_force(name, tmp_path):
    path = tmp_path / name
    # As a run leaves it that was killed, or that still runs.
    (tmp_path / f"{name}.partial").touch()
    with pytest.raises(CommandError, match="did not finish"):
        check_free(path, force=False)
    # Another run, which has looked before the first one started.
    other = make_output(tmp_path, name)
    with pytest.raises(CommandError, match="Another run has just started"):
        other.start()
    other.close()
    assert os.listdir(tmp_path) == [f"{name}.partial"]
    # It is only removed when the run writes: other options may be wrong.
    check_free(path, force=True)
    assert os.listdir(tmp_path) == [f"{name}.partial"]
    again = make_output(tmp_path, name, force=True)
    again.start()
    again.close()
    assert os.listdir(tmp_path) == []


def test_folders_are_not_overwritten(tmp_path):
    for force in (False, True):
        with pytest.raises(CommandError, match="is a folder"):
            check_free(tmp_path, force=force)


def test_doc_that_cannot_be_packed_leaves_the_others_in_order(tmp_path, nlp):
    output = DocsOutput(tmp_path / "out.spacy")
    output.start()
    put_docs(output, nlp, 0, 1)
    doc = nlp("Wrong.")
    doc.user_data["number"] = object()
    with pytest.raises(TypeError):
        output.prepare(doc, InputRecord("in", 1, text="Wrong."), 0)
    put_docs(output, nlp, 1, 2)
    complete(output)
    docs = DocBin().from_disk(output.path).get_docs(nlp.vocab)
    assert numbers_in(docs) == [("Text 0.", 0), ("Text 1.", 1)]


def test_vectors_of_a_transformer_are_not_written(tmp_path, nlp):
    # As spacy-transformers and spacy-curated-transformers do.
    Doc.set_extension("trf_data", default=None, force=True)
    try:
        doc = nlp("Text.")
        doc._.trf_data = [0.5] * 1000
        doc.user_data["number"] = 7
        output = DocsOutput(tmp_path / "out.spacy")
        [written] = output.prepare(doc, InputRecord("in", 1, text="Text."), 0).get_docs(nlp.vocab)
        assert written._.trf_data is None
        assert written.user_data["number"] == 7
    finally:
        Doc.remove_extension("trf_data")


def test_existing_output_is_only_overwritten_with_force(tmp_path):
    path = tmp_path / "out.txt"
    check_free(path, force=False)
    path.write_text("x")
    with pytest.raises(CommandError, match="already exists"):
        check_free(path, force=False)
    check_free(path, force=True)
    assert path.read_text() == "x"


def test_unfinished_output_is_removed_with_its_run(tmp_path):
    for output in (make_output(tmp_path, name) for name in ("out.txt", "out.spacy")):
        output.start()
        output.close()
        assert os.listdir(tmp_path) == []
