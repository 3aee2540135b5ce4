"""Projective parses and their probabilities, next to all parses without crossing arcs."""

from collections import defaultdict

import numpy as np
import pytest
from parsers import changeable, gold_examples, kbest, make_nlp, sample, train
from reference import enumerate_trees, is_projective
from spacy.tokens import Doc

from spacy_rootmind import configure
from spacy_rootmind.annotation.extensions import register_extensions
from spacy_rootmind.guidelines.constraints import Constraints
from spacy_rootmind.trees.errors import NoTreeError

TEXT = "which cat it saw"
# More than there are.
ALL = 1000


@pytest.fixture(scope="module")
def nlp():
    """A parser that has learnt too little to be sure, of two labels besides the root's."""
    nlp = make_nlp(sentences="doc", temperature=3.0)
    words, deps = ["it", "saw", "the", "cat"], ["nsubj", "ROOT", "det", "nsubj"]
    gold = Doc(nlp.vocab, words=words, heads=[1, 1, 3, 1], deps=deps)
    return train(nlp, gold_examples([gold], nlp), steps=1)


@pytest.fixture
def parse(nlp):
    """A function that parses the text with the given settings; returns the sentence."""
    with changeable(nlp) as change:

        def parse(**settings):
            change(**settings)
            [sentence] = nlp(TEXT).sents
            return sentence

        yield parse


def heads_of(parse):
    """Numbered from 1, with 0 for ROOT."""
    heads = np.array([-1, *parse.heads]) + 1
    return tuple(np.where(heads == np.arange(len(heads)), 0, heads)[1:].tolist())


def projective_only(parses):
    """The heads and probabilities of those without crossing arcs, among themselves."""
    kept = [one for one in parses if is_projective(np.array([-1, *heads_of(one)]))]
    probs = np.exp([one.log_prob for one in kept])
    assert 0.05 < probs.sum() < 0.95
    return kept, probs / probs.sum()


def test_trees_and_probabilities_are_those_without_crossing_arcs(parse):
    register_extensions()
    others, probs = projective_only(parse(**kbest(ALL))._.parses)
    expected = {(heads_of(one), *one.deps): prob for one, prob in zip(others, probs, strict=True)}
    by_heads = defaultdict(float)
    for (heads, *_), prob in expected.items():
        by_heads[heads] += prob
    trees = enumerate_trees(len(TEXT.split()), single_root=True, projective=True)
    assert set(by_heads) == {tuple(tree[1:].tolist()) for tree in trees}
    found = parse(**kbest(ALL), projective=True)._.parses
    assert {(heads_of(one), *one.deps) for one in found} == set(expected)
    log_probs = [np.log(expected[(heads_of(one), *one.deps)]) for one in found]
    np.testing.assert_allclose([one.log_prob for one in found], log_probs, atol=1e-4)
    drawn = parse(**sample(ALL, seed=1), projective=True)._.parses
    assert {(heads_of(one), *one.deps) for one in drawn} <= set(expected)
    best = parse(projective=True, alternatives=None, confidence=True)
    chosen = tuple(0 if token.head == token else token.head.i + 1 for token in best)
    assert (chosen, *(token.dep_ for token in best)) == (heads_of(others[0]), *others[0].deps)
    assert best._.parse_log_prob == pytest.approx(np.log(by_heads[chosen]), abs=1e-4)
    probs = np.array(list(by_heads.values()))
    assert best._.parse_entropy == pytest.approx(-(probs * np.log(probs)).sum(), abs=1e-4)
    for i, head in enumerate(chosen):
        prob = sum(prob for heads, prob in by_heads.items() if heads[i] == head)
        assert best[i]._.head_prob == pytest.approx(prob, abs=1e-5)


def test_crossing_constraints_are_an_error_and_others_are_met(parse):
    def crossing(doc):
        return Constraints(forced=[(0, 2), (1, 3)])

    def forced(doc):
        return Constraints(forced=[(0, 2), (2, 3)])

    parse(constraints=crossing)
    with pytest.raises(NoTreeError, match="no projective tree with a single root meets"):
        parse(constraints=crossing, projective=True)
    sentence = parse(constraints=forced, projective=True)
    assert sentence[0].head.i == 2
    assert sentence[2].head.i == 3


def test_distributions_for_students_are_over_all_trees(nlp):
    with pytest.raises(ValueError, match="distribution_threshold as None where projective"):
        configure(nlp, projective=True, distribution_threshold=0.1)
