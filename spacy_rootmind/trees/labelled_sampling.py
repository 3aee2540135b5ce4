"""Samples of labelled trees, with and without replacement."""

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
    with several labellings. Parameters and results are as for `sample_labelled`; there are fewer
    than k only where there are no more.

    Notes
    -----
    The labelled trees that are not drawn yet are divided into sets, each with its probability:

    - The trees that are not drawn yet, with all of their labellings. The sampler of trees without
      replacement knows their probability, and draws the next one of them; labels follow freely.
    - For each result and each of its words behind the one where it left an earlier result: the
      labellings of its tree with the same labels before this word, and another label at it. The
      first draw from such a set removes a label from it, and makes a result with sets of its own.

    A set is drawn by its probability, and a labelled tree within it by its own. Nothing is
    subtracted, and probabilities are logs, so that these are right for any size. At most k trees
    are drawn. O(k + n L) for each result, with L labels; O(k n) memory.

    References
    ----------
    Shi, Bieber & Sutton (2020), Incremental Sampling Without Replacement for Sequence Models.
    """
    undrawn = _Undrawn(log_weights, k, find_log_probs, generator, projective)
    while len(undrawn.found) < k and undrawn.draw_next():
        pass
    return undrawn.result()


class _Undrawn:
    """The labelled trees that are not drawn yet; see `sample_labelled_distinct`.

    Words are counted among words with a label, and labels by their columns.

    Attributes
    ----------
    found : list of pairs
        The tree of each result, and the columns of its words' labels.
    """

    def __init__(
        self,
        log_weights: NDArray[np.floating],
        k: int,
        find_log_probs: FindLogProbs,
        generator: np.random.Generator,
        projective: bool,
    ) -> None:
        self.found: list[tuple[int, NDArray[np.int64]]] = []
        self._scores: list[float] = []
        self._sentence = Sentences(log_weights, projective=projective)
        self._k = k
        self._labels = ArcLabels(len(log_weights) - 1, find_log_probs)
        self._generator = generator
        # Draws the same trees again, and more of them.
        self._seed = int(generator.integers(2**63))
        self._draw_trees(_FIRST_TREES)
        self._n_trees = 0
        # The log probability of the trees not drawn yet, then that of all sets of each result.
        self._totals = self._log_remaining[:1].copy()
        # That of the set of each word.
        self._by_word: list[NDArray[np.float64]] = []
        # The log probabilities of labels left to the set of a result and a word.
        self._left: dict[tuple[int, int], NDArray[np.float64]] = {}

    def draw_next(self) -> bool:
        """Draw the next labelled tree; returns whether there was one."""
        if self._totals.max() == -np.inf:
            return False
        chosen = self._choose(self._totals)
        if chosen == 0:
            word, columns = -1, self._draw_columns(self._rows(self._n_trees))
            self._record(self._use_next_tree(), word, columns)
            return True
        tree, before = self.found[chosen - 1]
        word = self._choose(self._by_word[chosen - 1])
        column = self._remove_label(chosen - 1, word)
        drawn = self._draw_columns(self._rows(tree)[word + 1 :])
        self._record(tree, word, np.concatenate([before[:word], [column], drawn]))
        return True

    def result(self) -> LabelledTrees:
        """Collect the results, in the order they were drawn."""
        heads = self._heads[[tree for tree, _ in self.found]]
        labels = np.where(heads == ROOT, ROOT_LABEL, MISSING).astype(np.int32)
        labels[heads > 0] = np.concatenate([columns for _, columns in self.found]) + 1
        return LabelledTrees(heads, labels, np.array(self._scores))

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

    def _use_next_tree(self) -> int:
        """Count the next tree as drawn; returns its number."""
        self._n_trees += 1
        if self._n_trees == len(self._heads) and not self._no_more_trees:
            self._draw_trees(2 * self._n_trees)
        are_left = self._n_trees < len(self._heads)
        self._totals[0] = self._log_remaining[self._n_trees] if are_left else -np.inf
        return self._n_trees - 1

    def _rows(self, tree: int) -> NDArray[np.int64]:
        """Find the rows of labels of a tree's words, except for the root."""
        deps = np.flatnonzero(self._heads[tree] > 0)
        rows: NDArray[np.int64] = self._labels.rows[deps, self._heads[tree, deps]]
        return rows

    def _choose(self, log_weights: NDArray[np.float64]) -> int:
        """Choose an index in proportion to its weight, by the largest of Gumbel variables."""
        return int((log_weights + self._generator.gumbel(size=len(log_weights))).argmax())

    def _draw_columns(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Draw a label for each row of log probabilities."""
        return _choose_columns(self._passed, rows, self._generator.random(len(rows)))

    def _remove_label(self, result: int, word: int) -> int:
        """Draw the label of a word from the set of a result, and remove it from the set."""
        tree, columns = self.found[result]
        rows, log_probs = self._rows(tree), self._labels.log_probs
        left = self._left.get((result, word))
        if left is None:
            left = self._left[result, word] = log_probs[rows[word]].copy()
            left[columns[word]] = -np.inf
        column = self._choose(left)
        left[column] = -np.inf
        agreeing = self._log_probs[tree] + log_probs[rows[:word], columns[:word]].sum()
        self._by_word[result][word] = agreeing + np.logaddexp.reduce(left)
        self._totals[result + 1] = np.logaddexp.reduce(self._by_word[result])
        return column

    def _record(self, tree: int, word: int, columns: NDArray[np.int64]) -> None:
        """Record a result that left an earlier one at a word, and make its sets."""
        others = self._labels.log_probs[self._rows(tree)]
        own = others[np.arange(len(columns)), columns]
        others[np.arange(len(columns)), columns] = -np.inf
        # For each word, the log probability of all labellings that agree before it.
        agreeing = self._log_probs[tree] + np.concatenate([[0.0], own.cumsum()])
        by_word = agreeing[:-1] + np.logaddexp.reduce(others, axis=1)
        by_word[: word + 1] = -np.inf
        self.found.append((tree, columns))
        self._scores.append(float(agreeing[-1]))
        self._by_word.append(by_word)
        self._totals = np.append(self._totals, np.logaddexp.reduce(by_word))


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
