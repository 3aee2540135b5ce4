"""`decode_kbest` of more words, against Lawler's partition and its own structure.

For few words, see the grid in test_distribution.py.
"""

import numpy as np
import pytest
import reference
from checks import check_kbest, check_structure
from reference import FloatArray, IntArray
from strategies import (
    DTYPES,
    FAMILIES,
    MASKS,
    each_dtype,
    each_family,
    each_root,
    planted_optimum,
    rng_for,
)

from spacy_rootmind import TreeDistribution, decode, decode_kbest, is_tree, sample_trees

NAN, INF = np.nan, np.inf


def sorted_rows(trees: IntArray) -> list[list[int]]:
    """Return the trees as lists in lexicographic order."""
    return sorted(np.asarray(trees).tolist())


# All trees


@each_root
def test_decode_kbest_counts_down_in_binary(single_root):
    # Each word hangs from the one before it; from the third on, it may hang from word 1 at a cost.
    n = 40
    scores = np.full((n + 1, n + 1), -INF)
    for dep in range(1, n + 1):
        scores[dep, 1] = -(2.0**dep)
        scores[dep, dep - 1] = 0
    heads, totals = decode_kbest(scores, 1024, single_root=single_root)
    check_structure(scores, heads, totals, single_root)
    assert totals.tolist() == [-8.0 * i for i in range(1024)]


# Against Lawler's partition


@pytest.mark.one_each("family")
@each_root
@each_family
def test_decode_kbest_matches_partition(family, single_root):
    rng = rng_for("partition", family, single_root)
    for n, k, dtype in ((7, 20, np.float64), (10, 12, np.float32)):
        scores = FAMILIES[family](rng, n, dtype)
        expected = reference.k_best_partitioned(scores, k, single_root)
        check_kbest(scores, k, expected, family, single_root=single_root)


# Near ties and finite masks


@each_root
@each_dtype
def test_decode_kbest_tells_the_next_number_apart(dtype, single_root):
    # All trees but one lack one unit in the last place, or more.
    rng = rng_for("next number", dtype.__name__)
    for n in (3, 4, 5, 8) * 5:
        best = reference.random_heads(rng, n, True)
        below = np.nextafter(dtype(1), dtype(0))
        scores = np.full((n + 1, n + 1), below)
        scores[np.arange(1, n + 1), best[1:]] = 1
        heads, totals = decode_kbest(scores, 2, single_root=single_root)
        check_structure(scores, heads, totals, single_root)
        np.testing.assert_array_equal(heads[0], best)
        if dtype is np.float32:  # else the sums are rounded to one number
            assert np.count_nonzero(heads[1] != best) == 1


@each_root
@each_dtype
def test_decode_kbest_lists_trees_without_masks_first(dtype, single_root):
    rng = rng_for("masks", dtype.__name__, single_root)
    checked = 0
    for _ in range(30):
        scores = FAMILIES["soft_masks"](rng, 4, dtype)
        hard = scores.copy()
        hard[scores <= MASKS[dtype] / 2] = -INF
        expected = reference.k_best_enumerated(hard, 1000, single_root)
        if not len(expected):
            continue
        heads, totals = decode_kbest(scores, 1000, single_root=single_root)
        check_structure(scores, heads, totals, single_root)
        assert sorted_rows(heads[: len(expected)]) == sorted_rows(expected)
        for tree, right in zip(heads, expected, strict=False):
            gap = abs(reference.score_gap(hard, right, tree))
            assert gap <= (
                0.0 if reference.sums_are_exact(hard) else reference.tolerance(hard, right)
            )
        masked = (scores <= MASKS[dtype] / 2)[np.arange(1, 5), heads[:, 1:]].sum(axis=1)
        assert (np.diff(masked) >= 0).all()
        checked += 1
    assert checked >= 15


# Larger sentences


OF_SIXTY_WORDS = ("gaussian", "zeros", "nested_cycles", "forbidden_around_tree")


@pytest.mark.one_each("family", "sizes")
@each_root
@each_dtype
@pytest.mark.parametrize(
    ("family", "sizes", "k"),
    [
        *((family, (60,), 200) for family in OF_SIXTY_WORDS),
        *(
            (one, (3, 10, 25), 60)
            for one in FAMILIES
            if one not in ("forbidden", "soft_masks", "extreme")
        ),
    ],
)
def test_decode_kbest_leaves_no_better_neighbour_out(family, sizes, k, dtype, single_root):
    for n in sizes:
        scores = FAMILIES[family](rng_for("neighbours", family, n), n, dtype)
        heads, totals = decode_kbest(scores, k, single_root=single_root)
        assert n < 60 or len(heads) == k
        check_structure(scores, heads, totals, single_root)
        check_neighbours(scores, heads, totals, single_root)


def check_neighbours(
    scores: FloatArray, heads: IntArray, totals: FloatArray, single_root: bool
) -> None:
    """Assert that the first is best, and that trees one arc away from the first ten are listed.

    Trees that are no better than the last need not be.
    """
    best = decode(scores, single_root=single_root)
    gap = abs(reference.score_gap(scores, best, heads[0]))
    assert gap <= (0.0 if reference.sums_are_exact(scores) else reference.tolerance(scores, best))
    listed = {tuple(tree) for tree in heads.tolist()}
    n = len(scores) - 1
    deps, arcs = (grid.ravel() for grid in np.mgrid[1 : n + 1, 0 : n + 1])
    for tree in heads[:10]:
        near = np.repeat(tree[None], len(deps), axis=0)
        near[np.arange(len(deps)), deps] = arcs
        near = near[is_tree(near, single_root=single_root)]
        sums = reference.clean(scores)[np.arange(1, n + 1), near[:, 1:]].sum(axis=1)
        slack = 0.0
        if not reference.sums_are_exact(scores):
            slack = reference.tolerance(scores, heads[0])
        for other in near[sums > totals[-1] + slack].tolist():
            assert tuple(other) in listed


@each_root
@pytest.mark.parametrize("n", [1, 2, 3, 7, 30, 100])
def test_decode_kbest_puts_the_planted_optimum_first(n, single_root):
    rng = rng_for("planted kbest", n, single_root)
    for dtype in DTYPES:
        scores, planted = planted_optimum(rng, n, dtype, single_root)
        heads, totals = decode_kbest(scores, 12, single_root=single_root)
        check_structure(scores, heads, totals, single_root)
        np.testing.assert_array_equal(heads[0], planted)
        assert (totals[1:] <= totals[0] - 1).all()


@each_root
@pytest.mark.parametrize("huge", [1e17, 1e32, 1e200])
def test_decode_kbest_tells_trees_apart_that_lack_an_enormous_root_arc(huge, single_root):
    for n in (2, 3, 4):
        for trial in range(30):
            rng = rng_for("enormous", n, trial)
            scores = rng.integers(-5, 6, size=(n + 1, n + 1)).astype(float)
            # Within a cycle such an arc would take their digits from the others.
            scores[int(rng.integers(1, n + 1)), 0] = huge
            k = int(rng.integers(2, reference.count_trees(n, single_root) + 1))
            _, totals = decode_kbest(scores, k, single_root=single_root)
            every = np.sort(reference.enumerate_scores(scores, single_root))[::-1]
            np.testing.assert_array_equal(totals, every[:k])


# Batches


@pytest.mark.parametrize("projective", [True, False])
@each_root
def test_k_best_of_a_distribution_have_their_log_probabilities(single_root, projective):
    kind = {"single_root": single_root, "projective": projective}
    rng = rng_for("k best of a batch", single_root, projective)
    lengths = np.array([4, 0, 1, 3, 2])
    scores = rng.normal(size=(5, 5, 5))
    allowed = rng.random(scores.shape) < 0.9
    allowed[:, :, 0] = allowed[:, np.arange(1, 5), np.arange(4)] = True
    found = decode_kbest(scores, 20, lengths=lengths, allowed=allowed, **kind)
    trees = TreeDistribution(scores, lengths=lengths, allowed=allowed, **kind)
    heads, log_probs = trees.k_best(20)
    np.testing.assert_array_equal(heads, found.heads)
    for i, (n, count) in enumerate(zip(lengths, found.counts, strict=True)):
        own = np.s_[i, : n + 1, : n + 1]
        one = TreeDistribution(scores[own], allowed=allowed[own], **kind)
        alone = one.k_best(20)
        assert count == alone.counts == len(alone.heads)
        np.testing.assert_array_equal(log_probs[i, :count], one.log_prob(alone.heads))
        if count < 20:
            assert np.exp(log_probs[i, :count]).sum() == pytest.approx(1, rel=1e-13)
    # Rows without a tree are no error. Rows of no words are the empty tree.
    again = trees.log_prob(heads)
    np.testing.assert_array_equal(again[lengths > 0], log_probs[lengths > 0])
    assert (again[lengths == 0] == 0).all()
    heads[3, -1, 1] = 0
    with pytest.raises(ValueError, match="sentence 3: word 2 has head -1, expected 0 to 3"):
        trees.log_prob(heads)


def test_counts_of_samples_without_replacement():
    """A sentence of two words has two trees, one of one word has one."""
    scores, lengths = np.zeros((3, 3, 3)), np.array([2, 1, 0])
    assert sample_trees(scores, 5, lengths=lengths, replace=False, seed=1).counts.tolist() == [
        2,
        1,
        1,
    ]
    assert sample_trees(scores[0], 5, replace=False, seed=1).counts == 2
    assert TreeDistribution(scores, lengths=lengths).sample(5, seed=1).counts.tolist() == [5, 5, 5]
