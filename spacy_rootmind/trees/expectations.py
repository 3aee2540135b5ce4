"""Covariances of the arcs of a tree with a sum over its arcs.

A sum is an array of what each arc adds, `values[dep, head]`. Its covariances come from derivatives
of marginals in the direction of these values (`spacy_rootmind.kernel.derivatives`).
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.kernel import derivatives as kernel


class Sums(NamedTuple):
    """A sum over the arcs of a tree in each sentence, of about the same size in all of them.

    Attributes
    ----------
    values : float64 array of shape (B, N + 1, N + 1)
        Values of arcs divided by 2 ** exponents, minus constants whose sum is the same for every
        tree. At most 1 in magnitude; 0 for arcs of probability 0.
    exponents : int array of shape (B,), of C's int as `np.ldexp` wants it
    """

    values: NDArray[np.float64]
    exponents: NDArray[np.intc]


def check_finite(values: NDArray[Any], marginals: NDArray[np.float64], sentence: int) -> None:
    """Raise unless values, of shape (N + 1, N + 1), are finite where arcs are possible."""
    wrong = (marginals > 0) & ~np.isfinite(values)
    if wrong.any():
        dep, head = np.argwhere(wrong)[0].tolist()
        raise ValueError(
            f"sentence {sentence}: the value of dep {dep}, head {head} is {values[dep, head]}; "
            f"expected a finite number, since the arc has probability {marginals[dep, head]:.2g}"
        )


def normalize(
    values: NDArray[Any], marginals: NDArray[np.float64], words: NDArray[np.intp], single_root: bool
) -> Sums:
    """Bring sums to the same size: covariances then neither overflow nor lose digits.

    Each tree has one arc of each word, and one from ROOT if roots are single. So a constant shared
    by all of these arcs changes no covariance, and is subtracted.
    """
    given = np.require(values, np.float64, ["C", "ALIGNED"])
    normal = np.zeros(values.shape)
    exponents = np.zeros(len(values), dtype=np.intc)
    wrong = kernel.normalize_batch(given, marginals, words, single_root, normal, exponents)
    if wrong >= 0:
        check_finite(values[wrong], marginals[wrong], wrong)
    return Sums(normal, exponents)


def rescale(sums: Sums, derivatives: NDArray[np.float64]) -> NDArray[np.float64]:
    """Undo, in place, the scaling of covariances with arcs; ArithmeticError if they overflow."""
    with np.errstate(over="ignore"):
        found = np.ldexp(derivatives, sums.exponents[:, None, None], out=derivatives)
    if not np.isfinite(found).all():
        sentence = int(np.argwhere(~np.isfinite(found))[0, 0])
        raise ArithmeticError(f"sentence {sentence}: products of its values overflow; scale them")
    return found
