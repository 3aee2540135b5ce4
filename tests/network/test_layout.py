"""Buckets of sentences with little padding, and the distances of their arcs."""

import numpy as np
import pytest

from spacy_rootmind.network import distance
from spacy_rootmind.network.layout import MAX_BUCKET_SCORES, Layout


@pytest.fixture
def rng():
    return np.random.default_rng(3)


@pytest.mark.parametrize(
    ("lengths", "most"),
    [
        (np.random.default_rng(0).integers(1, 200, size=2000).tolist(), 1.25),
        # Short sentences are not padded to a long one.
        ([1] * 50 + [100], 1.0),
    ],
    ids=["many", "one long"],
)
def test_layout_bounds_padding_and_bucket_size(lengths, most):
    layout = Layout.from_lengths(lengths)
    assert sum(bucket.rows.size for bucket in layout.buckets) <= most * layout.n_rows
    for bucket in layout.buckets:
        b, m = bucket.rows.shape
        assert b == 1 or b * m * m <= MAX_BUCKET_SCORES


def test_distance_buckets_cover_both_sides():
    deps, heads = np.meshgrid(np.arange(1, 50), np.arange(1, 50), indexing="ij")
    buckets = distance.bucket_of(deps, heads)
    assert buckets.min() >= 1
    assert buckets.max() == distance.N_BUCKETS - 1
    different = deps != heads
    assert (buckets != buckets.T)[different].all()
    # Direct neighbours have buckets of their own.
    assert ((buckets == buckets[1, 2]) == (heads - deps == 1))[different].all()
    assert (distance.bucket_of(np.arange(1, 9), np.zeros(8, int)) == distance.ROOT_BUCKET).all()


@pytest.mark.parametrize("over_heads", [True, False])
@pytest.mark.parametrize("m", [1, 2, 5, 60, 300])
def test_sums_by_distance_match_plain_loops(rng, m, over_heads):
    scores = rng.normal(size=(2, m, m))
    scores[:, 0] = 0.0
    scores[:, np.arange(m), np.arange(m)] = 0.0
    expected = np.zeros((2, m, distance.N_BUCKETS))
    for dep in range(1, m):
        buckets = distance.bucket_of(np.full(m, dep), np.arange(m)).tolist()
        for head in set(range(m)) - {dep}:
            expected[:, dep if over_heads else head, buckets[head]] += scores[:, dep, head]
    [bucket] = Layout.from_lengths([m - 1]).buckets
    collected = distance.collect(scores, bucket.distances, over_heads=over_heads)
    np.testing.assert_allclose(collected, expected, atol=1e-12)
