"""Outputs of parsed Docs: a stream, a file, or files of Docs.

While a run is unfinished, its output is called `NAME.partial`; it gets its final name when it is
complete, and is removed if the run fails. Docs in spaCy's format are written in parts of bounded
size, because a `DocBin` can only be written as a whole.
"""

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from spacy.tokens import Doc, DocBin

from spacy_rootmind.cli.messages import CommandError
from spacy_rootmind.formats.docbin import pack_doc
from spacy_rootmind.formats.records import InputRecord
from spacy_rootmind.formats.registry import Writer

# Largest number of Docs and of tokens in one file of Docs.
PART_DOCS = 10_000
PART_TOKENS = 500_000


class Output(Protocol):
    """Writes parsed Docs."""

    def start(self) -> None:
        """Open the output."""

    def prepare(self, doc: Doc, record: InputRecord, n_before: int) -> Any:
        """Convert a Doc to what is written; raise an error if it does not fit its record."""

    def write(self, prepared: Any) -> None:
        """Write what `prepare` returned."""

    def finish(self) -> None:
        """Complete the output, and give it its final name."""

    def close(self) -> None:
        """Release the output, whether it is complete or not."""


class StreamOutput:
    """Writes to an open stream, Doc by Doc."""

    def __init__(self, writer: Writer, stream: BinaryIO) -> None:
        self.prepare = writer
        self._stream = stream

    def start(self) -> None:
        """Do nothing."""

    def write(self, prepared: bytes) -> None:
        """Write without buffering, for programs that read the output as it is written."""
        self._stream.write(prepared)
        self._stream.flush()

    def finish(self) -> None:
        """Flush the stream."""
        self._stream.flush()

    def close(self) -> None:
        """Leave the stream open."""


class FileOutput:
    """Writes to one file, in the format of a writer."""

    def __init__(self, writer: Writer, path: Path) -> None:
        self.prepare = writer
        self.path = path
        self.partial = partial_path(path)
        self._file: BinaryIO | None = None

    def start(self) -> None:
        """Make the file, which must not exist: another run may be writing it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = open(self.partial, "xb")  # noqa: SIM115

    @property
    def file(self) -> BinaryIO:
        """The open file."""
        if self._file is None:
            raise ValueError("expected start to be called before anything is written")
        return self._file

    def write(self, prepared: bytes) -> None:
        """Write, through a buffer."""
        self.file.write(prepared)

    def finish(self) -> None:
        """Give the file its final name."""
        sync(self.file)
        self.file.close()
        os.replace(self.partial, self.path)
        self._file = None

    def close(self) -> None:
        """Remove the file, unless it is complete. What cannot be written was reported before."""
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
            with suppress(OSError):
                self.partial.unlink()


class DocsOutput:
    """Writes Docs in spaCy's format: a folder of files of bounded size, or one file.

    One file needs memory for all Docs at the end, when it is put together.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.partial = partial_path(path)
        self._bin = DocBin(store_user_data=True)
        self._n_tokens = 0
        self._n_parts = 0
        self._is_unfinished = False

    @property
    def is_folder(self) -> bool:
        """Whether the output stays a folder of parts."""
        return self.path.suffix != ".spacy"

    def start(self) -> None:
        """Make the folder of parts, which must not exist: another run may be writing it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.partial.mkdir()
        self._is_unfinished = True

    def _part(self, number: int) -> Path:
        return self.partial / f"part-{number + 1:05d}.spacy"

    def prepare(self, doc: Doc, record: InputRecord, n_before: int) -> DocBin:
        """Serialize one Doc by itself, so that an error does not affect the others."""
        return pack_doc(doc, record)

    def write(self, prepared: DocBin) -> None:
        """Add the Doc to the current part, and write that if it is large enough."""
        self._n_tokens += len(prepared.tokens[0])
        self._bin.merge(prepared)
        if len(self._bin) >= PART_DOCS or self._n_tokens >= PART_TOKENS:
            self._write_part()

    def _write_part(self) -> None:
        write_docs(self._part(self._n_parts), self._bin)
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
        self._is_unfinished = False

    def _merge_parts(self) -> None:
        merged = DocBin(store_user_data=True)
        for i in range(self._n_parts):
            merged.merge(DocBin(store_user_data=True).from_disk(self._part(i)))
        whole = self.partial / "part-all.spacy"
        write_docs(whole, merged)
        os.replace(whole, self.path)

    def close(self) -> None:
        """Remove the folder of parts, unless the output is complete."""
        if self._is_unfinished:
            shutil.rmtree(self.partial, ignore_errors=True)


def write_docs(path: Path, docs: DocBin) -> None:
    """Write a file of Docs, and wait until it is on the disk."""
    with open(path, "wb") as file:
        file.write(docs.to_bytes())
        sync(file)


def sync(file: BinaryIO) -> None:
    """Wait until a file is on the disk."""
    file.flush()
    os.fsync(file.fileno())


# --- names -------------------------------------------------------------------------------------


def partial_path(path: Path) -> Path:
    """Return the path of an unfinished output."""
    return path.with_name(path.name + ".partial")


def old_path(path: Path) -> Path:
    """Return the path of an older folder of Docs, while it is replaced."""
    return path.with_name(path.name + ".partial.old")


def check_free(path: Path, *, makes_folder: bool, force: bool) -> None:
    """Check that nothing is overwritten without --force; with it, remove an unfinished output.

    Raises
    ------
    CommandError
        If the output or an unfinished one exists.
    OSError
        If the system does not allow the names of the files to write.
    """
    partial = partial_path(path)
    # The longest name that a run gives. It may be too long, or in a folder that may not be read.
    with suppress(FileNotFoundError, NotADirectoryError):
        os.stat(old_path(path))
    if path.exists() and not force:
        raise CommandError(f"{path} already exists", "It is complete; overwrite it with --force.")
    if path.is_dir() and not (makes_folder and is_docs_folder(path)):
        raise CommandError(
            f"{path} is a folder, and has other files than Docs",
            "Give another --output.",
        )
    if not partial.exists():
        return
    if not force:
        raise CommandError(
            f"{partial} exists from a run that did not finish, or still runs",
            "Start again with --force; large corpora are for `bulk`, which continues.",
        )
    if partial.is_dir() and not is_docs_folder(partial):
        raise CommandError(f"{partial} has other files than Docs", "Remove it.")
    remove_docs(partial)


def is_docs_folder(path: Path) -> bool:
    """Tell whether a folder only has files that `DocsOutput` writes."""
    return all(file.match("part-*.spacy") and file.is_file() for file in path.iterdir())


def replace_docs(new: Path, path: Path) -> None:
    """Replace a folder of Docs, or a file of that name, without ever leaving a part of it there."""
    old = old_path(path)
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
