"""Distributions over the trees of a sentence: log partition, marginals, entropy, divergence.

Scores are log-weights: the probability of a tree is the exponential of its score, divided by the
sum over all trees.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.trees.checks import check_range
from spacy_rootmind.trees.conventions import (
    MISSING,
    IntArray,
    ScoreArray,
    TreeList,
    as_count,
    as_head_batch,
    mark_words,
)
from spacy_rootmind.trees.decoding import find_best, find_kbest
from spacy_rootmind.trees.inference import Inference
from spacy_rootmind.trees.sampling import Seed, sample_from
from spacy_rootmind.trees.sentences import Float, Sentences


class TreeDistribution:
    """The distribution over the trees of each sentence, proportional to exp(score).

    Sums over all trees are made by the first query that needs them, and kept: each result is
    computed once, except that each gradient takes an elimination of its own.
    Arguments are as for `decode`. Scores are not copied: do not change them while this object is in
    use.

    Notes
    -----
    The first query checks the values of the scores, and raises

    - NoTreeError if a sentence has no tree of the wanted kind;
    - ValueError for NaN or +inf inside a sentence;
    - ArithmeticError if sums of scores overflow, or each tree needs an arc whose score is 1e15
      below that of another arc of its word.

    `log_partition` and `log_prob` take n^3 / 3 multiplications, `marginals` n^3, and all that
    follows from marginals O(n^2) more: `entropy` and `kl_divergence`. To use both, ask for
    `marginals` first, which give `log_partition` as well.
    With `projective`, by the inside-outside algorithm, all take five times as long for 25 words and
    fifty times for 200. Scores so far apart that float64 would underflow take some ten times as
    long.

    Nothing is subtracted in the elimination; the usual determinant of the Laplacian (Koo et al.
    2007) loses all its digits once two words strongly prefer each other. The error of
    `log_partition` is a few units in the last place, or of 1 where that is larger; that of
    `marginals` a few units in the last place of 1; that of `entropy` and divergences, a few units
    in the last place of the differences among the scores of a word, where a likely arc is not the
    best one of its word.

    An object may be used by several threads at once; what two of them ask for at the same time may
    be computed twice. Arrays that it returns are copies, except for `marginals`, which are
    read-only.

    References
    ----------
    Koo, Globerson, Carreras & Collins (2007), Structured Prediction Models via the Matrix-Tree
    Theorem. Grassmann, Taksar & Heyman (1985), Regenerative Analysis and Steady State
    Distributions for Markov Chains: elimination without subtraction. Zmigrod, Vieira & Cotterell
    (2021), Efficient Computation of Expectations under Spanning Tree Distributions: entropy,
    divergences and covariances. Eisner (1996), Three new probabilistic models for dependency
    parsing: the spans of projective trees.

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.array([[0, 0, 0], [3, 0, 1], [3, 2, 0]], dtype="f")
    >>> trees = TreeDistribution(scores)
    >>> trees
    TreeDistribution(scores of shape (3, 3), single_root=True)
    >>> trees.mode.tolist()
    [-1, 0, 1]
    >>> np.exp(trees.log_prob(trees.mode)).round(3)
    np.float64(0.731)
    """

    def __init__(
        self,
        scores: ScoreArray,
        *,
        lengths: IntArray | int | None = None,
        single_root: bool = True,
        projective: bool = False,
        num_threads: int = 1,
    ):
        # Also for torch and tests: the sentences that it is over, and what is found for them.
        self.sentences = Sentences(scores, lengths, single_root, projective, num_threads)
        self.inference = Inference(self.sentences)

    @property
    def scores(self) -> ScoreArray:
        """The scores, as they were given."""
        return self.sentences.scores

    # Queries

    @property
    def log_partition(self) -> Float:
        """Log of the summed weights of all trees, log Z, in nats, of shape () or (B,).

        0 for a sentence of no words, which has one tree, the empty one.
        """
        return self.sentences.numbers(self.inference.log_partitions())

    @property
    def marginals(self) -> NDArray[np.float64]:
        """Probability of each arc, `marginals[dep, head]`.

        A read-only array of the shape of the scores. Each word's row adds up to 1; with
        `single_root`, so does ROOT's column. 0 where no arc can be: in row 0, on the diagonal, in
        the padding, where forbidden. These are also the derivatives of `log_partition` with respect
        to the scores.
        """
        marginals: NDArray[np.float64] = self.sentences.shaped(self.inference.marginals()).view()
        marginals.flags.writeable = False
        return marginals

    def entropy(self) -> Float:
        """Find the entropy of the distribution, in nats, of shape () or (B,).

        0 where there is only one tree, the log of their number where all are equally good.
        """
        return self.sentences.numbers(self.inference.entropies())

    def log_prob(self, heads: IntArray) -> Float:
        """Find the log probability of given trees.

        Parameters
        ----------
        heads : int array of shape (n + 1,) or (B, N + 1)
            A head for each word, as from `mode`. Index 0 and the padding are ignored. For k trees
            of each sentence, as from `sample` or `k_best`, of shape (k, n + 1) or (B, k, N + 1).

        Returns
        -------
        log_prob : float64, or float64 array of shape (B,), (k,) or (B, k)
            In nats, at most 0. -inf where heads form no tree of the wanted kind, have a forbidden
            arc, or are all -1, as behind a sentence's last tree.

        Notes
        -----
        O(n log n) for each tree, after `log_partition`. More accurate than `tree_score` minus
        `log_partition`, which may both be large.

        Examples
        --------
        >>> import numpy as np
        >>> scores = np.array([[0, 0, 0], [3, 0, 1], [3, 2, 0]], dtype="f")
        >>> trees = TreeDistribution(scores)
        >>> np.exp(trees.log_prob(np.array([[-1, 0, 1], [-1, 2, 0]]))).round(3).tolist()
        [0.731, 0.269]
        >>> float(trees.log_prob(np.array([-1, 0, 0])))
        -inf
        """
        shape, flat, words = self.sentences.flatten(heads)
        given, _ = as_head_batch(flat, words)
        is_filled = (mark_words(words, given.shape[1]) & (given != MISSING)).any(axis=1)
        inside = np.where(is_filled, words, 0)
        check_range(heads, given, inside, len(words) // max(len(self.sentences), 1))
        return self.inference.log_probs(given, words).reshape(shape)[()]

    def sample(self, k: int, *, replace: bool = True, seed: Seed = None) -> TreeList:
        """Draw k trees of each sentence, with their log probabilities.

        As `sample_trees`, which makes an elimination of its own in each call: draw many at once.
        """
        return sample_from(self.sentences, k, replace=replace, seed=seed)

    @property
    def mode(self) -> NDArray[np.int32]:
        """The most probable tree of each sentence, as by `decode`. O(n^2).

        Int32 array of shape (n + 1,) or (B, N + 1), with -1 at index 0 and in the padding.
        """
        return self.sentences.shaped(find_best(self.sentences))

    def k_best(self, k: int) -> TreeList:
        """Find the k most probable trees of each sentence, with their log probabilities.

        As `decode_kbest`, which has scores in place of log probabilities.
        """
        heads, tree_scores = find_kbest(self.sentences, as_count("k", k))
        # Behind its only tree, a sentence of no words has rows that look like that tree.
        return TreeList(heads, np.where(tree_scores > -np.inf, self.log_prob(heads), -np.inf))

    def kl_divergence(self, other: "TreeDistribution") -> Float:
        """Find the Kullback-Leibler divergence to `other`.

        Parameters
        ----------
        other : TreeDistribution
            Over the same sentences; `single_root` may differ. Projective only if this one is.

        Returns
        -------
        kl_divergence : float64, or float64 array of shape (B,)
            In nats, never negative, and exactly 0 for equal scores and kinds of trees. To the same
            scores with `single_root=False`, it is minus the log probability that a tree has a
            single root (Zmigrod, Vieira & Cotterell 2020). inf where a tree that is possible here
            is impossible in `other`: it has an arc forbidden there, or several roots where `other`
            allows one. A tree is possible if the scores of its arcs are finite, even if its
            probability underflows.

        Examples
        --------
        >>> import numpy as np
        >>> even = TreeDistribution(np.zeros((3, 3)))
        >>> other = TreeDistribution(np.log(np.array([[1, 1, 1], [1, 1, 1], [3, 1, 1]])))
        >>> even.kl_divergence(other).round(6) == np.log(2 / np.sqrt(3)).round(6)
        np.True_
        """
        if not isinstance(other, TreeDistribution):
            raise TypeError(f"expected a TreeDistribution, received {type(other).__name__}")
        return self.sentences.numbers(self.inference.divergences(other.inference))

    def expectation_gradient(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Find the gradient of the mean of a sum over the arcs of a tree, by the scores.

        The mean is the sum of `marginals` times `values`. Its gradient is the covariance of each
        arc (1 in trees that have it, 0 in others) with the sum; multiplied by the values of another
        sum and added up, the covariance of both sums; multiplied by `values`, the variance.

        Parameters
        ----------
        values : float, int or bool array of the shape of the scores
            What each arc adds, `values[dep, head]`; finite for arcs of positive probability, and
            ignored for others.

        Returns
        -------
        gradient : float64 array of the shape of the scores
            0 where no arc can be. Each word's row adds up to 0; with `single_root`, so does ROOT's
            column. ArithmeticError if it overflows.

        Notes
        -----
        O(n^3), about four times as long as `marginals`. The error is absolute: a few units in the
        last place of n d, where d is the largest difference among the values of the arcs of a word,
        over arcs of positive probability. The derivatives of the marginals in the direction of the
        values are found in the elimination and its reverse, without subtraction of weights, so that
        no digits are lost where words strongly prefer each other.

        Examples
        --------
        Mean and standard deviation of the number of correct heads:

        >>> import numpy as np
        >>> trees = TreeDistribution(np.array([[0, 0, 0], [3, 0, 1], [3, 2, 0]], dtype="f"))
        >>> correct = np.array([-1, 0, 1])[:, None] == np.arange(3)
        >>> (trees.marginals * correct).sum().round(3)
        np.float64(1.462)
        >>> np.sqrt((trees.expectation_gradient(correct) * correct).sum()).round(3)
        np.float64(0.887)
        """
        return self.sentences.shaped(self.inference.arc_covariances(values))

    def __repr__(self) -> str:
        """Describe the sentences, which may be many."""
        own = self.sentences
        kind = f"single_root={own.single_root}" + ", projective=True" * own.projective
        return f"TreeDistribution(scores of shape {self.scores.shape}, {kind})"
