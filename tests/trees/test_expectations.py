"""Second-order expectations of sums over arcs, and gradients of expectations and of entropy."""

import itertools

import numpy as np
import pytest
import reference_probabilities as oracle
from probability_cases import CLOSED, WILD, below_best, family_cases, scaled
from strategies import each_dtype, each_root, pad_batch, rng_for

from spacy_rootmind import TreeDistribution

each_kind = pytest.mark.parametrize("projective", [False, True], ids=["all", "projective"])


def right_distribution(scores, single_root, projective):
    find = oracle.enumerated_projective if projective else oracle.enumerated
    return find(scores, single_root)


def entropy_gradient(scores, single_root, projective=False):
    """Return minus the covariances of arcs with scores, by enumeration."""
    return -oracle.arc_covariances(scores, single_root, scores, projective=projective)


# Against enumeration


@each_kind
@each_root
@each_dtype
@pytest.mark.parametrize("family", sorted(WILD))
def test_entropy_gradient_is_exact_or_refused_at_extreme_scores(
    family, dtype, single_root, projective
):
    for scores in family_cases(family, dtype, {2: 8, 3: 8, 4: 2}, "entropy gradient"):
        right = right_distribution(scores, single_root, projective)
        if right is None:
            continue
        trees = TreeDistribution(scores, single_root=single_root, projective=projective)
        try:
            got = trees.entropy_gradient()
        except ArithmeticError:
            continue
        # Less a constant per word, or 80 digits would not suffice.
        likeliest = np.take_along_axis(scores, right.marginals.argmax(axis=1)[:, None], axis=1)
        with np.errstate(over="ignore", invalid="ignore"):
            lowered = scores.astype(np.float64) - likeliest
        values = np.where(right.marginals > 1e-30, lowered, 0.0)
        if np.isfinite(values).all():
            expected = -oracle.arc_covariances(scores, single_root, values, projective=projective)
            largest = max(1.0, np.abs(values).max()) * max(1.0, below_best(scores, right))
            np.testing.assert_allclose(got, expected, rtol=0, atol=1e-12 * largest)


@each_root
@pytest.mark.parametrize("offset", [2.0**20, -(2.0**40)])
def test_entropy_gradient_keeps_its_digits_next_to_large_constants(offset, single_root):
    rng = rng_for("gradient offset")
    scores = np.round(scaled(rng, 4, 1.0) * 256) / 256
    right = entropy_gradient(scores, single_root)
    shifted = scores + offset
    if single_root:
        shifted[:, 0] -= 3 * offset
    got = TreeDistribution(shifted, single_root=single_root).entropy_gradient()
    np.testing.assert_allclose(got, right, rtol=0, atol=1e-13)


# Against finite differences, for more words than can be enumerated


@each_kind
@each_root
@pytest.mark.parametrize("scale", [0.3, 2.0, 8.0])
def test_entropy_gradient_matches_finite_differences(scale, single_root, projective):
    rng = rng_for("differences", scale)
    scores = scaled(rng, 25, scale, holes=0.2)
    kind = {"single_root": single_root, "projective": projective}
    got = TreeDistribution(scores, **kind).entropy_gradient()
    step = 1e-5
    for _ in range(20):
        move = rng.standard_normal(scores.shape)
        ahead, behind = (
            TreeDistribution(scores + sign * step * move, **kind).entropy() for sign in (1, -1)
        )
        numeric = (ahead - behind) / (2 * step)
        inside = got != 0
        assert (got * move)[inside].sum() == pytest.approx(numeric, rel=1e-6, abs=1e-7 * scale)


@each_root
def test_expectation_gradient_matches_finite_differences_of_marginals(single_root):
    rng = rng_for("marginal differences")
    scores = scaled(rng, 40, 2.0)
    values, other = rng.standard_normal((2, 41, 41))
    step = 1e-5
    ahead, behind = (
        TreeDistribution(scores + sign * step * values, single_root=single_root).marginals
        for sign in (1, -1)
    )
    trees = TreeDistribution(scores, single_root=single_root)
    got = trees.expectation_gradient(values)
    np.testing.assert_allclose(got, (ahead - behind) / (2 * step), rtol=0, atol=1e-8)
    assert trees.covariance(values, other) == pytest.approx((got * other).sum(), abs=1e-12)
    assert trees.covariance(other, values) == pytest.approx((got * other).sum(), abs=1e-12)


# Identities


@each_root
@pytest.mark.parametrize("n", [1, 2, 9, 60])
def test_sums_that_are_the_same_for_all_trees_do_not_vary(n, single_root):
    rng = rng_for("constants", n)
    trees = TreeDistribution(scaled(rng, n, 3.0), single_root=single_root)
    rows = np.repeat(rng.standard_normal((n + 1, 1)), n + 1, axis=1) * 1e6
    values = rng.standard_normal((n + 1, n + 1))
    assert trees.covariance(rows) == pytest.approx(0, abs=1e-12)
    assert trees.covariance(rows, values) == pytest.approx(0, abs=1e-6)
    assert trees.covariance(values + rows) == pytest.approx(trees.covariance(values), abs=1e-8)
    if single_root:
        values[:, 0] += 1e6
        moved = trees.covariance(values)
        values[:, 0] -= 1e6
        assert moved == pytest.approx(trees.covariance(values), abs=1e-8)


# Several functions, batches


@each_root
def test_several_functions_at_once(single_root):
    rng = rng_for("several functions")
    scores = np.stack([scaled(rng, 6, 1.0) for _ in range(3)])
    values, other = rng.standard_normal((2, 3, 4, 7, 7))
    other = other[:, :2]
    trees = TreeDistribution(scores, single_root=single_root)
    assert trees.expectation(values).shape == (3, 4)
    assert trees.expectation_gradient(values).shape == values.shape
    query = trees.covariance
    both = query(values, other)
    assert both.shape == (3, 4, 2)
    assert query(values).shape == (3, 4, 4)
    assert query(values[:, 0], other).shape == (3, 2)
    assert query(values, other[:, 0]).shape == (3, 4)
    assert query(values[:, 0], other[:, 0]).shape == query(values[:, 0]).shape == (3,)
    np.testing.assert_array_equal(query(values), query(values).swapaxes(1, 2))
    for i, f, g in itertools.product(range(3), range(4), range(2)):
        one = TreeDistribution(scores[i], single_root=single_root)
        assert both[i, f, g] == one.covariance(values[i, f], other[i, g])
        assert one.covariance(values[i], other[i])[f, g] == both[i, f, g]
    np.testing.assert_array_equal(trees.expectation(values)[:, 1], trees.expectation(values[:, 1]))
    # Positive semidefinite, to rounding.
    assert np.linalg.eigvalsh(trees.covariance(values)).min() > -1e-12


def test_wide_numbers_leave_no_trace_in_the_next_sentences():
    """A thread keeps its memory: after long sentences, and after those that overflowed."""
    rng = rng_for("after wide numbers")
    escapes = [1.0, 3.0, 400.0, 3.0, 800.0, 3.0, 2000.0, 3.0]
    matrices = [
        CLOSED[closed](rng, int(n), escape)
        for closed in sorted(CLOSED)
        for n, escape in zip(rng.permutation(8) + 2, escapes, strict=True)
    ]
    scores, lengths = pad_batch(matrices, np.nan)
    values = rng.standard_normal(scores.shape)
    values[np.isnan(scores)] = np.nan
    for num_threads in (1, 2):
        trees = TreeDistribution(scores, lengths=lengths, num_threads=num_threads)
        found = trees.expectation_gradient(values)
        for i, one in enumerate(matrices):
            own = np.s_[i, : len(one), : len(one)]
            alone = TreeDistribution(one).expectation_gradient(values[own])
            np.testing.assert_array_equal(found[own], alone)


def test_results_of_nothing():
    trees = TreeDistribution(np.zeros((0, 4, 4)))
    assert trees.covariance(np.zeros((0, 4, 4))).shape == (0,)
    assert trees.covariance(np.zeros((0, 3, 4, 4))).shape == (0, 3, 3)
    assert trees.entropy_gradient().shape == (0, 4, 4)
    assert trees.log_prob(np.zeros((0, 3, 4), dtype=int)).shape == (0, 3)
    assert repr(trees) == "TreeDistribution(0 sentences of up to 3 words, single_root=True)"
    empty = TreeDistribution(np.full((1, 1), np.nan))
    assert empty.covariance(np.full((1, 1), np.nan)) == 0
    assert empty.covariance(np.zeros((2, 1, 1))).tolist() == [[0, 0], [0, 0]]
    assert empty.entropy_gradient().tolist() == [[0]]


# Errors


def test_covariance_says_that_products_overflow():
    trees = TreeDistribution(np.zeros((2, 4, 4)))
    values = rng_for("overflow").standard_normal((2, 4, 4))
    values[0] = 0
    with pytest.raises(ArithmeticError, match="sentence 1: products of its values overflow"):
        trees.covariance(1e200 * values)
    # One that is large, one that is small.
    got = trees.covariance(1e300 * values, 1e-300 * values)
    np.testing.assert_allclose(got, trees.covariance(values), rtol=1e-12)
