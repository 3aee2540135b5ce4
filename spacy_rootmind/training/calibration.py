"""Temperatures that calibrate the probabilities of heads and labels."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.annotation.gold import GoldBatch
from spacy_rootmind.network.architecture import require_finite
from spacy_rootmind.network.label_scorer import Labeller, iterate_label_scores
from spacy_rootmind.network.tree_scorer import TreeScores
from spacy_rootmind.training.objective import gold_heads, labelled_words
from spacy_rootmind.trees.conventions import MISSING
from spacy_rootmind.trees.distribution import TreeDistribution

# Range of temperatures; beyond it, distributions are practically uniform or certain.
LEAST, MOST = 0.1, 20.0
# Relative precision of the result.
PRECISION = 0.01

Scored = tuple[NDArray[np.floating], NDArray[np.intp], NDArray[np.int64]]
"""Arc scores (b, m, m), lengths (b,), and gold heads (b, m), MISSING where unknown."""

Labelled = tuple[NDArray[np.floating], NDArray[np.int64]]
"""Label scores of gold arcs, (n_arcs, n_labels), and the columns of their gold labels."""


def collect_scores(
    labeller: Labeller, gold: GoldBatch, trees: TreeScores, columns: Mapping[int, int]
) -> tuple[list[Scored], list[Labelled]]:
    """Collect the scores of a batch with their gold heads and labels.

    `columns` has the column of each label in the label scores, by its hash. Scores that are not
    finite are refused.
    """
    scored: list[Scored] = []
    for arcs, bucket, heads in zip(
        trees.arcs_on_host, trees.layout.buckets, gold_heads(gold, trees), strict=True
    ):
        require_finite(np, arcs, "arc")
        scored.append((arcs, bucket.lengths, heads))
    deps, targets = labelled_words(gold, trees, columns)
    labelled = [
        (labeller.ops.to_numpy(scores), targets[start : start + len(scores)])
        for start, scores in iterate_label_scores(labeller, trees, deps, gold.heads[deps])
    ]
    return scored, labelled


def fit_temperature(batches: Sequence[Scored], projective: bool = False) -> float:
    """Find the temperature under which gold heads are the most probable.

    Minimizes the sum of -log P(gold head) over words, where P are the marginals of `scores /
    temperature`, of projective trees alone if asked: first over a grid, then by golden-section
    search to one percent. Returns 1 if no gold head is known.

    References
    ----------
    Guo, Pleiss, Sun & Weinberger (2017), On Calibration of Modern Neural Networks, section 4.2.
    """
    if not any((heads != MISSING).any() for _, _, heads in batches):
        return 1.0
    return _least(lambda temperature: head_loss(batches, temperature, projective))


def fit_label_temperature(batches: Sequence[Labelled]) -> float:
    """Find the temperature under which gold labels are the most probable on gold arcs.

    Like `fit_temperature`, for labels. Returns 1 if no gold label is known.
    """
    if not any(len(labels) for _, labels in batches):
        return 1.0
    return _least(lambda temperature: label_loss(batches, temperature))


def head_loss(batches: Iterable[Scored], temperature: float, projective: bool = False) -> float:
    """Sum -log P(gold head) over the words with a known head, in nats."""
    total = 0.0
    for scores, lengths, heads in batches:
        marginals = TreeDistribution(
            scores.astype(np.float64) / temperature, lengths=lengths, projective=projective
        ).marginals
        sentence, dep = np.nonzero(heads != MISSING)
        right = marginals[sentence, dep, heads[sentence, dep]]
        total -= float(np.log(np.maximum(right, np.finfo(np.float64).tiny)).sum())
    return total


def label_loss(batches: Iterable[Labelled], temperature: float) -> float:
    """Sum -log P(gold label) over gold arcs, in nats."""
    total = 0.0
    for scores, labels in batches:
        cooled = scores.astype(np.float64) / temperature
        right = cooled[np.arange(len(labels)), labels]
        total += float((np.logaddexp.reduce(cooled, axis=1) - right).sum())
    return total


def _least(loss: Callable[[float], float]) -> float:
    """Find the temperature with the smallest loss."""
    steps = np.linspace(np.log(LEAST), np.log(MOST), 19)
    losses = [loss(float(np.exp(step))) for step in steps]
    best = int(np.argmin(losses))
    low, high = float(steps[max(best - 1, 0)]), float(steps[min(best + 1, len(steps) - 1)])
    return float(np.exp(_golden_section(lambda x: loss(float(np.exp(x))), low, high)))


def _golden_section(loss: Callable[[float], float], low: float, high: float) -> float:
    """Find the minimum of the loss between two places, to `PRECISION`."""
    ratio = (5**0.5 - 1) / 2
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = loss(left), loss(right)
    while high - low > PRECISION:
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = loss(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = loss(right)
    return (low + high) / 2
