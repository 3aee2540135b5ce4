"""Input files, read line by line in constant memory."""

import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import BinaryIO, NamedTuple

STDIN = "-"
# In bytes. Longer lines are reported instead of read; spaCy parses up to a million characters.
MAX_LINE = 1 << 24
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
LINE_ENDS = b"\r\n", b"\n", b"\r"


class InputError(Exception):
    """An input file cannot be read."""


class Line(NamedTuple):
    """A line with its line end; `data` is None if the line is too long."""

    number: int
    data: bytes | None

    def decode(self) -> str:
        """Decode the line as UTF-8, without its line end.

        Raises ValueError if it is not UTF-8, or longer than MAX_LINE bytes.
        """
        if self.data is None:
            raise ValueError(f"expected a line of at most {MAX_LINE} bytes, found a longer one")
        try:
            return self.data.removesuffix(self.end).decode("utf8")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"expected UTF-8, found byte {self.data[error.start]:#04x} at {error.start + 1}"
            ) from error

    @property
    def end(self) -> bytes:
        """The line end; empty for a last line without one."""
        return next((end for end in LINE_ENDS if self.data and self.data.endswith(end)), b"")


def check_inputs(names: Sequence[str]) -> None:
    """Check that files can be read; "-" is the standard input."""
    for name in names:
        # Not opened: closing a named pipe loses what was written to it.
        if name != STDIN and (os.path.isdir(name) or not os.access(name, os.R_OK)):
            raise InputError(f"file not readable, or not found: {name}")


def lines_of(name: str) -> Iterator[Line]:
    """Read a file line by line."""
    with open_input(name) as stream:
        for number, (_, data) in enumerate(read_lines(stream), start=1):
            yield Line(number, data)


def read_lines(stream: BinaryIO, place: int = 0) -> Iterator[tuple[int, bytes | None]]:
    """Yield where each line ends, and the line with its end; None for one longer than MAX_LINE.

    The stream is at byte `place` of its file, which may begin with a byte order mark.
    """
    is_first = place == 0
    while data := stream.readline(MAX_LINE + 1):
        place += len(data)
        line = data if len(data) <= MAX_LINE else None
        while line is None and data and not data.endswith(b"\n"):
            data = stream.readline(MAX_LINE + 1)
            place += len(data)
        yield place, line.removeprefix(BYTE_ORDER_MARK) if line and is_first else line
        is_first = False


def display_name(name: str) -> str:
    """Return the name of an input for messages."""
    return "stdin" if name == STDIN else name


def short_names(paths: Iterable[str], n_parts: int = 1) -> dict[str, str]:
    """Shorten paths to their last parts: to as few as tell them from each other."""
    groups = defaultdict(set)
    for path in paths:
        groups["/".join(path.split("/")[-n_parts:])].add(path)
    names: dict[str, str] = {}
    for name, own in groups.items():
        names |= short_names(own, n_parts + 1) if len(own) > 1 else dict.fromkeys(own, name)
    return names


@contextmanager
def open_input(name: str) -> Iterator[BinaryIO]:
    """Open a file, or the standard input, which stays open; messages call it "stdin".

    Raises InputError if opening or reading fails.
    """
    try:
        with nullcontext(sys.stdin.buffer) if name == STDIN else open(name, "rb") as stream:
            yield stream
    except OSError as error:
        raise InputError(f"cannot read {display_name(name)}: {error.strerror or error}") from error
