"""First- and second-order expectations of sums over the arcs of a tree, and their gradients.

A function of trees that adds up values of arcs is an array of these values, `values[dep, head]`.
Everything of second order comes from derivatives of marginals in the direction of the values
(`spacy_rootmind.kernel.derivatives`).
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.kernel import derivatives as kernel


class Functions(NamedTuple):
    """Functions of the trees of each sentence, brought to the same size.

    Attributes
    ----------
    values : float64 array of shape (B, d, N + 1, N + 1)
        Values of arcs divided by 2 ** exponents, minus constants whose sum is the same for every
        tree. At most 1 in magnitude; 0 for arcs of probability 0.
    exponents : int array of shape (B, d), of C's int as `np.ldexp` wants it
    several : bool
        Whether results have the axis d.
    """

    values: NDArray[np.float64]
    exponents: NDArray[np.intc]
    several: bool


def as_values(values: NDArray[Any], shape: tuple[int, ...]) -> tuple[NDArray[Any], bool]:
    """Check the values of arcs for scores of a shape, and view them as (B, d, N + 1, N + 1).

    Returns also whether results have the axis d.
    """
    if not isinstance(values, np.ndarray) or isinstance(values, np.ma.MaskedArray):
        raise TypeError(f"expected values as a numpy array, received {type(values).__name__}")
    values = np.asarray(values)
    if values.dtype.kind not in "fiub":
        raise TypeError(f"expected values as numbers, received dtype {values.dtype}")
    if values.shape != shape and values.shape[:-3] + values.shape[-2:] != shape:
        axes = ", ".join(map(str, (*shape[:-2], "d", *shape[-2:])))
        raise ValueError(
            f"expected values of the shape of scores, {shape}, received {values.shape}; or of "
            f"shape ({axes}), for d functions of a tree"
        )
    if values.dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
        values = values.astype(np.float64)
    elif not values.flags.aligned:
        values = values.copy()
    sentences = shape[0] if len(shape) == 3 else 1
    several = values.ndim > len(shape)
    n_functions = values.shape[-3] if several else 1
    return values.reshape(sentences, n_functions, *shape[-2:]), several


def check_finite(values: NDArray[Any], marginals: NDArray[np.float64], sentence: int) -> None:
    """Raise unless values, of shape (..., N + 1, N + 1), are finite where arcs are possible."""
    wrong = (marginals > 0) & ~np.isfinite(values)
    if wrong.any():
        place = tuple(np.argwhere(wrong)[0].tolist())
        dep, head = place[-2:]
        raise ValueError(
            f"sentence {sentence}: the value of dep {dep}, head {head} is {values[place]}; "
            f"expected a finite number, since the arc has probability {marginals[dep, head]:.2g}"
        )


def normalize(
    values: NDArray[Any],
    marginals: NDArray[np.float64],
    words: NDArray[np.intp],
    single_root: bool,
    several: bool,
) -> Functions:
    """Bring functions to the same size: covariances then neither overflow nor lose digits.

    Each tree has one arc of each word, and one from ROOT if roots are single. So a constant shared
    by all of these arcs changes no covariance, and is subtracted.
    """
    given = np.ascontiguousarray(values, dtype=np.float64)
    normal = np.zeros(values.shape)
    exponents = np.zeros(values.shape[:2], dtype=np.intc)
    wrong = kernel.normalize_batch(given, marginals, words, single_root, normal, exponents)
    if wrong >= 0:
        check_finite(values[wrong], marginals[wrong], wrong)
    return Functions(normal, exponents, several)


def rescale(functions: Functions, derivatives: NDArray[np.float64]) -> NDArray[np.float64]:
    """Undo, in place, the scaling of covariances with arcs, which may overflow."""
    with np.errstate(over="ignore"):
        found = np.ldexp(derivatives, functions.exponents[..., None, None], out=derivatives)
    return found if functions.several else found[:, 0]


def covariances(
    first: Functions,
    derivatives: NDArray[np.float64],
    second: Functions,
    words: NDArray[np.intp],
) -> NDArray[np.float64]:
    """Find covariances of functions, given the covariances of the first with each arc.

    Shape (B, d, e), without d or e where there is only one function.
    """
    found = np.zeros((*first.exponents.shape, second.exponents.shape[1]))
    for sentence, n in enumerate(words.tolist()):
        # Cut out, so that the order of summation does not depend on the padding.
        one, other = (
            batch[sentence, :, 1 : n + 1, : n + 1].reshape(batch.shape[1], -1)
            for batch in (derivatives, second.values)
        )
        found[sentence] = np.einsum("fa,sa->fs", one, other, optimize=False)
    if first is second:
        found = (found + found.swapaxes(1, 2)) / 2
        diagonal = np.arange(found.shape[1])
        found[:, diagonal, diagonal] = np.maximum(found[:, diagonal, diagonal], 0.0)
    with np.errstate(over="ignore"):
        found = np.ldexp(found, first.exponents[:, :, None] + second.exponents[:, None])
    check_overflow(found)
    axes = zip(found.shape, (True, first.several, second.several), strict=True)
    shaped: NDArray[np.float64] = found.reshape([size for size, kept in axes if kept])
    return shaped


def check_overflow(found: NDArray[np.float64]) -> None:
    """Raise unless results are finite."""
    if not np.isfinite(found).all():
        sentence = int(np.argwhere(~np.isfinite(found))[0, 0])
        raise ArithmeticError(f"sentence {sentence}: products of its values overflow; scale them")
