"""As on a GPU: no array is copied to or from the device but where the code says so."""

import numpy as np
import pytest
import spacy
from device import DeviceArray, DeviceOps, get_array_module
from parsers import gold_examples
from spacy.util import fix_random_seed
from thinc.api import Model, NumpyOps

from spacy_rootmind.network import distance, layout, refine
from spacy_rootmind.network.architecture import build_biaffine_parser
from spacy_rootmind.pipeline.alternatives import kbest
from spacy_rootmind.pipeline.constraints import Constraints
from spacy_rootmind.pipeline.root_mst import RootMST
from spacy_rootmind.training import losses

WIDTH = 6


@pytest.fixture
def device(monkeypatch):
    """Thinc's helpers know the stand-in as they know CuPy."""
    for module in (distance, layout, losses, refine):
        monkeypatch.setattr(module, "get_array_module", get_array_module)
    monkeypatch.setattr(losses, "to_numpy", DeviceOps().to_numpy)


def word_table():
    """Token vectors that are rows of a parameter, by word."""

    def forward(model, docs, is_train):
        ops, E = model.ops, model.get_param("E")
        rows = [ops.asarray(np.array([t.orth % 50 for t in doc], dtype="i8")) for doc in docs]

        def backprop(d_vectors):
            dE = ops.alloc2f(50, WIDTH)
            for own, d_doc in zip(rows, d_vectors, strict=True):
                ops.scatter_add(dE, own, d_doc)
            model.inc_grad("E", dE)
            return []

        return [E[own] for own in rows], backprop

    def init(model, X=None, Y=None):
        numbers = np.random.default_rng(0).normal(size=(50, WIDTH)).astype("f")
        model.set_param("E", model.ops.asarray(numbers))

    return Model("word_table", forward, init=init, dims={"nO": WIDTH}, params={"E": None})


def make(ops, examples, **settings):
    """A parser whose arrays are those of `ops`; its weights do not depend on that."""
    network = build_biaffine_parser(word_table(), 4, 4, 3, 1, dropout=0.0, null_label=True)
    for node in network.walk():
        node.ops = ops
    parser = RootMST(examples[0].predicted.vocab, network, **settings)
    fix_random_seed(0)
    parser.initialize(lambda: examples)
    return parser


@pytest.fixture
def examples(quickstart_docs):
    joined = [spacy.tokens.Doc.from_docs(quickstart_docs[i : i + 3]) for i in range(0, 30, 3)]
    return gold_examples([*joined, spacy.tokens.Doc(joined[0].vocab)], spacy.blank("xx"))


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("objective", ["tree_crf", "head_selection", "perceptron"])
def test_learning_on_a_device_gives_the_same_gradients(examples, objective):
    there = make(DeviceOps(), examples, objective=objective)
    here = make(NumpyOps(), examples, objective=objective)
    losses = [parser.update(examples)["root_mst"] for parser in (there, here)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    for far, near in zip(there.model.walk(), here.model.walk(), strict=True):
        for name in near.param_names:
            assert isinstance(far.get_grad(name), DeviceArray)
            expected = near.get_grad(name)
            np.testing.assert_allclose(
                far.get_grad(name).get(), expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max()
            )


def give_label(doc):
    return Constraints(labels=[(i, "obj") for i in range(len(doc))[:1]])


@pytest.mark.parametrize(
    "more",
    [
        {"decode": "tree"},
        {"decode": "labelled_tree"},
        {"constraints": give_label, "sentences": "doc"},
    ],
)
@pytest.mark.usefixtures("device")
def test_parses_on_a_device_are_the_same(examples, monkeypatch, more):
    settings = {"confidence": True, "arc_threshold": 0.01, "alternatives": kbest(3), **more}
    there, here = (make(ops, examples, **settings) for ops in (DeviceOps(), NumpyOps()))
    temperatures = [parser.fit_temperature(examples) for parser in (there, here)]
    assert temperatures[0] == pytest.approx(temperatures[1], rel=1e-3)
    docs = [eg.predicted for eg in examples]
    for most in (4096, 20):
        monkeypatch.setattr("spacy_rootmind.pipeline.prediction.MAX_TOKENS", most)
        for far, near in zip(there.predict(docs), here.predict(docs), strict=True):
            np.testing.assert_array_equal(far.heads, near.heads)
            assert far.deps == near.deps
            assert "constraints" not in more or {*near.deps[:1]} <= {"obj"}
            assert_close(far.details, near.details)


def assert_close(far, near):
    """Assert that the same sentences have the same annotation, to a few digits."""
    assert [place for *place, _ in far] == [place for *place, _ in near]
    for (*_, a), (*_, b) in zip(far, near, strict=True):
        for name in ("log_prob", "entropy", "head_probs"):
            expected = getattr(b.confidence, name)
            np.testing.assert_allclose(getattr(a.confidence, name), expected, rtol=0.01, atol=1e-3)
        np.testing.assert_allclose(
            a.alternatives.log_probs, b.alternatives.log_probs, rtol=0.01, atol=1e-3
        )
        arcs = [
            {
                (dep, head, table.label_names[label]): prob
                for dep, head, label, prob in zip(
                    table.dependents, table.heads, table.labels, table.probs, strict=True
                )
            }
            for table in (a.arcs, b.arcs)
        ]
        assert arcs[1]
        for place in arcs[0].keys() | arcs[1].keys():
            # An arc with a probability next to the threshold may be missing on one side.
            probs = [own.get(place, 0.01) for own in arcs]
            assert probs[0] == pytest.approx(probs[1], rel=0.01)


def test_the_stand_in_refuses_to_mix():
    there, here = DeviceOps().asarray(np.ones(3, "f")), np.ones(3, "f")
    for mix in (
        lambda: there + here,
        lambda: here * there,
        lambda: np.asarray(there),
        lambda: np.concatenate([here, there]),
        lambda: there[np.arange(2)],
        lambda: DeviceOps().xp.add(there, here),
    ):
        with pytest.raises(TypeError, match=r"device|implicit"):
            mix()
    np.testing.assert_array_equal((there + there).get(), here + here)
