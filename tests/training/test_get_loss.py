"""`get_loss` is a function of its arguments: it changes nothing, and repeats to the digit."""

import numpy as np
import pytest
from parsers import SMALL_MODEL, assign, initialized
from spacy.util import fix_random_seed
from thinc.api import Ops, set_dropout_rate

from spacy_rootmind.annotation.gold import GoldBatch
from spacy_rootmind.network.architecture import ParserInput
from spacy_rootmind.training.losses import OBJECTIVES


@pytest.fixture(params=[False, True], ids=["plain", "null_label"])
def learning(request, quickstart_docs):
    """A parser with dropout everywhere, and examples."""
    model = {**SMALL_MODEL, "null_label": request.param, "dropout": 0.5}
    nlp, examples = initialized(quickstart_docs[:8], model=model)
    parser = nlp.get_pipe("root_mst")
    set_dropout_rate(parser.model, 0.5)
    return parser, examples


def scores_of(parser, examples, *, is_train):
    """The network's scores, without and with labels and dropout."""
    if not is_train:
        return parser.model.predict([eg.predicted for eg in examples])
    return parser.model.begin_update(parser.training_input(examples))[0]


def gradients(parser):
    return [
        node.get_grad(name).copy() if node.has_grad(name) else None
        for node in parser.model.walk()
        for name in node.grad_names
    ]


@pytest.mark.one_each("objective", "is_train")
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("is_train", [False, True])
def test_get_loss_repeats_and_leaves_everything_alone(learning, is_train, objective):
    parser, examples = learning
    assign(parser, objective=objective)
    scores = scores_of(parser, examples, is_train=is_train)
    weights, before = parser.model.to_bytes(), gradients(parser)
    fix_random_seed(5)
    mask = parser.model.ops.get_dropout_mask((9, 9), 0.5)
    fix_random_seed(5)
    results = [parser.get_loss(examples, scores) for _ in range(4)]
    losses = {loss for loss, _ in results}
    assert len(losses) == 1
    assert losses.pop() > 0
    for other in results[1:]:
        for name in ("rounds", "labels"):
            for a, b in zip(getattr(results[0][1], name), getattr(other[1], name), strict=True):
                for x, y in zip(a, b, strict=True):
                    np.testing.assert_array_equal(x, y)
    assert parser.model.to_bytes() == weights
    after = gradients(parser)
    assert [g is None for g in after] == [g is None for g in before]
    assert all(np.array_equal(a, b) for a, b in zip(after, before, strict=True) if a is not None)
    # No random number was drawn either.
    assert np.array_equal(parser.model.ops.get_dropout_mask((9, 9), 0.5), mask)


@pytest.mark.parametrize("fast", [True, False], ids=["compiled", "plain"])
def test_training_and_prediction_score_alike(learning, fast):
    """Without dropout, the one forward pass gives training and prediction the same scores.

    Prediction has compiled passes of its own, and its embeddings another BLAS; without these, the
    scores are the same to the last bit.
    """
    parser, examples = learning
    if not fast:
        for node in parser.model.walk():
            node.ops = Ops()
    set_dropout_rate(parser.model, 0.0)
    for node in parser.model.walk():
        if "parser_dropout" in node.attrs:
            node.attrs["parser_dropout"] = 0.0
    gold = GoldBatch.from_examples(examples, parser.root_label)
    docs = [eg.predicted for eg in examples]
    trained, _ = parser.model.begin_update(ParserInput(docs, gold.sentences))
    predicted = parser.model.predict(ParserInput(docs, gold.sentences))
    for a, b in zip(trained.trees.arcs, predicted.trees.arcs, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-5 if fast else 0.0)


def test_backpropagating_the_gradient_is_what_update_does(learning):
    parser, examples = learning
    found = []
    for by_hand in (True, False):
        fix_random_seed(3)
        if by_hand:
            scores, backprop = parser.model.begin_update(parser.training_input(examples))
            loss, gradient = parser.get_loss(examples, scores)
            backprop(gradient)
        else:
            loss = parser.update(examples, drop=0.5)[parser.name]
        found.append((loss, gradients(parser)))
        for node in parser.model.walk():
            for name in node.grad_names:
                node.set_grad(name, 0 * node.get_grad(name))
    assert found[0][0] == found[1][0]
    for a, b in zip(found[0][1], found[1][1], strict=True):
        np.testing.assert_array_equal(a, b)
