"""Laws of log partition, marginals, entropy and log probabilities.

Closed forms, bounds, invariances, and what each is made of. The functions stand for the properties
of `TreeDistribution` here: test_distribution.py shows that they agree.
"""

import itertools
import math
from decimal import Decimal

import numpy as np
import pytest
import reference
import reference_probabilities as oracle
from probability_cases import assert_marginals, assert_near, log_partition_tolerance, scaled
from reference import FloatArray
from strategies import each_dtype, each_root, rng_for

from spacy_rootmind import NoTreeError, arc_marginals, log_partition, tree_log_prob

INF = np.inf


# Log partition


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


# Marginals


@each_root
@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0, 300.0, 1000.0])
def test_arc_marginals_of_three_hundred_words_sum_to_one(scale, single_root):
    scores = scaled(rng_for("three hundred", scale), 300, scale, holes=0.2)
    P = arc_marginals(scores, single_root=single_root)
    assert_marginals(P, np.isfinite(reference.clean(scores)), single_root)


@pytest.mark.parametrize("magnitude", [1e10, 1e12, 1e13])
def test_marginals_of_large_root_scores(magnitude):
    """Scores that are large multiples of a quarter, plus noise, so that many trees nearly tie."""
    rng = rng_for("large roots", magnitude)
    for _ in range(20):
        scores = rng.normal(size=(4, 4))
        scores += rng.integers(-2, 3, size=(4, 4)) * (magnitude / 4)
        right = oracle.enumerated(scores, True)
        np.testing.assert_allclose(arc_marginals(scores), right.marginals, atol=1e-12)


# Log probabilities of trees


@each_root
def test_tree_log_prob_of_every_head_vector_is_finite_for_trees_alone(single_root):
    scores = scaled(rng_for("vectors"), 3, 1.0)
    axes = np.meshgrid(*[np.arange(4)] * 3, indexing="ij")
    heads = np.stack([np.full(64, -1), *(axis.ravel() for axis in axes)], axis=1)
    repeated = np.broadcast_to(scores, (64, 4, 4))
    log_probs = tree_log_prob(repeated, heads, single_root=single_root)
    for row, got in zip(heads, log_probs, strict=True):
        assert np.isfinite(got) == reference.is_tree(row, single_root), row
        if not np.isfinite(got):
            assert got == -INF
