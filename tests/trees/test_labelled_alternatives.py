"""k best labelled trees and samples of them, against enumeration of trees and labels."""

import itertools

import numpy as np
import pytest
from reference import clean, enumerate_trees
from strategies import FAMILIES, rng_for

from spacy_rootmind import NoTreeError, decode_kbest, log_partition
from spacy_rootmind.trees.conventions import MISSING, ROOT_LABEL
from spacy_rootmind.trees.labelled import decode_kbest_labelled, sample_labelled


class Labels:
    """Label distributions of all arcs of a sentence, that remembers what is asked for."""

    def __init__(self, rng, n, n_labels, spread):
        scores = spread * rng.standard_normal((n + 1, n + 1, n_labels))
        self.log_probs = scores - np.log(np.exp(scores).sum(axis=2, keepdims=True))
        self.asked = np.zeros((n + 1, n + 1), dtype=int)

    def __call__(self, deps, heads):
        assert (heads > 0).all()
        assert (deps > 0).all()
        np.add.at(self.asked, (deps, heads), 1)
        return self.log_probs[deps, heads]

    def score(self, weights, heads, labels):
        """Log-weight of a labelled tree."""
        total = 0.0
        for dep in range(1, len(heads)):
            total += weights[dep, heads[dep]]
            if heads[dep]:
                total += self.log_probs[dep, heads[dep], labels[dep] - 1]
        return total

    def enumerate(self, weights):
        """All labelled trees with their log-weights, best first."""
        n = len(weights) - 1
        found = []
        for heads in enumerate_trees(n, True):
            choices = [
                range(1, self.log_probs.shape[2] + 1) if heads[dep] else [ROOT_LABEL]
                for dep in range(1, n + 1)
            ]
            for labels in itertools.product(*choices):
                own = (MISSING, *labels)
                score = self.score(weights, heads, own)
                if score > -np.inf:
                    found.append((score, tuple(heads.tolist()), own))
        return sorted(found, reverse=True)


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
        labels = Labels(rng, n, n_labels, spread)
        every = labels.enumerate(weights)
        for k in (1, 2, 10, 10**5):
            labels.asked[:] = 0
            heads, found, scores = decode_kbest_labelled(weights, k, labels)
            assert labels.asked.max(initial=0) <= 1
            assert len(heads) == min(k, len(every))
            assert len(set(map(bytes, np.concatenate([heads, found], axis=1)))) == len(heads)
            np.testing.assert_allclose(
                scores, [score for score, _, _ in every[:k]], rtol=0, atol=1e-11
            )
            own = [labels.score(weights, *pair) for pair in zip(heads, found, strict=True)]
            np.testing.assert_allclose(scores, own, rtol=0, atol=1e-11)
            assert (found[:, 0] == MISSING).all()
            assert ((found == ROOT_LABEL) == (heads == 0)).all()


def test_few_arcs_are_labelled():
    rng = rng_for("few arcs")
    weights = clean(FAMILIES["trained_like"](rng, 40, np.float64))
    labels = Labels(rng, 40, 30, 2.0)
    decode_kbest_labelled(weights, 5, labels)
    assert labels.asked.max() == 1
    assert labels.asked.sum() < 40 * 39 / 4


def test_single_labels_leave_the_k_best_trees():
    rng = rng_for("single labels")
    weights = clean(rng.standard_normal((7, 7)))
    heads, labels, scores = decode_kbest_labelled(weights, 20, Labels(rng, 6, 1, 1.0))
    expected = decode_kbest(weights, 20)
    np.testing.assert_array_equal(heads, expected[0])
    np.testing.assert_allclose(scores, expected[1], rtol=0, atol=1e-12)
    assert set(labels[:, 1:].ravel().tolist()) == {ROOT_LABEL, 1}


def test_labels_without_any_probability_are_not_listed():
    rng = rng_for("impossible labels")
    weights = np.zeros((3, 3))
    labels = Labels(rng, 2, 3, 1.0)
    labels.log_probs[1, 2] = [-np.inf, 0, -np.inf]
    labels.log_probs[2, 1] = [-np.inf, np.log(0.5), np.log(0.5)]
    heads, found, scores = decode_kbest_labelled(weights, 99, labels)
    assert sorted(zip(heads[:, 1:].tolist(), found[:, 1:].tolist(), strict=True)) == [
        ([0, 1], [0, 2]),
        ([0, 1], [0, 3]),
        ([2, 0], [2, 0]),
    ]
    assert scores.tolist() == pytest.approx([0, np.log(0.5), np.log(0.5)])


@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_labelled_samples_follow_the_distribution(spread):
    rng = rng_for("labelled samples", spread)
    weights = clean(rng.standard_normal((4, 4)))
    labels = Labels(rng, 3, 2, spread)
    count = 40_000
    heads, found, log_probs = sample_labelled(weights, count, labels, np.random.default_rng(3))
    assert labels.asked.max() == 1
    log_z = log_partition(weights)
    every = labels.enumerate(weights)
    number = {(tree, own): i for i, (_, tree, own) in enumerate(every)}
    drawn = np.zeros(len(every))
    pairs = zip(map(tuple, heads.tolist()), map(tuple, found.tolist()), strict=True)
    for pair, log_prob in zip(pairs, log_probs.tolist(), strict=True):
        drawn[number[pair]] += 1
        assert log_prob == pytest.approx(every[number[pair]][0] - log_z, abs=1e-12)
    expected = count * np.exp(np.array([score for score, _, _ in every]) - log_z)
    assert expected.sum() == pytest.approx(count)
    enough = expected > 5
    statistic = ((drawn - expected)[enough] ** 2 / expected[enough]).sum()
    # Six standard deviations above the mean of chi square.
    assert statistic < enough.sum() + 6 * np.sqrt(2 * enough.sum())


def test_labelled_samples_depend_on_the_generator_alone():
    rng = rng_for("labelled seeds")
    weights = clean(rng.standard_normal((6, 6)))
    labels = Labels(rng, 5, 4, 1.0)
    first, second = (
        sample_labelled(weights, 30, labels, np.random.default_rng(7)) for _ in range(2)
    )
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)


def test_labelled_trees_of_no_words_and_of_no_tree():
    def find(deps, heads):
        raise AssertionError("nothing to label")

    weights = np.full((1, 1), -np.inf)
    for heads, labels, scores in (
        decode_kbest_labelled(weights, 3, find),
        sample_labelled(weights, 1, find, np.random.default_rng(0)),
    ):
        assert heads.tolist() == labels.tolist() == [[-1]]
        assert scores.tolist() == [0]
    one = np.array([[0, 0], [2.0, 0]])
    assert decode_kbest_labelled(one, 3, find).labels.tolist() == [[-1, 0]]
    with pytest.raises(NoTreeError):
        decode_kbest_labelled(np.full((3, 3), -np.inf), 2, find)
