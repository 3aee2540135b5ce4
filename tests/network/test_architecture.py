"""The whole network: gradients through all of its parts at once, and what it accepts."""

import numpy as np
import pytest
import spacy
from gradients import OPS, assert_parameters
from reference_layers import use_numpy
from spacy.tokens import Doc
from thinc.api import Model

from spacy_rootmind.annotation.sentences import sentences_of
from spacy_rootmind.network.architecture import (
    ParserGradient,
    ParserInput,
    build_biaffine_parser,
    find_vectors,
)
from spacy_rootmind.network.label_scorer import ChosenArcs

WIDTH = 5


@pytest.fixture(autouse=True)
def in_any_precision(monkeypatch):
    """Networks here have weights in double precision."""
    use_numpy(monkeypatch)


def toy_tok2vec(name="toy"):
    """Token vectors that are parameters themselves, by position in the Doc."""

    def forward(model, docs, is_train):
        E = model.get_param("E")

        def backprop(d_vectors):
            dE = np.zeros_like(E)
            for d_doc in d_vectors:
                dE[: len(d_doc)] += d_doc
            model.inc_grad("E", dE)
            return []

        return [E[: len(doc)] for doc in docs], backprop

    def init(model, X=None, Y=None):
        model.set_param("E", np.random.default_rng(0).normal(size=(20, WIDTH)))

    return Model(name, forward, init=init, dims={"nO": WIDTH}, params={"E": None})


@pytest.fixture
def docs():
    vocab = spacy.blank("xx").vocab
    return [
        Doc(vocab, words=["a", "b", " ", "c", "d", "e"], sent_starts=[1, 0, 0, 0, 1, 0]),
        Doc(vocab),
        Doc(vocab, words=["f"]),
        Doc(vocab, words=[f"w{i}" for i in range(9)]),
    ]


def given_of(docs, choose_arcs=None):
    return ParserInput(docs, [sentences_of(doc) for doc in docs], choose_arcs=choose_arcs)


def build(docs, tok2vec=None, *, qrnn_width=4, refinements=1, **others):
    """A network with random parameters in double precision."""
    model = build_biaffine_parser(
        tok2vec or toy_tok2vec(), qrnn_width, 4, 3, refinements, 0.0, nO=3, **others
    )
    model.get_ref("labels").set_dim("nO", 3)
    model.initialize(X=docs)
    rng = np.random.default_rng(1)
    for node in model.walk():
        node.ops = OPS
        for name in node.param_names:
            node.set_param(name, rng.normal(size=node.get_param(name).shape) * 0.4)
    return model


@pytest.mark.parametrize(
    ("qrnn_width", "boundary_qrnn_width", "refinements", "with_features"),
    [(0, 0, 0, False), (4, 2, 2, True), (4, 0, 1, False)],
)
def test_model_gradient_matches_finite_differences(
    docs, qrnn_width, boundary_qrnn_width, refinements, with_features
):
    features = toy_tok2vec("features") if with_features else None
    others = {
        "boundary_qrnn_width": boundary_qrnn_width,
        "features": features,
    }
    model = build(docs, qrnn_width=qrnn_width, refinements=refinements, **others)
    rng = np.random.default_rng(2)
    chosen = []

    def choose_arcs(trees):
        deps = trees.layout.words
        # Each word's neighbour before it in its sentence, ROOT included, as its head.
        chosen[:] = [ChosenArcs(deps, deps - 1, deps), ChosenArcs(deps[::2], deps[::2] - 1, deps)]
        return chosen

    given = given_of(docs, choose_arcs)
    (scores, boundaries, labels), backprop = model.begin_update(given)
    assert [own.arcs for own in labels] == chosen
    d_labels = [rng.normal(size=own.scores.shape) for own in labels]
    d_rounds = [
        [
            rng.normal(size=S.shape) * b.allowed
            for S, b in zip(arcs, scores.layout.buckets, strict=True)
        ]
        for arcs in scores.rounds
    ]
    d_boundaries = rng.normal(size=boundaries.shape)
    backprop(ParserGradient(d_rounds, d_labels, d_boundaries))

    def total():
        scores, boundaries, labels = model.predict(given)
        arcs = sum(
            (S * dS).sum()
            for round_scores, d_round in zip(scores.rounds, d_rounds, strict=True)
            for S, dS in zip(round_scores, d_round, strict=True)
        )
        of_labels = sum((own.scores * d).sum() for own, d in zip(labels, d_labels, strict=True))
        return arcs + of_labels + (boundaries * d_boundaries).sum()

    assert_parameters(model, total, rng, directions=1)


@pytest.mark.parametrize("with_features", [False, True])
@pytest.mark.parametrize(("name", "expected"), [("tok2vec-listener", 0.25), ("toy", 1.0)])
def test_grad_factor_scales_the_gradient_of_shared_vectors_only(
    docs, name, expected, with_features
):
    def gradients(factor):
        tok2vec = toy_tok2vec(name)
        features = toy_tok2vec("features") if with_features else None
        model = build(docs, tok2vec, grad_factor=factor, features=features)
        (trees, boundaries, _), backprop = model.begin_update(given_of(docs))
        rounds = [
            [np.ones_like(S) * b.allowed for S, b in zip(arcs, trees.layout.buckets, strict=True)]
            for arcs in trees.rounds
        ]
        backprop(ParserGradient(rounds, [], np.ones_like(boundaries)))
        layers = [node for node in model.walk() if node is not tok2vec]
        own = [node.get_grad(param) for node in layers for param in node.grad_names]
        assert features is None or np.abs(features.get_grad("E")).max() > 0
        return tok2vec.get_grad("E"), own

    whole, whole_own = gradients(1.0)
    scaled, scaled_own = gradients(0.25)
    assert np.abs(whole).max() > 0
    np.testing.assert_allclose(scaled, whole * expected)
    for found, same in zip(scaled_own, whole_own, strict=True):
        np.testing.assert_array_equal(found, same)


def test_features_are_appended_to_the_token_vectors(docs):
    """Also in a Doc that a transformer has no pieces for: its vectors and gradient have width 0."""
    tok2vec, features = toy_tok2vec(), toy_tok2vec("features")
    forward, shapes = tok2vec._func, []

    def without_pieces(model, docs, is_train):
        found, _ = forward(model, docs, is_train)
        found = [own if len(own) > 1 else own[:, :0] for own in found]
        return found, lambda d_found: shapes.extend(d.shape for d in d_found)

    tok2vec._func = without_pieces
    model = build(docs, tok2vec, features=features)
    vectors, backprop = find_vectors(model, docs, is_train=True)
    backprop(vectors)
    assert shapes == [(6, WIDTH), (0, 0), (1, 0), (9, WIDTH)]
    assert [len(own) for own in vectors] == [6, 0, 1, 9]
    E, F = tok2vec.get_param("E"), features.get_param("E")
    np.testing.assert_array_equal(vectors[3], np.hstack([E[:9], F[:9]]))
    np.testing.assert_array_equal(vectors[2], np.hstack([np.zeros((1, WIDTH)), F[:1]]))
