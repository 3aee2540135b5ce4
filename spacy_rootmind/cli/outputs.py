"""Outputs of parsed Docs: a stream, a file, or files of Docs. The latter two can be resumed.

While a run is unfinished, its output is called `NAME.partial` and has a journal
`NAME.partial.json`; it gets its final name when it is complete. Docs in spaCy's format are written
in parts of bounded size, because a `DocBin` can only be written as a whole.
"""

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from spacy.tokens import Doc, DocBin

from spacy_rootmind.cli.input_records import InputRecord
from spacy_rootmind.cli.journal import Counts, Journal, State, new_path, write_atomically
from spacy_rootmind.cli.messages import CommandError
from spacy_rootmind.cli.writers import Writer, check_unchanged, restore_given_columns
from spacy_rootmind.compat import TRANSFORMER_OUTPUT

# Largest number of Docs and of tokens in one file of Docs.
PART_DOCS = 10_000
PART_TOKENS = 500_000


class Output(Protocol):
    """Writes parsed Docs, and commits them chunk by chunk."""

    @property
    def handles(self) -> list[int]:
        """Descriptors of open files that forked processes must close."""

    def start(self, resume: bool, overwrite: bool = True) -> State | None:
        """Open the output; return the state of the run to resume, if any.

        `overwrite` allows an output of that name, which another run may have made meanwhile.
        """

    def prepare(self, doc: Doc, record: InputRecord, n_before: int) -> Any:
        """Convert a Doc to what is written; raise an error if it does not fit its record."""

    def write(self, prepared: Any) -> None:
        """Write what `prepare` returned."""

    def commit(self, counts: Counts, input_digest: str) -> None:
        """Make what was written so far durable, if the output can be resumed."""

    def finish(self) -> None:
        """Complete the output, and give it its final name."""

    def close(self) -> None:
        """Release the output, whether it is complete or not."""


class StreamOutput:
    """Writes to an open stream, Doc by Doc; cannot be resumed."""

    def __init__(self, writer: Writer, stream: BinaryIO) -> None:
        self.prepare = writer
        self._stream = stream
        self.handles: list[int] = []

    def start(self, resume: bool, overwrite: bool = True) -> State | None:
        """Refuse to resume."""
        if resume:
            raise CommandError("Cannot resume the output to a stream", "Give --output.")
        return None

    def write(self, prepared: bytes) -> None:
        """Write without buffering, for programs that read the output as it is written."""
        self._stream.write(prepared)
        self._stream.flush()

    def commit(self, counts: Counts, input_digest: str) -> None:
        """Do nothing."""

    def finish(self) -> None:
        """Flush the stream."""
        self._stream.flush()

    def close(self) -> None:
        """Leave the stream open."""


class FileOutput:
    """Writes to one file, in the format of a writer."""

    def __init__(self, writer: Writer, path: Path, settings: dict[str, Any]) -> None:
        self.prepare = writer
        self.path = path
        self.partial = partial_path(path)
        self.journal = Journal(journal_path(path), settings)
        self._file: BinaryIO | None = None

    def start(self, resume: bool, overwrite: bool = True) -> State | None:
        """Open the file; truncate it to the size in the journal, or to nothing."""
        is_new = not self.partial.exists()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # Do not truncate the file yet: another run may be writing it.
        handle = os.open(self.partial, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
        self._file = os.fdopen(handle, "r+b")
        claim(handle, self.partial, self.path, overwrite)
        state = self.journal.read() if resume and not is_new else None
        length = self._file.seek(0, os.SEEK_END)
        written = 0 if state is None else state.written
        if length < written:
            raise CommandError(
                f"Cannot resume: {self.partial} is shorter than its journal says",
                f"Expected at least {written} bytes, found {length}. Start again with --force.",
            )
        if state is None:
            self.journal.remove()
        self._file.truncate(written)
        self._file.seek(written)
        return state

    @property
    def handles(self) -> list[int]:
        """The open file, which is locked."""
        return [self.file.fileno()]

    @property
    def file(self) -> BinaryIO:
        """The open file."""
        if self._file is None:
            raise ValueError("expected start to be called before anything is written")
        return self._file

    def write(self, prepared: bytes) -> None:
        """Write, through a buffer."""
        self.file.write(prepared)

    def commit(self, counts: Counts, input_digest: str) -> None:
        """Sync the file to disk, and then update the journal."""
        self.file.flush()
        os.fsync(self.file.fileno())
        self.journal.write(State(counts, input_digest, self.file.tell()))

    def finish(self) -> None:
        """Give the file its final name."""
        self.file.flush()
        os.fsync(self.file.fileno())
        if os.name != "posix":
            # Other systems do not rename open files. Here, it stays locked until it has its name.
            self.file.close()
        os.replace(self.partial, self.path)
        self.journal.remove()
        self.file.close()

    def close(self) -> None:
        """Close the file; drop buffered bytes that cannot be written."""
        if self._file is not None:
            # The error was reported before, and the journal does not count these bytes.
            with suppress(OSError):
                self._file.close()


class DocsOutput:
    """Writes Docs in spaCy's format: a folder of files of bounded size, or one file.

    One file needs memory for all Docs at the end, when it is put together.
    """

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self.path = path
        self.partial = partial_path(path)
        self.journal = Journal(journal_path(path), settings)
        self._bin = DocBin(store_user_data=True)
        self._n_tokens = 0
        self._n_parts = 0
        self.handles: list[int] = []

    @property
    def is_folder(self) -> bool:
        """Whether the output stays a folder of parts."""
        return self.path.suffix != ".spacy"

    def start(self, resume: bool, overwrite: bool = True) -> State | None:
        """Make the folder of parts; remove parts that the journal does not count."""
        is_new = not self.partial.exists()
        self.partial.mkdir(parents=True, exist_ok=True)
        if os.name == "posix":
            self.handles.append(os.open(self.partial, os.O_RDONLY))
            claim(self.handles[0], self.partial, self.path, overwrite)
        state = self.journal.read() if resume and not is_new else None
        self._n_parts = 0 if state is None else state.written
        if state is None:
            self.journal.remove()
        expected = {self._part(i) for i in range(self._n_parts)}
        found = set(self.partial.iterdir())
        if not expected <= found:
            raise CommandError(
                f"Cannot resume: {self.partial} lacks files of its journal",
                f"Expected {', '.join(sorted(p.name for p in expected - found))}. Start again with "
                f"--force.",
            )
        for path in found - expected:
            path.unlink()
        return state

    def _part(self, number: int) -> Path:
        return self.partial / f"part-{number + 1:05d}.spacy"

    def prepare(self, doc: Doc, record: InputRecord, n_before: int) -> DocBin:
        """Serialize one Doc by itself, so that an error does not affect the others."""
        check_unchanged(doc, record)
        restore_given_columns(doc, record)
        # Kilobytes per word that nothing reads again.
        user_data: dict[Any, Any] = doc.user_data
        user_data.pop(TRANSFORMER_OUTPUT, None)
        return DocBin(store_user_data=True, docs=[doc])

    def write(self, prepared: DocBin) -> None:
        """Add the Doc to the current part."""
        self._n_tokens += len(prepared.tokens[0])
        self._bin.merge(prepared)

    def commit(self, counts: Counts, input_digest: str) -> None:
        """Write the current part if it is large enough, and then update the journal."""
        if len(self._bin) >= PART_DOCS or self._n_tokens >= PART_TOKENS:
            self._write_part()
            self.journal.write(State(counts, input_digest, self._n_parts))

    def _write_part(self) -> None:
        write_atomically(self._part(self._n_parts), self._bin.to_bytes())
        self._n_parts += 1
        self._bin = DocBin(store_user_data=True)
        self._n_tokens = 0

    def finish(self) -> None:
        """Write the last part, and give the output its final name."""
        if len(self._bin) or not self._n_parts:
            self._write_part()
        if self.is_folder:
            replace_docs(self.partial, self.path)
        else:
            self._merge_parts()
            shutil.rmtree(self.partial)
        self.journal.remove()

    def _merge_parts(self) -> None:
        if self._n_parts == 1:
            os.replace(self._part(0), self.path)
            return
        merged = DocBin(store_user_data=True)
        for i in range(self._n_parts):
            merged.merge(DocBin(store_user_data=True).from_disk(self._part(i)))
        whole = self.partial / self.path.name
        write_atomically(whole, merged.to_bytes())
        os.replace(whole, self.path)

    def close(self) -> None:
        """Release the lock; drop Docs that are not in a part yet."""
        while self.handles:
            os.close(self.handles.pop())


# --- names -------------------------------------------------------------------------------------


def partial_path(path: Path) -> Path:
    """Return the path of an unfinished output."""
    return path.with_name(path.name + ".partial")


def journal_path(path: Path) -> Path:
    """Return the path of the journal of an unfinished output."""
    return path.with_name(path.name + ".partial.json")


def check_free(path: Path, *, makes_folder: bool, force: bool, resume: bool) -> None:
    """Check that nothing is overwritten without --force.

    Raises
    ------
    CommandError
        If the output or an unfinished one exists.
    OSError
        If the system does not allow the names of the files to write.
    """
    check_name(path)
    if path.exists() and not force:
        raise CommandError(f"{path} already exists", "It is complete; overwrite it with --force.")
    if path.is_dir() and not (makes_folder and is_docs_folder(path)):
        raise CommandError(
            f"{path} is a folder, and has other files than Docs",
            "Give another --output.",
        )
    if partial_path(path).exists() and not (force or resume):
        raise CommandError(
            f"{partial_path(path)} exists from a run that did not finish",
            "Continue it with --resume, or start again with --force.",
        )


def check_name(path: Path) -> None:
    """Look up the longest name that a run gives to a file next to its output.

    Raises
    ------
    OSError
        If it is too long, or in a folder that may not be read.
    """
    with suppress(FileNotFoundError, NotADirectoryError):
        os.stat(new_path(journal_path(path)))


def is_docs_folder(path: Path) -> bool:
    """Tell whether a folder only has files that `DocsOutput` writes."""
    return all(file.match("part-*.spacy") and file.is_file() for file in path.iterdir())


def replace_docs(new: Path, path: Path) -> None:
    """Replace a folder of Docs, or a file of that name, without ever leaving a part of it there."""
    old = path.with_name(path.name + ".partial.old")
    if old.exists():
        remove_docs(old)
    if path.exists():
        os.replace(path, old)
    os.replace(new, path)
    if old.exists():
        remove_docs(old)


def remove_docs(path: Path) -> None:
    """Remove a folder of Docs, or a file of that name."""
    if path.is_dir() and is_docs_folder(path):
        shutil.rmtree(path)
    else:
        path.unlink()


def claim(handle: int, partial: Path, path: Path, overwrite: bool) -> None:
    """Lock an unfinished output, and check that no other run has completed it meanwhile.

    Raises
    ------
    CommandError
        If another run is writing the same output, or has completed it.
    """
    lock(handle, partial)
    try:
        is_current = os.path.samestat(os.fstat(handle), os.stat(partial))
    except FileNotFoundError:
        is_current = False
    if not is_current:
        raise CommandError(f"Another run has just completed {path}")
    if path.exists() and not overwrite:
        # Empty if it was made by this run.
        with suppress(OSError):
            if partial.is_dir():
                partial.rmdir()
            elif not partial.stat().st_size:
                partial.unlink()
        raise CommandError(
            f"{path} already exists", "Another run has just completed it; see --force."
        )


def lock(handle: int, path: Path) -> None:
    """Lock an output, where the system supports it.

    Raises
    ------
    CommandError
        If another run is writing the same output.
    """
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise CommandError(f"Another run is writing {path}") from error
    except OSError:
        # Some network file systems do not support locks.
        return
