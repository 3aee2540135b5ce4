"""`tree_score`, `is_tree` and `is_projective`, against their definitions."""

import itertools
import math

import numpy as np
import pytest
import reference
from strategies import each_root, mixed_batch, pad_batch

from spacy_rootmind import decode, is_projective, is_tree, tree_score

NAN, INF = np.nan, np.inf
BIG = 2**24


# tree_score


@pytest.mark.parametrize("fill", [-1, 0, 99, -7])
def test_tree_score_sums_the_arcs_and_ignores_padding(fill):
    matrices = mixed_batch(9, 30, 8, np.float64)
    trees = [decode(scores) for scores in matrices]
    scores, lengths = pad_batch(matrices, NAN, extra=1)
    heads = np.full(scores.shape[:2], fill)
    for row, tree in zip(heads, trees, strict=True):
        row[: len(tree)] = tree
    totals = tree_score(scores, heads, lengths=lengths)
    assert (totals.dtype, totals.shape) == (np.float64, (len(trees),))
    for total, one, tree in zip(totals, matrices, trees, strict=True):
        arcs = reference.arc_scores(one, tree)
        bound = len(arcs) * reference.EPS * math.fsum(abs(arc) for arc in arcs)
        assert total == pytest.approx(math.fsum(arcs), rel=0, abs=bound)
        # To the last digit.
        assert total == tree_score(one, tree)


@pytest.mark.parametrize(
    ("scores", "heads", "total"),
    [
        ([[NAN, NAN, NAN], [1, NAN, 2], [4, 8, NAN]], [-1, 2, 0], 6),
        ([[NAN, NAN, NAN], [1, NAN, 2], [4, -INF, NAN]], [-1, 0, 1], -INF),
        # No trees: a cycle, and two roots.
        ([[0, 1, 2], [3, 4, 5], [6, 7, 8]], [-1, 2, 1], 12),
        ([[0, 1, 2], [3, 4, 5], [6, 7, 8]], [-1, 0, 0], 9),
        # Beyond float32.
        ([[0] * 4, [BIG] * 4, [1] * 4, [1] * 4], [-1, 0, 1, 1], 2**24 + 2),
        ([[NAN]], [-1], 0),
    ],
)
def test_tree_score_of_one_sentence(scores, heads, total):
    found = tree_score(np.array(scores, dtype=np.float32), np.array(heads))
    assert (np.ndim(found), found) == (0, total)


# is_tree


@each_root
@pytest.mark.parametrize("n", [0, 1, 2, 3, 4])
def test_is_tree_agrees_with_definition_on_all_heads(n, single_root):
    values = range(-2, n + 2)
    heads = np.array([(-1, *rest) for rest in itertools.product(values, repeat=n)], dtype=np.int32)
    expected = [reference.is_tree(row, single_root) for row in heads]
    found = is_tree(heads, single_root=single_root)
    assert (found.dtype, found.shape) == (np.bool_, (len(heads),))
    assert found.tolist() == expected
    assert sum(expected) == reference.count_trees(n, single_root)


def test_is_tree_long_chain_and_long_cycle():
    n = 100_000
    chain = np.arange(-1, n, dtype=np.int32)
    assert is_tree(chain)
    assert is_tree(np.concatenate([[-1], np.arange(2, n + 1), [0]]))
    assert not is_tree(np.concatenate([[-1], np.arange(2, n + 1), [1]]))
    chain[n // 2] = n
    assert not is_tree(chain)


@pytest.mark.parametrize(
    ("heads", "options", "expected"),
    [
        ([-1, 2, 0], {}, True),
        ([-1, 0, 0], {}, False),
        ([0], {}, False),
        ([0, 0, 1], {}, False),
        ([1, 0, 1], {}, False),
        # Heads that would wrap in a narrower type.
        *(([-1, 0, head], {"single_root": False}, False) for head in (2**32, 2**32 + 1, 2**63 - 1)),
        ([-1 - 2**32, 0, 1], {}, False),
        ([-1, 0, 3, 1], {"lengths": 2}, False),
    ],
)
def test_is_tree_of_one_sentence(heads, options, expected):
    assert is_tree(np.array(heads), **options) is expected


# is_projective


@each_root
@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 6])
def test_is_projective_agrees_with_crossing_arcs_on_all_trees(n, single_root):
    trees = reference.enumerate_trees(n, single_root)
    found = is_projective(trees)
    assert (found.dtype, found.shape) == (np.bool_, (len(trees),))
    assert found.tolist() == [reference.is_projective(tree) for tree in trees]


def test_is_projective_long_chains():
    n = 5000
    rightward = np.arange(-1, n, dtype=np.int32)
    leftward = np.concatenate([[-1], np.arange(2, n + 1), [0]])
    assert is_projective(rightward)
    assert is_projective(leftward)
    rightward[n], rightward[n - 1] = n - 2, n - 3
    assert not is_projective(rightward)
