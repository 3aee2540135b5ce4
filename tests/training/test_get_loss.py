"""`get_loss`, the network and `update` agree."""

import numpy as np
import pytest
from parsers import SMALL_MODEL, initialized
from spacy.util import fix_random_seed
from thinc.api import set_dropout_rate

from spacy_rootmind.annotation.gold import GoldBatch
from spacy_rootmind.network.architecture import ParserInput


@pytest.fixture(params=[False, True], ids=["plain", "null_label"])
def learning(request, quickstart_docs):
    """A parser with dropout everywhere, and examples."""
    model = {**SMALL_MODEL, "null_label": request.param, "dropout": 0.5}
    nlp, examples = initialized(quickstart_docs[:8], model=model)
    parser = nlp.get_pipe("root_mst")
    set_dropout_rate(parser.model, 0.5)
    return parser, examples


def gradients(parser):
    return [
        node.get_grad(name).copy() if node.has_grad(name) else None
        for node in parser.model.walk()
        for name in node.grad_names
    ]


def test_training_and_prediction_score_alike(learning):
    """Without dropout; prediction has compiled passes of its own."""
    parser, examples = learning
    set_dropout_rate(parser.model, 0.0)
    for node in parser.model.walk():
        if "parser_dropout" in node.attrs:
            node.attrs["parser_dropout"] = 0.0
    gold = GoldBatch.from_examples(examples, parser.root_label)
    docs = [eg.predicted for eg in examples]
    trained, _ = parser.model.begin_update(ParserInput(docs, gold.sentences))
    predicted = parser.model.predict(ParserInput(docs, gold.sentences))
    for a, b in zip(trained.trees.arcs, predicted.trees.arcs, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-5)


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
