"""Outputs are complete or can be resumed, and nothing is overwritten without --force."""

import json
import os

import pytest
import spacy
from spacy.tokens import Doc, DocBin
from spacy.training import Corpus

from spacy_rootmind.cli import outputs
from spacy_rootmind.cli.input_records import InputRecord
from spacy_rootmind.cli.journal import Counts, Journal, State, write_atomically
from spacy_rootmind.cli.messages import CommandError
from spacy_rootmind.cli.outputs import DocsOutput, FileOutput, check_free

SETTINGS = {"k": 5, "pipeline": "abc"}


def write_text(doc, record, n_before):
    return f"{n_before}: {doc}\n".encode()


def file_output(path, **settings):
    return FileOutput(write_text, path, {**SETTINGS, **settings})


def put(output, text, n_before=0):
    output.write(output.prepare(text, InputRecord("in", 1, text=text), n_before))


@pytest.fixture(scope="module")
def nlp():
    return spacy.blank("en")


@pytest.fixture
def small_parts(monkeypatch):
    """Files of two Docs."""
    monkeypatch.setattr(outputs, "PART_DOCS", 2)


def put_docs(output, nlp, first, stop):
    for i in range(first, stop):
        doc = nlp(f"Text {i}.")
        doc.user_data["number"] = i
        output.write(output.prepare(doc, InputRecord("in", i, text=doc.text), 0))
        output.commit(Counts(i + 1, 0, i + 1, i + 1, 3 * i + 3), f"digest {i}")


def numbers_in(docs):
    return [(doc.text, doc.user_data["number"]) for doc in docs]


# --- one file ----------------------------------------------------------------------------------


def test_file_has_its_name_once_it_is_complete(tmp_path):
    output = file_output(tmp_path / "sub" / "out.txt")
    assert output.start(resume=False) is None
    put(output, "a", 3)
    output.commit(Counts(1), "x")
    assert not output.path.exists()
    output.finish()
    output.close()
    assert output.path.read_text() == "3: a\n"
    assert os.listdir(output.path.parent) == ["out.txt"]


def test_resumed_file_continues_after_the_last_commit(tmp_path):
    output = file_output(tmp_path / "out.txt")
    output.start(resume=False)
    put(output, "a")
    counts = Counts(1, 2, 3, 4, 5)
    output.commit(counts, "x")
    put(output, "lost")
    output.close()
    again = file_output(tmp_path / "out.txt")
    assert again.start(resume=True) == State(counts, "x", len("0: a\n"))
    put(again, "b")
    again.finish()
    assert again.path.read_text() == "0: a\n0: b\n"


@pytest.mark.parametrize("resume", [True, False])
def test_file_without_a_commit_starts_again(tmp_path, resume):
    output = file_output(tmp_path / "out.txt")
    output.start(resume=False)
    put(output, "lost")
    if not resume:
        output.commit(Counts(1), "x")
    output.close()
    again = file_output(tmp_path / "out.txt")
    assert again.start(resume) is None
    assert not again.journal.path.exists()
    put(again, "b")
    again.finish()
    assert again.path.read_text() == "0: b\n"


def test_file_shorter_than_its_journal_raises(tmp_path):
    output = file_output(tmp_path / "out.txt")
    output.start(resume=False)
    put(output, "a")
    output.commit(Counts(1), "x")
    output.close()
    os.truncate(output.partial, 2)
    again = file_output(tmp_path / "out.txt")
    with pytest.raises(CommandError, match="shorter"):
        again.start(resume=True)
    again.close()
    assert output.partial.read_text() == "0:"


def test_resuming_with_other_settings_raises(tmp_path):
    output = file_output(tmp_path / "out.txt")
    output.start(resume=False)
    output.commit(Counts(1), "x")
    output.close()
    other = file_output(tmp_path / "out.txt", k=6)
    with pytest.raises(CommandError, match="other settings") as caught:
        other.start(resume=True)
    other.close()
    assert "k: was 5, now 6" in caught.value.text
    assert "pipeline" not in caught.value.text


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": 1}', "null", "\x00" * 50])
def test_damaged_journal_raises(tmp_path, content):
    path = tmp_path / "journal.json"
    path.write_text(content)
    with pytest.raises(CommandError, match="Cannot read"):
        Journal(path, SETTINGS).read()


def test_journal_of_another_format_raises(tmp_path):
    journal = Journal(tmp_path / "journal.json", SETTINGS)
    state = State(Counts(1, 2, 3, 4, 5), "x", 6)
    journal.write(state)
    assert journal.read() == state
    data = json.loads(journal.path.read_text())
    journal.path.write_text(json.dumps({**data, "format": 0}))
    with pytest.raises(CommandError, match="Cannot resume"):
        journal.read()


def test_file_is_replaced_as_a_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def fail(*arguments):
        raise OSError("no space")

    for name in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, fail)
            with pytest.raises(OSError, match="no space"):
                write_atomically(path, b"new")
        assert path.read_bytes() == b"old"
        assert os.listdir(tmp_path) == ["file"]
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"


@pytest.mark.skipif(os.name != "posix", reason="files are locked on POSIX systems only")
@pytest.mark.parametrize("name", ["out.txt", "out.spacy"])
def test_two_runs_cannot_write_the_same(tmp_path, name):
    def make():
        if name == "out.txt":
            return file_output(tmp_path / name)
        return DocsOutput(tmp_path / name, SETTINGS)

    first = make()
    first.start(resume=False)
    if name == "out.txt":
        put(first, "a")
    first.commit(Counts(1), "x")
    for resume in (True, False):
        second = make()
        with pytest.raises(CommandError, match="Another run"):
            second.start(resume)
        second.close()
    first.close()
    third = make()
    third.start(resume=True)
    third.close()


def make_output(folder, name):
    return file_output(folder / name) if name == "out.txt" else DocsOutput(folder / name, SETTINGS)


@pytest.mark.parametrize("name", ["out.txt", "out", "out.spacy"])
def test_output_completed_by_another_run_meanwhile_is_not_overwritten(name, tmp_path):
    first = make_output(tmp_path, name)
    first.start(resume=False)
    first.finish()
    first.close()
    second = make_output(tmp_path, name)
    with pytest.raises(CommandError, match="already exists"):
        second.start(resume=False, overwrite=False)
    second.close()
    assert os.listdir(tmp_path) == [name]


@pytest.mark.skipif(os.name != "posix", reason="files are locked on POSIX systems only")
@pytest.mark.parametrize("resume", [True, False])
@pytest.mark.parametrize("name", ["out.txt", "out", "out.spacy"])
def test_output_completed_just_before_it_is_locked_is_not_overwritten(
    name, resume, tmp_path, monkeypatch
):
    """The second run has opened the unfinished output, which is then renamed."""
    first = make_output(tmp_path, name)
    first.start(resume=False)
    if name == "out.txt":
        put(first, "a")
    real = outputs.lock

    def finish_and_lock(handle, path):
        first.finish()
        first.close()
        real(handle, path)

    monkeypatch.setattr(outputs, "lock", finish_and_lock)
    second = make_output(tmp_path, name)
    with pytest.raises(CommandError, match="Another run has just completed"):
        second.start(resume)
    second.close()
    assert os.listdir(tmp_path) == [name]
    if name == "out.txt":
        assert first.path.read_text() == "0: a\n"


@pytest.mark.skipif(os.name != "posix", reason="files are locked on POSIX systems only")
@pytest.mark.parametrize("name", ["out.txt", "out"])
def test_output_stays_locked_until_it_has_its_name(name, tmp_path, monkeypatch):
    first, second = make_output(tmp_path, name), make_output(tmp_path, name)
    first.start(resume=False)
    real = os.replace

    def start_and_replace(old, new):
        if new == first.path:
            with pytest.raises(CommandError, match="Another run is writing"):
                second.start(resume=True)
            second.close()
        real(old, new)

    monkeypatch.setattr(os, "replace", start_and_replace)
    first.finish()
    first.close()
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("fails_at", [1, 2])
def test_docs_are_replaced_as_a_whole(fails_at, tmp_path, monkeypatch, nlp):
    def make(n_docs):
        output = DocsOutput(tmp_path / "out", SETTINGS)
        output.start(resume=False)
        put_docs(output, nlp, 0, n_docs)
        return output

    make(2).finish()
    output = make(3)
    n_calls = 0
    real = os.replace

    def fail_once(old, new):
        nonlocal n_calls
        # Parts are replaced as well.
        n_calls += new.parent == tmp_path
        if n_calls == fails_at:
            n_calls += 1
            raise OSError("killed")
        real(old, new)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fail_once)
        with pytest.raises(OSError, match="killed"):
            output.finish()
    output.close()
    if fails_at == 1:
        assert len(DocBin().from_disk(output.path / "part-00001.spacy")) == 2
    else:
        assert not output.path.exists()
    make(3).finish()
    assert len(DocBin().from_disk(output.path / "part-00001.spacy")) == 3
    assert os.listdir(tmp_path) == ["out"]


def test_remains_of_a_journal_are_removed(tmp_path):
    output = file_output(tmp_path / "out.txt")
    output.start(resume=False)
    # Killed while it was written.
    (tmp_path / "out.txt.partial.json.new").write_text("{")
    output.finish()
    output.close()
    assert os.listdir(tmp_path) == ["out.txt"]


# --- files of Docs -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["out", "out.spacy"])
@pytest.mark.parametrize("n_docs", [0, 1, 2, 5])
def test_docs_are_written_in_order(tmp_path, name, n_docs, nlp, small_parts):
    output = DocsOutput(tmp_path / name, SETTINGS)
    output.start(resume=False)
    put_docs(output, nlp, 0, n_docs)
    output.finish()
    output.close()
    assert os.listdir(tmp_path) == [name]
    expected = [(f"Text {i}.", i) for i in range(n_docs)]
    if name == "out":
        parts = sorted(output.path.iterdir())
        assert [path.name for path in parts] == [
            f"part-{i + 1:05d}.spacy" for i in range(max(1, -(-n_docs // 2)))
        ]
        docs = [doc for path in parts for doc in DocBin().from_disk(path).get_docs(nlp.vocab)]
    else:
        docs = DocBin().from_disk(output.path).get_docs(nlp.vocab)
    assert numbers_in(docs) == expected
    examples = list(Corpus(output.path)(nlp))
    assert [example.reference.text for example in examples] == [text for text, _ in expected]


@pytest.mark.parametrize("stop", range(6))
@pytest.mark.parametrize("name", ["out", "out.spacy"])
def test_resumed_docs_continue_after_the_last_part(tmp_path, name, stop, nlp, small_parts):
    output = DocsOutput(tmp_path / name, SETTINGS)
    output.start(resume=False)
    put_docs(output, nlp, 0, stop)
    output.close()
    (output.partial / "part-00009.spacy").write_bytes(b"unknown to the journal")
    again = DocsOutput(tmp_path / name, SETTINGS)
    state = again.start(resume=True)
    done = 0 if state is None else state.counts.records
    assert done == stop // 2 * 2
    assert state is None or state.input_digest == f"digest {done - 1}"
    put_docs(again, nlp, done, 6)
    again.finish()
    again.close()
    paths = [again.path] if name == "out.spacy" else sorted(again.path.iterdir())
    docs = [doc for path in paths for doc in DocBin().from_disk(path).get_docs(nlp.vocab)]
    assert numbers_in(docs) == [(f"Text {i}.", i) for i in range(6)]


def test_missing_part_raises(tmp_path, nlp, small_parts):
    output = DocsOutput(tmp_path / "out", SETTINGS)
    output.start(resume=False)
    put_docs(output, nlp, 0, 4)
    output.close()
    (output.partial / "part-00001.spacy").unlink()
    again = DocsOutput(tmp_path / "out", SETTINGS)
    with pytest.raises(CommandError, match="lacks files") as caught:
        again.start(resume=True)
    again.close()
    assert "part-00001.spacy" in caught.value.text


def test_part_is_bounded_in_tokens(tmp_path, monkeypatch, nlp):
    monkeypatch.setattr(outputs, "PART_TOKENS", 7)
    output = DocsOutput(tmp_path / "out", SETTINGS)
    output.start(resume=False)
    put_docs(output, nlp, 0, 7)
    output.finish()
    output.close()
    lengths = [len(DocBin().from_disk(path)) for path in sorted(output.path.iterdir())]
    assert lengths == [3, 3, 1]


def test_doc_that_cannot_be_packed_leaves_the_others_in_order(tmp_path, nlp):
    output = DocsOutput(tmp_path / "out.spacy", SETTINGS)
    output.start(resume=False)
    put_docs(output, nlp, 0, 1)
    doc = nlp("Wrong.")
    doc.user_data["number"] = object()
    with pytest.raises(TypeError):
        output.prepare(doc, InputRecord("in", 1, text="Wrong."), 0)
    put_docs(output, nlp, 1, 2)
    output.finish()
    output.close()
    docs = DocBin().from_disk(output.path).get_docs(nlp.vocab)
    assert numbers_in(docs) == [("Text 0.", 0), ("Text 1.", 1)]


def test_vectors_of_a_transformer_are_not_written(tmp_path, nlp):
    # As spacy-transformers and spacy-curated-transformers do.
    Doc.set_extension("trf_data", default=None, force=True)
    try:
        doc = nlp("Text.")
        doc._.trf_data = [0.5] * 1000
        doc.user_data["number"] = 7
        output = DocsOutput(tmp_path / "out.spacy", SETTINGS)
        [written] = output.prepare(doc, InputRecord("in", 1, text="Text."), 0).get_docs(nlp.vocab)
        assert written._.trf_data is None
        assert written.user_data["number"] == 7
    finally:
        Doc.remove_extension("trf_data")


# --- names -------------------------------------------------------------------------------------


def test_existing_output_is_only_overwritten_with_force(tmp_path):
    path = tmp_path / "out.txt"
    options = {"makes_folder": False, "force": False, "resume": False}
    check_free(path, **options)
    partial = tmp_path / "out.txt.partial"
    partial.write_text("x")
    with pytest.raises(CommandError, match="did not finish"):
        check_free(path, **options)
    check_free(path, **{**options, "resume": True})
    check_free(path, **{**options, "force": True})
    path.write_text("x")
    for resume in (True, False):
        with pytest.raises(CommandError, match="already exists"):
            check_free(path, **{**options, "resume": resume})
    check_free(path, **{**options, "force": True})
    check_free(path, makes_folder=False, force=True, resume=True)


def test_only_folders_of_docs_are_overwritten(tmp_path, nlp):
    options = {"force": True, "resume": False}
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "part-00001.spacy").write_text("old")
    check_free(folder, makes_folder=True, **options)
    with pytest.raises(CommandError, match="is a folder"):
        check_free(folder, makes_folder=False, **options)
    output = DocsOutput(folder, SETTINGS)
    output.start(resume=False)
    put_docs(output, nlp, 0, 1)
    output.finish()
    output.close()
    [part] = folder.iterdir()
    assert len(DocBin().from_disk(part)) == 1
    (folder / "thesis.txt").write_text("mine")
    with pytest.raises(CommandError, match="is a folder"):
        check_free(folder, makes_folder=True, **options)
