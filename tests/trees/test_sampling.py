"""`sample_trees` with replacement: the law of every method, against enumeration.

How often a right sampler fails is stated in `reference_sampling`.
"""

import math

import numpy as np
import pytest
import reference
from reference import FloatArray
from reference_sampling import (
    CASES,
    LEVEL,
    Law,
    assert_fits,
    check_law,
    chi_square_tail,
    draw_root_by_weight,
    drawing,
    log_partition_by_determinant,
    p_of_fit,
    tree_law,
)
from strategies import DTYPES, each_root, rng_for

from spacy_rootmind import NoTreeError, arc_marginals, entropy, sample_trees
from spacy_rootmind.trees.sampling import METHODS

NAN, INF = np.nan, np.inf

# (method, single_root) of all unbiased samplers
SETTINGS = [
    *((method, True) for method in METHODS),
    *((method, False) for method in METHODS if method != "wilson_reject"),
]
ROBUST = [setting for setting in SETTINGS if setting[0] in ("auto", "ancestral")]

each_setting = pytest.mark.parametrize(("method", "single_root"), SETTINGS)
each_robust = pytest.mark.parametrize(("method", "single_root"), ROBUST)
each_case = pytest.mark.parametrize("case", sorted(CASES))


def trap(escape: float, n: int = 4) -> FloatArray:
    """Return scores by which words 1 and 2 prefer each other by `escape`.

    A walk towards another root word stays in the two for about exp(escape) steps. One towards
    word 1 or 2 does not: only some root words are traps.
    """
    scores = 0.5 * rng_for("trap", n).standard_normal((n + 1, n + 1))
    scores[1, 2] += escape
    scores[2, 1] += escape
    return scores


# The oracles


@pytest.mark.parametrize(
    ("statistic", "degrees", "tail"),
    [
        (3.841458820694124, 1, 0.05),
        (6.634896601021213, 1, 0.01),
        (5.991464547107979, 2, 0.05),
        (11.344866730144373, 3, 0.01),
        (18.307038053275146, 10, 0.05),
        (29.58829844507442, 10, 0.001),
        (124.34211340400407, 100, 0.05),
        (149.44925277903886, 100, 0.001),
        (0.0, 5, 1.0),
        (7.0, 0, 1.0),
    ],
)
def test_chi_square_tail_matches_tables(statistic, degrees, tail):
    assert math.isclose(chi_square_tail(statistic, degrees), tail, rel_tol=1e-9)


def test_p_of_fit_is_uniform_under_the_law():
    # 2,000 p-values: the number below 0.01, 0.1 and 0.5 is binomial, within five deviations.
    rng = rng_for("p of fit")
    weights = rng.exponential(size=60) ** 3
    law = weights / weights.sum()
    p_values = np.array([p_of_fit(rng.multinomial(3000, law), law) for _ in range(2000)])
    for level in (0.01, 0.1, 0.5):
        assert abs((p_values < level).mean() - level) < 5 * math.sqrt(level * (1 - level) / 2000)


def test_p_of_fit_finds_a_wrong_law():
    rng = rng_for("wrong law")
    law = np.full(64, 1 / 64)
    tilted = law * np.where(np.arange(64) % 2, 1.1, 0.9)
    assert p_of_fit(rng.multinomial(12_000, tilted), law) < LEVEL
    assert p_of_fit(np.array([999, 1]), np.array([1.0, 0.0])) == 0
    assert p_of_fit(np.array([999, 1]), np.array([1.0, 1e-15])) == 0
    with pytest.raises(AssertionError, match=r"law"):
        assert_fits(lambda size, seed: rng.choice(64, size, p=tilted), law, 12_000)


# The law


@pytest.mark.one_each("case", "method")
@each_setting
@each_case
def test_sample_trees_follows_the_law(case, method, single_root):
    for n, size in ((1, 20), (2, 5000), (3, 15_000), (4, 40_000)):
        dtype = DTYPES[n % 2]
        scores, allowed = CASES[case](rng_for("law", case, n, 1), n, dtype)
        options = {"method": method, "single_root": single_root, "allowed": allowed}
        check_law(scores, size, (case, n), **options)


@each_setting
def test_sample_trees_draws_are_independent(method, single_root):
    """Trees drawn one after another in one call, and first trees of neighbours in a batch."""
    scores = CASES["normal"](rng_for("pairs"), 3 if single_root else 2, np.float64)[0]
    law = tree_law(scores, single_root)
    options = {"method": method, "single_root": single_root}
    both = np.outer(law.probabilities, law.probabilities).ravel()

    def neighbours_in_a_call(size: int, seed: int):
        first, second = drawing(scores, law, **options)(2 * size, seed).reshape(size, 2).T
        return first * len(law) + second

    def neighbours_in_a_batch(size: int, seed: int):
        batch = np.broadcast_to(scores, (2 * size, *scores.shape))
        heads, log_probs = sample_trees(batch, 1, seed=seed, **options)
        first, second = law.check(heads[:, 0], log_probs[:, 0]).reshape(size, 2).T
        return first * len(law) + second

    assert_fits(neighbours_in_a_call, both, 5000, ("call", method, single_root))
    assert_fits(neighbours_in_a_batch, both, 2000, ("batch", method, single_root))


@pytest.mark.one_each("method", "single_root")
@each_setting
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.__name__)
def test_sample_trees_has_the_marginals_of_a_longer_sentence(dtype, method, single_root):
    """Heads of each word, by chi-square; mean log probability, and a tilted mean, by z-test."""
    size, draws = 26, 2000
    rng = rng_for("marginals", dtype.__name__)
    scores = rng.standard_normal((size, size)).astype(dtype)
    marginals = arc_marginals(scores, single_root=single_root)
    heads, log_probs = sample_trees(
        scores, 5 * draws, single_root=single_root, method=method, seed=3
    )
    for tree in heads[:50]:
        assert reference.is_tree(tree, single_root)
    for word in range(1, size):

        def draw(size, seed, word=word):
            return heads[:size, word] if size == draws else heads[draws:, word]

        assert_fits(draw, marginals[word], draws)
    roots = (heads[:, 1:] == 0).sum(axis=1)
    assert (roots == 1).all() if single_root else (roots >= 1).all()

    log_z = log_partition_by_determinant(scores, single_root)
    arcs = np.take_along_axis(
        np.broadcast_to(scores.astype(float), (len(heads), size, size))[:, 1:],
        heads[:, 1:, None],
        axis=2,
    )[..., 0]
    np.testing.assert_allclose(log_probs, arcs.sum(axis=1) - log_z, rtol=0, atol=1e-10)
    # A right sampler is beyond six standard errors once in 5e8.
    errors = log_probs + entropy(scores, single_root=single_root)
    assert abs(errors.mean()) < 6 * errors.std() / math.sqrt(len(errors))
    # The mean of q / p is 1 for any law q of the same trees; this one is near p.
    tilt = 0.1 * rng.standard_normal((size, size))
    gains = tilt[np.arange(1, size), heads[:, 1:]].sum(axis=1)
    gains -= log_partition_by_determinant(scores + tilt, single_root) - log_z
    errors = np.expm1(gains)
    assert abs(errors.mean()) < 6 * errors.std() / math.sqrt(len(errors))


# The root token by the weight of its arc


def biased_law(scores: FloatArray, law: Law) -> FloatArray:
    """Return softmax(scores[1:, 0])[root] times the law of the trees of that root, in float64."""
    roots = law.trees[:, 1:].argmin(axis=1) + 1
    raw = np.exp(scores[1:, 0] - scores[1:, 0].max())
    raw /= raw.sum()
    totals = np.array([law.probabilities[roots == root].sum() for root in range(len(scores))])
    return raw[roots - 1] * law.probabilities / totals[roots]


BIASED = {
    # The arc from 1 to 2 weighs four times that from 2 to 1, the two root arcs weigh the same.
    "two_words": np.array([[0, 0, 0], [0, 0, 0], [0, math.log(4), 0]], dtype=float),
    "three_words": np.array([[0] * 4, [1, 0, 2, 0], [0, 0, 0, 1], [0.5, -1, 0, 0]], dtype=float),
    "four_words": rng_for("biased").standard_normal((5, 5)),
}


@pytest.mark.parametrize("name", sorted(BIASED))
def test_root_by_weight_is_biased_and_wilson_is_not(name):
    """Zmigrod et al. 2021, Theorem 2 as corrected: tests would notice that mistake."""
    scores = BIASED[name]
    law = tree_law(scores)
    heads = draw_root_by_weight(scores, 20_000, seed=2)
    counts = np.bincount(law.index(heads), minlength=len(law))
    assert p_of_fit(counts, biased_law(scores, law)) >= LEVEL
    assert p_of_fit(counts, law.probabilities) < 1e-12
    check_law(scores, 20_000, ("unbiased", name), method="wilson")


# Steps of a walk


@pytest.mark.one_each("single_root", "max_steps")
@pytest.mark.parametrize("max_steps", [1, 2, 3, 10, 100, 1000])
@pytest.mark.parametrize("escape", [3.0, 8.0, 30.0])
@each_root
def test_auto_out_of_steps_keeps_the_law(single_root, escape, max_steps):
    """Running out depends on the root word, so a new one must not be drawn then."""
    options = {"method": "auto", "single_root": single_root, "max_steps": max_steps}
    check_law(trap(escape), 15_000, ("steps", escape), **options)


@pytest.mark.one_each("escape", "max_steps")
@pytest.mark.parametrize("max_steps", [1, 7, 50, None])
@pytest.mark.parametrize("escape", [20.0, 37.0, 300.0, 1000.0])
@each_root
def test_auto_leaves_a_trap_without_end(single_root, escape, max_steps):
    """A walk would take exp(37), 1e16, steps and more."""
    options = {"method": "auto", "single_root": single_root, "max_steps": max_steps}
    for n in (3, 4):
        check_law(trap(escape, n), 2000, ("no end", escape, n), **options)


def test_wilson_follows_the_law_of_a_mild_trap():
    for single_root in (True, False):
        for escape in (3.0, 6.0):
            options = {"method": "wilson", "single_root": single_root}
            check_law(trap(escape), 4000, ("mild", escape), **options)


@each_root
@pytest.mark.parametrize("max_steps", [3, 100, 10_000])
def test_wilson_out_of_steps_says_so(single_root, max_steps):
    scores = trap(60.0, 5)
    scores[3, 0] += 10  # single root: it is word 3 nearly always
    scores[1:, 0] -= 60
    with pytest.raises(RuntimeError, match=r"auto"):
        sample_trees(
            scores, 200, method="wilson", max_steps=max_steps, single_root=single_root, seed=1
        )


@pytest.mark.parametrize("max_steps", [1, 100, 10_000])
def test_wilson_reject_out_of_steps_says_so(max_steps):
    """Nearly all walks from ROOT end with several roots; all attempts share the steps."""
    scores = np.zeros((6, 6))
    scores[1:, 0] = 50
    with pytest.raises(RuntimeError, match=r"auto"):
        sample_trees(scores, 1, method="wilson_reject", max_steps=max_steps, seed=1)


@pytest.mark.parametrize("method", ["wilson", "wilson_reject"])
def test_steps_that_suffice_change_nothing(method):
    scores = CASES["normal"](rng_for("suffice"), 5, np.float64)[0]
    heads, log_probs = sample_trees(scores, 200, method=method, seed=5)
    again, again_probs = sample_trees(scores, 200, method=method, seed=5, max_steps=10**6)
    np.testing.assert_array_equal(again, heads)
    np.testing.assert_array_equal(again_probs, log_probs)


def test_steps_are_counted_for_each_tree():
    """20,000 trees take many more steps than any one of them."""
    for method in ("wilson", "wilson_reject"):
        heads, _ = sample_trees(np.zeros((4, 4)), 20_000, method=method, max_steps=2000, seed=1)
        assert len(heads) == 20_000


# Log probabilities


@pytest.mark.one_each("scale", "dtype")
@each_setting
@pytest.mark.parametrize("scale", [0.0, 1e-3, 1.0, 10.0, 100.0, 300.0])
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.__name__)
def test_sample_trees_log_probs_are_exact(dtype, scale, method, single_root):
    """On scores whose best heads form a tree, so that no walk is trapped."""
    for n in (1, 2, 3, 4, 5):
        rng = rng_for("log probs", n, scale)
        scores = scale * rng.standard_normal((n + 1, n + 1))
        if scale >= 3:
            tree = reference.random_heads(rng, n, True)
            # A walk that must not pass ROOT takes second best heads: keep these from cycles.
            scores[1:] -= 8 * scale * (np.arange(n + 1) != tree[1:, None])
        scores = scores.astype(dtype)
        law = tree_law(scores, single_root)
        assert law.tolerance < 2e-11
        try:
            heads, log_probs = sample_trees(
                scores, 50, method=method, single_root=single_root, seed=n
            )
        except ArithmeticError:
            assert method == "colbourn"
            assert scale >= 10
            continue
        law.check(heads, log_probs)


# Extreme confidence


@each_robust
@pytest.mark.parametrize("scale", [100.0, 300.0, 1000.0, 5000.0])
def test_sample_trees_works_at_large_scales(scale, method, single_root):
    """Whatever the scale: ties decide there, and small differences between tied trees."""
    for n, size in ((2, 1000), (3, 2000), (4, 3000)):
        rng = rng_for("large scale", scale, n, 2)
        scores = scale * rng.integers(-2, 3, size=(n + 1, n + 1)).astype(float)
        scores += 0.5 * rng.standard_normal(scores.shape)
        law = tree_law(scores, single_root)
        draw = drawing(scores, law, method=method, single_root=single_root)
        assert_fits(draw, law.probabilities, size, (scale, n, method, single_root))


@each_robust
def test_sample_trees_of_a_confident_long_sentence(method, single_root):
    n = 40
    rng = rng_for("confident long")
    tree = reference.random_heads(rng, n, True)
    scores = 300 * rng.standard_normal((n + 1, n + 1))
    scores[1:] -= 3000 * (np.arange(n + 1) != tree[1:, None])
    heads, log_probs = sample_trees(scores, 5, method=method, single_root=single_root, seed=1)
    assert (heads == tree).all()
    np.testing.assert_allclose(log_probs, 0, atol=1e-11)


@each_root
@pytest.mark.parametrize("escape", [2.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 36.0, 40.0, 300.0])
def test_colbourn_is_right_or_raises(escape, single_root):
    """Two words that strongly prefer each other make the Laplacian singular."""
    for n in (2, 3, 4):
        for away in (0.0, 2 * escape):  # ROOT near or far
            scores = trap(escape, n)
            scores[1:, 0] -= away
            try:
                options = {"method": "colbourn", "single_root": single_root}
                check_law(scores, 2000, ("colbourn", escape, n, away), **options)
            except ArithmeticError:
                assert escape > 5, "no digits are lost there"


# Shapes


@each_setting
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.__name__)
def test_sample_trees_of_no_word_and_one_word(dtype, method, single_root):
    options = {"method": method, "single_root": single_root, "seed": 1}
    heads, log_probs = sample_trees(np.full((1, 1), NAN, dtype), 3, **options)
    assert heads.tolist() == [[-1]] * 3
    assert log_probs.tolist() == [0.0] * 3
    for root in (0.0, -3000.0, 1e30):
        scores = np.array([[NAN, NAN], [root, NAN]], dtype)
        heads, log_probs = sample_trees(scores, 3, **options)
        assert heads.tolist() == [[-1, 0]] * 3
        assert log_probs.tolist() == [0.0] * 3


@each_setting
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.__name__)
def test_sample_trees_uses_no_forbidden_arc_or_finds_no_tree(dtype, method, single_root):
    found = {True: 0, False: 0}
    for n in (1, 2, 3, 3, 4, 4) * 4:
        rng = rng_for("forbidden", dtype.__name__, n, sum(found.values()))
        scores = rng.integers(-1, 2, size=(n + 1, n + 1)).astype(dtype)
        scores[rng.random(scores.shape) < 0.55] = -INF
        law = tree_law(scores, single_root)
        found[len(law) > 0] += 1
        options = {"method": method, "single_root": single_root, "seed": 1}
        if len(law):
            law.check(*sample_trees(scores, 50, **options))
        else:
            with pytest.raises(NoTreeError, match=r"\b0\b"):
                sample_trees(scores, 50, **options)
    assert min(found.values()) > 3, found
