"""Documents to parse, and the cutting of long ones.

A document is parsed in one piece up to a limit of characters, which bounds memory. A longer one is
cut where a sentence probably ends: after the last empty line before the limit, else after the last
line, else after the last full stop, question or exclamation mark, else after the last space, else
at the limit. Cuts before half the limit are not considered. A document with given tokens is cut
before the last given sentence, else after the last such mark, else at the limit.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spacy_rootmind.cli.input_records import InputRecord
from spacy_rootmind.cli.long_runs import PIECE, cut, long_runs

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
class Document:
    """A document as it was read.

    Attributes
    ----------
    id : str or None
    text : str, optional
        The text, unless there are words.
    words, spaces, starts : list, optional
        The given tokens, whether a space follows each, and whether each starts a sentence.
    error : str, optional
        `KIND: REASON`, if it could not be read, or must not be parsed.
    """

    id: str | None
    text: str | None = None
    words: list[str] | None = None
    spaces: list[bool] | None = None
    starts: list[bool] | None = None
    error: str | None = None

    @property
    def n_chars(self) -> int:
        """Size in characters, without the spaces between given words."""
        return len(self.text or "") if self.words is None else sum(map(len, self.words))


@dataclass
class Piece:
    """A part of a document that is parsed as one Doc; `start` and `end` count characters."""

    document: Document
    start: int
    end: int
    record: InputRecord
    is_last: bool


def cut_document(document: Document, max_chars: int, max_word_length: int) -> Iterator[Piece]:
    """Cut a document into pieces of at most `max_chars` characters."""
    pieces = _cut_text if document.words is None else _cut_words
    yield from pieces(document, max_chars, max_word_length)


def _cut_text(document: Document, max_chars: int, max_word_length: int) -> Iterator[Piece]:
    text = document.text or ""
    start = 0
    while True:
        end = start + find_break(text, start, max_chars)
        part = text[start:end]
        is_last = end == len(text)
        record = InputRecord("", start, text=part)
        runs = long_runs(part, max_word_length)
        if runs:
            record.pieces = cut(part, runs, min(PIECE, max_word_length))
        yield Piece(document, start, end, record, is_last)
        if is_last:
            return
        start = end


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


def _cut_words(document: Document, max_chars: int, max_word_length: int) -> Iterator[Piece]:
    words, starts = document.words or [], document.starts
    spaces = document.spaces or [True] * len(words)
    first = place = 0
    while True:
        last = _last_word(words, starts, first, max_chars)
        size = sum(map(len, words[first:last])) + sum(spaces[first:last])
        is_last = last == len(words)
        record = InputRecord(
            "",
            place,
            words=words[first:last],
            spaces=spaces[first:last],
            starts=starts and [True, *starts[first + 1 : last]],
        )
        yield Piece(document, place, place + size, record, is_last)
        if is_last:
            return
        first, place = last, place + size


def _last_word(words: Sequence[str], starts: list[bool] | None, first: int, max_chars: int) -> int:
    """Return the end of the words to parse together, at least one of them."""
    end, size = first, 0
    while end < len(words) and (end == first or size + len(words[end]) < max_chars):
        size += len(words[end]) + 1
        end += 1
    if end == len(words):
        return end
    places = range(end, first + (end - first) // 2, -1)
    if starts is not None:
        return next((i for i in places if starts[i]), end)
    return next((i for i in places if words[i - 1] in (*MARKS, *WIDE_MARKS)), end)
