"""Log partition, arc marginals, entropy and log probabilities, each by one call.

Each function is a query of a `TreeDistribution`, with the same arguments, errors, cost and
accuracy. The object does with one elimination for several queries.
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
    """Turn a query of a distribution into a function with the arguments of the distribution."""

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
    """Sum the weights of all trees of each sentence, as a log: log Z, of shape () or (B,).

    In nats; 0 for a sentence of no words, which has one tree, the empty one.

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
    """Find the probability of each arc, `marginals[dep, head]`, of the shape of the scores.

    Each word's row adds up to 1, and 0 stands where no arc can be: see
    `TreeDistribution.marginals`.

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.array([[0, 0, 0], [3, 0, 1], [3, 2, 0]], dtype="f")
    >>> arc_marginals(scores).round(3).tolist()
    [[0.0, 0.0, 0.0], [0.731, 0.0, 0.269], [0.269, 0.731, 0.0]]
    """
    # Writable, unlike the property of a distribution: nothing else reads this array.
    return trees.sentences.shaped(trees.inference.marginals())


@with_arguments_of(TreeDistribution)
def entropy(trees: TreeDistribution) -> Float:
    """Find the entropy of the distribution over the trees of each sentence, of shape () or (B,).

    In nats.

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

    As `TreeDistribution.log_prob`, of one tree of each sentence alone, all of whose heads lie
    inside it.

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.array([[0, 0, 0], [3, 0, 1], [3, 2, 0]], dtype="f")
    >>> float(np.exp(tree_log_prob(scores, np.array([-1, 0, 1]))).round(3))
    0.731
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
