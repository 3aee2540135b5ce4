"""Compiled layers against the same layers through NumPy, forwards and backwards."""

import numpy as np
import pytest
from thinc.api import LayerNorm, Maxout, NumpyOps

from spacy_rootmind.kernel import layers as kernel
from spacy_rootmind.network import layout as layout_module
from spacy_rootmind.network import ops, qrnn
from spacy_rootmind.network.arc_scorer import BiaffineArcs
from spacy_rootmind.network.layout import Layout
from spacy_rootmind.network.qrnn import QRNN
from spacy_rootmind.network.refine import Refine

OPS = NumpyOps(use_blis=False)
# With and without rest after whole vectors.
WIDTHS = [1, 7, 8, 24]
# Thinc has no gradient of no rows.
LENGTHS = [[0], [1], [3, 1, 7, 3, 12, 0, 40, 41, 2]]
# Relative to the largest number of an array.
TOLERANCE = 2e-5


@pytest.fixture
def rng():
    return np.random.default_rng(5)


@pytest.fixture(params=[True, False], ids=["simd", "portable"], autouse=True)
def _simd(request):
    kernel.use_simd(request.param)
    yield
    kernel.use_simd(True)


def randomize(model, rng):
    """Initialize a layer with random weights in single precision."""
    model.initialize()
    for node in model.walk():
        node.ops = OPS
        for name in node.param_names:
            shape = node.get_param(name).shape
            node.set_param(name, rng.normal(size=shape).astype("f"))
    return model


def rows_of(rng, n, width):
    return rng.normal(size=(n, width)).astype("f")


def run(model, inputs, gradient, is_compiled, monkeypatch):
    """All that a layer computes: its prediction, its output in training, and gradients."""
    for module in (layout_module, ops, qrnn):
        monkeypatch.setattr(module, "is_compiled", lambda ops: is_compiled)
    for part in inputs:
        if isinstance(part, Layout):
            # The choice is kept there.
            vars(part).pop("buckets", None)
    for node in model.walk():
        for name in node.param_names:
            node.set_grad(name, np.zeros_like(node.get_param(name)))
    found, backprop = model(inputs, is_train=True)
    computed = [model.predict(inputs), found, backprop(gradient(found))]
    for node in model.walk():
        computed += [node.get_grad(name).copy() for name in node.param_names]
    return [array for part in computed for array in flat(part)]


def flat(part):
    """List the arrays in nested lists and tuples."""
    return [part] if isinstance(part, np.ndarray) else [a for own in part for a in flat(own)]


def assert_same(model, inputs, gradient, monkeypatch):
    fast = run(model, inputs, gradient, True, monkeypatch)
    slow = run(model, inputs, gradient, False, monkeypatch)
    assert len(fast) == len(slow)
    for own, expected in zip(fast, slow, strict=True):
        assert own.dtype == expected.dtype == np.float32
        largest = np.abs(expected).max(initial=1.0)
        np.testing.assert_allclose(own, expected, rtol=0, atol=TOLERANCE * largest)


@pytest.mark.parametrize("lengths", [[], *LENGTHS], ids=len)
@pytest.mark.parametrize("width", WIDTHS)
def test_recurrence(width, lengths, rng, monkeypatch):
    layout = Layout.from_lengths(OPS, lengths)
    model = randomize(QRNN(width, 0.0, nI=5), rng)
    assert_same(
        model,
        (rows_of(rng, layout.n_rows, 5), layout),
        lambda found: rows_of(np.random.default_rng(1), *found.shape),
        monkeypatch,
    )


@pytest.mark.parametrize("lengths", LENGTHS, ids=len)
@pytest.mark.parametrize("width", WIDTHS)
def test_arcs(width, lengths, rng, monkeypatch):
    layout = Layout.from_lengths(OPS, lengths)
    model = randomize(BiaffineArcs(width, 0.0, nI=5), rng)
    inside = [bucket.allowed for bucket in layout.buckets]

    def gradient(scores):
        rng = np.random.default_rng(1)
        return [rng.normal(size=S.shape).astype("f") for S in scores]

    def only_inside(model, X, is_train):
        scores, backprop = forward(model, X, is_train)
        return [S * own for S, own in zip(scores, inside, strict=True)], backprop

    forward = model._func
    model._func = only_inside
    assert_same(model, (rows_of(rng, layout.n_rows, 5), layout), gradient, monkeypatch)


@pytest.mark.parametrize("lengths", LENGTHS, ids=len)
def test_refine(lengths, rng, monkeypatch):
    layout = Layout.from_lengths(OPS, lengths)
    model = randomize(Refine(0.0, nI=6), rng)
    scores = [
        (8.0 * rng.normal(size=bucket.allowed.shape)).astype("f") for bucket in layout.buckets
    ]
    assert_same(
        model,
        (rows_of(rng, layout.n_rows, 6), scores, layout),
        lambda found: rows_of(np.random.default_rng(1), *found.shape),
        monkeypatch,
    )


@pytest.mark.parametrize("pieces", [1, 2, 3, 4])
@pytest.mark.parametrize("width", WIDTHS)
def test_layers_of_thinc(width, pieces, rng, monkeypatch):
    for layer in (Maxout(nO=width, nI=5, nP=pieces), LayerNorm(nI=5)):
        model = randomize(layer, rng)
        ops.use_fast_cpu(model)
        for n in (1, 9):
            assert_same(
                model,
                rows_of(rng, n, 5),
                lambda found: rows_of(np.random.default_rng(1), *found.shape),
                monkeypatch,
            )


def test_thincs_layers_take_double_precision(rng):
    rows = rows_of(rng, 3, 5)
    for layer in (Maxout(nO=4, nI=5, nP=2), LayerNorm(nI=5)):
        model = ops.use_fast_cpu(randomize(layer, rng))
        found = model.predict(rows.astype("d"))
        np.testing.assert_allclose(found, model.predict(rows), rtol=1e-4, atol=1e-5)


def test_there_is_no_gradient_of_a_prediction(rng):
    model = randomize(Maxout(nO=4, nI=5, nP=2), rng)
    ops.use_fast_cpu(model)
    _, backprop = model(rows_of(rng, 2, 5), is_train=False)
    with pytest.raises(ValueError, match="is_train"):
        backprop(rows_of(rng, 2, 4))


# --- numbers beyond what networks have ---------------------------------------------------------


def qrnn_of(gates):
    """The state of one row after one step, of gates (3 * h,)."""
    activated = np.tile(np.asarray(gates, dtype="f"), (2, 1, 1))
    bias = np.zeros((2, 1, len(gates)), dtype="f")
    cells, states = kernel.qrnn(activated, bias, *np.array([[0], [0]], dtype=np.intp))
    return activated[0, 0], cells[0, 0], states[0, : len(gates) // 3]


@pytest.mark.parametrize("size", [1.0, 1e2, 1e5, 1e38, np.inf])
def test_gates_of_any_size(size, rng):
    """Next to double precision: the logistic function and tanh to 2e-7."""
    gates = (size * rng.normal(size=3 * 37)).astype("f")
    activated, cells, states = qrnn_of(gates)
    with np.errstate(over="ignore"):
        logistic = 1.0 / (1.0 + np.exp(-gates[37:].astype("d")))
    candidate = np.tanh(gates[:37].astype("d"))
    np.testing.assert_allclose(activated[37:], logistic, rtol=0, atol=3e-7)
    np.testing.assert_allclose(activated[:37], candidate, rtol=0, atol=3e-7)
    expected = (1.0 - logistic[:37]) * candidate
    np.testing.assert_allclose(cells, expected, rtol=0, atol=1e-6)
    np.testing.assert_allclose(states, logistic[37:] * expected, rtol=0, atol=1e-6)


def test_nan_stays():
    """So that damaged weights are noticed."""
    assert np.isnan(qrnn_of([np.nan] * 3 * 9)[2]).all()
    rows = np.full((2, 9), np.nan, dtype="f")
    ones = np.ones(9, dtype="f")
    assert np.isnan(kernel.layer_norm(rows, ones, ones)).all()
    scores = np.full((1, 9, 9), np.nan, dtype="f")
    weights = kernel.softmax_heads(scores, np.array([8], dtype=np.intp))
    assert np.isnan(weights[0, 1:][~np.eye(8, 9, 1, dtype=bool)]).all()


@pytest.mark.parametrize("shift", [-1e30, -200.0, 0.0, 1e30])
def test_softmax_of_scores_of_any_size(shift, rng):
    scores = (20 * rng.normal(size=(2, 20, 20)) + shift).astype("f")
    weights = kernel.softmax_heads(scores, np.array([19, 4], dtype=np.intp))
    for found, own, n in zip(weights, scores.astype("d"), (20, 5), strict=True):
        np.fill_diagonal(own, -np.inf)
        expected = np.exp(own[1:n, :n] - own[1:n, :n].max(axis=1, keepdims=True))
        expected /= expected.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(found[1:n, :n], expected, rtol=1e-5, atol=1e-30)
        assert not found[0].any()
        assert not found[n:].any()
        assert not found[:, n:].any()
