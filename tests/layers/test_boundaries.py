"""The layer that finds sentence starts: against plain loops, finite differences, neighbours."""

import numpy as np
import pytest
from gradients import assert_directional, assert_parameters, in_double
from thinc.api import NumpyOps

from spacy_rootmind.layers.boundaries import WINDOW, SentenceStarts

WIDTH = 5
LENGTHS = [3, 1, 0, 7, 0, 0, 2, 1]


@pytest.fixture
def rng():
    return np.random.default_rng(11)


@pytest.fixture
def model(rng):
    return in_double(SentenceStarts(4, nI=WIDTH), rng)


def random_vectors(rng, lengths=LENGTHS):
    return [rng.normal(size=(n, WIDTH)) for n in lengths]


def split(flat, lengths):
    return np.split(flat, np.cumsum(lengths)[:-1])


def windows_by_loops(own):
    """Each token's vector between its neighbours', zeros beyond the Doc's ends."""
    rows = []
    for i in range(len(own)):
        seen = [
            own[j] if 0 <= j < len(own) else np.zeros(WIDTH)
            for j in range(i - WINDOW, i + WINDOW + 1)
        ]
        rows.append(np.concatenate(seen))
    return np.array(rows).reshape((len(own), WIDTH * (2 * WINDOW + 1)))


def test_scores_are_those_of_windows_by_loops(model, rng):
    vectors = random_vectors(rng)
    mlp = model.layers[0]
    expected = np.concatenate(
        [mlp.predict(windows_by_loops(own)).ravel() for own in vectors if len(own)]
    )
    scores = model.predict(vectors)
    assert scores.shape == (sum(LENGTHS),)
    np.testing.assert_allclose(scores, expected, rtol=1e-12)


def test_scores_of_a_doc_are_alike_whatever_its_neighbours(model, rng):
    vectors = random_vectors(rng)
    together = split(model.predict(vectors), LENGTHS)
    for own, expected in zip(vectors, together, strict=True):
        np.testing.assert_allclose(model.predict([own]), expected, rtol=1e-12)
        # Loud neighbours.
        others = [1e3 * np.ones((2, WIDTH)), own, -1e3 * np.ones((3, WIDTH))]
        np.testing.assert_allclose(
            split(model.predict(others), [2, len(own), 3])[1], expected, rtol=1e-12
        )


def test_scores_depend_on_the_tokens_beside(model, rng):
    [own] = random_vectors(rng, [6])
    before = model.predict([own])
    own = own.copy()
    own[3] += 1.0
    changed = np.flatnonzero(model.predict([own]) != before).tolist()
    assert changed == list(range(3 - WINDOW, 3 + WINDOW + 1))


def test_gradient_matches_finite_differences(model, rng):
    vectors = random_vectors(rng)
    weights = rng.normal(size=sum(LENGTHS))
    _, backprop = model.begin_update(vectors)
    gradients = backprop(weights)
    assert [g.shape for g in gradients] == [v.shape for v in vectors]

    def total():
        return (model.predict(vectors) * weights).sum()

    for own, gradient in zip(vectors, gradients, strict=True):
        assert_directional(total, own, gradient, rng)
    assert_parameters(model, total, rng)


def test_gradient_stays_within_its_doc(model, rng):
    vectors = random_vectors(rng)
    for chosen, n in enumerate(LENGTHS):
        weights = [np.zeros(length) for length in LENGTHS]
        weights[chosen] = rng.normal(size=n)
        _, backprop = model.begin_update(vectors)
        for number, gradient in enumerate(backprop(np.concatenate(weights))):
            assert gradient.any() == (number == chosen and n > 0)


def test_gradient_of_no_weight_is_zero(model, rng):
    _, backprop = model.begin_update(random_vectors(rng))
    assert not any(gradient.any() for gradient in backprop(np.zeros(sum(LENGTHS))))
    for node in model.walk():
        for name in node.param_names:
            assert not node.get_grad(name).any()


@pytest.mark.parametrize("lengths", [[], [0], [0, 0, 0]])
def test_no_tokens_give_no_scores(model, lengths):
    vectors = [np.zeros((n, WIDTH)) for n in lengths]
    scores, backprop = model.begin_update(vectors)
    assert scores.shape == (0,)
    assert [g.shape for g in backprop(scores)] == [(0, WIDTH)] * len(lengths)


def test_inputs_are_left_alone(model, rng):
    vectors = random_vectors(rng)
    before = [own.copy() for own in vectors]
    for own in vectors:
        own.setflags(write=False)
    _, backprop = model.begin_update(vectors)
    weights = np.ones(sum(LENGTHS))
    weights.setflags(write=False)
    backprop(weights)
    for own, old in zip(vectors, before, strict=True):
        np.testing.assert_array_equal(own, old)


def test_width_is_learnt_from_vectors(rng):
    model = SentenceStarts(4)
    model.ops = NumpyOps()
    vectors = [own.astype("f") for own in random_vectors(rng)]
    model.initialize(X=vectors)
    scores, backprop = model.begin_update(vectors)
    assert model.get_dim("nI") == WIDTH
    assert scores.dtype == np.float32
    assert np.isfinite(scores).all()
    assert len(set(scores.tolist())) == len(scores)
    assert all(gradient.dtype == np.float32 for gradient in backprop(scores))


def test_learns_to_tell_starts_by_the_token_before(rng):
    # Sentences end in one kind of token; only the window shows that one came before.
    model = SentenceStarts(16, nI=WIDTH)
    model.initialize()
    kinds = rng.normal(size=(4, WIDTH)).astype("f")
    docs = [rng.integers(0, 4, size=n) for n in rng.integers(1, 20, size=30)]
    vectors = [kinds[doc] for doc in docs]
    truths = np.concatenate([np.r_[False, doc[:-1] == 0] for doc in docs])
    for _ in range(300):
        scores, backprop = model.begin_update(vectors)
        wrong = 0.5 * (1 + np.tanh(scores / 2)) - truths
        backprop((wrong / len(truths)).astype("f"))
        for node in model.walk():
            for name in node.param_names:
                if node.has_grad(name):
                    node.set_param(name, node.get_param(name) - 0.5 * node.get_grad(name))
                    node.set_grad(name, np.zeros_like(node.get_grad(name)))
    assert ((model.predict(vectors) > 0) == truths).all()
