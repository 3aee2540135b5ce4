"""Content of a sentence's picture: words, arcs and captions, without markup.

Trees are drawn over columns, one per word, counted from 0. Whitespace has no column.
"""

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from spacy.tokens import Span
from spacy.vocab import Vocab

from spacy_rootmind.annotation.extensions import SentenceDetails
from spacy_rootmind.trees.conventions import MISSING

# Drawn for a whitespace token that cannot be hidden because another parser made it a head.
VISIBLE_SPACE = "␣"


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

    Raises ValueError if a head lies outside the sentence.
    """
    chosen, details = chosen_tree(span), SentenceDetails.read(span, list(span))
    drawn = [Tree(tuple(parse.heads.tolist()), tuple(parse.deps)) for parse in details.parses or ()]
    n_draws = Counter(drawn)
    log_probs = {
        tree: parse.log_prob for tree, parse in zip(drawn, details.parses or (), strict=True)
    }
    others = [tree for tree in n_draws if tree != chosen]
    shown = others[:max_alternatives]
    columns, column_of = make_columns(span, [chosen, *shown])

    def describe(tree: Tree, log_prob: float) -> list[str]:
        # Adding zero turns -0.0 into 0.0.
        log = round(log_prob, 2) + 0.0
        parts = [f"probability {math.exp(log_prob):.3g} (log {log:.2f})"]
        if len(n_draws) < len(drawn):
            parts.append(f"drawn {n_draws[tree]} of {len(drawn)} times")
        return parts

    log_prob = log_probs.get(chosen, details.log_prob)
    parts = [] if log_prob is None else describe(chosen, log_prob)
    if details.entropy is not None:
        parts.insert(1, f"entropy {details.entropy:.2f} nats")
    if len(shown) < len(others):
        parts.append(f"{len(shown)} of {len(others)} alternatives shown")
    caption = "; ".join(parts)
    arcs = tree_arcs(chosen, chosen, column_of, details.arc_numbers("{:.2f}".format))
    drawings = [Drawing(caption[:1].upper() + caption[1:], columns, arcs)]
    for number, tree in enumerate(shown, start=1):
        caption = f"Alternative {number}: {'; '.join(describe(tree, log_probs[tree]))}"
        drawings.append(Drawing(caption, columns, tree_arcs(tree, chosen, column_of)))
    return drawings


def chosen_tree(span: Span) -> Tree:
    """Read the sentence's parse from its tokens' heads and labels."""
    heads = []
    for token in span:
        head = token.head.i - span.start
        if not 0 <= head < len(span):
            raise ValueError(
                f"token {token.i} {token.text!r} has head {token.head.i}, outside its sentence: "
                f"expected {span.start} to {span.end - 1}; parse the Doc again, or set heads so "
                f"that no sentence lies between the tokens of another"
            )
        is_missing = token.head.i == token.i and not token.has_head()
        heads.append(MISSING if is_missing else head)
    return Tree(tuple(heads), tuple(token.dep_ for token in span))


# --- columns -----------------------------------------------------------------------------------


def make_columns(span: Span, trees: Sequence[Tree]) -> tuple[list[Column], list[int | None]]:
    """Put tokens into columns; also return each token's column, None if its arc is not drawn."""
    heads = {head for tree in trees for head in tree.heads}
    columns: list[Column] = []
    column_of: list[int | None] = []
    for i, token in enumerate(span):
        if token.is_space and i not in heads:
            column_of.append(None)
            continue
        column_of.append(len(columns))
        text = " ".join(token.text.split())
        columns.append(Column(text or VISIBLE_SPACE, token.pos_ or token.tag_))
    return columns, column_of


# --- arcs --------------------------------------------------------------------------------------


def tree_arcs(
    tree: Tree,
    chosen: Tree,
    column_of: Sequence[int | None],
    numbers: Sequence[str] | None = None,
) -> list[Arc]:
    """List the arcs of a tree that are drawn, with their probabilities as text if given."""
    arcs = []
    others = list(zip(*chosen, strict=True))
    for i, (head, label) in enumerate(zip(*tree, strict=True)):
        start, end = None if head == MISSING else column_of[head], column_of[i]
        if start is not None and end is not None:
            number = numbers[i] if numbers else ""
            arcs.append(Arc(start, end, label, (head, label) != others[i], number))
    return arcs


def runs_rtl(vocab: Vocab) -> bool:
    """Return whether a language is written from right to left."""
    return bool(vocab.writing_system.get("direction") == "rtl")
