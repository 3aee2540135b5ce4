"""`sample_trees` without replacement: every tree once, and the law of the order, by enumeration."""

import itertools

import numpy as np
import pytest
import reference
from reference import FloatArray, IntArray
from reference_sampling import (
    CASES,
    Law,
    assert_fits,
    order_law,
    tree_law,
)
from strategies import DTYPES, FAMILIES, each_dtype, each_root, pad_batch, rng_for, soft_to_hard

from spacy_rootmind import (
    NoTreeError,
    TreeDistribution,
    arc_marginals,
    is_projective,
    is_tree,
    sample_trees,
)
from spacy_rootmind.trees.sampling import draw
from spacy_rootmind.trees.sentences import Sentences

NAN, INF = np.nan, np.inf

SCALES = (0.0, 1e-3, 1.0, 10.0, 100.0, 300.0, 1000.0, 5000.0)

each_scale = pytest.mark.parametrize("scale", SCALES)
each_kind = pytest.mark.parametrize("projective", [False, True], ids=["all", "projective"])


def check_exhaustive(
    scores: FloatArray,
    single_root: bool,
    projective: bool = False,
    *,
    allowed=None,
    seed: int = 0,
    extra: int = 3,
) -> Law:
    """Assert that drawing more trees than there are gives each exactly once."""
    law = tree_law(scores, single_root, allowed, projective)
    options = {"allowed": allowed, "single_root": single_root, "projective": projective}
    if not len(law):
        with pytest.raises(NoTreeError, match="no projective tree" if projective else "no tree"):
            sample_trees(scores, 5, replace=False, seed=seed, **options)
        return law
    heads, log_probs = sample_trees(scores, len(law) + extra, replace=False, seed=seed, **options)
    assert heads.shape == (len(law), len(scores)), (len(law), scores)
    assert sorted(law.check(heads, log_probs).tolist()) == list(range(len(law)))
    return law


def drawing(scores: FloatArray, law: Law, m: int, k: int | None = None, **options: object):
    """Return a function that draws the first m of k trees `size` times; cells as `order_law`."""

    def draw(size: int, seed: int) -> IntArray:
        batch = np.broadcast_to(scores, (size, *scores.shape))
        masks = options.get("allowed")
        if masks is not None:
            options["allowed"] = np.broadcast_to(masks, (size, *scores.shape))
        heads, log_probs = sample_trees(batch, k or m, replace=False, seed=seed, **options)
        assert heads.shape == (size, k or m, len(scores))
        places = law.check(heads[:, :m], log_probs[:, :m])
        for i, j in itertools.combinations(range(m), 2):
            assert (places[:, i] != places[:, j]).all(), "the same tree twice"
        return np.ravel_multi_index(tuple(places.T), (len(law),) * m)

    return draw


def scaled(scale: float, scores: FloatArray) -> FloatArray:
    """Multiply the finite scores."""
    return np.multiply(scores, scale, where=np.isfinite(scores), out=scores.copy())


def with_trees(number: int, n: int, single_root: bool, *note: object) -> FloatArray:
    """Return normal scores whose forbidden arcs leave `number` trees."""
    for trial in range(10_000):
        rng = rng_for("with trees", number, n, single_root, note, trial)
        scores = rng.standard_normal((n + 1, n + 1))
        scores[rng.random(scores.shape) < 0.4] = -INF
        if len(tree_law(scores, single_root)) == number:
            return scores
    raise AssertionError(f"no graph with {number} trees")


# Every tree exactly once


@pytest.mark.one_each("family", "scale", "projective")
@each_root
@each_kind
@each_scale
@each_dtype
@pytest.mark.parametrize(
    "family", ["normal", "uniform", "masked", "forbidden", "one_root", "prefer_root"]
)
def test_distinct_trees_are_all_drawn_once(family, dtype, scale, projective, single_root):
    for n in (1, 2, 3, 4):
        rng = rng_for("all", family, scale, n)
        scores, allowed = CASES[family](rng, n, np.float64)
        scores = scaled(scale, scores).astype(dtype)
        check_exhaustive(scores, single_root, projective, allowed=allowed, seed=n)


@each_root
@each_dtype
def test_distinct_trees_beyond_soft_masks_are_all_drawn_once(dtype, single_root):
    """Trees that need arcs of −1e9 have their turn after all the others."""
    for n in (2, 3, 4):
        scores, allowed = CASES["masked"](rng_for("soft", n), n, np.float64)
        soft = np.where(allowed, scores, -1e9).astype(dtype)
        law = tree_law(soft, single_root)
        heads, log_probs = sample_trees(
            soft, len(law) + 1, replace=False, single_root=single_root, seed=n
        )
        assert sorted(law.index(heads).tolist()) == list(range(len(law)))
        np.testing.assert_allclose(
            log_probs, law.log_probs[law.index(heads)], rtol=1e-14, atol=1e-13
        )
        first = tree_law(soft, single_root, allowed)
        first.check(heads[: len(first)], log_probs[: len(first)])


@each_root
def test_distinct_trees_without_soft_masks_come_first(single_root):
    """With masks of −1e32, draw those trees only that need none."""
    for trial in range(20):
        scores = FAMILIES["soft_masks"](rng_for("masks", trial), 4, np.float64)
        law = tree_law(soft_to_hard(scores), single_root)
        if not len(law):
            continue
        heads, log_probs = sample_trees(
            scores, len(law), replace=False, single_root=single_root, seed=trial
        )
        assert sorted(law.check(heads, log_probs).tolist()) == list(range(len(law)))


@each_root
@each_kind
@each_dtype
def test_distinct_trees_of_a_batch_with_too_few(dtype, projective, single_root):
    """Rows beyond the last tree are −1 and −inf."""
    matrices = [CASES["normal"](rng_for("rows", n), n, dtype)[0] for n in (3, 0, 1, 4, 2, 0, 5, 1)]
    scores, lengths = pad_batch(matrices, NAN, 1)
    k = 20
    options = {"lengths": lengths, "single_root": single_root, "projective": projective}
    heads, log_probs = sample_trees(scores, k, replace=False, seed=1, **options)
    assert heads.shape == (len(matrices), k, scores.shape[-1])
    assert log_probs.shape == (len(matrices), k)
    for tree, log_prob, matrix in zip(heads, log_probs, matrices, strict=True):
        law = tree_law(matrix, single_root, projective=projective)
        number = min(k, len(law))
        places = law.check(tree[:number, : len(matrix)].copy(), log_prob[:number])
        assert len(set(places.tolist())) == number
        assert (tree[:, len(matrix) :] == -1).all()
        assert (tree[number:] == -1).all()
        assert (log_prob[number:] == -INF).all()


@each_root
@each_kind
@pytest.mark.parametrize("extra", [(), (1,), (1, 2)])
def test_distinct_trees_only_one_tree(extra, projective, single_root):
    """A chain leaves one tree; each further root arc that is allowed, one more or none."""
    scores = np.full((4, 4), -INF)
    scores[[1, 2, 3], [0, 1, 2]] = -5.0
    for word in extra:
        scores[1 + word, 0] = 1.0
    check_exhaustive(scores, single_root, projective)


@each_root
def test_crossing_trees_do_not_count(single_root):
    """A mask may leave one projective tree and crossing ones."""
    scores = np.full((5, 5), -INF)
    scores[1:, 0] = [-INF, 0, -INF, -INF]
    scores[1, 2] = scores[3, [2, 1]] = scores[4, [3, 2]] = 0
    scores[3, 2] = scores[4, 2] = -INF
    law = check_exhaustive(scores, single_root, projective=True)
    assert len(law) == 0
    scores[3, 2] = 0
    assert len(check_exhaustive(scores, single_root, projective=True)) == 1


# The law of the order


@each_root
@each_kind
@pytest.mark.parametrize(
    "case", ["normal", "normal_3", "masked", "trained_like", "prefer_root", "pair", "zeros"]
)
def test_distinct_trees_first_and_second_follow_their_law(case, projective, single_root):
    """P(s, t) = p(s) p(t) / (1 − p(s))."""
    for n, size in ((2, 1500), (3, 5000)):
        scores, allowed = CASES[case](rng_for("second", case, n, 3), n, DTYPES[n % 2])
        kind = {"single_root": single_root, "projective": projective}
        law = tree_law(scores, allowed=allowed, **kind)
        m = min(2, len(law))
        draw = drawing(scores, law, m, allowed=allowed, **kind)
        assert_fits(draw, order_law(law.log_probs, m).ravel(), size, (case, n, single_root))


@each_root
def test_distinct_trees_first_has_the_marginals_of_a_longer_sentence(single_root):
    """By either name of the only method, which draw the same."""
    size, draws = 13, 1500
    scores = CASES["normal"](rng_for("long marginals"), size - 1, np.float64)[0]
    batch = np.broadcast_to(scores, (5 * draws, size, size))
    options = {"replace": False, "single_root": single_root, "seed": 1}
    heads, _ = sample_trees(batch, 2, **options)
    again, _ = sample_trees(batch, 2, method="ancestral", **options)
    np.testing.assert_array_equal(again, heads)
    for word, expected in enumerate(arc_marginals(scores, single_root=single_root)[1:], start=1):

        def draw(number: int, seed: int, word: int = word) -> IntArray:
            return heads[:number, 0, word] if number == draws else heads[draws:, 0, word]

        assert_fits(draw, expected, draws, ("marginals", word))


@each_root
@pytest.mark.parametrize(("number", "n"), [(2, 3), (3, 3), (4, 3), (4, 4)])
def test_distinct_trees_whole_order_follows_its_law(number, n, single_root):
    scores = with_trees(number, n, single_root)
    law = tree_law(scores, single_root)
    draw = drawing(scores, law, number, k=number + 1, single_root=single_root)
    expected = order_law(law.log_probs, number).ravel()
    assert_fits(draw, expected, 5000, ("order", number, n, single_root))


@each_root
@pytest.mark.parametrize("scale", [100.0, 1000.0, 5000.0])
def test_distinct_trees_order_at_large_scales(scale, single_root):
    """Trees nearly tie in groups far apart; each group has its turn."""
    rng = rng_for("order scale", scale)
    scores = scale * rng.integers(-1, 2, size=(4, 4)).astype(float)
    scores += 0.5 * rng.standard_normal(scores.shape)
    law = tree_law(scores, single_root)
    for m in (1, 2, 3):
        draw = drawing(scores, law, m, k=3, single_root=single_root)
        if m == 3 and len(law) > 9:
            continue
        expected = order_law(law.log_probs, m).ravel()
        assert_fits(draw, expected, 3000, ("order", scale, m, single_root))


@each_root
@each_kind
@pytest.mark.parametrize("confidence", [20.0, 35.0, 70.0, 300.0, 2000.0, 1e4])
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
    among = order_law(law.log_probs[others], 2)
    expected = np.zeros((len(law), len(law)))
    expected[np.ix_(others, others)] = among
    draw_three = drawing(scores, law, 3, single_root=single_root, projective=projective)

    def draw(size: int, seed: int) -> IntArray:
        first, second, third = np.unravel_index(draw_three(size, seed), (len(law),) * 3)
        assert (first == best).mean() > 1 - 1e-3  # confidence 20: 2e-8 or so of all
        second, third = second[first == best], third[first == best]
        missing = size - len(second)
        return np.concatenate([second * len(law) + third, np.repeat(second[:1], missing)])

    assert_fits(draw, expected.ravel(), 4000, ("certain", confidence, single_root))


@each_root
@each_kind
@pytest.mark.parametrize("confidence", [0.0, 70.0, 3000.0])
def test_what_remains_is_known_before_each_draw(confidence, projective, single_root):
    """Its log is exact when the trees drawn have all of the probability but exp(-3000)."""
    for n in (1, 2, 4):
        scores = rng_for("remaining", confidence, n).standard_normal((n + 1, n + 1))
        scores[np.arange(1, n + 1), np.arange(n)] += confidence
        law = tree_law(scores, single_root, projective=projective)
        sentence = Sentences(scores, single_root=single_root, projective=projective)
        drawn = draw(sentence, len(law), replace=False, method="auto", steps=0, seed=1)
        assert drawn.found[0] == len(law)
        left = np.ones(len(law), dtype=bool)
        for tree, log_remaining in zip(drawn.heads[0], drawn.log_remaining[0], strict=True):
            expected = np.logaddexp.reduce(law.log_probs[left])
            assert log_remaining == pytest.approx(expected, rel=1e-12, abs=1e-12)
            left[law.index(tree)] = False


# Longer sentences


@each_root
@pytest.mark.parametrize("scale", [0.0, 1.0, 300.0])
def test_distinct_projective_trees_of_sixty_words(scale, single_root):
    scores = scale * rng_for("sixty projective").standard_normal((61, 61))
    kind = {"single_root": single_root, "projective": True}
    heads, log_probs = sample_trees(scores, 300, replace=False, seed=3, **kind)
    assert len(np.unique(heads, axis=0)) == 300
    assert is_projective(heads).all()
    assert is_tree(heads, single_root=single_root).all()
    trees = TreeDistribution(scores, **kind)
    assert trees.log_prob(heads).tolist() == log_probs.tolist()
    again = trees.sample(20, replace=False, seed=3)
    np.testing.assert_array_equal(again[0], heads[:20])
    # Draws with replacement choose the same from the same numbers.
    first, _ = trees.sample(1, seed=3)
    np.testing.assert_array_equal(first, heads[:1])


@each_root
@each_kind
def test_distinct_trees_of_a_very_confident_long_sentence(projective, single_root):
    """The best tree has a probability of 1 in float64, and 49 others still come."""
    n = 25
    rng = rng_for("confident long")
    find = reference.random_projective_heads if projective else reference.random_heads
    tree = find(rng, n, True)
    scores = 100 * rng.standard_normal((n + 1, n + 1))
    scores[1:] -= 1500 * (np.arange(n + 1) != tree[1:, None])
    kind = {"single_root": single_root, "projective": projective}
    heads, log_probs = sample_trees(scores, 50, replace=False, seed=1, **kind)
    assert heads.shape == (50, n + 1)
    assert (heads[0] == tree).all()
    assert len(np.unique(heads, axis=0)) == 50
    for other, log_prob in zip(heads, log_probs, strict=True):
        assert reference.is_tree(other, single_root)
        assert abs(reference.score_gap(scores, other, tree) - log_prob) < 1e-10
    # Hundreds apart, so that they come in order, except for ties.
    assert (np.diff(log_probs) < 40).all()


def test_memory_goes_by_the_trees_there_are():
    """A billion trees are wanted, and a mask leaves two."""
    n = 20
    allowed = np.eye(n + 1, k=-1, dtype=bool)
    allowed[2, 0] = allowed[1, 2] = True
    heads, _ = sample_trees(np.zeros((n + 1, n + 1)), 10**9, allowed=allowed, replace=False, seed=0)
    assert len(heads) == 2
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
