"""`log_partition`, against enumeration, determinants, closed forms, and its own structure."""

import itertools
import math
from decimal import Decimal

import numpy as np
import pytest
import reference
import reference_probabilities as oracle
from hypothesis import given, settings
from hypothesis import strategies as st
from probability_cases import (
    CLOSED,
    ESCAPES,
    SCALES,
    assert_near,
    call_or_refusal,
    family_cases,
    finish,
    log_partition_tolerance,
    scaled,
    without_tree,
)
from reference import FloatArray
from reference_probabilities import Distribution
from strategies import DTYPES, FAMILIES, PROPERTY, entry_matrices, family_matrices, rng_for

from spacy_rootmind import NoTreeError, log_partition, tree_score

INF = np.inf

each_root = pytest.mark.parametrize("single_root", [True, False])
each_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.__name__)
each_family = pytest.mark.parametrize("family", sorted(FAMILIES))
each_scale = pytest.mark.parametrize("scale", SCALES)
each_closed = pytest.mark.parametrize("closed", sorted(CLOSED))


def check(scores: FloatArray, single_root: bool, right: Distribution | None) -> bool:
    """Assert log Z, or that there is no tree; tell whether there is one."""
    if right is None:
        with pytest.raises(NoTreeError):
            log_partition(scores, single_root=single_root)
        return False
    got = call_or_refusal(log_partition, scores, right, single_root=single_root)
    if got is not None:
        tolerance = log_partition_tolerance(scores, right)
        assert_near(got, right.log_partition, tolerance, scores, single_root)
    return True


def check_enumerated(scores: FloatArray, single_root: bool) -> bool:
    return check(scores, single_root, oracle.enumerated(scores, single_root))


# Against enumeration


@each_root
@each_dtype
@each_family
def test_log_partition_matches_enumeration(family, dtype, single_root):
    counts = {0: 1, 1: 2, 2: 8, 3: 10, 4: 8, 5: 4}
    trees = sum(check_enumerated(s, single_root) for s in family_cases(family, dtype, counts))
    assert trees >= (8 if family == "forbidden" else 20)


@pytest.mark.slow
@each_root
@each_dtype
@each_family
def test_log_partition_matches_enumeration_on_many(family, dtype, single_root):
    for scores in family_cases(family, dtype, {2: 50, 3: 100, 4: 100, 5: 50, 6: 4}, "many"):
        check_enumerated(scores, single_root)


@each_root
@each_dtype
@each_scale
def test_log_partition_is_exact_at_all_scales(scale, dtype, single_root):
    rng = rng_for("scales", scale, dtype.__name__)
    for n in (1, 2, 3, 4, 4, 5, 5):
        for holes in (0.0, 0.3, 0.6):
            assert check_enumerated(scaled(rng, n, scale, dtype, holes=holes), single_root)
            check_enumerated(scaled(rng, n, scale, dtype, holes=holes, tree=False), single_root)


@pytest.mark.slow
@each_root
@each_dtype
@each_scale
def test_log_partition_is_exact_at_all_scales_on_many(scale, dtype, single_root):
    rng = rng_for("scales many", scale, dtype.__name__)
    for n, holes in itertools.product((2, 3, 4, 5), (0.0, 0.2, 0.4, 0.6, 0.8)):
        for _ in range(30):
            check_enumerated(scaled(rng, n, scale, dtype, holes=holes), single_root)


@each_root
@each_closed
@pytest.mark.parametrize("escape", ESCAPES)
def test_log_partition_is_exact_on_closed_cycles(escape, closed, single_root):
    rng = rng_for("closed", closed, escape)
    for n in (2, 3, 4, 5):
        check_enumerated(CLOSED[closed](rng, n, escape), single_root)


@each_root
@pytest.mark.parametrize("closed", ["closed_pairs", "nested_closed_pairs", "chain_to_the_end"])
@pytest.mark.parametrize("escape", [200.0, 2000.0])
def test_log_partition_is_exact_on_closed_cycles_of_six(escape, closed, single_root):
    check_enumerated(CLOSED[closed](rng_for("closed six", closed), 6, escape), single_root)


@each_root
@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_log_partition_is_exact_on_every_pattern_of_three_words(scale, single_root):
    rng = rng_for("patterns", scale)
    arcs = [(dep, head) for dep in (1, 2, 3) for head in range(4) if dep != head]
    trees = 0
    for pattern in itertools.product((True, False), repeat=len(arcs)):
        scores = finish(scale * rng.standard_normal((4, 4)))
        for (dep, head), forbidden in zip(arcs, pattern, strict=True):
            if forbidden:
                scores[dep, head] = -INF
        trees += check_enumerated(scores, single_root)
    assert 0 < trees < 512


@each_root
@each_dtype
def test_log_partition_where_words_lose_their_heads_in_elimination(dtype, single_root):
    # Words 1 and 2 head each other, word 3 hangs from ROOT or from them: whichever word goes
    # first, one is left with ROOT alone, or with nothing.
    for root_arcs in itertools.product((0.0, -3.0, -INF), repeat=3):
        for above in (-INF, 0.5):
            scores = np.full((4, 4), -INF)
            scores[1, 2], scores[2, 1] = 1.0, 2.0
            scores[1, 3] = above
            scores[3, 1] = above
            scores[1:, 0] = root_arcs
            check_enumerated(finish(scores, dtype), single_root)


@settings(PROPERTY, max_examples=200)
@given(entry_matrices(max_n=4), st.booleans())
def test_log_partition_matches_enumeration_on_entries(scores, single_root):
    check_enumerated(scores, single_root)


@settings(PROPERTY)
@given(family_matrices(max_n=4), st.booleans())
def test_log_partition_matches_enumeration_on_drawn_families(case, single_root):
    check_enumerated(case[1], single_root)


# Against determinants


@each_root
@pytest.mark.parametrize("n", [8, 15, 30])
@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0, 30.0])
def test_log_partition_matches_determinant(scale, n, single_root):
    for holes in (0.0, 0.7):
        scores = scaled(rng_for("determinant", n, scale), n, scale, holes=holes)
        check(scores, single_root, oracle.by_determinant(scores, single_root))


@each_root
@each_closed
@pytest.mark.parametrize(("n", "escape"), [(9, 800.0), (16, 50.0)])
def test_log_partition_matches_determinant_on_closed_cycles(n, escape, closed, single_root):
    scores = CLOSED[closed](rng_for("determinant closed", closed, n), n, escape)
    check(scores, single_root, oracle.by_determinant(scores, single_root))


@each_root
@pytest.mark.parametrize(
    "family", ["nested_pairs", "trained_like", "one_long_cycle", "forbidden_around_tree"]
)
def test_log_partition_matches_determinant_on_families(family, single_root):
    for n, dtype in ((10, np.float32), (25, np.float64)):
        scores = FAMILIES[family](rng_for("determinant", family, n), n, dtype)
        check(scores, single_root, oracle.by_determinant(scores, single_root))


@pytest.mark.slow
@each_root
@pytest.mark.parametrize("n", [20, 40])
@pytest.mark.parametrize("scale", [0.001, 1.0, 30.0, 100.0, 300.0])
def test_log_partition_matches_determinant_on_many(scale, n, single_root):
    for holes in (0.0, 0.5, 0.9):
        scores = scaled(rng_for("determinant many", n, scale), n, scale, holes=holes)
        check(scores, single_root, oracle.by_determinant(scores, single_root))


@pytest.mark.slow
@each_root
@each_closed
@pytest.mark.parametrize(("n", "escape"), [(8, 2000.0), (12, 745.0), (32, 200.0)])
def test_log_partition_matches_determinant_on_many_closed_cycles(n, escape, closed, single_root):
    scores = CLOSED[closed](rng_for("determinant closed", closed, n), n, escape)
    check(scores, single_root, oracle.by_determinant(scores, single_root))


# Closed forms


@each_dtype
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 25, 50, 100, 199, 200])
def test_log_partition_of_zeros_counts_trees(n, dtype):
    scores = np.zeros((n + 1, n + 1), dtype=dtype)
    single, free = log_partition(scores), log_partition(scores, single_root=False)
    assert single == pytest.approx((n - 1) * math.log(n), rel=1e-13, abs=1e-13)
    assert free == pytest.approx((n - 1) * math.log(n + 1), rel=1e-13, abs=1e-13)


@each_root
@pytest.mark.parametrize("constant", [0.0, 3.0, -0.125, 1e4, -1e9, -1e32, 1e200])
def test_log_partition_of_constant_scores(constant, single_root):
    for n in (1, 2, 7, 30):
        scores = np.full((n + 1, n + 1), constant)
        expected = n * Decimal(constant) + Decimal(reference.count_trees(n, single_root)).ln()
        tolerance = 1e-13 * max(1.0, abs(float(expected)))
        assert_near(log_partition(scores, single_root=single_root), expected, tolerance, n)


@each_root
def test_log_partition_of_no_words_is_zero(single_root):
    for junk in (0.0, np.nan, INF, -INF):
        got = log_partition(np.full((1, 1), junk), single_root=single_root)
        assert isinstance(got, np.float64)
        assert got == 0
    assert log_partition(np.full((4, 4), np.nan), 0, single_root=single_root) == 0


@each_root
@each_dtype
@pytest.mark.parametrize("score", [0.0, -2.5, 700.0, 1e30, -1e30, -1e9, 1e-40])
def test_log_partition_of_one_word_is_its_score(score, dtype, single_root):
    scores = np.full((2, 2), np.nan, dtype=dtype)
    scores[1, 0] = score
    got = log_partition(scores, single_root=single_root)
    assert got == pytest.approx(float(scores[1, 0]), rel=1e-15, abs=1e-15)


@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_log_partition_of_two_words(scale):
    rng = rng_for("two words", scale)
    for _ in range(20):
        scores = scaled(rng, 2, scale)
        first, second = scores[1, 0] + scores[2, 1], scores[2, 0] + scores[1, 2]
        single = np.logaddexp(first, second)
        free = np.logaddexp(single, scores[1, 0] + scores[2, 0])
        assert log_partition(scores) == pytest.approx(single, rel=1e-13, abs=1e-13)
        assert log_partition(scores, single_root=False) == pytest.approx(free, rel=1e-13, abs=1e-13)


@each_root
@pytest.mark.parametrize("n", [1, 2, 5, 30, 100])
def test_log_partition_of_the_only_tree_is_its_score(n, single_root):
    rng = rng_for("only tree", n)
    tree = reference.random_heads(rng, n, True)
    scores = np.full((n + 1, n + 1), -INF)
    scores[np.arange(1, n + 1), tree[1:]] = 100 * rng.standard_normal(n)
    expected = Decimal(float(tree_score(scores, tree)))
    tolerance = 1e-13 * np.abs(scores[np.isfinite(scores)]).sum()
    assert_near(log_partition(scores, single_root=single_root), expected, tolerance)


# Structure


@each_root
@each_family
def test_log_partition_shifts_with_a_row(family, single_root):
    rng = rng_for("row shift", family)
    for n in (1, 3, 8, 20):
        scores = FAMILIES[family](rng, n, np.float64)
        if family in ("extreme", "soft_masks", "forbidden", "gaussian", "denormals"):
            scores = FAMILIES["integer_ties"](rng, n, np.float64)
        # Of as few digits as needed for exact sums.
        scores = np.round(1024 * scores) / 1024
        before = log_partition(scores, single_root=single_root)
        dep, constant = int(rng.integers(1, n + 1)), float(rng.integers(-50, 51))
        scores[dep] += constant
        after = log_partition(scores, single_root=single_root)
        tolerance = 2e-13 * max(1.0, abs(before), abs(after), 50.0)
        assert after == pytest.approx(before + constant, rel=0, abs=tolerance)


@each_root
@each_scale
def test_log_partition_does_not_depend_on_the_order_of_words(scale, single_root):
    rng = rng_for("order", scale)
    for n, holes in ((2, 0.0), (5, 0.5), (12, 0.6), (40, 0.0)):
        scores = scaled(rng, n, scale, holes=holes)
        expected = log_partition(scores, single_root=single_root)
        for _ in range(3):
            order = np.concatenate([[0], 1 + rng.permutation(n)])
            got = log_partition(scores[np.ix_(order, order)], single_root=single_root)
            tolerance = 2e-13 * max(1.0, abs(expected), n * scale / 30)
            assert got == pytest.approx(expected, rel=0, abs=tolerance)


@each_closed
def test_log_partition_does_not_depend_on_the_order_of_words_in_closed_cycles(closed):
    rng = rng_for("order", closed)
    for n, escape in itertools.product((4, 7, 16), ESCAPES):
        scores = CLOSED[closed](rng, n, escape)
        expected = log_partition(scores)
        order = np.concatenate([[0], 1 + rng.permutation(n)])
        got = log_partition(scores[np.ix_(order, order)])
        assert got == pytest.approx(expected, rel=2e-13, abs=2e-13)


@pytest.mark.parametrize("family", ["gaussian", "multi_root", "nested_pairs", "trained_like"])
@pytest.mark.parametrize("n", [1, 2, 6, 25])
def test_log_partition_single_root_is_the_sum_over_root_words(family, n):
    scores = FAMILIES[family](rng_for("root words", family, n), n, np.float64)
    each = np.repeat(scores[None], n, axis=0)
    for word in range(1, n + 1):
        each[word - 1, np.arange(n + 1) != word, 0] = -INF
    single = log_partition(each)
    free = log_partition(each, single_root=False)
    np.testing.assert_allclose(free, single, rtol=2e-13, atol=2e-13)
    expected = np.logaddexp.reduce(single)
    assert log_partition(scores) == pytest.approx(expected, rel=2e-13, abs=2e-13)


@each_closed
@pytest.mark.parametrize("family", ["gaussian", "integer_ties"])
def test_log_partition_single_root_is_the_limit_of_dear_roots(family, closed):
    rng = rng_for("dear roots", family, closed)
    for scores in (
        FAMILIES[family](rng, 12, np.float32).astype(np.float64),
        CLOSED[closed](rng, 8, 60.0).astype(np.float32).astype(np.float64),
    ):
        dear = scores.copy()
        dear[:, 0] -= 2.0**14
        got = log_partition(dear, single_root=False) + 2.0**14
        assert got == pytest.approx(log_partition(scores), rel=1e-13, abs=1e-13 * 2.0**15)


@each_root
def test_log_partition_grows_with_every_arc(single_root):
    scores = scaled(rng_for("monotone"), 6, 1.0)
    before = log_partition(scores, single_root=single_root)
    for dep, head in itertools.product(range(1, 7), range(7)):
        if dep != head:
            higher, without = scores.copy(), scores.copy()
            higher[dep, head] += 0.01
            without[dep, head] = -INF
            assert log_partition(higher, single_root=single_root) > before
            assert log_partition(without, single_root=single_root) < before


@each_root
def test_log_partition_is_at_least_the_best_tree(single_root):
    for scale in SCALES:
        scores = scaled(rng_for("bound", scale), 5, scale)
        best = reference.best_enumerated(scores, single_root)
        low = reference.tree_score(scores, best)
        high = low + math.log(reference.count_trees(5, single_root))
        slack = 1e-12 * max(1.0, 10 * scale)
        assert low - slack <= log_partition(scores, single_root=single_root) <= high + slack


# No tree


@pytest.mark.parametrize("name", sorted(without_tree()))
def test_log_partition_refuses_sentences_without_a_tree(name):
    scores, also_free = without_tree()[name]
    with pytest.raises(NoTreeError):
        log_partition(scores)
    if also_free:
        with pytest.raises(NoTreeError):
            log_partition(scores, single_root=False)
    else:
        check_enumerated(scores, False)


@each_root
@pytest.mark.parametrize("n", [5, 20, 60])
def test_log_partition_refuses_a_closed_set_among_many_words(n, single_root):
    rng = rng_for("closed set", n)
    scores = scaled(rng, n, 3.0)
    inside = 1 + rng.permutation(n)[: n // 2]
    outside = np.setdiff1d(np.arange(n + 1), inside)
    scores[np.ix_(inside, outside)] = -INF
    with pytest.raises(NoTreeError):
        log_partition(scores, single_root=single_root)
    scores[inside[0], outside[-1]] = -900.0
    assert np.isfinite(log_partition(scores, single_root=single_root))


# Magnitudes


@each_root
@each_dtype
def test_log_partition_with_unneeded_soft_masks_equals_hard_ones(dtype, single_root):
    rng = rng_for("soft and hard", dtype.__name__)
    for n in (1, 2, 3, 5, 12, 30):
        hard = scaled(rng, n, 2.0, dtype, holes=0.6)
        expected = log_partition(hard, single_root=single_root)
        for mask in (-1e9, -1e15, -1e30):
            soft = hard.copy()
            soft[hard == -INF] = mask
            got = log_partition(soft, single_root=single_root)
            assert got == pytest.approx(expected, rel=1e-13, abs=1e-13)


@each_root
@pytest.mark.parametrize("mask", [-1e6, -1e9, -1e13])
def test_log_partition_with_needed_soft_masks_is_exact(mask, single_root):
    rng = rng_for("needed masks", mask)
    for n in (2, 3, 4, 5):
        for _ in range(6):
            scores = scaled(rng, n, 1.0, holes=0.75, tree=False)
            scores[scores == -INF] = mask
            right = oracle.enumerated(scores, single_root)
            got = log_partition(scores, single_root=single_root)
            tolerance = log_partition_tolerance(scores, right)
            assert_near(got, right.log_partition, tolerance, scores)


def test_log_partition_says_so_when_sums_overflow():
    with pytest.raises(ArithmeticError):
        log_partition(np.full((4, 4), 1e308))


@each_dtype
def test_log_partition_of_lowest_finite_scores(dtype):
    scores = np.full((4, 4), np.finfo(dtype).min / 8, dtype=dtype)
    scores[1, 0] = scores[2, 1] = scores[3, 2] = 0
    assert abs(log_partition(scores)) <= 1e-13


@each_root
def test_log_partition_of_three_hundred_words(single_root):
    scores = scaled(rng_for("three hundred"), 300, 3.0)
    got = log_partition(scores, single_root=single_root)
    order = np.concatenate([[0], np.arange(300, 0, -1)])
    again = log_partition(scores[np.ix_(order, order)], single_root=single_root)
    assert got == pytest.approx(again, rel=2e-13)


# --- where float64 gives way to wide numbers -----------------------------------------------------


def leaky_chain(n_clique: int, length: int, score: float, *, chain_first: bool) -> FloatArray:
    """Make a clique that reaches ROOT by a long chain that leads back to it, or by one poor arc.

    Rows add up to the size of the clique, and lose nearly all of that on the way to ROOT.
    """
    n = n_clique + length
    clique = list(range(n, length, -1)) if chain_first else list(range(1, n_clique + 1))
    chain = list(range(length, 0, -1)) if chain_first else list(range(n_clique + 1, n + 1))
    scores = np.full((n + 1, n + 1), -INF)
    for word in [*clique, *chain]:
        scores[word, clique] = 0.0
    scores[clique[1:], chain[0]] = 0.0
    for word, following in itertools.pairwise([*chain, 0]):
        scores[word, following] = 0.0
    scores[clique[0], 0] = score
    scores[clique[0], chain] = -INF
    np.fill_diagonal(scores, -INF)
    return scores


@each_root
@pytest.mark.parametrize("score", [-300.0, -700.0, -712.0, -900.0])
def test_log_partition_counts_an_arc_that_underflows_but_matters(score, single_root):
    """The order of words decides when the arc is eliminated, and must not change a thing."""
    values = [
        log_partition(leaky_chain(55, 190, score, chain_first=first), single_root=single_root)
        for first in (True, False)
    ]
    assert values[0] == pytest.approx(values[1], rel=1e-13)
    # By the poor arc the whole clique and chain hang from that word.
    assert values[0] >= score + 53 * math.log(55)


@pytest.mark.parametrize("scale", [300.0, 1000.0])
@pytest.mark.parametrize("pairs", [1, 3, 6, 10])
def test_log_partition_keeps_digits_that_cancel(pairs, scale):
    """Scores of both signs that leave a log Z close to 0."""
    rng = rng_for("cancel", pairs, scale)
    n = 2 * pairs + 1
    scores = np.full((n + 1, n + 1), -INF)
    scores[n, 0] = 0.0
    for word in range(1, n, 2):
        scores[word, word + 1], scores[word + 1, word] = scale + rng.random(2)
        scores[word, n], scores[word + 1, n] = -scale - 1 - rng.random(2)
    scores[n, 0] = 0.01 - float(log_partition(scores))
    right = oracle.by_determinant(scores, True)
    assert abs(Decimal(float(log_partition(scores))) - right.log_partition) < Decimal("1e-13")
