"""Dependency trees drawn as text, one line per word, for readers at a terminal.

The words stand in the order of the sentence, and the root is connected to the left margin:

      ╭─── Anna
    ──┼─── said
      │ ╭─ she
      ╰─┴─ slept

Each word with dependents has a vertical line, to the right of its head's line, that reaches from
the first of its dependents to the last. Lines that share a row are drawn in different lanes, so
that non-projective trees can be drawn as well; where a word's own line crosses a vertical one
without being connected to it, the crossing is ╪.

After each word come its part of speech, its label, the probability of its head and label together,
and after "or" the other probable arcs to it.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from unicodedata import combining, east_asian_width

from spacy.tokens import Doc, Span, Token

from spacy_rootmind.annotation.extensions import SentenceDetails
from spacy_rootmind.formats.conllu import numbered_arcs, numbered_parses, numbered_tree
from spacy_rootmind.formats.conllu_sentence import as_column
from spacy_rootmind.formats.records import InputRecord, check_unchanged


class VerticalLine(NamedTuple):
    """The line that connects a word with its dependents: its lane, and first and last row."""

    lane: int
    first: int
    last: int


def draw_tree(heads: Sequence[int]) -> list[str]:
    """Draw a tree as what stands to the left of each word; the head of the root is -1."""
    lines = _vertical_lines(heads)
    n_lanes = 1 + max((line.lane for line in lines.values()), default=0)
    return ["".join(_row(word, heads, lines, n_lanes)) for word in range(len(heads))]


def _vertical_lines(heads: Sequence[int]) -> dict[int, VerticalLine]:
    """Find the vertical line of each word that has dependents, from the root downwards."""
    dependents: dict[int, list[int]] = {}
    for word, head in enumerate(heads):
        dependents.setdefault(head, []).append(word)
    lines: dict[int, VerticalLine] = {}
    waiting = list(dependents[-1])
    for word in waiting:
        own = dependents.get(word)
        if own is None:
            continue
        waiting += own
        lane = lines[heads[word]].lane + 1 if heads[word] >= 0 else 0
        first, last = min(word, own[0]), max(word, own[-1])
        meeting = (x for x in lines.values() if x.first <= last and first <= x.last)
        taken = {line.lane for line in meeting}
        while lane in taken:
            lane += 1
        lines[word] = VerticalLine(lane, first, last)
    return lines


def _row(
    word: int, heads: Sequence[int], lines: dict[int, VerticalLine], n_lanes: int
) -> Iterator[str]:
    """Yield what is drawn in front of a word: the margin, then each lane and the gap after it."""
    head = heads[word]
    start = lines[head].lane if head >= 0 else -1
    covered = {line.lane for line in lines.values() if line.first <= word <= line.last}
    yield "──" if head < 0 else "  "
    for lane in range(n_lanes):
        if lane == start:
            yield _mark(lines[head], word, "╭├╰")
        elif word in lines and lane == lines[word].lane:
            yield _mark(lines[word], word, "┬┼┴")
        elif lane < start:
            yield "│" if lane in covered else " "
        else:
            yield "╪" if lane in covered else "─"
        yield "─" if lane >= start else " "


def _mark(line: VerticalLine, word: int, marks: str) -> str:
    """Choose among the marks for the first word on a line, those between, and the last."""
    return marks[0 if word == line.first else 2 if word == line.last else 1]


# --- tables ------------------------------------------------------------------------------------


def align(rows: Sequence[Sequence[str]]) -> list[str]:
    """Join cells to lines with aligned columns, all but the last; each row has as many cells."""
    widths = [max(map(display_width, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell + " " * (width - display_width(cell))
            for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]


def display_width(text: str) -> int:
    """Return the number of columns that a terminal needs for a text."""
    return sum(
        0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text
    )


def printable(text: str) -> str:
    """Escape characters that would control the terminal instead of being shown."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


# --- Docs --------------------------------------------------------------------------------------


def write_tree(doc: Doc, record: InputRecord) -> bytes:
    """Draw the sentences of a Doc as text; whitespace tokens are not words, as in CoNLL-U."""
    check_unchanged(doc, record)
    drawn = []
    for sentence in doc.sents:
        words = [token for token in sentence if not token.is_space]
        if words:
            drawn.append(_draw_sentence(sentence, words) + "\n")
    return "".join(drawn).encode("utf8")


def _draw_sentence(sentence: Span, words: Sequence[Token]) -> str:
    """Draw a sentence: its text, its tree, the probability of the tree, and alternatives."""
    heads, deps = numbered_tree(sentence, words)
    details = SentenceDetails.read(sentence, words)
    lines = [printable(as_column(sentence.text)), ""]
    lines += _draw_words(words, heads, deps, _probabilities(details, words, heads, deps))
    if details.log_prob is not None:
        lines += ["", f"Probability of the tree: {percent(math.exp(details.log_prob))}"]
    for log_prob, other_heads, other_deps in numbered_parses(details, words):
        if (other_heads, other_deps) != (heads, deps):
            lines += ["", f"Alternative: {percent(math.exp(log_prob))}", ""]
            lines += _draw_words(words, other_heads, other_deps, [""] * len(words))
    return "".join(f"{line}\n" for line in lines)


def _draw_words(
    words: Sequence[Token], heads: Sequence[int], deps: Sequence[str], details: Sequence[str]
) -> list[str]:
    """Draw a tree, with heads counted from 1 and 0 above the root, and details of each word."""
    drawing = draw_tree([head - 1 for head in heads])
    columns = [
        [f"{line} {_shown(token)}" for line, token in zip(drawing, words, strict=True)],
        [token.pos_ for token in words],
        deps,
        details,
    ]
    return align(list(zip(*(column for column in columns if any(column)), strict=True)))


def _shown(token: Token) -> str:
    return printable(as_column(token.text))


def _probabilities(
    details: SentenceDetails, words: Sequence[Token], heads: Sequence[int], deps: Sequence[str]
) -> list[str]:
    """Format the probability of each word's arc, and the other probable arcs to it."""
    others: list[list[str]] = [[] for _ in words]
    for word, head, label, prob in numbered_arcs(details, words):
        if (head, label) != (heads[word - 1], deps[word - 1]):
            shown = f"{_shown(words[head - 1])} " if head else ""
            others[word - 1].append(f"{shown}{label} {percent(prob)}")
    numbers = details.arc_numbers(lambda prob: f"{percent(prob):>7}")
    return [
        f"{number}  or {', '.join(own)}" if own else number
        for number, own in zip(numbers, others, strict=True)
    ]


def percent(prob: float) -> str:
    """Format a probability for reading; a long sentence's tree is not shown with zero."""
    return "< 0.1 %" if 0 < prob < 0.0005 else f"{100 * prob:.1f} %"
