"""Outputs of parsed Docs: a stream, a file, or files of Docs.

While a run is unfinished, its output is called `NAME.partial`; it gets its final name when it is
complete, and is removed if the run fails. Docs in spaCy's format are written in parts of bounded
size, because a `DocBin` can only be written as a whole.
"""

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from spacy.tokens import Doc, DocBin

from spacy_rootmind.cli.errors import CommandError
from spacy_rootmind.formats.docbin import pack_doc
from spacy_rootmind.formats.records import InputRecord
from spacy_rootmind.formats.registry import Writer

# Largest number of Docs and of tokens in one file of Docs.
PART_DOCS = 10_000
PART_TOKENS = 500_000


class Output:
    """Writes parsed Docs to a file or a folder, which has its name once it is complete."""

    # The report's word for what was done with the input.
    verb = "Wrote"
    # Converts a Doc to what is written; raises an error if it does not fit its record.
    prepare: Callable[[Doc, InputRecord, int], Any]

    def __init__(self, path: Path, *, force: bool = False) -> None:
        self.path = path
        self.partial = partial_path(path)
        self.force = force
        self._is_unfinished = False

    def start(self) -> None:
        """Make the unfinished output, unless another run has made one since the options were read.

        Raises CommandError if there is one, without --force.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.force and self.partial.exists():
            remove_docs(self.partial)
        try:
            self._make()
        except FileExistsError as error:
            raise CommandError(
                f"Another run has just started to write {self.partial}",
                "Wait for it to end, or give another --output.",
            ) from error
        self._is_unfinished = True

    def write(self, prepared: Any) -> None:
        """Write what `prepare` returned."""
        raise NotImplementedError

    def finish(self) -> None:
        """Complete the output, and give it its final name.

        Raises CommandError if another run has completed it meanwhile, without --force.
        """
        complete = self._complete()
        if self.path.exists() and not self.force:
            raise CommandError(
                f"Another run has completed {self.path} in the meantime",
                "Run again with another --output, or with --force to overwrite it.",
            )
        replace_docs(complete, self.path)
        if self.partial.exists():
            remove_docs(self.partial)
        self._is_unfinished = False

    def close(self) -> None:
        """Remove an unfinished output; errors of writing were reported before."""
        if self._is_unfinished:
            with suppress(OSError):
                remove_docs(self.partial)

    def _make(self) -> None:
        """Make the unfinished output, which must not exist."""
        raise NotImplementedError

    def _complete(self) -> Path:
        """Write the rest, and return what is to get the final name."""
        raise NotImplementedError


class StreamOutput(Output):
    """Writes to an open stream, Doc by Doc, and leaves it open."""

    def __init__(self, writer: Writer, stream: BinaryIO) -> None:
        self.prepare = writer
        self._stream = stream

    def start(self) -> None:
        """Do nothing."""

    def write(self, prepared: bytes) -> None:
        """Write without buffering, for programs that read the output as it is written."""
        self._stream.write(prepared)
        self._stream.flush()

    finish = close = start


class FileOutput(Output):
    """Writes to one file, in the format of a writer."""

    _file: BinaryIO

    def __init__(self, writer: Writer, path: Path, *, force: bool = False) -> None:
        super().__init__(path, force=force)
        self.prepare = writer

    def _make(self) -> None:
        self._file = open(self.partial, "xb")  # noqa: SIM115

    def write(self, prepared: bytes) -> None:
        """Write, through a buffer."""
        self._file.write(prepared)

    def _complete(self) -> Path:
        sync(self._file)
        self._file.close()
        return self.partial

    def close(self) -> None:
        """Close the file, and remove it unless it is complete."""
        if self._is_unfinished:
            with suppress(OSError):
                self._file.close()
        super().close()


class DocsOutput(Output):
    """Writes Docs in spaCy's format: a folder of files of bounded size, or one file.

    One file needs memory for all Docs, since it is written as a whole.
    """

    def __init__(self, path: Path, *, force: bool = False) -> None:
        super().__init__(path, force=force)
        self._is_one_file = path.suffix == ".spacy"
        self._bin = DocBin(store_user_data=True)
        self._n_tokens = 0
        self._parts: list[Path] = []

    def _make(self) -> None:
        self.partial.mkdir()

    def prepare(self, doc: Doc, record: InputRecord, n_before: int) -> DocBin:
        """Serialize one Doc by itself, so that an error does not affect the others."""
        return pack_doc(doc, record)

    def write(self, prepared: DocBin) -> None:
        """Add the Doc to the current part, and write that if it is large enough."""
        self._n_tokens += len(prepared.tokens[0])
        self._bin.merge(prepared)
        is_full = len(self._bin) >= PART_DOCS or self._n_tokens >= PART_TOKENS
        if is_full and not self._is_one_file:
            self._write_part()

    def _write_part(self) -> None:
        self._parts.append(self.partial / f"part-{len(self._parts) + 1:05d}.spacy")
        with open(self._parts[-1], "wb") as file:
            file.write(self._bin.to_bytes())
            sync(file)
        self._bin = DocBin(store_user_data=True)
        self._n_tokens = 0

    def _complete(self) -> Path:
        if len(self._bin) or not self._parts:
            self._write_part()
        return self._parts[0] if self._is_one_file else self.partial


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
    """Check that nothing is overwritten without --force, and with it nothing but outputs."""
    partial = partial_path(path)
    # The longest name that a run gives. It may be too long, or in a folder that may not be read.
    with suppress(FileNotFoundError, NotADirectoryError):
        os.stat(old_path(path))
    if path.exists() and not force:
        raise CommandError(f"{path} already exists", "It is complete; overwrite it with --force.")
    if path.is_dir() and not (makes_folder and is_docs_folder(path)):
        raise CommandError(
            f"{path} is a folder that this output may not replace",
            "A folder is only replaced by Docs, and only if it has no other files. Give another "
            "--output.",
        )
    if not partial.exists():
        return
    if not force:
        raise CommandError(
            f"{partial} exists, from a run that did not finish or is still running",
            "If none is running, start again with --force. For large corpora, use `bulk`, which "
            "continues where it stopped.",
        )
    if partial.is_dir() and not is_docs_folder(partial):
        raise CommandError(
            f"Cannot replace {partial}: it has other files than Docs",
            "Move them out of this folder, or give another --output.",
        )


def is_docs_folder(path: Path) -> bool:
    """Return whether a folder only has files that `DocsOutput` writes."""
    return all(file.match("part-*.spacy") and file.is_file() for file in path.iterdir())


def replace_docs(new: Path, path: Path) -> None:
    """Replace an output, without ever leaving a part of it there; if that fails, restore it."""
    old = old_path(path)
    try:
        # A file replaces a file in one step.
        if path.exists() and (path.is_dir() or new.is_dir()):
            if old.exists():
                remove_docs(old)
            os.replace(path, old)
        os.replace(new, path)
    except BaseException:
        if old.exists() and not path.exists():
            os.replace(old, path)
        raise
    if old.exists():
        remove_docs(old)


def remove_docs(path: Path) -> None:
    """Remove a folder of Docs, or a file of that name."""
    if path.is_dir() and is_docs_folder(path):
        shutil.rmtree(path)
    else:
        path.unlink()
