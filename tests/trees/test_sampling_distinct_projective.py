"""`sample_trees` of projective trees without replacement, against enumeration."""

import itertools

import numpy as np
import pytest
import reference
from reference import FloatArray, IntArray
from reference_sampling import CASES, Law, assert_fits, order_law, tree_law
from strategies import DTYPES, FAMILIES, each_root, generator_at, pad_batch, rng_for

from spacy_rootmind import NoTreeError, TreeDistribution, is_projective, is_tree, sample_trees
from spacy_rootmind.trees.sampling import _draw

INF = np.inf
SCALES = (0.0, 1.0, 30.0, 1000.0, 5000.0)

each_scale = pytest.mark.parametrize("scale", SCALES)


def options(single_root: bool, seed: int) -> dict:
    """Return the arguments of these draws."""
    return {"single_root": single_root, "projective": True, "replace": False, "seed": seed}


def check_exhaustive(scores: FloatArray, single_root: bool, seed: int, allowed=None) -> Law:
    """Assert that drawing more trees than there are gives each exactly once."""
    law = tree_law(scores, single_root, allowed, projective=True)
    if not len(law):
        with pytest.raises(NoTreeError, match="no projective tree"):
            sample_trees(scores, 5, allowed=allowed, **options(single_root, seed))
        return law
    heads, log_probs = sample_trees(
        scores, len(law) + 3, allowed=allowed, **options(single_root, seed)
    )
    assert heads.shape == (len(law), len(scores)), (len(law), scores)
    assert sorted(law.check(heads, log_probs).tolist()) == list(range(len(law)))
    return law


def scaled(scale: float, scores: FloatArray) -> FloatArray:
    """Multiply the finite scores."""
    return np.multiply(scores, scale, where=np.isfinite(scores), out=scores.copy())


def drawing(scores: FloatArray, law: Law, m: int, single_root: bool, k: int | None = None):
    """Return a function that draws the first m of k trees so many times; cells as `order_law`."""

    def draw(size: int, seed: int) -> IntArray:
        batch = np.broadcast_to(scores, (size, *scores.shape))
        heads, log_probs = sample_trees(batch, k or m, **options(single_root, seed))
        places = law.check(heads[:, :m], log_probs[:, :m])
        for i, j in itertools.combinations(range(m), 2):
            assert (places[:, i] != places[:, j]).all(), "the same tree twice"
        return np.ravel_multi_index(tuple(places.T), (len(law),) * m)

    return draw


# Every tree exactly once


@pytest.mark.one_each("family", "scale")
@each_root
@each_scale
@pytest.mark.parametrize("family", ["normal", "masked", "forbidden", "one_root", "prefer_root"])
def test_all_projective_trees_are_drawn_once(family, scale, single_root):
    for n, dtype in itertools.product((0, 1, 2, 3, 4), DTYPES):
        rng = rng_for("all projective", family, scale, n)
        scores, allowed = CASES[family](rng, max(n, 1), np.float64)
        if n == 0:
            scores, allowed = np.full((1, 1), np.nan), None
        check_exhaustive(scaled(scale, scores).astype(dtype), single_root, n, allowed)


@each_root
@pytest.mark.parametrize("family", ["trained_like", "nested_cycles", "nested_pairs", "multi_root"])
def test_all_projective_trees_of_confident_families_are_drawn_once(family, single_root):
    for n, scale in itertools.product((2, 4), SCALES):
        scores = FAMILIES[family](rng_for("confident projective", family, n), n, np.float64)
        check_exhaustive(scaled(scale, scores), single_root, seed=n)


@each_root
@pytest.mark.parametrize("scale", [0.0, 1.0, 1e4])
def test_all_projective_trees_of_five_words_are_drawn_once(scale, single_root):
    scores = scale * rng_for("five projective", scale).standard_normal((6, 6))
    law = check_exhaustive(scores, single_root, seed=5)
    assert len(law) == reference.count_projective_trees(5, single_root)


@each_root
def test_crossing_trees_do_not_count(single_root):
    """Where a mask leaves one projective tree and crossing ones, there is one."""
    scores = np.full((5, 5), -INF)
    scores[1:, 0] = [-INF, 0, -INF, -INF]
    scores[1, 2] = scores[3, [2, 1]] = scores[4, [3, 2]] = 0
    scores[3, 2] = scores[4, 2] = -INF
    law = check_exhaustive(scores, single_root, seed=1)
    assert len(law) == 0
    scores[3, 2] = 0
    assert len(check_exhaustive(scores, single_root, seed=1)) == 1


# The law of the order


@each_root
@pytest.mark.parametrize("case", ["normal", "normal_3", "trained_like", "prefer_root", "zeros"])
def test_first_and_second_projective_trees_follow_their_law(case, single_root):
    """P(s, t) = p(s) p(t) / (1 − p(s))."""
    for n, size in ((2, 1500), (3, 4000)):
        scores = CASES[case](rng_for("second projective", case, n), n, DTYPES[n % 2])[0]
        law = tree_law(scores, single_root, projective=True)
        draw = drawing(scores, law, 2, single_root)
        assert_fits(draw, order_law(law.log_probs, 2).ravel(), size, (case, n, single_root))


@each_root
def test_first_projective_tree_of_four_words_follows_its_law(single_root):
    scores = CASES["normal"](rng_for("first projective"), 4, np.float64)[0]
    law = tree_law(scores, single_root, projective=True)
    draw = drawing(scores, law, 1, single_root, k=3)
    assert_fits(draw, law.probabilities, 5000, ("first projective", single_root))


@each_root
@pytest.mark.parametrize("confidence", [20.0, 70.0, 1e4])
def test_projective_trees_after_a_certain_one(confidence, single_root):
    """One tree has p = 1 − exp(−confidence): those after it follow what p is among them."""
    tree = np.array([-1, 2, 0, 2])
    scores = 0.7 * rng_for("certain projective", confidence).standard_normal((4, 4))
    scores[np.arange(1, 4), tree[1:]] += confidence
    law = tree_law(scores, single_root, projective=True)
    best = int(law.log_probs.argmax())
    assert law.trees[best].tolist() == tree.tolist()
    others = np.delete(np.arange(len(law)), best)
    expected = np.zeros((len(law), len(law)))
    expected[np.ix_(others, others)] = order_law(law.log_probs[others], 2)
    draw_three = drawing(scores, law, 3, single_root)

    def draw(size: int, seed: int) -> IntArray:
        first, second, third = np.unravel_index(draw_three(size, seed), (len(law),) * 3)
        assert (first == best).mean() > 1 - 1e-3
        second, third = second[first == best], third[first == best]
        missing = size - len(second)
        return np.concatenate([second * len(law) + third, np.repeat(second[:1], missing)])

    assert_fits(draw, expected.ravel(), 3000, ("certain projective", confidence, single_root))


@each_root
@pytest.mark.parametrize("projective", [True, False])
@pytest.mark.parametrize("confidence", [0.0, 70.0, 3000.0])
def test_what_remains_is_known_before_each_draw(confidence, projective, single_root):
    """Its log is exact when the trees drawn have all of the probability but exp(-3000)."""
    for n in (1, 2, 4):
        scores = rng_for("remaining", confidence, n).standard_normal((n + 1, n + 1))
        scores[np.arange(1, n + 1), np.arange(n)] += confidence
        law = tree_law(scores, single_root, projective=projective)
        method = "projective_distinct" if projective else "distinct"
        words = np.array([n])
        drawn = _draw(scores[None], None, words, len(law), method, single_root, 0, 1, 1)
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
    heads, log_probs = sample_trees(scores, 300, **options(single_root, 3))
    assert len(np.unique(heads, axis=0)) == 300
    assert is_projective(heads).all()
    assert is_tree(heads, single_root=single_root).all()
    trees = TreeDistribution(scores, single_root=single_root, projective=True)
    assert trees.log_prob(heads).tolist() == log_probs.tolist()
    again = trees.sample(20, replace=False, seed=3)
    np.testing.assert_array_equal(again[0], heads[:20])
    # The choices are those of draws with replacement, from the same numbers.
    first, _ = trees.sample(1, seed=3)
    np.testing.assert_array_equal(first, heads[:1])


@each_root
def test_distinct_projective_trees_are_listed_where_one_is_certain(single_root):
    """The best tree has a probability of 1 in float64; 49 others come, the better ones first."""
    n = 25
    rng = rng_for("confident projective")
    tree = reference.random_projective_heads(rng, n, True)
    scores = 100 * rng.standard_normal((n + 1, n + 1))
    scores[1:] -= 1500 * (np.arange(n + 1) != tree[1:, None])
    heads, log_probs = sample_trees(scores, 50, **options(single_root, 1))
    assert (heads[0] == tree).all()
    assert len(np.unique(heads, axis=0)) == 50
    for other, log_prob in zip(heads, log_probs, strict=True):
        assert abs(reference.score_gap(scores, other, tree) - log_prob) < 1e-10
    assert (np.diff(log_probs) < 40).all()


def test_distinct_projective_trees_of_a_batch():
    """As each sentence alone, with -1 and -inf where a sentence has no more trees."""
    matrices = [
        CASES["normal"](rng_for("projective rows", i), i % 9, np.float32)[0] for i in range(30)
    ]
    scores, lengths = pad_batch(matrices, np.nan, 1)
    k = 20
    heads, log_probs = sample_trees(scores, k, lengths=lengths, num_threads=3, **options(True, 5))
    for i, matrix in enumerate(matrices):
        number = min(k, reference.count_projective_trees(i % 9, True))
        alone = sample_trees(matrix, k, **{**options(True, 0), "seed": generator_at(5, i)})
        np.testing.assert_array_equal(heads[i, :number, : len(matrix)], alone[0])
        np.testing.assert_array_equal(log_probs[i, :number], alone[1])
        assert (heads[i, number:] == -1).all()
        assert (heads[i, :, len(matrix) :] == -1).all()
        assert (log_probs[i, number:] == -INF).all()


def test_distinct_projective_trees_beyond_memory():
    with pytest.raises(MemoryError, match="sample_trees"):
        sample_trees(np.zeros((31, 31)), 10**30, **options(True, 0))
