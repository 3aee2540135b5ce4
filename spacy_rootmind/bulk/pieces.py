"""Pieces of long documents, which are parsed one by one.

A document is parsed in one piece up to a limit of characters, which bounds memory. A longer one is
cut where a sentence probably ends: after the last empty line before the limit, else after the last
line, else after the last full stop, question or exclamation mark, else after the last space, else
at the limit. Cuts before half the limit are not considered. A document with given tokens is not
cut.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

from spacy_rootmind.formats.records import Failure, InputRecord

# Marks at the ends of sentences; the latter, of Chinese and Japanese, need no space after them.
MARKS, WIDE_MARKS = ".!?", "\u3002\uff01\uff1f"
CLOSING = "\"')\\]\u2019\u201d"
# Best first. Each match ends where a text may be cut.
BREAKS = [
    re.compile(pattern)
    for pattern in (
        r"\n\s*\n",
        r"\n",
        rf"[{MARKS}]+[{CLOSING}]*\s+|[{WIDE_MARKS}]+[{CLOSING}]*",
        r"\s",
    )
]


@dataclass
class Piece:
    """A part of a document that is parsed as one Doc; `start` and `end` count characters.

    `record` is the whole document's if that is not cut.
    """

    record: InputRecord | Failure
    start: int = 0
    end: int = 0
    is_last: bool = True

    @property
    def is_whole(self) -> bool:
        """Whether this is all of its document."""
        return self.start == 0 and self.is_last

    @property
    def n_chars(self) -> int:
        """Characters to parse, as `InputRecord` counts them."""
        return self.record.n_chars


def cut_record(record: InputRecord | Failure, max_chars: int) -> Iterator[Piece]:
    """Cut a document into pieces of at most `max_chars` characters."""
    if isinstance(record, Failure):
        yield Piece(record)
    elif record.words is not None:
        yield Piece(record, 0, record.n_chars)
    else:
        yield from _cut_text(record, max_chars)


def _cut_text(record: InputRecord, max_chars: int) -> Iterator[Piece]:
    text = record.text or ""
    end, is_last = 0, False
    line_ends = iter(record.line_ends)
    while not is_last:
        start, end = end, end + find_break(text, end, max_chars)
        part, is_last = text[start:end], end == len(text)
        own = replace(
            record,
            text=part,
            before="" if start else record.before,
            after=record.after if is_last else "",
            goes_on=not is_last,
            line_ends=list(islice(line_ends, part.count("\n"))),
        )
        yield Piece(own, start, end, is_last)


def find_break(text: str, start: int, max_chars: int) -> int:
    """Return how many characters from `start` on to parse together."""
    if len(text) - start <= max_chars:
        return len(text) - start
    half = start + max_chars // 2
    for pattern in BREAKS:
        ends = [match.end() for match in pattern.finditer(text, half, start + max_chars)]
        if ends:
            return ends[-1] - start
    return max_chars
