"""Projective trees, against enumeration, a dynamic program over blocks, and plain `decode`."""

from functools import cache

import numpy as np
import pytest
import reference
from checks import assert_best
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import FloatArray, IntArray
from strategies import (
    DTYPES,
    EXACT,
    FAMILIES,
    PROPERTY,
    each_dtype,
    each_family,
    each_root,
    entry_matrices,
    fixed_matrix,
    rng_for,
    soft_to_hard,
)

from spacy_rootmind import NoTreeError, decode
from spacy_rootmind.trees.decoding import ALGORITHMS

NAN, INF = np.nan, np.inf

each_arcmax = pytest.mark.parametrize("arcmax", [True, "before", False])

# Trees in which some arcs cross. The second: the arc from ROOT is crossed.
CROSSING = [[-1, 3, 4, 0, 3], [-1, 3, 0, 2], [-1, 0, 4, 1, 1], [-1, 2, 0, 5, 2, 1]]


def project(scores: FloatArray, single_root: bool, **options: object) -> IntArray:
    """Decode one projective tree."""
    return decode(scores, single_root=single_root, projective=True, **options)


def judged(family: str, scores: FloatArray, single_root: bool) -> FloatArray:
    """Return the scores to judge a tree by: finite masks as −inf where a tree does without them."""
    if family == "soft_masks":
        hard = soft_to_hard(scores)
        if reference.best_projective(hard, single_root) is not None:
            return hard
    return scores


@cache
def solved(
    family: str, sizes: tuple[tuple[int, int], ...], single_root: bool
) -> list[tuple[FloatArray, FloatArray, IntArray | None]]:
    """Return (scores, scores to judge by, best tree) of both dtypes; `sizes` of (words, count)."""
    cases = []
    for dtype in DTYPES:
        rng = rng_for("projective", family, sizes, single_root, dtype.__name__)
        for n, count in sizes:
            for _ in range(count):
                scores = FAMILIES[family](rng, n, dtype)
                judge = judged(family, scores, single_root)
                if n <= 6:
                    best = reference.best_enumerated(judge, single_root, projective=True)
                else:
                    best = reference.best_projective(judge, single_root)
                cases.append((scores, judge, best))
    return cases


def check_solved(family: str, sizes: tuple[tuple[int, int], ...], single_root: bool) -> None:
    """Decode all of `solved` with and without ArcMax, and compare."""
    for i, (scores, judge, best) in enumerate(solved(family, sizes, single_root)):
        exact = bool(reference.sums_are_exact(judge))
        for arcmax in (True, False):
            if best is None:
                with pytest.raises(NoTreeError):
                    project(scores, single_root, arcmax=arcmax)
                continue
            heads = project(scores, single_root, arcmax=arcmax)
            note = f"{family} {i} single_root={single_root} arcmax={arcmax}"
            assert_best(judge, heads, best, single_root, exact=exact, note=note)
            assert reference.is_projective(heads), (note, scores, heads)


def only(heads: IntArray, low: float = -INF, high: float = 1.0) -> FloatArray:
    """Return scores of `high` on the arcs of one tree, `low` elsewhere."""
    scores = np.full((len(heads), len(heads)), low)
    scores[np.arange(1, len(heads)), np.asarray(heads)[1:]] = high
    return scores


# The oracles


@each_root
def test_reference_counts_projective_trees_in_closed_form(single_root):
    for n in range(7):
        trees = reference.enumerate_projective_trees(n, single_root)
        assert len(trees) == reference.count_projective_trees(n, single_root)


@pytest.mark.one_each("family")
@each_root
@each_family
def test_reference_projective_oracles_agree(family, single_root):
    rng = rng_for("projective oracles", family, single_root)
    for n in (0, 1, 2, 3, 4, 5, 5, 6):
        scores = FAMILIES[family](rng, n, np.float64)
        first = reference.best_enumerated(scores, single_root, projective=True)
        second = reference.best_projective(scores, single_root)
        assert (first is None) == (second is None)
        if first is not None:
            assert reference.is_projective(second)
            assert reference.is_tree(second, single_root)
            assert reference.score_gap(scores, first, second) == 0


# The best score


@each_root
@each_family
def test_decode_projective_matches_enumeration(family, single_root):
    sizes = ((0, 1), (1, 3), (2, 8), (3, 16), (4, 16), (5, 16), (6, 6))
    check_solved(family, sizes, single_root)


@pytest.mark.slow
@each_root
@each_family
def test_decode_projective_matches_enumeration_on_many(family, single_root):
    check_solved(family, ((2, 100), (3, 1000), (4, 1000), (5, 1000), (6, 500)), single_root)


@pytest.mark.one_each("family")
@each_root
@each_family
def test_decode_projective_matches_block_oracle(family, single_root):
    check_solved(family, ((8, 3), (13, 1), (22, 1)), single_root)


@pytest.mark.slow
@each_root
@each_family
def test_decode_projective_matches_block_oracle_on_long(family, single_root):
    check_solved(family, ((11, 50), (21, 20), (45, 2)), single_root)


@settings(PROPERTY, max_examples=200)
@given(entry_matrices(max_n=6), st.booleans(), st.booleans())
def test_decode_projective_matches_enumeration_on_entries(scores, single_root, arcmax):
    best = reference.best_enumerated(scores, single_root, projective=True)
    if best is None:
        with pytest.raises(NoTreeError):
            project(scores, single_root, arcmax=arcmax)
    else:
        heads = project(scores, single_root, arcmax=arcmax)
        assert_best(scores, heads, best, single_root, exact=True)
        assert reference.is_projective(heads)


@pytest.mark.one_each("n")
@each_root
@each_dtype
@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 20, 60, 120])
def test_decode_projective_finds_planted_tree(n, dtype, single_root):
    rng = rng_for("planted projective", n, single_root)
    for _ in range(1 + 30 // n):
        planted = reference.random_projective_heads(rng, n, single_root)
        scores = rng.standard_normal((n + 1, n + 1)).astype(dtype)
        # Whatever the other arcs gain does not make up for one of these.
        scores[np.arange(1, n + 1), planted[1:]] += 12.0 * n
        for arcmax in (True, False):
            heads = project(scores, single_root, arcmax=arcmax)
            np.testing.assert_array_equal(heads, planted)


@each_root
@pytest.mark.parametrize("family", ["gaussian", "trained_like", "multi_root", "integer_ties"])
def test_decode_projective_equals_decode_where_that_is_projective(family, single_root):
    rng = rng_for("happens", family, single_root)
    projective = 0
    for n in (1, 2, 2, 3, 3, 3, 4, 4, 5, 6) * 20:
        scores = FAMILIES[family](rng, n, np.float64)
        free = decode(scores, single_root=single_root)
        heads = project(scores, single_root)
        assert reference.is_projective(heads)
        assert reference.is_tree(heads, single_root)
        loss = reference.score_gap(scores, free, heads)
        if reference.is_projective(free):
            assert abs(loss) <= reference.tolerance(scores, free)
            projective += 1
        else:
            assert loss >= 0 if family in EXACT else loss >= -reference.tolerance(scores, free)
    assert 80 <= projective < 200


@each_root
@each_dtype
def test_decode_projective_resolves_near_ties(dtype, single_root):
    rng = rng_for("near ties", dtype.__name__)
    for _ in range(60):
        scores = FAMILIES["near_ties"](rng, 5, dtype)
        # Sums of float64 numbers near 1000 are rounded; those of their differences are not.
        scores -= np.nanmin(scores)
        best = reference.best_enumerated(scores, single_root, projective=True)
        heads = project(scores, single_root, arcmax=False)
        assert_best(scores, heads, best, single_root, exact=True)


# ArcMax


@pytest.mark.one_each("crossing", "single_root")
@pytest.mark.parametrize("crossing", CROSSING, ids=str)
@each_arcmax
@each_root
def test_decode_projective_does_not_return_crossing_best_heads(crossing, arcmax, single_root):
    heads = np.array(crossing)
    assert reference.is_tree(heads, True)
    assert not reference.is_projective(heads)
    scores = only(heads, low=0.0, high=5.0)
    best = reference.best_enumerated(scores, single_root, projective=True)
    found = project(scores, single_root, arcmax=arcmax)
    assert_best(scores, found, best, single_root, exact=True)
    assert reference.is_projective(found)
    assert decode(scores, single_root=single_root, arcmax=arcmax).tolist() == crossing


# Trees that do not exist


@pytest.mark.one_each("crossing", "single_root")
@pytest.mark.parametrize("crossing", CROSSING, ids=str)
@each_arcmax
@each_root
def test_decode_projective_refuses_arcs_that_only_allow_crossing_trees(
    crossing, arcmax, single_root
):
    scores = only(np.array(crossing))
    assert decode(scores, single_root=single_root, arcmax=arcmax).tolist() == crossing
    with pytest.raises(NoTreeError):
        project(scores, single_root, arcmax=arcmax)


@each_root
def test_decode_projective_raises_exactly_where_no_projective_tree_exists(single_root):
    rng = rng_for("feasible", single_root)
    found = {"none": 0, "crossing": 0, "projective": 0}
    for n in (1, 2, 3, 4, 5, 6, 9, 9, 9, 14, 14, 14):
        for i in range(20):
            scores = FAMILIES["forbidden"](rng, n, DTYPES[i % 2])
            if i % 3 == 0:
                tree = reference.random_heads(rng, n, True)
                scores[np.arange(1, n + 1), tree[1:]] = 1
            exists = reference.best_projective(scores, single_root) is not None
            if exists:
                found["projective"] += 1
            else:
                crossing = reference.has_tree(scores, single_root)
                found["crossing" if crossing else "none"] += 1
            for arcmax in (True, False):
                if exists:
                    heads = project(scores, single_root, arcmax=arcmax)
                    assert reference.is_tree(heads, single_root)
                    assert reference.is_projective(heads)
                    assert reference.tree_score(scores, heads) > -INF
                else:
                    with pytest.raises(NoTreeError):
                        project(scores, single_root, arcmax=arcmax)
    assert min(found.values()) >= 15


def test_decode_projective_may_exist_with_several_roots_only():
    # With one root the arc from 1 to 3 crosses the arc from ROOT to 2.
    scores = only(np.array([-1, 2, 0, 1]))
    scores[1, 0] = -1
    assert decode(scores).tolist() == [-1, 2, 0, 1]
    with pytest.raises(NoTreeError):
        project(scores, True)
    scores[3, 2] = -9
    assert project(scores, True).tolist() == [-1, 2, 0, 2]
    scores[3, 2], scores[3, 0] = -INF, -5
    with pytest.raises(NoTreeError):
        project(scores, True)
    assert project(scores, False).tolist() == [-1, 2, 0, 0]


# Options


@pytest.mark.parametrize("algorithm", sorted(set(ALGORITHMS) - {"gabow_tarjan"}))
@each_root
def test_decode_projective_has_one_algorithm(algorithm, single_root):
    for n in (4, 0):
        with pytest.raises(ValueError, match="projective=True has an algorithm of its own"):
            project(fixed_matrix(n), single_root, algorithm=algorithm)


@each_root
def test_decode_projective_accepts_the_default_algorithm_by_name(single_root):
    heads = project(fixed_matrix(6), single_root, algorithm="gabow_tarjan")
    np.testing.assert_array_equal(heads, project(fixed_matrix(6), single_root))


@pytest.mark.parametrize("arcmax", ["inside", "after", None])
def test_decode_projective_refuses_other_arcmax(arcmax):
    with pytest.raises(ValueError, match=r"arcmax|inside"):
        project(fixed_matrix(4), True, arcmax=arcmax)


@each_root
def test_decode_projective_refuses_scores_whose_sums_overflow(single_root):
    """Any two of them can be added, but not those of all words."""
    scores = np.full((6, 6), np.finfo("d").max / 4)
    scores[:, 0] *= -1
    with pytest.raises(ArithmeticError, match="overflow"):
        decode(scores, projective=True, arcmax=False, single_root=single_root)
