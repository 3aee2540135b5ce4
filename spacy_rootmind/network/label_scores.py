"""Label scores of chosen arcs, in training and in prediction.

`labeller` is the network's label layer, its reference "labels". Arcs are given as flat rows of the
layout, in NumPy arrays. Column i of the scores is label number i + 1: number 0 is the root's
label, which needs no score, as in `RootMST.labels`.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from thinc.api import Model

from spacy_rootmind.network import distance
from spacy_rootmind.network.label_scorer import Arcs, find_distinct_rows
from spacy_rootmind.network.transfer import to_device, to_host
from spacy_rootmind.network.tree_scorer import TreeScores
from spacy_rootmind.network.types import Floats2d, Ints1d

# Arcs that are scored at once; each takes memory for a hidden layer per label.
MAX_ARCS = 4096

Labeller = Model[Any, Floats2d]


class ChosenArcs(NamedTuple):
    """Arcs to label, with what their labels should be in training.

    Attributes
    ----------
    deps, heads : int array of shape (n_arcs,)
        Flat rows.
    targets : int array of shape (n_arcs,) or float array of shape (n_arcs, n_labels)
        Column of the right label; or the weight of each label, which need not sum to one.
    weight : float
        Weight of these arcs in the loss.
    """

    deps: Ints1d
    heads: Ints1d
    targets: Ints1d | Floats2d
    weight: float = 1.0


class LabelScores(NamedTuple):
    """Arcs with their label scores, of shape (n_arcs, n_labels), the null label included."""

    arcs: ChosenArcs
    scores: Floats2d


def begin_label_scores(
    labeller: Labeller, trees: TreeScores, arcs: ChosenArcs, is_train: bool
) -> tuple[LabelScores, Callable[[Floats2d], Floats2d]]:
    """Score labels of chosen arcs; the callback takes their gradient to that of `trees.rows`."""
    places = locate_arcs(trees, arcs.deps, arcs.heads)
    scores, backprop = labeller((trees.rows, trees.layout, places), is_train)
    return LabelScores(arcs, scores), backprop


def locate_arcs(trees: TreeScores, deps: Ints1d, heads: Ints1d) -> Arcs:
    """Find the distance bucket of each arc."""
    roots = trees.layout.roots
    sentence = np.searchsorted(roots, deps, side="right") - 1
    buckets = distance.bucket_of(deps - roots[sentence], heads - roots[sentence])
    return Arcs(*(part.astype("int32", copy=False) for part in (deps, heads, buckets)))


def iterate_label_scores(
    labeller: Labeller, trees: TreeScores, deps: Ints1d, heads: Ints1d
) -> Iterator[tuple[int, Floats2d]]:
    """Score labels of any number of arcs in bounded memory, without dropout.

    Yields the index of the first arc of each chunk, and the chunk's scores, of shape
    (n_arcs, n_labels), without the null label. A word whose label is fixed has no other: -inf.
    """
    for start in range(0, len(deps), MAX_ARCS):
        chunk = slice(start, start + MAX_ARCS)
        arcs = locate_arcs(trees, deps[chunk], heads[chunk])
        scores = _predict(labeller, trees, arcs)
        if trees.forced_labels is not None:
            labels = trees.forced_labels[deps[chunk]]
            fixed: Any = np.flatnonzero(labels)
            rows, columns = to_device(labeller.ops.xp, [fixed, labels[fixed] - 1])
            scores[rows] = -np.inf
            scores[rows, columns] = 0.0
        yield start, scores


def _predict(labeller: Labeller, trees: TreeScores, arcs: Arcs) -> Floats2d:
    """Score labels of arcs from the rows that take part in them, and no others."""
    ends = np.concatenate((arcs.deps, arcs.heads))
    rows, numbers = find_distinct_rows(ends, trees.layout.n_rows)
    distinct_arcs = Arcs(numbers[: len(arcs.deps)], numbers[len(arcs.deps) :], arcs.buckets)
    [there] = to_device(labeller.ops.xp, [rows])
    scores = labeller.predict((trees.rows[there], trees.layout, distinct_arcs))
    return scores[:, : labeller.get_dim("nO")]


def find_best_labels(
    labeller: Labeller, trees: TreeScores, deps: Ints1d, heads: Ints1d, temperature: float = 1.0
) -> tuple[Ints1d, NDArray[np.float64]]:
    """Find the number of the best label of each arc, from 1, and its log probability.

    Scores are divided by the temperature.
    """
    xp = labeller.ops.xp
    parts = [(np.zeros(0, dtype=np.int64), np.zeros(0))]
    for _, scores in iterate_label_scores(labeller, trees, deps, heads):
        behind = scores - scores.max(axis=1, keepdims=True)
        totals = xp.exp(behind / temperature).sum(axis=1)
        total, best = to_host(xp, [totals, scores.argmax(axis=1)])
        parts.append((best, -np.log(total.astype(np.float64))))
    columns, log_probs = (np.concatenate(part) for part in zip(*parts, strict=True))
    return columns + 1, log_probs


def find_label_log_probs(
    labeller: Labeller, trees: TreeScores, deps: Ints1d, heads: Ints1d, temperature: float = 1.0
) -> NDArray[np.float64]:
    """Find the log probabilities of all labels of each arc, of shape (n_arcs, n_labels).

    Column i is that of label number i + 1. Scores are divided by the temperature.
    """
    ops = labeller.ops
    parts = [np.zeros((0, labeller.get_dim("nO")))]
    for _, scores in iterate_label_scores(labeller, trees, deps, heads):
        log_weights = ops.to_numpy(scores).astype(np.float64)
        behind = (log_weights - log_weights.max(axis=1, keepdims=True)) / temperature
        parts.append(behind - np.log(np.exp(behind).sum(axis=1, keepdims=True)))
    return np.concatenate(parts)


def find_probable_labels(
    labeller: Labeller,
    trees: TreeScores,
    deps: Ints1d,
    heads: Ints1d,
    arc_probs: NDArray[np.float64],
    threshold: float,
    temperature: float,
) -> tuple[Ints1d, Ints1d, NDArray[np.float64]]:
    """Find the labelled arcs with a probability of at least `threshold`.

    `arc_probs` are those of the arcs, whatever their labels; scores of labels are divided by the
    temperature. Returns the index of each arc that is found in `deps`, the number of its label,
    from 1, and the probability of arc and label together.
    """
    ops = labeller.ops
    found = [(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0))]
    for start, scores in iterate_label_scores(labeller, trees, deps, heads):
        label_probs = ops.to_numpy(ops.softmax(scores / temperature)).astype(np.float64)
        probs = label_probs * arc_probs[start : start + len(label_probs), None]
        arcs, columns = np.nonzero(probs >= threshold)
        found.append((arcs + start, columns, probs[arcs, columns]))
    arcs, columns, probs = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return arcs, columns + 1, probs
