"""Probabilities of small sentences by enumeration, in 80-digit arithmetic."""

from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from functools import cache

import numpy as np
from numpy.typing import NDArray

from lib.inputs import all_trees

DIGITS = 80


@dataclass(frozen=True)
class Exact:
    """Exact log partition and marginals P[dep, head] of a sentence, rounded to float64."""

    log_z: float
    marginals: NDArray[np.float64]


@cache
def trees_of(n: int, single_root: bool) -> list[list[int]]:
    """Enumerate trees as lists of the heads of words 1 to n."""
    return all_trees(n, single_root=single_root)[:, 1:].tolist()


def enumerate_exactly(scores: NDArray[np.floating], *, single_root: bool = True) -> Exact:
    """Sum over all trees of one sentence of a few words."""
    n = len(scores) - 1
    with localcontext(Context(prec=DIGITS, Emin=-(10**9), Emax=10**9)):
        weights = [[_weight(score) for score in row] for row in scores.tolist()]
        sums = [[Decimal(0)] * (n + 1) for _ in range(n + 1)]
        z = Decimal(0)
        for tree in trees_of(n, single_root):
            product = Decimal(1)
            for dep, head in enumerate(tree, start=1):
                product *= weights[dep][head]
            if product:
                z += product
                for dep, head in enumerate(tree, start=1):
                    sums[dep][head] += product
        if not z:
            raise ValueError("no tree")
        marginals = np.array([[float(entry / z) for entry in row] for row in sums])
        return Exact(float(z.ln()), marginals)


def _weight(score: float) -> Decimal:
    """Return the exponential of a score; NaN is only found in entries that are ignored."""
    if score != score:
        return Decimal(0)
    return Decimal(score).exp()
