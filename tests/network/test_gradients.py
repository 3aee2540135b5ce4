"""Every layer's backward pass against finite differences, in float64."""

import numpy as np
import pytest
from gradients import OPS, assert_directional, assert_parameters, in_double

from spacy_rootmind.network.arc_scorer import BiaffineArcs
from spacy_rootmind.network.label_scorer import BiaffineLabels
from spacy_rootmind.network.layout import Layout
from spacy_rootmind.network.qrnn import QRNN
from spacy_rootmind.network.refine import Refine

WIDTH = 6
LENGTHS = [3, 1, 7, 3, 12, 0]


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture
def layout():
    return Layout.from_lengths(OPS, LENGTHS)


def weights_like(scores, layout, rng):
    """Random weights on the entries that mean something."""
    return [
        rng.normal(size=S.shape) * bucket.allowed
        for S, bucket in zip(scores, layout.buckets, strict=True)
    ]


def test_arcs_gradient_matches_finite_differences(rng, layout):
    model = in_double(BiaffineArcs(5, 0.0, nI=WIDTH), rng)
    rows = rng.normal(size=(layout.n_rows, WIDTH))
    scores, backprop = model.begin_update((rows, layout))
    weights = weights_like(scores, layout, rng)
    d_rows = backprop(weights)

    def total():
        scores = model.predict((rows, layout))
        return sum((S * W).sum() for S, W in zip(scores, weights, strict=True))

    assert_directional(total, rows, d_rows, rng)
    assert_parameters(model, total, rng)


def test_arcs_gradient_ignores_what_means_nothing(rng, layout):
    model = in_double(BiaffineArcs(5, 0.0, nI=WIDTH), rng)
    rows = rng.normal(size=(layout.n_rows, WIDTH))
    scores, backprop = model.begin_update((rows, layout))
    noise = [rng.normal(size=S.shape) for S in scores]
    inside = [W * b.allowed for W, b in zip(noise, layout.buckets, strict=True)]
    np.testing.assert_array_equal(backprop(noise), backprop(inside))


def test_refine_gradient_matches_finite_differences(rng, layout):
    model = in_double(Refine(0.0, nI=WIDTH), rng)
    rows = rng.normal(size=(layout.n_rows, WIDTH))
    scores = [rng.normal(size=bucket.allowed.shape) for bucket in layout.buckets]
    weights = rng.normal(size=rows.shape)
    _, backprop = model.begin_update((rows, scores, layout))
    d_rows, d_scores = backprop(weights)

    def total():
        return (model.predict((rows, scores, layout)) * weights).sum()

    assert_directional(total, rows, d_rows, rng)
    for S, dS in zip(scores, d_scores, strict=True):
        assert_directional(total, S, dS, rng)
    assert_parameters(model, total, rng)


@pytest.mark.parametrize("rank", [None, 2])
def test_labels_gradient_matches_finite_differences(rng, layout, rank):
    model = in_double(BiaffineLabels(4, 0.0, rank=rank, nO=3, nI=WIDTH), rng)
    rows = rng.normal(size=(layout.n_rows, WIDTH))
    # Several dependents of one head, so that its gradients have to add up.
    heads = layout.roots[layout.sentence_of_row[layout.words]]
    heads[::2] += 1
    arcs = layout.words, heads
    weights = rng.normal(size=(len(heads), 3))
    _, backprop = model.begin_update((rows, layout, *arcs))
    d_rows = backprop(weights)

    def total():
        return (model.predict((rows, layout, *arcs)) * weights).sum()

    assert_directional(total, rows, d_rows, rng)
    assert_parameters(model, total, rng)


def test_recurrent_gradient_matches_finite_differences(rng, layout):
    model = in_double(QRNN(5, 0.0, nI=WIDTH), rng)
    rows = rng.normal(size=(layout.n_rows, WIDTH))
    weights = rng.normal(size=rows.shape)
    _, backprop = model.begin_update((rows, layout))
    d_rows = backprop(weights)

    def total():
        return (model.predict((rows, layout)) * weights).sum()

    assert_directional(total, rows, d_rows, rng)
    assert_parameters(model, total, rng)
