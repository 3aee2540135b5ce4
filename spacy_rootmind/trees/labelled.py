"""Labels of given trees, and the most probable labelled trees.

Labels cost more to score than arcs do, so they are scored on chosen arcs only.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.trees.conventions import MISSING, ROOT, ROOT_LABEL
from spacy_rootmind.trees.decoding import decode


class PaddedArcs(NamedTuple):
    """Arcs in several padded batches: the batch, and the sentence, dependent and head in it.

    All arrays are of shape (n_arcs,).
    """

    batch: NDArray[np.int64]
    sentence: NDArray[np.int64]
    dep: NDArray[np.int64]
    head: NDArray[np.int64]


FindLabels = Callable[[PaddedArcs], tuple[NDArray[np.int64], NDArray[np.float64]]]
"""Finds the number of each arc's best label, from 1, and that label's log probability."""


def decode_labelled(
    log_weights: Sequence[NDArray[np.floating]],
    lengths: Sequence[NDArray[np.intp]],
    find_labels: FindLabels,
) -> tuple[list[NDArray[np.int32]], list[NDArray[np.int32]]]:
    """Find the single-root trees that are the most probable together with their labels.

    The weight of a tree is the sum of its arcs' log-weights and of the log probabilities of their
    best labels. The label of the arc from ROOT is certain.

    Parameters
    ----------
    log_weights : list of float array of shape (b, m, m)
        Arc scores over their temperature, of several padded batches; -inf forbids an arc.
    lengths : list of int array of shape (b,)
        Words in each sentence.
    find_labels : FindLabels
        Called with arcs between words, with each of them at most once.

    Returns
    -------
    heads : list of int array of shape (b, m)
        As returned by `decode`.
    labels : list of int array of shape (b, m)
        Numbers of the words' labels: ROOT_LABEL for the root, MISSING at index 0 and in the
        padding.

    Raises
    ------
    NoTreeError
        If a sentence has no tree.

    Notes
    -----
    Exact, although few arcs are labelled. A log probability is at most 0, so an arc without labels
    yet has at least the weight that it will have with them. Once all arcs of the best tree are
    labelled, no other tree can be better; until then, its unlabelled arcs are labelled and the
    sentence is decoded again. In each round, twice as many of the best other heads of such words
    are labelled as in the round before. This keeps the number of rounds small where labels tell
    more than arcs do; in an untrained parser, most arcs of a sentence may be labelled.
    """
    weights = [_only_inside(*batch) for batch in zip(log_weights, lengths, strict=True)]
    labels = [np.full(batch.shape, MISSING, dtype=np.int32) for batch in weights]
    heads = [decode(*batch) for batch in zip(weights, lengths, strict=True)]
    n_rivals = 0
    while True:
        new = _unlabelled(weights, labels, heads, n_rivals)
        if not len(new.batch):
            return heads, [_labels_of(*batch) for batch in zip(labels, heads, lengths, strict=True)]
        best, log_probs = find_labels(new)
        for i in range(len(weights)):
            own = new.batch == i
            places = new.sentence[own], new.dep[own], new.head[own]
            labels[i][places] = best[own]
            weights[i][places] += log_probs[own]
            again = np.unique(new.sentence[own])
            if len(again):
                heads[i][again] = decode(weights[i][again], lengths[i][again])
        n_rivals = 2 * n_rivals + 1


def label_trees(
    heads: Sequence[NDArray[np.int32]],
    lengths: Sequence[NDArray[np.intp]],
    find_labels: FindLabels,
) -> list[NDArray[np.int32]]:
    """Find the best labels of given trees; shapes are those of `decode_labelled`."""
    labels = [_root_labels(*batch) for batch in zip(heads, lengths, strict=True)]
    places = [np.nonzero(trees > 0) for trees in heads]
    batch = np.repeat(np.arange(len(heads)), [len(sentence) for sentence, _ in places])
    sentence, dep = (np.concatenate(column) for column in zip(*places, strict=True))
    head = np.concatenate([trees[own] for trees, own in zip(heads, places, strict=True)])
    best, _ = find_labels(PaddedArcs(batch, sentence, dep, head.astype(np.int64)))
    for i, own in enumerate(places):
        labels[i][own] = best[batch == i]
    return labels


def _root_labels(heads: NDArray[np.int32], lengths: NDArray[np.intp]) -> NDArray[np.int32]:
    """Label the root tokens; MISSING elsewhere."""
    index = np.arange(heads.shape[1])
    is_root = (heads == ROOT) & (index > 0) & (index <= lengths[:, None])
    return np.where(is_root, ROOT_LABEL, MISSING).astype(np.int32)


def _only_inside(batch: NDArray[np.floating], lengths: NDArray[np.intp]) -> NDArray[np.float64]:
    """Copy log-weights, with -inf past the end of each sentence."""
    outside = np.arange(batch.shape[2]) > lengths[:, None]
    return np.where(outside[:, None, :], -np.inf, batch).astype(np.float64, copy=False)


def _unlabelled(
    weights: list[NDArray[np.float64]],
    labels: list[NDArray[np.int32]],
    heads: list[NDArray[np.int32]],
    n_rivals: int,
) -> PaddedArcs:
    """Find the unlabelled arcs of trees, and the `n_rivals` best other heads of their words."""
    parts = []
    for i, (batch, known, trees) in enumerate(zip(weights, labels, heads, strict=True)):
        sentence, dep = np.nonzero((trees > 0) & (_of_trees(known, trees) == MISSING))
        head = trees[sentence, dep].astype(np.int64)
        if n_rivals and len(dep):
            candidates, m = batch[sentence, dep], batch.shape[2]
            candidates[known[sentence, dep] != MISSING] = -np.inf
            candidates[:, 0] = -np.inf
            candidates[np.arange(len(dep)), dep] = -np.inf
            candidates[np.arange(len(dep)), head] = -np.inf
            best = np.argpartition(-candidates, min(n_rivals, m) - 1, axis=1)[:, :n_rivals]
            word, place = np.nonzero(np.take_along_axis(candidates, best, axis=1) > -np.inf)
            head = np.concatenate([head, best[word, place]])
            sentence = np.concatenate([sentence, sentence[word]])
            dep = np.concatenate([dep, dep[word]])
        parts.append((np.full(len(dep), i), sentence, dep, head))
    return PaddedArcs(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _of_trees(square: NDArray[np.int32], heads: NDArray[np.int32]) -> NDArray[np.int32]:
    """Take each word's entry at its head from (b, m, m); MISSING unless the head is a word."""
    chosen = np.take_along_axis(square, np.maximum(heads, 0)[..., None], axis=2)[..., 0]
    return np.where(heads > 0, chosen, np.int32(MISSING))


def _labels_of(
    square: NDArray[np.int32], heads: NDArray[np.int32], lengths: NDArray[np.intp]
) -> NDArray[np.int32]:
    """Take the labels of trees from those of all arcs; ROOT_LABEL for the root."""
    return np.where(heads > 0, _of_trees(square, heads), _root_labels(heads, lengths))
