"""Log partition, arc marginals, entropy and log probabilities, each by one call.

Each function is a query of a `TreeDistribution`, which answers several with one elimination.
Conventions are those of spacy_rootmind.trees.conventions.
"""

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.trees.checks import check_one_tree_each
from spacy_rootmind.trees.conventions import BoolArray, IntArray, ScoreArray
from spacy_rootmind.trees.distribution import TreeDistribution

__all__ = ["arc_marginals", "entropy", "log_partition", "tree_log_prob"]


def log_partition(
    scores: ScoreArray,
    *,
    lengths: IntArray | int | None = None,
    allowed: BoolArray | None = None,
    single_root: bool = True,
    projective: bool = False,
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
    projective : bool
        Whether the trees are only those without crossing arcs; ROOT stands before the first word.
    num_threads : int
        Threads that share the sentences of a batch, 256 at most. The result does not depend on it.

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
    is larger. Sentences with scores so far apart that float64 would underflow take some ten times
    as long.

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
    return TreeDistribution(
        scores,
        lengths=lengths,
        allowed=allowed,
        single_root=single_root,
        projective=projective,
        num_threads=num_threads,
    ).log_partition


def arc_marginals(
    scores: ScoreArray,
    *,
    lengths: IntArray | int | None = None,
    allowed: BoolArray | None = None,
    single_root: bool = True,
    projective: bool = False,
    num_threads: int = 1,
) -> NDArray[np.float64]:
    """Find the probability of each arc: the share of the trees that have it, by weight.

    Parameters
    ----------
    scores, lengths, allowed, single_root, projective, num_threads
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
    trees = TreeDistribution(
        scores,
        lengths=lengths,
        allowed=allowed,
        single_root=single_root,
        projective=projective,
        num_threads=num_threads,
    )
    return trees.sentences.shaped(trees.answers.marginals())


def entropy(
    scores: ScoreArray,
    *,
    lengths: IntArray | int | None = None,
    allowed: BoolArray | None = None,
    single_root: bool = True,
    projective: bool = False,
    num_threads: int = 1,
) -> np.float64 | NDArray[np.float64]:
    """Find the entropy of the distribution over the trees of each sentence.

    Parameters
    ----------
    scores, lengths, allowed, single_root, projective, num_threads
        As for `log_partition`.

    Returns
    -------
    entropy : float64, or float64 array of shape (B,)
        In nats; 0 where there is only one tree, log of their number where all are equally good.

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
    return TreeDistribution(
        scores,
        lengths=lengths,
        allowed=allowed,
        single_root=single_root,
        projective=projective,
        num_threads=num_threads,
    ).entropy()


def tree_log_prob(
    scores: ScoreArray,
    heads: IntArray,
    *,
    lengths: IntArray | int | None = None,
    allowed: BoolArray | None = None,
    single_root: bool = True,
    projective: bool = False,
    num_threads: int = 1,
) -> np.float64 | NDArray[np.float64]:
    """Find the log probability of a given tree of each sentence.

    Parameters
    ----------
    scores, lengths, allowed, single_root, projective, num_threads
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
    trees = TreeDistribution(
        scores,
        lengths=lengths,
        allowed=allowed,
        single_root=single_root,
        projective=projective,
        num_threads=num_threads,
    )
    check_one_tree_each(heads, scores.shape)
    return trees.log_prob(heads)
