"""Outputs have their name once complete, and nothing is overwritten without --force."""

import os

import pytest
import spacy
from spacy.tokens import Doc, DocBin

from spacy_rootmind.cli.errors import CommandError
from spacy_rootmind.cli.outputs import DocsOutput, FileOutput, check_free
from spacy_rootmind.formats.records import InputRecord

RECORD = InputRecord("in", 1, text="x")


@pytest.fixture(scope="module")
def nlp():
    return spacy.blank("xx")


@pytest.fixture(params=[FileOutput, DocsOutput])
def make_output(request, tmp_path):
    """Makes outputs to the same file, of text or of Docs."""
    if request.param is DocsOutput:
        return lambda **options: DocsOutput(tmp_path / "out", **options)
    return lambda **options: FileOutput(
        lambda doc, record, n_before: f"{n_before}: {doc}\n".encode(), tmp_path / "out", **options
    )


def test_file_has_its_name_once_it_is_complete(make_output, nlp, tmp_path):
    check_free(tmp_path / "out", force=False)
    output = make_output()
    output.start()
    output.write(output.prepare(nlp("a"), RECORD, 3))
    assert os.listdir(tmp_path) == ["out.partial"]
    output.finish()
    output.close()
    assert os.listdir(tmp_path) == ["out"]
    if isinstance(output, DocsOutput):
        assert [doc.text for doc in DocBin().from_disk(output.path).get_docs(nlp.vocab)] == ["a"]
    else:
        assert output.path.read_text() == "3: a\n"
    with pytest.raises(CommandError, match="already exists"):
        check_free(output.path, force=False)
    check_free(output.path, force=True)
    again = make_output(force=True)
    again.start()
    again.close()
    assert os.listdir(tmp_path) == ["out"]


def test_output_that_appears_while_a_run_writes_is_not_overwritten(make_output, tmp_path):
    output = make_output()
    output.start()
    output.path.write_text("mine")
    with pytest.raises(CommandError, match="Another run has completed"):
        output.finish()
    output.close()
    assert os.listdir(tmp_path) == ["out"]
    assert output.path.read_text() == "mine"


def test_unfinished_output_is_kept_without_force(make_output, tmp_path):
    # As a run leaves it that was killed, or that still runs.
    (tmp_path / "out.partial").touch()
    with pytest.raises(CommandError, match="did not finish"):
        check_free(tmp_path / "out", force=False)
    # Another run, which has looked before the first one started.
    other = make_output()
    with pytest.raises(CommandError, match="Another run has just started"):
        other.start()
    other.close()
    # It is only removed when the run writes: other options may be wrong.
    check_free(tmp_path / "out", force=True)
    assert os.listdir(tmp_path) == ["out.partial"]
    again = make_output(force=True)
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
    for text in ("One.", "Wrong.", "Two."):
        doc = nlp(text)
        if text != "Wrong.":
            output.write(output.prepare(doc, RECORD, 0))
            continue
        doc.user_data["number"] = object()
        with pytest.raises(TypeError):
            output.prepare(doc, RECORD, 0)
    output.finish()
    docs = DocBin().from_disk(output.path).get_docs(nlp.vocab)
    assert [doc.text for doc in docs] == ["One.", "Two."]


def test_vectors_of_a_transformer_are_not_written(tmp_path, nlp):
    # As spacy-transformers and spacy-curated-transformers do.
    Doc.set_extension("trf_data", default=None, force=True)
    try:
        doc = nlp("Text.")
        doc._.trf_data = [0.5] * 1000
        doc.user_data["number"] = 7
        output = DocsOutput(tmp_path / "out.spacy")
        [written] = output.prepare(doc, RECORD, 0).get_docs(nlp.vocab)
        assert written._.trf_data is None
        assert written.user_data["number"] == 7
    finally:
        Doc.remove_extension("trf_data")
