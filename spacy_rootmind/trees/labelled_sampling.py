"""Samples of labelled trees, with and without replacement."""

import heapq
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.trees.conventions import MISSING, ROOT, ROOT_LABEL, blocks_of_rows
from spacy_rootmind.trees.labelled import ArcLabels, FindLogProbs, LabelledTrees
from spacy_rootmind.trees.sampling import draw, sample_trees
from spacy_rootmind.trees.sentences import Sentences

# Drawn at first where labelled trees are drawn without replacement; then twice as many, and so on.
_FIRST_TREES = 16


def sample_labelled(
    log_weights: NDArray[np.floating],
    k: int,
    find_log_probs: FindLogProbs,
    generator: np.random.Generator,
    *,
    projective: bool = False,
) -> LabelledTrees:
    """Draw k single-root trees with their labels, in proportion to their probability.

    Parameters
    ----------
    log_weights, k, find_log_probs, projective
        As for `decode_kbest_labelled`.
    generator : numpy.random.Generator

    Returns
    -------
    trees : LabelledTrees
        In the order they were drawn, with the log probabilities of trees and labels together.

    Notes
    -----
    Given the tree, labels are independent of each other. One random number per word and tree.
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


def sample_labelled_distinct(
    log_weights: NDArray[np.floating],
    k: int,
    find_log_probs: FindLogProbs,
    generator: np.random.Generator,
    *,
    projective: bool = False,
) -> LabelledTrees:
    """Draw up to k different single-root trees with their labels, without replacement.

    Each is drawn in proportion to its probability among those not drawn yet. A tree may be drawn
    with several labellings.

    Parameters
    ----------
    log_weights, k, find_log_probs, projective
        As for `decode_kbest_labelled`.
    generator : numpy.random.Generator

    Returns
    -------
    trees : LabelledTrees
        In the order they were drawn, with the log probabilities of trees and labels together; fewer
        than k only where there are no more.

    Notes
    -----
    An exponential race: each labelled tree arrives after an exponentially distributed time whose
    rate is its probability. The next to arrive is chosen in proportion to the rates of those that
    have not arrived, so the order of arrival is that of draws without replacement. Minus the log of
    a time is a Gumbel variable, as in Kool, van Hoof & Welling (2019).

    Few of the times are needed, and each follows from earlier ones:

    - The labellings of a tree t together arrive first at the rate P(t). So the order in which trees
      arrive first is that of trees drawn without replacement, and between two of them passes an
      exponential time at the rate of all trees that have not arrived, which the sampler knows
      without subtraction.
    - The first to arrive in a set is independent of its time, and chosen in proportion to the
      rates. So a tree's first labelling has a label for each word by the label's probability.
    - As exponential times have no memory, the other labellings arrive later than the first by times
      at their own rates, independent of each other. The labellings that agree with it up to some
      word and have a certain other label there are such a set: it first arrives later by an
      exponential time at its own rate, which is P(t) times the probabilities of these labels, with
      its words further on labelled by probability, and so on.

    Nothing is subtracted, and times are logs, so all of it holds for probabilities of any size. At
    most k trees are drawn. O(n L) for each result, with L labels; O(k n) memory.

    References
    ----------
    Kool, van Hoof & Welling (2019), Stochastic Beams and Where to Find Them. Shi, Bieber & Sutton
    (2020), Incremental Sampling Without Replacement for Sequence Models.
    """
    race = _Race(log_weights, k, find_log_probs, generator, projective)
    while race.queue and len(race.found) < k:
        race.record_next()
    return race.result()


class _Arrival(NamedTuple):
    """The first arrival in a set: all labellings of a tree, or those that share some labels.

    Attributes
    ----------
    log_time : float
    number : int
        Breaks ties.
    tree : int
    earlier : int
        The result with the same labels before `word`.
    word : int
        The last word whose label they share, counted among words with a label; -1 if there is none.
    column : int
        The column of that label.
    """

    log_time: float
    number: int
    tree: int
    earlier: int
    word: int
    column: int


class _Race:
    """Arrivals of labelled trees; see `sample_labelled_distinct`.

    Attributes
    ----------
    queue : list of _Arrival
        A heap of disjoint sets: all labelled trees that have not arrived, except for
        labellings of later trees and trees too late for the first k.
    found : list of pairs
        The tree of each labelled tree that has arrived, and the columns of its words' labels.
    scores : list of float
        Its log probability.
    """

    def __init__(
        self,
        log_weights: NDArray[np.floating],
        k: int,
        find_log_probs: FindLogProbs,
        generator: np.random.Generator,
        projective: bool,
    ) -> None:
        self.queue: list[_Arrival] = []
        self.found: list[tuple[int, NDArray[np.int64]]] = []
        self.scores: list[float] = []
        self._sentence = Sentences(log_weights, projective=projective)
        self._k = k
        self._labels = ArcLabels(len(log_weights) - 1, find_log_probs)
        self._generator = generator
        # Draws the same trees again, and more of them.
        self._seed = int(generator.integers(2**63))
        self._pushed = 0
        self._too_late = np.inf
        self._draw_trees(_FIRST_TREES)
        self._push_tree(0, -np.inf)

    def record_next(self) -> None:
        """Record the next arrival, and divide the rest of its set into sets."""
        now = heapq.heappop(self.queue)
        rows = self._rows(now.tree)
        drawn = self._draw_columns(rows[now.word + 1 :])
        if now.word < 0:
            columns = drawn
        else:
            before = self.found[now.earlier][1][: now.word]
            columns = np.concatenate([before, [now.column], drawn])
        own = self._labels.log_probs[rows, columns]
        # For each word, the rate of all labellings that agree up to it.
        log_rates = self._log_probs[now.tree] + np.concatenate([[0.0], own.cumsum()])
        self.found.append((now.tree, columns))
        self.scores.append(float(log_rates[-1]))
        self._push_others(now, rows, columns, log_rates)
        if now.word < 0:
            self._push_tree(now.tree + 1, now.log_time)

    def result(self) -> LabelledTrees:
        """Collect the arrivals, in order."""
        heads = self._heads[[tree for tree, _ in self.found]]
        labels = np.where(heads == ROOT, ROOT_LABEL, MISSING).astype(np.int32)
        labels[heads > 0] = np.concatenate([columns for _, columns in self.found]) + 1
        return LabelledTrees(heads, labels, np.array(self.scores))

    def _draw_trees(self, count: int) -> None:
        """Draw a number of trees without replacement; the first are those drawn before."""
        count = min(count, self._k)
        drawn = draw(self._sentence, count, replace=False, method="auto", steps=0, seed=self._seed)
        some = slice(drawn.found[0])
        self._heads, self._log_probs = drawn.heads[0, some], drawn.log_probs[0, some]
        self._log_remaining = drawn.log_remaining[0, some]
        self._no_more_trees = count == self._k or len(self._heads) < count
        deps = np.broadcast_to(np.arange(self._heads.shape[1]), self._heads.shape)
        inside = self._heads > 0
        self._labels.add(deps[inside], self._heads[inside].astype(np.int64))
        self._passed = np.exp(self._labels.log_probs).cumsum(axis=1)

    def _rows(self, tree: int) -> NDArray[np.int64]:
        """Find the rows of labels of a tree's words, except for the root."""
        deps = np.flatnonzero(self._heads[tree] > 0)
        rows: NDArray[np.int64] = self._labels.rows[deps, self._heads[tree, deps]]
        return rows

    def _draw_columns(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Draw a label for each row of log probabilities."""
        return _choose_columns(self._passed, rows, self._generator.random(len(rows)))

    def _draw_log_times(self, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Draw logs of exponential times at a rate of 1."""
        numbers = np.maximum(self._generator.random(shape), 2.0**-54)
        log_times: NDArray[np.float64] = np.log(-np.log1p(-numbers))
        return log_times

    def _push_tree(self, tree: int, log_time: float) -> None:
        """Add the next tree, if there is one, to arrive after the time of the one before."""
        if tree == len(self._heads) and not self._no_more_trees:
            self._draw_trees(2 * tree)
        if tree < len(self._heads):
            wait = self._draw_log_times(()) - self._log_remaining[tree]
            self._push([float(np.logaddexp(log_time, wait))], [(tree, -1, -1, -1)])

    def _push_others(
        self,
        now: _Arrival,
        rows: NDArray[np.int64],
        columns: NDArray[np.int64],
        log_rates: NDArray[np.float64],
    ) -> None:
        """Add the sets that differ from an arrival in the label of some word after `now.word`."""
        start = now.word + 1
        rates = log_rates[start:-1, None] + self._labels.log_probs[rows[start:]]
        rates[np.arange(len(rates)), columns[start:]] = -np.inf
        times = np.logaddexp(now.log_time, self._draw_log_times(rates.shape) - rates).ravel()
        wanted = self._k - len(self.found)
        soon = np.flatnonzero(times < self._too_late)
        if len(soon) > wanted:
            soon = soon[np.argpartition(times[soon], wanted)[:wanted]]
        words, others = np.divmod(soon, max(rates.shape[1], 1))
        earlier = len(self.found) - 1
        self._push(
            times[soon].tolist(),
            [
                (now.tree, earlier, word + start, column)
                for word, column in zip(words.tolist(), others.tolist(), strict=True)
            ],
        )

    def _push(self, log_times: list[float], sets: list[tuple[int, int, int, int]]) -> None:
        """Add sets to the queue, and leave out those that are too late once it is long."""
        for log_time, one in zip(log_times, sets, strict=True):
            heapq.heappush(self.queue, _Arrival(log_time, self._pushed, *one))
            self._pushed += 1
        if len(self.queue) > 2 * self._k:
            # In order, and so a heap.
            self.queue = heapq.nsmallest(self._k - len(self.found), self.queue)
            self._too_late = self.queue[-1].log_time if self.queue else -np.inf


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
