"""The whole network: gradients through all of its parts at once, and what it accepts."""

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc
from thinc.api import Model, Ops

from spacy_rootmind.annotation.sentences import sentences_of
from spacy_rootmind.network.architecture import ParserGradient, ParserInput, build_biaffine_parser
from spacy_rootmind.network.tree_scorer import TreeGradient

OPS = Ops()
WIDTH = 5


def toy_tok2vec():
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

    return Model("toy", forward, init=init, dims={"nO": WIDTH}, params={"E": None})


@pytest.fixture
def docs():
    vocab = spacy.blank("en").vocab
    return [
        Doc(vocab, words=["a", "b", " ", "c", "d", "e"], sent_starts=[1, 0, 0, 0, 1, 0]),
        Doc(vocab),
        Doc(vocab, words=["f"]),
        Doc(vocab, words=[f"w{i}" for i in range(9)]),
    ]


def in_double(model):
    rng = np.random.default_rng(1)
    for node in model.walk():
        node.ops = OPS
        for name in node.param_names:
            node.set_param(name, rng.normal(size=node.get_param(name).shape) * 0.4)
    return model


@pytest.mark.parametrize(("lstm_width", "refinements"), [(0, 0), (4, 2)])
def test_model_gradient_matches_finite_differences(docs, lstm_width, refinements):
    model = build_biaffine_parser(toy_tok2vec(), lstm_width, 4, 3, refinements, 0.0, nO=3)
    model.get_ref("labels").set_dim("nO", 3)
    model.initialize(X=docs)
    in_double(model)
    given = ParserInput(docs, [sentences_of(doc) for doc in docs])
    rng = np.random.default_rng(2)
    (scores, boundaries), backprop = model.begin_update(given)
    deps = scores.layout.words
    # Each word's neighbour before it in its sentence, ROOT included, as its head.
    heads = deps - 1
    guesses, backprop_labels = scores.begin_labels(deps, heads, is_train=True)
    d_labels = rng.normal(size=guesses.shape)
    d_rounds = [
        [
            rng.normal(size=S.shape) * b.allowed
            for S, b in zip(arcs, scores.layout.buckets, strict=True)
        ]
        for arcs in scores.rounds
    ]
    d_boundaries = rng.normal(size=boundaries.shape)
    backprop(ParserGradient(TreeGradient(d_rounds, backprop_labels(d_labels)), d_boundaries))

    def total():
        scores, boundaries = model.predict(given)
        guesses, _ = scores.begin_labels(deps, heads, is_train=False)
        arcs = sum(
            (S * dS).sum()
            for round_scores, d_round in zip(scores.rounds, d_rounds, strict=True)
            for S, dS in zip(round_scores, d_round, strict=True)
        )
        return arcs + (guesses * d_labels).sum() + (boundaries * d_boundaries).sum()

    for node in model.walk():
        for name in node.param_names:
            value = node.get_param(name).copy()
            direction = rng.normal(size=value.shape)
            step = 1e-6
            node.set_param(name, value + step * direction)
            above = total()
            node.set_param(name, value - step * direction)
            below = total()
            node.set_param(name, value)
            numeric = (above - below) / (2 * step)
            analytic = (node.get_grad(name) * direction).sum()
            assert numeric == pytest.approx(analytic, rel=1e-5, abs=1e-7), (node.name, name)


def test_model_takes_plain_docs_with_their_own_sentences(docs):
    model = build_biaffine_parser(toy_tok2vec(), 4, 4, 3, 1, 0.0, nO=3)
    model.get_ref("labels").set_dim("nO", 3)
    model.initialize(X=docs)
    in_double(model)
    plain = model.predict(docs).trees
    given = model.predict(ParserInput(docs, [sentences_of(doc) for doc in docs])).trees
    assert plain.layout.lengths.tolist() == [3, 2, 1, 9]
    for a, b in zip(plain.arcs, given.arcs, strict=True):
        np.testing.assert_array_equal(a, b)


def test_refinement_changes_scores_and_keeps_the_first_round(docs):
    model = build_biaffine_parser(toy_tok2vec(), 4, 4, 3, 2, 0.0, nO=3)
    model.get_ref("labels").set_dim("nO", 3)
    model.initialize(X=docs)
    in_double(model)
    scores = model.predict(docs).trees
    assert len(scores.rounds) == 3
    for first, last in zip(scores.rounds[0], scores.arcs, strict=True):
        assert first.shape == last.shape
        if first.shape[1] > 2:
            assert not np.allclose(first, last)


def listener_to(tok2vec, drops_width):
    """The same vectors; transformers' listeners drop the width of Docs that have no words."""

    def forward(model, docs, is_train):
        given, backprop_given = model.layers[0](docs, is_train)
        bare = [drops_width and all(token.is_space for token in doc) for doc in docs]
        found = [own[:, :0] if is_bare else own for own, is_bare in zip(given, bare, strict=True)]

        def backprop(d_found):
            assert [d.shape for d in d_found] == [own.shape for own in found]
            each = zip(d_found, given, bare, strict=True)
            return backprop_given([np.zeros_like(v) if is_bare else d for d, v, is_bare in each])

        return found, backprop

    return Model("listener", forward, layers=[tok2vec], dims={"nO": WIDTH})


def test_docs_without_words_may_have_vectors_without_width(docs):
    docs.insert(1, Doc(docs[0].vocab, words=[" ", "\n"], spaces=[False, False]))
    found = []
    for drops_width in (False, True):
        tok2vec = toy_tok2vec()
        tok2vec.initialize()
        model = build_biaffine_parser(listener_to(tok2vec, drops_width), 4, 4, 3, 1, 0.0, nO=3)
        model.get_ref("labels").set_dim("nO", 3)
        model.initialize(X=docs)
        in_double(model)
        (trees, boundaries), backprop = model.begin_update(docs)
        backprop(ParserGradient(TreeGradient(trees.rounds, np.zeros_like(trees.rows)), boundaries))
        found.append((boundaries, tok2vec.get_grad("E")))
    for given, dropped in zip(*found, strict=True):
        np.testing.assert_allclose(given, dropped, rtol=1e-9)
