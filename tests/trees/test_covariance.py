"""Covariances of arcs with a sum over arcs, against enumeration."""

import numpy as np
import pytest
import reference
from probability_cases import CLOSED, finish, scaled
from strategies import DTYPES, rng_for

from spacy_rootmind import NoTreeError, TreeDistribution
from spacy_rootmind.trees.covariance import arc_covariances

each_root = pytest.mark.parametrize("single_root", [True, False])


def enumerated(scores, values, single_root):
    """Covariances over all trees; the best one is taken as the unit of weight."""
    trees = reference.enumerate_trees(len(scores) - 1, single_root)
    clean = reference.clean(scores)
    words = np.arange(1, len(scores))
    arcs = np.zeros((len(trees), *scores.shape))
    for tree, heads in enumerate(trees):
        arcs[tree, words, heads[1:]] = 1
    totals = np.array([reference.tree_score(clean, heads) for heads in trees])
    weights = np.exp(totals - totals.max())
    probs = weights / weights.sum()
    sums = (arcs * values).sum(axis=(1, 2))
    return np.einsum("t,tdh->dh", probs * (sums - probs @ sums), arcs)


def covariances(scores, values, **options):
    found, settled = arc_covariances(TreeDistribution(scores[None], **options), values[None])
    return found[0] if settled[0] else None


def assert_covariances(scores, single_root, rng, atol):
    values = rng.normal(size=scores.shape)
    found = covariances(scores, values, single_root=single_root)
    assert found is not None
    wanted = enumerated(scores, values, single_root)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=atol)


@each_root
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [1e-3, 1.0, 10.0, 100.0])
def test_covariances_match_enumeration(scale, dtype, single_root):
    rng = rng_for("covariance", scale, dtype.__name__, single_root)
    for n in range(1, 6):
        scores = scaled(rng, n, scale, dtype, holes=0.2 * (n % 2))
        assert_covariances(scores, single_root, rng, 1e-13)


@each_root
@pytest.mark.parametrize("family", sorted(CLOSED))
def test_covariances_are_exact_where_words_prefer_each_other(family, single_root):
    rng = rng_for("covariance closed", family, single_root)
    for n in range(2, 6):
        assert_covariances(CLOSED[family](rng, n, 50.0), single_root, rng, 1e-12)


def test_word_that_only_the_root_can_head():
    """It takes the place of ROOT among the heads of the words before it."""
    rng = rng_for("covariance root word")
    for root in range(1, 6):
        scores = scaled(rng, 5, 1.0)
        scores[root, 1:] = -np.inf
        assert_covariances(scores, True, rng, 1e-14)


def test_sentences_of_a_batch_are_as_alone():
    """Each after longer and after impossible ones, by two threads as well."""
    rng = rng_for("covariance batch")
    lengths = [7, 2, 0, 40, 3, 9, 1]
    batch = np.full((len(lengths), 41, 41), np.nan)
    values = np.full_like(batch, np.nan)
    for sentence, n in enumerate(lengths):
        batch[sentence, : n + 1, : n + 1] = scaled(rng, n, 3.0)
        values[sentence, : n + 1, : n + 1] = rng.normal(size=(n + 1, n + 1))
    # Beyond float64, in between.
    batch[5] = np.where(np.abs(batch[5]) < 3, -3000.0, batch[5])
    for threads in (1, 2):
        trees = TreeDistribution(batch, np.array(lengths), num_threads=threads)
        found, settled = arc_covariances(trees, values)
        assert settled[[0, 1, 2, 3, 4, 6]].all()
        for sentence in np.flatnonzero(settled):
            n = lengths[sentence]
            part = np.s_[sentence, : n + 1, : n + 1]
            alone = covariances(batch[part].copy(), values[part].copy())
            assert np.array_equal(found[part], alone)
            found[part] = 0
        assert not found[settled].any()


@each_root
def test_covariances_are_derivatives_of_marginals(single_root):
    """Beyond enumeration: central differences, whose own error is a ten millionth."""
    rng = rng_for("covariance differences", single_root)
    for n in (12, 33, 70):
        scores, values = rng.normal(size=(2, n + 1, n + 1))
        step = 1e-4
        ahead, behind = (
            TreeDistribution(scores + sign * step * values, single_root=single_root).marginals
            for sign in (1, -1)
        )
        found = covariances(scores, values, single_root=single_root)
        np.testing.assert_allclose(found, (ahead - behind) / (2 * step), rtol=0, atol=1e-6)


def test_values_may_be_float32():
    rng = rng_for("covariance dtype")
    scores, values = rng.normal(size=(2, 9, 9)).astype(np.float32)
    wide = covariances(scores, values.astype(np.float64))
    assert np.array_equal(covariances(scores, values), wide)


def test_constants_of_words_change_nothing():
    rng = rng_for("covariance constants")
    scores, values = rng.normal(size=(2, 9, 9))
    constants = rng.normal(size=(9, 1))
    found = covariances(scores, values + constants)
    np.testing.assert_allclose(found, covariances(scores, values), rtol=0, atol=1e-14)


def test_sentences_that_are_not_settled_are_marked():
    """Scores so far apart that float64 would underflow, and values that are not finite."""
    far = np.zeros((4, 4))
    far[1, [0, 3]] = far[2, [0, 3]] = -3000
    far[3, [0, 1]] = -1500
    assert covariances(finish(far), np.ones((4, 4))) is None
    values = np.ones((4, 4))
    values[2, 1] = np.nan
    assert covariances(np.zeros((4, 4)), values) is None


def test_errors_are_those_of_marginals():
    scores = np.zeros((2, 3, 3))
    scores[1, 1] = -np.inf
    with pytest.raises(NoTreeError, match="sentence 1"):
        arc_covariances(TreeDistribution(scores), np.zeros_like(scores))
    scores[1, 1] = np.nan
    with pytest.raises(ValueError, match="dep 1, head 0 is nan"):
        arc_covariances(TreeDistribution(scores), np.zeros_like(scores))
