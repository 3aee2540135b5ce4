"""Probabilities of small sentences by enumeration, in 80-digit arithmetic."""

from dataclasses import dataclass
from decimal import Context, Decimal, localcontext

import numpy as np
from numpy.typing import NDArray

from lib.inputs import all_trees

DIGITS = 80


@dataclass(frozen=True)
class Exact:
    """Exact log partition and marginals P[dep, head] of a sentence, rounded to float64."""

    log_z: float
    marginals: NDArray[np.float64]


def enumerate_exactly(scores: NDArray[np.floating]) -> Exact:
    """Sum over all single-root trees of one sentence of a few words."""
    n = len(scores) - 1
    deps, heads = np.arange(1, n + 1), all_trees(n, single_root=True)[:, 1:]
    with localcontext(Context(prec=DIGITS, Emin=-(10**9), Emax=10**9)):
        weights = np.full(scores.shape, Decimal(0))
        weights[1:] = [[Decimal(score).exp() for score in row] for row in scores[1:].tolist()]
        products = weights[deps, heads].prod(axis=1)
        z = products.sum()
        if not z:
            raise ValueError("no tree")
        marginals = np.full(scores.shape, Decimal(0))
        for product, tree in zip(products, heads, strict=True):
            marginals[deps, tree] += product
        return Exact(float(z.ln()), (marginals / z).astype(np.float64))
