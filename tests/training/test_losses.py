"""The losses of batches, against finite differences; `tests/trees` has their oracles."""

import functools
import math

import gradients
import numpy as np
import pytest
import reference
from reference import FloatArray, IntArray
from strategies import each_dtype, rng_for
from thinc.api import Ops

from spacy_rootmind.network.layout import Bucket, Layout
from spacy_rootmind.training.losses import (
    OBJECTIVES,
    boundary_loss,
    choose_loss,
)
from spacy_rootmind.trees.conventions import MISSING

# Plain NumPy in double precision.
OPS = Ops()
LENGTHS = [3, 1, 5, 3, 4, 0, 2]

each_rate = pytest.mark.parametrize("rate", [0.0, 0.3, 0.7, 1.0])


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


# Losses are smoother than networks, and have to be closer.
assert_directional = functools.partial(
    gradients.assert_directional, step=1e-5, directions=4, rel=1e-6
)


@each_rate
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_gradients_match_finite_differences(objective, rate):
    rng, find = rng_for("gradients", objective, rate), choose_loss(objective, margin=0.7)
    for bucket in make_buckets([*LENGTHS, 12]):
        scores, gold = random_scores(rng, bucket), random_gold(rng, bucket, rate)
        loss, gradient = find(scores, bucket, gold)
        assert rate < 1.0 or (loss == 0.0 and not gradient.any())

        def total(scores=scores, bucket=bucket, gold=gold):
            return find(scores, bucket, gold)[0]

        assert_directional(total, scores, gradient, rng)


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
        for array in (scores, truths):
            array.setflags(write=False)
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


@each_dtype
@pytest.mark.parametrize("size", [1e2, 1e4, 1e30])
def test_boundary_loss_of_large_scores_is_finite(size, dtype):
    scores = np.array([size, -size, size, -size, size, -size], dtype=dtype)
    loss, gradient = boundary_loss(scores, np.array([1, 0, 0, 1, MISSING, MISSING]))
    assert loss == pytest.approx(2 * size, rel=1e-6)
    np.testing.assert_allclose(gradient, [0, 0, 1, -1, 0, 0], atol=1e-30)
