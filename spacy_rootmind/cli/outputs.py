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

Prepare = Callable[[Doc, InputRecord, int], Any]


class Output:
    """Writes parsed Docs to an open stream, Doc by Doc, and leaves it open.

    `prepare` converts a Doc to what is written; it raises an error if the Doc does not fit its
    record.
    """

    # The report's word for what was done with the input.
    verb = "Wrote"
    prepare: Prepare

    def __init__(self, prepare: Prepare, stream: BinaryIO | None = None) -> None:
        self.prepare = prepare
        self._stream = stream

    def start(self) -> None:
        """Make the unfinished output."""

    def write(self, prepared: Any) -> None:
        """Write without buffering, for programs that read the output as it is written."""
        assert self._stream is not None
        self._stream.write(prepared)
        self._stream.flush()

    def finish(self) -> None:
        """Complete the output."""

    def close(self) -> None:
        """Remove an unfinished output."""


class FileOutput(Output):
    """Writes what `prepare` returns to one file."""

    def __init__(self, prepare: Prepare, path: Path, *, force: bool = False) -> None:
        super().__init__(prepare)
        self.path = path
        self.partial = partial_path(path)
        self.force = force

    def start(self) -> None:
        """Open the unfinished file.

        Raises CommandError if another run has made it since the options were read, without --force.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.force:
            self.partial.unlink(missing_ok=True)
        try:
            self._stream = open(self.partial, "xb")  # noqa: SIM115
        except FileExistsError as error:
            raise CommandError(
                f"Another run has just started to write {self.partial}",
                "Wait for it to end, or give another --output.",
            ) from error

    def write(self, prepared: Any) -> None:
        """Write bytes, through a buffer."""
        assert self._stream is not None
        self._stream.write(prepared)

    def finish(self) -> None:
        """Complete the file, and give it its name.

        Raises CommandError if another run has completed it meanwhile, without --force.
        """
        assert self._stream is not None
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self._stream.close()
        if self.path.exists() and not self.force:
            raise CommandError(
                f"Another run has completed {self.path} in the meantime",
                "Run again with another --output, or with --force to overwrite it.",
            )
        os.replace(self.partial, self.path)
        self._stream = None

    def close(self) -> None:
        """Remove an unfinished file; errors of writing were reported before."""
        if self._stream is not None:
            with suppress(OSError):
                self._stream.close()
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
    """Check that nothing is overwritten without --force, and no folder or device with it."""
    partial = partial_path(path)
    if path.exists() and not path.is_file():
        raise CommandError(f"{path} is a folder or a device", "Give a file as --output.")
    if path.exists() and not force:
        raise CommandError(f"{path} already exists", "It is complete; overwrite it with --force.")
    if partial.exists() and not force:
        raise CommandError(
            f"{partial} exists, from a run that did not finish or is still running",
            "If none is running, start again with --force. For large corpora, use `bulk`, which "
            "continues where it stopped.",
        )
