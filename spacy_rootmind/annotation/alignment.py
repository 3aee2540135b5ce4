"""Alignment of gold trees with predicted tokens, where the two tokenizations may differ."""

import numpy as np
from numpy.typing import NDArray
from spacy.training import Example

from spacy_rootmind.annotation.reading import NO_LABEL, annotated_heads
from spacy_rootmind.trees.conventions import MISSING


def aligned_heads(
    example: Example, root_label: str
) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Align gold heads and label hashes with the predicted tokens.

    Each piece of a split gold token has its head and label; a head that is split is its first piece
    that covers nothing else. So one piece of a split root is the root, and the others attach to it,
    without a label: the root's belongs to root arcs alone. A merged token has the head and label of
    the gold token closest to the root among those that it covers, which makes no cycle.

    A head is MISSING where the reference has none, or where the token or its head has no
    counterpart. `Example.get_aligned_parse` does not distinguish a missing head from a root, leaves
    out the dependents of split tokens, and labels each piece of a split root as a root.
    """
    gold_heads, gold_deps = annotated_heads(example.reference, root_label)
    gold_of = gold_counterparts(example, gold_heads)
    piece_of = _head_pieces(example.alignment)
    heads = np.full(len(gold_of), MISSING, dtype=np.int64)
    deps = np.full(len(gold_of), NO_LABEL, dtype=np.uint64)
    known = np.flatnonzero(gold_of != MISSING)
    known = known[gold_heads[gold_of[known]] != MISSING]
    own_gold = gold_of[known]
    is_gold_root = gold_heads[own_gold] == own_gold
    found = piece_of[gold_heads[own_gold]]
    # A gold cycle within a merged token leaves an arc from the token to itself.
    heads[known] = np.where((found == known) & ~is_gold_root, MISSING, found)
    # A head without a counterpart gives no label either.
    has_label = (heads[known] != MISSING) & ((found == known) | ~is_gold_root)
    deps[known[has_label]] = gold_deps[own_gold[has_label]]
    return heads, deps


def _head_pieces(alignment) -> NDArray[np.int64]:
    """Choose the predicted token that stands for each gold one as a head; MISSING without any."""
    chosen = _first_counterparts(alignment.y2x)
    n_covered = np.asarray(alignment.x2y.lengths)
    for split in np.flatnonzero(np.asarray(alignment.y2x.lengths) > 1).tolist():
        pieces = alignment.y2x[split]
        chosen[split] = pieces[np.argmax(n_covered[pieces] == 1)]
    return chosen


def gold_counterparts(example: Example, gold_heads: NDArray[np.int64]) -> NDArray[np.int64]:
    """Choose a gold token for each predicted one; MISSING where it covers none.

    If several have a head, the one with the fewest arcs to the root of its tree is chosen. Its head
    has fewer, so that no cycle is made.
    """
    x2y = example.alignment.x2y
    chosen = _first_counterparts(x2y)
    depths = _depths(gold_heads)
    for merged in np.flatnonzero(np.asarray(x2y.lengths) > 1).tolist():
        covered = [i for i in x2y[merged].tolist() if gold_heads[i] != MISSING]
        if covered:
            chosen[merged] = min(covered, key=depths.__getitem__)
    return chosen


def single_counterparts(alignment) -> NDArray[np.int64]:
    """Find the counterpart of each token that has exactly one; MISSING elsewhere."""
    counterparts = _first_counterparts(alignment)
    counterparts[np.asarray(alignment.lengths) != 1] = MISSING
    return counterparts


def _first_counterparts(alignment) -> NDArray[np.int64]:
    """Find the first counterpart of each token; MISSING where it has none."""
    lengths = np.asarray(alignment.lengths)
    counterparts = np.full(len(lengths), MISSING, dtype=np.int64)
    has_any = lengths > 0
    starts = np.cumsum(lengths) - lengths
    counterparts[has_any] = np.asarray(alignment.data)[starts[has_any]]
    return counterparts


def _depths(heads: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count the arcs from each token to the top of its tree; at least len(heads) below a cycle.

    O(n log n): the chain that is counted doubles in length each time.
    """
    at = np.arange(len(heads))
    above = np.where(heads == MISSING, at, heads)
    depths = (above != at).astype(np.int64)
    for _ in range(len(heads).bit_length()):
        depths += depths[above]
        above = above[above]
    return depths
