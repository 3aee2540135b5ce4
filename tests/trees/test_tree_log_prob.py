"""`tree_log_prob`, against enumeration and determinants, and on heads that are no tree."""

import numpy as np
import pytest
import reference
import reference_probabilities as oracle
from hypothesis import given, settings
from hypothesis import strategies as st
from probability_cases import (
    CLOSED,
    ESCAPES,
    SCALES,
    WILD,
    assert_near,
    family_cases,
    log_prob_tolerance,
    may_fail,
    scaled,
    without_tree,
)
from reference import FloatArray, IntArray
from reference_probabilities import Distribution
from strategies import DTYPES, FAMILIES, PROPERTY, entry_matrices, pad_batch, rng_for

from spacy_rootmind import (
    NoTreeError,
    decode,
    decode_kbest,
    log_partition,
    tree_log_prob,
    tree_score,
)

INF = np.inf

each_root = pytest.mark.parametrize("single_root", [True, False])
each_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.__name__)
each_scale = pytest.mark.parametrize("scale", SCALES)
each_closed = pytest.mark.parametrize("closed", sorted(CLOSED))


def some_trees(rng: np.random.Generator, scores: FloatArray, single_root: bool) -> IntArray:
    """Return the best trees, and a few others."""
    n = len(scores) - 1
    trees = reference.enumerate_trees(n, single_root)
    others = trees[rng.integers(0, len(trees), size=5)]
    return np.concatenate([reference.k_best_enumerated(scores, 6, single_root), others])


def check(scores: FloatArray, trees: IntArray, single_root: bool, right: Distribution) -> None:
    """Assert the log probabilities of trees, asked for one by one and all together."""
    repeated = np.broadcast_to(scores, (len(trees), *scores.shape))
    together = tree_log_prob(repeated, trees, single_root=single_root)
    assert together.dtype == np.float64
    assert together.shape == (len(trees),)
    for tree, got in zip(trees, together, strict=True):
        expected = right.log_prob(scores, tree)
        if expected.is_infinite():
            assert got == -INF, (scores, tree)
        else:
            tolerance = log_prob_tolerance(scores, tree, right)
            assert_near(got, expected, tolerance, scores, tree, single_root)
    assert tree_log_prob(scores, trees[-1], single_root=single_root) == together[-1]


def check_enumerated(rng: np.random.Generator, scores: FloatArray, single_root: bool) -> None:
    right = oracle.enumerated(scores, single_root)
    if right is None:
        tree = reference.random_heads(rng, len(scores) - 1, single_root)
        with pytest.raises(NoTreeError):
            tree_log_prob(scores, tree, single_root=single_root)
    elif not may_fail(scores, right):
        check(scores, some_trees(rng, scores, single_root), single_root, right)


# Against the oracles


@each_root
@each_dtype
@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_tree_log_prob_matches_enumeration(family, dtype, single_root):
    rng = rng_for("some trees", family)
    for scores in family_cases(family, dtype, {0: 1, 1: 2, 2: 8, 3: 10, 4: 8, 5: 4}):
        check_enumerated(rng, scores, single_root)


@each_root
@each_dtype
@each_scale
def test_tree_log_prob_is_exact_at_all_scales(scale, dtype, single_root):
    rng, other = rng_for("scales", scale, dtype.__name__), rng_for("some trees", scale)
    for n in (1, 2, 3, 4, 4, 5, 5):
        for holes in (0.0, 0.3, 0.6):
            scores = scaled(rng, n, scale, dtype, holes=holes)
            check_enumerated(other, scores, single_root)
            scores = scaled(rng, n, scale, dtype, holes=holes, tree=False)
            check_enumerated(other, scores, single_root)


@pytest.mark.slow
@each_root
@each_dtype
@each_scale
def test_tree_log_prob_is_exact_at_all_scales_on_many(scale, dtype, single_root):
    rng, other = rng_for("scales many", scale, dtype.__name__), rng_for("some trees", scale)
    for n in (2, 3, 4, 5):
        for holes in (0.0, 0.2, 0.4, 0.6, 0.8):
            for _ in range(30):
                scores = scaled(rng, n, scale, dtype, holes=holes)
                check_enumerated(other, scores, single_root)


@each_root
@pytest.mark.parametrize("scale", [300.0, 1000.0])
def test_tree_log_prob_is_exact_to_eleven_places_at_large_scales(scale, single_root):
    rng = rng_for("large scales", scale)
    for n in (2, 3, 4, 5) * 10:
        scores = scaled(rng, n, scale)
        right = oracle.enumerated(scores, single_root)
        for tree in reference.k_best_enumerated(scores, 3, single_root):
            got = tree_log_prob(scores, tree, single_root=single_root)
            assert_near(got, right.log_prob(scores, tree), 1e-11, scores, tree)


@each_root
@each_closed
@pytest.mark.parametrize("escape", ESCAPES)
def test_tree_log_prob_is_exact_on_closed_cycles(escape, closed, single_root):
    rng, other = rng_for("closed", closed, escape), rng_for("some trees", closed)
    for n in (2, 3, 4, 5):
        check_enumerated(other, CLOSED[closed](rng, n, escape), single_root)


@settings(PROPERTY)
@given(entry_matrices(max_n=4), st.booleans(), st.integers(0, 2**32 - 1))
def test_tree_log_prob_matches_enumeration_on_entries(scores, single_root, seed):
    check_enumerated(np.random.default_rng(seed), scores, single_root)


@each_root
@pytest.mark.parametrize("n", [8, 15, 30])
@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0, 30.0])
def test_tree_log_prob_matches_determinant(scale, n, single_root):
    for holes in (0.0, 0.7):
        scores = scaled(rng_for("determinant", n, scale), n, scale, holes=holes)
        trees, _ = decode_kbest(scores, 4, single_root=single_root)
        check(scores, trees, single_root, oracle.by_determinant(scores, single_root))


@each_root
@each_closed
@pytest.mark.parametrize(("n", "escape"), [(9, 800.0), (16, 50.0)])
def test_tree_log_prob_matches_determinant_on_closed_cycles(n, escape, closed, single_root):
    scores = CLOSED[closed](rng_for("determinant closed", closed, n), n, escape)
    trees, _ = decode_kbest(scores, 4, single_root=single_root)
    check(scores, trees, single_root, oracle.by_determinant(scores, single_root))


# All trees together


@each_root
@each_scale
def test_tree_log_prob_sums_to_one_over_all_trees(scale, single_root):
    rng = rng_for("sum", scale)
    for n in (1, 2, 3, 4, 5):
        for holes in (0.0, 0.5):
            scores = scaled(rng, n, scale, holes=holes)
            trees = reference.enumerate_trees(n, single_root)
            repeated = np.broadcast_to(scores, (len(trees), n + 1, n + 1))
            log_probs = tree_log_prob(repeated, trees, single_root=single_root)
            assert np.exp(log_probs).sum() == pytest.approx(1, rel=0, abs=1e-11)
            assert (log_probs <= 1e-11).all()


@each_root
def test_tree_log_prob_sums_to_one_over_all_trees_of_six_words(single_root):
    scores = scaled(rng_for("six"), 6, 2.0)
    trees, _ = decode_kbest(scores, 20_000, single_root=single_root)
    repeated = np.broadcast_to(scores, (len(trees), 7, 7))
    log_probs = tree_log_prob(repeated, trees, single_root=single_root)
    assert np.exp(log_probs).sum() == pytest.approx(1, rel=0, abs=1e-12)
    assert (np.diff(log_probs) <= 1e-12).all()


@pytest.mark.parametrize("family", sorted(set(FAMILIES) - {"forbidden"} - WILD))
def test_tree_log_prob_is_score_less_log_partition(family):
    rng = rng_for("less", family)
    for n, dtype in ((7, np.float32), (20, np.float64), (60, np.float32)):
        scores = FAMILIES[family](rng, n, dtype)
        heads = decode(scores)
        score, log_z = tree_score(scores, heads), log_partition(scores)
        expected = score - log_z
        got = tree_log_prob(scores, heads)
        assert got == pytest.approx(expected, rel=1e-12, abs=1e-12 * max(1, abs(score), abs(log_z)))
        assert got <= 1e-12


# No tree of the wanted kind


def test_tree_log_prob_of_several_roots_depends_on_the_kind():
    scores = scaled(rng_for("roots"), 3, 1.0)
    for heads in ([-1, 0, 0, 1], [-1, 0, 1, 0], [-1, 0, 0, 0]):
        assert tree_log_prob(scores, np.array(heads)) == -INF
        assert np.isfinite(tree_log_prob(scores, np.array(heads), single_root=False))


@each_root
@pytest.mark.parametrize(
    "heads",
    [[-1, 2, 1, 0], [-1, 2, 3, 1], [-1, 1, 0, 2], [-1, 0, 2, 1], [-1, 0, 3, 2], [-1, 3, 3, 3]],
)
def test_tree_log_prob_of_a_cycle_is_minus_infinity(heads, single_root):
    got = tree_log_prob(np.zeros((4, 4)), np.array(heads), single_root=single_root)
    assert isinstance(got, np.float64)
    assert got == -INF


@each_root
def test_tree_log_prob_of_every_head_vector_is_finite_for_trees_alone(single_root):
    scores = scaled(rng_for("vectors"), 3, 1.0)
    axes = np.meshgrid(*[np.arange(4)] * 3, indexing="ij")
    heads = np.stack([np.full(64, -1), *(axis.ravel() for axis in axes)], axis=1)
    repeated = np.broadcast_to(scores, (64, 4, 4))
    log_probs = tree_log_prob(repeated, heads, single_root=single_root)
    for row, got in zip(heads, log_probs, strict=True):
        assert np.isfinite(got) == reference.is_tree(row, single_root), row
        if not np.isfinite(got):
            assert got == -INF


@each_root
def test_tree_log_prob_of_a_forbidden_arc_is_minus_infinity(single_root):
    scores = np.zeros((4, 4))
    scores[2, 1] = -INF
    heads = np.array([-1, 0, 1, 1])
    assert tree_log_prob(scores, heads, single_root=single_root) == -INF
    allowed = np.ones((4, 4), dtype=bool)
    assert np.isfinite(
        tree_log_prob(np.zeros((4, 4)), heads, allowed=allowed, single_root=single_root)
    )
    allowed[3, 1] = False
    for junk in (0.0, np.nan, INF):
        scores = np.zeros((4, 4))
        scores[3, 1] = junk
        got = tree_log_prob(scores, heads, allowed=allowed, single_root=single_root)
        assert got == -INF


@pytest.mark.parametrize("name", sorted(without_tree()))
def test_tree_log_prob_refuses_sentences_without_a_tree(name):
    scores, also_free = without_tree()[name]
    heads = np.array([-1, 0, 1, 2])
    with pytest.raises(NoTreeError):
        tree_log_prob(scores, heads)
    if also_free:
        with pytest.raises(NoTreeError):
            tree_log_prob(scores, heads, single_root=False)


@each_root
def test_tree_log_prob_of_no_words_is_zero(single_root):
    got = tree_log_prob(np.full((1, 1), np.nan), np.array([-1]), single_root=single_root)
    assert isinstance(got, np.float64)
    assert got == 0


# Arguments


@each_root
@pytest.mark.parametrize("head", [4, -1, -2, 100, 2**40])
def test_tree_log_prob_heads_out_of_range_are_refused(head, single_root):
    heads = np.array([[-1, 0, 1, 2]] * 3)
    heads[1, 2] = head
    with pytest.raises(ValueError, match=r"sentence 1\b"):
        tree_log_prob(np.zeros((3, 4, 4)), heads, single_root=single_root)
    with pytest.raises(ValueError, match=r"head"):
        tree_log_prob(np.zeros((4, 4)), heads[1], single_root=single_root)


def test_tree_log_prob_heads_past_the_length_are_out_of_range():
    scores = np.zeros((1, 6, 6))
    heads = np.array([[-1, 0, 4, 2, 0, 0]])
    assert np.isfinite(tree_log_prob(scores, heads, np.array([5]), single_root=False)).all()
    with pytest.raises(ValueError, match=r"sentence 0\b"):
        tree_log_prob(scores, heads, np.array([3]))


def test_tree_log_prob_ignores_index_zero_and_padding_of_heads():
    scores = np.full((1, 6, 6), np.nan)
    scores[0, :4, :4] = scaled(rng_for("padding"), 3, 1.0)
    expected = tree_log_prob(scores[0, :4, :4], np.array([-1, 2, 0, 1]))
    for junk in (-1, 0, 3, 77):
        heads = np.array([[junk, 2, 0, 1, junk, junk]])
        assert tree_log_prob(scores, heads, np.array([3])).tolist() == [expected]


@pytest.mark.parametrize("shape", [(3,), (5,), (1, 4), (4, 4), (0,)])
def test_tree_log_prob_heads_of_wrong_shape_are_refused(shape):
    with pytest.raises(ValueError, match=r"shape"):
        tree_log_prob(np.zeros((4, 4)), np.zeros(shape, dtype=int))


@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 5), (2, 3)])
def test_tree_log_prob_heads_of_wrong_shape_for_a_batch_are_refused(shape):
    with pytest.raises(ValueError, match=r"shape"):
        tree_log_prob(np.zeros((2, 4, 4)), np.zeros(shape, dtype=int))


@pytest.mark.parametrize("kind", [np.float64, np.bool_, object])
def test_tree_log_prob_heads_must_be_integers(kind):
    with pytest.raises(TypeError, match=r"heads"):
        tree_log_prob(np.zeros((4, 4)), np.array([1, 0, 1, 1]).astype(kind))


@pytest.mark.parametrize("kind", [np.int8, np.int16, np.int32, np.int64, np.uint8])
def test_tree_log_prob_heads_of_any_integer_dtype(kind):
    scores = scaled(rng_for("kinds"), 3, 1.0)
    heads = np.array([-1, 2, 0, 1])
    expected = tree_log_prob(scores, heads)
    assert tree_log_prob(scores, np.abs(heads).astype(kind)) == expected


def test_tree_log_prob_heads_are_not_changed_and_may_lie_anywhere():
    matrices = [scaled(rng_for("layouts", i), i % 7, 1.0) for i in range(20)]
    scores, lengths = pad_batch(matrices, np.nan)
    heads = decode(scores, lengths)
    before = heads.tobytes()
    expected = tree_log_prob(scores, heads, lengths)
    spread = np.repeat(np.repeat(heads, 2, axis=1), 2, axis=0)[::2, ::2]
    spread.flags.writeable = False
    for other in (np.asfortranarray(heads), spread, heads[:, ::-1].copy()[:, ::-1]):
        assert tree_log_prob(scores, other, lengths).tolist() == expected.tolist()
    assert heads.tobytes() == before
