"""Texts: one per line, or one per paragraph (separated by empty lines), with its line ends."""

from collections.abc import Iterable, Iterator
from itertools import chain

from spacy_rootmind.formats.lines import MAX_LINE, Line
from spacy_rootmind.formats.records import Failure, InputRecord, InputRecords


def read_texts(file: str, lines: Iterable[Line]) -> InputRecords:
    """Read one text per line; skip lines that are only whitespace."""
    for line in lines:
        try:
            text = line.decode()
        except ValueError as error:
            yield Failure(file, line.number, str(error))
            continue
        if text.strip():
            yield InputRecord(file, line.number, text=text)


def read_paragraphs(file: str, lines: Iterable[Line]) -> InputRecords:
    """Read one text per paragraph; lines that are only whitespace separate paragraphs."""
    for block in blocks(lines):
        parts: list[str] = []
        first = failure = None
        size = 0
        for line in block:
            first = first or line.number
            if failure is not None:
                continue
            try:
                parts.append(line.decode())
                size += len(parts[-1])
                if size > MAX_LINE:
                    raise ValueError(
                        f"expected a paragraph of at most {MAX_LINE} characters, found a longer one"
                    )
            except ValueError as error:
                parts.clear()
                failure = Failure(file, line.number, str(error))
        if first is not None:
            yield failure or InputRecord(file, first, text="\n".join(parts))


def blocks(lines: Iterable[Line]) -> Iterator[Iterator[Line]]:
    """Split lines at empty ones; each block must be read completely before the next."""
    stream = iter(lines)
    for line in stream:
        if not is_blank(line):
            yield chain([line], until_blank(stream))


def until_blank(lines: Iterator[Line]) -> Iterator[Line]:
    """Read up to and including an empty line."""
    for line in lines:
        if is_blank(line):
            return
        yield line


def is_blank(line: Line) -> bool:
    """Tell whether a line is only whitespace."""
    return line.data is not None and not line.data.strip()
