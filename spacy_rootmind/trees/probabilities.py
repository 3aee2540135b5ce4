"""Log partition, arc marginals, entropy and log probabilities, each by one call.

Each function is a query of a `TreeDistribution`, made of the same arguments. The object does with
one elimination for several queries.
"""

import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

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


def function_of(
    make: Callable[Arguments, Distribution],
    name: str,
    query: Callable[[Distribution], Result],
    documented: Any,
) -> Callable[Arguments, Result]:
    """Make a function of a query: of what its distribution is made of, documented as the query."""

    def function(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        return query(make(*args, **kwargs))

    first, *rest = inspect.cleandoc(documented.__doc__).split("\n\n")
    source = "Arguments, errors, cost and accuracy are as for `TreeDistribution`."
    function.__doc__ = "\n\n".join([first, source, *rest])
    function.__name__ = function.__qualname__ = name
    function.__module__ = make.__module__
    of_query: Any = documented.fget if isinstance(documented, property) else documented
    function.__signature__ = inspect.signature(make).replace(  # type: ignore[attr-defined]
        return_annotation=inspect.signature(of_query).return_annotation
    )
    return function


def _writable_marginals(trees: TreeDistribution) -> NDArray[np.float64]:
    # Nothing else has them.
    return trees.sentences.shaped(trees.inference.marginals())


log_partition = function_of(
    TreeDistribution,
    "log_partition",
    lambda trees: trees.log_partition,
    TreeDistribution.log_partition,
)
arc_marginals = function_of(
    TreeDistribution, "arc_marginals", _writable_marginals, TreeDistribution.marginals
)
entropy = function_of(
    TreeDistribution, "entropy", TreeDistribution.entropy, TreeDistribution.entropy
)


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
    inside it. Arguments, errors, cost and accuracy are as for `TreeDistribution`.

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
