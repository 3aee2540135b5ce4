"""Confidence, labelled arcs and labelled alternatives of sentences, from their scores.

All of them refer to the words of a sentence, as in `annotation.details`.
"""

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.annotation.details import Alternatives, ArcTable, Confidence
from spacy_rootmind.network.label_scorer import (
    Labeller,
    find_best_labels,
    find_probable_labels,
)
from spacy_rootmind.network.tree_scorer import TreeScores
from spacy_rootmind.pipeline.alternatives import Trees
from spacy_rootmind.pipeline.probable_arcs import BatchArcs, ProbableArcs
from spacy_rootmind.trees.conventions import MISSING, ROOT, ROOT_LABEL
from spacy_rootmind.trees.distribution import TreeDistribution


def find_confidence(
    trees: TreeDistribution, lengths: NDArray[np.intp], heads: NDArray[np.int32]
) -> list[Confidence]:
    """Find the head probabilities, log probability and entropy of each sentence's tree.

    Parameters
    ----------
    trees : TreeDistribution
        Of b sentences.
    lengths : int array of shape (b,)
    heads : int array of shape (b, m)
        As returned by `decode`.
    """
    # Marginals first: the others then need no elimination of their own.
    chosen = np.take_along_axis(trees.marginals, np.maximum(heads, 0)[..., None], axis=2)
    log_probs, entropies = np.atleast_1d(trees.log_prob(heads), trees.entropy())
    return [
        Confidence(
            chosen[i, 1 : n + 1, 0].astype(np.float32),
            float(log_probs[i]),
            float(entropies[i]),
        )
        for i, n in enumerate(lengths.tolist())
    ]


def label_alternatives(
    labeller: Labeller,
    scores: TreeScores,
    alternatives: Sequence[Trees],
    label_names: tuple[str, ...],
) -> list[Alternatives]:
    """Label the alternatives of each sentence; an arc that several trees have is scored once."""
    n_rows = scores.layout.n_rows
    roots = scores.layout.roots
    arcs = []
    for root, (trees, _) in zip(roots.tolist(), alternatives, strict=True):
        heads = trees[:, 1:].astype(np.int64)
        deps = np.arange(1, trees.shape[1]) + root
        arcs.append(np.where(heads == ROOT, MISSING, deps * n_rows + heads + root))
    flat = (
        np.concatenate([sentence_arcs.ravel() for sentence_arcs in arcs])
        if arcs
        else np.zeros(0, np.int64)
    )
    unique, numbers = np.unique(flat, return_inverse=True)
    labels = np.full(len(unique), ROOT_LABEL, dtype=np.int32)
    between_words = unique != MISSING
    deps, heads = np.divmod(unique[between_words], n_rows)
    labels[between_words], _ = find_best_labels(labeller, scores, deps, heads)
    ends = np.cumsum([sentence_arcs.size for sentence_arcs in arcs])
    return [
        Alternatives(
            trees[:, 1:],
            labels[numbers[end - sentence_arcs.size : end]].reshape(sentence_arcs.shape),
            log_probs,
            label_names,
        )
        for (trees, log_probs), sentence_arcs, end in zip(
            alternatives, arcs, ends.tolist(), strict=True
        )
    ]


def label_arcs(
    labeller: Labeller,
    scores: TreeScores,
    arcs: Sequence[ProbableArcs],
    label_names: tuple[str, ...],
    threshold: float,
    temperature: float,
) -> list[ArcTable]:
    """List the labelled arcs of each sentence with a probability of at least `threshold`.

    An arc has a row for each of its labels that is probable enough; the label of an arc from ROOT
    is certain. The rows of a word are sorted by decreasing probability. `temperature` divides label
    scores.
    """
    if not arcs:
        return []
    batch = BatchArcs.join(arcs)
    roots = scores.layout.roots
    inner, outer = batch.between_words(), np.flatnonzero(batch.heads == ROOT)
    rows, labels, joint = find_probable_labels(
        labeller, scores, *batch.flat_rows(inner, roots), batch.probs[inner], threshold, temperature
    )
    rows = np.concatenate([outer, inner[rows]])
    labels = np.concatenate([np.full(len(outer), ROOT_LABEL), labels])
    joint = np.concatenate([batch.probs[outer], joint])
    order = np.lexsort((-joint, batch.deps[rows], batch.sentences[rows]))
    rows, labels, joint = rows[order], labels[order], joint[order]
    ends = np.searchsorted(batch.sentences[rows], np.arange(len(arcs) + 1))
    return [
        ArcTable(
            batch.deps[rows[of_sentence]],
            batch.heads[rows[of_sentence]],
            labels[of_sentence],
            joint[of_sentence],
            label_names,
        )
        for of_sentence in (slice(*pair) for pair in itertools.pairwise(ends))
    ]
