"""The best score against all trees, on very many small random matrices of every family.

If float64 adds the scores of a matrix without rounding, the tree must be exactly the best.
Elsewhere a difference between two sums that might be more than rounding is computed again, rounded
once. Finite masks count as −inf where a tree does without them: they may cost the other scores no
digit.
"""

import numpy as np
import pytest
import reference
from checks import assert_best
from numpy.typing import NDArray
from reference import FloatArray, IntArray
from strategies import FAMILIES, MASKS, each_dtype, each_family, rng_for

from spacy_rootmind import NoTreeError, decode

# Matrices of each number of words: 150 for each of 34 pairs of family and dtype make 5,100.
WORDS = {1: 2, 2: 20, 3: 40, 4: 46, 5: 36, 6: 6}
ENTRIES = 2_000_000  # sums to hold at once


def draw(family: str, dtype: type[np.floating], n: int, start: int, stop: int) -> FloatArray:
    """Return the matrices numbered start to stop − 1 of a family: always the same ones."""
    rngs = (rng_for("exactness", family, dtype.__name__, n, i) for i in range(start, stop))
    return np.stack([FAMILIES[family](rng, n, dtype) for rng in rngs])


def as_judged(family: str, scores: FloatArray) -> NDArray[np.float64]:
    """Return a float64 copy with −inf where no arc can be, and exact sums where possible."""
    judged = scores.astype(np.float64)
    judged[:, 0] = -np.inf
    judged[:, np.arange(judged.shape[1]), np.arange(judged.shape[1])] = -np.inf
    if family == "near_ties":  # the same constant for all arcs: the differences are exact
        judged -= np.where(np.isfinite(judged), judged, np.inf).min(axis=(1, 2), keepdims=True)
    return judged


def total_scores(judged: NDArray[np.float64], trees: IntArray) -> NDArray[np.float64]:
    """Return the score of every tree for every matrix, (n_matrices, n_trees)."""
    totals = np.zeros((len(judged), len(trees)))
    for dep in range(1, trees.shape[1]):
        totals += judged[:, dep, trees[:, dep]]
    return totals


def own_scores(judged: NDArray[np.float64], heads: IntArray) -> NDArray[np.float64]:
    """Return the score of one tree for each matrix, added in the same order."""
    totals = np.zeros(len(judged))
    for dep in range(1, heads.shape[1]):
        totals += judged[np.arange(len(judged)), dep, heads[:, dep]]
    return totals


def check(family: str, scores: FloatArray, single_root: bool) -> None:
    """Compare `decode` with the best of all trees for each of the matrices, all of n words."""
    n = scores.shape[1] - 1
    trees = reference.enumerate_trees(n, single_root)
    judged = as_judged(family, scores)
    totals = total_scores(judged, trees)
    if family == "soft_masks":
        hard = np.where(judged <= MASKS[scores.dtype.type] / 2, -np.inf, judged)
        hard_totals = total_scores(hard, trees)
        unmasked = hard_totals.max(axis=1) > -np.inf
        judged[unmasked], totals[unmasked] = hard[unmasked], hard_totals[unmasked]
    best = totals.max(axis=1)
    feasible = best > -np.inf
    for matrix in scores[~feasible]:
        for arcmax in (True, False):
            with pytest.raises(NoTreeError):
                decode(matrix, single_root=single_root, arcmax=arcmax)
    scores, judged, best = scores[feasible], judged[feasible], best[feasible]
    exact = reference.sums_are_exact(judged)
    winners = trees[totals[feasible].argmax(axis=1)]
    scale = np.abs(judged[:, 1:].max(axis=2)).sum(axis=1) + own_scores(np.abs(judged), winners)
    allowed = np.where(exact, 0.0, 2 * (n + 1) * reference.EPS * scale)
    powers = (n + 1) ** np.arange(n)
    for arcmax in (True, False):
        heads = decode(scores, single_root=single_root, arcmax=arcmax)
        assert heads.dtype == np.int32
        assert (heads[:, 0] == -1).all()
        assert ((heads[:, 1:] >= 0) & (heads[:, 1:] <= n)).all()
        assert np.isin(heads[:, 1:] @ powers, trees[:, 1:] @ powers).all()
        for i in np.flatnonzero(~(best - own_scores(judged, heads) <= allowed)):
            right = reference.best_enumerated(judged[i], single_root)
            note = f"{family} {scores.dtype} arcmax={arcmax}\n{scores[i]!r}"
            assert_best(judged[i], heads[i], right, single_root, exact=bool(exact[i]), note=note)


def check_all(family: str, dtype: type[np.floating], single_root: bool, times: int) -> int:
    """Check `times` as many matrices as `WORDS` says, in parts, and return how many."""
    checked = 0
    for n, count in WORDS.items():
        step = 1 + ENTRIES // reference.count_trees(n, single_root)
        for start in range(0, count * times, step):
            stop = min(start + step, count * times)
            check(family, draw(family, dtype, n, start, stop), single_root)
            checked += stop - start
    return checked


@pytest.mark.one_each("family", "single_root")
@pytest.mark.parametrize("single_root", [True, False])
@each_dtype
@each_family
def test_decode_is_exact_on_a_sample(family, dtype, single_root):
    assert check_all(family, dtype, single_root, 1) == 150


@pytest.mark.slow
@pytest.mark.parametrize("single_root", [True, False])
@each_dtype
@each_family
def test_decode_is_exact_on_a_million(family, dtype, single_root):
    assert check_all(family, dtype, single_root, 200) == 30_000
