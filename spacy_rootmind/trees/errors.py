"""Exceptions for statuses of the kernel."""

from typing import NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.kernel import batch as kernel
from spacy_rootmind.trees.conventions import ScoreArray

LOST_DIGITS = (
    "scores of such magnitudes are beyond float64: their sums overflow, or every tree needs an arc "
    "whose score is 1e15 below that of another arc to the same word; forbid arcs by allowed=, not "
    "by very low scores, and scale the scores down"
)
SUMS_OVERFLOW = "sums of scores of such magnitudes overflow; scale them down"

Scalar = TypeVar("Scalar", bound=np.generic)


class NoTreeError(ValueError):
    """No tree of the wanted kind has a score above -inf."""


def only_allowed(scores: ScoreArray, mask: NDArray[np.uint8] | None) -> NDArray[np.float64]:
    """Copy the scores of one sentence, with -inf where an arc is not allowed."""
    copy = np.empty(scores.shape)
    # In parts, between which Ctrl-C gets through.
    for rows in blocks_of_rows(len(scores), scores.shape[1]):
        part = scores[rows]
        copy[rows] = part if mask is None else np.where(mask[rows], part, -np.inf)
    return copy


def filled(shape: tuple[int, ...], value: float, dtype: type[Scalar]) -> NDArray[Scalar]:
    """Make an array as np.full does, in parts, between which Ctrl-C gets through."""
    array = np.empty(shape, dtype=dtype)
    flat = array.reshape(-1)
    for part in blocks_of_rows(len(flat), 1):
        flat[part] = value
    return array


def blocks_of_rows(n_rows: int, width: int) -> list[slice]:
    """Split rows into blocks that NumPy handles in a fraction of a second."""
    size = max(2**22 // max(width, 1), 1)
    return [slice(start, start + size) for start in range(0, n_rows, size)]


def kind_of(projective: bool) -> str:
    """Name the kind of tree that messages speak of."""
    return "projective tree" if projective else "tree"


def raise_failure(
    batch: ScoreArray,
    mask: NDArray[np.uint8] | None,
    words: NDArray[np.intp],
    failed: tuple[int, int],
    *,
    single_root: bool,
    kind: str = "tree",
    lost_digits: str,
) -> NoReturn:
    """Raise the error for the first sentence that the kernel refused.

    `failed` is the kernel's status and sentence, `lost_digits` the message where its magnitudes are
    too large.
    """
    status, sentence = failed
    n = int(words[sentence])
    if status == kernel.NO_TREE:
        roots = "exactly one root" if single_root else "a root"
        raise NoTreeError(
            f"sentence {sentence}: no {kind} with {roots} spans its {n} words; too many arcs "
            f"have score -inf or are not allowed (or differences between scores overflow)"
        )
    if status == kernel.LOST_DIGITS:
        raise ArithmeticError(f"sentence {sentence}: {lost_digits}")
    if status == kernel.NO_MEMORY:
        raise MemoryError(f"sentence {sentence}: no memory for its {n} words; split it first")
    scores = only_allowed(batch[sentence], None if mask is None else mask[sentence])
    wrong = ~(scores[: n + 1, : n + 1] < np.inf)
    wrong[0] = False
    np.fill_diagonal(wrong, False)
    dep, head = np.argwhere(wrong)[0].tolist()
    raise ValueError(
        f"sentence {sentence}: the score of dep {dep}, head {head} is {scores[dep, head]}; "
        f"expected a finite number, or -inf for a forbidden arc"
    )
