"""Probabilities of arcs and trees: numpy in, numpy out.

Scores are log-weights: the probability of a tree is the exponential of its score, over the sum of
those of all trees. Conventions are those of spacy_rootmind.trees.conventions.

All of it is exact, and stays so however sure a model is: nothing is subtracted, where the usual
determinant of the Laplacian (Koo et al. 2007) loses all its digits once two words strongly prefer
each other.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.kernel import decoders
from spacy_rootmind.kernel import distribution as kernel_distribution
from spacy_rootmind.trees.checks import as_tree_heads, is_tree
from spacy_rootmind.trees.conventions import (
    BoolArray,
    IntArray,
    ScoreArray,
    as_allowed_batch,
    as_head_batch,
    as_lengths,
    as_num_threads,
    as_score_batch,
)
from spacy_rootmind.trees.errors import raise_failure

__all__ = ["arc_marginals", "entropy", "log_partition", "tree_log_prob"]

LOST_DIGITS = (
    "scores of such magnitudes are beyond float64: sums of them overflow, or every tree needs an "
    "arc that lies 1e15 below another one of its word; use allowed= to forbid arcs, and scale down"
)


def log_partition(
    scores: ScoreArray,
    lengths: IntArray | int | None = None,
    *,
    allowed: BoolArray | None = None,
    single_root: bool = True,
    num_threads: int = 1,
) -> np.float64 | NDArray[np.float64]:
    """Sum the weights of all trees of each sentence, as a log: log Z.

    Parameters
    ----------
    scores : float32 or float64 array of shape (n + 1, n + 1) or (B, N + 1, N + 1)
        Arc scores (log-weights), `scores[dep, head]`. Any memory layout; never changed.
    lengths : int array of shape (B,), optional
        Words in each sentence, 0 to N. All sentences have N words by default. For a single
        sentence, an int.
    allowed : bool array of the shape of `scores`, optional
        False forbids an arc, whatever its score. Row 0, the diagonal and the padding are ignored.
    single_root : bool
        Whether the trees are those with exactly one word below ROOT, or with at least one.
    num_threads : int
        Sentences of a batch are shared among so many threads, 256 at most. The result does not
        depend on it.

    Returns
    -------
    log_z : float64, or float64 array of shape (B,)
        In nats. 0 for a sentence of no words, which has one tree, the empty one.

    Raises
    ------
    NoTreeError
        If a sentence has no such tree.
    ArithmeticError
        If sums of scores overflow, or each tree needs an arc that lies 1e15 below another of its
        word.
    TypeError, ValueError
        If the input is not as described; NaN and +inf inside a sentence among it, where allowed.

    Notes
    -----
    n^3 / 3 multiplications. The error is a few units in the last place of log Z, or of 1 where that
    is larger. Sentences so sure of themselves that float64 would underflow take some ten times as
    long.

    References
    ----------
    Koo, Globerson, Carreras & Collins (2007), Structured Prediction Models via the Matrix-Tree
    Theorem. Grassmann, Taksar & Heyman (1985), Regenerative Analysis and Steady State Distributions
    for Markov Chains: elimination without subtraction.

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.array([[0, 0, 0], [3, 0, 1], [3, 2, 0]], dtype="f")
    >>> bool(np.isclose(log_partition(scores), np.log(np.exp(3 + 2) + np.exp(3 + 1))))
    True
    """
    batch, mask, words = _arguments(scores, lengths, allowed)
    log_z = np.empty(len(batch))
    _sum(batch, mask, words, single_root, num_threads, log_z=log_z)
    return log_z if scores.ndim == 3 else log_z[0]


def arc_marginals(
    scores: ScoreArray,
    lengths: IntArray | int | None = None,
    *,
    allowed: BoolArray | None = None,
    single_root: bool = True,
    num_threads: int = 1,
) -> NDArray[np.float64]:
    """Find the probability of each arc: the share of the trees that have it, by weight.

    Parameters
    ----------
    scores, lengths, allowed, single_root, num_threads
        As for `log_partition`.

    Returns
    -------
    marginals : float64 array of the shape of `scores`
        `marginals[dep, head]`. Each word's row adds up to 1; with `single_root`, so does ROOT's
        column. 0 where no arc can be: in row 0, on the diagonal, in the padding, where forbidden.

    Raises
    ------
    NoTreeError, ArithmeticError, TypeError, ValueError
        As for `log_partition`.

    Notes
    -----
    n^3 multiplications. The error is a few units in the last place of 1. Marginals are also the
    derivatives of `log_partition` by the scores.

    References
    ----------
    As for `log_partition`; the elimination is differentiated in reverse.

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.array([[0, 0, 0], [3, 0, 1], [3, 2, 0]], dtype="f")
    >>> arc_marginals(scores).round(3).tolist()
    [[0.0, 0.0, 0.0], [0.731, 0.0, 0.269], [0.269, 0.731, 0.0]]
    """
    batch, mask, words = _arguments(scores, lengths, allowed)
    marginals = np.zeros(batch.shape)
    _sum(batch, mask, words, single_root, num_threads, marginals=marginals)
    return marginals if scores.ndim == 3 else marginals[0]


def entropy(
    scores: ScoreArray,
    lengths: IntArray | int | None = None,
    *,
    allowed: BoolArray | None = None,
    single_root: bool = True,
    num_threads: int = 1,
) -> np.float64 | NDArray[np.float64]:
    """Find the entropy of the distribution over trees: how unsure the model is of a sentence.

    Parameters
    ----------
    scores, lengths, allowed, single_root, num_threads
        As for `log_partition`.

    Returns
    -------
    entropy : float64, or float64 array of shape (B,)
        In nats; 0 where there is but one tree, log of their number where all are equally good.

    Raises
    ------
    NoTreeError, ArithmeticError, TypeError, ValueError
        As for `log_partition`.

    Notes
    -----
    n^3 multiplications. The error is absolute: a few units in the last place of the differences
    among the scores of a word, where a likely arc is not the best one of its word.

    References
    ----------
    Zmigrod, Vieira & Cotterell (2021), Efficient Computation of Expectations under Spanning Tree
    Distributions.

    Examples
    --------
    >>> import numpy as np
    >>> bool(np.isclose(entropy(np.zeros((4, 4))), np.log(9)))
    True
    """
    batch, mask, words = _arguments(scores, lengths, allowed)
    nats = np.empty(len(batch))
    _sum(batch, mask, words, single_root, num_threads, entropy=nats)
    return nats if scores.ndim == 3 else nats[0]


def tree_log_prob(
    scores: ScoreArray,
    heads: IntArray,
    lengths: IntArray | int | None = None,
    *,
    allowed: BoolArray | None = None,
    single_root: bool = True,
    num_threads: int = 1,
) -> np.float64 | NDArray[np.float64]:
    """Find the log probability of a given tree of each sentence.

    Parameters
    ----------
    scores, lengths, allowed, single_root, num_threads
        As for `log_partition`.
    heads : int array of shape (n + 1,) or (B, N + 1)
        A head for each word. Index 0 and the padding are ignored.

    Returns
    -------
    log_prob : float64, or float64 array of shape (B,)
        In nats, at most 0. -inf where heads form no tree of the wanted kind, or have a forbidden
        arc.

    Raises
    ------
    NoTreeError, ArithmeticError, TypeError, ValueError
        As for `log_partition`; also if a head lies outside its sentence.

    Notes
    -----
    n^3 / 3 multiplications. More accurate than `tree_score` minus `log_partition`, which may both
    be large.

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.array([[0, 0, 0], [3, 0, 1], [3, 2, 0]], dtype="f")
    >>> float(np.exp(tree_log_prob(scores, np.array([-1, 0, 1]))).round(3))
    0.731
    >>> float(tree_log_prob(scores, np.array([-1, 0, 0])))
    -inf
    """
    batch, mask, words = _arguments(scores, lengths, allowed)
    given = _marked(as_tree_heads(heads, words, scores.shape), words, single_root)
    log_prob = np.empty(len(batch))
    _sum(batch, mask, words, single_root, num_threads, heads=given, log_prob=log_prob)
    return log_prob if scores.ndim == 3 else log_prob[0]


class Distribution(NamedTuple):
    """What there is to know of the trees with a single root of each sentence of a batch."""

    log_z: NDArray[np.float64]
    marginals: NDArray[np.float64]
    entropy: NDArray[np.float64]
    log_prob: NDArray[np.float64]


def distribution(
    scores: ScoreArray,
    lengths: IntArray,
    *,
    allowed: BoolArray | None = None,
    heads: IntArray | None = None,
) -> Distribution:
    """Find `log_partition`, `arc_marginals`, `entropy` and `tree_log_prob` of a batch at once.

    Heads that are no tree with a single root, also if they lie outside their sentence, have log
    probability -inf; so have all without `heads`.
    """
    batch, mask, words = _arguments(scores, lengths, allowed)
    nones = np.full((len(batch), batch.shape[1]), -2)
    given = _marked(as_head_batch(nones if heads is None else heads, words)[0], words, True)
    found = Distribution(
        np.empty(len(batch)), np.zeros(batch.shape), np.empty(len(batch)), np.empty(len(batch))
    )
    _sum(
        *(batch, mask, words, True, 1),
        log_z=found.log_z,
        marginals=found.marginals,
        entropy=found.entropy,
        heads=given,
        log_prob=found.log_prob,
    )
    return found


def _marked(
    heads: NDArray[np.int64], words: NDArray[np.intp], single_root: bool
) -> NDArray[np.int32]:
    """Set index 0 to -1 where heads form a tree of the wanted kind, to 0 elsewhere."""
    heads[:, 0] = -1
    heads[:, 0] = np.where(is_tree(heads, words, single_root=single_root), -1, 0)
    return heads.astype(np.int32, order="C")


def _arguments(
    scores: ScoreArray, lengths: IntArray | int | None, allowed: BoolArray | None
) -> tuple[ScoreArray, NDArray[np.uint8] | None, NDArray[np.intp]]:
    """Check scores, mask and lengths, and view them as a batch."""
    batch = as_score_batch(scores)
    mask = as_allowed_batch(allowed, scores)
    words = as_lengths(lengths, batch.shape[0], batch.shape[1] - 1, single=scores.ndim == 2)
    return batch, mask, words


def _sum(
    batch: ScoreArray,
    mask: NDArray[np.uint8] | None,
    words: NDArray[np.intp],
    single_root: bool,
    num_threads: int,
    *,
    log_z: NDArray[np.float64] | None = None,
    marginals: NDArray[np.float64] | None = None,
    entropy: NDArray[np.float64] | None = None,
    heads: NDArray[np.int32] | None = None,
    log_prob: NDArray[np.float64] | None = None,
) -> None:
    """Fill those of the arrays that are given."""
    threads = min(as_num_threads(num_threads), max(len(words), 1))
    longest = int(words.max(initial=0))
    only_entropy = entropy is not None and marginals is None
    summations = [kernel_distribution.Summation(longest, only_entropy) for _ in range(threads)]
    failed = kernel_distribution.sum_batch(
        *(batch, mask, words, single_root, summations),
        *(log_z, marginals, entropy, heads, log_prob),
    )
    if failed[0] != decoders.OK:
        raise_failure(batch, mask, words, failed, single_root=single_root, lost_digits=LOST_DIGITS)
