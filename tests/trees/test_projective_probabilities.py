"""Projective trees, beyond what test_distribution.py asks of trees of any kind."""

import numpy as np
import pytest
import reference
from probability_cases import CLOSED, scaled
from strategies import each_root, rng_for

from spacy_rootmind import (
    NoTreeError,
    TreeDistribution,
    decode,
    decode_kbest,
    is_projective,
    is_tree,
    perceptron,
    sample_trees,
    tree_crf,
    tree_cross_entropy,
    tree_score,
)
from spacy_rootmind.trees.sampling import METHODS

INF = np.inf


# Probabilities


@each_root
def test_projective_marginals_are_derivatives_of_the_log_partition(single_root):
    rng = rng_for("projective derivatives")
    scores = scaled(rng, 30, 3.0, holes=0.2)
    options = {"single_root": single_root, "projective": True}
    marginals = TreeDistribution(scores, **options).marginals
    for _ in range(10):
        move = rng.standard_normal(scores.shape)
        ahead, behind = (
            TreeDistribution(scores + sign * 1e-5 * move, **options).log_partition
            for sign in (1, -1)
        )
        numeric = (ahead - behind) / 2e-5
        assert (marginals * move).sum() == pytest.approx(numeric, abs=1e-6)


@each_root
def test_projective_divergence_is_infinite_where_only_crossing_trees_are_forbidden(single_root):
    # With 3 below 1 and 2 below 4, arcs cross: nothing is missing without it.
    first = np.zeros((5, 5))
    first[3, 2:] = first[3, 0] = -INF
    second = first.copy()
    second[2, 4] = -INF
    options = {"single_root": single_root, "projective": True}
    own, other = TreeDistribution(first, **options), TreeDistribution(second, **options)
    assert own.marginals[2, 4] == 0
    assert own.kl_divergence(other) == pytest.approx(0, abs=1e-12)
    second[2, 1] = -INF
    assert own.kl_divergence(TreeDistribution(second, **options)) == INF
    assert own.kl_divergence(TreeDistribution(first, single_root=single_root)) > 0
    with pytest.raises(ValueError, match="distribution over all trees"):
        TreeDistribution(first, single_root=single_root).kl_divergence(own)


# k best


@each_root
def test_projective_kbest_of_many_words(single_root):
    rng = rng_for("projective long")
    scores = scaled(rng, 60, 2.0)
    options = {"single_root": single_root, "projective": True}
    heads, tree_scores = decode_kbest(scores, 500, **options)
    assert len(np.unique(heads, axis=0)) == 500
    assert is_projective(heads).all()
    assert (np.diff(tree_scores) <= 0).all()
    assert tree_scores[0] == pytest.approx(tree_score(scores, decode(scores, **options)), rel=1e-14)
    # No sample that is better than the last is missing.
    drawn, _ = sample_trees(scores, 2000, seed=1, **options)
    listed = set(map(tuple, heads.tolist()))
    better = [
        one.tolist()
        for one in np.unique(drawn, axis=0)
        if tree_score(scores, one) > tree_scores[-1]
    ]
    assert all(tuple(one) in listed for one in better)
    # Half as many are the first half.
    fewer, _ = decode_kbest(scores, 250, **options)
    np.testing.assert_array_equal(fewer, heads[:250])


def test_scores_without_a_projective_tree_that_counts_lose_digits():
    scores = np.zeros((4, 4))
    scores[1:, 0] = [0, -1e16, -1e16]
    scores[2, 3] = scores[3, 2] = 1e16
    scores[2, 1] = scores[3, 1] = -INF
    with pytest.raises(ArithmeticError, match="beyond float64"):
        _ = TreeDistribution(scores, single_root=False, projective=True).log_partition


# Samples


@each_root
def test_projective_samples_where_words_prefer_each_other(single_root):
    scores = CLOSED["nested_closed_pairs"](rng_for("projective pairs"), 8, 900.0)
    options = {"single_root": single_root, "projective": True}
    heads, log_probs = sample_trees(scores, 200, seed=2, **options)
    assert is_projective(heads).all()
    assert is_tree(heads, single_root=single_root).all()
    assert np.isfinite(log_probs).all()
    assert log_probs.max() > -30


def test_projective_samples_come_in_one_way():
    scores = np.zeros((4, 4))
    for method in set(METHODS) - {"auto"}:
        for replace in (True, False):
            with pytest.raises(ValueError, match="projective=True has a method of its own"):
                sample_trees(scores, 2, projective=True, replace=replace, method=method)


# One call each


@each_root
@pytest.mark.parametrize("loss", [tree_crf, perceptron])
def test_losses_over_projective_trees(loss, single_root):
    """Against lists of trees, with a head missing in every third sentence."""
    rng = rng_for("projective losses", loss.__name__, single_root)
    for i in range(12):
        n = int(rng.integers(2, 6))
        scores = rng.normal(size=(n + 1, n + 1))
        trees = reference.k_best_enumerated(scores, 10**6, single_root, projective=True)
        totals = tree_score(np.broadcast_to(scores, (len(trees), n + 1, n + 1)), trees)
        gold = trees[rng.integers(len(trees))].copy()
        if i % 3 == 0:
            gold[1 + rng.integers(n)] = -1
        agreeing = ((trees == gold) | (gold == -1))[:, 1:].all(axis=1)
        merge = np.max if loss is perceptron else np.logaddexp.reduce
        expected = merge(totals) - merge(totals[agreeing])
        found, gradient = loss(scores, gold, single_root=single_root, projective=True)
        assert found == pytest.approx(expected, abs=1e-12)
        assert gradient[1:].sum(axis=1) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("loss", [tree_crf, perceptron])
def test_crossing_gold_arcs_are_refused(loss):
    crossing = np.array([-1, 3, 4, 0, 3])
    loss(np.zeros((5, 5)), crossing)
    with pytest.raises(NoTreeError, match="0: no projective tree with a single root agrees"):
        loss(np.zeros((5, 5)), crossing, projective=True)


def test_cross_entropy_with_a_projective_teacher():
    scores, teacher = rng_for("projective teacher").normal(size=(2, 6, 6))
    taught = TreeDistribution(teacher, projective=True)
    loss, _ = tree_cross_entropy(scores, taught.marginals, projective=True)
    own = TreeDistribution(scores, projective=True)
    assert loss == pytest.approx(float(taught.cross_entropy(own)), abs=1e-12)
