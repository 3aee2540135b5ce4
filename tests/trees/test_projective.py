"""Projective trees, against enumeration, a dynamic program over blocks, and plain `decode`."""

import re
from functools import cache

import numpy as np
import pytest
import reference
from checks import assert_best, greedy_heads
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import FloatArray, IntArray
from strategies import (
    DTYPES,
    EXACT,
    FAMILIES,
    LAYOUTS,
    PROPERTY,
    each_dtype,
    each_family,
    each_root,
    entry_matrices,
    mixed_batch,
    pad_batch,
    rng_for,
    soft_to_hard,
)

from spacy_rootmind import NoTreeError, decode, is_projective
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


def matrix(n: int, family: str = "integer_ties") -> FloatArray:
    """Return one fixed matrix; NaN where nobody may read."""
    return FAMILIES[family](rng_for("projective matrix", n), n, np.float64)


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
@pytest.mark.parametrize("n", [0, 1, 2])
def test_decode_projective_makes_no_difference_below_three_words(n, single_root):
    rng = rng_for("tiny", n)
    for _ in range(30):
        scores = FAMILIES["gaussian"](rng, n, np.float32)
        heads = project(scores, single_root)
        np.testing.assert_array_equal(heads, decode(scores, single_root=single_root))


@pytest.mark.one_each("n", "family")
@each_root
@pytest.mark.parametrize("family", ["gaussian", "all_prefer_root", "nested_pairs", "integer_ties"])
@pytest.mark.parametrize("n", [4, 9, 50])
def test_decode_projective_keeps_its_score_when_the_words_are_mirrored(n, family, single_root):
    scores = FAMILIES[family](rng_for("mirror", family, n), n, np.float64)
    order = np.concatenate([[0], np.arange(n, 0, -1)])
    heads = project(scores, single_root, arcmax=False)
    other = project(scores[np.ix_(order, order)], single_root, arcmax=False)
    back = np.array([-1, *order[other[order[1:]]]], dtype=np.int32)
    assert_best(scores, back, heads, single_root, exact=family in EXACT)
    assert reference.is_projective(back)


@each_root
@pytest.mark.parametrize("family", ["gaussian", "all_prefer_root", "one_long_cycle"])
def test_decode_projective_row_constant_changes_nothing(family, single_root):
    rng = rng_for("rows", family)
    for n in (1, 2, 4, 9, 30):
        scores = FAMILIES[family](rng, n, np.float64)
        shifted = scores + rng.integers(-8, 9, size=(n + 1, 1))
        np.testing.assert_array_equal(project(scores, single_root), project(shifted, single_root))


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


@each_dtype
@each_arcmax
@pytest.mark.parametrize("mask", [-1e9, -1e32, -INF])
def test_decode_projective_soft_mask_does_not_swallow_scores(mask, dtype, arcmax):
    rows = [[0, 0, 0, 0], [0, 0, 2, mask], [0, 1, 0, mask], [1, 0, 3, 0]]
    heads = project(np.array(rows, dtype=dtype), True, arcmax=arcmax)
    assert heads.tolist() == [-1, 2, 0, 2]


@pytest.mark.parametrize("n", [20, 200])
def test_decode_projective_all_prefer_root_keeps_one_root_arc(n):
    scores = FAMILIES["all_prefer_root"](rng_for("roots", n), n, np.float32)
    heads = project(scores, True)
    assert np.count_nonzero(heads == 0) == 1
    assert is_projective(heads)
    assert np.count_nonzero(project(scores, False) == 0) == n


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


@each_root
@pytest.mark.parametrize("arcmax", [True, "before"])
@pytest.mark.parametrize("family", ["integer_ties", "float16_rounded", "zeros"])
def test_decode_projective_arcmax_takes_lowest_of_equal_heads(family, arcmax, single_root):
    rng = rng_for("ties", family)
    checked = 0
    for n in (1, 2, 2, 3, 3, 4) * 40:
        scores = FAMILIES[family](rng, n, np.float32)
        greedy = greedy_heads(scores)
        if reference.is_tree(greedy, single_root) and reference.is_projective(greedy):
            heads = project(scores, single_root, arcmax=arcmax)
            np.testing.assert_array_equal(heads, greedy)
            checked += 1
    assert checked >= 40


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


@each_arcmax
def test_decode_projective_two_forced_roots_have_no_single_root_tree(arcmax):
    scores = np.full((4, 4), -INF)
    scores[[1, 2, 3], [0, 0, 2]] = 1
    with pytest.raises(NoTreeError):
        project(scores, True, arcmax=arcmax)
    assert project(scores, False, arcmax=arcmax).tolist() == [-1, 0, 0, 2]


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


@pytest.mark.one_each("n", "single_root")
@each_root
@each_arcmax
@pytest.mark.parametrize("n", [1, 2, 5, 40])
def test_decode_projective_finds_the_only_tree(n, arcmax, single_root):
    tree = reference.random_projective_heads(rng_for("only", n), n, True)
    np.testing.assert_array_equal(project(only(tree), single_root, arcmax=arcmax), tree)


@each_root
def test_decode_projective_names_the_sentence_without_tree(single_root):
    scores = np.zeros((30, 5, 5))
    scores[[17, 29]] = only(np.array(CROSSING[0]))
    for num_threads in (1, 3):
        with pytest.raises(NoTreeError, match=r"sentence 17\b"):
            project(scores, single_root, num_threads=num_threads)
    scores[[17, 29]] = 0
    assert is_projective(project(scores, single_root)).all()


# Batches, threads, layouts, values


@each_root
@each_dtype
@pytest.mark.parametrize("arcmax", [True, False])
def test_decode_projective_on_a_padded_batch(dtype, single_root, arcmax):
    matrices = mixed_batch(50, 60, 10, dtype)
    matrices = [one for one in matrices if reference.best_projective(one, True) is not None]
    assert len(matrices) >= 50
    for junk in (NAN, INF, -INF, 1e30):
        scores, lengths = pad_batch(matrices, junk, extra=2)
        before = scores.tobytes(), lengths.tobytes()
        heads = project(scores, single_root, lengths=lengths, arcmax=arcmax)
        assert (scores.tobytes(), lengths.tobytes()) == before
        assert (heads.dtype, heads.shape) == (np.int32, scores.shape[:2])
        for row, one in zip(heads, matrices, strict=True):
            np.testing.assert_array_equal(row[: len(one)], project(one, single_root, arcmax=arcmax))
            assert (row[len(one) :] == -1).all()


@each_root
@pytest.mark.parametrize("junk", [INF, -INF, 1e30, -1e30])
def test_decode_projective_ignores_row_zero_and_diagonal(junk, single_root):
    for family in ("integer_ties", "all_prefer_root", "nested_cycles"):
        for n in (0, 1, 2, 3, 8, 21):
            scores = matrix(n, family)
            expected = project(scores, single_root)
            scores[0] = junk
            np.fill_diagonal(scores, junk)
            np.testing.assert_array_equal(project(scores, single_root), expected)


@each_root
@each_dtype
def test_decode_projective_gives_the_same_with_threads(dtype, single_root):
    matrices = mixed_batch(51, 80, 15, dtype)
    matrices = [one for one in matrices if reference.best_projective(one, True) is not None]
    scores, lengths = pad_batch(matrices, NAN)
    for arcmax in (True, False):
        options = {"lengths": lengths, "arcmax": arcmax}
        expected = project(scores, single_root, **options)
        for num_threads in (2, 3):
            heads = project(scores, single_root, **options, num_threads=num_threads)
            np.testing.assert_array_equal(heads, expected)


@pytest.mark.one_each("layout")
@each_root
@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_decode_projective_reads_any_layout(layout, single_root):
    for dtype in DTYPES:
        rng = rng_for("layout", dtype.__name__)
        scores = np.stack([FAMILIES["integer_ties"](rng, 8, dtype) for _ in range(10)])
        other = LAYOUTS[layout](scores)
        expected = project(scores, single_root, arcmax=False)
        np.testing.assert_array_equal(project(other, single_root, arcmax=False), expected)
        one = LAYOUTS[layout](scores[3])
        np.testing.assert_array_equal(project(one, single_root, arcmax=False), expected[3])


@pytest.mark.one_each("family")
@each_root
@each_arcmax
@each_family
def test_decode_projective_does_not_depend_on_float_width(family, arcmax, single_root):
    rng = rng_for("width", family)
    for n in (2, 3, 5, 8, 13):
        scores = FAMILIES[family](rng, n, np.float32)
        if reference.best_projective(scores, single_root) is not None:
            narrow = project(scores, single_root, arcmax=arcmax)
            wide = project(scores.astype(np.float64), single_root, arcmax=arcmax)
            np.testing.assert_array_equal(narrow, wide)


@each_root
def test_decode_projective_leaves_nothing_behind(single_root):
    scores = matrix(12)
    long = matrix(40, "nested_cycles")
    plain = decode(scores, single_root=single_root, arcmax=False)
    projective = project(scores, single_root, arcmax=False)
    for _ in range(3):
        project(long, single_root, arcmax=False)
        heads = decode(scores, single_root=single_root, arcmax=False)
        np.testing.assert_array_equal(heads, plain)
        heads = project(scores, single_root, arcmax=False)
        np.testing.assert_array_equal(heads, projective)


@each_root
@each_arcmax
@pytest.mark.parametrize("bad", [NAN, INF])
def test_decode_projective_refuses_bad_values_anywhere(bad, arcmax, single_root):
    for n in (1, 2, 4):
        for dep in range(1, n + 1):
            for head in set(range(n + 1)) - {dep}:
                scores = np.stack([matrix(n)] * 3)
                scores[2, dep, head] = bad
                with pytest.raises(ValueError, match=r"dep") as error:
                    project(scores, single_root, arcmax=arcmax)
                assert not isinstance(error.value, NoTreeError)
                assert {str(dep), str(head), "2"} <= set(re.findall(r"\d+", str(error.value)))


@each_root
@pytest.mark.parametrize("bad", [NAN, INF])
def test_decode_projective_refuses_bad_values_where_there_is_no_tree(bad, single_root):
    scores = np.full((5, 5), -INF)
    scores[4, 3] = bad
    with pytest.raises(ValueError, match=r"dep 4\b") as error:
        project(scores, single_root)
    assert not isinstance(error.value, NoTreeError)


@each_root
@each_arcmax
def test_decode_projective_gives_empty_sentences_the_empty_tree(arcmax, single_root):
    assert project(np.full((1, 1), NAN), single_root, arcmax=arcmax).tolist() == [-1]
    assert project(np.empty((0, 3, 3)), single_root, arcmax=arcmax).shape == (0, 3)
    heads = project(np.zeros((2, 3, 3)), single_root, lengths=np.array([0, 1]), arcmax=arcmax)
    assert heads.tolist() == [[-1, -1, -1], [-1, 0, -1]]


# Options


@pytest.mark.parametrize("algorithm", sorted(set(ALGORITHMS) - {"gabow_tarjan"}))
@each_root
def test_decode_projective_refuses_other_algorithms(algorithm, single_root):
    for scores in (matrix(4), matrix(0)):
        with pytest.raises(ValueError, match=r"algorithm|single_root"):
            project(scores, single_root, algorithm=algorithm)


@pytest.mark.parametrize("algorithm", ["preselection", "naive_chu_liu_edmonds"])
def test_decode_projective_says_that_it_has_one_algorithm(algorithm):
    with pytest.raises(ValueError, match=r"projective"):
        project(matrix(4), True, algorithm=algorithm)


@each_root
def test_decode_projective_accepts_the_default_algorithm_by_name(single_root):
    heads = project(matrix(6), single_root, algorithm="gabow_tarjan")
    np.testing.assert_array_equal(heads, project(matrix(6), single_root))


@pytest.mark.parametrize("arcmax", ["inside", "after", None])
def test_decode_projective_refuses_other_arcmax(arcmax):
    with pytest.raises(ValueError, match=r"arcmax|inside"):
        project(matrix(4), True, arcmax=arcmax)


@each_root
def test_decode_projective_refuses_scores_whose_sums_overflow(single_root):
    """Any two of them can be added, but not those of all words."""
    scores = np.full((6, 6), np.finfo("d").max / 4)
    scores[:, 0] *= -1
    with pytest.raises(ArithmeticError, match="overflow"):
        decode(scores, projective=True, arcmax=False, single_root=single_root)
