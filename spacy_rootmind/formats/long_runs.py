"""Runs of characters without whitespace that are too long for spaCy's tokenizer.

The tokenizer takes punctuation off a run character by character and searches the rest each time, so
its time is quadratic in the length of some runs: minutes for a text of nothing but brackets. Long
runs are tokenized in pieces. The Doc has the same text, but a token that is longer than a piece, or
lies across a cut, becomes several.
"""

import re

from spacy.language import Language
from spacy.tokenizer import Tokenizer

# Length of the pieces, in characters. Longer than nearly all words; the time that the tokenizer
# needs for a run that is cut is proportional to it.
PIECE = 50
RUN = re.compile(r"\S+")


def find_long_runs(nlp: Language, text: str, max_length: int | None) -> list[tuple[int, int]]:
    """Find the start and end of each run of more than `max_length` characters, if that is given.

    Languages without spaces between words have other tokenizers, which take any run.
    """
    if max_length is None or not isinstance(nlp.tokenizer, Tokenizer):
        return []
    runs = (run.span() for run in RUN.finditer(text))
    return [(start, end) for start, end in runs if end - start > max_length]


def cut(text: str, runs: list[tuple[int, int]], size: int) -> list[str]:
    """Split a text within the given runs, after each `size` characters."""
    places = [0]
    for start, end in runs:
        places += range(start + size, end, size)
    return [text[i:j] for i, j in zip(places, [*places[1:], len(text)], strict=True)]
