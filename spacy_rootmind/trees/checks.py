"""Checks of given heads: score, tree or not, projective or not."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.kernel import decode as kernel
from spacy_rootmind.trees.conventions import (
    MISSING,
    IntArray,
    ScoreArray,
    as_flag,
    as_head_batch,
    as_lengths,
    as_score_batch,
    mark_words,
)
from spacy_rootmind.trees.errors import SUMS_OVERFLOW


def tree_score(
    scores: ScoreArray, heads: IntArray, *, lengths: IntArray | int | None = None
) -> np.float64 | NDArray[np.float64]:
    """Sum the scores of a tree's arcs, in float64.

    This is the log of the tree's unnormalised weight, of shape () or (B,); 0 for a sentence of no
    words. The heads need not form a tree, but lie inside their sentence. ArithmeticError if a sum
    overflows.

    Examples
    --------
    >>> import numpy as np
    >>> float(tree_score(np.array([[0, 0, 0], [3, 0, 1], [3, 2, 0.5]]), np.array([-1, 0, 1])))
    5.0
    """
    batch = as_score_batch(scores)
    words = as_lengths(lengths, batch.shape[0], batch.shape[1] - 1, single=scores.ndim == 2)
    check_one_tree_each(heads, scores.shape)
    head_batch, _ = as_head_batch(heads, words)
    check_range(heads, head_batch, words)
    totals, overflows = sum_arcs(batch, head_batch, words)
    if overflows.any():
        raise ArithmeticError(f"sentence {int(np.argmax(overflows))}: {SUMS_OVERFLOW}")
    return totals if scores.ndim == 3 else np.float64(totals[0])


def is_tree(
    heads: IntArray, *, lengths: IntArray | int | None = None, single_root: bool = True
) -> bool | NDArray[np.bool_]:
    """Check whether heads form a tree: a bool, or bool array of shape (B,).

    Heads may be any integers; one outside its sentence, -1 among them, makes the answer False, and
    so does `heads[0]` unless it is -1. The tree of a sentence of no words counts.

    Notes
    -----
    O(n log n); O(n log d) for trees of depth d.

    Examples
    --------
    >>> import numpy as np
    >>> is_tree(np.array([-1, 2, 0])), is_tree(np.array([-1, 2, 1]))
    (True, False)
    """
    batch, words = as_head_batch(heads, lengths)
    answer: NDArray[np.bool_] = form_trees(batch, words, as_flag("single_root", single_root))
    answer &= batch[:, 0] == MISSING
    return answer if np.ndim(heads) == 2 else bool(answer[0])


def is_projective(
    heads: IntArray, *, lengths: IntArray | int | None = None
) -> bool | NDArray[np.bool_]:
    """Check whether trees have no crossing arcs: a bool, or bool array of shape (B,).

    ROOT stands before the first word, and several words may be attached to it. ValueError if heads
    do not form a tree. O(n).

    Examples
    --------
    >>> import numpy as np
    >>> is_projective(np.array([-1, 0, 1, 2])), is_projective(np.array([-1, 2, 0, 2]))
    (True, True)
    >>> is_projective(np.array([-1, 3, 4, 0, 3]))
    False
    """
    batch, words = as_head_batch(heads, lengths)
    trees = np.atleast_1d(is_tree(batch, lengths=words, single_root=False))
    if not trees.all():
        raise ValueError(f"sentence {int(np.argmin(trees))}: heads do not form a tree")
    answer = form_trees(batch, words, single_root=False, projective=True)
    return answer if np.ndim(heads) == 2 else bool(answer[0])


def sum_arcs(
    batch: ScoreArray, heads: NDArray[np.integer[Any]], words: NDArray[np.intp]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Sum the scores of the arcs of checked heads, and mark the sums that overflow."""
    inside = mark_words(words, heads.shape[1])
    arcs = np.where(inside, heads, 0)[..., None]
    arc_scores = np.take_along_axis(batch, arcs, axis=2)[..., 0].astype(np.float64)
    arc_scores = np.where(inside, arc_scores, 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        # Summed from left to right, so that padding, being zero, does not change the last digit.
        totals = np.cumsum(arc_scores, axis=1)[:, -1]
        # Arcs of -inf, +inf and NaN decide by themselves, also where other scores overflow.
        decided = np.where(np.isfinite(arc_scores), 0.0, arc_scores).sum(axis=1)
    is_sum = decided == 0.0
    return np.where(is_sum, totals, decided), is_sum & ~np.isfinite(totals)


def form_trees(
    heads: NDArray[np.int64],
    words: NDArray[np.intp],
    single_root: bool,
    projective: bool = False,
) -> NDArray[np.bool_]:
    """Mark the rows of checked heads that form trees, whatever they hold at index 0."""
    wrong = mark_words(words, heads.shape[1]) & ((heads < 0) | (heads > words[:, None]))
    answer = np.logical_not(wrong.any(axis=1))
    safe = np.where(answer[:, None], heads, 0).astype(np.int32, order="C")
    formed = np.empty(len(heads), dtype=np.bool_)
    kernel.form_trees(safe, words, single_root, projective, formed.view(np.uint8))
    answer &= formed
    return answer


def check_one_tree_each(heads: IntArray, shape: tuple[int, ...]) -> None:
    """Check the shape of heads against that of their scores."""
    if np.shape(heads) != shape[:-1]:
        raise ValueError(
            f"expected heads of shape {shape[:-1]} for scores of shape {shape}, "
            f"received {np.shape(heads)}"
        )


def check_range(
    heads: IntArray,
    batch: NDArray[np.int64],
    words: NDArray[np.intp],
    trees_per_sentence: int = 1,
    *,
    may_be_missing: bool = False,
) -> None:
    """Check each head against its sentence's words; `batch` is from `as_head_batch`."""
    lowest = MISSING if may_be_missing else 0
    wrong = mark_words(words, batch.shape[1]) & ((batch < lowest) | (batch > words[:, None]))
    if wrong.any():
        tree, dep = np.argwhere(wrong)[0].tolist()
        raise ValueError(
            f"sentence {tree // trees_per_sentence}: word {dep} has head "
            f"{np.reshape(heads, batch.shape)[tree, dep]}, expected 0 to {words[tree]}"
            + ", or -1 where it is missing"
            * may_be_missing
        )
