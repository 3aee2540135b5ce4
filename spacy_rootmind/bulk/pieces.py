"""Pieces of long documents, which are parsed one by one.

A document is parsed in one piece up to a limit of characters, which bounds memory. A longer one is
cut where a sentence probably ends: after the last empty line before the limit, else after the last
line, else after the last full stop, question or exclamation mark, else after the last space, else
at the limit. Cuts before half the limit are not considered. A document with given tokens is not
cut.
"""

import re
from dataclasses import replace
from itertools import islice

from spacy_rootmind.formats.records import Failure, InputRecord, InputRecords

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


def cut_record(record: InputRecord | Failure, max_chars: int) -> InputRecords:
    """Cut a document into pieces of at most `max_chars` characters."""
    if isinstance(record, Failure) or record.words is not None:
        yield record
        return
    text = record.text or ""
    end, goes_on = 0, True
    line_ends = iter(record.line_ends)
    while goes_on:
        start, end = end, end + find_break(text, end, max_chars)
        part, goes_on = text[start:end], end < len(text)
        yield replace(
            record,
            text=part,
            before="" if start else record.before,
            after="" if goes_on else record.after,
            start=start,
            goes_on=goes_on,
            line_ends=list(islice(line_ends, part.count("\n"))),
        )


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
