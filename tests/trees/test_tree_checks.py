"""`tree_score`, `is_tree` and `is_projective`, against their definitions."""

import itertools
import math

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import IntArray
from strategies import FAMILIES, PROPERTY, each_dtype, each_root, mixed_batch, pad_batch, rng_for

from spacy_rootmind import decode, is_projective, is_tree, tree_score

NAN, INF = np.nan, np.inf


NO_TREES = {
    "self_head": [-1, 0, 2],
    "cycle_of_two": [-1, 0, 3, 2],
    "cycle_of_all": [-1, 2, 3, 1],
    "root_with_head": [0, 0, 1],
    "root_below_word": [1, 0, 1],
    "missing_head": [-1, 0, -1],
    "head_too_large": [-1, 0, 3],
    "head_too_small": [-1, 0, -2],
    "head_far_too_large": [-1, 0, 2**31 - 1],
    "no_root": [-1, 2, 1],
}


def heads_of(*values: int) -> IntArray:
    """Return heads as int32."""
    return np.array(values, dtype=np.int32)


def padded(trees: list[IntArray], fill: int = -1, extra: int = 1) -> tuple[IntArray, IntArray]:
    """Return heads (B, N+1) padded with `fill`, and lengths (B,)."""
    lengths = np.array([len(tree) - 1 for tree in trees])
    heads = np.full((len(trees), lengths.max() + 1 + extra), fill, dtype=np.int32)
    for row, tree in zip(heads, trees, strict=True):
        row[: len(tree)] = tree
    return heads, lengths


def some_trees(single_root: bool) -> list[IntArray]:
    """Return random trees of 0 to 12 words."""
    rng = rng_for("some trees", single_root)
    return [reference.random_heads(rng, n, single_root) for n in (5, 0, 12, 1, 2, 3, 12, 7)]


# tree_score


@each_dtype
def test_tree_score_sums_the_arcs(dtype):
    rng = rng_for("sums", dtype.__name__)
    for n in (1, 2, 5, 40):
        scores = FAMILIES["gaussian"](rng, n, dtype)
        heads = reference.random_heads(rng, n, False)
        arcs = reference.arc_scores(scores, heads)
        bound = n * reference.EPS * math.fsum(abs(arc) for arc in arcs)
        assert tree_score(scores, heads) == pytest.approx(math.fsum(arcs), rel=0, abs=bound)


def test_tree_score_of_one_tree_is_a_float64():
    scores = np.array([[NAN, NAN, NAN], [1, NAN, 2], [4, 8, NAN]], dtype=np.float32)
    total = tree_score(scores, heads_of(-1, 2, 0))
    assert isinstance(total, np.float64 | float)
    assert np.ndim(total) == 0
    assert total == 6


def test_tree_score_of_batch_is_a_float64_array():
    scores = np.zeros((3, 4, 4), dtype=np.float32)
    scores[:, 1:] = np.array([1, 2, 3])[:, None, None]
    totals = tree_score(scores, np.array([[-1, 0, 1, 2]] * 3))
    assert (totals.dtype, totals.shape) == (np.float64, (3,))
    assert totals.tolist() == [3, 6, 9]


def test_tree_score_adds_in_double_precision():
    scores = np.zeros((4, 4), dtype=np.float32)
    scores[1, 0], scores[2, 1], scores[3, 1] = 2**24, 1, 1
    assert tree_score(scores, heads_of(-1, 0, 1, 1)) == 2**24 + 2


def test_tree_score_forbidden_arc_gives_minus_infinity():
    scores = np.zeros((3, 3))
    scores[2, 1] = -INF
    assert tree_score(scores, heads_of(-1, 0, 1)) == -INF
    assert tree_score(scores, heads_of(-1, 2, 0)) == 0


def test_tree_score_heads_need_not_be_a_tree():
    scores = np.arange(9.0).reshape(3, 3)
    assert tree_score(scores, heads_of(-1, 2, 1)) == 5 + 7
    assert tree_score(scores, heads_of(-1, 0, 0)) == 3 + 6


def test_tree_score_empty_sentence_is_zero():
    assert tree_score(np.full((1, 1), NAN), heads_of(-1)) == 0
    totals = tree_score(np.full((2, 3, 3), NAN), np.full((2, 3), -1), lengths=np.array([0, 0]))
    assert totals.tolist() == [0, 0]


@pytest.mark.parametrize("fill", [-1, 0, 99, -7])
def test_tree_score_ignores_padding(fill):
    matrices = mixed_batch(9, 30, 8, np.float64)
    trees = [decode(scores) for scores in matrices]
    scores, lengths = pad_batch(matrices, NAN, extra=1)
    heads, _ = padded(trees, fill)
    totals = tree_score(scores, heads, lengths=lengths)
    for total, one, tree in zip(totals, matrices, trees, strict=True):
        arcs = reference.arc_scores(one, tree)
        bound = len(arcs) * reference.EPS * math.fsum(abs(arc) for arc in arcs)
        assert total == pytest.approx(math.fsum(arcs), rel=0, abs=bound)


def test_tree_score_does_not_depend_on_the_rest_of_the_batch():
    matrices = mixed_batch(9, 30, 20, np.float64)
    trees = [decode(scores) for scores in matrices]
    scores, lengths = pad_batch(matrices, NAN, extra=1)
    totals = tree_score(scores, padded(trees)[0], lengths=lengths)
    alone = [tree_score(one, tree) for one, tree in zip(matrices, trees, strict=True)]
    assert totals.tolist() == alone  # to the last digit


def test_tree_score_takes_one_length_for_one_tree():
    scores = np.full((5, 5), NAN)
    scores[:3, :3] = 2
    assert tree_score(scores, heads_of(-1, 0, 1, -1, -1), lengths=2) == 4


@each_dtype
def test_tree_score_takes_any_layout_and_changes_nothing(dtype):
    scores = FAMILIES["integer_ties"](rng_for("layout"), 6, dtype)
    heads = reference.random_heads(rng_for("layout"), 6, True)
    expected = reference.tree_score(scores, heads)
    before = scores.tobytes(), heads.tobytes()
    for other in (np.asfortranarray(scores), np.flip(np.flip(scores).copy()), scores):
        assert tree_score(other, heads) == expected
    assert (scores.tobytes(), heads.tobytes()) == before


@each_root
def test_tree_score_ranks_trees_like_enumeration(single_root):
    scores = FAMILIES["integer_ties"](rng_for("ranks"), 5, np.float32)
    trees = reference.enumerate_trees(5, single_root)
    totals = tree_score(np.broadcast_to(scores, (len(trees), 6, 6)), trees)
    np.testing.assert_array_equal(totals, reference.enumerate_scores(scores, single_root))


# is_tree


@each_root
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_is_tree_agrees_with_definition_on_all_heads(n, single_root):
    values = range(-2, n + 2)
    heads = np.array([(-1, *rest) for rest in itertools.product(values, repeat=n)], dtype=np.int32)
    expected = [reference.is_tree(row, single_root) for row in heads]
    found = is_tree(heads, single_root=single_root)
    assert (found.dtype, found.shape) == (np.bool_, (len(heads),))
    assert found.tolist() == expected
    assert sum(expected) == reference.count_trees(n, single_root)


@each_root
@pytest.mark.parametrize("case", sorted(NO_TREES))
def test_is_tree_is_false_for_what_is_no_tree(case, single_root):
    result = is_tree(np.array(NO_TREES[case], dtype=np.int32), single_root=single_root)
    assert isinstance(result, bool | np.bool_)
    assert not result


def test_is_tree_result_of_one_tree_is_a_bool():
    result = is_tree(heads_of(-1, 2, 0))
    assert isinstance(result, bool | np.bool_)
    assert result


def test_is_tree_single_root_is_the_default():
    assert not is_tree(heads_of(-1, 0, 0))
    assert is_tree(heads_of(-1, 0, 0), single_root=False)


@pytest.mark.parametrize("head", [2**32, 2**32 + 1, -(2**32), 2**63 - 1])
def test_is_tree_wide_head_does_not_wrap(head):
    assert not is_tree(np.array([-1, 0, head]), single_root=False)
    assert not is_tree(np.array([-1 - 2**32, 0, 1]))


@pytest.mark.parametrize("kind", [np.uint8, np.uint32, np.uint64])
def test_is_tree_unsigned_heads_never_start_with_minus_one(kind):
    heads = np.zeros(3, dtype=kind)
    heads[0] = np.iinfo(kind).max
    heads[2] = 1
    assert not is_tree(heads)


def test_is_tree_empty_sentence_is_a_tree():
    assert is_tree(heads_of(-1))
    assert is_tree(heads_of(-1), single_root=False)
    assert not is_tree(heads_of(0))


@each_root
@pytest.mark.parametrize("fill", [-1, 0, 1, 99])
def test_is_tree_ignores_padding(fill, single_root):
    heads, lengths = padded(some_trees(single_root), fill, extra=2)
    assert is_tree(heads, lengths=lengths, single_root=single_root).all()


def test_is_tree_padding_without_lengths_is_no_tree():
    heads, _ = padded(some_trees(True), extra=1)
    assert not is_tree(heads, single_root=False).any()


def test_is_tree_head_in_padding_is_no_tree():
    assert not is_tree(np.array([[-1, 0, 3, 1]]), lengths=np.array([2]))[0]
    assert not is_tree(heads_of(-1, 0, 3, 1), lengths=2)
    assert is_tree(heads_of(-1, 0, 1, 7), lengths=2)


def test_is_tree_long_chain_and_long_cycle():
    n = 100_000
    chain = np.arange(-1, n, dtype=np.int32)
    assert is_tree(chain)
    assert is_tree(np.concatenate([[-1], np.arange(2, n + 1), [0]]))
    assert not is_tree(np.concatenate([[-1], np.arange(2, n + 1), [1]]))
    chain[n // 2] = n
    assert not is_tree(chain)


@PROPERTY
@given(st.integers(0, 8), st.booleans(), st.integers(0, 2**32 - 1), st.data())
def test_is_tree_agrees_with_definition_after_one_change(n, single_root, seed, data):
    heads = reference.random_heads(np.random.default_rng(seed), n, single_root)
    heads[data.draw(st.integers(0, n))] = data.draw(st.integers(-2, n + 1))
    assert is_tree(heads, single_root=single_root) == reference.is_tree(heads, single_root)


# is_projective


@each_root
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6])
def test_is_projective_agrees_with_crossing_arcs_on_all_trees(n, single_root):
    trees = reference.enumerate_trees(n, single_root)
    found = is_projective(trees)
    assert (found.dtype, found.shape) == (np.bool_, (len(trees),))
    assert found.tolist() == [reference.is_projective(tree) for tree in trees]


@settings(PROPERTY, max_examples=100)
@given(st.integers(0, 40), st.booleans(), st.integers(0, 2**32 - 1))
def test_is_projective_accepts_random_projective_trees(n, single_root, seed):
    heads = reference.random_projective_heads(np.random.default_rng(seed), n, single_root)
    assert is_projective(heads)


@settings(PROPERTY, max_examples=100)
@given(st.integers(2, 40), st.booleans(), st.integers(0, 2**32 - 1), st.data())
def test_is_projective_agrees_after_moving_one_word(n, single_root, seed, data):
    heads = reference.random_projective_heads(np.random.default_rng(seed), n, single_root)
    heads[data.draw(st.integers(1, n))] = data.draw(st.integers(0, n))
    if reference.is_tree(heads, False):
        assert is_projective(heads) == reference.is_projective(heads)
    else:
        with pytest.raises(ValueError, match=r"tree"):
            is_projective(heads)


def test_is_projective_agrees_on_random_trees():
    rng = rng_for("projective")
    for n in (6, 7, 8, 30, 100):
        heads = reference.random_heads(rng, n, n % 2 == 0)
        assert is_projective(heads) == reference.is_projective(heads)


def test_is_projective_empty_sentence_is_projective():
    assert is_projective(heads_of(-1)) is True


@pytest.mark.parametrize("case", sorted(NO_TREES))
def test_is_projective_refuses_what_is_no_tree(case):
    with pytest.raises(ValueError, match=r"tree"):
        is_projective(np.array(NO_TREES[case], dtype=np.int32))


def test_is_projective_refuses_batch_with_one_that_is_no_tree():
    heads = np.array([[-1, 0, 1, 2]] * 30)
    heads[27] = [-1, 0, 3, 2]
    with pytest.raises(ValueError, match=r"\b27\b"):
        is_projective(heads)


@pytest.mark.parametrize("fill", [-1, 0, 1, 99])
def test_is_projective_ignores_padding(fill):
    trees = some_trees(False)
    heads, lengths = padded(trees, fill, extra=2)
    expected = [reference.is_projective(tree) for tree in trees]
    assert is_projective(heads, lengths=lengths).tolist() == expected
    assert is_projective(heads[2], lengths=int(lengths[2])) == expected[2]


def test_is_projective_padding_without_lengths_is_refused():
    heads, _ = padded(some_trees(True), extra=1)
    with pytest.raises(ValueError, match=r"tree"):
        is_projective(heads)


@pytest.mark.parametrize("n", [5000])
def test_is_projective_long_chains(n):
    rightward = np.arange(-1, n, dtype=np.int32)
    leftward = np.concatenate([[-1], np.arange(2, n + 1), [0]])
    assert is_projective(rightward)
    assert is_projective(leftward)
    rightward[n], rightward[n - 1] = n - 2, n - 3
    assert not is_projective(rightward)
