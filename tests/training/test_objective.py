"""The objectives that arcs are trained for, in the component."""

import numpy as np
import pytest
from parsers import gold_examples, make_nlp, train
from spacy.tokens import Doc
from spacy.training import Example

from spacy_rootmind import decode
from spacy_rootmind.annotation.gold import drop_contradictions
from spacy_rootmind.training.losses import OBJECTIVES
from spacy_rootmind.trees.conventions import MISSING


# `tree_crf` is that of most other tests.
@pytest.mark.parametrize("objective", sorted({*OBJECTIVES} - {"tree_crf"}))
def test_every_objective_overfits_the_examples(objective, quickstart_docs):
    nlp = make_nlp(objective=objective)
    examples = gold_examples(quickstart_docs[:12], nlp)
    train(nlp, examples, steps=25, size=12)
    scores = nlp.evaluate(gold_examples(quickstart_docs[:12], nlp))
    assert scores["dep_uas"] > 0.9
    assert scores["root_violations"] == 0.0


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_contradictory_annotation_does_not_stop_training(objective, quickstart_docs):
    nlp = make_nlp(objective=objective)
    examples = gold_examples(quickstart_docs[:5], nlp)
    odd = [
        ([1, 2, 0, 3], ["nsubj", "obj", "det", "ROOT"]),  # a cycle
        ([0, 0, 2, 2], ["ROOT", "obj", "ROOT", "det"]),  # two roots, said to be one sentence
    ]
    for heads, deps in odd:
        words = ["a", "b", "c", "d"]
        starts = [True, False, False, False]
        reference = Doc(nlp.vocab, words=words, heads=heads, deps=deps, sent_starts=starts)
        predicted = Doc(nlp.vocab, words=words, sent_starts=starts)
        examples.append(Example(predicted, reference))
    optimizer = nlp.initialize(lambda: examples)
    losses = nlp.update(examples, sgd=optimizer)
    assert np.isfinite(losses["root_mst"])
    assert losses["root_mst"] > 0


@pytest.mark.parametrize(
    ("heads", "expected"),
    [
        ([MISSING, 0, 1, 2], [MISSING, 0, 1, 2]),
        ([MISSING, 2, 1, 2], [MISSING, MISSING, MISSING, 2]),
        ([MISSING, 0, 0, 2], [MISSING, MISSING, MISSING, 2]),
        ([MISSING, MISSING, 1, 0], [MISSING, MISSING, 1, 0]),
        ([MISSING, MISSING, 3, 2], [MISSING, MISSING, MISSING, MISSING]),
    ],
)
def test_drop_contradictions_keeps_the_rest(heads, expected):
    kept = drop_contradictions(np.array([heads]), np.array([3]))
    assert kept.tolist() == [expected]


def test_drop_contradictions_leaves_what_some_tree_has():
    rng = np.random.default_rng(0)
    for _ in range(300):
        n = int(rng.integers(1, 8))
        heads = rng.integers(-1, n + 1, size=(1, n + 1))
        heads[0, 0] = MISSING
        heads[0, heads[0] == np.arange(n + 1)] = MISSING
        kept = drop_contradictions(heads, np.array([n]))
        allowed = (kept[0][:, None] == MISSING) | (kept[0][:, None] == np.arange(n + 1))
        decode(np.zeros((n + 1, n + 1)), allowed=allowed)
        assert ((kept == heads) | (kept == MISSING)).all()
