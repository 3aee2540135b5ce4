"""As on a GPU: no array is copied to or from the device but where the code says so.

On a stand-in for a GPU's arrays, or on a GPU: `pytest tests/pipeline/test_device.py --gpu`.
"""

from functools import partial

import numpy as np
import pytest
import spacy
from device import (
    CONSTANTS,
    FUNCTIONS,
    METHODS,
    MODULE,
    ON_GPU,
    TRANSFERS,
    DeviceArray,
    DeviceOps,
    counted,
    on_device,
    use_device,
)
from parsers import LISTENING, SMALL_MODEL, gold_examples, join, multi_hash
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import fix_random_seed
from thinc.api import Adam, Model, NumpyOps

from spacy_rootmind.annotation.records import read_record
from spacy_rootmind.guidelines.constraints import Constraints
from spacy_rootmind.network.architecture import build_biaffine_parser
from spacy_rootmind.pipeline.alternatives import kbest
from spacy_rootmind.pipeline.root_mst import RootMST
from spacy_rootmind.pipeline.stored_distributions import teacher_name
from spacy_rootmind.training.losses import OBJECTIVES

WIDTH = 6
OTHER_LAYERS = {"label_rank": 2, "boundary_qrnn_width": 3}
OF_STAND_IN = pytest.mark.skipif(ON_GPU, reason="counts or refuses what CuPy does not")


@pytest.fixture
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


def make(ops, examples, dropout=0.0, layers=(), **settings):
    """A parser whose arrays are those of `ops`; its weights do not depend on that."""
    # CuPy draws other numbers than NumPy.
    others = {"dropout": 0.0 if ON_GPU else dropout, "null_label": True, **dict(layers)}
    network = build_biaffine_parser(word_table(), 4, 4, 3, 1, **others)
    for node in network.walk():
        node.ops = ops
    parser = RootMST(examples[0].predicted.vocab, network, **settings)
    fix_random_seed(0)
    parser.initialize(lambda: examples)
    return parser


def make_both(examples, **settings):
    """The same parser on the device and on the host."""
    return make(DeviceOps(), examples, **settings), make(NumpyOps(), examples, **settings)


@pytest.fixture
def examples(quickstart_docs):
    joined = join(quickstart_docs[:18], 3)
    return gold_examples([*joined, Doc(joined[0].vocab)], spacy.blank("xx"))


def assert_same_arrays(there, here, kind, rtol=1e-3, atol=1e-4):
    """Assert that two models have the same parameters or gradients, one of them on the device."""
    for far, near in zip(there.walk(), here.walk(), strict=True):
        for name in near.param_names:
            if not near.has_param(name):
                continue
            found, expected = getattr(far, kind)(name), getattr(near, kind)(name)
            assert isinstance(found, DeviceArray)
            scale = np.abs(expected).max()
            np.testing.assert_allclose(found.get(), expected, rtol=rtol, atol=atol * scale)


def learn(parser, examples, **settings):
    """Take a step on given examples; returns the loss."""
    fix_random_seed(1)
    return parser.update(examples, **settings)["root_mst"]


# --- training ----------------------------------------------------------------------------------


@pytest.mark.usefixtures("device")
@pytest.mark.one_each("objective")
@pytest.mark.parametrize("layers", [{}, OTHER_LAYERS], ids=len)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_learning_on_a_device_gives_the_same_gradients(examples, objective, layers):
    there, here = make_both(examples, objective=objective, dropout=0.3, layers=layers)
    losses = [learn(parser, examples) for parser in (there, here)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert_same_arrays(there.model, here.model, "get_grad")


@OF_STAND_IN
@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_an_update_copies_the_same_few_times_whatever_is_in_it(examples, objective):
    parser = make(DeviceOps(), examples, objective=objective, dropout=0.3)
    for batch in (examples[:4], examples):
        with counted():
            learn(parser, batch)
            uploads, downloads = TRANSFERS.count("spacy_rootmind")
        assert uploads <= 9
        assert downloads <= 3


@pytest.mark.usefixtures("device")
def test_steps_of_the_optimizer_stay_on_the_device(examples):
    there, here = make_both(examples, learn_rate_factor=2.0)
    for parser in (there, here):
        optimizer = Adam(0.001, L2=0.01, grad_clip=1.0, use_averages=True)
        for _ in range(3):
            learn(parser, examples)
            with counted():
                parser.finish_update(optimizer)
                assert not TRANSFERS.uploads + TRANSFERS.downloads
        averaged = {key: value for key, value in optimizer.averages.items() if value is not None}
        with parser.model.use_params(averaged):
            assert len(parser.predict([examples[0].predicted])) == 1
    assert_same_arrays(there.model, here.model, "get_param", rtol=0.01, atol=0.01)


@pytest.fixture
def taught(examples):
    """Every other example has the distributions of a teacher instead of a tree."""
    teacher = make(NumpyOps(), examples, distribution_threshold=1e-9)
    found = []
    for i, example in enumerate(examples):
        doc = Doc(example.predicted.vocab).from_bytes(example.predicted.to_bytes())
        if i % 2:
            teacher.set_annotations([doc], teacher.predict([doc]))
        found.append(Example(example.predicted, doc if i % 2 else example.reference))
    return found


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_students_on_a_device_get_the_same_gradients(examples, taught, objective):
    there, here = make_both(examples, objective=objective)
    with counted():
        losses = [learn(there, taught)]
        uploads, downloads = TRANSFERS.count("spacy_rootmind")
    # One more set of arcs, for labels that the teacher finds probable.
    assert uploads <= 10
    assert downloads <= 3
    losses.append(learn(here, taught))
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert_same_arrays(there.model, here.model, "get_grad")
    assert losses[1] != pytest.approx(learn(here, examples), rel=0.01)


# --- parses ------------------------------------------------------------------------------------


def give_label(doc):
    return Constraints(labels=[(i, "obj") for i in range(len(doc))[:1]])


@pytest.mark.parametrize(
    ("more", "most"),
    [
        ({"decode": "tree"}, 20),
        ({"decode": "labelled_tree", "alternatives": kbest(3, labelled=True)}, 4096),
        ({"constraints": give_label, "sentences": "doc"}, 20),
    ],
)
@pytest.mark.usefixtures("device")
def test_parses_on_a_device_are_the_same(examples, monkeypatch, more, most):
    """With Docs of at most so many tokens at once."""
    settings = {"confidence": True, "arc_threshold": 0.01, "alternatives": kbest(3), **more}
    there, here = make_both(examples, **settings)
    docs = [eg.predicted for eg in examples]
    monkeypatch.setattr("spacy_rootmind.pipeline.prediction.MAX_TOKENS", most)
    for far, near in zip(there.predict(docs), here.predict(docs), strict=True):
        np.testing.assert_array_equal(far.heads, near.heads)
        assert far.deps == near.deps
        assert "constraints" not in more or {*near.deps[:1]} <= {"obj"}
        assert_close(far.details, near.details)


@pytest.mark.usefixtures("device")
def test_temperatures_fitted_on_a_device_are_the_same(examples):
    there, here = make_both(examples)
    assert there.fit_temperature(examples) == pytest.approx(
        here.fit_temperature(examples), rel=1e-3
    )
    assert there.cfg["label_temperature"] == pytest.approx(here.cfg["label_temperature"], rel=1e-3)


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


@OF_STAND_IN
@pytest.mark.usefixtures("device")
def test_boundaries_from_whole_docs_take_few_more_uploads(examples):
    docs = [example.predicted for example in examples]
    counts = {}
    for width in (0, 3):
        layers = {"boundary_qrnn_width": width}
        parser = make(DeviceOps(), examples, dropout=0.3, layers=layers, decode="tree")
        for run in (partial(learn, parser, examples), partial(parser.predict, docs)):
            with counted():
                run()
                counts.setdefault(width, []).append(TRANSFERS.count("spacy_rootmind"))
    (learnt, predicted), more = counts[0], counts[3]
    assert more == [(learnt[0] + 2, learnt[1]), (predicted[0] + 1, predicted[1])]


@OF_STAND_IN
@pytest.mark.usefixtures("device")
def test_a_parse_copies_the_same_few_times_whatever_is_in_it(examples):
    details = {"confidence": True, "arc_threshold": 0.01, "alternatives": kbest(3)}
    for settings, most in (({}, (6, 3)), (details, (10, 5))):
        parser = make(DeviceOps(), examples, decode="tree", **settings)
        for batch in (examples[:4], examples):
            with counted():
                parser.predict([example.predicted for example in batch])
                uploads, downloads = TRANSFERS.count("spacy_rootmind")
            assert uploads <= most[0]
            assert downloads <= most[1]


@pytest.mark.usefixtures("device")
def test_a_teacher_on_a_device_keeps_the_same_distributions(examples):
    there, here = make_both(examples, distribution_threshold=1e-4, sentences="doc")
    assert teacher_name(there.model, there.labels) == teacher_name(here.model, here.labels)
    found = []
    for parser in (there, here):
        doc = Doc(parser.vocab).from_bytes(examples[0].predicted.to_bytes())
        parser.set_annotations([doc], parser.predict([doc]))
        [sentence] = doc.sents
        found.append(read_record(sentence).distributions[0])
    for name in ("dependents", "heads", "log_weights", "label_probs"):
        far, near = (getattr(stored, name) for stored in found)
        np.testing.assert_allclose(far, near, rtol=1e-3, atol=1e-4)


@pytest.mark.usefixtures("device")
def test_weights_move_between_host_and_device_by_files(examples, tmp_path):
    there, here = make_both(examples)
    learn(there, examples, sgd=Adam(0.01))
    docs = [example.predicted for example in examples]
    there.to_disk(tmp_path)
    here.from_disk(tmp_path)
    assert_same_arrays(there.model, here.model, "get_param", rtol=0, atol=0)
    again = make(DeviceOps(), examples).from_bytes(here.to_bytes())
    assert_same_arrays(again.model, here.model, "get_param", rtol=0, atol=0)
    for far, near in zip(again.predict(docs), there.predict(docs), strict=True):
        np.testing.assert_array_equal(far.heads, near.heads)
        assert far.deps == near.deps


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


@pytest.mark.usefixtures("device")
def test_pipelines_with_a_shared_tok2vec_run_on_a_device(examples):
    with on_device():
        there = make_pipeline(examples)
    here = make_pipeline(examples)
    losses = []
    for nlp in (there, here):
        found = {}
        fix_random_seed(1)
        with counted():
            nlp.update(examples, sgd=False, losses=found)
            uploads, downloads = TRANSFERS.count("spacy_rootmind")
        losses.append(found)
        assert uploads <= 9
        assert downloads <= 3
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


@OF_STAND_IN
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


@OF_STAND_IN
def test_the_stand_in_counts_copies_and_waits():
    with counted():
        there = MODULE.asarray(np.arange(6.0).reshape(2, 3))
        assert (len(TRANSFERS.uploads), TRANSFERS.downloads) == (1, [])
        total = there.sum()
        assert isinstance(total, DeviceArray)
        assert total.shape == ()
        assert not TRANSFERS.downloads
        assert (float(total), int(total), bool(total > 3)) == (15.0, 15, True)
        assert len(TRANSFERS.downloads) == 3
        assert len((there > 1).nonzero()[0].get()) == 4
        assert there[there > 1].shape == (4,)
        assert TRANSFERS.downloads == [__name__] * 6


def test_cupy_has_what_the_stand_in_has():
    cupy = pytest.importorskip("cupy", reason="compares names with CuPy's")
    assert not [name for name in FUNCTIONS | CONSTANTS if not hasattr(cupy, name)]
    assert not [name for name in METHODS if not hasattr(cupy.ndarray, name)]
