"""The decimal oracles against each other, closed forms, and what can be worked out by hand."""

import math
from decimal import Decimal

import numpy as np
import pytest
import reference
import reference_probabilities as oracle
from probability_cases import CLOSED, WILD, family_cases
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


@each_root
@pytest.mark.parametrize("closed", sorted(CLOSED))
def test_oracles_agree_on_closed_cycles(closed, single_root):
    rng = rng_for("oracle closed", closed)
    for n in (1, 2, 4, 5):
        assert_same(CLOSED[closed](rng, n, 300.0), single_root)


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
