"""First- and second-order expectations of sums over the arcs of a tree, and their gradients.

A function of trees that adds up values of arcs is an array of these values, `values[dep, head]`.
Everything of second order comes from derivatives of marginals in the direction of the values
(`spacy_rootmind.kernel.derivatives`).
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.kernel import derivatives as kernel
from spacy_rootmind.trees.conventions import ScoreArray


class Functions(NamedTuple):
    """Functions of the trees of each sentence, brought to the same size.

    Attributes
    ----------
    values : float64 array of shape (B, d, N + 1, N + 1)
        What each arc adds, over 2 ** exponents, less constants that add up to the same for each
        tree. At most 1 in magnitude; 0 for arcs of probability 0.
    exponents : int array of shape (B, d)
    several : bool
        Whether there may be other numbers of functions than one, d being an axis of results.
    """

    values: NDArray[np.float64]
    exponents: NDArray[np.int64]
    several: bool


def as_values(values: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Check the values of arcs for scores of a shape, and view them as (B, d, N + 1, N + 1)."""
    if not isinstance(values, np.ndarray) or isinstance(values, np.ma.MaskedArray):
        raise TypeError(f"expected values as a numpy array, received {type(values).__name__}")
    values = np.asarray(values)
    if values.dtype.kind not in "fiub":
        raise TypeError(f"expected values as numbers, received dtype {values.dtype}")
    if values.shape != shape and values.shape[:-3] + values.shape[-2:] != shape:
        several = ", ".join(map(str, (*shape[:-2], "d", *shape[-2:])))
        raise ValueError(
            f"expected values of the shape of scores, {shape}, received {values.shape}; or of "
            f"shape ({several}), for d functions of a tree"
        )
    if values.dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
        values = values.astype(np.float64)
    sentences = shape[0] if len(shape) == 3 else 1
    n_functions = values.shape[-3] if values.ndim > len(shape) else 1
    return values.reshape(sentences, n_functions, *shape[-2:])


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

    Each tree has one arc of each word, and one from ROOT if roots are single. So what the values of
    all of them have in common does not matter, and may be taken away.
    """
    normal = np.zeros(values.shape)
    exponents = np.zeros(values.shape[:2], dtype=np.int64)
    for sentence, n in enumerate(words.tolist()):
        own = marginals[sentence, 1 : n + 1, : n + 1]
        check_finite(values[sentence], marginals[sentence], sentence)
        for function, given in enumerate(values[sentence]):
            part = np.where(own > 0, given[1 : n + 1, : n + 1], 0.0).astype(np.float64)
            first = _scale(part)
            if n > 0:
                _center(part, own, single_root)
            exponents[sentence, function] = first + _scale(part)
            normal[sentence, function, 1 : n + 1, : n + 1] = part
    return Functions(normal, exponents, several)


def _scale(values: NDArray[np.float64]) -> int:
    """Divide values, in place, by a power of two that is above them; returns its exponent."""
    exponent = int(np.frexp(np.abs(values).max(initial=0.0))[1])
    # In two steps: the power itself may be beyond float64.
    half = -exponent // 2
    values[:] = np.ldexp(np.ldexp(values, half), -exponent - half)
    return exponent


def _center(values: NDArray[np.float64], marginals: NDArray[np.float64], single_root: bool) -> None:
    """Subtract, in place, the value of each word's likeliest arc, and then of the one from ROOT."""
    words = np.arange(len(values))
    first = int(single_root)
    likeliest = first + marginals[:, first:].argmax(axis=1)
    # A word that can only be the root token.
    likeliest[marginals[words, likeliest] == 0] = 0
    constants = values[words, likeliest]
    roots = values[:, 0].copy()
    values -= constants[:, None]
    if single_root:
        # Root values may be large until the second constant is gone: keep what was rounded away.
        back = values[:, 0] - roots
        rest = (roots - (values[:, 0] - back)) - (constants + back)
        values[:, 0] -= values[marginals[:, 0].argmax(), 0]
        values[:, 0] += rest
    values[marginals == 0] = 0.0


def differentiate(
    functions: Functions,
    scores: ScoreArray,
    mask: NDArray[np.uint8] | None,
    words: NDArray[np.intp],
    single_root: bool,
    projective: bool,
    num_threads: int,
) -> tuple[NDArray[np.float64], tuple[int, int]]:
    """Find the covariances of functions with each arc, over 2 ** exponents.

    Returns them, of shape (B, d, N + 1, N + 1), and the kernel's status and sentence. n^3 for each.
    """
    found = np.zeros(functions.values.shape)
    workers = [
        kernel.Differentiation(int(words.max(initial=0)), projective)
        for _ in range(min(num_threads, max(len(words), 1)))
    ]
    failed = kernel.differentiate_batch(
        scores, mask, words, single_root, workers, functions.values, found
    )
    return found, failed


def gradients(functions: Functions, derivatives: NDArray[np.float64]) -> NDArray[np.float64]:
    """Undo the scaling of covariances with arcs; 0 where an arc is impossible."""
    with np.errstate(over="ignore"):
        found = np.ldexp(derivatives, functions.exponents[..., None, None])
    _check_overflow(found)
    return found if functions.several else found[:, 0]


def covariances(
    first: Functions,
    derivatives: NDArray[np.float64],
    second: Functions,
    words: NDArray[np.intp],
) -> NDArray[np.float64]:
    """Find covariances of functions, given those of the first with each arc.

    Of shape (B, d, e), or without d or e for those of which there are not several.
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
    _check_overflow(found)
    return drop_axes(found, first.several, second.several)


def drop_axes(found: NDArray[np.float64], first: bool, second: bool) -> NDArray[np.float64]:
    """Take results of shape (B, d, e) from axes of which there are not several functions."""
    if not second:
        found = found[:, :, 0]
    return found if first else found[:, 0]


def _check_overflow(found: NDArray[np.float64]) -> None:
    if not np.isfinite(found).all():
        sentence = int(np.argwhere(~np.isfinite(found))[0, 0])
        raise ArithmeticError(f"sentence {sentence}: products of its values overflow; scale them")
