"""Distributions over the trees of a sentence: log partition, marginals, entropy, divergence.

Scores are log-weights: the probability of a tree is the exponential of its score, divided by the
sum over all trees. Conventions are those of spacy_rootmind.trees.conventions.

All results are exact to rounding, however confident the model: nothing is subtracted. The usual
determinant of the Laplacian (Koo et al. 2007) loses all its digits once two words strongly prefer
each other.
"""

import threading
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.kernel import query_batch as kernel
from spacy_rootmind.kernel.batch import BAD_SCORE, OK
from spacy_rootmind.trees import expectations
from spacy_rootmind.trees.checks import check_range, form_trees, is_projective
from spacy_rootmind.trees.conventions import (
    MISSING,
    BoolArray,
    IntArray,
    ScoreArray,
    as_allowed_batch,
    as_head_batch,
    as_lengths,
    as_num_threads,
    as_score_batch,
)
from spacy_rootmind.trees.decoding import decode
from spacy_rootmind.trees.errors import (
    LOST_DIGITS,
    NoTreeError,
    kind_of,
    names_memory,
    raise_failure,
)
from spacy_rootmind.trees.sampling import Seed, sample_trees

# Marginals above this are no rounding errors of 0.
_SURELY_POSITIVE = 1e-6

Float = np.float64 | NDArray[np.float64]
Scalar = TypeVar("Scalar", bound=np.generic)


def _bytes_of_query(*, self: "TreeDistribution", **_: object) -> float:
    """Count bytes: sums per thread, marginals, and a summary per sentence."""
    sentences, width = len(self._batch), self._batch.shape[1]
    threads = min(self._threads, max(sentences, 1))
    squares = 88 if self._projective else 40
    return float(squares * threads * self._longest**2 + 8 * sentences * (width + kernel.CONSTANTS))


def _bytes_with_marginals(*, self: "TreeDistribution", **_: object) -> float:
    return _bytes_of_query(self=self) + 8.0 * int(self._batch.size)


def _bytes_of_derivatives(*, self: "TreeDistribution", **values: Any) -> float:
    """Count bytes: what one thread needs for derivatives, and values and results twice each."""
    size = max([np.size(array) for array in values.values()], default=0)
    threads = min(self._threads, max(len(self._batch), 1))
    squares = 168.0 if self._projective else 64.0
    return squares * threads * self._longest**2 + 16.0 * max(size, int(self._batch.size))


class _Results(NamedTuple):
    """What has been found for a batch; None for what has not. No array is ever changed.

    Attributes
    ----------
    summaries : float64 array of shape (B, CONSTANTS + N + 1)
        As the kernel fills them, but for the entropy, which is not always there.
    marginals : float64 array of shape (B, N + 1, N + 1)
    entropy, single_root_log_prob : float64 array of shape (B,)
    """

    summaries: NDArray[np.float64] | None = None
    marginals: NDArray[np.float64] | None = None
    entropy: NDArray[np.float64] | None = None
    single_root_log_prob: NDArray[np.float64] | None = None


class TreeDistribution:
    """The distribution over the trees of each sentence, proportional to exp(score).

    One elimination answers several questions. `log_partition` and `log_prob` need its first third
    alone; the first of `marginals`, `entropy`, `expectation`, `cross_entropy` and `kl_divergence`
    completes it. Results are kept, so each is computed once; but each covariance and gradient takes
    an elimination of its own.

    Parameters
    ----------
    scores : float32 or float64 array of shape (n + 1, n + 1) or (B, N + 1, N + 1)
        Arc scores (log-weights), `scores[dep, head]`. Any memory layout; never changed. They are
        not copied: do not change them while this object is in use.
    lengths : int array of shape (B,), optional
        Words in each sentence, 0 to N. All sentences have N words by default. For a single
        sentence, an int.
    allowed : bool array of the shape of `scores`, optional
        False forbids an arc, whatever its score. Row 0, the diagonal and the padding are ignored.
        Not copied either.
    single_root : bool
        Whether the trees are those with exactly one word below ROOT, or with at least one.
    projective : bool
        Whether the trees are only those without crossing arcs; ROOT stands before the first word.
    num_threads : int
        Threads that share the sentences of a batch, 256 at most. No result depends on it.

    Raises
    ------
    TypeError, ValueError
        If the input is not as described.

    Notes
    -----
    The values of scores are checked by the first query. It raises NoTreeError if a sentence has no
    tree of the wanted kind; ValueError for NaN or +inf inside a sentence, where allowed; and
    ArithmeticError if sums of scores overflow, or each tree needs an arc whose score is 1e15 below
    that of another arc of its word.

    n^3 / 3 multiplications for `log_partition` and `log_prob`, n^3 with `marginals`. For a single
    sentence, `marginals` continue where `log_partition` stopped. In a batch they start again: to
    use both, ask for `marginals` first, which give `log_partition` as well. With `projective`, by
    the inside-outside algorithm, all take five times as long for 25 words and fifty times for 200.

    An object may be used by several threads at once; what two of them ask for at the same time may
    be computed twice. Arrays that it returns are copies, except for
    `marginals`, which are read-only. A copy of the object has the same scores (a deep copy has its
    own), and no results yet.

    References
    ----------
    Koo, Globerson, Carreras & Collins (2007), Structured Prediction Models via the Matrix-Tree
    Theorem. Zmigrod, Vieira & Cotterell (2021), Efficient Computation of Expectations under
    Spanning Tree Distributions. Grassmann, Taksar & Heyman (1985), Regenerative Analysis and Steady
    State Distributions for Markov Chains: elimination without subtraction. Eisner (1996), Three new
    probabilistic models for dependency parsing: the spans of projective trees.

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.array([[0, 0, 0], [3, 0, 1], [3, 2, 0]], dtype="f")
    >>> trees = TreeDistribution(scores)
    >>> trees
    TreeDistribution(1 sentence of 2 words, single_root=True)
    >>> trees.mode().tolist()
    [-1, 0, 1]
    >>> np.exp(trees.log_prob(trees.mode())).round(3)
    np.float64(0.731)
    """

    __slots__ = (
        "_batch",
        "_kept",
        "_lock",
        "_longest",
        "_mask",
        "_one",
        "_projective",
        "_results",
        "_single_root",
        "_threads",
        "_words",
    )

    def __init__(
        self,
        scores: ScoreArray,
        lengths: IntArray | int | None = None,
        *,
        allowed: BoolArray | None = None,
        single_root: bool = True,
        projective: bool = False,
        num_threads: int = 1,
    ):
        self._batch = batch = as_score_batch(scores)
        self._mask = as_allowed_batch(allowed, scores)
        self._one = scores.ndim == 2
        self._words = as_lengths(lengths, len(batch), batch.shape[1] - 1, single=self._one)
        self._longest = batch.shape[1] - 1 if lengths is None else int(self._words.max(initial=0))
        self._single_root = bool(single_root)
        self._projective = bool(projective)
        self._threads = as_num_threads(num_threads)
        # Of the two attributes below, held only while they are read and replaced: nothing is
        # computed and no other lock is taken then. Reentrant, since a signal's handler may ask the
        # same object for something meanwhile.
        self._lock = threading.RLock()
        self._results = _Results()
        # The elimination of a single sentence, for its marginals to go on from.
        self._kept: list[kernel.Summation] | None = None

    # Queries

    @property
    @names_memory(_bytes_of_query)
    def log_partition(self) -> Float:
        """Log of the summed weights of all trees, log Z, in nats.

        Float64, or float64 array of shape (B,). 0 for a sentence of no words, which has one tree,
        the empty one. n^3 / 3 multiplications. The error is a few units in the last place of log Z,
        or of 1 where that is larger.

        Examples
        --------
        >>> import numpy as np
        >>> TreeDistribution(np.zeros((4, 4))).log_partition.round(6) == np.log(9).round(6)
        np.True_
        """
        return self._numbers(self._find_summaries()[:, kernel.LOG_Z])

    @property
    @names_memory(_bytes_with_marginals)
    def marginals(self) -> NDArray[np.float64]:
        """Probability of each arc, `marginals[dep, head]`.

        Float64 array of the shape of the scores, read-only. Each word's row adds up to 1; with
        `single_root`, so does ROOT's column. 0 where no arc can be: in row 0, on the diagonal, in
        the padding, where forbidden. These are also the derivatives of `log_partition` with
        respect to the scores. n^3 multiplications. The error is a few units in the last place of 1.

        Examples
        --------
        >>> import numpy as np
        >>> scores = np.array([[0, 0, 0], [3, 0, 1], [3, 2, 0]], dtype="f")
        >>> TreeDistribution(scores).marginals[1].round(3).tolist()
        [0.731, 0.0, 0.269]
        """
        marginals: NDArray[np.float64] = self._shaped(self._find_marginals()).view()
        marginals.flags.writeable = False
        return marginals

    @property
    @names_memory(_bytes_with_marginals)
    def entropy(self) -> Float:
        """Entropy of the distribution, in nats.

        Float64, or float64 array of shape (B,). 0 where there is only one tree, log of their number
        where all are equally good. n^3 multiplications, O(n^2) once there are marginals. The error
        is absolute: a few units in the last place of the differences among the scores of a word,
        where a likely arc is not the best one of its word.

        Examples
        --------
        >>> import numpy as np
        >>> TreeDistribution(np.zeros((4, 4))).entropy.round(6) == np.log(9).round(6)
        np.True_
        """
        results = self._results
        if results.entropy is None:
            if results.marginals is None:
                results = self._eliminate(backwards=True, with_entropy=True)
            else:
                high, low = self._cross_entropy(self)
                results = self._publish(entropy=np.maximum(high + low, 0.0))
        return self._numbers(cast("NDArray[np.float64]", results.entropy))

    @property
    @names_memory(_bytes_of_query)
    def single_root_log_prob(self) -> Float:
        """Log probability that a tree of these scores has a single root, among all trees.

        Float64, or float64 array of shape (B,), at most 0; whatever `single_root` is. -inf where no
        tree has a single root, but others are possible. The inverse of its exponential is the mean
        number of trees that rejection sampling draws for one with a single root. n^3 / 3
        multiplications each for the trees of either kind. The error is absolute: a few units in the
        last place of 1, or of the differences among the scores of a word.

        Raises
        ------
        NoTreeError
            If a sentence has no tree at all.

        References
        ----------
        Zmigrod, Vieira & Cotterell (2020), Please Mind the Root; Stanojevic (2022), Unbiased and
        Efficient Sampling of Dependency Trees, for rejection.

        Examples
        --------
        >>> import numpy as np
        >>> scores = np.log(np.array([[1, 1, 1], [2, 1, 3], [5, 7, 1]]))
        >>> np.exp(TreeDistribution(scores).single_root_log_prob).round(6) == round(29 / 39, 6)
        np.True_
        """
        results = self._results
        if results.single_root_log_prob is None:
            log_probs = np.empty(len(self._batch))
            every = self._summaries_of(False)
            single = self._summaries_of(True, allow_no_tree=True)
            kernel.log_ratio_batch(self._words, single, every, log_probs)
            results = self._publish(single_root_log_prob=log_probs)
        return self._numbers(cast("NDArray[np.float64]", results.single_root_log_prob))

    @names_memory(_bytes_of_query)
    def log_prob(self, heads: IntArray) -> Float:
        """Find the log probability of given trees.

        Parameters
        ----------
        heads : int array of shape (n + 1,) or (B, N + 1)
            A head for each word, as from `mode`. Index 0 and the padding are ignored. For k trees
            of each sentence, as from `sample`, of shape (k, n + 1) or (B, k, N + 1).

        Returns
        -------
        log_prob : float64, or float64 array of shape (B,), (k,) or (B, k)
            In nats, at most 0. -inf where heads form no tree of the wanted kind, or have a
            forbidden arc.

        Raises
        ------
        TypeError, ValueError
            If heads are not as described, or lie outside their sentence.
        ArithmeticError
            If a log probability is below -1.8e308, which float64 does not hold.

        Notes
        -----
        O(n log n) for each tree, after n^3 / 3 multiplications unless another query has made them.
        More accurate than `tree_score` minus `log_partition`, which may both be large.

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
        shape, flat, words = self._flatten(heads)
        given, _ = as_head_batch(flat, words)
        check_range(heads, given, words, len(words) // max(len(self._words), 1))
        found = self._log_prob(self._marked(given, words))
        log_prob: Float = found.reshape(shape)[()]
        return log_prob

    def sample(
        self,
        k: int,
        *,
        replace: bool = True,
        method: str = "auto",
        max_steps: int | None = None,
        seed: Seed = None,
    ) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Draw k trees of each sentence, with their log probabilities.

        Parameters, results, errors, cost and sources are those of `sample_trees`, which makes an
        elimination of its own in each call: draw many trees at once.

        Examples
        --------
        >>> import numpy as np
        >>> scores = np.array([[0, 0, 0], [3, 0, 1], [3, 2, 0]], dtype="f")
        >>> heads, log_probs = TreeDistribution(scores).sample(2, replace=False, seed=0)
        >>> sorted(heads.tolist())
        [[-1, 0, 1], [-1, 2, 0]]
        """
        return sample_trees(
            *(self._shaped(self._batch), k, self._words),
            allowed=self._allowed(),
            single_root=self._single_root,
            projective=self._projective,
            replace=replace,
            method=method,
            max_steps=max_steps,
            seed=seed,
            num_threads=self._threads,
        )

    def mode(self) -> NDArray[np.int32]:
        """Find the most probable tree of each sentence, as `decode` does. O(n^2).

        Returns
        -------
        heads : int32 array of shape (n + 1,) or (B, N + 1)
            -1 at index 0 and in the padding.

        Examples
        --------
        >>> import numpy as np
        >>> TreeDistribution(np.array([[0, 0, 0], [3, 0, 1], [3, 2, 0]], dtype="f")).mode().tolist()
        [-1, 0, 1]
        """
        return decode(
            *(self._shaped(self._batch), self._words),
            allowed=self._allowed(),
            single_root=self._single_root,
            projective=self._projective,
            num_threads=self._threads,
        )

    @names_memory(_bytes_with_marginals)
    def cross_entropy(self, other: "TreeDistribution") -> Float:
        """Find the mean of minus the log probability of a tree under another distribution.

        Parameters
        ----------
        other : TreeDistribution
            Over the same sentences; `single_root` may differ. Projective only if this one is.

        Returns
        -------
        cross_entropy : float64, or float64 array of shape (B,)
            In nats, never negative. inf where a tree that is possible here is impossible in
            `other`: it has an arc forbidden there, or several roots where `other` allows one. A
            tree is possible if its arcs are allowed and finite, even if its probability underflows.

        Raises
        ------
        TypeError, ValueError
            If `other` is no TreeDistribution, or has other shapes or lengths.
        ArithmeticError
            If the result is above 1.8e308, which float64 does not hold, and not inf.

        Notes
        -----
        O(n^2), given the marginals here and the `log_partition` of `other`; O(n^3) where `other`
        forbids arcs that are allowed here. The error is absolute: a few units in the last place of
        the differences among the scores of a word in `other`.

        References
        ----------
        Zmigrod, Vieira & Cotterell (2021), Efficient Computation of Expectations under Spanning
        Tree Distributions, section 5: additively decomposable functions.

        Examples
        --------
        >>> import numpy as np
        >>> even = TreeDistribution(np.zeros((4, 4)))
        >>> even.cross_entropy(even) == even.entropy
        np.True_
        """
        infinite = self._trees_missing_in(other)
        high, low = self._cross_entropy(other)
        return self._numbers(_divergence(high + low, infinite))

    @names_memory(_bytes_with_marginals)
    def kl_divergence(self, other: "TreeDistribution") -> Float:
        """Find the Kullback-Leibler divergence to `other`: `cross_entropy` minus `entropy`.

        Parameters
        ----------
        other : TreeDistribution
            Over the same sentences; `single_root` may differ. Projective only if this one is.

        Returns
        -------
        kl_divergence : float64, or float64 array of shape (B,)
            In nats, never negative, and exactly 0 for equal scores. inf as in `cross_entropy`.

        Raises
        ------
        TypeError, ValueError, ArithmeticError
            As for `cross_entropy`.

        Notes
        -----
        As for `cross_entropy`. The two totals are subtracted with their digits beyond float64.

        References
        ----------
        As for `cross_entropy`.

        Examples
        --------
        >>> import numpy as np
        >>> even = TreeDistribution(np.zeros((3, 3)))
        >>> other = TreeDistribution(np.log(np.array([[1, 1, 1], [1, 1, 1], [3, 1, 1]])))
        >>> even.kl_divergence(even)
        np.float64(0.0)
        >>> even.kl_divergence(other).round(6) == np.log(2 / np.sqrt(3)).round(6)
        np.True_
        """
        infinite = self._trees_missing_in(other)
        high, low = self._cross_entropy(other)
        own_high, own_low = self._cross_entropy(self)
        difference = (high - own_high) + (low - own_low)
        return self._numbers(_divergence(difference, infinite))

    @names_memory(_bytes_with_marginals)
    def expectation(self, values: NDArray[Any]) -> Float:
        """Find the expected value of a sum over the arcs of a tree.

        Parameters
        ----------
        values : float, int or bool array of the shape of the scores
            What each arc adds, `values[dep, head]`. Those of arcs of probability 0 are ignored,
            whatever they hold. For d sums, of shape (d, n + 1, n + 1) or (B, d, N + 1, N + 1).

        Returns
        -------
        expectation : float64, or float64 array of shape (B,), (d,) or (B, d)
            The mean over all trees of the sum of `values[dep, heads[dep]]`.

        Raises
        ------
        TypeError, ValueError
            If `values` are not as described, or not finite for an arc of positive probability.
        ArithmeticError
            If their sum overflows.

        Notes
        -----
        O(n^2), given the marginals: first-order expectations are sums over marginals.

        References
        ----------
        Zmigrod, Vieira & Cotterell (2021), Efficient Computation of Expectations under Spanning
        Tree Distributions, section 3.

        Examples
        --------
        Expected number of correct heads:

        >>> import numpy as np
        >>> scores = np.array([[0, 0, 0], [3, 0, 1], [3, 2, 0]], dtype="f")
        >>> gold = np.array([-1, 0, 1])
        >>> TreeDistribution(scores).expectation(gold[:, None] == np.arange(3)).round(3)
        np.float64(1.462)
        """
        means, several = self._means(values)
        return self._numbers(means if several else means[:, 0])

    @names_memory(_bytes_of_derivatives)
    def expectation_gradient(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Find the gradient of `expectation` with respect to the scores.

        It is also the covariance of each arc (1 in trees that have it, 0 in others) with the sum.

        Parameters
        ----------
        values : float, int or bool array
            As for `expectation`.

        Returns
        -------
        gradient : float64 array of the shape of `values`
            0 where no arc can be. Each word's row adds up to 0; with `single_root`, so does ROOT's
            column.

        Raises
        ------
        TypeError, ValueError, ArithmeticError
            As for `covariance`.

        Notes
        -----
        As for `covariance`. It is the product of the Hessian of `log_partition` and `values`.

        References
        ----------
        As for `covariance`.

        Examples
        --------
        >>> import numpy as np
        >>> scores = np.array([[0, 0, 0], [3, 0, 1], [3, 2, 0]], dtype="f")
        >>> gold = np.array([-1, 0, 1])
        >>> trees = TreeDistribution(scores)
        >>> trees.expectation_gradient(gold[:, None] == np.arange(3))[1:].round(3).tolist()
        [[0.393, 0.0, -0.393], [-0.393, 0.393, 0.0]]
        """
        found = self._arc_covariances(values)
        expectations.check_overflow(found)
        return self._shaped(found)

    @names_memory(_bytes_of_derivatives)
    def covariance(self, values: NDArray[Any], other: NDArray[Any] | None = None) -> Float:
        """Find the covariance of two sums over the arcs of a tree, or the variance of one.

        Parameters
        ----------
        values : float, int or bool array of the shape of the scores
            What each arc adds to the first sum, as for `expectation`. For d sums, of shape
            (d, n + 1, n + 1) or (B, d, N + 1, N + 1).
        other : float, int or bool array, optional
            The same for the second sum, or e sums; `values` by default.

        Returns
        -------
        covariance : float64, or float64 array of shape (B,), (d,), (e,), (d, e), (B, d, e), ...
            The mean over all trees of the product of both sums, less the product of their means.
            The axis of sentences comes first, then d, then e, each if there is such an axis.
            Without `other`, symmetric, with a diagonal of variances that are never negative.

        Raises
        ------
        TypeError, ValueError
            If values are not as described, or not finite for an arc of positive probability.
        ArithmeticError
            If products of values overflow, or scores are too far apart, as for `log_partition`.

        Notes
        -----
        O(n^3) for each sum in `values`, about four times as long as `marginals`; O(n^2) for each
        pair after that. The error is absolute: a few units in the last place of n d1 d2, where d1
        and d2 are the largest differences among the values of the arcs of a word, in either sum,
        over arcs of positive probability.

        The covariances of a sum with each arc are the derivatives of the marginals in the direction
        of its values. These are found in the elimination and its reverse, without subtraction of
        weights, so that no digits are lost where words strongly prefer each other.

        References
        ----------
        Zmigrod, Vieira & Cotterell (2021), Efficient Computation of Expectations under Spanning
        Tree Distributions: second-order expectations as second derivatives. The same paper finds
        them from the inverse of the Laplacian.

        Examples
        --------
        Standard deviation of the number of correct heads:

        >>> import numpy as np
        >>> scores = np.array([[0, 0, 0], [3, 0, 1], [3, 2, 0]], dtype="f")
        >>> gold = np.array([-1, 0, 1])
        >>> variance = TreeDistribution(scores).covariance(gold[:, None] == np.arange(3))
        >>> np.sqrt(variance).round(3)
        np.float64(0.887)
        """
        return self._numbers(self._covariance(values, other))

    @names_memory(_bytes_of_derivatives)
    def second_moment(self, values: NDArray[Any], other: NDArray[Any] | None = None) -> Float:
        """Find the expected product of two sums over the arcs of a tree.

        Parameters, shapes, errors, cost and source are those of `covariance`. This is the
        covariance plus the product of both expectations.

        Examples
        --------
        >>> import numpy as np
        >>> trees = TreeDistribution(np.zeros((4, 4)))
        >>> trees.second_moment(np.ones((4, 4))).round(6)
        np.float64(9.0)
        """
        first, several = self._means(values)
        second, others = (first, several) if other is None else self._means(other)
        with np.errstate(over="ignore"):
            products = first[:, :, None] * second[:, None]
        expectations.check_overflow(products)
        covariance = self._covariance(values, other)
        with np.errstate(over="ignore"):
            found = covariance + expectations.drop_axes(products, several, others)
        expectations.check_overflow(found)
        return self._numbers(found)

    @names_memory(_bytes_of_derivatives)
    def entropy_gradient(self) -> NDArray[np.float64]:
        """Find the gradient of `entropy` with respect to the scores.

        It is minus the covariance of each arc with the score of a tree.

        Returns
        -------
        gradient : float64 array of the shape of the scores
            In nats. 0 where no arc can be. Each word's row adds up to 0; with `single_root`, so
            does ROOT's column.

        Raises
        ------
        NoTreeError, ArithmeticError, ValueError
            As for `marginals`.

        Notes
        -----
        As for `covariance`; the values are the scores themselves.

        References
        ----------
        Zmigrod, Vieira & Cotterell (2021), Efficient Computation of Expectations under Spanning
        Tree Distributions.

        Examples
        --------
        >>> import numpy as np
        >>> scores = np.array([[0, 0, 0], [3, 0, 1], [3, 2, 0]], dtype="f")
        >>> TreeDistribution(scores).entropy_gradient()[1].round(3).tolist()
        [-0.197, 0.0, 0.197]
        """
        return -self.expectation_gradient(self._shaped(self._batch)) + 0.0

    def _means(self, values: NDArray[Any]) -> tuple[NDArray[np.float64], bool]:
        """Find the expectations of sums, of shape (B, d); tell whether d is an axis of results."""
        batch, several = self._as_values(values)
        found = np.empty(batch.shape[:2])
        marginals = self._find_marginals()
        for i in range(batch.shape[1]):
            means = np.empty(len(batch))
            failed = kernel.expectation_batch(
                *(batch[:, i], self._words, self._queries(), marginals, means)
            )
            if failed[0] == BAD_SCORE:
                expectations.check_finite(batch[failed[1], i], marginals[failed[1]], failed[1])
            if failed[0] != OK:
                raise ArithmeticError(f"sentence {failed[1]}: the sum of its values overflows")
            found[:, i] = means
        return found, several

    def _normalize(self, values: NDArray[Any]) -> expectations.Functions:
        batch, several = self._as_values(values)
        return expectations.normalize(
            *(batch, self._find_marginals(), self._words, self._single_root, several)
        )

    def _covariance(self, values: NDArray[Any], other: NDArray[Any] | None) -> NDArray[np.float64]:
        """Find the covariances of sums, of shape (B, d, e), without axes that are not there."""
        first = self._normalize(values)
        second = first if other is None else self._normalize(other)
        return expectations.covariances(first, self._differentiate(first), second, self._words)

    def _arc_covariances(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Find the covariances of sums with each arc of the batch, infinite where they overflow."""
        functions = self._normalize(values)
        return expectations.rescale(functions, self._differentiate(functions))

    def _differentiate(self, functions: expectations.Functions) -> NDArray[np.float64]:
        """Find the covariances of functions with each arc, still scaled."""
        found, failed = expectations.differentiate(
            *(functions, self._batch, self._mask, self._words),
            *(self._single_root, self._projective, self._threads),
        )
        if failed[0] != OK:
            self._raise(failed, self._single_root)
        return found

    # What is kept

    def __repr__(self) -> str:
        """Describe the sentences, which may be many."""
        count = len(self._batch)
        sentences = "1 sentence" if count == 1 else f"{count} sentences"
        size = f"{self._longest} word" + "s" * (self._longest != 1)
        most = "" if self._one else "up to "
        kind = f"single_root={self._single_root}" + ", projective=True" * self._projective
        return f"TreeDistribution({sentences} of {most}{size}, {kind})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle what the object was made of, without results."""
        scores = self._shaped(self._batch)
        kind = self._single_root, self._projective
        return _rebuild, (scores, self._words, self._allowed(), *kind, self._threads)

    def _find_summaries(self) -> NDArray[np.float64]:
        """Find the summaries of the batch, without the entropy."""
        results = self._results
        if results.summaries is None:
            results = self._eliminate(backwards=False)
        return cast("NDArray[np.float64]", results.summaries)

    def _find_marginals(self) -> NDArray[np.float64]:
        """Find the marginals of the batch, writable."""
        results = self._results
        if results.marginals is None:
            results = self._eliminate(backwards=True)
        return cast("NDArray[np.float64]", results.marginals)

    def _eliminate(self, *, backwards: bool, with_entropy: bool = False) -> _Results:
        """Sum over all trees, and go back through the elimination for marginals and entropy."""
        batch = self._batch
        size, width = batch.shape[:2]
        summaries = np.empty((size, kernel.CONSTANTS + width))
        marginals = np.empty(batch.shape) if backwards else None
        kept = self._take_kept() if backwards else None
        summations = kept or self._summations()
        failed = kernel.sum_batch(
            batch,
            self._mask,
            self._words,
            self._single_root,
            summations,
            summaries,
            marginals,
            with_entropy,
            kept is not None,
        )
        if failed[0] != OK:
            self._raise(failed, self._single_root)
        entropy = summaries[:, kernel.ENTROPY] if with_entropy else None
        return self._publish(
            summations if size == 1 and not backwards else None,
            summaries=summaries,
            marginals=marginals,
            entropy=entropy,
        )

    def _publish(
        self, kept: list[kernel.Summation] | None = None, **found: NDArray[np.float64] | None
    ) -> _Results:
        """Add complete results to those of all threads, unless they are there; returns all."""
        with self._lock:
            before = self._results
            new = {name: array for name, array in found.items() if getattr(before, name) is None}
            self._results = results = before._replace(**new)
            self._kept = (kept or self._kept) if results.marginals is None else None
        return results

    def _take_kept(self) -> list[kernel.Summation] | None:
        """Take out the elimination that was kept, if there is one, so that no other thread does."""
        with self._lock:
            kept, self._kept = self._kept, None
        return kept

    def _summaries_of(
        self, single_root: bool, *, allow_no_tree: bool = False
    ) -> NDArray[np.float64]:
        """Summarise all trees of either kind; if allowed, log Z is -inf where there are none."""
        results = self._results
        if single_root == self._single_root and results.summaries is not None:
            return results.summaries
        summaries = np.empty((len(self._batch), kernel.CONSTANTS + self._batch.shape[1]))
        failed = kernel.sum_batch(
            *(self._batch, self._mask, self._words, single_root, self._summations(), summaries),
            allow_no_tree=allow_no_tree,
        )
        if failed[0] != OK:
            self._raise(failed, single_root)
        return summaries

    def _log_prob(self, heads: NDArray[np.int32]) -> NDArray[np.float64]:
        """Find log probabilities of the same number of trees for each sentence, (B k, N + 1)."""
        size = len(self._batch)
        summaries = self._find_summaries()
        trees = heads.reshape(size, -1 if size else 0, heads.shape[1])
        found = np.empty(trees.shape[:2])
        failed = kernel.log_prob_batch(
            *(self._batch, self._mask, self._words, self._single_root, self._queries()),
            *(summaries, trees, found),
        )
        if failed[0] != OK:
            self._raise(failed, self._single_root)
        return found

    def _cross_entropy(
        self, other: "TreeDistribution"
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Find the cross entropy, as the sum of two numbers, over arcs that `other` allows.

        The first is inf where float64 does not hold it.
        """
        summaries = other._find_summaries()
        totals = np.empty((len(self._batch), 2))
        kernel.cross_entropy_batch(
            *(other._batch, other._mask, other._words, other._single_root, self._queries()),
            *(summaries, self._find_marginals(), totals),
        )
        return totals[:, 0], totals[:, 1]

    def _summations(self) -> list[kernel.Summation]:
        """Allocate memory for sums, once per thread."""
        threads = min(self._threads, max(len(self._words), 1))
        return [kernel.Summation(self._longest, self._projective) for _ in range(threads)]

    def _queries(self) -> list[kernel.Query]:
        """Allocate memory for queries, once per thread."""
        threads = min(self._threads, max(len(self._words), 1))
        return [kernel.Query(self._longest) for _ in range(threads)]

    def _shaped(self, batch: NDArray[Scalar]) -> NDArray[Scalar]:
        """Take the one sentence out of its batch, if there is one."""
        shaped: NDArray[Scalar] = batch[0] if self._one else batch
        return shaped

    def _numbers(self, batch: NDArray[np.float64]) -> Float:
        """Copy one number per sentence, or take that of the one sentence."""
        numbers: Float = batch[0] if self._one else batch.copy()
        return numbers

    def _allowed(self) -> BoolArray | None:
        return None if self._mask is None else self._shaped(self._mask.view(np.bool_))

    def _raise(self, failed: tuple[int, int], single_root: bool) -> None:
        raise_failure(
            *(self._batch, self._mask, self._words, failed),
            single_root=single_root,
            kind=kind_of(self._projective),
            lost_digits=LOST_DIGITS,
        )

    # Arguments

    def _flatten(self, heads: IntArray) -> tuple[tuple[int, ...], IntArray, NDArray[np.intp]]:
        """Check the shape of heads; returns that of the result, and a row and a length per tree."""
        wanted, received = self._batch.shape[self._one : 2], np.shape(heads)
        if received == wanted:
            return wanted[:-1], np.reshape(heads, self._batch.shape[:2]), self._words
        some = (*wanted[:-1], "k", wanted[-1])
        if len(received) != len(some) or received[:-2] + received[-1:] != wanted:
            several = ", ".join(map(str, some))
            raise ValueError(
                f"expected heads of shape {wanted} or ({several}) for scores of shape "
                f"{self._shaped(self._batch).shape}, received {received}"
            )
        words = np.repeat(self._words, received[-2])
        return received[:-1], np.reshape(heads, (-1, wanted[-1])), words

    def _marked(self, heads: NDArray[np.int64], words: NDArray[np.intp]) -> NDArray[np.int32]:
        """Set index 0 to -1 where heads form a tree of the wanted kind, to 0 elsewhere."""
        wanted = form_trees(heads, words, self._single_root)
        if self._projective:
            wanted[wanted] = is_projective(heads[wanted], words[wanted])
        heads[:, 0] = np.where(wanted, MISSING, 0)
        return heads.astype(np.int32, order="C")

    def _as_values(self, values: NDArray[Any]) -> tuple[NDArray[Any], bool]:
        """View the values of arcs as (B, d, N + 1, N + 1); tell whether d is an axis of results."""
        shape = self._shaped(self._batch).shape
        batch = expectations.as_values(values, shape)
        return batch, values.ndim > len(shape)

    def _check_same_sentences(self, other: "TreeDistribution") -> None:
        """Raise unless the other distribution is over sentences of the same lengths."""
        if not isinstance(other, TreeDistribution):
            raise TypeError(f"expected a TreeDistribution, received {type(other).__name__}")
        own, received = self._shaped(self._batch).shape, other._shaped(other._batch).shape
        if own != received:
            raise ValueError(
                f"expected a distribution with scores of shape {own}, received {received}"
            )
        differs = self._words != other._words
        if differs.any():
            sentence = int(np.argmax(differs))
            raise ValueError(
                f"sentence {sentence}: expected a length of {self._words[sentence]} in the other "
                f"distribution, received {other._words[sentence]}"
            )

    # Support

    def _trees_missing_in(self, other: "TreeDistribution") -> NDArray[np.bool_]:
        """Tell for which sentences some tree of this distribution is not one of `other`."""
        self._check_same_sentences(other)
        if other._projective and not self._projective:
            raise ValueError(
                "expected a distribution over all trees to compare with, as this one is; received "
                "one with projective=True"
            )
        marginals = self._find_marginals()
        possible = self._possible_arcs()
        missing = possible & ~other._possible_arcs()
        if self._single_root or not other._single_root:
            infinite = np.zeros(len(self._batch), dtype=np.bool_)
        else:
            # The best tree by the number of its root arcs.
            points = np.zeros(self._batch.shape)
            points[:, :, 0] = 1.0
            heads = decode(
                points,
                self._words,
                allowed=possible,
                single_root=False,
                projective=self._projective,
            )
            infinite = (heads == 0).sum(axis=1) > 1
        for sentence in np.flatnonzero(missing.any(axis=(1, 2)) & ~infinite).tolist():
            arcs, n = missing[sentence], self._words[sentence]
            infinite[sentence] = (marginals[sentence][arcs] > _SURELY_POSITIVE).any() or (
                _some_tree_has(
                    *(arcs[: n + 1, : n + 1], possible[sentence]),
                    single_root=self._single_root,
                    projective=self._projective,
                )
            )
        return infinite

    def _possible_arcs(self) -> NDArray[np.bool_]:
        """Mark the arcs inside sentences that are allowed and have a score above -inf."""
        possible = self._batch > -np.inf
        if self._mask is not None:
            possible &= self._mask.view(np.bool_)
        index = np.arange(self._batch.shape[1])
        outside = index > self._words[:, None]
        possible &= ~(outside[:, :, None] | outside[:, None, :] | (index[:, None] == index))
        possible[:, 0] = False
        return possible


def _divergence(found: NDArray[np.float64], infinite: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Set to inf what is infinite, and raise where anything else is beyond float64."""
    lost = np.isinf(found) & ~infinite
    if lost.any():
        raise ArithmeticError(f"sentence {int(np.argmax(lost))}: {LOST_DIGITS}")
    return np.where(infinite, np.inf, np.maximum(found, 0.0))


def _rebuild(
    scores: ScoreArray,
    lengths: NDArray[np.intp],
    allowed: BoolArray | None,
    single_root: bool,
    projective: bool,
    num_threads: int,
) -> TreeDistribution:
    return TreeDistribution(
        scores,
        lengths,
        allowed=allowed,
        single_root=single_root,
        projective=projective,
        num_threads=num_threads,
    )


def _some_tree_has(
    arcs: NDArray[np.bool_], possible: NDArray[np.bool_], *, single_root: bool, projective: bool
) -> bool:
    """Tell whether one of the arcs is in some tree of possible arcs; decodes once per word."""
    for dep in np.flatnonzero(arcs.any(axis=1)).tolist():
        only = possible[: len(arcs), : len(arcs)].copy()
        only[dep] = arcs[dep]
        try:
            decode(
                np.zeros(arcs.shape), allowed=only, single_root=single_root, projective=projective
            )
        except NoTreeError:
            continue
        return True
    return False
