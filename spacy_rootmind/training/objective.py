"""From gold trees and the network's scores to the loss that a parser is trained with."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from thinc.api import Ops

from spacy_rootmind.annotation.gold import GoldBatch, drop_contradictions
from spacy_rootmind.network.architecture import ParserGradient, ParserScores, require_finite
from spacy_rootmind.network.tree_scorer import TreeGradient, TreeScores
from spacy_rootmind.network.types import Floats1d, Floats2d, Ints1d, Ints2d
from spacy_rootmind.training.losses import OBJECTIVES, boundary_loss
from spacy_rootmind.trees.conventions import MISSING

# Earlier rounds of refinement train at this weight, the last at 1.
EARLY_ROUND_WEIGHT = 0.5
# Labels count this much beside arcs: at 1, heads are learnt well before labels are.
LABEL_WEIGHT = 2.0
# The null label counts this much on each word's most probable wrong arc.
NULL_WEIGHT = 1.0


def parser_loss(
    ops: Ops,
    gold: GoldBatch,
    scores: ParserScores,
    objective: str,
    labels: Mapping[int, int],
    finds_boundaries: bool,
) -> tuple[float, ParserGradient]:
    """Add up the losses of arcs, labels and sentence boundaries; also gives the gradient.

    Parameters
    ----------
    ops : Ops
        Of the network.
    gold : GoldBatch
    scores : ParserScores
        Of the same Docs and sentences.
    objective : str
        One of `loss.OBJECTIVES`.
    labels : mapping of int to int
        Numbers of the labels that the network scores, by their hash.
    finds_boundaries : bool
        Whether boundaries are learnt.
    """
    total, d_trees = _tree_loss(ops, gold, scores.trees, objective, labels)
    d_boundaries: Floats1d | None = None
    if finds_boundaries:
        truths: Ints1d = gold.boundaries.astype("i4")
        loss, d_boundaries = boundary_loss(scores.boundaries, ops.asarray(truths))
        total += loss
    return total, ParserGradient(d_trees, d_boundaries)


def gold_heads(ops: Ops, gold: GoldBatch, scores: TreeScores) -> list[Ints2d]:
    """Count gold heads within their sentence: one numpy array of shape (b, m) a bucket."""
    layout = scores.layout
    roots = ops.to_numpy(layout.roots)[ops.to_numpy(layout.sentence_of_row)]
    local = np.where(gold.heads == MISSING, MISSING, gold.heads - roots)
    # One row more, which padding refers to.
    local = np.append(local, MISSING)
    return [local[ops.to_numpy(bucket.rows)] for bucket in layout.buckets]


def labelled_words(
    ops: Ops, gold: GoldBatch, scores: TreeScores, labels: Mapping[int, int]
) -> tuple[Ints1d, Ints1d]:
    """Find the words whose gold arc has a label that the network scores, and its number."""
    truths = np.array([labels.get(dep, MISSING) for dep in gold.deps.tolist()], dtype="i8")
    roots = ops.to_numpy(scores.layout.roots)
    deps = ((truths != MISSING) & ~np.isin(gold.heads, roots)).nonzero()[0]
    return deps, truths[deps]


def wrong_arcs(ops: Ops, scores: TreeScores, padded_heads: list[Ints2d]) -> tuple[Ints1d, Ints1d]:
    """Find the best wrong head, ROOT aside, of each word whose gold head is known.

    Takes what `gold_heads` gives; gives flat rows of dependents and heads.
    """
    all_deps, all_heads = [np.zeros(0, dtype="i8")], [np.zeros(0, dtype="i8")]
    for bucket, arcs, padded in zip(scores.layout.buckets, scores.arcs, padded_heads, strict=True):
        rows = ops.to_numpy(bucket.rows)
        sentence, dep = np.nonzero(padded != MISSING)
        rivals = ops.to_numpy(arcs)[sentence, dep]
        each = np.arange(len(dep))
        rivals[np.arange(rivals.shape[1]) > bucket.lengths[sentence, None]] = -np.inf
        rivals[:, 0] = rivals[each, dep] = rivals[each, padded[sentence, dep]] = -np.inf
        head = rivals.argmax(axis=1)
        # A sentence of two words has one head for each, ROOT aside, and it may be the right one.
        found = rivals[each, head] > -np.inf
        all_deps.append(rows[sentence[found], dep[found]])
        all_heads.append(rows[sentence[found], head[found]])
    return np.concatenate(all_deps), np.concatenate(all_heads)


def _tree_loss(
    ops: Ops, gold: GoldBatch, scores: TreeScores, objective: str, labels: Mapping[int, int]
) -> tuple[float, TreeGradient]:
    total = 0.0
    rounds: list[list[Any]] = [[] for _ in scores.rounds]
    padded_heads = gold_heads(ops, gold, scores)
    for arcs in scores.arcs:
        require_finite(ops.xp, arcs, "arc")
    for i, (bucket, padded) in enumerate(zip(scores.layout.buckets, padded_heads, strict=True)):
        if objective != "head_selection":
            padded = drop_contradictions(padded, bucket.lengths)
        heads = ops.asarray(padded)
        for step, arcs in enumerate(scores.rounds):
            weight = 1.0 if arcs is scores.arcs else EARLY_ROUND_WEIGHT
            loss, gradient = OBJECTIVES[objective](arcs[i], bucket, heads)
            rounds[step].append(gradient * weight)
            total += loss * weight
    label_loss, d_rows = _label_loss(ops, gold, scores, padded_heads, labels)
    return total + label_loss, TreeGradient(rounds, d_rows)


def _label_loss(
    ops: Ops,
    gold: GoldBatch,
    scores: TreeScores,
    padded_heads: list[Ints2d],
    labels: Mapping[int, int],
) -> tuple[float, Floats2d]:
    """Cross entropy of labels on gold arcs, ROOT's aside, and of the null label on wrong ones."""
    deps, truths = labelled_words(ops, gold, scores, labels)
    total, d_rows = _cross_entropy(ops, scores, deps, gold.heads[deps], truths, LABEL_WEIGHT)
    if not scores.has_null_label:
        return total, d_rows
    deps, heads = wrong_arcs(ops, scores, padded_heads)
    null = np.full(len(deps), scores.labeller.get_dim("nO"))
    loss, d_wrong = _cross_entropy(ops, scores, deps, heads, null, NULL_WEIGHT)
    return total + loss, d_rows + d_wrong


def _cross_entropy(
    ops: Ops, scores: TreeScores, deps: Ints1d, heads: Ints1d, truths: Ints1d, weight: float
) -> tuple[float, Floats2d]:
    """Weighted cross entropy of what the labels of some arcs should be, and the rows' gradient."""
    if not len(deps):
        return 0.0, ops.xp.zeros_like(scores.rows)
    guesses, backprop = scores.begin_labels(deps, heads, is_train=True)
    probs = ops.softmax(guesses)
    each = ops.xp.arange(len(deps))
    truth = ops.asarray(truths)
    loss = -float(ops.xp.log(probs[each, truth] + 1e-30).sum())
    probs[each, truth] -= 1.0
    return loss * weight, backprop(probs * weight)
