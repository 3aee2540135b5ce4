"""k best labelled trees and samples of them, against enumeration of trees and labels."""

import numpy as np
import pytest
from reference import clean
from reference_labelled import ArcLabels, enumerate_labelled, labelled_score, random_labels
from reference_sampling import assert_fits, order_law
from strategies import FAMILIES, rng_for

from spacy_rootmind import NoTreeError
from spacy_rootmind.trees.conventions import MISSING, ROOT_LABEL
from spacy_rootmind.trees.labelled import decode_kbest_labelled
from spacy_rootmind.trees.labelled_sampling import sample_labelled, sample_labelled_distinct


@pytest.mark.parametrize("spread", [0.0, 0.5, 3.0])
@pytest.mark.parametrize("family", ["gaussian", "integer_ties", "zeros", "trained_like", "holes"])
def test_k_best_of_all_labelled_trees(family, spread):
    rng = rng_for("k best labelled", family, spread)
    for n, n_labels in ((1, 3), (2, 1), (2, 4), (3, 2), (3, 3), (4, 2)):
        made = FAMILIES["gaussian" if family == "holes" else family](rng, n, np.float64)
        weights = clean(made)
        if family == "holes":
            weights[rng.random(weights.shape) < 0.3] = -np.inf
            weights[1, 0] = weights[2:, 1] = 0
        labels = ArcLabels(random_labels(rng, n, n_labels, spread))
        every = enumerate_labelled(weights, *labels.sentences)
        for k in (1, 2, 10, 10**5):
            labels.forget()
            heads, found, scores = decode_kbest_labelled(weights, k, labels.log_probs)
            assert labels.asked[0].max(initial=0) <= 1
            assert len(heads) == min(k, len(every))
            assert len(set(map(bytes, np.concatenate([heads, found], axis=1)))) == len(heads)
            np.testing.assert_allclose(
                scores, [score for score, _, _ in every[:k]], rtol=0, atol=1e-11
            )
            pairs = zip(heads, found, strict=True)
            own = [labelled_score(weights, *labels.sentences, *pair) for pair in pairs]
            np.testing.assert_allclose(scores, own, rtol=0, atol=1e-11)
            assert (found[:, 0] == MISSING).all()
            assert ((found == ROOT_LABEL) == (heads == 0)).all()


def test_few_arcs_are_labelled():
    rng = rng_for("few arcs")
    weights = clean(FAMILIES["trained_like"](rng, 40, np.float64))
    labels = ArcLabels(random_labels(rng, 40, 30, 2.0))
    decode_kbest_labelled(weights, 5, labels.log_probs)
    assert labels.asked[0].max() == 1
    assert labels.asked[0].sum() < 40 * 39 / 4


class Law:
    """All labelled trees, their log probabilities and numbers."""

    def __init__(self, weights, log_probs):
        self.weights, self.labels = weights, ArcLabels(log_probs)
        self.every = enumerate_labelled(weights, log_probs)
        self.log_probs = np.array([score for score, _, _ in self.every])
        self.log_probs -= np.logaddexp.reduce(self.log_probs)
        self.number = {(tree, own): i for i, (_, tree, own) in enumerate(self.every)}

    def draw(self, k, seed, sampler=sample_labelled_distinct):
        """Draw k labelled trees; returns their numbers."""
        self.labels.forget()
        generator = np.random.default_rng(seed)
        heads, labels, log_probs = sampler(self.weights, k, self.labels.log_probs, generator)
        assert (heads.dtype, labels.dtype, log_probs.dtype) == (np.int32, np.int32, np.float64)
        assert self.labels.asked[0].max(initial=0) <= 1
        pairs = zip(map(tuple, heads.tolist()), map(tuple, labels.tolist()), strict=True)
        places = [self.number[pair] for pair in pairs]
        assert sampler is sample_labelled or len(set(places)) == len(places), "the same tree twice"
        np.testing.assert_allclose(log_probs, self.log_probs[places], rtol=1e-12, atol=1e-11)
        return places


@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_labelled_samples_follow_the_distribution(spread):
    rng = rng_for("labelled samples", spread)
    law = Law(clean(rng.standard_normal((4, 4))), random_labels(rng, 3, 2, spread))

    def draw(size, seed):
        return law.draw(size, seed, sample_labelled)

    assert_fits(draw, np.exp(law.log_probs), 10_000, ("labelled samples", spread))


@pytest.mark.one_each("scale")
@pytest.mark.parametrize("spread", [0.0, 1.0, 30.0])
@pytest.mark.parametrize("scale", [0.0, 1.0, 40.0, 2000.0])
def test_all_labelled_trees_are_drawn_once(scale, spread):
    rng = rng_for("all labelled", scale, spread)
    for n, n_labels in ((1, 3), (2, 1), (2, 3), (3, 2), (3, 3), (4, 2)):
        weights = clean(scale * rng.standard_normal((n + 1, n + 1)))
        law = Law(weights, random_labels(rng, n, n_labels, spread))
        number = len(law.every)
        for seed, k in enumerate((1, 5, number - 1, number, number + 3, 10**6)):
            places = law.draw(max(k, 1), seed)
            assert len(places) == min(max(k, 1), number)


def test_labelled_draws_are_the_same_for_any_k():
    rng = rng_for("labelled prefix")
    weights = clean(rng.standard_normal((5, 5)))
    law = Law(weights, random_labels(rng, 4, 3, 2.0))
    most = law.draw(400, 7)
    for k in (1, 2, 10, 17, 40, 399):
        assert law.draw(k, 7) == most[:k]
    assert law.draw(400, 8) != most


@pytest.mark.parametrize(
    ("n", "n_labels", "scale", "spread"),
    [(2, 2, 1.0, 1.0), (2, 3, 0.0, 0.0), (2, 3, 2.0, 3.0), (3, 2, 1.0, 1.0)],
)
def test_first_and_second_labelled_trees_follow_their_law(n, n_labels, scale, spread):
    """P(s, t) = p(s) p(t) / (1 - p(s)), over labelled trees."""
    rng = rng_for("labelled order", n, n_labels, scale, spread)
    weights = clean(scale * rng.standard_normal((n + 1, n + 1)))
    law = Law(weights, random_labels(rng, n, n_labels, spread))

    def draw(size, seed):
        generator = np.random.default_rng(seed)
        seeds = generator.integers(2**63, size=size)
        places = [law.draw(2, int(one)) for one in seeds]
        return np.ravel_multi_index(tuple(np.transpose(places)), (len(law.every),) * 2)

    assert_fits(draw, order_law(law.log_probs, 2).ravel(), 700, (n, n_labels, scale, spread))


@pytest.mark.parametrize("confidence", [40.0, 700.0, 5000.0])
def test_labelled_trees_after_a_certain_one(confidence):
    """One labelled tree has p = 1 - exp(-confidence); the next ones follow what p is among them."""
    rng = rng_for("certain labelled", confidence)
    weights = clean(0.5 * rng.standard_normal((3, 3)))
    weights[[1, 2], [2, 0]] += confidence
    labels = random_labels(rng, 2, 3, 0.5)
    # Other labels of the certain tree are about as probable as other trees.
    labels[1, 2] = np.array([0.0, 0.3, -0.2]) - confidence
    labels[1, 2, 0] = 0
    law = Law(weights, labels)
    best = int(law.log_probs.argmax())
    others = np.delete(np.arange(len(law.every)), best)
    expected = np.zeros((len(law.every),) * 2)
    expected[np.ix_(others, others)] = order_law(law.log_probs[others], 2)

    def draw(size, seed):
        seeds = np.random.default_rng(seed).integers(2**63, size=size)
        places = np.array([law.draw(3, int(one)) for one in seeds])
        assert (places[:, 0] == best).all()
        return places[:, 1] * len(law.every) + places[:, 2]

    assert_fits(draw, expected.ravel(), 700, ("certain labelled", confidence))


def test_few_trees_are_labelled_where_labels_are_unsure():
    """The labellings of the one probable tree come before other trees."""
    rng = rng_for("sure tree")
    weights = clean(FAMILIES["trained_like"](rng, 12, np.float64)) * 20
    labels = ArcLabels(random_labels(rng, 12, 20, 0.5))
    generator = np.random.default_rng(1)
    heads, _, log_probs = sample_labelled_distinct(weights, 2000, labels.log_probs, generator)
    assert len(heads) == 2000
    assert (heads == heads[0]).all()
    assert len(np.unique(log_probs)) > 1000
    assert labels.asked[0].sum() < 11 * 16


def test_labelled_trees_of_no_words_and_of_no_tree():
    def find(deps, heads):
        raise AssertionError("nothing to label")

    weights = np.full((1, 1), -np.inf)
    for heads, labels, scores in (
        decode_kbest_labelled(weights, 3, find),
        sample_labelled(weights, 1, find, np.random.default_rng(0)),
        sample_labelled_distinct(weights, 3, find, np.random.default_rng(0)),
    ):
        assert heads.tolist() == labels.tolist() == [[-1]]
        assert scores.tolist() == [0]
    one = np.array([[0, 0], [2.0, 0]])
    assert decode_kbest_labelled(one, 3, find).labels.tolist() == [[-1, 0]]
    distinct = sample_labelled_distinct(one, 3, find, np.random.default_rng(0))
    assert distinct.labels.tolist() == [[-1, 0]]
    assert distinct.scores.tolist() == [0]
    with pytest.raises(NoTreeError):
        decode_kbest_labelled(np.full((3, 3), -np.inf), 2, find)
    with pytest.raises(NoTreeError):
        sample_labelled_distinct(np.full((3, 3), -np.inf), 2, find, np.random.default_rng(0))
