"""The decimal oracles against each other, closed forms, and what can be worked out by hand."""

import math
from decimal import Decimal

import numpy as np
import pytest
import reference
import reference_probabilities as oracle
from probability_cases import CLOSED, SCALES, WILD, family_cases, scaled
from strategies import FAMILIES, each_root, rng_for


def assert_same(scores, single_root):
    """Assert that both oracles say the same of one sentence."""
    first = oracle.enumerated(scores, single_root)
    second = oracle.by_determinant(scores, single_root)
    assert (first is None) == (second is None) == (not reference.has_tree(scores, single_root))
    if first is not None:
        assert abs(first.log_partition - second.log_partition) < Decimal("1e-60")
        assert abs(first.entropy - second.entropy) < Decimal("1e-25")
        np.testing.assert_allclose(first.marginals, second.marginals, rtol=5e-16, atol=1e-60)


@pytest.mark.one_each("family")
@each_root
@pytest.mark.parametrize("family", sorted(set(FAMILIES) - WILD))
def test_oracles_agree_on_families(family, single_root):
    for scores in family_cases(family, np.float64, {0: 1, 1: 2, 2: 3, 3: 3, 4: 3, 5: 2}):
        assert_same(scores, single_root)


@pytest.mark.one_each("scale")
@each_root
@pytest.mark.parametrize("scale", SCALES)
def test_oracles_agree_at_all_scales(scale, single_root):
    rng = rng_for("oracle scales", scale)
    for n in (2, 3, 4, 5):
        assert_same(scaled(rng, n, scale), single_root)
        assert_same(scaled(rng, n, scale, holes=0.6, tree=False), single_root)


@each_root
@pytest.mark.parametrize("closed", sorted(CLOSED))
def test_oracles_agree_on_closed_cycles(closed, single_root):
    rng = rng_for("oracle closed", closed)
    for n in (1, 2, 4, 5):
        assert_same(CLOSED[closed](rng, n, 300.0), single_root)


@pytest.mark.one_each("n")
@each_root
@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 6, 30])
def test_oracles_count_trees(n, single_root):
    scores = np.zeros((n + 1, n + 1))
    number = reference.count_trees(n, single_root)
    results = [oracle.by_determinant(scores, single_root)]
    if n <= 6:
        results.append(oracle.enumerated(scores, single_root))
    for result in results:
        assert float(result.log_partition) == float(result.entropy) == math.log(number)


@pytest.mark.parametrize("ask", [oracle.enumerated, oracle.by_determinant])
def test_oracles_on_two_words(ask):
    scores = np.log([[1, 1, 1], [2, 1, 3], [5, 7, 1]])
    weights = [2 * 7, 5 * 3, 2 * 5]  # 1 at ROOT, 2 at ROOT, both
    single, free = ask(scores, True), ask(scores, False)
    assert float(single.log_partition) == pytest.approx(math.log(29), rel=1e-15)
    assert float(free.log_partition) == pytest.approx(math.log(39), rel=1e-15)
    assert single.marginals[1].tolist() == pytest.approx([14 / 29, 0, 15 / 29], rel=1e-14)
    assert free.marginals[2].tolist() == pytest.approx([25 / 39, 14 / 39, 0], rel=1e-14)
    shares = np.array(weights) / 39
    assert float(free.entropy) == pytest.approx(-(shares * np.log(shares)).sum(), rel=1e-14)
    both = free.log_prob(scores, np.array([-1, 0, 0]))
    assert float(both) == pytest.approx(math.log(10 / 39), rel=1e-14)


@each_root
def test_oracle_log_probs_sum_to_one(single_root):
    for scale in SCALES:
        scores = scaled(rng_for("oracle sum", scale), 4, scale)
        right = oracle.enumerated(scores, single_root)
        trees = reference.enumerate_trees(4, single_root)
        total = sum(right.log_prob(scores, heads).exp() for heads in trees)
        assert abs(total - 1) < Decimal("1e-24")


def test_oracle_constrained_partition_counts_trees_that_agree():
    scores = np.zeros((5, 5))
    trees = reference.enumerate_trees(4, True)
    for partial in (
        [-1, -1, -1, -1, -1],
        [-1, 2, -1, -1, 1],
        [-1, 0, -1, -1, -1],
        [-1, 2, 0, 2, 1],
    ):
        count = sum(
            all(head in (-1, tree[dep]) for dep, head in enumerate(partial)) for tree in trees
        )
        assert float(oracle.constrained_log_partition(scores, partial)) == math.log(count)
        only = oracle.enumerated(oracle.agreeing(scores, partial), True)
        assert float(only.log_partition) == math.log(count)
    assert oracle.constrained_log_partition(scores, [-1, 2, 1, -1, -1]) is None
    assert oracle.constrained_log_partition(scores, [-1, 0, 0, -1, -1]) is None
