"""Scores whose differences and sums overflow: right where float64 holds the result, or an error."""

from fractions import Fraction

import numpy as np
import pytest
import reference
import reference_probabilities as oracle
from checks import result_of
from strategies import each_kind, rng_for

from spacy_rootmind import NoTreeError, TreeDistribution, decode_kbest, tree_score

INF = np.inf
MAX = np.finfo(np.float64).max
LEVELS = [
    [-1e308, 1e308, 0.0, -8e307, 5.0],
    [-MAX, MAX, 0.0, 1.0],
    [-MAX, -1e308, -8e307, -1.0, 0.0, 3.0, 5e307, 8e307, 1e308, MAX, -INF],
]
each_levels = pytest.mark.parametrize("levels", range(len(LEVELS)))


def law_of(scores, options):
    """The right distribution, None without a tree, and the log probabilities of all trees."""
    law = oracle.enumerated(scores, **options)
    trees = reference.enumerate_trees(len(scores) - 1, **options)
    return trees, None if law is None else [law.log_prob(scores, heads) for heads in trees]


def cases(levels, count):
    """Pairs of matrices of up to four words, some of whose scores are ordinary."""
    rng = rng_for("extreme", levels)
    for _ in range(count):
        n = int(rng.integers(1, 5))
        pair = rng.choice(LEVELS[levels], size=(2, n + 1, n + 1))
        ordinary = rng.random(pair.shape) < rng.choice([0.0, 0.3])
        yield np.where(ordinary, rng.normal(size=pair.shape), pair)


def fits(exact):
    return exact.is_infinite() or bool(np.isfinite(float(exact)))


def assert_right_or_error(ask, exact, spread=0):
    """A number that float64 holds is right to rounding of `spread`; any other one is an error."""
    if not fits(exact):
        with pytest.raises(ArithmeticError, match=r"^sentence \d: scores of such magnitudes"):
            ask()
        return
    found = float(ask())
    if exact.is_infinite():
        assert found == float(exact)
        return
    error = abs(Fraction(found) - Fraction(exact))
    assert error <= Fraction(1e-12) * max(1, abs(Fraction(exact))) + Fraction(1e-15) * spread


def spread_of(scores):
    """The largest difference among the scores of a word: errors of marginals are absolute."""
    clean = reference.clean(scores)[1:]
    rows = [[*map(Fraction, row[np.isfinite(row)])] for row in clean]
    return max((max(row) - min(row) for row in rows if row), default=0)


def has_sums(trees):
    """Whether the trees can be summed over; where not, no query has an answer."""
    try:
        assert np.isfinite(trees.log_partition).all()
    except (ArithmeticError, NoTreeError) as error:
        for query in ("marginals", "entropy"):
            with pytest.raises(type(error)):
                result_of(trees, query)
        return False
    return True


@each_kind
@each_levels
def test_log_prob_is_right_or_an_error(levels, options):
    asked = errors = 0
    for scores, _ in cases(levels, 40):
        every, log_probs = law_of(scores, options)
        trees = TreeDistribution(scores, **options)
        if log_probs is None:
            with pytest.raises(NoTreeError):
                _ = trees.log_partition
            continue
        if not has_sums(trees):
            continue
        for heads, log_prob in zip(every, log_probs, strict=True):
            assert_right_or_error(lambda t=trees, h=heads: t.log_prob(h), log_prob)
            asked, errors = asked + 1, errors + (not fits(log_prob))
        if not all(map(fits, log_probs)):
            batch = TreeDistribution(np.stack([np.zeros(scores.shape), scores]), **options)
            with pytest.raises(ArithmeticError, match=r"^sentence 1: scores of such magnitudes"):
                batch.log_prob(np.stack([every, every]))
    assert 10 < errors < asked - 10


@each_kind
@each_levels
def test_divergences_are_right_or_an_error(levels, options):
    asked = 0
    for scores, others in cases(levels, 60):
        if any(law_of(x, options)[1] is None for x in (scores, others)):
            continue
        pair = [TreeDistribution(x, **options) for x in (scores, others)]
        if not all(map(has_sums, pair)):
            continue
        _, right = oracle.cross_entropy(scores, others, **options)
        assert_right_or_error(lambda p=pair: p[0].kl_divergence(p[1]), right, spread_of(others))
        asked += 1
    assert asked > 10


def test_a_log_prob_of_which_only_a_difference_overflows():
    """The root score is 2e308 below the other one of its word, all others are nearly as low."""
    scores = np.array([[0, 0, 0], [-1e308, 0, 1e308], [-7e307, 7e307, 0.0]])
    assert TreeDistribution(scores).log_prob(np.array([-1, 0, 1])) == pytest.approx(
        -6e307, rel=1e-14
    )


def test_a_divergence_of_which_a_difference_overflows():
    """Half of the trees have an arc that is 2e308 below another one of its word."""
    own = np.zeros((3, 3))
    other = np.array([[0, 0, 0], [-1e308, 0, 1e308], [0, 0, 0.0]])
    trees, others = TreeDistribution(own), TreeDistribution(other)
    assert trees.kl_divergence(others) == pytest.approx(1e308, rel=1e-14)
    # A batch may have impossible trees next to those that are too unlikely.
    batch = np.stack([other, np.where(other < 0, -INF, other), np.zeros((3, 3))])
    pair = [TreeDistribution(x) for x in (np.stack([own] * 3), batch)]
    assert pair[0].kl_divergence(pair[1])[1:].tolist() == [INF, 0]


@pytest.mark.parametrize("projective", [True, False])
def test_trees_whose_root_scores_are_too_low_are_not_missing(projective):
    """All root scores, or the scores of words that can be the root token."""
    low = np.full((3, 3), 1e308)
    low[:, 0] = -1e308
    trapped = np.array([[0, 0, 0, 0], [5, 0, -INF, 5], [-1e308, -INF, 0, 1e308], [-1e308] * 4])
    trapped[3, 1:] = -INF, 1e308, 0
    for scores in (low, trapped):
        for query in ("log_partition", "marginals", "entropy"):
            trees = TreeDistribution(scores, projective=projective)
            with pytest.raises(ArithmeticError, match="scores of such magnitudes are beyond"):
                result_of(trees, query)


@pytest.mark.parametrize("batched", [True, False])
def test_tree_score_of_a_sum_that_overflows(batched):
    scores = np.array([[0, 0, 0, 0], [1e308, 0, -INF, INF], [0, 1e308, 0, 0], [0, -1e308, 1, 0]])
    chain, with_inf, forbidden = [-1, 0, 1, 2], [-1, 3, 1, 0], [-1, 2, 1, 2]
    right = {(-1, 0, 0, 2): 1e308 + 1, tuple(with_inf): INF, tuple(forbidden): -INF}
    if batched:
        scores = np.stack([np.zeros((4, 4)), scores])
        chain = [[-1, 0, 1, 2], chain]
        right = {((-1, 0, 1, 2), heads): [0, score] for heads, score in right.items()}
    with pytest.raises(ArithmeticError, match=rf"^sentence {int(batched)}: sums of scores"):
        tree_score(scores, np.array(chain))
    for heads, score in right.items():
        np.testing.assert_array_equal(tree_score(scores, np.array(heads)), score)


@each_kind
@each_levels
def test_k_best_trees_are_all_there_or_it_is_an_error(levels, options):
    for scores, _ in cases(levels, 60):
        trees, _ = law_of(scores, options)
        count = sum(-INF not in reference.arc_scores(scores, heads) for heads in trees)
        try:
            heads, found = decode_kbest(scores, 1000, **options)
        except ArithmeticError:
            continue
        except NoTreeError:
            assert not count
            continue
        assert len(heads) == count
        assert np.isfinite(found).all()
