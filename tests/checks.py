"""Assertions that several kernel tests share."""

import numpy as np
import pytest
import reference
from reference import FloatArray, IntArray

from spacy_rootmind import NoTreeError, decode_kbest, is_projective, is_tree, tree_score


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
    """Assert that `heads` is a tree whose score is that of `best`, up to float64 rounding."""

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


def check_structure(
    scores: FloatArray,
    heads: IntArray,
    totals: FloatArray,
    single_root: bool,
    projective: bool = False,
) -> None:
    """Assert what holds of any k best: distinct possible trees by falling score, scored right."""
    assert isinstance(heads, np.ndarray)
    assert isinstance(totals, np.ndarray)
    assert (heads.dtype, totals.dtype) == (np.int32, np.float64)
    assert heads.shape == (len(totals), len(scores))
    assert len(totals) > 0
    assert is_tree(heads, single_root=single_root).all(), (scores, heads)
    assert not projective or is_projective(heads).all(), (scores, heads)
    assert len(np.unique(heads, axis=0)) == len(heads), (scores, heads)
    assert np.isfinite(totals).all(), (scores, totals)
    assert (np.diff(totals) <= 0).all(), (scores, totals)
    again = tree_score(np.broadcast_to(scores, (len(heads), *scores.shape)), heads)
    assert totals.tolist() == again.tolist(), (scores, heads)
    for total, tree in zip(totals[:3], heads, strict=False):
        assert total == tree_score(scores, tree), (scores, heads)


def check_kbest(
    scores: FloatArray, k: int, expected: list[IntArray] | IntArray, note: str = "", **kind: bool
) -> None:
    """Assert that the scores equal `expected`: the k best trees, or all, or none."""
    if len(expected) == 0:
        with pytest.raises(NoTreeError):
            decode_kbest(scores, k, **kind)
        return
    assert_k_best(scores, decode_kbest(scores, k, **kind), expected, note, **kind)


def assert_k_best(
    scores: FloatArray,
    found: tuple[IntArray, FloatArray],
    expected: list[IntArray] | IntArray,
    note: object = "",
    **kind: bool,
) -> None:
    """Assert that trees are as good as those expected, one by one."""
    heads, totals = found
    context = (note, scores, kind)
    check_structure(scores, heads, totals, **kind)
    assert len(heads) == len(expected), context
    if reference.sums_are_exact(scores):
        right = [reference.tree_score(scores, tree) for tree in expected]
        assert totals.tolist() == right, context
        return
    for i, (tree, right) in enumerate(zip(heads, expected, strict=True)):
        gap, allowed = reference.score_gap(scores, right, tree), reference.tolerance(scores, right)
        assert abs(gap) <= allowed, (*context, i, gap, allowed, heads, expected)


def result_of(trees: object, name: str) -> object:
    """Ask a distribution for what it has as a property, or finds without arguments."""
    found = getattr(trees, name)
    return found() if callable(found) else found
