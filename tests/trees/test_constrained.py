"""The best labelled trees under rules: by enumeration of all labelled trees."""

import itertools

import numpy as np
import pytest
from reference import is_projective
from reference_labelled import ArcLabels, enumerate_labelled, labelled_score
from strategies import FAMILIES, places_of, rng_for

from spacy_rootmind.trees import constrained
from spacy_rootmind.trees.constrained import Condition, TreeSearch, decode_valid
from spacy_rootmind.trees.labelled import decode_labelled

# --- rules -------------------------------------------------------------------------------------


def meets(condition, heads, labels):
    head, label = heads[condition.word], labels[condition.word]
    return bool(condition.heads[head] and condition.labels[label]) == condition.holds


class RandomRules:
    """Random lists of conditions, of which a valid tree meets none wholly."""

    def __init__(self, rng, n, n_labels, n_rules, n_conditions):
        self.rules = [
            [
                Condition(
                    int(word),
                    rng.random(n + 1) < rng.choice([0.3, 0.7, 1.0]),
                    rng.random(n_labels + 1) < rng.choice([0.3, 0.7, 1.0]),
                    bool(rng.random() < 0.7),
                )
                for word in rng.choice(n, min(n_conditions, n), replace=False) + 1
            ]
            for _ in range(n_rules)
        ]

    def __call__(self, heads, labels):
        for rule in self.rules:
            if all(meets(condition, heads, labels) for condition in rule):
                yield rule


def one_per_head(label, n_labels):
    """One of the words under a head has a label at most."""

    def find(heads, labels):
        first = np.arange(n_labels + 1) == label
        for word, other in itertools.combinations(np.flatnonzero(labels == label).tolist(), 2):
            if heads[word] == heads[other]:
                same = np.arange(len(heads)) == heads[word]
                yield [Condition(word, same, first), Condition(other, same, first)]

    return find


def none(heads, labels):
    return ()


KINDS = {
    "single conditions": lambda rng, n, k: RandomRules(rng, n, k, 3, 1),
    "pairs": lambda rng, n, k: RandomRules(rng, n, k, 10, 2),
    "triples": lambda rng, n, k: RandomRules(rng, n, k, 20, 3),
    "of all words": lambda rng, n, k: RandomRules(rng, n, k, 40, n),
    "one per head": lambda rng, n, k: one_per_head(1, k),
    "none valid": lambda rng, n, k: lambda heads, labels: [[]],
}


class NumberedRules:
    """A finder and a mask for each sentence."""

    def __init__(self, finders, masks):
        self.finders, self.masks = finders, masks
        self.asked = []

    def mask(self, sentence):
        self.asked.append(sentence)
        return self.masks[sentence].copy()

    def safe(self, sentence):
        """No arc with the first label."""
        return np.arange(self.masks[sentence].shape[2]) != np.ones(
            (*self.masks[sentence].shape[:2], 1)
        )

    def find_conflicts(self, sentence, heads, labels):
        mask, m = self.masks[sentence], len(heads)
        conflicts = list(self.finders[sentence](heads, labels))
        for word in np.flatnonzero(~mask[np.arange(1, m), heads[1:], labels[1:]]) + 1:
            head, label = np.arange(m) == heads[word], np.arange(mask.shape[2]) == labels[word]
            conflicts.append([Condition(word, head, label)])
        return conflicts

    def are_valid(self, sentences, heads, labels):
        return np.array([not one for one in map(self.find_conflicts, sentences, heads, labels)])


def problem(rng, family, n, n_labels):
    """Scores of arcs and labels; NaN where nothing may be read."""
    scores = FAMILIES[family](rng, n, np.float64)
    label_scores = -rng.exponential(size=(n + 1, n + 1, n_labels))
    if family in ("integer_ties", "zeros"):
        label_scores = np.round(label_scores)
    if rng.random() < 0.3:
        label_scores[rng.random(label_scores.shape) < 0.3] = -np.inf
    label_scores[0] = label_scores[:, 0] = np.nan
    label_scores[np.arange(n + 1), np.arange(n + 1)] = np.nan
    return scores, label_scores


def decode_all(scores, label_scores, rules, **options):
    """Decode sentences; returns also the labels that the search asked for."""
    first, later = ArcLabels(*label_scores), ArcLabels(*label_scores)
    return decode_valid(scores, first.best, later.log_probs, rules, **options), later


def decode_one(scores, label_scores, find, mask=None, **options):
    """Decode a sentence."""
    if mask is None:
        mask = np.ones((*label_scores.shape[:2], label_scores.shape[2] + 1), dtype=bool)
    return decode_all([scores], [label_scores], NumberedRules([find], [mask]), **options)[0]


@pytest.mark.parametrize("projective", [False, True])
@pytest.mark.parametrize(
    "family", ["gaussian", "integer_ties", "zeros", "trained_like", "forbidden_around_tree"]
)
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_best_of_all_valid_trees(kind, family, projective):
    rng = rng_for("constrained", kind, family, projective)
    for _ in range(25):
        n, n_labels = int(rng.integers(1, 5)), int(rng.integers(1, 4))
        scores, label_scores = problem(rng, family, n, n_labels)
        find = KINDS[kind](rng, n, n_labels)
        mask = rng.random((n + 1, n + 1, n_labels + 1)) < 0.95
        rules = NumberedRules([find], [mask])
        every = enumerate_labelled(scores, label_scores, projective=projective)
        if not every:
            continue
        valid = (
            weight for weight, *tree in every if not rules.find_conflicts(0, *map(np.array, tree))
        )
        expected = next(valid, -np.inf)
        found = decode_one(scores, label_scores, find, mask, projective=projective)
        assert found.valid.all() == found.proven.all() == (expected > -np.inf)
        if found.valid.all():
            heads, labels = found.heads, found.labels
            assert not rules.find_conflicts(0, heads, labels)
            weight = labelled_score(scores, label_scores, heads, labels)
            assert weight == pytest.approx(expected, rel=1e-12, abs=1e-9)
            assert labels[0] == -1
            assert ((labels[1:] == 0) == (heads[1:] == 0)).all()


@pytest.mark.parametrize("cheapest", [1, 2, 3])
def test_only_nodes_that_may_have_the_best_tree_are_decoded(cheapest):
    """A conflict of three conditions makes three nodes; one of them has the highest bound."""
    label_scores = np.full((5, 5, 2), [0.0, -9.0])
    label_scores[cheapest, :, 1] = -1

    def find(heads, labels):
        if not (labels == 2).any():
            yield [Condition(word, np.ones(5, bool), np.arange(3) < 2) for word in (1, 2, 3)]

    scores = np.where(np.arange(5) == np.array([[-1], [4], [4], [4], [0]]), 99.0, 0.0)
    rules = NumberedRules([find], [np.ones((5, 5, 3), dtype=bool)])
    unknown = np.full((5, 5), -1, dtype=np.int32)
    search = TreeSearch(0, rules, scores, scores, unknown, projective=False)
    deps, heads = 1 + np.array(np.nonzero(~np.eye(4, dtype=bool)))
    search.add_labels(deps, heads, label_scores[deps, heads])
    assert not list(search.run(100))
    assert np.flatnonzero(search.trees[0].labels == 2).tolist() == [cheapest]
    assert search.decodes == 2


@pytest.mark.parametrize("projective", [False, True])
@pytest.mark.parametrize("max_decodes", [1, 10, 1000])
def test_beyond_the_limit_a_valid_tree_that_says_so(max_decodes, projective):
    rng = rng_for("constrained", "limit")
    proven = 0
    for n in (6, 8, 10) * 5:
        scores, label_scores = problem(rng, "gaussian", n, 3)
        find = RandomRules(rng, n, 3, 5 * n, 3)

        def weigh(found, scores=scores, label_scores=label_scores):
            return labelled_score(scores, label_scores, found.heads, found.labels)

        found = decode_one(
            scores, label_scores, find, max_decodes=max_decodes, projective=projective
        )
        best = decode_one(scores, label_scores, find, max_decodes=10**6, projective=projective)
        assert best.proven.all() == best.valid.all()
        if found.valid.all():
            assert not list(find(found.heads, found.labels))
            assert weigh(found) <= weigh(best) + 1e-9
        if found.proven.all():
            assert weigh(found) == pytest.approx(weigh(best), abs=1e-9)
            assert found.decodes[0] <= max_decodes
        else:
            assert is_projective(found.heads) or not (projective and found.valid.all())
        proven += found.proven.all()
    assert {1: proven < 8, 10: 0 < proven < 15, 1000: proven > 10}[max_decodes]


def test_beyond_the_limit_where_no_projective_tree_is_allowed():
    crossing = np.array([-1, 3, 4, 0, 3])
    scores = np.where(np.arange(5) == crossing[:, None], 0.0, -np.inf)
    label_scores = np.full((5, 5, 2), [0.0, -1.0])
    found = decode_one(scores, label_scores, one_per_head(1, 2), max_decodes=1)
    assert found.heads.tolist() == crossing.tolist()
    assert (found.valid.all(), found.proven.all()) == (True, False)


def test_no_valid_tree_within_the_limit(monkeypatch):
    monkeypatch.setattr(constrained, "_MAX_DIVE", 3)
    # The only valid tree, in an order of conditions that the search does not know.
    right = [-1, 2, 0, 2, 1]

    def find(heads, labels):
        for word in range(1, 5):
            if heads[word] != right[word]:
                yield [
                    Condition(i, np.arange(5) == heads[i], np.ones(2, dtype=bool))
                    for i in range(1, 5)
                ]

    scores, label_scores = np.zeros((5, 5)), np.zeros((5, 5, 1))
    found = decode_one(scores, label_scores, find, max_decodes=10**4)
    assert found.heads.tolist() == right
    found = decode_one(scores, label_scores, find, max_decodes=2)
    assert (found.valid.all(), found.proven.all()) == (False, False)


@pytest.mark.parametrize("word", [2, -1, 0, 4, 1000])
def test_conditions_are_on_words_and_met_by_the_tree(word):
    def find(heads, labels):
        arcs = np.arange(4) != heads[2] if word == 2 else np.ones(4, dtype=bool)
        return [[Condition(word, arcs, np.ones(3, dtype=bool))]]

    with pytest.raises(ValueError, match=f"sentence 0: .* on words 1 to 3 .*word={word}"):
        decode_one(np.zeros((4, 4)), np.zeros((4, 4, 2)), find)


# --- batches -----------------------------------------------------------------------------------


@pytest.mark.parametrize("projective", [False, True])
@pytest.mark.parametrize("spread", [0.3, 3.0])
def test_sentences_of_a_batch_are_as_alone(spread, projective):
    rng = rng_for("constrained", "lazy", spread)
    n_labels, sizes = 5, [3, 8, 8, 5, 12, 10]
    scores = [FAMILIES["trained_like"](rng, n, np.float64) for n in sizes]
    label_scores, finders, masks = [], [], []
    for n in sizes:
        logits = spread * rng.normal(size=(n + 1, n + 1, n_labels))
        label_scores.append(logits - np.logaddexp.reduce(logits, axis=2, keepdims=True))
        finders.append(one_per_head(1, n_labels))
        masks.append(rng.random((n + 1, n + 1, n_labels + 1)) < 0.9)
        masks[-1][:, 0, 0] = True
    rules = NumberedRules(finders, masks)
    kind = {"temperature": 0.8, "projective": projective}
    found, labels = decode_all(scores, label_scores, rules, **kind)
    plain = decode_labelled(scores, ArcLabels(*label_scores).best, **kind)
    n_searched = 0
    for i, own in enumerate(scores):
        inside = slice(plain.roots[i], plain.roots[i + 1])
        assert labels.asked[i].max() <= 1
        assert not labels.asked[i][:, 0].any()
        best = decode_one(own, label_scores[i], finders[i], masks[i], **kind)
        assert found.heads[inside].tolist() == best.heads.tolist()
        assert found.labels[inside].tolist() == best.labels.tolist()
        assert found.proven[i]
        searched = i in rules.asked
        n_searched += searched
        assert searched or best.heads.tolist() == plain.heads[inside].tolist()
        assert searched or not found.decodes[i]
    assert 0 < n_searched <= 6
    assert sum(asked.sum() for asked in labels.asked) < 6 * sum(sizes)


def test_a_sentence_without_a_valid_tree_keeps_its_best_one():
    scores = [np.zeros((4, 4))] * 2
    label_scores = [np.log(np.full((4, 4, 2), 0.5))] * 2
    masks = [np.ones((4, 4, 3), dtype=bool) for _ in range(2)]
    masks[1][2] = False
    rules = NumberedRules([none, none], masks)
    found, _ = decode_all(scores, label_scores, rules)
    assert found.valid.tolist() == found.proven.tolist() == [True, False]
    plain = decode_labelled(scores, ArcLabels(*label_scores).best)
    assert found.heads.tolist() == plain.heads.tolist()
    assert found.labels.tolist() == plain.labels.tolist()


def test_beyond_the_limit_what_is_safe_is_taken(monkeypatch):
    monkeypatch.setattr(constrained, "_MAX_DIVE", 0)
    rng = rng_for("constrained", "safe")
    weights = rng.normal(size=(8, 8))
    label_scores = np.log(rng.dirichlet([1, 1, 1], size=(8, 8)))
    label_scores[..., 1:] -= 9
    mask = np.ones((8, 8, 4), dtype=bool)
    rules = NumberedRules([one_per_head(1, 3)], [mask])
    found, _ = decode_all([weights], [label_scores], rules, max_decodes=1)
    assert found.valid.all()
    assert not found.proven.any()
    best = decode_one(weights, label_scores, none, rules.safe(0), projective=True)
    assert found.heads.tolist() == best.heads.tolist()
    # Without a safe tree, the best of all stays.
    mask[2, :, 2:] = mask[2, 0] = False
    found, _ = decode_all([weights], [label_scores], rules, max_decodes=1)
    assert not found.valid.any()
    plain = decode_labelled([weights], ArcLabels(label_scores).best)
    assert found.heads.tolist() == plain.heads.tolist()


@pytest.mark.parametrize("shape", [(7, 7, 4), (8, 8, 3), (8, 8, 5), (1, 1, 4), (8, 8), ()])
def test_masks_of_rules_have_all_words_and_labels(shape):
    rng = rng_for("constrained", "masks")
    weights = rng.normal(size=(8, 8))
    label_scores = np.log(rng.dirichlet([1, 1, 1], size=(8, 8)))
    # The best tree breaks the rule, and the best one that keeps it has other labels.
    weights[..., 3] += 99
    label_scores[..., 0] += 9
    rules = NumberedRules([one_per_head(1, 3)], [np.ones((8, 8, 4), dtype=bool)])
    rules.mask = lambda sentence: np.ones(shape, dtype=bool)
    with pytest.raises(ValueError, match=r"expected a (mask of shape|condition on 8 heads)"):
        decode_all([weights], [label_scores], rules)


def test_arcs_of_several_sentences_are_labelled_together():
    rng = rng_for("constrained", "together")
    scores = list(rng.normal(size=(20, 9, 9)))
    log_probs = rng.normal(size=(20, 9, 9, 3))
    log_probs -= np.logaddexp.reduce(log_probs, axis=3, keepdims=True)
    labels, sizes = ArcLabels(*log_probs), []
    finders = [RandomRules(rng, 8, 3, 16, 2) for _ in scores]
    rules = NumberedRules(finders, [np.ones((9, 9, 4), dtype=bool)] * 20)

    def counted(deps, heads):
        sizes.append(len({i for i, *_ in places_of(scores, deps, heads)}))
        return labels.log_probs(deps, heads)

    found = decode_valid(scores, labels.best, counted, rules)
    searched = np.count_nonzero(found.decodes)
    assert sizes[0] > searched / 2 > 4
    assert len(sizes) <= found.decodes.max() < found.decodes.sum() / 4
