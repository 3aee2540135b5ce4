"""The null label: what it learns, and that it has no part in parses."""

import numpy as np
import pytest
import reference
from gradients import in_double
from parsers import SMALL_MODEL, changeable, gold_examples, make_nlp, score_labels, train
from reference_layers import use_numpy
from strategies import rng_for

from spacy_rootmind import TreeDistribution, tree_crf
from spacy_rootmind.annotation.gold import GoldBatch
from spacy_rootmind.annotation.sentences import sentences_of
from spacy_rootmind.network.arc_scorer import BiaffineArcs
from spacy_rootmind.network.architecture import ParserInput, ParserScores
from spacy_rootmind.network.label_scorer import BiaffineLabels, begin_label_scores, find_best_labels
from spacy_rootmind.network.refine import Refine
from spacy_rootmind.network.tree_scorer import TreeInput, TreeScorer
from spacy_rootmind.training.objective import (
    EARLY_ROUND_WEIGHT,
    LABEL_WEIGHT,
    NULL_WEIGHT,
    arcs_to_label,
    gold_heads,
    parser_loss,
    wrong_arcs,
)
from spacy_rootmind.trees.conventions import MISSING

LENGTHS = [5, 1, 3, 2, 9, 2, 0, 1]
WIDTH = 6
# Numbers of labels by their hash.
NUMBERS = {11: 0, 22: 1, 33: 2}
TEXT = "The cat saw a dog that slept. She said that it rained."


@pytest.fixture(autouse=True)
def in_any_precision(monkeypatch):
    """Networks here have weights in double precision, or in single."""
    use_numpy(monkeypatch)


class Batch:
    """Random sentences with gold trees, some heads and labels missing, and a network in float64."""

    def __init__(self, seed, null_label=True, missing=0.2):
        rng = rng_for("null label", seed)
        self.null_label = null_label
        self.scorer = TreeScorer(
            qrnn=None,
            arcs=BiaffineArcs(4, 0.0),
            labels=BiaffineLabels(3, 0.0, null_label, nO=len(NUMBERS)),
            refine=[Refine(0.0)],
        )
        self.scorer.set_dim("nI", WIDTH)
        in_double(self.scorer, rng)
        heads, deps, start = [], [], 0
        for n in LENGTHS:
            tree = reference.random_heads(rng, n, True)
            known = (tree != MISSING) & (rng.random(n + 1) >= missing)
            heads.append(np.where(known, tree + start, MISSING))
            deps.append(np.where(known, rng.choice([0, 11, 22, 33], n + 1), 0))
            start += n + 1
        stops = np.cumsum(LENGTHS)
        sentences = [np.arange(stop - n, stop) for n, stop in zip(LENGTHS, stops, strict=True)]
        boundaries = np.zeros(stops[-1], dtype="i1")
        self.gold = GoldBatch(
            [sentences], np.concatenate(heads), np.concatenate(deps).astype("u8"), boundaries
        )
        self.given = TreeInput([rng.normal(size=(stops[-1], WIDTH))], [sentences])

    def loss(self, trees):
        """Loss and gradient of arc scores, and the callback of their label scores."""
        labeller, has_null = self.scorer.get_ref("labels"), self.null_label
        choose = arcs_to_label(self.gold, NUMBERS, len(NUMBERS) if has_null else None)
        begun = [begin_label_scores(labeller, trees, arcs, True) for arcs in choose(trees)]
        scores = ParserScores(trees, np.zeros(sum(LENGTHS)), [labels for labels, _ in begun])
        loss, gradient = parser_loss(self.gold, scores, "tree_crf", finds_boundaries=False)
        return loss, gradient, [backprop for _, backprop in begun]


def expected_wrong_arcs(gold, trees):
    """The best wrong head of each row whose head is known, one row and one head at a time."""
    found = {}
    roots = [*trees.layout.roots.tolist(), trees.layout.n_rows]
    for bucket, arcs in zip(trees.layout.buckets, trees.arcs, strict=True):
        for i, number in enumerate(bucket.sentences):
            root, end = roots[number], roots[number + 1]
            for dep in range(root + 1, end):
                own = arcs[i, dep - root]
                rivals = {h: own[h - root] for h in range(root + 1, end)}
                rivals.pop(dep)
                rivals.pop(gold.heads[dep], None)
                if gold.heads[dep] != MISSING and rivals:
                    found[dep] = max(rivals, key=rivals.get)
    return found


@pytest.mark.parametrize("missing", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("seed", range(2))
def test_wrong_arcs_are_the_best_but_gold_and_root(seed, missing):
    batch = Batch(seed, missing=missing)
    trees = batch.scorer.predict(batch.given)
    for arcs in trees.arcs:
        # Arcs past a sentence's end, on the diagonal, or to ROOT would be the best.
        arcs[...] = rng_for("null label", seed, "arcs").normal(size=arcs.shape)
        arcs[:, :, 0] = 9.0
        arcs[:, np.arange(arcs.shape[1]), np.arange(arcs.shape[1])] = 9.0
    for bucket, arcs in zip(trees.layout.buckets, trees.arcs, strict=True):
        for i, n in enumerate(bucket.lengths.tolist()):
            arcs[i, :, n + 1 :] = 9.0
    before = [arcs.copy() for arcs in trees.arcs]
    deps, heads = wrong_arcs(trees, gold_heads(batch.gold, trees))
    expected = expected_wrong_arcs(batch.gold, trees)
    assert dict(zip(deps.tolist(), heads.tolist(), strict=True)) == expected
    assert len(deps) == len(expected)
    assert bool(expected) == (missing < 1.0)
    for arcs, own in zip(trees.arcs, before, strict=True):
        assert np.array_equal(arcs, own)


def cross_entropy(scores, truths):
    right = scores[np.arange(len(truths)), truths]
    return float((np.logaddexp.reduce(scores, axis=1) - right).sum())


@pytest.mark.parametrize("null_label", [False, True])
def test_loss_is_that_of_gold_labels_and_of_wrong_arcs(null_label):
    batch = Batch("loss", null_label)
    gold, trees = batch.gold, batch.scorer.predict(batch.given)
    expected = 0.0
    for weight, arcs in zip((EARLY_ROUND_WEIGHT, 1.0), trees.rounds, strict=True):
        padded = gold_heads(gold, trees)
        for own, bucket, heads in zip(arcs, trees.layout.buckets, padded, strict=True):
            expected += weight * tree_crf(own, heads, lengths=bucket.lengths)[0].sum()
    roots = set(trees.layout.roots.tolist())
    deps = [d for d, h in enumerate(gold.heads.tolist()) if h not in roots and gold.deps[d]]
    labels = [NUMBERS[dep] for dep in gold.deps[deps].tolist()]
    of_gold = score_labels(batch.scorer, trees, np.array(deps), gold.heads[deps])
    assert of_gold.shape == (len(deps), len(NUMBERS) + null_label)
    expected += LABEL_WEIGHT * cross_entropy(of_gold, labels)
    if null_label:
        wrong = expected_wrong_arcs(gold, trees)
        arcs = np.array(list(wrong)), np.array(list(wrong.values()))
        of_wrong = score_labels(batch.scorer, trees, *arcs)
        expected += NULL_WEIGHT * cross_entropy(of_wrong, [len(NUMBERS)] * len(wrong))
    assert batch.loss(trees)[0] == pytest.approx(expected, rel=1e-9)


# --- the component -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def learnt(quickstart_docs):
    """A parser that has learnt fifty sentences; use it, do not change it."""
    nlp = make_nlp(model={**SMALL_MODEL, "null_label": True}, decode="labelled_tree")
    nlp.add_pipe("sentencizer", first=True)
    examples = gold_examples(quickstart_docs[:50], nlp)
    train(nlp, examples, steps=45)
    nlp.get_pipe("root_mst").fit_temperature(examples[:20])
    return nlp


def test_null_label_is_no_label_of_a_parse(learnt):
    """Not even where the network finds it the most probable by far."""
    parser = learnt.get_pipe("root_mst")
    doc = learnt.make_doc(TEXT)
    trees = parser.model.predict(ParserInput([doc], [sentences_of(doc)])).trees
    n = trees.layout.n_rows
    deps, heads = (ends.ravel() for ends in np.meshgrid(np.arange(n), np.arange(n)))
    labels, log_probs = find_best_labels(parser.model.get_ref("labels"), trees, deps, heads)
    null = len(parser.labels) - 1
    scores = score_labels(parser.model, trees, deps[:n], heads[:n])
    assert scores.shape == (n, null + 1)
    assert (scores.argmax(axis=1) == null).sum() > 3
    assert labels[:n].tolist() == (1 + scores[:, :null].argmax(axis=1)).tolist()
    assert log_probs.min() > -np.log(null)


def test_probabilities_of_labels_are_of_right_arcs(learnt):
    """Over its labels, an arc's probabilities add up to its own: the null label has no share."""
    parser = learnt.get_pipe("root_mst")
    with changeable(learnt) as change:
        change(arc_threshold=1e-12)
        doc = learnt("The cat saw a dog")
    [arcs] = parser.model.predict(ParserInput([doc], [sentences_of(doc)])).trees.arcs
    expected = TreeDistribution(arcs[0].astype("f8") / parser.temperature).marginals
    found = np.zeros((6, 6))
    for arc in doc[:]._.arcs:
        found[arc.token.i + 1, 0 if arc.head == arc.token else arc.head.i + 1] += arc.prob
        assert arc.dep in parser.labels
    assert found == pytest.approx(expected, abs=1e-6)
