"""Temperatures that calibrate the probabilities of heads and labels."""

from collections.abc import Callable, Iterable, Mapping

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
# Relative precision of the result, and the temperatures that are tried at once.
PRECISION, N_STEPS = 0.01, 19

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
    require_finite(trees.arcs, "arc")
    lengths = [bucket.lengths for bucket in trees.layout.buckets]
    scored = list(zip(trees.arcs, lengths, gold_heads(gold, trees), strict=True))
    deps, targets = labelled_words(gold, trees, columns)
    labelled = [
        (scores, targets[start : start + len(scores)])
        for start, scores in iterate_label_scores(labeller, trees, deps, gold.heads[deps])
    ]
    return scored, labelled


def fit_temperature(loss: Callable[[float], float]) -> float:
    """Find the temperature with the smallest loss, on ever finer grids, to one percent.

    1 if all have the same loss, as if nothing is known. The loss is `head_loss` or `label_loss`, by
    which gold heads or labels are the most probable.

    References
    ----------
    Guo, Pleiss, Sun & Weinberger (2017), On Calibration of Modern Neural Networks, section 4.2.
    """
    low, high = whole = np.log(LEAST), np.log(MOST)
    while high - low > PRECISION:
        steps = np.linspace(low, high, N_STEPS)
        losses = [loss(float(np.exp(step))) for step in steps]
        if min(losses) == max(losses):
            if (low, high) == whole:
                return 1.0
            break
        best = int(np.argmin(losses))
        low, high = steps[max(best - 1, 0)], steps[min(best + 1, N_STEPS - 1)]
    return float(np.exp((low + high) / 2))


def head_loss(batches: Iterable[Scored], temperature: float, projective: bool = False) -> float:
    """Sum -log P(gold head) over the words with a known head, in nats.

    P are the marginals of `scores / temperature`, of projective trees alone if asked.
    """
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
