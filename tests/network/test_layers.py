"""Layers: gradients against finite differences, compiled loops, sentences alone and in batches."""

from functools import partial

import numpy as np
import pytest
from gradients import OPS, assert_directional, assert_parameters, in_double
from reference_layers import use_numpy
from thinc.api import SGD, LayerNorm, Linear, Maxout, NumpyOps, Ops, Softmax_v2, expand_window

from spacy_rootmind.kernel import layers as kernel
from spacy_rootmind.network import ops
from spacy_rootmind.network.arc_scorer import BiaffineArcs
from spacy_rootmind.network.boundaries import NOT_A_WORD, BoundaryInput, SentenceStarts
from spacy_rootmind.network.dropout import RATE, sentence_dropout
from spacy_rootmind.network.label_scorer import BiaffineLabels, LabelInput
from spacy_rootmind.network.layout import Layout
from spacy_rootmind.network.qrnn import QRNN
from spacy_rootmind.network.refine import Refine

IN_SINGLE = NumpyOps(use_blis=False)
WIDTH = 6
LENGTHS = [3, 1, 7, 3, 12, 0]
# The tokens of each Doc that are words.
WORDS = [[0, 1, 2], [0], [], [1, 3, 4, 6], [], [1]]
DOCS = [3, 1, 0, 7, 4, 2]
DOC_WORDS = list(zip(DOCS, WORDS, strict=True))


@pytest.fixture
def rng():
    return np.random.default_rng(7)


# How to make each layer, with a width and a dropout rate, and the kind of its input.
LAYERS = {
    "qrnn": (lambda n, drop: sized(QRNN(n, drop)), "rows"),
    "arcs": (lambda n, drop: sized(BiaffineArcs(n, drop)), "rows"),
    "refine": (lambda n, drop: sized(Refine(drop)), "rows and squares"),
    "labels": (lambda n, drop: sized(BiaffineLabels(n, drop, nO=3)), "arcs"),
    "labels of a rank": (lambda n, drop: sized(BiaffineLabels(n, drop, rank=2, nO=3)), "arcs"),
    "starts": (lambda n, drop: sized(SentenceStarts(n, 0, drop)), "docs"),
    "starts with qrnn": (lambda n, drop: sized(SentenceStarts(n, 3, drop)), "docs"),
}


def sized(layer):
    layer.set_dim("nI", WIDTH)
    return layer


def make_input(kind, layout, rng):
    if kind == "docs":
        vectors = [rng.normal(size=(n, WIDTH)) for n in DOCS]
        return BoundaryInput(vectors, [np.array(own, dtype="i8") for own in WORDS])
    rows = rng.normal(size=(layout.n_rows, WIDTH))
    if kind == "arcs":
        # Several dependents of a head, and several heads of a dependent.
        heads = layout.roots[layout.sentence_of_row[layout.words]]
        heads[::2] += 1
        deps = np.append(layout.words, layout.words[:4])
        return LabelInput(rows, layout, deps, np.append(heads, layout.roots[[0, 0, 0, 1]]))
    if kind == "rows":
        return rows, layout
    return rows, [8.0 * rng.normal(size=own.allowed.shape) for own in layout.buckets], layout


def flat(part):
    """List the arrays of floats in nested lists and tuples."""
    if isinstance(part, list | tuple):
        return [array for own in part for array in flat(own)]
    return [part] if isinstance(part, np.ndarray) and part.dtype.kind == "f" else []


def meaning(name, layout, found):
    """List 1 where an entry of a layer's output means something, and 0 elsewhere."""
    if name == "arcs":
        return [bucket.allowed for bucket in layout.buckets]
    if name.startswith("starts"):
        return [np.concatenate([np.isin(np.arange(n), own) for n, own in DOC_WORDS])]
    if name.startswith("labels"):
        return [np.ones((len(found), 3))]
    return [np.ones_like(array) for array in flat(found)]


@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("name", LAYERS)
def test_gradient_matches_finite_differences(name, dropout, rng, monkeypatch):
    """Entries without meaning get no gradient, and inputs stay as they are."""
    use_numpy(monkeypatch)
    make, kind = LAYERS[name]
    layout = Layout.from_lengths(LENGTHS)
    model, X = in_double(make(5, dropout), rng), make_input(kind, layout, rng)

    def run():
        np.random.seed(3)  # noqa: NPY002
        return model.begin_update(X)

    for array in flat(X):
        array.setflags(write=False)
    found, backprop = run()
    weights = [rng.normal(size=array.shape) for array in flat(found)]
    gradients = flat(backprop(weights if isinstance(found, list) else weights[0]))
    masks = meaning(name, layout, found)
    if not dropout:
        for array, own, mask in zip(flat(found), flat(model.predict(X)), masks, strict=True):
            np.testing.assert_allclose(own * mask, array * mask, rtol=1e-12)

    def total():
        entries = zip(flat(run()[0]), weights, masks, strict=True)
        return sum((array * weight * mask).sum() for array, weight, mask in entries)

    assert len(gradients) == len(flat(X))
    for array, gradient in zip(flat(X), gradients, strict=True):
        assert array.shape == gradient.shape
        array.setflags(write=True)
        assert_directional(total, array, gradient, rng)
    assert_parameters(model, total, rng)


def test_dropout_is_alike_within_a_sentence_and_for_training_alone(rng):
    layout = Layout.from_lengths(LENGTHS)
    model = BiaffineArcs(6, 0.5)
    ones = np.ones((layout.n_rows, 100), dtype="f")
    mask, backprop = sentence_dropout(model, layout, ones, is_train=True)
    np.testing.assert_array_equal(backprop(ones), mask)
    first = mask[layout.roots]
    np.testing.assert_array_equal(mask, first[layout.sentence_of_row])
    assert set(np.unique(mask).tolist()) == {0.0, 2.0}
    assert (first[0] != first[2]).any()
    assert sentence_dropout(model, layout, ones, is_train=False)[0] is ones
    model.attrs[RATE] = 0.0
    assert sentence_dropout(model, layout, ones, is_train=True)[0] is ones


def test_layers_give_each_sentence_what_it_gets_alone(rng):
    lengths = [*LENGTHS, 40, 41, 2]
    layout = Layout.from_lengths(lengths)
    context, arcs, refine = (in_single(LAYERS[own][0](6, 0.3), rng) for own in list(LAYERS)[:3])

    def run(rows, layout):
        read = context.predict((rows, layout))
        scores = arcs.predict((read, layout))
        return read, scores, refine.predict((read, scores, layout))

    rows = rng.normal(size=(layout.n_rows, WIDTH)).astype("f")
    read, scores, refined = run(rows, layout)
    for bucket, squares in zip(layout.buckets, scores, strict=True):
        for i, sentence in enumerate(bucket.sentences):
            m = lengths[sentence] + 1
            part = slice(start := layout.roots[sentence], start + m)
            alone = run(rows[part], Layout.from_lengths([m - 1]))
            np.testing.assert_allclose(read[part], alone[0], atol=1e-5)
            np.testing.assert_allclose(squares[i, 1:m, :m], alone[1][0][0, 1:], atol=1e-4)
            np.testing.assert_allclose(refined[part], alone[2], atol=1e-4)


# --- sentence starts ---------------------------------------------------------------------------


@pytest.fixture(params=[0, 3], ids=["", "qrnn"])
def starts(rng, request, monkeypatch):
    """The layer that finds sentence starts."""
    use_numpy(monkeypatch)
    return in_double(sized(SentenceStarts(4, request.param)), rng)


def with_context(model, own):
    """The vectors of a Doc's words, with the states of the QRNN if there is one."""
    if len(model.layers) == 1:
        return own
    layout = Layout.from_lengths([len(own)])
    return model.layers[1].predict((np.concatenate([np.zeros((1, WIDTH)), own]), layout))[1:]


def test_scores_are_those_of_windows_by_loops(starts, rng):
    X = make_input("docs", None, rng)
    scores = np.split(starts.predict(X), np.cumsum(DOCS)[:-1])
    for (_, words), vectors, found in zip(DOC_WORDS, X.vectors, scores, strict=True):
        own = with_context(starts, vectors[words])
        for i, word in enumerate(words):
            window = [own[j] if 0 <= j < len(own) else np.zeros(WIDTH) for j in (i - 1, i, i + 1)]
            expected = starts.layers[0].predict(np.concatenate(window)[None])[0, 0]
            assert found[word] == pytest.approx(expected, rel=1e-12)
        # Other tokens are no places to start a sentence.
        assert (np.delete(found, words) == NOT_A_WORD).all()


@pytest.mark.parametrize("lengths", [[], [0], [0, 0, 0], [2, 0, 3]])
def test_no_words_give_no_starts(starts, lengths):
    vectors = [np.ones((n, WIDTH)) for n in lengths]
    X = BoundaryInput(vectors, [np.zeros(0, dtype="i8") for _ in lengths])
    scores, backprop = starts.begin_update(X)
    assert scores.tolist() == [NOT_A_WORD] * sum(lengths)
    gradients = backprop(np.ones(sum(lengths)))
    assert [g.tolist() for g in gradients] == [np.zeros_like(own).tolist() for own in vectors]


def test_states_of_the_recurrent_layer_have_one_dropout_mask_per_doc(rng, monkeypatch):
    use_numpy(monkeypatch)
    model = in_double(sized(SentenceStarts(4, 3, 0.5)), rng)
    draw, shapes = Ops.get_dropout_mask, []

    def record(ops, shape, drop):
        shapes.append(shape)
        return draw(ops, shape, drop)

    monkeypatch.setattr(Ops, "get_dropout_mask", record)
    X = BoundaryInput([np.ones((6, WIDTH)), np.ones((2, WIDTH))], [np.arange(6), np.arange(2)])
    fixed = model.predict(X)
    assert not shapes
    assert any((model.begin_update(X)[0] != fixed).any() for _ in range(8))
    assert set(shapes) == {(2, 2 * 3)}


# --- compiled loops against NumPy --------------------------------------------------------------


@pytest.fixture(params=[(True, True), (True, False), (False,)], ids=["wide", "avx2", "portable"])
def simd(request):
    """With all SIMD instructions, with AVX2 at most, and without."""
    kernel.use_simd(*request.param)
    yield
    kernel.use_simd(True)


def in_single(model, rng):
    """Initialize a layer with random weights in single precision."""
    model.initialize()
    for node in model.walk():
        node.ops = IN_SINGLE
        for name in node.param_names:
            node.set_param(name, rng.normal(size=node.get_param(name).shape).astype("f"))
    return model


def run(model, X, masks, ops):
    """All that a layer computes: its prediction, its output in training, and gradients."""
    for node in model.walk():
        node.ops = ops
    params = [(node, name) for node in model.walk() for name in node.param_names]
    for node, name in params:
        node.set_grad(name, np.zeros_like(node.get_param(name)))
    found, backprop = model(X, is_train=True)
    rng = np.random.default_rng(1)
    weights = [rng.normal(size=array.shape).astype("f") for array in flat(found)]
    gradients = backprop(weights if isinstance(found, list) else weights[0])
    outputs = [a * mask for out in (model.predict(X), found) for a, mask in zip(flat(out), masks)]  # noqa: B905
    return [*outputs, *flat(gradients), *(node.get_grad(name).copy() for node, name in params)]


def assert_same(model, X, masks):
    fast = run(model, X, masks, IN_SINGLE)
    with pytest.MonkeyPatch.context() as patch:
        use_numpy(patch)
        slow = run(model, X, masks, OPS)
    assert len(fast) == len(slow)
    for own, expected in zip(fast, slow, strict=True):
        assert own.dtype == expected.dtype == np.float32
        largest = np.abs(expected).max(initial=1.0)
        np.testing.assert_allclose(own, expected, rtol=0, atol=2e-5 * largest)


# With and without rest after whole vectors.
WIDTHS = [1, 7, 8, 24]
# Docs and arcs need several sentences.
BATCHES = [(name, [*LENGTHS, 40, 41, 2]) for name in LAYERS]
BATCHES += [(name, lengths) for name in list(LAYERS)[:3] for lengths in ([0], [1])]


def as_single(part):
    """Round the floats in nested tuples and lists."""
    if isinstance(part, tuple):
        return (
            type(part)(*map(as_single, part))
            if hasattr(part, "_fields")
            else tuple(map(as_single, part))
        )
    if isinstance(part, list):
        return [as_single(own) for own in part]
    return part.astype("f") if isinstance(part, np.ndarray) and part.dtype.kind == "f" else part


@pytest.mark.usefixtures("simd")
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("name", "lengths"), BATCHES)
def test_compiled_layers_are_those_of_numpy(name, width, lengths, rng):
    make, kind = LAYERS[name]
    layout = Layout.from_lengths(lengths)
    model = in_single(make(width, 0.0), rng)
    X = as_single(make_input(kind, layout, rng))
    masks = meaning(name, layout, model.predict(X))
    assert_same(model, X, [mask.astype("f") for mask in masks])


@pytest.mark.parametrize("name", ["labels", "labels of a rank"])
def test_labels_keep_what_depends_on_rows_alone(name, rng):
    layout = Layout.from_lengths(LENGTHS)
    model, X = in_single(LAYERS[name][0](5, 0.3), rng), as_single(make_input("arcs", layout, rng))
    kept = X._replace(kept={})
    scores = model.predict(X)
    # Also of fewer arcs, and of more than there are rows.
    for arcs in (slice(None), slice(3, 5), np.repeat(np.arange(len(X.deps)), 4)[::-1]):
        own = {"deps": X.deps[arcs], "heads": X.heads[arcs]}
        found = model.predict(kept._replace(**own))
        np.testing.assert_allclose(found, scores[arcs], rtol=1e-5, atol=1e-5)
    assert kept.kept


@pytest.mark.usefixtures("simd")
@pytest.mark.parametrize("pieces", [1, 2, 3, 4])
@pytest.mark.parametrize("width", WIDTHS)
def test_compiled_layers_are_those_of_thinc(width, pieces, rng):
    softmax = Softmax_v2(nO=width, nI=5, normalize_outputs=pieces < 3)
    for layer in (Maxout(nO=width, nI=5, nP=pieces), softmax, LayerNorm(nI=5), expand_window(1)):
        model = ops.use_fast_cpu(in_single(layer, rng))
        rows = rng.normal(size=(9, 5)).astype("f")
        for X in (rows[:1], rows):
            assert_same(model, X, [np.ones_like(model.predict(X))])
        doubled = model.predict(rows.astype("d"))
        np.testing.assert_allclose(doubled, model.predict(rows), rtol=1e-4, atol=1e-5)


def test_there_is_no_gradient_of_a_prediction(rng):
    model = ops.use_fast_cpu(in_single(Maxout(nO=4, nI=5, nP=2), rng))
    _, backprop = model(np.ones((2, 5), "f"), is_train=False)
    with pytest.raises(ValueError, match="is_train"):
        backprop(np.ones((2, 4), "f"))


# --- numbers beyond what networks have ---------------------------------------------------------


def qrnn_of(gates):
    """The state of one row after one step, of gates (3 * h,)."""
    activated = np.tile(np.asarray(gates, dtype="f"), (2, 1, 1))
    bias = np.zeros((2, 1, len(gates)), dtype="f")
    cells, states = kernel.qrnn(activated, bias, *np.array([[0], [0]], dtype=np.intp))
    return activated[0, 0], cells[0, 0], states[0, : len(gates) // 3]


@pytest.mark.usefixtures("simd")
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


def softmax_of(scores, lengths):
    layout = Layout.from_lengths(lengths)
    bucket = layout.make_bucket(list(range(len(lengths))))
    rows = np.zeros((layout.n_rows, 2), dtype="f")
    return kernel.add_context(rows, [scores], [bucket])[1][0]


@pytest.mark.usefixtures("simd")
def test_nan_stays():
    """So that damaged weights are noticed."""
    assert np.isnan(qrnn_of([np.nan] * 3 * 9)[2]).all()
    rows, ones = np.full((2, 9), np.nan, dtype="f"), np.ones(9, dtype="f")
    assert np.isnan(kernel.layer_norm(rows, ones, ones)).all()
    scores = np.full((1, 9, 9), np.nan, dtype="f")
    weights = softmax_of(scores, [8])
    assert np.isnan(weights[0, 1:][~np.eye(8, 9, 1, dtype=bool)]).all()


@pytest.mark.usefixtures("simd")
@pytest.mark.parametrize("shift", [-1e30, -200.0, 0.0, 1e30])
def test_softmax_of_scores_of_any_size(shift, rng):
    scores = (20 * rng.normal(size=(2, 20, 20)) + shift).astype("f")
    weights = softmax_of(scores, [19, 4])
    for found, own, n in zip(weights, scores.astype("d"), (20, 5), strict=True):
        np.fill_diagonal(own, -np.inf)
        expected = np.zeros((20, 20))
        expected[1:n, :n] = np.exp(own[1:n, :n] - own[1:n, :n].max(axis=1, keepdims=True))
        expected /= np.maximum(expected.sum(axis=1, keepdims=True), 1.0)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-30)


def halve(model):
    for name in model.param_names:
        model.set_param(name, model.get_param(name) / 2)


def initialize(model):
    for name in model.param_names:
        model.set_param(name, None)
    model.initialize()


def load_bytes(model):
    other = model.copy()
    halve(other)
    model.from_bytes(other.to_bytes())


def update(model):
    _, backprop = model(np.ones((2, 5), "f"), is_train=True)
    backprop(np.ones((2, 4), "f"))
    model.finish_update(SGD(0.1))


@pytest.mark.parametrize("change", [halve, initialize, load_bytes, update])
@pytest.mark.parametrize("make", [Linear, Softmax_v2, partial(Maxout, nP=2), partial(Maxout, nP=3)])
def test_changed_weights_count_in_the_next_prediction(make, change, rng):
    plain = in_single(make(nO=4, nI=5), rng)
    model = ops.use_fast_cpu(plain.copy())
    rows = [rng.normal(size=(n, 5)).astype("f") for n in (1, 9, 70)]
    for _ in range(2):
        np.random.seed(0)  # noqa: NPY002
        change(model)
        np.random.seed(0)  # noqa: NPY002
        change(plain)
        averages = {(model.id, name): model.get_param(name) / 3 for name in model.param_names}
        others = {(plain.id, name): plain.get_param(name) / 3 for name in plain.param_names}
        for X in rows:
            np.testing.assert_allclose(model.predict(X), plain.predict(X), rtol=1e-5, atol=1e-5)
            with model.use_params(averages), plain.use_params(others):
                np.testing.assert_allclose(model.predict(X), plain.predict(X), rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(model.predict(X), plain.predict(X), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", LAYERS)
def test_changed_weights_of_the_networks_layers_count(name, rng):
    make, kind = LAYERS[name]
    X = as_single(make_input(kind, Layout.from_lengths(LENGTHS), rng))
    model, other = (in_single(ops.use_fast_cpu(make(5, 0.3)), rng) for _ in range(2))
    assert not np.allclose(flat(model.predict(X))[0], flat(other.predict(X))[0])
    for own, source in zip(model.walk(), other.walk(), strict=True):
        for param in own.param_names:
            own.set_param(param, source.get_param(param))
    for found, expected in zip(flat(model.predict(X)), flat(other.predict(X)), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("shape", [(4,), (2, 3, 4), (2, 3)])
def test_rows_of_another_shape_are_refused(shape):
    weights = kernel.Dense(np.ones((4, 5), dtype="f"))
    with pytest.raises(ValueError, match=r"width 4|wrong number of dimensions"):
        weights(np.ones(shape, dtype="f"))


def test_products_are_the_same_with_each_vector_width(rng):
    X, W = rng.normal(size=(31, 30)).astype("f"), rng.normal(size=(30, 70)).astype("f")
    if not kernel.use_simd(True):
        pytest.skip("no AVX2 here: products are NumPy's")
    wide = kernel.Dense(W)(X)
    kernel.use_simd(True, False)
    narrow = kernel.Dense(W)(X)
    kernel.use_simd(True)
    np.testing.assert_array_equal(wide, narrow)


@pytest.mark.usefixtures("simd")
@pytest.mark.parametrize("n_out", [0, 1, 32, 70])
@pytest.mark.parametrize("n_rows", [0, 1, 11, 12, 31])
def test_products_are_those_of_numpy(n_rows, n_out, rng):
    """For any number of rows and columns; each row has the same result alone."""
    for n_in in (1, 30):
        X, W = (rng.normal(size=shape).astype("f") for shape in ((n_rows, n_in), (n_in, n_out)))
        weights = kernel.Dense(W)
        found = weights(X)
        np.testing.assert_allclose(found, X @ W, rtol=1e-5, atol=1e-5)
        for row, expected in zip(X, found, strict=True):
            [alone] = weights(row[None])
            np.testing.assert_allclose(alone, expected, rtol=1e-5, atol=1e-5)
