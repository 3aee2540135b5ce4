"""Covariances of the arcs of a tree with a sum over its arcs: derivatives of the marginals."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.kernel.batch import OK
from spacy_rootmind.kernel.covariance import CovarianceWorker, covariance_batch
from spacy_rootmind.trees.distribution import TreeDistribution
from spacy_rootmind.trees.errors import LOST_DIGITS, raise_failure


def arc_covariances(
    trees: TreeDistribution, values: NDArray[Any]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Find the covariance of each arc, as 0 or 1, with the sum of the values of a tree's arcs.

    Parameters
    ----------
    trees : TreeDistribution
        Of a batch.
    values : float array of the shape of its scores
        `values[dep, head]`; those of impossible arcs are ignored, whatever they hold.

    Returns
    -------
    covariances : float64 array of the shape of the scores
        The derivative of the marginals as scores grow along `values`; 0 for impossible arcs.
    settled : bool array of shape (B,)
        False where covariances are beyond float64, or values are not finite: those of such a
        sentence are not to be used.

    Raises
    ------
    NoTreeError, ArithmeticError, ValueError
        As `trees.marginals`.

    Notes
    -----
    Some 3 n^3 multiplications. The error is a few units in the last place of the values' spread
    over trees.
    """
    batch, longest = trees._batch, trees._longest
    kept = np.where(trees._possible_arcs(), np.asarray(values, dtype=np.float64), 0.0)
    found = np.zeros(batch.shape)
    settled = np.ones(len(batch), dtype=np.uint8)
    threads = min(trees._threads, max(len(batch), 1))
    workers = [CovarianceWorker(longest) for _ in range(threads)]
    failed = covariance_batch(
        *(batch, trees._mask, trees._words, trees._single_root, workers, kept, found, settled)
    )
    if failed[0] != OK:
        raise_failure(
            *(batch, trees._mask, trees._words, failed),
            single_root=trees._single_root,
            lost_digits=LOST_DIGITS,
        )
    return found, settled.astype(np.bool_)
