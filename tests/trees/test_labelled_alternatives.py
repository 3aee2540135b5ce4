"""k best labelled trees and samples of them, against enumeration of trees and labels."""

import numpy as np
import pytest
from reference import clean
from reference_labelled import ArcLabels, enumerate_labelled, labelled_score, random_labels
from reference_sampling import assert_fits
from strategies import FAMILIES, rng_for

from spacy_rootmind import NoTreeError
from spacy_rootmind.trees.conventions import MISSING, ROOT_LABEL
from spacy_rootmind.trees.labelled import decode_kbest_labelled, sample_labelled


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


@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_labelled_samples_follow_the_distribution(spread):
    rng = rng_for("labelled samples", spread)
    weights = clean(rng.standard_normal((4, 4)))
    arcs = ArcLabels(random_labels(rng, 3, 2, spread))
    every = enumerate_labelled(weights, *arcs.sentences)
    law = np.array([score for score, _, _ in every])
    law -= np.logaddexp.reduce(law)
    number = {(tree, own): i for i, (_, tree, own) in enumerate(every)}

    def draw(size, seed):
        arcs.forget()
        generator = np.random.default_rng(seed)
        heads, labels, log_probs = sample_labelled(weights, size, arcs.log_probs, generator)
        assert (heads.dtype, labels.dtype, log_probs.dtype) == (np.int32, np.int32, np.float64)
        assert arcs.asked[0].max() == 1
        pairs = zip(map(tuple, heads.tolist()), map(tuple, labels.tolist()), strict=True)
        places = [number[pair] for pair in pairs]
        np.testing.assert_allclose(log_probs, law[places], rtol=1e-12, atol=1e-11)
        return places

    assert_fits(draw, np.exp(law), 10_000, ("labelled samples", spread))


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
    assert sample_labelled(one, 1, find, np.random.default_rng(0)).labels.tolist() == [[-1, 0]]
    with pytest.raises(NoTreeError):
        decode_kbest_labelled(np.full((3, 3), -np.inf), 2, find)
    with pytest.raises(NoTreeError):
        sample_labelled(np.full((3, 3), -np.inf), 2, find, np.random.default_rng(0))
