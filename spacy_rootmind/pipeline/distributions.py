"""Tree distributions of sentences, from their scores, in the form in which a Doc stores them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.annotation.records import StoredDistribution
from spacy_rootmind.network.label_scores import (
    Labeller,
    find_best_labels,
    find_probable_labels,
)
from spacy_rootmind.network.tree_scorer import TreeScores
from spacy_rootmind.trees.conventions import ROOT
from spacy_rootmind.trees.distribution import TreeDistribution


@dataclass(frozen=True, eq=False)
class WeightedArcs:
    """Arcs of a sentence with their log-weights and probabilities; arrays of shape (n_arcs,)."""

    deps: NDArray[np.int64]
    heads: NDArray[np.int64]
    log_weights: NDArray[np.float64]
    probs: NDArray[np.float64]


def find_weighted_arcs(
    trees: TreeDistribution,
    log_weights: NDArray[np.float64],
    lengths: NDArray[np.intp],
    heads: NDArray[np.int32],
    threshold: float,
) -> list[WeightedArcs]:
    """Find the arcs of each sentence with a probability of at least `threshold`, and its parse's.

    With those of the parse, at least one tree can be made of what is kept.

    Parameters
    ----------
    trees : TreeDistribution
        Of b sentences.
    log_weights : float array of shape (b, m, m)
        Their arc scores, with the temperature divided out.
    lengths : int array of shape (b,)
    heads : int array of shape (b, m)
        As returned by `decode`.
    threshold : float
    """
    found = []
    for i, n in enumerate(lengths.tolist()):
        marginals = trees.marginals[i]
        keep = marginals[: n + 1, : n + 1] >= threshold
        keep[np.arange(1, n + 1), heads[i, 1 : n + 1]] = True
        deps, own_heads = keep.nonzero()
        at = deps, own_heads
        found.append(WeightedArcs(*at, log_weights[i][at], marginals[at]))
    return found


def sigmoid(log_odds: NDArray[np.floating]) -> NDArray[np.float32]:
    """Convert log-odds to probabilities, without overflow."""
    return (0.5 * (1.0 + np.tanh(0.5 * log_odds))).astype(np.float32)


def store_distributions(
    labeller: Labeller,
    scores: TreeScores,
    arcs: Sequence[WeightedArcs],
    start_probs: Sequence[NDArray[np.float32] | None],
    label_names: tuple[str, ...],
    threshold: float,
    temperature: float,
) -> list[StoredDistribution]:
    """Add to the arcs of each sentence the probabilities of their labels.

    A label is kept if the probability of arc and label together is at least `threshold`, and the
    best one of each arc always. `temperature` divides label scores.
    """
    if not arcs:
        return []
    sentence = np.repeat(np.arange(len(arcs)), [len(own.deps) for own in arcs])
    heads = np.concatenate([own.heads for own in arcs])
    deps = np.concatenate([own.deps for own in arcs])
    probs = np.concatenate([own.probs for own in arcs])
    inner = np.flatnonzero(heads != ROOT)
    first = labeller.ops.to_numpy(scores.layout.roots)[sentence[inner]]
    entries, labels, label_probs = _find_labels(
        labeller,
        scores,
        deps[inner] + first,
        heads[inner] + first,
        probs[inner],
        threshold,
        temperature,
    )
    # Of the batch's arcs, then of the sentence's.
    entries = inner[entries]
    ends = np.cumsum([len(own.deps) for own in arcs])
    stored = []
    for own, end, starts in zip(arcs, ends.tolist(), start_probs, strict=True):
        begin = end - len(own.deps)
        mine = slice(*np.searchsorted(entries, [begin, end]))
        stored.append(
            StoredDistribution(
                own.deps.astype(np.int32),
                own.heads.astype(np.int32),
                own.log_weights.astype(np.float32),
                (entries[mine] - begin).astype(np.int32),
                labels[mine].astype(np.int32),
                label_probs[mine].astype(np.float32),
                label_names,
                starts,
            )
        )
    return stored


def _find_labels(
    labeller: Labeller,
    scores: TreeScores,
    deps: NDArray[np.int64],
    heads: NDArray[np.int64],
    arc_probs: NDArray[np.float64],
    threshold: float,
    temperature: float,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Find the labels to keep: the number of the arc, the label and its probability on the arc."""
    arcs, labels, joint = find_probable_labels(
        labeller, scores, deps, heads, arc_probs, threshold, temperature
    )
    others = np.setdiff1d(np.arange(len(deps)), arcs)
    best, log_probs = find_best_labels(labeller, scores, deps[others], heads[others], temperature)
    all_arcs = np.concatenate([arcs, others])
    order = np.argsort(all_arcs, kind="stable")
    probs = np.concatenate([joint / arc_probs[arcs], np.exp(log_probs)])
    return all_arcs[order], np.concatenate([labels, best])[order], probs[order]
