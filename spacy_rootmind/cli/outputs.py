"""Files that have their name once they are complete."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from spacy_rootmind.parsing.settings import RunError


@contextmanager
def new_file(path: Path, *, force: bool) -> Iterator[BinaryIO]:
    """Write a file, which is called `NAME.partial` until the end, and removed after an error.

    Raises RunError if it would overwrite a file without --force, also one that another run has
    completed meanwhile, or a folder or a device.
    """
    partial = partial_path(path)
    if path.exists() and not path.is_file():
        raise RunError(f"{path} is a folder or a device", "Give a file as --output.")
    if path.exists() and not force:
        raise RunError(f"{path} already exists", "It is complete; overwrite it with --force.")
    path.parent.mkdir(parents=True, exist_ok=True)
    if force:
        partial.unlink(missing_ok=True)
    try:
        stream = open(partial, "xb")  # noqa: SIM115
    except FileExistsError as error:
        raise RunError(
            f"{partial} exists, from a run that did not finish or is still running",
            "If none is running, start again with --force. For large corpora, use `bulk`, which "
            "continues where it stopped.",
        ) from error
    try:
        yield stream
        stream.flush()
        os.fsync(stream.fileno())
        stream.close()
        if path.exists() and not force:
            raise RunError(
                f"Another run has completed {path} in the meantime",
                "Run again with another --output, or with --force to overwrite it.",
            )
        os.replace(partial, path)
    except BaseException:
        # On a full disk, closing fails like the write before it.
        with suppress(OSError):
            stream.close()
        with suppress(OSError):
            partial.unlink()
        raise


def partial_path(path: Path) -> Path:
    """Return the path of an unfinished output."""
    return Path(f"{path}.partial")
