"""What a picture of a sentence shows: words, arcs and captions, without any markup yet.

All trees of a sentence are drawn over the same columns, one a word, counted from 0. Whitespace has
no column of its own; nor, if so wished, have punctuation and the words of noun chunks, as long as
no other token's arc is lost by that in any of the trees.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from spacy.displacy import get_doc_settings
from spacy.tokens import Span, Token

from spacy_rootmind.annotation.extensions import (
    Parse,
    get_entropy,
    get_head_prob,
    get_log_prob,
    get_parses,
)

UNKNOWN = -1
# Stands for a whitespace token that has to be drawn, since another parser made it a head.
VISIBLE_SPACE = "␣"
# Keep a word's direction from its surroundings.
ISOLATE, END_ISOLATE = "\u2068", "\u2069"
# A caption names so many arcs at most.
MAX_NAMED = 8
# Arcs that have less of a share among the alternatives would only be clutter.
MIN_SHARE = 0.01


class Tree(NamedTuple):
    """Head of each token of a sentence, a root's its own index, UNKNOWN for none; and labels."""

    heads: tuple[int, ...]
    deps: tuple[str, ...]


class Known(NamedTuple):
    """What is known of one of the alternatives: log probability, and how often it was drawn."""

    log_prob: float
    draws: int


class Column(NamedTuple):
    """A word as it is drawn."""

    text: str
    tag: str
    lemma: str


class Arc(NamedTuple):
    """An arc between columns; one from ROOT has its dependent as head.

    `is_other` says that the parse set on the Doc lacks it; `share` is the part of the alternatives
    that have it, where they are merged, else 1.
    """

    head: int
    dep: int
    label: str
    is_other: bool
    share: float = 1.0


class Drawing(NamedTuple):
    """One tree, or several laid over one another."""

    caption: str
    arcs: list[Arc]


class SentenceDrawings(NamedTuple):
    """All there is to draw of a sentence."""

    columns: list[Column]
    drawings: list[Drawing]


def draw_sentence(
    span: Span, options: Mapping[str, Any], max_alternatives: int, *, merged: bool
) -> SentenceDrawings:
    """Choose what to draw of a sentence: the parse set on the Doc, and what else is known of it.

    Raises
    ------
    ValueError
        If a head lies outside the sentence, if what is known no longer fits the sentence, or if
        there are no alternatives to merge.
    """
    chosen = chosen_tree(span)
    parses = get_parses(span) or []
    if merged and not parses:
        raise ValueError(
            f"the sentence {span.text[:40]!r} has no alternatives to merge: expected some in "
            f"`span._.parses`; set `alternatives` of the parser, or merged=False"
        )
    known = unique_trees(parses)
    others = [tree for tree in known if tree != chosen]
    shown = others if merged else others[:max_alternatives]
    columns, places = make_columns(span, [chosen, *shown], options)
    if merged:
        return SentenceDrawings(columns, [merge(known, chosen, places)])
    n_draws = len(parses) if len(parses) > len(known) else None
    parts = describe_chosen(span, known.get(chosen), n_draws)
    if len(shown) < len(others):
        parts.append(f"{len(shown)} of {len(others)} alternatives shown")
    probs = [get_head_prob(token) for token in span]
    drawings = [Drawing(caption(parts), tree_arcs(chosen, chosen, places, probs))]
    names = token_names(span)
    for number, tree in enumerate(shown, start=1):
        parts = describe_known(known[tree], n_draws)
        parts.append(f"differs in {describe_difference(tree, chosen, names)}")
        text = f"Alternative {number}: {'; '.join(parts)}"
        drawings.append(Drawing(text, tree_arcs(tree, chosen, places)))
    return SentenceDrawings(columns, drawings)


# --- trees -------------------------------------------------------------------------------------


def chosen_tree(span: Span) -> Tree:
    """Read the parse that is set on the Doc."""
    heads = []
    for token in span:
        head = token.head.i - span.start
        if not 0 <= head < len(span):
            raise ValueError(
                f"token {token.i} {token.text!r} has head {token.head.i}, outside its sentence: "
                f"expected {span.start} to {span.end - 1}; parse the Doc anew, or set its heads so "
                f"that sentences do not interleave"
            )
        is_missing = token.head.i == token.i and not token.has_head()
        heads.append(UNKNOWN if is_missing else head)
    return Tree(tuple(heads), tuple(token.dep_ for token in span))


def unique_trees(parses: Iterable[Parse]) -> dict[Tree, Known]:
    """Find the trees among alternatives, in the order in which they first occur."""
    known: dict[Tree, Known] = {}
    for parse in parses:
        tree = Tree(tuple(parse.heads.tolist()), tuple(parse.deps))
        draws = known[tree].draws + 1 if tree in known else 1
        known[tree] = Known(parse.log_prob, draws)
    return known


# --- columns -----------------------------------------------------------------------------------


def make_columns(
    span: Span, trees: Sequence[Tree], options: Mapping[str, Any]
) -> tuple[list[Column], list[int]]:
    """Put tokens into columns; also returns each token's column, UNKNOWN if its arc is left out."""
    hidden = hidden_tokens(span, trees, collapse_punct=options["collapse_punct"])
    goes_on = chunk_insides(span, trees, hidden) if options["collapse_phrases"] else set()
    groups: list[list[int]] = []
    places = []
    for i, token in enumerate(span):
        # As displaCy does, punctuation joins a word before it, but not another punctuation mark.
        if i in hidden and (token.is_space or (groups and not span[groups[-1][0]].is_punct)):
            places.append(UNKNOWN)
            if groups and not token.is_space:
                groups[-1].append(i)
            continue
        if i not in goes_on:
            groups.append([])
        groups[-1].append(i)
        places.append(len(groups) - 1)
    columns = []
    for group in groups:
        words = [i for i in group if places[i] != UNKNOWN]
        [root, *_] = ways_out(words, trees[0])
        columns.append(make_column([span[i] for i in group], span[root], options))
    return columns, places


def hidden_tokens(span: Span, trees: Sequence[Tree], *, collapse_punct: bool) -> set[int]:
    """Find whitespace, and punctuation if so wished, that neither is nor has a head in any tree."""
    heads = {head for tree in trees for head in tree.heads}
    return {
        i
        for i, token in enumerate(span)
        if (token.is_space or (collapse_punct and token.is_punct)) and i not in heads
    }


def chunk_insides(span: Span, trees: Sequence[Tree], hidden: set[int]) -> set[int]:
    """Find tokens that share a column with the one before: those of noun chunks but their first.

    Only one token of a chunk may have its head outside, or merging would lose arcs.
    """
    insides: set[int] = set()
    for chunk in span.noun_chunks:
        tokens = range(chunk.start - span.start, chunk.end - span.start)
        words = [i for i in tokens if i not in hidden]
        if all(len(ways_out(words, tree)) == 1 for tree in trees):
            insides.update(words[1:])
    return insides


def ways_out(words: Sequence[int], tree: Tree) -> list[int]:
    """List those of some tokens whose head is not among them."""
    return [i for i in words if tree.heads[i] == i or tree.heads[i] not in words]


def make_column(tokens: Sequence[Token], root: Token, options: Mapping[str, Any]) -> Column:
    """Join the tokens of a column; tag and lemma are those of their root."""
    text = " ".join("".join(token.text_with_ws for token in tokens).split())
    tag = root.tag_ if options["fine_grained"] else root.pos_
    return Column(text or VISIBLE_SPACE, tag, root.lemma_)


# --- arcs --------------------------------------------------------------------------------------


def differing(tree: Tree, chosen: Tree) -> list[int]:
    """List the tokens that have another head or label than in the parse set on the Doc."""
    pairs = zip(
        zip(tree.heads, tree.deps, strict=True),
        zip(chosen.heads, chosen.deps, strict=True),
        strict=True,
    )
    return [i for i, (own, other) in enumerate(pairs) if own != other]


def tree_arcs(
    tree: Tree,
    chosen: Tree,
    places: Sequence[int],
    probs: Sequence[float | None] | None = None,
) -> list[Arc]:
    """List the arcs of a tree that go from one column to another, with probabilities if known."""
    others = set(differing(tree, chosen))
    arcs = []
    for i, (head, dep) in enumerate(zip(*tree, strict=True)):
        if not is_drawn(i, head, places):
            continue
        prob = None if probs is None else probs[i]
        label = dep if prob is None else f"{dep} {prob:.2f}"
        arcs.append(Arc(places[head], places[i], label, i in others))
    return arcs


def is_drawn(dep: int, head: int, places: Sequence[int]) -> bool:
    """Tell whether an arc between tokens is seen; inside a column only that from ROOT is."""
    if head == UNKNOWN or places[dep] == UNKNOWN:
        return False
    return head == dep or places[head] != places[dep]


def merge(known: Mapping[Tree, Known], chosen: Tree, places: Sequence[int]) -> Drawing:
    """Lay all alternatives over one another, each with its share of their probability."""
    total = float(np.logaddexp.reduce([one.log_prob for one in known.values()]))
    shares: dict[tuple[int, int, str], float] = {}
    for tree, one in known.items():
        for i, (head, dep) in enumerate(zip(*tree, strict=True)):
            if is_drawn(i, head, places):
                share = math.exp(one.log_prob - total)
                shares[i, head, dep] = shares.get((i, head, dep), 0.0) + share
    arcs = [
        Arc(
            *(places[head], places[i], f"{dep} {share:.2f}"),
            is_other=(head, dep) != (chosen.heads[i], chosen.deps[i]),
            share=share,
        )
        for (i, head, dep), share in shares.items()
        if share >= MIN_SHARE
    ]
    parts = [f"total {describe_prob(total)} of {len(known)} parses", "arcs with their share of it"]
    return Drawing(caption(parts), arcs)


# --- captions ----------------------------------------------------------------------------------


def caption(parts: Sequence[str]) -> str:
    """Join the parts of a caption."""
    text = "; ".join(parts)
    return text[:1].upper() + text[1:]


def describe_prob(log_prob: float) -> str:
    """Give a probability and its logarithm."""
    # Adding zero turns -0.0 into 0.0.
    return f"probability {math.exp(log_prob):.3g} (log {round(log_prob, 2) + 0.0:.2f})"


def describe_known(known: Known, n_draws: int | None) -> list[str]:
    """Say what is known of an alternative; `n_draws` is None where each was drawn once."""
    parts = [describe_prob(known.log_prob)]
    if n_draws is not None:
        parts.append(f"drawn {known.draws} of {n_draws} times")
    return parts


def describe_chosen(span: Span, known: Known | None, n_draws: int | None) -> list[str]:
    """Say what is known of the parse that is set on the Doc, which may be an alternative too."""
    log_prob, entropy = get_log_prob(span), get_entropy(span)
    parts = []
    if known is not None:
        parts = describe_known(known, n_draws)
    elif log_prob is not None:
        parts = describe_known(Known(log_prob, 0), n_draws)
    if entropy is not None:
        parts.insert(1, f"entropy {entropy:.2f} nats")
    return parts


def describe_difference(tree: Tree, chosen: Tree, names: Sequence[str]) -> str:
    """Name the arcs that a tree has and the parse set on the Doc has not: label(head, word)."""
    tokens = differing(tree, chosen)
    named = []
    for i in tokens[:MAX_NAMED]:
        words = names[i] if tree.heads[i] == i else f"{names[tree.heads[i]]}, {names[i]}"
        named.append(f"{tree.deps[i]}({words})")
    if len(tokens) > MAX_NAMED:
        named.append(f"and {len(tokens) - MAX_NAMED} more")
    return ", ".join(named)


def token_names(span: Span) -> list[str]:
    """Name tokens in captions: by their text, and by their number too if others have the same."""
    is_rtl = runs_rtl(span)
    texts = [token.text for token in span]
    names = []
    for i, text in enumerate(texts, start=1):
        # Captions run from left to right, whatever the direction of the words in them.
        name = f"{ISOLATE}{text}{END_ISOLATE}" if is_rtl else text
        names.append(name if texts.count(text) == 1 else f"{name}-{i}")
    return names


def runs_rtl(span: Span) -> bool:
    """Tell whether a sentence's language is written from right to left."""
    return bool(get_doc_settings(span.doc)["direction"] == "rtl")
