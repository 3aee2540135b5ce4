"""Padding, packing and bucketing change nothing but speed."""

import numpy as np
import pytest
from thinc.api import NumpyOps

from spacy_rootmind.network import distance
from spacy_rootmind.network.arc_scorer import BiaffineArcs
from spacy_rootmind.network.dropout import RATE, sentence_dropout
from spacy_rootmind.network.layout import MAX_BUCKET_SCORES, Layout
from spacy_rootmind.network.qrnn import QRNN
from spacy_rootmind.network.refine import Refine, softmax_heads

OPS = NumpyOps()
LENGTHS = [3, 1, 7, 3, 12, 0, 40, 41, 2]


@pytest.fixture
def rng():
    return np.random.default_rng(3)


@pytest.fixture
def layout():
    return Layout.from_lengths(OPS, LENGTHS)


def sentence_rows(layout, i):
    start = int(layout.roots[i])
    return slice(start, start + int(layout.lengths[i]) + 1)


def test_layout_places_every_row_once(layout):
    rows = np.concatenate([bucket.inside[1] for bucket in layout.buckets])
    assert sorted(rows.tolist()) == list(range(sum(LENGTHS) + len(LENGTHS)))
    assert sorted(np.concatenate([layout.roots, layout.words]).tolist()) == sorted(rows.tolist())
    assert sorted(s for bucket in layout.buckets for s in bucket.sentences) == list(range(9))


def test_layout_bounds_padding_and_bucket_size():
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 200, size=2000).tolist()
    layout = Layout.from_lengths(OPS, lengths)
    padded = sum(bucket.rows.size for bucket in layout.buckets)
    assert padded <= 1.25 * layout.n_rows
    for bucket in layout.buckets:
        b, m = bucket.rows.shape
        assert b == 1 or b * m * m <= MAX_BUCKET_SCORES


def test_short_sentences_are_not_padded_to_a_long_one():
    layout = Layout.from_lengths(OPS, [1] * 50 + [100])
    assert sum(bucket.rows.size for bucket in layout.buckets) == layout.n_rows


def test_pad_and_unpad_are_inverse(layout, rng):
    flat = rng.normal(size=(layout.n_rows, 4)).astype("f")
    back = np.zeros_like(flat)
    for bucket, device_bucket in zip(layout.buckets, layout.on_device.buckets, strict=True):
        padded = device_bucket.pad(flat)
        assert not padded[bucket.rows == layout.n_rows].any()
        device_bucket.add_unpadded(padded, back)
    np.testing.assert_array_equal(back, flat)


def test_distance_buckets_cover_both_sides():
    deps, heads = np.meshgrid(np.arange(1, 50), np.arange(1, 50), indexing="ij")
    buckets = distance.bucket_of(deps, heads)
    assert buckets.min() >= 1
    assert buckets.max() == distance.N_BUCKETS - 1
    different = deps != heads
    assert (buckets != buckets.T)[different].all()
    # Direct neighbours have buckets of their own.
    assert (buckets == buckets[1, 2])[heads - deps == 1].all()
    assert not (buckets == buckets[1, 2])[heads - deps == 2].any()
    assert (distance.bucket_of(np.arange(1, 9), np.zeros(8, int)) == distance.ROOT_BUCKET).all()


@pytest.mark.parametrize("over_heads", [True, False])
@pytest.mark.parametrize("m", [1, 2, 5, 60])
def test_distance_spread_and_collect_match_plain_loops(rng, m, over_heads):
    by_bucket = rng.normal(size=(2, m, distance.N_BUCKETS))
    scores = rng.normal(size=(2, m, m))
    scores[:, 0] = 0.0
    scores[:, np.arange(m), np.arange(m)] = 0.0
    spread = distance.spread(by_bucket, distance.bucket_table(m), over_heads=over_heads)
    expected = np.zeros_like(by_bucket)
    for dep in range(1, m):
        for head in range(m):
            if head != dep:
                q = int(distance.bucket_of(np.array(dep), np.array(head)))
                own = dep if over_heads else head
                np.testing.assert_array_equal(spread[:, dep, head], by_bucket[:, own, q])
                expected[:, own, q] += scores[:, dep, head]
    ranges = distance.sum_ranges(m, over_heads)
    collected = distance.collect(scores, ranges, over_heads=over_heads)
    np.testing.assert_allclose(collected, expected, atol=1e-12)


def test_softmax_heads_gives_distributions_over_allowed_heads(layout, rng):
    for bucket in layout.on_device.buckets:
        scores = (rng.normal(size=bucket.allowed.shape) * 50).astype("f")
        probs = softmax_heads(scores, bucket)
        assert not probs[bucket.allowed == 0].any()
        has_head = bucket.allowed.any(axis=2)
        np.testing.assert_allclose(probs.sum(axis=2)[has_head], 1.0, rtol=1e-5)
        assert not probs[~has_head].any()


def test_layers_give_each_sentence_what_it_gets_alone(layout, rng):
    width = 8
    rows = rng.normal(size=(layout.n_rows, width)).astype("f")
    context, arcs, refine = (
        QRNN(6, 0.3, nI=width),
        BiaffineArcs(6, 0.3, nI=width),
        Refine(0.3, nI=width),
    )
    for layer in (context, arcs, refine):
        layer.initialize()
    read = context.predict((rows, layout))
    scores = arcs.predict((read, layout))
    refined = refine.predict((read, scores, layout))
    place = {
        s: (b, i) for b, bucket in enumerate(layout.buckets) for i, s in enumerate(bucket.sentences)
    }
    for s, n in enumerate(LENGTHS):
        part = sentence_rows(layout, s)
        alone = Layout.from_lengths(OPS, [n])
        read_alone = context.predict((rows[part], alone))
        scores_alone = arcs.predict((read_alone, alone))
        np.testing.assert_allclose(read[part], read_alone, atol=1e-5)
        b, i = place[s]
        np.testing.assert_allclose(
            scores[b][i, 1 : n + 1, : n + 1], scores_alone[0][0, 1:], atol=1e-4
        )
        np.testing.assert_allclose(
            refined[part], refine.predict((read_alone, scores_alone, alone)), atol=1e-4
        )


def test_dropout_masks_are_alike_within_a_sentence_and_for_training_alone(layout):
    model = BiaffineArcs(6, 0.5, nI=4)
    ones = np.ones((layout.n_rows, 100), dtype="f")
    mask, backprop = sentence_dropout(model, layout, ones, is_train=True)
    np.testing.assert_array_equal(backprop(ones), mask)
    for s in range(len(LENGTHS)):
        inside = mask[sentence_rows(layout, s)]
        assert (inside == inside[0]).all()
    assert set(np.unique(mask).tolist()) == {0.0, 2.0}
    assert (mask[sentence_rows(layout, 0)][0] != mask[sentence_rows(layout, 2)][0]).any()
    assert sentence_dropout(model, layout, ones, is_train=False)[0] is ones
    model.attrs[RATE] = 0.0
    assert sentence_dropout(model, layout, ones, is_train=True)[0] is ones
