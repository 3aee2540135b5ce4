"""The layer that finds sentence starts: against plain loops and finite differences."""

import numpy as np
import pytest
from gradients import assert_directional, assert_parameters, in_double
from thinc.api import Ops

from spacy_rootmind.network.boundaries import BoundaryInput, SentenceStarts
from spacy_rootmind.network.layout import Layout

WIDTH = 5
LENGTHS = [3, 1, 0, 7, 0, 4, 2, 1]
# Which tokens of each Doc are words; the sixth Doc is whitespace alone.
WORDS = [[0, 1, 2], [0], [], [1, 3, 4, 6], [], [], [1], [0]]


@pytest.fixture
def rng():
    return np.random.default_rng(11)


@pytest.fixture(params=[0, 3], ids=["", "qrnn"])
def model(rng, request):
    return in_double(SentenceStarts(4, request.param, nI=WIDTH), rng)


def as_input(vectors, words=None):
    """Docs of which all tokens are words, or those given."""
    if words is None:
        words = [range(len(own)) for own in vectors]
    return BoundaryInput(vectors, [np.array(list(own), dtype="i8") for own in words])


def random_vectors(rng, lengths=LENGTHS):
    return [rng.normal(size=(n, WIDTH)) for n in lengths]


def split(flat):
    return np.split(flat, np.cumsum(LENGTHS)[:-1])


def windows_by_loops(own, words):
    """Each word's vector between those of its neighbours, zeros beyond the Doc's ends."""
    rows = [
        np.concatenate(
            [
                own[words[j]] if 0 <= j < len(words) else np.zeros(WIDTH)
                for j in range(i - 1, i + 2)
            ]
        )
        for i in range(len(words))
    ]
    return np.array(rows).reshape((len(words), WIDTH * 3))


def with_context(model, own, words):
    """The vectors of a Doc, those of its words with the states of the QRNN, if there is one."""
    if len(model.layers) == 1:
        return own
    found = own.copy()
    rows = np.concatenate([np.zeros((1, WIDTH)), own[words]])
    layout = Layout.from_lengths(model.ops, [len(words)])
    found[words] = model.layers[1].predict((rows, layout))[1:]
    return found


def test_scores_are_those_of_windows_by_loops(model, rng):
    vectors = random_vectors(rng)
    scores = model.predict(as_input(vectors, WORDS))
    assert scores.shape == (sum(LENGTHS),)
    for own, words, found in zip(vectors, WORDS, split(scores), strict=True):
        if words:
            windows = windows_by_loops(with_context(model, own, words), words)
            expected = model.layers[0].predict(windows).ravel()
            np.testing.assert_allclose(found[words], expected, rtol=1e-12)
        # Other tokens are no places to start a sentence.
        assert (np.delete(found, words) <= -100).all()


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


def test_a_recurrent_layer_sees_the_whole_doc_and_no_other(rng):
    for width, reach in ((0, 1), (3, 20)):
        model = in_double(SentenceStarts(4, width, nI=WIDTH), rng)
        vectors = random_vectors(rng, [20, 20])
        before = model.predict(as_input(vectors))
        vectors[0][10] += 1.0
        changed = (model.predict(as_input(vectors)) != before).nonzero()[0]
        near = [i for i in range(20) if abs(i - 10) <= reach]
        assert changed.tolist() == near


def test_states_of_the_recurrent_layer_have_one_dropout_mask_per_doc(rng, monkeypatch):
    model = in_double(SentenceStarts(4, 3, 0.5, nI=WIDTH), rng)
    draw, shapes = Ops.get_dropout_mask, set()

    def record(ops, shape, drop):
        shapes.add(shape)
        return draw(ops, shape, drop)

    monkeypatch.setattr(Ops, "get_dropout_mask", record)
    given = as_input([np.ones((6, WIDTH)), np.ones((2, WIDTH))])
    fixed = model.predict(given)
    drawn = [model.begin_update(given)[0] for _ in range(8)]
    np.testing.assert_array_equal(model.predict(given), fixed)
    assert any((own != fixed).any() for own in drawn)
    assert shapes == {(2, 2 * 3)}
