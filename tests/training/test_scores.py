"""The network scores the same sentences alike in training and in prediction."""

import numpy as np
import pytest
from parsers import SMALL_MODEL, initialized
from thinc.api import Ops, set_dropout_rate

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
