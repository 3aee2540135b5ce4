"""The best and the k best labelled trees, and samples of them.

Labels cost more to score than arcs do, so they are scored on chosen arcs only.
"""

import heapq
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.kernel.search_space import LabelledSearch
from spacy_rootmind.trees.conventions import MISSING, ROOT, ROOT_LABEL, blocks_of_rows
from spacy_rootmind.trees.decoding import decode, decode_kbest
from spacy_rootmind.trees.sampling import sample_trees

# Words of sentences by their rows: a sentence has a row for ROOT, then one for each word.
Rows = NDArray[np.intp]

FindLabels = Callable[[Rows, Rows], tuple[NDArray[np.intp], NDArray[np.float64]]]
"""Finds the number of the best label, from 1, of arcs between words, given by dependents and heads,
and the log probability of that label."""

FindLogProbs = Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.float64]]
"""Finds log probabilities of labels, (n_arcs, n_labels), of a sentence's arcs between words, given
by dependents and heads; in `decode_valid`, by rows. Column i is label number i + 1."""


class LabelledTrees(NamedTuple):
    """Labelled trees of one sentence.

    Attributes
    ----------
    heads : int array of shape (k', n + 1)
        As returned by `decode`.
    labels : int array of shape (k', n + 1)
        Numbers of the words' labels: ROOT_LABEL for the root, MISSING at index 0.
    scores : float array of shape (k',)
        Log-weights or log probabilities of the trees together with their labels.
    """

    heads: NDArray[np.int32]
    labels: NDArray[np.int32]
    scores: NDArray[np.float64]


def decode_labelled(
    scores: Sequence[NDArray[np.floating]],
    find_labels: FindLabels,
    *,
    temperature: float = 1.0,
    projective: bool = False,
    decode_again: bool = True,
) -> LabelledSearch:
    """Find the single-root trees that are the most probable together with their labels.

    The weight of a tree is the sum of its arcs' log-weights and of the log probabilities of their
    best labels. The label of the arc from ROOT is certain.

    Parameters
    ----------
    scores : list of float array of shape (m, m)
        Arc scores of each sentence; -inf forbids an arc.
    find_labels : FindLabels
        Called with arcs between words, with each of them at most once.
    temperature : float
        Divisor of the scores, which makes them log-weights.
    decode_again : bool
        If not, the trees are the best without labels, and only their arcs are labelled.

    Returns
    -------
    search : LabelledSearch
        The heads and labels of all words, by their rows. Labels are numbers, ROOT_LABEL for the
        root and MISSING for ROOT.

    Raises NoTreeError if a sentence has no tree.

    Notes
    -----
    Exact, although few arcs are labelled. A log probability is at most 0, so an arc without labels
    yet has at least the weight that it will have with them. Once all arcs of the best tree are
    labelled, no other tree can be better; until then, its unlabelled arcs are labelled and the
    sentence is decoded again. In each round, twice as many of the best other heads of such words
    are labelled as in the round before. This keeps the number of rounds small where labels tell
    more than arcs do; in an untrained parser, most arcs of a sentence may be labelled.
    """
    search = LabelledSearch(list(scores), temperature, projective)
    failed = search.run(find_labels, decode_again)
    if failed >= 0:
        # Says what is wrong.
        decode(search.arcs_of(failed)[0], projective=projective)
    return search


class ArcLabels:
    """Log probabilities of the labels of one sentence's arcs, found when they are first needed."""

    def __init__(self, n: int, find_log_probs: FindLogProbs) -> None:
        self.find = find_log_probs
        self.rows = np.full((n + 1, n + 1), MISSING, dtype=np.int64)
        self.log_probs = np.empty((0, 0))

    def add(self, deps: NDArray[np.int64], heads: NDArray[np.int64]) -> bool:
        """Find the labels of arcs between words unless known; returns whether any were new."""
        places = np.unique(deps * len(self.rows) + heads)
        deps, heads = np.divmod(places, len(self.rows))
        new = (heads > 0) & (self.rows[deps, heads] == MISSING)
        if not new.any():
            return False
        deps, heads = deps[new], heads[new]
        self.rows[deps, heads] = len(self.log_probs) + np.arange(len(deps))
        found = self.find(deps, heads)
        self.log_probs = np.concatenate([self.log_probs.reshape(-1, found.shape[1]), found])
        return True

    def __call__(self, deps: NDArray[np.int64], heads: NDArray[np.int64]) -> NDArray[np.float64]:
        """Look up the log probabilities of arcs between words, found now unless known."""
        self.add(deps, heads)
        return self.log_probs[self.rows[deps, heads]]

    def best(self) -> NDArray[np.float64]:
        """Log probability of each arc's best label; 0, the most it can be, if not found yet."""
        best = np.append(self.log_probs.max(axis=1, initial=-np.inf), 0.0)
        return best[self.rows]


def decode_kbest_labelled(
    log_weights: NDArray[np.floating],
    k: int,
    find_log_probs: FindLogProbs,
    *,
    projective: bool = False,
) -> LabelledTrees:
    """Find the k single-root trees that are the most probable together with their labels.

    The weight of a tree is the sum of its arcs' log-weights and of the log probabilities of their
    labels. The label of the arc from ROOT is certain. A tree may be listed with several labellings.

    Parameters
    ----------
    log_weights : float array of shape (n + 1, n + 1)
        Arc scores over their temperature; -inf forbids an arc.
    k : int
        Number of labelled trees, at least 1; fewer are found only where there are no more.
    find_log_probs : FindLogProbs
        Called with arcs between words, with each of them at most once.

    Notes
    -----
    Exact, although few arcs are labelled: none of the k has a tree that is not among the k best
    ones with best labels. These are found as by `decode_labelled`, with 0 for labels not known yet.
    Labellings of these trees are listed best first: each one follows from another, at least as
    good, by moving the last changed word, or a later one, to its next label.
    """
    n = len(log_weights) - 1
    labels = ArcLabels(n, find_log_probs)
    weights = np.array(log_weights, dtype=np.float64)
    n_rivals = 0
    while True:
        heads, _ = decode_kbest(weights + labels.best(), k, projective=projective)
        deps = np.broadcast_to(np.arange(n + 1), heads.shape)[:, 1:].ravel()
        unknown = labels.rows[deps, heads[:, 1:].ravel()] == MISSING
        unknown &= heads[:, 1:].ravel() != ROOT
        if not labels.add(deps, heads[:, 1:].ravel().astype(np.int64)):
            return _list_labellings(heads, weights, labels, k)
        # More in each round, so that there are few rounds.
        words = np.unique(deps[unknown])
        rivals = _likeliest_heads(weights, words, n_rivals)
        labels.add(np.repeat(words, rivals.shape[1]), rivals.ravel())
        n_rivals = 2 * n_rivals + 1


def _likeliest_heads(
    weights: NDArray[np.float64], words: NDArray[np.int64], count: int
) -> NDArray[np.int64]:
    """Find the heads of words with the highest weights, ROOT where there are fewer."""
    candidates = weights[words]
    candidates[:, 0] = candidates[np.arange(len(words)), words] = -np.inf
    best = np.argsort(-candidates, axis=1, kind="stable")[:, :count]
    return np.where(np.take_along_axis(candidates, best, axis=1) > -np.inf, best, ROOT)


def _list_labellings(
    heads: NDArray[np.int32], weights: NDArray[np.float64], labels: ArcLabels, k: int
) -> LabelledTrees:
    """List the k best labelled trees of given trees."""
    deps = np.arange(1, heads.shape[1])
    orders = np.argsort(-labels.log_probs, axis=1, kind="stable")
    falling = np.take_along_axis(labels.log_probs, orders, axis=1)
    rows = labels.rows[deps, heads[:, 1:]]
    rows[heads[:, 1:] == ROOT] = MISSING
    best = (weights + labels.best())[deps, heads[:, 1:]].sum(axis=1)
    # The cost of the next label of each arc: infinity or NaN if there is none.
    with np.errstate(invalid="ignore"):
        steps = falling[:, :-1] - falling[:, 1:]
    steps = np.pad(steps, ((0, 1), (0, 1)), constant_values=np.inf)
    # Each labelling: minus its score, a number that breaks ties, its tree, and the words
    # without their best label, each with the place of its label among the best.
    queue: list[tuple[float, int, int, tuple[tuple[int, int], ...]]]
    queue = [(-score, tree, tree, ()) for tree, score in enumerate(best.tolist())]
    heapq.heapify(queue)
    number = len(queue)
    # With k trees, no labelling is among the k best that is worse than all of these.
    most = -best.min() if len(queue) >= k else np.inf
    found: list[tuple[float, int, tuple[tuple[int, int], ...]]] = []
    while queue and len(found) < k:
        loss, _, tree, changed = heapq.heappop(queue)
        found.append((-loss, tree, changed))
        first, rank = changed[-1] if changed else (0, 0)
        losses = loss + steps[rows[tree], 0]
        losses[:first] = np.inf
        losses[first : first + 1] = loss + steps[rows[tree, first : first + 1], rank]
        for word in np.flatnonzero((losses < np.inf) & (losses <= most)).tolist():
            kept, place = (changed[:-1], rank) if word == first else (changed, 0)
            number += 1
            new = (*kept, (word, place + 1))
            heapq.heappush(queue, (float(losses[word]), number, tree, new))
    return _as_labelled_trees(heads, rows, orders, found)


def _as_labelled_trees(
    heads: NDArray[np.int32],
    rows: NDArray[np.int64],
    orders: NDArray[np.int64],
    found: Sequence[tuple[float, int, tuple[tuple[int, int], ...]]],
) -> LabelledTrees:
    """Write out labellings; see `_list_labellings`."""
    trees = np.array([tree for _, tree, _ in found], dtype=np.int64)
    places = np.zeros((len(found), rows.shape[1]), dtype=np.int64)
    for i, (_, _, changed) in enumerate(found):
        for word, place in changed:
            places[i, word] = place
    labels = np.full((len(found), heads.shape[1]), ROOT_LABEL, dtype=np.int32)
    labels[:, 0] = MISSING
    own = rows[trees]
    labels[:, 1:][own != MISSING] = orders[own[own != MISSING], places[own != MISSING]] + 1
    return LabelledTrees(heads[trees], labels, np.array([score for score, _, _ in found]))


def sample_labelled(
    log_weights: NDArray[np.floating],
    k: int,
    find_log_probs: FindLogProbs,
    generator: np.random.Generator,
    *,
    projective: bool = False,
) -> LabelledTrees:
    """Draw k single-root trees with their labels, in proportion to their probability.

    Arguments are as for `decode_kbest_labelled`. Returns trees in the order they were drawn, with
    the log probabilities of trees and labels together. Given the tree, labels are independent of
    each other: one random number per word and tree.
    """
    heads, log_probs = sample_trees(log_weights, k, projective=projective, seed=generator)
    known = ArcLabels(len(log_weights) - 1, find_log_probs)
    deps = np.broadcast_to(np.arange(heads.shape[1]), heads.shape)
    inside = heads > 0
    known.add(deps[inside], heads[inside].astype(np.int64))
    labels = np.where(heads == ROOT, ROOT_LABEL, MISSING).astype(np.int32)
    numbers = generator.random(heads.shape)[inside]
    rows = known.rows[deps[inside], heads[inside]]
    passed = np.exp(known.log_probs).cumsum(axis=1)
    drawn = _choose_columns(passed, rows, numbers)
    labels[inside] = drawn + 1
    scores = np.zeros(heads.shape)
    scores[inside] = known.log_probs[rows, drawn]
    return LabelledTrees(heads, labels, log_probs + scores.sum(axis=1))


def _choose_columns(
    passed: NDArray[np.float64], rows: NDArray[np.int64], numbers: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Choose labels: the first of a row whose cumulative probability is above the number's share.

    `passed` has the cumulative probabilities of labels. Rounding may leave a share above all of
    them: it is the last label's.
    """
    columns = np.zeros(len(rows), dtype=np.int64)
    for some in blocks_of_rows(len(rows), passed.shape[1]):
        sums = passed[rows[some]]
        columns[some] = (sums[:, :-1] <= numbers[some, None] * sums[:, -1:]).sum(axis=1)
    return columns
