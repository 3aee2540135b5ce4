"""The losses over whole trees: against enumeration, finite differences, and autodiff."""

import functools
import math

import gradients
import numpy as np
import pytest
import reference
import reference_probabilities as oracle
from reference import FloatArray, IntArray
from strategies import each_dtype, rng_for
from thinc.api import Ops

from spacy_rootmind import NoTreeError, arc_marginals, decode, log_partition, tree_log_prob
from spacy_rootmind.network.layout import Bucket, Layout
from spacy_rootmind.training.losses import boundary_loss, perceptron, tree_crf
from spacy_rootmind.trees.conventions import MISSING

# Plain NumPy in double precision.
OPS = Ops()
LENGTHS = [3, 1, 5, 3, 4, 0, 2]

each_rate = pytest.mark.parametrize("rate", [0.0, 0.3, 0.7, 1.0])
each_loss = pytest.mark.parametrize("loss", [tree_crf, perceptron])


def make_buckets(lengths: list[int] = LENGTHS) -> list[Bucket]:
    """Lay out sentences of the given numbers of words."""
    return Layout.from_lengths(OPS, lengths).buckets


def random_scores(
    rng: np.random.Generator, bucket: Bucket, dtype: type = np.float64, scale: float = 1.0
) -> FloatArray:
    """Normal scores everywhere, the padding and the diagonal included."""
    return (scale * rng.standard_normal(bucket.allowed.shape)).astype(dtype)


def random_gold(rng: np.random.Generator, bucket: Bucket, rate: float = 0.0) -> IntArray:
    """Single-root trees, with heads missing at a rate."""
    gold = np.full(bucket.rows.shape, MISSING)
    for row, n in zip(gold, bucket.lengths.tolist(), strict=True):
        row[: n + 1] = reference.random_heads(rng, n, True)
        row[: n + 1][rng.random(n + 1) < rate] = MISSING
    return gold


def sentences(
    scores: FloatArray, bucket: Bucket, gold: IntArray
) -> list[tuple[FloatArray, IntArray]]:
    """Return each sentence's own scores and gold heads."""
    return [
        (scores[i, : n + 1, : n + 1], gold[i, : n + 1])
        for i, n in enumerate(bucket.lengths.tolist())
    ]


# Losses are smoother than networks, and have to be closer.
assert_directional = functools.partial(
    gradients.assert_directional, step=1e-5, directions=4, rel=1e-6
)


# Both


@each_loss
@each_dtype
@each_rate
def test_losses_return_a_float_and_a_gradient_of_the_scores_dtype(loss, dtype, rate):
    rng = rng_for("losses types", rate)
    for bucket in make_buckets():
        scores = random_scores(rng, bucket, dtype)
        value, gradient = loss(scores, bucket, random_gold(rng, bucket, rate))
        assert isinstance(value, float)
        assert value >= 0
        assert gradient.dtype == dtype
        assert gradient.shape == scores.shape
        assert np.isfinite(gradient).all()


@each_loss
@each_dtype
def test_losses_without_gold_heads_are_zero(loss, dtype):
    rng = rng_for("losses missing")
    for bucket in make_buckets():
        for scale in (1.0, 100.0):
            scores = random_scores(rng, bucket, dtype, scale)
            value, gradient = loss(scores, bucket, np.full(bucket.rows.shape, MISSING))
            assert value == 0.0
            assert not gradient.any()


@each_loss
@each_rate
def test_losses_gradient_moves_weight_among_the_heads_of_a_word(loss, rate):
    rng = rng_for("losses rows", rate)
    for bucket in make_buckets([*LENGTHS, 30, 31]):
        scores = random_scores(rng, bucket)
        _, gradient = loss(scores, bucket, random_gold(rng, bucket, rate))
        np.testing.assert_allclose(gradient.sum(axis=2), 0, rtol=0, atol=1e-11)
        # One root either way.
        np.testing.assert_allclose(gradient[:, :, 0].sum(axis=1), 0, rtol=0, atol=1e-11)
        assert not gradient[bucket.allowed == 0].any()
        assert (np.abs(gradient) <= 1 + 1e-12).all()


@each_loss
def test_losses_gradient_points_from_gold_arcs(loss):
    rng = rng_for("losses signs")
    for bucket in make_buckets():
        scores, gold = random_scores(rng, bucket), random_gold(rng, bucket, 0.3)
        _, gradient = loss(scores, bucket, gold)
        known = gold != MISSING
        known[:, 0] = False
        sentence, dep = known.nonzero()
        at_gold = np.zeros(gradient.shape, dtype=bool)
        at_gold[sentence, dep, gold[sentence, dep]] = True
        assert (gradient[at_gold] <= 1e-12).all()
        others = known[:, :, None] & ~at_gold
        assert (gradient[others] >= -1e-12).all()


@each_loss
def test_losses_ignore_what_means_nothing(loss):
    rng = rng_for("losses junk")
    for bucket in make_buckets([2, 5, 4, 0]):
        scores, gold = random_scores(rng, bucket), random_gold(rng, bucket, 0.3)
        value, gradient = loss(scores, bucket, gold)
        outside = bucket.allowed == 0
        for junk in (0.0, 1e4, -1e4):
            changed = np.where(outside, junk, scores)
            again, same = loss(changed, bucket, gold)
            assert again == value
            np.testing.assert_array_equal(same, gradient)


@each_loss
def test_losses_add_up_over_sentences(loss):
    rng = rng_for("losses sum")
    bucket = make_buckets([4, 5, 6, 4, 5])[0]
    scores, gold = random_scores(rng, bucket), random_gold(rng, bucket, 0.4)
    value, gradient = loss(scores, bucket, gold)
    total = 0.0
    for i, n in enumerate(bucket.lengths.tolist()):
        (one,) = make_buckets([n])
        part, its = loss(scores[i : i + 1, : n + 1, : n + 1], one, gold[i : i + 1, : n + 1])
        np.testing.assert_array_equal(its[0], gradient[i, : n + 1, : n + 1])
        total += part
    assert value == pytest.approx(total, rel=1e-12)


@each_loss
def test_losses_leave_their_input_alone(loss):
    rng = rng_for("losses input")
    for bucket in make_buckets():
        scores, gold = random_scores(rng, bucket), random_gold(rng, bucket, 0.3)
        before = scores.tobytes(), gold.tobytes(), bucket.lengths.tobytes()
        _, gradient = loss(scores, bucket, gold)
        assert not np.shares_memory(gradient, scores)
        assert (scores.tobytes(), gold.tobytes(), bucket.lengths.tobytes()) == before


@each_loss
@pytest.mark.parametrize(
    "heads",
    [
        [MISSING, 2, 1, MISSING],
        [MISSING, 2, 3, 1],
        [MISSING, 0, 0, MISSING],
        [MISSING, 0, 1, 0],
        [MISSING, MISSING, 3, 2],
    ],
    ids=["cycle", "cycle_of_three", "two_roots", "two_roots_known", "cycle_of_last"],
)
def test_losses_refuse_gold_heads_that_contradict_each_other(loss, heads):
    for scores in (np.zeros((2, 4, 4)), np.zeros((2, 4, 4), dtype="f")):
        (bucket,) = make_buckets([3, 3])
        gold = np.array([[MISSING, 2, 0, 2], heads])
        with pytest.raises(NoTreeError):
            loss(scores, bucket, gold)
        assert issubclass(NoTreeError, ValueError)


@each_loss
def test_losses_of_one_word_are_zero(loss):
    (bucket,) = make_buckets([1, 1])
    for gold in ([[MISSING, 0], [MISSING, MISSING]], [[MISSING, 0], [MISSING, 0]]):
        value, gradient = loss(rng_for("one").normal(size=(2, 2, 2)), bucket, np.array(gold))
        assert value == 0.0
        assert not gradient.any()


# Tree CRF


@pytest.mark.one_each("scale", "rate")
@each_dtype
@each_rate
@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0, 100.0])
def test_tree_crf_matches_enumeration(scale, rate, dtype):
    rng = rng_for("crf", scale, rate)
    for bucket in make_buckets():
        scores = random_scores(rng, bucket, dtype, scale)
        gold = random_gold(rng, bucket, rate)
        loss, gradient = tree_crf(scores, bucket, gold)
        expected = 0.0
        right = np.zeros(scores.shape)
        for i, (own, heads) in enumerate(sentences(scores, bucket, gold)):
            free = oracle.enumerated(own, True)
            expected += float(free.log_partition - oracle.constrained_log_partition(own, heads))
            bound = oracle.enumerated(oracle.agreeing(own, heads), True)
            right[i, : len(own), : len(own)] = free.marginals - bound.marginals
        assert loss == pytest.approx(expected, rel=1e-12, abs=1e-11 * max(1.0, scale))
        atol = 1e-11 if dtype == np.float64 else 1e-6
        np.testing.assert_allclose(gradient, right, rtol=0, atol=atol)


@each_rate
def test_tree_crf_gradient_matches_finite_differences(rate):
    rng = rng_for("crf gradient", rate)
    for bucket in make_buckets([*LENGTHS, 12]):
        scores, gold = random_scores(rng, bucket), random_gold(rng, bucket, rate)
        _, gradient = tree_crf(scores, bucket, gold)

        def total(scores=scores, bucket=bucket, gold=gold):
            return tree_crf(scores, bucket, gold)[0]

        assert_directional(total, scores, gradient, rng)


@each_dtype
def test_tree_crf_of_whole_trees_is_minus_their_log_probability(dtype):
    rng = rng_for("crf whole")
    for bucket in make_buckets([*LENGTHS, 20, 21]):
        scores, gold = random_scores(rng, bucket, dtype, 3.0), random_gold(rng, bucket)
        loss, gradient = tree_crf(scores, bucket, gold)
        log_probs = tree_log_prob(scores, gold, lengths=bucket.lengths)
        assert loss == pytest.approx(-log_probs.sum(), rel=1e-12, abs=1e-11)
        expected = arc_marginals(scores, lengths=bucket.lengths)
        for i, n in enumerate(bucket.lengths.tolist()):
            expected[i, np.arange(1, n + 1), gold[i, 1 : n + 1]] -= 1
        atol = 1e-11 if dtype == np.float64 else 1e-6
        np.testing.assert_allclose(gradient, expected, rtol=0, atol=atol)


def test_tree_crf_of_zero_scores_counts_trees_that_agree():
    (bucket,) = make_buckets([4])
    scores = np.zeros((1, 5, 5))
    trees = reference.enumerate_trees(4, True)
    for partial in ([2, MISSING, MISSING, MISSING], [MISSING, 0, MISSING, 1], [2, 0, 2, 1]):
        gold = np.array([[MISSING, *partial]])
        agree = ((trees == gold) | (gold == MISSING))[:, 1:].all(axis=1).sum()
        expected = math.log(len(trees) / agree)
        assert tree_crf(scores, bucket, gold)[0] == pytest.approx(expected, abs=1e-12)


def test_tree_crf_grows_with_what_is_known():
    rng = rng_for("crf grows")
    bucket = make_buckets([8])[0]
    scores, gold = random_scores(rng, bucket), random_gold(rng, bucket)
    known = np.full(gold.shape, MISSING)
    last = 0.0
    for dep in rng.permutation(np.arange(1, 9)):
        known[0, dep] = gold[0, dep]
        loss = tree_crf(scores, bucket, known)[0]
        assert loss >= last - 1e-12
        last = loss


def test_tree_crf_vanishes_where_the_model_is_sure_and_right():
    rng = rng_for("crf sure")
    for bucket in make_buckets([*LENGTHS, 30]):
        scores, gold = random_scores(rng, bucket), random_gold(rng, bucket)
        for i, n in enumerate(bucket.lengths.tolist()):
            scores[i, np.arange(1, n + 1), gold[i, 1 : n + 1]] += 1000
        loss, gradient = tree_crf(scores, bucket, gold)
        assert 0 <= loss <= 1e-9
        assert np.abs(gradient).max(initial=0) <= 1e-12


@each_dtype
def test_tree_crf_stays_exact_where_the_model_is_sure_and_wrong(dtype):
    # Both words are sure of each other, and gold needs them apart.
    (bucket,) = make_buckets([3])
    scores = np.full((1, 4, 4), -800.0, dtype=dtype)
    scores[0, 1, 2] = scores[0, 2, 1] = 0
    scores[0, 3] = -1.0, 0.5, 0.25, 0
    gold = np.array([[MISSING, 3, 0, 2]])
    loss, gradient = tree_crf(scores, bucket, gold)
    right = oracle.enumerated(scores[0], True)
    assert loss == pytest.approx(-float(right.log_prob(scores[0], gold[0])), rel=1e-12)
    expected = right.marginals.copy()
    expected[[1, 2, 3], gold[0, 1:]] -= 1
    np.testing.assert_allclose(gradient[0], expected, rtol=0, atol=1e-6)


def test_tree_crf_descends_to_the_gold_tree():
    rng = rng_for("crf descent")
    for bucket in make_buckets([6, 7, 5]):
        scores, gold = random_scores(rng, bucket, np.float32), random_gold(rng, bucket)
        first, _ = tree_crf(scores, bucket, gold)
        for _ in range(200):
            _, gradient = tree_crf(scores, bucket, gold)
            scores -= gradient
        assert tree_crf(scores, bucket, gold)[0] < 0.1 * first
        np.testing.assert_array_equal(decode(scores, lengths=bucket.lengths), gold)


@each_dtype
def test_tree_crf_matches_autodiff_of_the_log_determinant(dtype):
    torch = pytest.importorskip("torch")
    rng = rng_for("crf torch")
    for n in (1, 2, 5, 12, 30):
        (bucket,) = make_buckets([n])
        scores, gold = random_scores(rng, bucket, dtype), random_gold(rng, bucket)
        loss, gradient = tree_crf(scores, bucket, gold)
        variable = torch.tensor(scores[0].astype(np.float64), requires_grad=True)
        weights = torch.exp(variable[1:])
        words = weights[:, 1:] * (1 - torch.eye(n, dtype=torch.float64))
        laplacian = torch.diag(words.sum(dim=1)) - words
        laplacian = torch.cat([weights[:, :1], laplacian[:, 1:]], dim=1)
        arcs = variable[torch.arange(1, n + 1), torch.tensor(gold[0, 1:])]
        expected = torch.linalg.slogdet(laplacian)[1] - arcs.sum()
        expected.backward()
        assert loss == pytest.approx(expected.item(), rel=1e-10, abs=1e-10)
        atol = 1e-10 if dtype == np.float64 else 1e-6
        np.testing.assert_allclose(gradient[0], variable.grad.numpy(), rtol=0, atol=atol)


# Perceptron


def best_by_enumeration(
    scores: FloatArray, heads: IntArray, margin: float
) -> tuple[float, IntArray, IntArray]:
    """Return the loss of one sentence, its costly tree and its best tree that agrees."""
    n = len(scores) - 1
    trees = reference.enumerate_trees(n, True)
    totals = reference.enumerate_scores(scores, True)
    known = (heads != MISSING) & (np.arange(n + 1) > 0)
    wrong = ((trees != heads) & known).sum(axis=1)
    costly = int((totals + margin * wrong).argmax())
    agreeing = int(np.where(wrong == 0, totals, -np.inf).argmax())
    loss = totals[costly] + margin * wrong[costly] - totals[agreeing]
    return float(loss), trees[costly], trees[agreeing]


@pytest.mark.one_each("margin", "rate")
@each_dtype
@each_rate
@pytest.mark.parametrize("margin", [0.0, 0.5, 1.0, 100.0])
def test_perceptron_matches_enumeration(margin, rate, dtype):
    rng = rng_for("perceptron", rate, margin)
    for bucket in make_buckets(LENGTHS * 3):
        scores, gold = random_scores(rng, bucket, dtype), random_gold(rng, bucket, rate)
        loss, gradient = perceptron(scores, bucket, gold, margin)
        expected = 0.0
        right = np.zeros(scores.shape)
        for i, (own, heads) in enumerate(sentences(scores, bucket, gold)):
            part, costly, agreeing = best_by_enumeration(own, heads, margin)
            words = np.arange(1, len(own))
            right[i, words, costly[1:]] += 1
            right[i, words, agreeing[1:]] -= 1
            expected += part
        accuracy = 1e-12 if dtype == np.float64 else 1e-5
        assert loss == pytest.approx(expected, rel=accuracy, abs=accuracy)
        np.testing.assert_array_equal(gradient, right)


@each_rate
@pytest.mark.parametrize("margin", [0.0, 0.7])
def test_perceptron_gradient_matches_finite_differences(margin, rate):
    rng = rng_for("perceptron gradient", rate)
    for bucket in make_buckets([*LENGTHS, 12]):
        scores, gold = random_scores(rng, bucket), random_gold(rng, bucket, rate)
        _, gradient = perceptron(scores, bucket, gold, margin)

        def total(scores=scores, bucket=bucket, gold=gold):
            return perceptron(scores, bucket, gold, margin)[0]

        assert_directional(total, scores, gradient, rng)


@each_dtype
def test_perceptron_is_zero_where_the_best_tree_agrees(dtype):
    rng = rng_for("perceptron agrees")
    for bucket in make_buckets([*LENGTHS, 25]):
        scores = random_scores(rng, bucket, dtype)
        gold = decode(scores, lengths=bucket.lengths).astype(np.int64)
        for rate in (0.0, 0.5):
            known = np.where(rng.random(gold.shape) < rate, MISSING, gold)
            loss, gradient = perceptron(scores, bucket, known)
            assert loss == 0.0
            assert not gradient.any()


def test_perceptron_margin_is_asked_of_known_words_only():
    (bucket,) = make_buckets([2])
    scores = np.zeros((1, 3, 3))
    scores[0, 1, 0] = 1.0
    # The tree 1 below ROOT wins by 1; the other one has two wrong arcs where both are known.
    for gold, margin, expected in (
        ([MISSING, 0, 1], 0.25, 0.0),
        ([MISSING, 0, 1], 2.0, 3.0),
        ([MISSING, 0, MISSING], 2.0, 1.0),
        ([MISSING, MISSING, MISSING], 2.0, 0.0),
        ([MISSING, 2, 0], 0.0, 1.0),
        ([MISSING, 2, 0], 0.5, 2.0),
    ):
        loss, gradient = perceptron(scores, bucket, np.array([gold]), margin)
        assert loss == pytest.approx(expected, abs=1e-12)
        assert gradient.any() == (expected > 0)


def test_perceptron_margin_is_zero_by_default():
    rng = rng_for("perceptron default")
    for bucket in make_buckets():
        scores, gold = random_scores(rng, bucket), random_gold(rng, bucket)
        loss, gradient = perceptron(scores, bucket, gold)
        again, same = perceptron(scores, bucket, gold, margin=0.0)
        assert loss == again
        np.testing.assert_array_equal(gradient, same)


@pytest.mark.parametrize("rate", [0.0, 0.5])
def test_perceptron_is_never_negative(rate):
    rng = rng_for("perceptron negative", rate)
    for scale in (1e-30, 1e-3, 1.0, 1e3, 1e15):
        for bucket in make_buckets([1, 3, 7, 20, 40]):
            for dtype in (np.float32, np.float64):
                scores = random_scores(rng, bucket, dtype, scale)
                assert perceptron(scores, bucket, random_gold(rng, bucket, rate))[0] >= 0
                # Sums of the same scores in another order must not come out below zero.
                ties = np.full(scores.shape, 0.1, dtype=dtype)
                assert perceptron(ties, bucket, random_gold(rng, bucket, rate), 0.1)[0] >= 0


def test_perceptron_bounds_what_tree_crf_loses():
    # The best tree outweighs gold by the perceptron's loss; all trees do by more.
    rng = rng_for("perceptron crf")
    for bucket in make_buckets([*LENGTHS, 15]):
        scores, gold = random_scores(rng, bucket, np.float64, 3.0), random_gold(rng, bucket)
        assert perceptron(scores, bucket, gold)[0] <= tree_crf(scores, bucket, gold)[0] + 1e-11


def test_perceptron_learns_the_gold_trees():
    rng = rng_for("perceptron learns")
    for bucket in make_buckets([6, 7, 5]):
        scores, gold = random_scores(rng, bucket, np.float32), random_gold(rng, bucket)
        for _ in range(200):
            loss, gradient = perceptron(scores, bucket, gold, margin=1.0)
            if loss == 0:
                break
            scores -= 0.1 * gradient
        np.testing.assert_array_equal(decode(scores, lengths=bucket.lengths), gold)
        assert math.isfinite(log_partition(scores, lengths=bucket.lengths).sum())


# Sentence starts


def boundary_loss_by_loop(scores: FloatArray, truths: IntArray) -> float:
    """Add up -log of the sigmoid of each known answer, in its stable form."""
    total = []
    for score, truth in zip(scores.tolist(), truths.tolist(), strict=True):
        if truth != MISSING:
            right = score if truth == 1 else -score
            total.append(math.log1p(math.exp(-abs(right))) + max(-right, 0.0))
    return math.fsum(total)


@each_dtype
@pytest.mark.parametrize("n", [0, 1, 50])
def test_boundary_loss_matches_a_plain_loop(n, dtype):
    rng = rng_for("boundary loss", n)
    for scale in (1e-3, 1.0, 30.0):
        scores = (scale * rng.standard_normal(n)).astype(dtype)
        truths = rng.integers(-1, 2, size=n)
        loss, gradient = boundary_loss(scores, truths)
        assert isinstance(loss, float)
        assert loss == pytest.approx(boundary_loss_by_loop(scores, truths), rel=1e-5, abs=1e-5)
        assert gradient.dtype == dtype
        assert gradient.shape == (n,)
        # The gradient is the probability of a start, less the truth.
        for each, score, truth in zip(
            gradient.tolist(), scores.tolist(), truths.tolist(), strict=True
        ):
            expected = 0.0 if truth == MISSING else 0.5 * (1 + math.tanh(score / 2)) - truth
            assert each == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_boundary_loss_gradient_matches_finite_differences():
    rng = rng_for("boundary gradient")
    scores, truths = rng.normal(size=30), rng.integers(-1, 2, size=30)
    _, gradient = boundary_loss(scores, truths)
    assert_directional(lambda: boundary_loss(scores, truths)[0], scores, gradient, rng)


@each_dtype
def test_boundary_loss_of_unknown_tokens_is_zero(dtype):
    rng = rng_for("boundary unknown")
    scores = (100 * rng.standard_normal(20)).astype(dtype)
    loss, gradient = boundary_loss(scores, np.full(20, MISSING))
    assert loss == 0.0
    assert not gradient.any()
    # Next to known ones they change nothing.
    truths = np.where(np.arange(20) % 3 == 0, 1, MISSING)
    loss, gradient = boundary_loss(scores, truths)
    assert loss == pytest.approx(boundary_loss(scores[::3], truths[::3])[0], rel=1e-6)
    assert not gradient[truths == MISSING].any()


@each_dtype
@pytest.mark.parametrize("size", [1e2, 1e4, 1e30])
def test_boundary_loss_of_large_scores_is_finite(size, dtype):
    scores = np.array([size, -size, size, -size, size, -size], dtype=dtype)
    loss, gradient = boundary_loss(scores, np.array([1, 0, 0, 1, MISSING, MISSING]))
    assert loss == pytest.approx(2 * size, rel=1e-6)
    np.testing.assert_allclose(gradient, [0, 0, 1, -1, 0, 0], atol=1e-30)


def test_boundary_loss_leaves_its_inputs_alone():
    scores, truths = np.array([1.0, -2.0, 3.0]), np.array([1, MISSING, 0])
    for array in (scores, truths):
        array.setflags(write=False)
    boundary_loss(scores, truths)
    assert scores.tolist() == [1.0, -2.0, 3.0]
