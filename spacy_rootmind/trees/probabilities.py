"""Log partition, arc marginals, entropy and log probabilities, each by one call.

Each function is a query of a `TreeDistribution`, made of the same arguments. The object does with
one elimination for several queries.
"""

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.trees.checks import check_one_tree_each
from spacy_rootmind.trees.conventions import BoolArray, IntArray, ScoreArray
from spacy_rootmind.trees.distribution import TreeDistribution
from spacy_rootmind.trees.sentences import Float

__all__ = ["arc_marginals", "entropy", "log_partition", "tree_log_prob"]

Arguments = ParamSpec("Arguments")
Distribution = TypeVar("Distribution")
Result = TypeVar("Result")


def with_arguments_of(
    make: Callable[Arguments, Distribution],
) -> Callable[[Callable[[Distribution], Result]], Callable[Arguments, Result]]:
    """Turn a query of a distribution into a function of what the distribution is made of."""

    def decorate(query: Callable[[Distribution], Result]) -> Callable[Arguments, Result]:
        @functools.wraps(query)
        def function(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            return query(make(*args, **kwargs))

        result = inspect.signature(query).return_annotation
        signature = inspect.signature(make).replace(return_annotation=result)
        function.__signature__ = signature  # type: ignore[attr-defined]
        return function

    return decorate


@with_arguments_of(TreeDistribution)
def log_partition(trees: TreeDistribution) -> Float:
    """Sum the weights of all trees of each sentence, as a log: log Z.

    Arguments, errors, cost and accuracy are those of `TreeDistribution`.

    Returns
    -------
    log_z : float64, or float64 array of shape (B,)
        In nats. 0 for a sentence of no words, which has one tree, the empty one.

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.array([[0, 0, 0], [3, 0, 1], [3, 2, 0]], dtype="f")
    >>> bool(np.isclose(log_partition(scores), np.log(np.exp(3 + 2) + np.exp(3 + 1))))
    True
    """
    return trees.log_partition


@with_arguments_of(TreeDistribution)
def arc_marginals(trees: TreeDistribution) -> NDArray[np.float64]:
    """Find the probability of each arc: the share of the trees that have it, by weight.

    Arguments, errors, cost and accuracy are those of `TreeDistribution`.

    Returns
    -------
    marginals : float64 array of the shape of `scores`
        `marginals[dep, head]`. Each word's row adds up to 1; with `single_root`, so does ROOT's
        column. 0 where no arc can be: in row 0, on the diagonal, in the padding, where forbidden.

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.array([[0, 0, 0], [3, 0, 1], [3, 2, 0]], dtype="f")
    >>> arc_marginals(scores).round(3).tolist()
    [[0.0, 0.0, 0.0], [0.731, 0.0, 0.269], [0.269, 0.731, 0.0]]
    """
    # Writable, as nothing else has them.
    return trees.sentences.shaped(trees.inference.marginals())


@with_arguments_of(TreeDistribution)
def entropy(trees: TreeDistribution) -> Float:
    """Find the entropy of the distribution over the trees of each sentence.

    Arguments, errors, cost and accuracy are those of `TreeDistribution`.

    Returns
    -------
    entropy : float64, or float64 array of shape (B,)
        In nats; 0 where there is only one tree, log of their number where all are equally good.

    Examples
    --------
    >>> import numpy as np
    >>> bool(np.isclose(entropy(np.zeros((4, 4))), np.log(9)))
    True
    """
    return trees.entropy()


def tree_log_prob(
    scores: ScoreArray,
    heads: IntArray,
    *,
    lengths: IntArray | int | None = None,
    allowed: BoolArray | None = None,
    single_root: bool = True,
    projective: bool = False,
    num_threads: int = 1,
) -> Float:
    """Find the log probability of a given tree of each sentence.

    Errors, cost and the other arguments are those of `TreeDistribution`.

    Parameters
    ----------
    heads : int array of shape (n + 1,) or (B, N + 1)
        A head for each word, inside its sentence. Index 0 and the padding are ignored.

    Returns
    -------
    log_prob : float64, or float64 array of shape (B,)
        In nats, at most 0. -inf where heads form no tree of the wanted kind, or have a forbidden
        arc. More accurate than `tree_score` minus `log_partition`, which may both be large.

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
