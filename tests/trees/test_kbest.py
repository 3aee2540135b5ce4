"""`decode_kbest` of more words, against Lawler's partition and its own structure.

For few words, see the grid in test_grid.py.
"""

import numpy as np
import pytest
import reference
from checks import check_kbest, check_structure
from strategies import FAMILIES, each_family, each_kind, each_root, rng_for

from spacy_rootmind import TreeDistribution, decode_kbest, sample_trees

INF = np.inf


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


@pytest.mark.one_each("family", "projective")
@each_family
@each_kind
def test_decode_kbest_matches_partition(family, options):
    rng = rng_for("partition", family, options)
    for n, k, dtype in ((7, 20, np.float64), (10, 12, np.float32)):
        scores = FAMILIES[family](rng, n, dtype)
        expected = reference.k_best_partitioned(scores, k, **options)
        check_kbest(scores, k, expected, family, **options)


# Larger sentences


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


def test_samples_without_replacement_end_with_the_last_tree():
    """A sentence of two words has two trees, one of one word has one."""
    scores, lengths = np.zeros((3, 3, 3)), np.array([2, 1, 0])
    _, log_probs = sample_trees(scores, 5, lengths=lengths, replace=False, seed=1)
    assert (log_probs > -np.inf).sum(axis=1).tolist() == [2, 1, 1]
    assert len(sample_trees(scores[0], 5, replace=False, seed=1).heads) == 2
    assert (TreeDistribution(scores, lengths=lengths).sample(5, seed=1).scores > -np.inf).all()
