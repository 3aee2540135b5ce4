"""Input files, read line by line in constant memory, or whole."""

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


class Inputs:
    """Texts, and input files, read one after another; "-" is the standard input.

    Messages call that "stdin".
    """

    def __init__(self, names: Sequence[str], texts: Sequence[str] = ()) -> None:
        self.names = list(names)
        self.texts = list(texts)
        self._check()

    def _check(self) -> None:
        if self.names.count(STDIN) > 1:
            raise InputError(
                "expected the standard input (-) at most once, received it several times"
            )
        for name in self.names:
            if name == STDIN:
                continue
            # A named pipe is only opened to be read: closing it loses what was written to it.
            if os.path.isfile(name) or os.path.isdir(name) or not os.path.exists(name):
                with _opened(name):
                    pass

    def given_texts(self) -> Iterator[Line]:
        """Read the texts, each as one line, whatever it contains."""
        for number, text in enumerate(self.texts, start=1):
            # Bytes of the command line that are not UTF-8 were decoded as surrogates.
            yield Line(number, text.encode("utf8", "surrogateescape"))

    def lines(self, name: str) -> Iterator[Line]:
        """Read one of the files.

        Raises InputError if reading fails.
        """
        with _opened(name) as stream:
            for number, (_, data) in enumerate(read_lines(stream), start=1):
                yield Line(number, data)

    def content(self, name: str) -> bytes:
        """Read all of one file.

        Raises InputError if reading fails.
        """
        with _opened(name) as stream:
            return stream.read()


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
def _opened(name: str) -> Iterator[BinaryIO]:
    """Open an input for reading; the standard input stays open."""
    try:
        with nullcontext(sys.stdin.buffer) if name == STDIN else open(name, "rb") as stream:
            yield stream
    except FileNotFoundError as error:
        raise InputError(f"file not found: {name}") from error
    except OSError as error:
        raise InputError(f"cannot read {display_name(name)}: {error.strerror or error}") from error
