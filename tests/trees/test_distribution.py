"""`TreeDistribution` beyond the grid: magnitudes, many words, what it computes once, arguments."""

import itertools
import math
from decimal import Decimal

import numpy as np
import pytest
import reference
import reference_probabilities as oracle
from checks import result_of
from probability_cases import assert_marginals, scaled
from reference import FloatArray
from strategies import each_dtype, each_kind, each_root, rng_for

from spacy_rootmind import TreeDistribution, decode_kbest
from spacy_rootmind.kernel import query_batch

INF = np.inf


# Magnitudes


@each_root
@each_dtype
def test_distribution_with_unneeded_soft_masks_equals_that_with_hard_ones(dtype, single_root):
    rng = rng_for("soft and hard", dtype.__name__)
    for n in (1, 2, 3, 5, 12, 30):
        hard = scaled(rng, n, 2.0, dtype, holes=0.6)
        expected = TreeDistribution(hard, single_root=single_root)
        for mask in (-1e9, -1e15, -1e30):
            soft = hard.copy()
            soft[hard == -INF] = mask
            got = TreeDistribution(soft, single_root=single_root)
            log_z = expected.log_partition
            assert got.log_partition == pytest.approx(log_z, rel=1e-13, abs=1e-13)
            assert_marginals(got.marginals, np.isfinite(reference.clean(soft)), single_root)
            np.testing.assert_allclose(got.marginals, expected.marginals, rtol=0, atol=1e-12)
            assert got.entropy() == pytest.approx(expected.entropy(), rel=1e-11, abs=1e-11)


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
        TreeDistribution(
            leaky_chain(55, 190, score, chain_first=first), single_root=single_root
        ).log_partition
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
    scores[n, 0] = 0.01 - float(TreeDistribution(scores).log_partition)
    right = oracle.by_determinant(scores, True)
    found = Decimal(float(TreeDistribution(scores).log_partition))
    assert abs(found - right.log_partition) < Decimal("1e-13")


@pytest.mark.parametrize("magnitude", [1e10, 1e12, 1e13])
def test_marginals_of_large_root_scores(magnitude):
    """Scores that are large multiples of a quarter, plus noise, so that many trees nearly tie."""
    rng = rng_for("large roots", magnitude)
    for _ in range(20):
        scores = rng.normal(size=(4, 4))
        scores += rng.integers(-2, 3, size=(4, 4)) * (magnitude / 4)
        right = oracle.enumerated(scores, True)
        np.testing.assert_allclose(TreeDistribution(scores).marginals, right.marginals, atol=1e-12)


def test_scores_without_a_projective_tree_that_counts_lose_digits():
    scores = np.zeros((4, 4))
    scores[1:, 0] = [0, -1e16, -1e16]
    scores[2, 3] = scores[3, 2] = 1e16
    scores[2, 1] = scores[3, 1] = -INF
    with pytest.raises(ArithmeticError, match="beyond float64"):
        _ = TreeDistribution(scores, single_root=False, projective=True).log_partition


def test_marginals_of_words_that_each_lose_a_bit_or_two():
    """Heads drawn at random form no tree but once in 2^1036: derivatives are beyond float64."""
    n = 640
    scores = np.full((n + 1, n + 1), -INF)
    words = np.arange(1, n)
    # Each word but the last may have the last one as its head, and then is on a cycle.
    scores[words, n] = scores[n, n - 1] = 0
    scores[words, words - 1] = np.where(words % 8 < 3, 0, np.log(0.3364))
    expected = np.eye(n + 1, k=-1)
    np.testing.assert_allclose(TreeDistribution(scores).marginals, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("offset", [2.0**20, -(2.0**40)])
def test_constants_of_words_and_of_root_cost_no_digits(offset):
    """Constants that all single-root trees have, next to which all digits of the rest are kept."""
    rng = rng_for("constants", offset)
    scores = np.round(scaled(rng, 5, 1.0) * 256) / 256
    shifted = scores + offset * rng.integers(1, 4, size=(6, 1))
    shifted[:, 0] -= 3 * offset
    found, right = (TreeDistribution(one) for one in (shifted, scores))
    np.testing.assert_allclose(found.marginals, right.marginals, rtol=0, atol=1e-13)
    found, right = (trees.expectation_gradient(trees.scores) for trees in (found, right))
    np.testing.assert_allclose(found, right, rtol=0, atol=1e-13)


# Many words


@each_root
@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0, 300.0, 1000.0])
def test_arc_marginals_of_three_hundred_words_sum_to_one(scale, single_root):
    scores = scaled(rng_for("three hundred", scale), 300, scale, holes=0.2)
    P = TreeDistribution(scores, single_root=single_root).marginals
    assert_marginals(P, np.isfinite(reference.clean(scores)), single_root)


@each_kind
@pytest.mark.parametrize("scale", [0.3, 2.0, 8.0])
def test_entropy_gradient_matches_finite_differences(scale, options):
    rng = rng_for("differences", scale)
    scores = scaled(rng, 25, scale, holes=0.2)
    got = -TreeDistribution(scores, **options).expectation_gradient(scores)
    step = 1e-5
    for _ in range(20):
        move = rng.standard_normal(scores.shape)
        ahead, behind = (
            TreeDistribution(scores + sign * step * move, **options).entropy() for sign in (1, -1)
        )
        numeric = (ahead - behind) / (2 * step)
        inside = got != 0
        assert (got * move)[inside].sum() == pytest.approx(numeric, rel=1e-6, abs=1e-7 * scale)


# Results are computed once, and kept


@pytest.fixture
def calls(monkeypatch):
    """Record calls of the kernel's sum: whether each goes backwards, for marginals."""
    made = []
    original = query_batch.sum_batch

    def sum_batch(*arguments, **options):
        made.append(options.get("marginals") is not None)
        return original(*arguments, **options)

    monkeypatch.setattr(query_batch, "sum_batch", sum_batch)
    return made


@pytest.mark.parametrize("shape", [(6, 6), (3, 6, 6)])
def test_one_elimination_answers_all_queries(shape, calls):
    """Probabilities of trees need no backward pass."""
    trees = TreeDistribution(np.zeros(shape))
    _ = trees.log_partition, trees.log_prob(trees.mode), trees.log_partition
    assert calls == [False]
    calls.clear()
    others = TreeDistribution(np.zeros(shape))
    for _ in range(2):
        _ = others.kl_divergence(trees), others.entropy(), others.marginals, others.log_partition
        _ = others.log_prob(trees.mode), others.kl_divergence(others)
    assert calls == [True]


@pytest.mark.parametrize("name", ["log_partition", "marginals", "entropy"])
def test_ctrl_c_in_the_kernel_leaves_nothing_half_done(name, monkeypatch):
    scores = rng_for("ctrl-c").normal(size=(5, 5))
    trees, original = TreeDistribution(scores), query_batch.sum_batch

    def sum_batch(*arguments, **options):
        arguments[3].fill(np.nan)
        raise KeyboardInterrupt

    monkeypatch.setattr(query_batch, "sum_batch", sum_batch)
    with pytest.raises(KeyboardInterrupt):
        result_of(trees, name)
    monkeypatch.setattr(query_batch, "sum_batch", original)
    expected = result_of(TreeDistribution(scores), name)
    np.testing.assert_array_equal(result_of(trees, name), expected)


def test_results_cannot_be_changed_through_what_is_returned():
    trees = TreeDistribution(np.zeros((2, 4, 4)))
    with pytest.raises(ValueError, match="read-only"):
        trees.marginals[:] = 7
    for name in ("log_partition", "entropy"):
        before = result_of(trees, name).copy()
        result_of(trees, name)[:] = 7
        np.testing.assert_array_equal(result_of(trees, name), before)


# Arguments


def test_divergence_refuses_other_sentences():
    batch = np.zeros((3, 5, 5))
    trees = TreeDistribution(batch, lengths=np.array([4, 3, 2]))
    query = trees.kl_divergence
    with pytest.raises(TypeError, match="TreeDistribution, received ndarray"):
        query(batch)
    with pytest.raises(ValueError, match=r"shape \(3, 5, 5\) .* received shape \(2, 5, 5\)"):
        query(TreeDistribution(batch[:2]))
    with pytest.raises(ValueError, match="distribution over all trees"):
        query(TreeDistribution(batch, lengths=np.array([4, 3, 2]), projective=True))
    for length in (4, 2):
        message = rf"lengths \[4 3 2\], received .* \[4 {length} 2\]"
        with pytest.raises(ValueError, match=message):
            query(TreeDistribution(batch, lengths=np.array([4, length, 2])))


@pytest.mark.parametrize("bad", [np.nan, INF, -INF])
def test_values_are_read_where_arcs_can_be(bad):
    scores = np.zeros((3, 4, 4))
    scores[1, 2, 3] = -INF
    query = TreeDistribution(scores).expectation_gradient
    values = np.ones(scores.shape)
    values[:, 0], values[1, 2, 3] = bad, bad
    values[:, np.arange(4), np.arange(4)] = bad
    np.testing.assert_allclose(query(values), 0, atol=1e-12)
    values[1, 2, 1] = bad
    with pytest.raises(ValueError, match=f"sentence 1: the value of dep 2, head 1 is {bad}"):
        query(values)


def test_values_of_other_kinds_are_refused():
    query = TreeDistribution(np.zeros((2, 4, 4))).expectation_gradient
    for shape in ((4, 4), (2, 4, 5), (1, 4, 4), (3, 3, 4, 4), (2,)):
        with pytest.raises(ValueError, match=r"shape of scores, \(2, 4, 4\), received"):
            query(np.zeros(shape))
    for values in ([[1.0]], None, np.ma.zeros((2, 4, 4))):
        with pytest.raises(TypeError, match="values as a numpy array"):
            query(values)
    for kind in (np.complex128, object, "U1"):
        with pytest.raises(TypeError, match="values as numbers, received dtype"):
            query(np.zeros((2, 4, 4)).astype(kind))
    for values in (np.ones((2, 4, 4), dtype=bool), rng_for("ints").integers(0, 9, (2, 4, 4))):
        np.testing.assert_array_equal(query(values), query(values.astype(float)))
    with pytest.raises(ValueError, match="the value of dep 1, head 0 is inf"):
        query(np.full((2, 4, 4), np.longdouble("1e4000")))
    # Two trees, whose sums are far apart.
    scores, large = np.zeros((2, 2, 4, 4))
    large[1, [1, 2, 3], [0, 1, 2]], large[1, [1, 2, 3], [2, 3, 0]] = 1.7e308, -1.7e308
    scores[1][large[1] == 0] = -INF
    with pytest.raises(ArithmeticError, match="sentence 1: products of its values overflow"):
        TreeDistribution(scores).expectation_gradient(large)


def test_log_prob_takes_several_trees_of_each_sentence():
    scores = scaled(rng_for("several"), 4, 1.0)
    heads, _ = decode_kbest(scores, 6)
    trees = TreeDistribution(scores)
    each = trees.log_prob(heads).tolist()
    batch = TreeDistribution(np.stack([scores, scores]))
    assert batch.log_prob(np.stack([heads, heads[::-1]])).tolist() == [each, each[::-1]]
    assert batch.log_prob(heads[:2]).tolist() == each[:2]
    assert trees.log_prob(heads[:0]).shape == (0,)
    # Without any heads of words: ROOT's place and padding mean nothing.
    assert np.isneginf(trees.log_prob(np.array([0, *[-1] * (heads.shape[1] - 1)])))
    assert batch.log_prob(np.empty((2, 0, 5), dtype=int)).shape == (2, 0)
    wrong = np.stack([heads, heads])
    wrong[1, 3, 2] = 9
    with pytest.raises(ValueError, match="sentence 1: word 2 has head 9, expected 0 to 4"):
        batch.log_prob(wrong)
    for shape in ((4,), (2, 2, 5), (3, 4)):
        with pytest.raises(ValueError, match=r"shape \(5,\) or \(k, 5\) for scores of shape"):
            trees.log_prob(np.zeros(shape, dtype=int))
    for shape in ((5,), (3, 5), (3, 2, 5), (2, 2, 2, 5)):
        with pytest.raises(ValueError, match=r"shape \(2, 5\) or \(2, k, 5\) for scores of shape"):
            batch.log_prob(np.zeros(shape, dtype=int))
