"""Runs of characters without whitespace that are too long for spaCy's tokenizer.

The tokenizer takes punctuation off a run character by character and searches the rest each time, so
its time is quadratic in the length of some runs: minutes for a text of nothing but brackets. Long
runs are cut into pieces before they are tokenized. The Doc has the same text, but a token that is
longer than a piece, or lies across a cut, becomes several.
"""

import re
from collections.abc import Callable, Iterator

from spacy.language import Language
from spacy.tokenizer import Tokenizer

from spacy_rootmind.formats.records import Failure, InputRecord

# Length of the pieces, in characters. Longer than nearly all words; the time that the tokenizer
# needs for a run that is cut is proportional to it.
PIECE = 50
RUN = re.compile(r"\S+")


def cut_long_runs(
    records: Iterator[InputRecord | Failure],
    nlp: Language,
    max_length: int,
    warn: Callable[[str], None],
) -> Iterator[InputRecord | Failure]:
    """Cut runs of more than `max_length` characters in texts to be tokenized; warn of each text."""
    if not is_quadratic(nlp):
        yield from records
        return
    for record in records:
        if isinstance(record, InputRecord) and record.words is None and record.text is not None:
            runs = long_runs(record.text, max_length)
            if runs:
                record.pieces = cut(record.text, runs, min(PIECE, max_length))
                warn(describe(record, runs))
        yield record


def is_quadratic(nlp: Language) -> bool:
    """Tell whether the tokenizer is spaCy's; languages without spaces between words have others."""
    return isinstance(nlp.tokenizer, Tokenizer)


def long_runs(text: str, max_length: int) -> list[tuple[int, int]]:
    """Find the start and end of each run of more than `max_length` characters."""
    runs = (run.span() for run in RUN.finditer(text))
    return [(start, end) for start, end in runs if end - start > max_length]


def cut(text: str, runs: list[tuple[int, int]], size: int) -> list[str]:
    """Split a text within the given runs, after each `size` characters."""
    places = [0]
    for start, end in runs:
        places += range(start + size, end, size)
    return [text[i:j] for i, j in zip(places, [*places[1:], len(text)], strict=True)]


def describe(record: InputRecord, runs: list[tuple[int, int]]) -> str:
    """Describe the runs of a record that were cut."""
    start, end = max(runs, key=lambda run: run[1] - run[0])
    others = f" and {len(runs) - 1} more" if len(runs) > 1 else ""
    return (
        f"{record.file}:{record.line}: tokenized {end - start} characters without whitespace, from "
        f"character {start + 1} on{others}, in pieces; --max-word-length sets which runs are cut"
    )
