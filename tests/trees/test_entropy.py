"""`entropy`, against the oracles, its bounds, and what it is made of."""

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
    WILD,
    assert_near,
    call_or_refusal,
    entropy_tolerance,
    family_cases,
    scaled,
    without_tree,
)
from reference import FloatArray
from reference_probabilities import Distribution
from strategies import DTYPES, FAMILIES, PROPERTY, family_matrices, rng_for

from spacy_rootmind import NoTreeError, arc_marginals, entropy, log_partition, tree_log_prob

INF = np.inf

each_root = pytest.mark.parametrize("single_root", [True, False])
each_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.__name__)
each_family = pytest.mark.parametrize("family", sorted(FAMILIES))
each_scale = pytest.mark.parametrize("scale", SCALES)
each_closed = pytest.mark.parametrize("closed", sorted(CLOSED))


def check(scores: FloatArray, single_root: bool, right: Distribution | None) -> None:
    """Assert the entropy, or that there is no tree."""
    if right is None:
        with pytest.raises(NoTreeError):
            entropy(scores, single_root=single_root)
        return
    got = call_or_refusal(entropy, scores, right, single_root=single_root)
    if got is not None:
        tolerance = entropy_tolerance(scores, right)
        assert_near(got, right.entropy, tolerance, scores, single_root)
        count = reference.count_trees(len(scores) - 1, single_root)
        assert 0 <= got <= math.log(count) + 1e-12


def check_enumerated(scores: FloatArray, single_root: bool) -> None:
    check(scores, single_root, oracle.enumerated(scores, single_root))


# Against the oracles


@each_root
@each_dtype
@each_family
def test_entropy_matches_enumeration(family, dtype, single_root):
    for scores in family_cases(family, dtype, {0: 1, 1: 2, 2: 8, 3: 10, 4: 8, 5: 4}):
        check_enumerated(scores, single_root)


@pytest.mark.slow
@each_root
@each_dtype
@each_family
def test_entropy_matches_enumeration_on_many(family, dtype, single_root):
    for scores in family_cases(family, dtype, {2: 50, 3: 100, 4: 100, 5: 50, 6: 4}, "many"):
        check_enumerated(scores, single_root)


@each_root
@each_dtype
@each_scale
def test_entropy_is_exact_at_all_scales(scale, dtype, single_root):
    rng = rng_for("scales", scale, dtype.__name__)
    for n in (1, 2, 3, 4, 4, 5, 5):
        for holes in (0.0, 0.3, 0.6):
            check_enumerated(scaled(rng, n, scale, dtype, holes=holes), single_root)
            check_enumerated(scaled(rng, n, scale, dtype, holes=holes, tree=False), single_root)


@each_root
@each_closed
@pytest.mark.parametrize("escape", ESCAPES)
def test_entropy_is_exact_on_closed_cycles(escape, closed, single_root):
    rng = rng_for("closed", closed, escape)
    for n in (2, 3, 4, 5):
        check_enumerated(CLOSED[closed](rng, n, escape), single_root)


@settings(PROPERTY)
@given(family_matrices(max_n=4), st.booleans())
def test_entropy_matches_enumeration_on_drawn_families(case, single_root):
    check_enumerated(case[1], single_root)


@each_root
@pytest.mark.parametrize("n", [8, 15, 30])
@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0, 30.0])
def test_entropy_matches_determinant(scale, n, single_root):
    for holes in (0.0, 0.7):
        scores = scaled(rng_for("determinant", n, scale), n, scale, holes=holes)
        check(scores, single_root, oracle.by_determinant(scores, single_root))


@each_root
@each_closed
@pytest.mark.parametrize(("n", "escape"), [(9, 800.0), (16, 50.0)])
def test_entropy_matches_determinant_on_closed_cycles(n, escape, closed, single_root):
    scores = CLOSED[closed](rng_for("determinant closed", closed, n), n, escape)
    check(scores, single_root, oracle.by_determinant(scores, single_root))


# Closed forms and bounds


@each_root
@pytest.mark.parametrize("n", [1, 2, 5, 30, 100])
def test_entropy_of_the_only_tree_is_zero(n, single_root):
    rng = rng_for("only tree", n)
    scores = np.full((n + 1, n + 1), -INF)
    tree = reference.random_heads(rng, n, True)
    scores[np.arange(1, n + 1), tree[1:]] = 100 * rng.standard_normal(n)
    got = entropy(scores, single_root=single_root)
    assert isinstance(got, np.float64)
    assert 0 <= got <= 1e-12


@each_root
@each_dtype
@pytest.mark.parametrize("constant", [0.0, -0.5, 1000.0])
@pytest.mark.parametrize("n", [1, 2, 3, 10, 60, 200])
def test_entropy_of_equal_trees_is_the_logarithm_of_their_number(n, constant, dtype, single_root):
    scores = np.full((n + 1, n + 1), constant, dtype=dtype)
    expected = math.log(reference.count_trees(n, single_root))
    got = entropy(scores, single_root=single_root)
    assert got == pytest.approx(expected, rel=1e-12, abs=1e-12)


@each_root
def test_entropy_of_no_words_is_zero(single_root):
    for junk in (0.0, np.nan, INF, -INF):
        got = entropy(np.full((1, 1), junk), single_root=single_root)
        assert isinstance(got, np.float64)
        assert got == 0
    assert entropy(np.full((4, 4), np.nan), 0, single_root=single_root) == 0


@each_root
@each_scale
def test_entropy_is_never_negative_and_at_most_uniform(scale, single_root):
    rng = rng_for("bounds", scale)
    for n in (1, 2, 3, 5, 9, 20, 50) * 3:
        got = entropy(scaled(rng, n, scale, holes=0.4), single_root=single_root)
        most = math.log(reference.count_trees(n, single_root))
        assert 0 <= got <= most * (1 + 1e-13) + 1e-12


@each_root
@pytest.mark.parametrize("family", sorted(set(FAMILIES) - {"forbidden"} - WILD))
def test_entropy_of_longer_sentences_is_not_negative(family, single_root):
    rng = rng_for("entropy", family)
    for n, dtype in ((7, np.float32), (20, np.float64), (60, np.float32)):
        assert entropy(FAMILIES[family](rng, n, dtype), single_root=single_root) >= 0


# What it is made of


@each_root
@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
def test_entropy_is_log_partition_less_the_mean_score(scale, single_root):
    for n in (1, 5, 25):
        scores = scaled(rng_for("mean score", scale, n), n, scale)
        P = arc_marginals(scores, single_root=single_root)
        mean = (P * np.where(P > 0, scores, 0)).sum()
        expected = log_partition(scores, single_root=single_root) - mean
        got = entropy(scores, single_root=single_root)
        assert got == pytest.approx(expected, rel=0, abs=1e-11 * max(1, scale * n / 10))


@each_root
@each_scale
def test_entropy_is_the_mean_of_minus_log_probs(scale, single_root):
    scores = scaled(rng_for("mean log prob", scale), 4, scale)
    trees = reference.enumerate_trees(4, single_root)
    repeated = np.broadcast_to(scores, (len(trees), 5, 5))
    log_probs = tree_log_prob(repeated, trees, single_root=single_root)
    expected = -(np.exp(log_probs) * log_probs).sum()
    got = entropy(scores, single_root=single_root)
    assert got == pytest.approx(expected, rel=1e-10, abs=1e-10)


@each_root
def test_entropy_does_not_change_with_a_constant_in_a_row(single_root):
    rng = rng_for("row shift")
    for n in (1, 4, 15):
        scores = FAMILIES["integer_ties"](rng, n, np.float64)
        before = entropy(scores, single_root=single_root)
        scores += rng.integers(-1000, 1000, size=(n + 1, 1))
        after = entropy(scores, single_root=single_root)
        assert after == pytest.approx(before, rel=1e-11, abs=1e-11)


def test_entropy_of_two_trees_is_that_of_a_coin():
    for gap in (0.0, 1.0, 5.0, 30.0, 700.0, 5000.0):
        scores = np.array([[0, 0, 0], [0, 0, gap], [0, 0, 0]])
        p = Decimal(-gap).exp() / (1 + Decimal(-gap).exp())
        expected = -(p * p.ln() + (1 - p) * (1 - p).ln()) if p > Decimal("1e-25") else p
        assert abs(Decimal(float(entropy(scores))) - expected) <= Decimal("1e-12")


@pytest.mark.parametrize("name", sorted(without_tree()))
def test_entropy_refuses_sentences_without_a_tree(name):
    scores, also_free = without_tree()[name]
    with pytest.raises(NoTreeError):
        entropy(scores)
    if also_free:
        with pytest.raises(NoTreeError):
            entropy(scores, single_root=False)
    else:
        check_enumerated(scores, False)


@each_root
@each_dtype
def test_entropy_with_unneeded_soft_masks_equals_that_with_hard_ones(dtype, single_root):
    rng = rng_for("soft and hard", dtype.__name__)
    for n in (1, 2, 3, 5, 12, 30):
        hard = scaled(rng, n, 2.0, dtype, holes=0.6)
        expected = entropy(hard, single_root=single_root)
        for mask in (-1e9, -1e15, -1e30):
            soft = hard.copy()
            soft[hard == -INF] = mask
            got = entropy(soft, single_root=single_root)
            assert got == pytest.approx(expected, rel=1e-11, abs=1e-11)
