"""Content of a sentence's picture: words, arcs and captions, without markup.

Trees are drawn over columns, one per word, counted from 0. Whitespace has no column.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from spacy.tokens import Span
from spacy.vocab import Vocab

from spacy_rootmind.annotation.extensions import SentenceDetails
from spacy_rootmind.trees.conventions import MISSING


class Tree(NamedTuple):
    """Heads and labels of a sentence's tokens; a root is its own head, a missing one is MISSING."""

    heads: tuple[int, ...]
    deps: tuple[str, ...]


class Column(NamedTuple):
    """A word with its part of speech or, without one, its tag."""

    text: str
    tag: str


class Arc(NamedTuple):
    """An arc between columns; an arc from ROOT has its dependent as head.

    `is_different` marks an arc that the Doc's own parse does not have. `number` is the arc's
    probability as text, empty if unknown.
    """

    head: int
    dep: int
    label: str
    is_different: bool
    number: str = ""


class Drawing(NamedTuple):
    """A tree with a caption."""

    caption: str
    columns: list[Column]
    arcs: list[Arc]


def draw_sentence(span: Span, max_alternatives: int) -> list[Drawing]:
    """List the drawings of a sentence: its parse, then the alternatives that differ from it.

    Probabilities and alternatives that no longer fit the sentence are left out.
    """
    chosen, details = chosen_tree(span), SentenceDetails.read(span, list(span))
    log_probs = {
        Tree(tuple(parse.heads.tolist()), tuple(parse.deps)): parse.log_prob
        for parse in details.parses or ()
    }
    others = [tree for tree in log_probs if tree != chosen]
    shown = others[:max_alternatives]
    words = [token for token in span if not token.is_space]
    columns = [Column(" ".join(token.text.split()), token.pos_ or token.tag_) for token in words]
    column_of = {token.i - span.start: column for column, token in enumerate(words)}
    log_prob = log_probs.get(chosen, details.log_prob)
    parts = [] if log_prob is None else [describe(log_prob)]
    if details.entropy is not None:
        parts.append(f"entropy {details.entropy:.2f} nats")
    if len(shown) < len(others):
        parts.append(f"{len(shown)} of {len(others)} alternatives shown")
    caption = "; ".join(parts)
    arcs = tree_arcs(chosen, chosen, column_of, details.arc_numbers("{:.2f}".format))
    drawings = [Drawing(caption[:1].upper() + caption[1:], columns, arcs)]
    for number, tree in enumerate(shown, start=1):
        caption = f"Alternative {number}: {describe(log_probs[tree])}"
        drawings.append(Drawing(caption, columns, tree_arcs(tree, chosen, column_of)))
    return drawings


def describe(log_prob: float) -> str:
    """Write a tree's probability, and its logarithm without a minus sign for zero."""
    return f"probability {math.exp(log_prob):.3g} (log {round(log_prob, 2) + 0.0:.2f})"


def chosen_tree(span: Span) -> Tree:
    """Read the sentence's parse; a head outside of the sentence counts as missing."""
    heads = []
    for token in span:
        head = token.head.i - span.start
        is_missing = token.head.i == token.i and not token.has_head()
        heads.append(MISSING if is_missing or not 0 <= head < len(span) else head)
    return Tree(tuple(heads), tuple(token.dep_ for token in span))


def tree_arcs(
    tree: Tree,
    chosen: Tree,
    column_of: Mapping[int, int],
    numbers: Sequence[str] | None = None,
) -> list[Arc]:
    """List the arcs between columns of a tree, with their probabilities as text if given."""
    arcs = []
    others = list(zip(*chosen, strict=True))
    for i, (head, label) in enumerate(zip(*tree, strict=True)):
        if head in column_of and i in column_of:
            number = numbers[i] if numbers else ""
            arc = Arc(column_of[head], column_of[i], label, (head, label) != others[i], number)
            arcs.append(arc)
    return arcs


def runs_rtl(vocab: Vocab) -> bool:
    """Return whether a language is written from right to left."""
    return bool(vocab.writing_system.get("direction") == "rtl")
