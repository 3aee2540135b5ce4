"""Kernel statuses as exceptions."""

from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.kernel import batch as kernel
from spacy_rootmind.trees.conventions import ScoreArray

LOST_DIGITS = (
    "scores of such magnitudes are beyond float64: sums of them overflow, or every tree needs an "
    "arc that lies 1e15 below another one of its word; use allowed= to forbid arcs, and scale down"
)


class NoTreeError(ValueError):
    """No tree of the wanted kind has a score above -inf."""


def only_allowed(scores: ScoreArray, mask: NDArray[np.uint8] | None) -> NDArray[np.float64]:
    """Copy the scores of one sentence, with -inf where an arc is not allowed."""
    if mask is None:
        return scores.astype(np.float64, order="C")
    return np.where(mask, scores, -np.inf).astype(np.float64, order="C")


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
