"""Details of parsed sentences: probabilities, arcs, alternatives and tree distributions.

All of them refer to the words of a sentence, as in `annotation.details`.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.annotation.details import (
    ArcTable,
    Confidence,
    ParseDetails,
    StoredDistribution,
    StoredTrees,
)
from spacy_rootmind.network.architecture import ParserModel
from spacy_rootmind.network.label_scorer import find_best_labels, find_probable_labels
from spacy_rootmind.network.layout import Layout
from spacy_rootmind.pipeline.find_alternatives import find_alternatives
from spacy_rootmind.pipeline.inputs import weights_digest
from spacy_rootmind.pipeline.sentence_parser import ParsedBatch, ScoredBatch
from spacy_rootmind.trees.conventions import MISSING, ROOT_LABEL
from spacy_rootmind.trees.distribution import TreeDistribution

# The least probability of the labelled arcs that are kept with a sentence's trees.
LEAST_TO_KEEP = 1e-3


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
            parts["arcs"] = _label_arcs(batch, arcs, settings.arc_threshold)
        if settings.alternatives is not None:
            parts["alternatives"] = find_alternatives(batch, parsed)
        if settings.keep_trees:
            parts["trees"] = _find_stored_trees(batch, trees)
        if settings.distribution_threshold is not None:
            threshold = settings.distribution_threshold
            # With the arcs of the parse, at least one tree is kept.
            arcs = _find_arcs(batch, trees, threshold, parsed.heads)
            parts["distributions"] = _find_distributions(batch, arcs, threshold)
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
            found[number] = Confidence(
                probs,
                float(log_probs[i]),
                float(entropies[i]),
                parsed.labels[words],
                (probs * label_probs[words]).astype(np.float32),
                batch.context.labels,
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


def _places(layout: Layout, deps: NDArray[np.int64]) -> Iterator[tuple[int, slice]]:
    """Iterate over sentences: the flat row of ROOT, and the place of the arcs, by dependents."""
    starts = [*layout.roots.tolist(), layout.n_rows]
    bounds = itertools.pairwise(np.searchsorted(deps, starts).tolist())
    return zip(starts, itertools.starmap(slice, bounds), strict=False)


def _label_arcs(batch: ScoredBatch, arcs: ProbableArcs, threshold: float) -> list[ArcTable]:
    """List the labelled arcs of each sentence with a probability of at least `threshold`.

    An arc has a row for each of its labels that is probable enough; the label of an arc from ROOT
    is certain. The rows of a word are sorted by decreasing probability.
    """
    layout = batch.scores.layout
    is_outer = np.isin(arcs.heads, layout.roots)
    inner, outer = np.flatnonzero(~is_outer), np.flatnonzero(is_outer)
    rows, labels, joint = find_probable_labels(
        batch.labeller,
        batch.scores,
        arcs.deps[inner],
        arcs.heads[inner],
        arcs.probs[inner],
        threshold,
        batch.context.label_temperature,
    )
    rows = np.concatenate([outer, inner[rows]])
    labels = np.concatenate([np.full(len(outer), ROOT_LABEL), labels])
    joint = np.concatenate([arcs.probs[outer], joint])
    order = np.lexsort((-joint, arcs.deps[rows]))
    labels, joint = labels[order], joint[order]
    deps, heads = arcs.deps[rows[order]], arcs.heads[rows[order]]
    return [
        ArcTable(deps[own] - root, heads[own] - root, labels[own], joint[own], batch.context.labels)
        for root, own in _places(layout, deps)
    ]


def _find_distributions(
    batch: ScoredBatch, arcs: ProbableArcs, threshold: float
) -> list[tuple[StoredDistribution]]:
    """Join the arcs of each sentence, their log-weights, and the probabilities of their labels.

    A label is kept if the probability of arc and label together is at least `threshold`, and the
    best one of each arc always.
    """
    context, layout = batch.context, batch.scores.layout
    entries, labels, label_probs = _labels_to_store(batch, arcs, threshold)
    stored = []
    for sentence, (root, own) in zip(batch.sentences, _places(layout, arcs.deps), strict=True):
        own_entries = slice(*np.searchsorted(entries, [own.start, own.stop]))
        stored.append(
            StoredDistribution(
                (arcs.deps[own] - root).astype(np.int32),
                (arcs.heads[own] - root).astype(np.int32),
                arcs.log_weights[own].astype(np.float32),
                (entries[own_entries] - own.start).astype(np.int32),
                labels[own_entries].astype(np.int32),
                label_probs[own_entries].astype(np.float32),
                context.labels,
                sigmoid(sentence.log_odds) if context.finds_boundaries else None,
                context.teacher,
            )
        )
    return [(distribution,) for distribution in stored]


def _find_stored_trees(batch: ScoredBatch, trees: Sequence[TreeDistribution]) -> list[StoredTrees]:
    """Join the weights of all arcs of each sentence and its probable labelled arcs."""
    tables = _label_arcs(batch, _find_arcs(batch, trees, LEAST_TO_KEEP), LEAST_TO_KEEP)
    return [
        StoredTrees(
            **vars(replace(table, probs=table.probs.astype(np.float32))),
            log_weights=_weights_to_store(batch.log_weights_of(i)),
            projective=batch.context.settings.projective,
        )
        for i, table in enumerate(tables)
    ]


def _weights_to_store(log_weights: NDArray[np.float64]) -> NDArray[np.float32]:
    """Move the weights of root arcs to the diagonal, and lower each row, so that float32 will do.

    Probabilities of trees depend on the differences among the arcs of each word alone.
    """
    kept = log_weights[1:, 1:].copy()
    np.fill_diagonal(kept, log_weights[1:, 0])
    return (kept - kept.max(axis=1, keepdims=True, initial=-np.inf)).astype(np.float32)


def _labels_to_store(
    batch: ScoredBatch, arcs: ProbableArcs, threshold: float
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Find the labels to keep: the number of the arc, the label and its probability on the arc."""
    inner = np.flatnonzero(~np.isin(arcs.heads, batch.scores.layout.roots))
    deps, heads, probs = arcs.deps[inner], arcs.heads[inner], arcs.probs[inner]
    temperature = batch.context.label_temperature
    found, labels, joint = find_probable_labels(
        batch.labeller, batch.scores, deps, heads, probs, threshold, temperature
    )
    others = np.setdiff1d(np.arange(len(deps)), found)
    best, log_probs = find_best_labels(
        batch.labeller, batch.scores, deps[others], heads[others], temperature
    )
    all_arcs = np.concatenate([found, others])
    order = np.argsort(all_arcs, kind="stable")
    label_probs = np.concatenate([joint / probs[found], np.exp(log_probs)])
    return inner[all_arcs[order]], np.concatenate([labels, best])[order], label_probs[order]


def sigmoid(log_odds: NDArray[np.floating]) -> NDArray[np.float32]:
    """Convert log-odds to probabilities, without overflow."""
    return (0.5 * (1.0 + np.tanh(0.5 * log_odds))).astype(np.float32)


def teacher_name(model: ParserModel, labels: Sequence[str]) -> str:
    """Name a parser by its labels and the weights above its token vectors.

    A parser that parses a Doc again is known for the same teacher, from whichever file it was
    loaded, and one that was trained further for another.
    """
    upper = [layer for layer in model.layers if layer is not model.get_ref("tok2vec")]
    return weights_digest(upper, repr(tuple(labels)))
