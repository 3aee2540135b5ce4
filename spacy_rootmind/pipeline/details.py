"""Details of parsed sentences: probabilities, arcs, alternatives and tree distributions."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.annotation.details import (
    ArcTable,
    Confidence,
    ParseDetails,
    StoredDistribution,
    StoredTrees,
    from_zero,
    number_labels,
)
from spacy_rootmind.network.label_scorer import find_best_labels, find_probable_labels
from spacy_rootmind.pipeline.alternatives import find_alternatives
from spacy_rootmind.pipeline.sentence_parser import ParsedBatch, ScoredBatch
from spacy_rootmind.trees.conventions import MISSING, ROOT_LABEL
from spacy_rootmind.trees.distribution import TreeDistribution

# The least probability of the labelled arcs that are kept with a sentence's trees.
LEAST_TO_KEEP = 1e-3
# Probabilities that single precision would take for 0.
LEAST = 1e-30


def find_details(batch: ScoredBatch, parsed: ParsedBatch) -> list[ParseDetails | None]:
    """Find the details that the settings ask for, per sentence; None where there are none."""
    settings = batch.context.settings
    parts: dict[str, Sequence[Any]] = {}
    if parsed.status is not None:
        parts["guideline_status"] = parsed.status
    if settings.finds_details:
        # These compute nothing until queried.
        trees = [
            TreeDistribution(
                arcs.astype(np.float64) / batch.context.temperature,
                lengths=bucket.lengths,
                projective=settings.projective,
            )
            for arcs, bucket in zip(batch.arc_scores, batch.scores.layout.buckets, strict=True)
        ]
        if settings.confidence:
            parts["confidence"] = _find_confidence(batch, parsed, trees)
        if settings.arc_threshold is not None:
            arcs = _find_arcs(batch, trees, settings.arc_threshold)
            tables = _arc_tables(batch, arcs, settings.arc_threshold)
            parts["arcs"] = [table for table, _ in tables]
        if settings.alternatives is not None:
            parts["alternatives"] = find_alternatives(batch, parsed)
        if settings.keep_trees:
            parts["trees"] = _find_stored_trees(batch, trees)
        if settings.distribution_threshold is not None:
            threshold = settings.distribution_threshold
            # With the arcs of the parse, at least one tree is kept.
            arcs = _find_arcs(batch, trees, threshold, parsed.heads)
            parts["distribution"] = _find_distributions(batch, arcs, threshold)
    found = [dict(zip(parts, own, strict=True)) for own in zip(*parts.values(), strict=True)]
    return [ParseDetails(**own) if any(own.values()) else None for own in found]


# --- probabilities of the tree -----------------------------------------------------------------


def _find_confidence(
    batch: ScoredBatch, parsed: ParsedBatch, trees: Sequence[TreeDistribution]
) -> list[Confidence]:
    """Find the probabilities of each sentence's heads, labels and starts, and of its tree."""
    layout = batch.scores.layout
    # The root's label is certain.
    label_probs = np.ones(layout.n_rows)
    for deps, heads, log_probs in parsed.labelled:
        own = parsed.heads[deps] == heads - layout.roots[layout.sentence_of_row[deps]]
        label_probs[deps[own]] = np.exp(log_probs[own])
    padded_heads = layout.pad(parsed.heads, MISSING)
    found: list[Any] = [None] * len(batch.sentences)
    for bucket, own_trees, heads in zip(layout.buckets, trees, padded_heads, strict=True):
        # Marginals first: the others then need no elimination of their own.
        chosen = np.take_along_axis(own_trees.marginals, np.maximum(heads, 0)[..., None], axis=2)
        log_probs, entropies = np.atleast_1d(own_trees.log_prob(heads), own_trees.entropy())
        for i, number in enumerate(bucket.sentences):
            words = bucket.rows[i, 1 : bucket.lengths[i] + 1]
            probs = chosen[i, 1 : len(words) + 1, 0].astype(np.float32)
            names, labels = number_labels(parsed.labels[words], batch.context.labels)
            found[number] = Confidence(
                names,
                probs,
                float(log_probs[i]),
                float(entropies[i]),
                labels,
                (probs * label_probs[words]).astype(np.float32),
                batch.sentences[number].start_probs,
            )
    return found


# --- probable arcs and distributions -----------------------------------------------------------


class ProbableArcs(NamedTuple):
    """Probable arcs of the sentences of a batch, one sentence after another; all (n_arcs,).

    Dependents and heads are flat rows of the batch.
    """

    deps: NDArray[np.int64]
    heads: NDArray[np.int64]
    probs: NDArray[np.float64]
    log_weights: NDArray[np.float64]


def _find_arcs(
    batch: ScoredBatch,
    trees: Sequence[TreeDistribution],
    threshold: float,
    parses: NDArray[np.int32] | None = None,
) -> ProbableArcs:
    """Find the arcs with a probability of at least `threshold`, and all heads of the parses."""
    layout = batch.scores.layout
    found: list[Any] = [None] * len(batch.sentences)
    for bucket, own in zip(layout.buckets, trees, strict=True):
        for i, number in enumerate(bucket.sentences):
            m, root = bucket.lengths[i] + 1, layout.roots[number]
            probs = own.marginals[i, :m, :m]
            listed = probs >= threshold
            if parses is not None:
                listed[np.arange(1, m), parses[root + 1 : root + m]] = True
            at = listed.nonzero()
            found[number] = at[0] + root, at[1] + root, probs[at], own.scores[i][at]
    return ProbableArcs(*map(np.concatenate, zip(*found, strict=True)))


def _arc_tables(
    batch: ScoredBatch, arcs: ProbableArcs, threshold: float, *, all_arcs: bool = False
) -> list[tuple[ArcTable, NDArray[np.float64]]]:
    """List the labelled arcs of each sentence with a probability of at least `threshold`.

    An arc has a row for each of its labels that is probable enough; the label of an arc from ROOT
    is certain. With `all_arcs`, each of the others has a row for its best label. The rows of a word
    are sorted by decreasing probability. The log-weight of the arc of each row is returned as well.
    """
    layout = batch.scores.layout
    rows, labels, joint = _find_labels(batch, arcs, threshold, all_arcs=all_arcs)
    order = np.lexsort((-joint, arcs.deps[rows]))
    rows, labels, joint = rows[order], labels[order], joint[order]
    deps, heads, log_weights = arcs.deps[rows], arcs.heads[rows], arcs.log_weights[rows]
    tables = []
    starts = [*layout.roots.tolist(), layout.n_rows]
    bounds = np.searchsorted(deps, starts).tolist()
    for root, (first, stop) in zip(starts, pairwise(bounds), strict=False):
        own = slice(first, stop)
        names, numbers = number_labels(labels[own], batch.context.labels)
        of_words = deps[own] - root, heads[own] - root
        places = (of_words[0] - 1).astype(np.int32), from_zero(*of_words)
        tables.append((ArcTable(names, *places, numbers, joint[own]), log_weights[own]))
    return tables


def _find_labels(
    batch: ScoredBatch, arcs: ProbableArcs, threshold: float, *, all_arcs: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Find the labels of arcs: the number of the arc, the label, and the probability of both."""
    is_outer = np.isin(arcs.heads, batch.scores.layout.roots)
    inner, outer = np.flatnonzero(~is_outer), np.flatnonzero(is_outer)
    temperature = batch.context.label_temperature
    found, labels, joint = find_probable_labels(
        batch.labeller,
        batch.scores,
        arcs.deps[inner],
        arcs.heads[inner],
        arcs.probs[inner],
        threshold,
        temperature,
    )
    parts = [
        (outer, np.full(len(outer), ROOT_LABEL), arcs.probs[outer]),
        (inner[found], labels, joint),
    ]
    if all_arcs:
        others = np.delete(inner, found)
        labels, log_probs = find_best_labels(
            batch.labeller, batch.scores, arcs.deps[others], arcs.heads[others], temperature
        )
        parts.append((others, labels, arcs.probs[others] * np.exp(log_probs)))
    rows, labels, joint = map(np.concatenate, zip(*parts, strict=True))
    return rows, labels, joint


def _find_distributions(
    batch: ScoredBatch, arcs: ProbableArcs, threshold: float
) -> list[StoredDistribution]:
    """Join the arcs of each sentence, their log-weights, and the probabilities of their labels.

    A label is kept if the probability of arc and label together is at least `threshold`, and the
    best one of each arc always.
    """
    finds_boundaries = batch.context.finds_boundaries
    tables = _arc_tables(batch, arcs, threshold, all_arcs=True)
    return [
        StoredDistribution(
            **_with_probs(table, np.maximum(table.probs, LEAST)),
            log_weights=log_weights.astype(np.float32),
            start_probs=sigmoid(sentence.log_odds) if finds_boundaries else None,
        )
        for sentence, (table, log_weights) in zip(batch.sentences, tables, strict=True)
    ]


def _find_stored_trees(batch: ScoredBatch, trees: Sequence[TreeDistribution]) -> list[StoredTrees]:
    """Join the weights of all arcs of each sentence and its probable labelled arcs."""
    tables = _arc_tables(batch, _find_arcs(batch, trees, LEAST_TO_KEEP), LEAST_TO_KEEP)
    return [
        StoredTrees(
            **_with_probs(table, table.probs),
            log_weights=_weights_to_store(batch.log_weights_of(i)),
            projective=batch.context.settings.projective,
        )
        for i, (table, _) in enumerate(tables)
    ]


def _with_probs(table: ArcTable, probs: NDArray[np.floating]) -> dict[str, Any]:
    """List the columns of a table, with probabilities in single precision."""
    return {**vars(table), "probs": probs.astype(np.float32)}


def _weights_to_store(log_weights: NDArray[np.float64]) -> NDArray[np.float32]:
    """Move the weights of root arcs to the diagonal, and lower each row, so that float32 will do.

    Probabilities of trees depend on the differences among the arcs of each word alone.
    """
    kept = log_weights[1:, 1:].copy()
    np.fill_diagonal(kept, log_weights[1:, 0])
    return (kept - kept.max(axis=1, keepdims=True, initial=-np.inf)).astype(np.float32)


def sigmoid(log_odds: NDArray[np.floating]) -> NDArray[np.float32]:
    """Convert log-odds to probabilities, without overflow."""
    return (0.5 * (1.0 + np.tanh(0.5 * log_odds))).astype(np.float32)
