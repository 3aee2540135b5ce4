"""`sample_trees`: the law of every way to draw, with and without replacement, by enumeration.

How often a right sampler fails is stated in `reference_sampling`.
"""

import math

import numpy as np
import pytest
import reference
from reference import FloatArray, IntArray
from reference_sampling import (
    CASES,
    LEVEL,
    SETTINGS,
    TIED,
    assert_fits,
    check_law,
    drawing,
    drawing_first,
    options_of,
    order_law,
    p_of_fit,
    repeated,
    tree_law,
    trees_of,
)
from strategies import DTYPES, each_dtype, each_root, rng_for

from spacy_rootmind import TreeDistribution, sample_trees

NAN, INF = np.nan, np.inf

# Ways that no confidence of a model stops.
ROBUST = [s for s in SETTINGS if s[0] not in ("colbourn", "wilson", "wilson_reject")]

each_setting = pytest.mark.parametrize(("kind", "single_root"), SETTINGS)
each_robust = pytest.mark.parametrize(("kind", "single_root"), ROBUST)
each_projective = pytest.mark.parametrize("projective", [False, True], ids=["all", "projective"])


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


@pytest.mark.one_each("case", "kind")
@pytest.mark.parametrize(
    ("case", "kind", "single_root"),
    [
        (case, *setting)
        for case in [*CASES, *TIED]
        for setting in (SETTINGS if case in CASES else ROBUST)
    ],
)
def test_trees_follow_their_law(case, kind, single_root):
    for n, size in ((1, 20), (2, 5000), (3, 15_000), (4, 40_000)):
        make = {**CASES, **TIED}[case]
        scores = make(rng_for("law", case, n, 1), n, DTYPES[n % 2])
        check_law(scores, size, (case, n), **options_of(kind, single_root))


@each_setting
def test_draws_are_independent(kind, single_root):
    """Trees drawn one after another in one call, and first trees of neighbours in a batch."""
    case = "one_root" if kind == "distinct" else "normal"
    scores = CASES[case](rng_for("pairs"), 3 if kind == "distinct" else 2, float)
    options = options_of(kind, single_root)
    law = tree_law(scores, **trees_of(options))
    m = min(2 if "distinct" in kind else 1, len(law))
    one = order_law(law.log_probs, m).ravel()
    draw_one = drawing_first(scores, law, m, **options)

    def neighbours_in_a_batch(size: int, seed: int):
        first, second = draw_one(2 * size, seed).reshape(size, 2).T
        return first * len(one) + second

    def neighbours_in_a_call(size: int, seed: int):
        places = law.check(*sample_trees(scores, 2 * size, seed=seed, **options))
        first, second = places.reshape(size, 2).T
        return first * len(law) + second

    both = np.outer(one, one).ravel()
    assert_fits(neighbours_in_a_batch, both, 2500, ("batch", kind, single_root))
    if "distinct" not in kind:
        assert_fits(neighbours_in_a_call, both, 5000, ("call", kind, single_root))


@pytest.mark.one_each("kind", "single_root")
@pytest.mark.parametrize(("kind", "single_root"), [s for s in SETTINGS if "projective" not in s[0]])
@each_dtype
def test_trees_of_a_longer_sentence_have_its_marginals(dtype, kind, single_root):
    """Heads of each word, by chi-square; mean log probability, and a tilted mean, by z-test."""
    size, draws = (13, 1500) if kind == "distinct" else (26, 2000)
    rng = rng_for("marginals", dtype.__name__)
    scores = rng.standard_normal((size, size)).astype(dtype)
    options = {"seed": 3, **options_of(kind, single_root)}
    if kind == "distinct":
        batch = repeated(scores, 5 * draws)
        both = sample_trees(batch, 2, **options)
        heads, log_probs = both.heads[:, 0], both.scores[:, 0]
        again, _ = sample_trees(batch[:100], 2, method="ancestral", **options)
        np.testing.assert_array_equal(again, both.heads[:100])
    else:
        heads, log_probs = sample_trees(scores, 5 * draws, **options)
    trees = TreeDistribution(scores, single_root=single_root)
    for tree in heads[:50]:
        assert reference.is_tree(tree, single_root)
    for word, expected in enumerate(trees.marginals[1:], start=1):

        def draw(size, seed, word=word):
            return heads[:size, word] if size == draws else heads[draws:, word]

        assert_fits(draw, expected, draws)
    np.testing.assert_allclose(log_probs, trees.log_prob(heads), rtol=0, atol=1e-10)
    # A right sampler is beyond six standard errors once in 5e8.
    errors = log_probs + trees.entropy()
    assert abs(errors.mean()) < 6 * errors.std() / math.sqrt(len(errors))
    # The mean of q / p is 1 for any law q of the same trees; this one is near p.
    tilt = 0.1 * rng.standard_normal((size, size))
    tilted = TreeDistribution(scores + tilt, single_root=single_root)
    errors = np.expm1(tilted.log_prob(heads) - log_probs)
    assert abs(errors.mean()) < 6 * errors.std() / math.sqrt(len(errors))


# Traps, and steps of a walk


TRAPS = [
    # Running out of steps depends on the root word, so a new one must not be drawn then.
    *(("auto", escape, n, 15_000) for escape in (3.0, 8.0, 30.0) for n in (1, 2, 3, 10, 100, 1000)),
    # A walk would take exp(37), 1e16, steps and more.
    *(("auto", escape, n, 2000) for escape in (20.0, 37.0, 300.0, 1e3) for n in (1, 7, 50, None)),
    *(("ancestral", escape, None, 2000) for escape in (8.0, 37.0, 300.0, 1e3)),
    *(("wilson", escape, None, 4000) for escape in (3.0, 6.0)),
    *(("colbourn", escape, None, 2000) for escape in (2.0, 5.0, 10.0, 15.0, 20.0)),
    *(("colbourn", escape, None, 2000) for escape in (25.0, 30.0, 36.0, 40.0, 300.0)),
]


@pytest.mark.one_each("method", "escape", "max_steps")
@each_root
@pytest.mark.parametrize(("method", "escape", "max_steps", "size"), TRAPS)
def test_trap_keeps_the_law(method, escape, max_steps, size, single_root):
    """Two words that strongly prefer each other also make the Laplacian singular."""
    options = {"method": method, "single_root": single_root, "max_steps": max_steps}
    for n in (2, 3, 4):
        for away in (0.0, 2 * escape) if method == "colbourn" else (0.0,):  # ROOT near or far
            scores = trap(escape, n)
            scores[1:, 0] -= away
            try:
                check_law(scores, size, ("trap", escape, n, away), **options)
            except ArithmeticError:
                assert method == "colbourn"
                assert escape > 5, "no digits are lost there"


@pytest.mark.parametrize("max_steps", [1, 100, 10_000])
@pytest.mark.parametrize(
    ("kind", "single_root"), [("wilson", True), ("wilson", False), ("wilson_reject", True)]
)
def test_walk_out_of_steps_says_so(kind, single_root, max_steps):
    if kind == "wilson":
        scores = trap(60.0, 5)
        scores[3, 0] += 10  # single root: it is word 3 nearly always
        scores[1:, 0] -= 60
    else:
        # Nearly all walks from ROOT end with several roots; all attempts share the steps.
        scores = np.zeros((6, 6))
        scores[1:, 0] = 50
    with pytest.raises(RuntimeError, match=r"auto"):
        sample_trees(scores, 200, method=kind, max_steps=max_steps, single_root=single_root, seed=1)


@pytest.mark.parametrize("method", ["wilson", "wilson_reject"])
def test_steps_are_counted_for_each_tree(method):
    """Enough steps change nothing; 20,000 trees take many more than any one of them."""
    scores = CASES["normal"](rng_for("suffice"), 5, np.float64)
    first = sample_trees(scores, 200, method=method, seed=5)
    again = sample_trees(scores, 200, method=method, seed=5, max_steps=10**6)
    np.testing.assert_array_equal(again.heads, first.heads)
    np.testing.assert_array_equal(again.scores, first.scores)
    heads, _ = sample_trees(np.zeros((4, 4)), 20_000, method=method, max_steps=2000, seed=1)
    assert len(heads) == 20_000


# Log probabilities and confidence


@pytest.mark.one_each("kind", "mask")
@each_dtype
@each_robust
@pytest.mark.parametrize("mask", [-1e9, -1e32])
def test_trees_beyond_soft_masks(mask, kind, single_root, dtype):
    """With replacement they never come; without, after all others, or not at all below -1e15."""
    options = options_of(kind, single_root)
    trees = trees_of(options)
    for n in (2, 3, 4):
        scores = CASES["forbidden"](rng_for("soft", n), n, dtype)
        soft = np.where(scores > -np.inf, scores, mask).astype(dtype)
        first = tree_law(scores, **trees)
        if not len(first):
            continue
        if "distinct" not in kind:
            draw = drawing(soft, first, **options)
            assert_fits(draw, first.probabilities, 2000, ("soft", mask, n, kind, single_root))
            continue
        law = tree_law(soft, **trees) if mask > -1e15 else first
        heads, log_probs = sample_trees(soft, len(law) + 1, seed=n, **options)
        places = law.index(heads)
        assert sorted(places.tolist()) == list(range(len(law)))
        np.testing.assert_allclose(log_probs, law.log_probs[places], rtol=1e-14, atol=1e-13)
        first.check(heads[: len(first)], log_probs[: len(first)])


# Without replacement: the order


@each_root
@each_projective
@pytest.mark.parametrize("confidence", [20.0, 35.0, 70.0, 300.0, 2000.0, 1e4, 1e6])
def test_distinct_trees_after_a_certain_one(confidence, projective, single_root):
    """One tree has p = 1 − exp(−confidence): those after it follow what p is among them."""
    rng = rng_for("certain", confidence)
    tree = np.array([-1, 2, 0, 2])
    scores = 0.7 * rng.standard_normal((4, 4))
    scores[np.arange(1, 4), tree[1:]] += confidence
    law = tree_law(scores, single_root, projective=projective)
    best = int(law.log_probs.argmax())
    assert law.trees[best].tolist() == tree.tolist()
    others = np.delete(np.arange(len(law)), best)
    expected = np.zeros((len(law), len(law)))
    expected[np.ix_(others, others)] = order_law(law.log_probs[others], 2)
    options = {"replace": False, "single_root": single_root, "projective": projective}
    draw_three = drawing_first(scores, law, 3, **options)

    def draw(size: int, seed: int) -> IntArray:
        first, second, third = np.unravel_index(draw_three(size, seed), (len(law),) * 3)
        assert (first == best).mean() > 1 - 1e-3  # confidence 20: 2e-8 or so of all
        second, third = second[first == best], third[first == best]
        missing = size - len(second)
        return np.concatenate([second * len(law) + third, np.repeat(second[:1], missing)])

    assert_fits(draw, expected.ravel(), 4000, ("certain", confidence, single_root))


# Without replacement: longer sentences


def test_memory_goes_by_the_number_of_trees():
    heads, _ = sample_trees(np.zeros((4, 4)), 10**30, replace=False, seed=0)
    assert len(heads) == 9
    for projective in (False, True):
        with pytest.raises(MemoryError, match=r"no memory for|Unable to allocate"):
            sample_trees(np.zeros((31, 31)), 10**30, projective=projective, replace=False)


def test_wide_numbers_take_one_elimination_a_tree():
    """Pairs that prefer each other by exp(600), in a sentence where n^4 would take a minute."""
    n = 200
    scores = rng_for("wide distinct").normal(size=(n + 1, n + 1))
    first = np.arange(1, n, 2)
    scores[first, first + 1] += 600
    scores[first + 1, first] += 600
    heads, log_probs = sample_trees(scores, 4, replace=False, seed=0)
    assert len(np.unique(heads, axis=0)) == 4
    assert np.isfinite(log_probs).all()
