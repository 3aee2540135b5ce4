"""`arc_marginals`, against enumeration, determinants, closed forms, and log Z."""

import itertools

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
    assert_marginals,
    call_or_refusal,
    family_cases,
    finish,
    marginal_tolerance,
    scaled,
    without_tree,
)
from reference import FloatArray
from reference_probabilities import Distribution
from strategies import DTYPES, FAMILIES, PROPERTY, entry_matrices, family_matrices, rng_for

from spacy_rootmind import NoTreeError, arc_marginals, log_partition

INF = np.inf

each_root = pytest.mark.parametrize("single_root", [True, False])
each_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.__name__)
each_family = pytest.mark.parametrize("family", sorted(FAMILIES))
each_scale = pytest.mark.parametrize("scale", SCALES)
each_closed = pytest.mark.parametrize("closed", sorted(CLOSED))


def check_structure(scores: FloatArray, P: FloatArray, single_root: bool) -> None:
    assert_marginals(P, np.isfinite(reference.clean(scores)), single_root)


def check(scores: FloatArray, single_root: bool, right: Distribution | None) -> bool:
    """Assert the marginals, or that there is no tree; tell whether there is one."""
    if right is None:
        with pytest.raises(NoTreeError):
            arc_marginals(scores, single_root=single_root)
        return False
    P = call_or_refusal(arc_marginals, scores, right, single_root=single_root)
    if P is not None:
        check_structure(scores, P, single_root)
        error = np.abs(P - right.marginals).max()
        assert error <= marginal_tolerance(scores, right), (error, scores, P, right.marginals)
    return True


def check_enumerated(scores: FloatArray, single_root: bool) -> bool:
    return check(scores, single_root, oracle.enumerated(scores, single_root))


# Against enumeration


@each_root
@each_dtype
@each_family
def test_arc_marginals_match_enumeration(family, dtype, single_root):
    counts = {0: 1, 1: 2, 2: 8, 3: 10, 4: 8, 5: 4}
    trees = sum(check_enumerated(s, single_root) for s in family_cases(family, dtype, counts))
    assert trees >= (8 if family == "forbidden" else 20)


@pytest.mark.slow
@each_root
@each_dtype
@each_family
def test_arc_marginals_match_enumeration_on_many(family, dtype, single_root):
    for scores in family_cases(family, dtype, {2: 50, 3: 100, 4: 100, 5: 50, 6: 4}, "many"):
        check_enumerated(scores, single_root)


@each_root
@each_dtype
@each_scale
def test_arc_marginals_are_exact_at_all_scales(scale, dtype, single_root):
    rng = rng_for("scales", scale, dtype.__name__)
    for n in (1, 2, 3, 4, 4, 5, 5):
        for holes in (0.0, 0.3, 0.6):
            assert check_enumerated(scaled(rng, n, scale, dtype, holes=holes), single_root)
            check_enumerated(scaled(rng, n, scale, dtype, holes=holes, tree=False), single_root)


@pytest.mark.slow
@each_root
@each_dtype
@each_scale
def test_arc_marginals_are_exact_at_all_scales_on_many(scale, dtype, single_root):
    rng = rng_for("scales many", scale, dtype.__name__)
    for n, holes in itertools.product((2, 3, 4, 5), (0.0, 0.2, 0.4, 0.6, 0.8)):
        for _ in range(30):
            check_enumerated(scaled(rng, n, scale, dtype, holes=holes), single_root)


@each_root
@each_closed
@pytest.mark.parametrize("escape", ESCAPES)
def test_arc_marginals_are_exact_on_closed_cycles(escape, closed, single_root):
    rng = rng_for("closed", closed, escape)
    for n in (2, 3, 4, 5):
        check_enumerated(CLOSED[closed](rng, n, escape), single_root)


@each_root
@pytest.mark.parametrize("closed", ["closed_pairs", "nested_closed_pairs", "chain_to_the_end"])
@pytest.mark.parametrize("escape", [200.0, 2000.0])
def test_arc_marginals_are_exact_on_closed_cycles_of_six(escape, closed, single_root):
    check_enumerated(CLOSED[closed](rng_for("closed six", closed), 6, escape), single_root)


@each_root
@pytest.mark.parametrize("escape", ESCAPES)
def test_arc_marginals_where_all_ways_out_of_a_pair_are_equally_bad(escape, single_root):
    # Trees of about the same probability, all of which underflow beside the cycle.
    scores = np.full((4, 4), -escape)
    scores[1, 2] = scores[2, 1] = 0
    scores[3] = -1.0, 0.5, 0.25, 0
    check_enumerated(finish(scores), single_root)
    P = arc_marginals(scores, single_root=True)
    assert P[1:, 0].min() > 0.01
    assert P[1, 2] + P[2, 1] == pytest.approx(1, abs=1e-9)


@each_root
@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_arc_marginals_are_exact_on_every_pattern_of_three_words(scale, single_root):
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


@settings(PROPERTY, max_examples=200)
@given(entry_matrices(max_n=4), st.booleans())
def test_arc_marginals_match_enumeration_on_entries(scores, single_root):
    check_enumerated(scores, single_root)


@settings(PROPERTY)
@given(family_matrices(max_n=4), st.booleans())
def test_arc_marginals_match_enumeration_on_drawn_families(case, single_root):
    check_enumerated(case[1], single_root)


# Against determinants


@each_root
@pytest.mark.parametrize("n", [8, 15, 30])
@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0, 30.0])
def test_arc_marginals_match_determinant(scale, n, single_root):
    for holes in (0.0, 0.7):
        scores = scaled(rng_for("determinant", n, scale), n, scale, holes=holes)
        check(scores, single_root, oracle.by_determinant(scores, single_root))


@each_root
@each_closed
@pytest.mark.parametrize(("n", "escape"), [(9, 800.0), (16, 50.0)])
def test_arc_marginals_match_determinant_on_closed_cycles(n, escape, closed, single_root):
    scores = CLOSED[closed](rng_for("determinant closed", closed, n), n, escape)
    check(scores, single_root, oracle.by_determinant(scores, single_root))


@each_root
@pytest.mark.parametrize(
    "family", ["nested_pairs", "trained_like", "one_long_cycle", "forbidden_around_tree"]
)
def test_arc_marginals_match_determinant_on_families(family, single_root):
    for n, dtype in ((10, np.float32), (25, np.float64)):
        scores = FAMILIES[family](rng_for("determinant", family, n), n, dtype)
        check(scores, single_root, oracle.by_determinant(scores, single_root))


@pytest.mark.slow
@each_root
@pytest.mark.parametrize("n", [20, 40])
@pytest.mark.parametrize("scale", [0.001, 1.0, 30.0, 100.0, 300.0])
def test_arc_marginals_match_determinant_on_many(scale, n, single_root):
    for holes in (0.0, 0.5, 0.9):
        scores = scaled(rng_for("determinant many", n, scale), n, scale, holes=holes)
        check(scores, single_root, oracle.by_determinant(scores, single_root))


@pytest.mark.slow
@each_root
@each_closed
@pytest.mark.parametrize(("n", "escape"), [(8, 2000.0), (12, 745.0), (32, 200.0)])
def test_arc_marginals_match_determinant_on_many_closed_cycles(n, escape, closed, single_root):
    scores = CLOSED[closed](rng_for("determinant closed", closed, n), n, escape)
    check(scores, single_root, oracle.by_determinant(scores, single_root))


# Closed forms


@each_dtype
@pytest.mark.parametrize("n", [1, 2, 3, 10, 50, 200])
def test_arc_marginals_of_zeros_are_uniform(n, dtype):
    scores = np.zeros((n + 1, n + 1), dtype=dtype)
    inside = np.ones((n + 1, n + 1)) - np.eye(n + 1)
    inside[0] = 0
    np.testing.assert_allclose(arc_marginals(scores), inside / n, rtol=0, atol=1e-12)
    free = inside / (n + 1)
    free[1:, 0] = 2 / (n + 1)
    got = arc_marginals(scores, single_root=False)
    np.testing.assert_allclose(got, free, rtol=0, atol=1e-12)


@each_root
def test_arc_marginals_of_no_words_are_zero(single_root):
    for junk in (0.0, np.nan, INF, -INF):
        P = arc_marginals(np.full((1, 1), junk), single_root=single_root)
        assert P.dtype == np.float64
        assert P.tolist() == [[0.0]]
    P = arc_marginals(np.full((4, 4), np.nan), 0, single_root=single_root)
    assert P.tolist() == np.zeros((4, 4)).tolist()


@each_root
@pytest.mark.parametrize("score", [0.0, -2.5, 700.0, 1e30, -1e30])
def test_arc_marginals_of_one_word_are_certain(score, single_root):
    scores = np.full((2, 2), np.nan)
    scores[1, 0] = score
    assert arc_marginals(scores, single_root=single_root).tolist() == [[0, 0], [1, 0]]


@each_root
@pytest.mark.parametrize("n", [1, 2, 5, 30, 100])
def test_arc_marginals_of_the_only_tree_are_certain(n, single_root):
    rng = rng_for("only tree", n)
    tree = reference.random_heads(rng, n, True)
    scores = np.full((n + 1, n + 1), -INF)
    scores[np.arange(1, n + 1), tree[1:]] = 100 * rng.standard_normal(n)
    expected = np.zeros((n + 1, n + 1))
    expected[np.arange(1, n + 1), tree[1:]] = 1
    P = arc_marginals(scores, single_root=single_root)
    check_structure(scores, P, single_root)
    np.testing.assert_allclose(P, expected, rtol=0, atol=1e-12)


# Structure


@each_root
@each_family
def test_arc_marginals_do_not_change_with_a_constant_in_a_row(family, single_root):
    rng = rng_for("row shift", family)
    for n in (1, 3, 8, 20):
        scores = FAMILIES[family](rng, n, np.float64)
        if family in ("extreme", "soft_masks", "forbidden", "gaussian", "denormals"):
            scores = FAMILIES["integer_ties"](rng, n, np.float64)
        scores = np.round(1024 * scores) / 1024
        before = arc_marginals(scores, single_root=single_root)
        scores += rng.integers(-50, 51, size=(n + 1, 1))
        after = arc_marginals(scores, single_root=single_root)
        np.testing.assert_allclose(after, before, rtol=0, atol=1e-12)


@each_root
@each_scale
def test_arc_marginals_follow_the_order_of_words(scale, single_root):
    rng = rng_for("order", scale)
    for n, holes in ((2, 0.0), (5, 0.5), (12, 0.6), (40, 0.0)):
        scores = scaled(rng, n, scale, holes=holes)
        P = arc_marginals(scores, single_root=single_root)
        order = np.concatenate([[0], 1 + rng.permutation(n)])
        got = arc_marginals(scores[np.ix_(order, order)], single_root=single_root)
        atol = max(2e-12, reference.EPS * n * scale)
        np.testing.assert_allclose(got, P[np.ix_(order, order)], rtol=0, atol=atol)


@each_closed
def test_arc_marginals_follow_the_order_of_words_in_closed_cycles(closed):
    rng = rng_for("order", closed)
    for n, escape in itertools.product((4, 7, 16), ESCAPES):
        scores = CLOSED[closed](rng, n, escape)
        P = arc_marginals(scores)
        check_structure(scores, P, True)
        order = np.concatenate([[0], 1 + rng.permutation(n)])
        got = arc_marginals(scores[np.ix_(order, order)])
        atol = max(2e-12, 4 * reference.EPS * n * escape)
        np.testing.assert_allclose(got, P[np.ix_(order, order)], rtol=0, atol=atol)


@each_root
@pytest.mark.parametrize("n", [1, 2, 4, 12])
@pytest.mark.parametrize("scale", [0.1, 1.0, 3.0])
def test_arc_marginals_are_the_derivatives_of_log_partition(scale, n, single_root):
    rng = rng_for("finite differences", n, scale)
    for holes in (0.0, 0.5):
        scores = scaled(rng, n, scale, holes=holes)
        P = arc_marginals(scores, single_root=single_root)
        arcs = np.argwhere(np.isfinite(reference.clean(scores)))
        step = 1e-4
        moved = np.repeat(scores[None], 2 * len(arcs), axis=0)
        for i, (dep, head) in enumerate(arcs):
            moved[2 * i, dep, head] += step
            moved[2 * i + 1, dep, head] -= step
        values = log_partition(moved, single_root=single_root)
        numeric = (values[::2] - values[1::2]) / (2 * step)
        np.testing.assert_allclose(P[tuple(arcs.T)], numeric, rtol=0, atol=1e-7)


@each_root
@pytest.mark.parametrize("n", [2, 6, 30])
def test_arc_marginals_are_what_forbidding_or_forcing_an_arc_takes_from_z(n, single_root):
    rng = rng_for("forced", n)
    scores = scaled(rng, n, 2.0)
    P = arc_marginals(scores, single_root=single_root)
    arcs = rng.permutation(np.argwhere(P > 0))[:20]
    allowed = np.ones((2 * len(arcs), n + 1, n + 1), dtype=bool)
    for i, (dep, head) in enumerate(arcs):
        allowed[2 * i, dep, head] = False
        allowed[2 * i + 1, dep, np.arange(n + 1) != head] = False
    repeated = np.broadcast_to(scores, allowed.shape)
    values = log_partition(repeated, allowed=allowed, single_root=single_root)
    left = np.exp(values - log_partition(scores, single_root=single_root))
    np.testing.assert_allclose(left[::2], 1 - P[tuple(arcs.T)], rtol=0, atol=1e-11)
    np.testing.assert_allclose(left[1::2], P[tuple(arcs.T)], rtol=0, atol=1e-11)


@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
def test_arc_marginals_of_root_arcs_weigh_the_root_words(scale):
    n = 12
    scores = scaled(rng_for("root words", scale), n, scale)
    each = np.repeat(scores[None], n, axis=0)
    for word in range(1, n + 1):
        each[word - 1, np.arange(n + 1) != word, 0] = -INF
    values = log_partition(each)
    shares = np.exp(values - np.logaddexp.reduce(values))
    P = arc_marginals(scores)
    np.testing.assert_allclose(P[1:, 0], shares, rtol=0, atol=1e-11)
    # All marginals are those given the root word, weighted.
    mixed = (shares[:, None, None] * arc_marginals(each)).sum(axis=0)
    np.testing.assert_allclose(P, mixed, rtol=0, atol=1e-11)


# No tree


@pytest.mark.parametrize("name", sorted(without_tree()))
def test_arc_marginals_refuse_sentences_without_a_tree(name):
    scores, also_free = without_tree()[name]
    with pytest.raises(NoTreeError):
        arc_marginals(scores)
    if also_free:
        with pytest.raises(NoTreeError):
            arc_marginals(scores, single_root=False)
    else:
        check_enumerated(scores, False)


# Magnitudes


@each_root
@each_dtype
def test_arc_marginals_with_unneeded_soft_masks_equal_those_with_hard_ones(dtype, single_root):
    rng = rng_for("soft and hard", dtype.__name__)
    for n in (1, 2, 3, 5, 12, 30):
        hard = scaled(rng, n, 2.0, dtype, holes=0.6)
        expected = arc_marginals(hard, single_root=single_root)
        for mask in (-1e9, -1e15, -1e30):
            soft = hard.copy()
            soft[hard == -INF] = mask
            P = arc_marginals(soft, single_root=single_root)
            check_structure(soft, P, single_root)
            np.testing.assert_allclose(P, expected, rtol=0, atol=1e-12)


@each_root
@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0, 300.0, 1000.0])
def test_arc_marginals_of_three_hundred_words_sum_to_one(scale, single_root):
    scores = scaled(rng_for("three hundred", scale), 300, scale, holes=0.2)
    P = arc_marginals(scores, single_root=single_root)
    check_structure(scores, P, single_root)


@each_root
@each_family
def test_arc_marginals_of_longer_sentences_sum_to_one(family, single_root):
    rng = rng_for("sums", family)
    for n, dtype in itertools.product((7, 20, 60), DTYPES):
        scores = FAMILIES[family](rng, n, dtype)
        if reference.has_tree(scores, single_root):
            try:
                P = arc_marginals(scores, single_root=single_root)
            except ArithmeticError:
                assert family in ("extreme", "soft_masks")
                continue
            check_structure(scores, P, single_root)


@pytest.mark.parametrize("magnitude", [1e10, 1e12, 1e13])
def test_marginals_of_large_root_scores(magnitude):
    """Scores that are large multiples of a quarter, plus noise, so that many trees nearly tie."""
    rng = rng_for("large roots", magnitude)
    for _ in range(20):
        scores = rng.normal(size=(4, 4))
        scores += rng.integers(-2, 3, size=(4, 4)) * (magnitude / 4)
        right = oracle.enumerated(scores, True)
        np.testing.assert_allclose(arc_marginals(scores), right.marginals, atol=1e-12)
