"""Texts: one per line, or one per paragraph (separated by empty lines).

A record also has the whitespace around its text and the line ends in it, so that CoNLL-U can state
them. The text of a paragraph has line feeds instead, whatever they are.

A record is yielded after the next text was read, with all empty lines between them.
"""

from collections.abc import Iterable, Iterator
from itertools import chain, groupby

from spacy_rootmind.formats.lines import Line
from spacy_rootmind.formats.records import Failure, InputRecord, InputRecords


def read_texts(file: str, lines: Iterable[Line]) -> InputRecords:
    """Read one text per line; skip lines that are only whitespace."""
    runs = groupby(lines, is_blank)
    yield from _read(file, chain.from_iterable([run] if blank else zip(run) for blank, run in runs))


def read_paragraphs(file: str, lines: Iterable[Line]) -> InputRecords:
    """Read one text per paragraph; lines that are only whitespace separate paragraphs."""
    yield from _read(file, (run for _, run in groupby(lines, is_blank)))


def _read(file: str, texts: Iterable[Iterable[Line]]) -> InputRecords:
    """Read texts, given the lines of each; what is only whitespace is around the others."""
    last: InputRecord | Failure | None = None
    spaces: list[str] = []
    for lines in chain(texts, [()]):
        found = _read_text(file, lines)
        if isinstance(found, InputRecord) and not (found.text or "").strip():
            spaces += [*found.with_line_ends([found.text or ""]), found.after]
            continue
        if isinstance(last, InputRecord):
            last.after += "".join(spaces)
        elif isinstance(found, InputRecord):
            found.before = "".join(spaces)
        if last is not None:
            yield last
        last, spaces = found, []


def _read_text(file: str, lines: Iterable[Line]) -> InputRecord | Failure | None:
    """Read one text, all of its lines; None without any."""
    parts: list[str] = []
    ends: list[str] = []
    first: int | None = None
    failure = None
    for line in lines:
        first = line.number if first is None else first
        if failure is not None:
            continue
        try:
            parts.append(line.decode())
            ends.append(line.end.decode())
        except ValueError as error:
            parts.clear()
            failure = Failure(file, line.number, str(error))
    if first is None or failure is not None:
        return failure
    *line_ends, after = ends
    return InputRecord(file, first, text="\n".join(parts), after=after, line_ends=line_ends)


def blocks(lines: Iterable[Line]) -> Iterator[Iterator[Line]]:
    """Split lines at empty ones."""
    return (run for is_gap, run in groupby(lines, is_blank) if not is_gap)


def is_blank(line: Line) -> bool:
    """Tell whether a line is only whitespace."""
    return line.data is not None and not line.data.strip()
