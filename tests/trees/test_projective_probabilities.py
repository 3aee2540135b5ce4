"""k best projective trees, their probabilities and samples, against enumeration."""

import copy
import itertools
import pickle

import numpy as np
import pytest
import reference
import reference_probabilities as oracle
from probability_cases import CLOSED, SCALES, WILD, assert_near, family_cases, scaled, tame_batch
from reference_sampling import check_law
from strategies import FAMILIES, each_root, pad_batch, rng_for

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


def best_trees(scores, single_root):
    """Return all possible projective trees and their scores, best first."""
    trees = reference.enumerate_projective_trees(len(scores) - 1, single_root)
    exact = np.array([reference.tree_score(scores, heads) for heads in trees])
    trees, exact = trees[exact > -INF], exact[exact > -INF]
    order = np.argsort(-exact, kind="stable")
    return trees[order], exact[order]


def check_kbest(scores, k, single_root, rounding=0.0):
    trees, exact = best_trees(scores, single_root)
    if not len(trees):
        with pytest.raises(NoTreeError, match="no projective tree"):
            decode_kbest(scores, k, single_root=single_root, projective=True)
        return
    heads, tree_scores = decode_kbest(scores, k, single_root=single_root, projective=True)
    assert (heads.dtype, tree_scores.dtype) == (np.int32, np.float64)
    assert len(heads) == min(k, len(trees))
    assert len(np.unique(heads, axis=0)) == len(heads)
    assert is_tree(heads, single_root=single_root).all()
    assert is_projective(heads).all()
    assert (np.diff(tree_scores) <= 0).all()
    assert tree_scores.tolist() == [tree_score(scores, one) for one in heads]
    np.testing.assert_allclose(tree_scores, exact[:k], rtol=0, atol=rounding)


# Probabilities


@each_root
@pytest.mark.parametrize("n", [1, 2, 7, 30, 90])
def test_projective_trees_are_counted(n, single_root):
    trees = TreeDistribution(np.zeros((n + 1, n + 1)), single_root=single_root, projective=True)
    number = reference.count_projective_trees(n, single_root)
    assert trees.log_partition == pytest.approx(np.log(float(number)), rel=1e-14)
    assert trees.entropy() == pytest.approx(np.log(float(number)), rel=1e-13)


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
def test_projective_single_root_log_prob(single_root):
    rng = rng_for("projective roots")
    for n, scale in itertools.product((1, 2, 4, 5), (1.0, 30.0, 800.0)):
        scores = scaled(rng, n, scale)
        whole, part = (oracle.enumerated_projective(scores, one) for one in (False, True))
        got = TreeDistribution(
            scores, single_root=single_root, projective=True
        ).single_root_log_prob
        if part is None:
            assert got == -INF
        else:
            expected = part.log_partition - whole.log_partition
            assert_near(got, expected, 1e-12 * max(1.0, scale * n), scores)


@each_root
def test_projective_divergences(single_root):
    rng = rng_for("projective divergence")
    options = {"single_root": single_root, "projective": True}
    for n in (2, 3, 5):
        first, second = scaled(rng, n, 1.0), scaled(rng, n, 1.0)
        own, other = TreeDistribution(first, **options), TreeDistribution(second, **options)
        heads, _ = best_trees(first, single_root)
        log_probs = own.log_prob(heads)
        for against in (other, TreeDistribution(second, single_root=single_root)):
            mean = -(np.exp(log_probs) * against.log_prob(heads)).sum()
            assert own.cross_entropy(against) == pytest.approx(mean, rel=1e-12)
            divergence = mean - float(own.entropy())
            assert own.kl_divergence(against) == pytest.approx(divergence, abs=1e-12)
        assert own.kl_divergence(own) == 0
        with pytest.raises(ValueError, match="distribution over all trees"):
            TreeDistribution(first).kl_divergence(own)


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


@each_root
def test_projective_expectation_is_a_sum_over_marginals(single_root):
    rng = rng_for("projective expectation")
    scores, values = rng.standard_normal((2, 8, 8))
    trees = TreeDistribution(scores, single_root=single_root, projective=True)
    expected = (trees.marginals * values).sum()
    assert trees.expectation(values) == pytest.approx(expected, rel=1e-12)


def test_crossing_trees_have_no_projective_probability():
    crossing = np.array([-1, 3, 4, 0, 3])
    scores = scaled(rng_for("crossing"), 4, 1.0)
    assert TreeDistribution(scores).log_prob(crossing) > -INF
    trees = TreeDistribution(scores, projective=True)
    assert trees.log_prob(crossing) == -INF
    both = trees.log_prob(np.stack([crossing, trees.mode]))
    assert both[0] == -INF
    assert both[1] == trees.log_prob(trees.mode)


@each_root
def test_projective_mode_is_the_best_tree(single_root):
    scores, lengths = pad_batch(tame_batch("projective mode", 20, 9, np.float32), np.nan)
    possible = scores > -INF
    wide = np.where(possible, scores, -1e6).astype(np.float64)
    trees = TreeDistribution(wide, lengths=lengths, single_root=single_root, projective=True)
    expected = decode(wide, lengths=lengths, single_root=single_root, projective=True)
    np.testing.assert_array_equal(trees.mode, expected)


def test_projective_distributions_are_copied_as_such():
    scores = scaled(rng_for("projective copies"), 4, 1.0)
    trees = TreeDistribution(scores, projective=True)
    expected = "TreeDistribution(1 sentence of 4 words, single_root=True, projective=True)"
    assert repr(trees) == expected
    for make in (copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))):
        assert repr(make(trees)) == expected
        assert make(trees).log_partition == trees.log_partition


# k best


@pytest.mark.one_each("family")
@each_root
@pytest.mark.parametrize("family", sorted(set(FAMILIES) - WILD))
def test_projective_kbest_lists_every_tree_once(family, single_root):
    for scores in family_cases(family, np.float64, {0: 1, 1: 1, 2: 2, 3: 4, 4: 3, 5: 1}):
        size = np.abs(scores[np.isfinite(scores)]).max(initial=0)
        for k in (1, 2, 7, 10**6):
            check_kbest(scores, k, single_root, rounding=1e-13 * size)


@pytest.mark.one_each("scale")
@each_root
@pytest.mark.parametrize("scale", SCALES)
def test_projective_kbest_at_all_scales(scale, single_root):
    rng = rng_for("projective kbest", scale)
    for n, holes in itertools.product((2, 3, 4, 5, 6), (0.0, 0.4)):
        scores = scaled(rng, n, scale, holes=holes, tree=False)
        for k in (1, 3, 50, 10**6):
            check_kbest(scores, k, single_root, rounding=1e-13 * scale)


@each_root
def test_projective_kbest_keeps_whole_numbers_apart(single_root):
    rng = rng_for("projective ties")
    for n in (3, 4, 5, 6):
        scores = rng.integers(-2, 3, size=(n + 1, n + 1)).astype(np.float32)
        for k in (1, 5, 40, 10**6):
            check_kbest(scores, k, single_root)


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
@pytest.mark.parametrize("scale", [0.0, 1.0, 3.0])
def test_projective_samples_follow_the_distribution(scale, single_root):
    scores = scale * rng_for("projective samples").standard_normal((5, 5))
    check_law(scores, 50_000, scale, single_root=single_root, projective=True)


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


@each_root
def test_projective_samples_of_no_words(single_root):
    heads, log_probs = sample_trees(
        np.full((1, 1), np.nan), 3, single_root=single_root, projective=True
    )
    assert heads.tolist() == [[-1]] * 3
    assert log_probs.tolist() == [0] * 3


# One call each


@each_root
@pytest.mark.parametrize("loss", [tree_crf, perceptron])
def test_losses_over_projective_trees(loss, single_root):
    """Against lists of trees, with a head missing in every third sentence."""
    rng = rng_for("projective losses", loss.__name__, single_root)
    for i in range(12):
        n = int(rng.integers(2, 6))
        scores = rng.normal(size=(n + 1, n + 1))
        trees, totals = best_trees(scores, single_root)
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
