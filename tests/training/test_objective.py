"""The objectives that arcs are trained for, in the component, and the loss of sentence starts."""

import numpy as np
import pytest
from parsers import gold_examples, make_nlp, train
from spacy.tokens import Doc
from spacy.training import Example
from strategies import each_dtype, rng_for

from spacy_rootmind import decode
from spacy_rootmind.annotation.gold import drop_contradictions
from spacy_rootmind.training.objective import OBJECTIVES, boundary_loss
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
        decode(np.where(allowed, 0.0, -np.inf))
        assert ((kept == heads) | (kept == MISSING)).all()


@each_dtype
@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0, 1e4, 1e30])
def test_boundary_loss_and_its_gradient(scale, dtype):
    """The cross entropy of the known starts; the gradient is their probability less the truth."""
    rng = rng_for("boundary loss", scale)
    for n in (0, 1, 50):
        scores = (scale * rng.standard_normal(n)).astype(dtype)
        truths = rng.integers(-1, 2, size=n)
        for array in (scores, truths):
            array.setflags(write=False)
        loss, gradient = boundary_loss(scores, truths)
        assert isinstance(loss, float)
        known, wide = truths != MISSING, scores.astype("f8")
        against = np.where(truths == 1, -wide, wide)[known]
        assert loss == pytest.approx(np.logaddexp(0, against).sum(), rel=1e-5, abs=1e-5)
        assert gradient.dtype == dtype
        expected = np.where(known, 0.5 * (1 + np.tanh(wide / 2)) - truths, 0.0)
        np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-6)
