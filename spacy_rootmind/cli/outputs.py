"""Outputs of parsed Docs: a stream, or a file that has its name once it is complete.

Until then, the file is called `NAME.partial`; it is removed if the run fails.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from spacy.tokens import Doc, DocBin

from spacy_rootmind.cli.errors import CommandError
from spacy_rootmind.formats.docbin import pack_doc
from spacy_rootmind.formats.records import InputRecord
from spacy_rootmind.formats.registry import Writer


class Output:
    """Writes parsed Docs."""

    # The report's word for what was done with the input.
    verb = "Wrote"
    # Converts a Doc to what is written; raises an error if it does not fit its record.
    prepare: Callable[[Doc, InputRecord, int], Any]

    def start(self) -> None:
        """Make the unfinished output."""

    def write(self, prepared: Any) -> None:
        """Write what `prepare` returned."""
        raise NotImplementedError

    def finish(self) -> None:
        """Complete the output."""

    def close(self) -> None:
        """Remove an unfinished output."""


class StreamOutput(Output):
    """Writes to an open stream, Doc by Doc, and leaves it open."""

    def __init__(self, writer: Writer, stream: BinaryIO) -> None:
        self.prepare = writer
        self._stream = stream

    def write(self, prepared: bytes) -> None:
        """Write without buffering, for programs that read the output as it is written."""
        self._stream.write(prepared)
        self._stream.flush()


class FileOutput(Output):
    """Writes what `prepare` returns to one file."""

    def __init__(
        self, prepare: Callable[[Doc, InputRecord, int], Any], path: Path, *, force: bool = False
    ) -> None:
        self.prepare = prepare
        self.path = path
        self.partial = partial_path(path)
        self.force = force
        self._file: BinaryIO | None = None

    def start(self) -> None:
        """Open the unfinished file.

        Raises CommandError if another run has made it since the options were read, without --force.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.force:
            self.partial.unlink(missing_ok=True)
        try:
            self._file = open(self.partial, "xb")  # noqa: SIM115
        except FileExistsError as error:
            raise CommandError(
                f"Another run has just started to write {self.partial}",
                "Wait for it to end, or give another --output.",
            ) from error

    def write(self, prepared: Any) -> None:
        """Write bytes, through a buffer."""
        assert self._file is not None
        self._file.write(prepared)

    def finish(self) -> None:
        """Complete the file, and give it its name.

        Raises CommandError if another run has completed it meanwhile, without --force.
        """
        assert self._file is not None
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        if self.path.exists() and not self.force:
            raise CommandError(
                f"Another run has completed {self.path} in the meantime",
                "Run again with another --output, or with --force to overwrite it.",
            )
        os.replace(self.partial, self.path)
        self._file = None

    def close(self) -> None:
        """Remove an unfinished file; errors of writing were reported before."""
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
            with suppress(OSError):
                self.partial.unlink()


class DocsOutput(FileOutput):
    """Writes Docs in spaCy's format, which needs memory for all of them: as a whole."""

    def __init__(self, path: Path, *, force: bool = False) -> None:
        super().__init__(pack_doc, path, force=force)
        self._docs = DocBin(store_user_data=True)

    def write(self, prepared: DocBin) -> None:
        """Add a Doc."""
        self._docs.merge(prepared)

    def finish(self) -> None:
        """Write all Docs, and complete the file."""
        super().write(self._docs.to_bytes())
        super().finish()


def partial_path(path: Path) -> Path:
    """Return the path of an unfinished output."""
    return path.with_name(path.name + ".partial")


def check_free(path: Path, *, force: bool) -> None:
    """Check that nothing is overwritten without --force, and no folder with it."""
    partial = partial_path(path)
    # The name may be too long, or in a folder that may not be read.
    with suppress(FileNotFoundError, NotADirectoryError):
        os.stat(partial)
    if path.is_dir():
        raise CommandError(f"{path} is a folder", "Give the name of a file as --output.")
    if path.exists() and not force:
        raise CommandError(f"{path} already exists", "It is complete; overwrite it with --force.")
    if partial.exists() and not force:
        raise CommandError(
            f"{partial} exists, from a run that did not finish or is still running",
            "If none is running, start again with --force. For large corpora, use `bulk`, which "
            "continues where it stopped.",
        )
