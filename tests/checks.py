"""Assertions that several kernel tests share."""

import re

import numpy as np
import reference
from reference import FloatArray, IntArray


def assert_best(
    scores: FloatArray,
    heads: IntArray,
    best: IntArray,
    single_root: bool,
    *,
    exact: bool = False,
    allowed: float | None = None,
    note: str = "",
) -> None:
    """Assert that `heads` is a tree whose score is that of `best`, but for float64 rounding."""

    def context() -> str:
        return f"\n{note}\nscores = {scores!r}\ngot  = {heads!r}\nbest = {best!r}"

    assert isinstance(heads, np.ndarray), context()
    assert heads.dtype == np.int32, context()
    assert heads.shape == (len(scores),), context()
    assert reference.is_tree(heads, single_root), f"no tree, single_root={single_root}{context()}"
    assert reference.tree_score(scores, heads) > -np.inf, f"uses a forbidden arc{context()}"
    gap = reference.score_gap(scores, best, heads)
    if exact:
        allowed = 0.0
    elif allowed is None:
        allowed = reference.tolerance(scores, best)
    assert abs(gap) <= allowed, f"lower by {gap}, allowed {allowed}{context()}"


def greedy_heads(scores: FloatArray) -> IntArray:
    """Return the lowest best head of each word."""
    heads = reference.clean(scores).argmax(axis=1)
    heads[0] = -1
    return heads


def result_of(trees: object, name: str) -> object:
    """Ask a distribution for what it has as a property, or finds without arguments."""
    found = getattr(trees, name)
    return found() if callable(found) else found


def numbers_in(error: object) -> list[int]:
    """Return the whole numbers in the message of an error that pytest has caught."""
    return [int(number) for number in re.findall(r"\d+", str(error.value))]
