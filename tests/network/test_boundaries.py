"""The layer that finds sentence starts: against plain loops, finite differences, neighbours."""

import numpy as np
import pytest
from gradients import assert_directional, assert_parameters, in_double
from thinc.api import NumpyOps

from spacy_rootmind.network.boundaries import WINDOW, BoundaryInput, SentenceStarts

WIDTH = 5
LENGTHS = [3, 1, 0, 7, 0, 4, 2, 1]
# Which tokens of each Doc are words; the sixth Doc is whitespace alone.
WORDS = [[0, 1, 2], [0], [], [1, 3, 4, 6], [], [], [1], [0]]


@pytest.fixture
def rng():
    return np.random.default_rng(11)


@pytest.fixture
def model(rng):
    return in_double(SentenceStarts(4, nI=WIDTH), rng)


def as_input(vectors, words=None):
    """Docs of which all tokens are words, or those given."""
    if words is None:
        words = [range(len(own)) for own in vectors]
    return BoundaryInput(vectors, [np.array(list(own), dtype="i8") for own in words])


def random_vectors(rng, lengths=LENGTHS):
    return [rng.normal(size=(n, WIDTH)) for n in lengths]


def split(flat, lengths=LENGTHS):
    return np.split(flat, np.cumsum(lengths)[:-1])


def windows_by_loops(own, words):
    """Each word's vector between those of its neighbours, zeros beyond the Doc's ends."""
    rows = [
        np.concatenate(
            [
                own[words[j]] if 0 <= j < len(words) else np.zeros(WIDTH)
                for j in range(i - WINDOW, i + WINDOW + 1)
            ]
        )
        for i in range(len(words))
    ]
    return np.array(rows).reshape((len(words), WIDTH * (2 * WINDOW + 1)))


def test_scores_are_those_of_windows_by_loops(model, rng):
    vectors = random_vectors(rng)
    scores = model.predict(as_input(vectors, WORDS))
    assert scores.shape == (sum(LENGTHS),)
    for own, words, found in zip(vectors, WORDS, split(scores), strict=True):
        if words:
            expected = model.layers[0].predict(windows_by_loops(own, words)).ravel()
            np.testing.assert_allclose(found[words], expected, rtol=1e-12)
        # Other tokens are no places to start a sentence.
        assert (np.delete(found, words) <= -100).all()


def test_scores_of_a_doc_are_alike_whatever_its_neighbours(model, rng):
    vectors = random_vectors(rng)
    together = split(model.predict(as_input(vectors, WORDS)))
    for own, words, expected in zip(vectors, WORDS, together, strict=True):
        np.testing.assert_allclose(model.predict(as_input([own], [words])), expected, rtol=1e-12)
        # Loud neighbours.
        others = [1e3 * np.ones((2, WIDTH)), own, -1e3 * np.ones((3, WIDTH))]
        scores = model.predict(as_input(others, [[0, 1], words, [0, 1, 2]]))
        np.testing.assert_allclose(split(scores, [2, len(own), 3])[1], expected, rtol=1e-12)


def test_scores_depend_on_neighbouring_words(model, rng):
    [own] = random_vectors(rng, [6])
    before = model.predict(as_input([own]))
    own = own.copy()
    own[3] += 1.0
    changed = np.flatnonzero(model.predict(as_input([own])) != before).tolist()
    assert changed == list(range(3 - WINDOW, 3 + WINDOW + 1))


def test_scores_do_not_depend_on_neighbouring_whitespace(model, rng):
    [own] = random_vectors(rng, [4])
    plain = model.predict(as_input([own]))
    spaced = np.concatenate([1e3 * np.ones((1, WIDTH)), own[:2], -np.ones((3, WIDTH)), own[2:]])
    words = [1, 2, 6, 7]
    scores = model.predict(as_input([spaced], [words]))
    np.testing.assert_allclose(scores[words], plain, rtol=1e-12)


def test_gradient_matches_finite_differences(model, rng):
    vectors = random_vectors(rng)
    given = as_input(vectors, WORDS)
    weights = rng.normal(size=sum(LENGTHS))
    _, backprop = model.begin_update(given)
    gradients = backprop(weights)
    assert [g.shape for g in gradients] == [v.shape for v in vectors]

    is_word = np.concatenate(
        [np.isin(np.arange(n), words) for n, words in zip(LENGTHS, WORDS, strict=True)]
    )

    def total():
        return (model.predict(given) * weights)[is_word].sum()

    for own, gradient in zip(vectors, gradients, strict=True):
        assert_directional(total, own, gradient, rng)
    assert_parameters(model, total, rng)


def test_gradient_stays_with_the_words_of_its_doc(model, rng):
    vectors = random_vectors(rng)
    for chosen in range(len(LENGTHS)):
        weights = [np.zeros(length) for length in LENGTHS]
        weights[chosen] = rng.normal(size=LENGTHS[chosen])
        _, backprop = model.begin_update(as_input(vectors, WORDS))
        gradients = backprop(np.concatenate(weights))
        for number, (words, gradient) in enumerate(zip(WORDS, gradients, strict=True)):
            assert gradient.any() == (number == chosen and len(words) > 0)
            assert not np.delete(gradient, words, axis=0).any()


def test_gradient_of_no_weight_is_zero(model, rng):
    _, backprop = model.begin_update(as_input(random_vectors(rng), WORDS))
    assert not any(gradient.any() for gradient in backprop(np.zeros(sum(LENGTHS))))
    for node in model.walk():
        for name in node.param_names:
            assert not node.get_grad(name).any()


@pytest.mark.parametrize("lengths", [[], [0], [0, 0, 0], [2, 0, 3]])
def test_no_words_give_no_starts(model, lengths):
    vectors = [np.ones((n, WIDTH)) for n in lengths]
    scores, backprop = model.begin_update(as_input(vectors, [[] for _ in lengths]))
    assert scores.shape == (sum(lengths),)
    assert (scores <= -100).all()
    gradients = backprop(np.ones(sum(lengths)))
    assert [g.shape for g in gradients] == [(n, WIDTH) for n in lengths]
    assert not any(gradient.any() for gradient in gradients)


def test_inputs_are_left_alone(model, rng):
    vectors = random_vectors(rng)
    given = as_input(vectors, WORDS)
    before = [own.copy() for own in vectors]
    for array in (*given.vectors, *given.words):
        array.setflags(write=False)
    _, backprop = model.begin_update(given)
    weights = np.ones(sum(LENGTHS))
    weights.setflags(write=False)
    backprop(weights)
    for own, old in zip(vectors, before, strict=True):
        np.testing.assert_array_equal(own, old)


def test_width_is_learnt_from_vectors(rng):
    model = SentenceStarts(4)
    model.ops = NumpyOps()
    given = as_input([own.astype("f") for own in random_vectors(rng)])
    model.initialize(X=given)
    scores, backprop = model.begin_update(given)
    assert model.get_dim("nI") == WIDTH
    assert scores.dtype == np.float32
    assert np.isfinite(scores).all()
    assert len(set(scores.tolist())) == len(scores)
    assert all(gradient.dtype == np.float32 for gradient in backprop(scores))


def test_learns_to_tell_starts_by_the_word_before(rng):
    # Sentences end in one kind of word; only the window shows that one came before.
    model = SentenceStarts(16, nI=WIDTH)
    model.initialize()
    kinds = rng.normal(size=(4, WIDTH)).astype("f")
    docs = [rng.integers(0, 4, size=n) for n in rng.integers(1, 20, size=30)]
    given = as_input([kinds[doc] for doc in docs])
    truths = np.concatenate([np.r_[False, doc[:-1] == 0] for doc in docs])
    for _ in range(300):
        scores, backprop = model.begin_update(given)
        wrong = 0.5 * (1 + np.tanh(scores / 2)) - truths
        backprop((wrong / len(truths)).astype("f"))
        for node in model.walk():
            for name in node.param_names:
                if node.has_grad(name):
                    node.set_param(name, node.get_param(name) - 0.5 * node.get_grad(name))
                    node.set_grad(name, np.zeros_like(node.get_grad(name)))
    assert ((model.predict(given) > 0) == truths).all()
