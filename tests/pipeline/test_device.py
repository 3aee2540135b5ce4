"""As on a GPU: token vectors and Thinc's layers have arrays of the device, all others of NumPy.

On a stand-in for a GPU's arrays, or on a GPU: `pytest tests/pipeline/test_device.py --gpu`.
"""

from contextlib import nullcontext

import numpy as np
import pytest
import spacy
from device import (
    FUNCTIONS,
    METHODS,
    ON_GPU,
    DeviceArray,
    DeviceOps,
    on_device,
    use_device,
)
from parsers import LISTENING, SMALL_MODEL, gold_examples, join, kbest, multi_hash
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import fix_random_seed
from thinc.api import Adam, Model, to_numpy

from spacy_rootmind.annotation.words import Expansion, Word, write_expansions
from spacy_rootmind.guidelines.constraints import Constraints
from spacy_rootmind.multiword.expander import MWTExpander
from spacy_rootmind.multiword.script_scorer import build_script_scorer
from spacy_rootmind.network.architecture import build_biaffine_parser
from spacy_rootmind.pipeline.root_mst import RootMST
from spacy_rootmind.training.objective import OBJECTIVES
from spacy_rootmind.training.optimizer import make_adam

WIDTH = 6


@pytest.fixture(autouse=True)
def device(monkeypatch):
    """Thinc's helpers know the stand-in as they know CuPy."""
    use_device(monkeypatch)


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


def make(place, examples, dropout=0.0, layers=(), **settings):
    """A parser whose layers are made in a place, on the device or not, with the same weights."""
    others = {"dropout": dropout, "null_label": True, **dict(layers)}
    with place():
        network = build_biaffine_parser(word_table(), 4, 4, 3, 1, **others)
    parser = RootMST(examples[0].predicted.vocab, network, **settings)
    fix_random_seed(0)
    parser.initialize(lambda: examples)
    return parser


def make_both(examples, **settings):
    """The same parser on the device and on the host."""
    return make(on_device, examples, **settings), make(nullcontext, examples, **settings)


@pytest.fixture
def examples(quickstart_docs):
    joined = join(quickstart_docs[:18], 3)
    return gold_examples([*joined, Doc(joined[0].vocab)], spacy.blank("xx"))


def assert_same_arrays(there, here, kind, rtol=1e-3, atol=1e-4):
    """Assert that two models have the same parameters or gradients, one of them on the device."""
    n_far = 0
    for far, near in zip(there.walk(), here.walk(), strict=True):
        for name in near.param_names:
            if not near.has_param(name):
                continue
            found, expected = getattr(far, kind)(name), getattr(near, kind)(name)
            n_far += isinstance(found, DeviceArray)
            scale = np.abs(expected).max()
            np.testing.assert_allclose(to_numpy(found), expected, rtol=rtol, atol=atol * scale)
    assert n_far


def learn(parser, examples, **settings):
    """Take a step on given examples; returns the loss."""
    fix_random_seed(1)
    return parser.update(examples, **settings)["root_mst"]


# --- training ----------------------------------------------------------------------------------


def teach(examples):
    """Give every other example the distributions of a teacher instead of a tree."""
    teacher = make(nullcontext, examples, distribution_threshold=1e-9)
    docs = [Doc(eg.predicted.vocab).from_bytes(eg.predicted.to_bytes()) for eg in examples[1::2]]
    teacher.set_annotations(docs, teacher.predict(docs))
    found = list(examples)
    found[1::2] = [Example(eg.predicted, doc) for eg, doc in zip(examples[1::2], docs, strict=True)]
    return found


@pytest.mark.one_each("objective")
@pytest.mark.parametrize(
    ("layers", "is_taught"),
    [({}, False), ({"label_rank": 2, "boundary_qrnn_width": 3}, False), ({}, True)],
    ids=["trees", "layers", "teachers"],
)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_learning_on_a_device_gives_the_same_gradients(examples, objective, layers, is_taught):
    own = teach(examples) if is_taught else examples
    there, here = make_both(examples, objective=objective, dropout=0.3, layers=layers)
    for batch in (own[:4], own):
        loss = learn(there, batch)
        assert loss == pytest.approx(learn(here, batch), rel=1e-5)
        assert_same_arrays(there.model, here.model, "get_grad")
    if is_taught:
        assert loss != pytest.approx(learn(here, examples), rel=0.01)


@pytest.mark.parametrize("make_optimizer", [Adam, make_adam])
def test_steps_of_the_optimizer_are_the_same(make_optimizer, examples):
    there, here = make_both(examples, learn_rate_factor=2.0)
    for parser in (there, here):
        optimizer = make_optimizer(0.001, L2=0.01, grad_clip=1.0, use_averages=True)
        for _ in range(3):
            learn(parser, examples)
            parser.finish_update(optimizer)
        averaged = {key: value for key, value in optimizer.averages.items() if value is not None}
        with parser.model.use_params(averaged):
            assert len(parser.predict([examples[0].predicted])) == 1
    assert_same_arrays(there.model, here.model, "get_param", rtol=0.01, atol=0.01)


# --- parses ------------------------------------------------------------------------------------


def give_label(doc):
    return Constraints(labels=[(i, "obj") for i in range(len(doc))[:1]])


@pytest.mark.parametrize(
    ("more", "n_tokens"),
    [
        ({"decode": "tree"}, 20),
        ({"decode": "labelled_tree", **kbest(3)}, 4096),
        ({"constraints": give_label, "sentences": "doc"}, 20),
    ],
)
def test_parses_on_a_device_are_the_same(examples, monkeypatch, more, n_tokens):
    """With Docs of at most `n_tokens` tokens at once."""
    settings = {"confidence": True, "arc_threshold": 0.01, **kbest(3), **more}
    there, here = make_both(examples, **settings)
    docs = [eg.predicted for eg in examples]
    monkeypatch.setattr("spacy_rootmind.pipeline.prediction.MAX_TOKENS", n_tokens)
    for far, near in zip(there.predict(docs), here.predict(docs), strict=True):
        np.testing.assert_array_equal(far.heads, near.heads)
        np.testing.assert_array_equal(far.labels, near.labels)
        first = {near.label_names[label] for label in near.labels[:1].tolist()}
        assert "constraints" not in more or first <= {"obj"}
        assert [place for *place, _ in far.details] == [place for *place, _ in near.details]
        for (*_, a), (*_, b) in zip(far.details, near.details, strict=True):
            for name in ("log_prob", "entropy", "head_probs"):
                assert_close(getattr(a.confidence, name), getattr(b.confidence, name))
            assert_close(a.alternatives.log_probs, b.alternatives.log_probs)
            arcs = [probs_of(own.arcs) for own in (a, b)]
            # An arc with a probability next to the threshold may be missing on one side.
            places = sorted(arcs[0].keys() | arcs[1].keys())
            assert_close(*([own.get(place, 0.01) for place in places] for own in arcs), atol=0)


def assert_close(found, expected, atol=1e-3):
    np.testing.assert_allclose(found, expected, rtol=0.01, atol=atol)


def probs_of(table):
    """The probability of each arc with its label."""
    names = [table.label_names[label] for label in table.labels]
    arcs = zip(table.dependents.tolist(), table.heads.tolist(), names, strict=True)
    return dict(zip(arcs, table.probs.tolist(), strict=True))


def test_temperatures_fitted_on_a_device_are_the_same(examples):
    there, here = make_both(examples)
    for parser in (there, here):
        parser.fit_temperature(examples)
    for name in ("temperature", "label_temperature"):
        assert there.cfg[name] == pytest.approx(here.cfg[name], rel=1e-3) != 1.0


def test_weights_move_between_host_and_device_by_files(examples, tmp_path):
    there, here = make_both(examples)
    learn(there, examples, sgd=Adam(0.01))
    docs = [example.predicted for example in examples]
    there.to_disk(tmp_path)
    here.from_disk(tmp_path)
    assert_same_arrays(there.model, here.model, "get_param", rtol=0, atol=0)
    again = make(on_device, examples).from_bytes(here.to_bytes())
    assert_same_arrays(again.model, here.model, "get_param", rtol=0, atol=0)
    for far, near in zip(again.predict(docs), there.predict(docs), strict=True):
        np.testing.assert_array_equal(far.heads, near.heads)
        np.testing.assert_array_equal(far.labels, near.labels)


# --- with layers of spaCy's --------------------------------------------------------------------


def make_pipeline(examples):
    """A shared tok2vec, and a parser that listens to it and has features of its own."""
    model = {**LISTENING, "features": multi_hash("SHAPE", width=WIDTH, rows=40)}
    nlp = spacy.blank("xx")
    nlp.add_pipe("tok2vec", config={"model": SMALL_MODEL["tok2vec"]})
    nlp.add_pipe("root_mst", config={"model": model, "confidence": True})
    fix_random_seed(0)
    nlp.initialize(lambda: examples)
    return nlp


def test_pipelines_with_a_shared_tok2vec_run_on_a_device(examples):
    with on_device():
        there = make_pipeline(examples)
    here = make_pipeline(examples)
    losses = []
    for nlp in (there, here):
        found = {}
        fix_random_seed(1)
        nlp.update(examples, sgd=False, losses=found)
        losses.append(found)
    assert losses[0]["root_mst"] == pytest.approx(losses[1]["root_mst"], rel=1e-4)
    assert losses[0]["tok2vec"] == pytest.approx(losses[1]["tok2vec"], rel=1e-3)
    for name in ("tok2vec", "root_mst"):
        models = there.get_pipe(name).model, here.get_pipe(name).model
        assert_same_arrays(*models, "get_grad", rtol=0.01, atol=1e-3)
    text = examples[0].predicted.text
    parses = [nlp(text) for nlp in (there, here)]
    assert isinstance(parses[0].tensor, DeviceArray)
    for far, near in zip(*parses, strict=True):
        assert (far.head.i, far.dep_) == (near.head.i, near.dep_)
    # The parser with a copy of the shared layers, and the copy in a pipeline on the host.
    with on_device():
        there.replace_listeners("tok2vec", "root_mst", ["model.tok2vec"])
    here.replace_listeners("tok2vec", "root_mst", ["model.tok2vec"])
    saved = there.get_pipe("root_mst").to_bytes(exclude=["vocab"])
    here.get_pipe("root_mst").from_bytes(saved, exclude=["vocab"])
    for far, near in zip(there(text), here(text), strict=True):
        assert (far.head.i, far.dep_) == (near.head.i, near.dep_)


# --- the stand-in ------------------------------------------------------------------------------


def test_cupy_has_what_the_stand_in_has():
    cupy = pytest.importorskip("cupy", reason="compares names with CuPy's")
    assert not [name for name in FUNCTIONS if not hasattr(cupy, name)]
    assert not [name for name in METHODS if not hasattr(cupy.ndarray, name)]


@pytest.mark.skipif(ON_GPU, reason="CuPy copies some of these silently")
def test_the_stand_in_refuses_to_mix():
    there, here = DeviceOps().asarray(np.ones(3, "f")), np.ones(3, "f")
    for mix in (
        lambda: there + here,
        lambda: here * there,
        lambda: np.asarray(there),
        lambda: np.concatenate([here, there]),
        lambda: there[np.arange(2)],
        lambda: there[[0, 1]],
        lambda: DeviceOps().xp.add(there, here),
    ):
        with pytest.raises(TypeError, match=r"device|implicit"):
            mix()
    np.testing.assert_array_equal((there + there).get(), here + here)


# --- multiword tokens ----------------------------------------------------------------------------


def make_expander(place, examples):
    """An expander whose layers are made in a place, on the device or not, with the same weights."""
    with place():
        network = build_script_scorer(word_table())
    expander = MWTExpander(examples[0].predicted.vocab, network)
    expander.initialize(lambda: examples)
    return expander


def test_an_expander_learns_and_predicts_as_on_the_host():
    nlp = spacy.blank("fr")
    words = ["du", "lit", "au", "roi", "des"]
    gold = Doc(nlp.vocab, words=words)
    du, au = (Expansion(0, (Word(word), Word("le"))) for word in ("de", "à"))
    write_expansions(gold, {0: du, 2: au})
    plain = Doc(nlp.vocab, words=["du", "roi"])
    examples = [Example(Doc(nlp.vocab, words=[t.text for t in doc]), doc) for doc in (gold, plain)]
    examples.append(Example(Doc(nlp.vocab), Doc(nlp.vocab)))
    there, here = (make_expander(place, examples) for place in (on_device, nullcontext))
    losses = [one.update(examples) for one in (there, here)]
    assert losses[0] == pytest.approx(losses[1])
    assert_same_arrays(there.model, here.model, "get_grad")
    for one in (there, here):
        one.finish_update(Adam(0.1))
    docs = [example.predicted for example in examples]
    found = there.predict(docs)
    assert found == here.predict(docs)
    assert found[0]
