"""Results depend on no padding, layout or call before; inputs stay; wrong scores are refused.

That they do not depend on the batch is tested in test_same_input.py.
"""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from array_functions import CALLS, gold_heads, matrices
from reference import FloatArray, IntArray
from strategies import LAYOUTS, each_dtype, fixed_batch, pad_batch

from spacy_rootmind import (
    NoTreeError,
    TreeDistribution,
    head_selection,
    perceptron,
    tree_crf,
)

NAN, INF = np.nan, np.inf

each_call = pytest.mark.parametrize("name", sorted(CALLS))
each_call_over_trees = pytest.mark.parametrize(
    "name", sorted(name for name in CALLS if "head_selection" not in name)
)
each_junk = pytest.mark.parametrize("junk", [NAN, INF, -INF, 1e30, -1e30, 0.0])


def batch(name: str, dtype: type[np.floating] = np.float64) -> tuple[FloatArray, IntArray]:
    """Return padded sentences of 0 to 8 words on which a call succeeds, and lengths."""
    return pad_batch(matrices(name, dtype, 40, 8), NAN, extra=1)


def outside(scores: FloatArray, lengths: IntArray) -> np.ndarray:
    """Mark what nobody may read: row 0, the diagonal, and the padding."""
    index = np.arange(scores.shape[-1])
    padding = index > lengths[:, None]
    nothing = (index[:, None] == 0) | (index[:, None] == index)
    return nothing | padding[:, :, None] | padding[:, None, :]


def assert_same(found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    """Assert the same types, shapes and bits."""
    for one, right in zip(found, expected, strict=True):
        assert (one.dtype, one.shape) == (right.dtype, right.shape)
        assert one.tobytes() == right.tobytes()


@each_dtype
def test_sums_are_float64(dtype):
    scores = fixed_batch(3, 5, dtype, family="gaussian")
    heads = gold_heads(scores)
    trees, alone = TreeDistribution(scores), TreeDistribution(scores[0])
    for found in (trees.log_partition, trees.entropy(), trees.log_prob(heads)):
        assert isinstance(found, np.ndarray)
        assert (found.dtype, found.shape) == (np.float64, (3,))
    for found in (alone.log_partition, alone.entropy(), alone.log_prob(heads[0])):
        assert isinstance(found, np.float64)
    for loss in (tree_crf, perceptron, head_selection):
        assert isinstance(loss(scores[0], heads[0])[0], np.float64)
    assert trees.marginals.dtype == np.float64


# Scores


@pytest.mark.one_each("name")
@each_call
@each_dtype
def test_scores_may_have_any_layout(name, dtype):
    scores, lengths = batch(name, dtype)
    expected = CALLS[name](scores, lengths=lengths)
    n = lengths.max()
    one = scores[lengths.argmax(), : n + 1, : n + 1]
    alone = CALLS[name](one.copy())
    for layout in LAYOUTS.values():
        for num_threads in (1, 2):
            other = layout(scores)
            assert_same(CALLS[name](other, lengths=lengths, num_threads=num_threads), expected)
        assert_same(CALLS[name](layout(one)), alone)


@pytest.mark.one_each("name")
@each_call
@each_junk
def test_row_zero_diagonal_and_padding_mean_nothing(name, junk):
    scores, lengths = batch(name)
    expected = CALLS[name](scores, lengths=lengths)
    scores[outside(scores, lengths)] = junk
    assert_same(CALLS[name](scores, lengths=lengths), expected)
    for i in (0, 5, 8):
        n = int(lengths[i])
        padded, own = CALLS[name](scores[i], lengths=n), scores[i, : n + 1, : n + 1]
        for one, right in zip(padded, CALLS[name](own), strict=True):
            np.testing.assert_allclose(one[tuple(map(slice, right.shape))], right, atol=1e-14)


# Calls


@each_call
def test_inputs_are_left_alone_and_results_are_new(name):
    scores, lengths = batch(name)
    arrays = scores, lengths
    before = [array.tobytes() for array in arrays]
    for array in arrays:
        array.flags.writeable = False
    first = CALLS[name](scores, lengths=lengths)
    kept = [one.copy() for one in first]
    CALLS[name](scores[::-1].copy(), lengths=lengths[::-1])
    assert_same(first, kept)
    for one in first:
        # Arrays that a distribution keeps are read-only.
        assert one.flags.writeable or "first" in name
        if one.flags.writeable:
            one[...] = 7
        assert not any(np.shares_memory(one, array) for array in arrays)
    assert_same(CALLS[name](scores, lengths=lengths), kept)
    assert [array.tobytes() for array in arrays] == before


@each_call
def test_there_may_be_more_threads_than_sentences(name):
    for size in (0, 1, 2, 3):
        scores = fixed_batch(3, 6, family="uniform")[:size]
        assert_same(CALLS[name](scores, num_threads=8), CALLS[name](scores))
    assert_same(CALLS[name](scores[0], num_threads=8), CALLS[name](scores[0]))


@each_call
def test_batches_of_no_sentences_and_of_no_words(name):
    for lengths in (None, np.empty(0, dtype=np.int64)):
        nothing = CALLS[name](np.empty((0, 4, 4)), lengths=lengths)
        for one, some in zip(nothing, CALLS[name](np.zeros((2, 4, 4))), strict=True):
            assert (one.dtype, one.shape) == (some.dtype, (0, *some.shape[1:]))
    alone = CALLS[name](np.full((1, 1), NAN))
    for size, lengths in ((1, None), (4, np.zeros(3, dtype=np.int64))):
        scores = np.full((3, size, size), NAN)
        found = CALLS[name](scores, lengths=lengths)
        for whole, right in zip(found, alone, strict=True):
            for one in whole:
                np.testing.assert_array_equal(one[tuple(map(slice, right.shape))], right)


@each_call
def test_calls_from_many_threads_at_once(name):
    """Every other one fails."""
    scores, bad = fixed_batch(2, 8, family="uniform").repeat(8, axis=0), np.full((16, 9, 9), NAN)
    expected = CALLS[name](scores)
    together = threading.Barrier(4)

    def work(number: int) -> int:
        together.wait(timeout=60)
        failures = 0
        for i in range(8):
            try:
                found = CALLS[name](bad if number % 2 else scores, num_threads=1 + i % 2)
            except ValueError:
                failures += 1
            else:
                assert_same(found, expected)
        return failures

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [0, 8, 0, 8]


# Refused


@pytest.mark.one_each("name")
@each_call
@pytest.mark.parametrize("bad", [NAN, INF])
def test_bad_scores_are_named(name, bad):
    arcs = [(n, dep, head) for n in (1, 2, 4) for dep in range(1, n + 1) for head in range(n + 1)]
    for n, dep, head in [*arcs, (25, 25, 24), (25, 19, 23)]:
        if dep != head:
            scores, lengths = pad_batch([*fixed_batch(3, n, family="uniform")], NAN, extra=1)
            scores[[1, 2], dep, head] = bad
            place = f"sentence 1: the score of dep {dep}, head {head} is {bad}"
            with pytest.raises(ValueError, match=place) as error:
                CALLS[name](scores, lengths=lengths, num_threads=1 + dep % 2)
            assert not isinstance(error.value, NoTreeError)


@each_call_over_trees
def test_a_sentence_without_a_tree_is_named(name):
    scores = fixed_batch(20, 4, family="uniform")
    expected = CALLS[name](scores)
    broken = scores.copy()
    broken[[13, 16], 2] = -INF
    before = broken.tobytes()
    for num_threads in (1, 3):
        with pytest.raises(NoTreeError, match=r"sentence 13\b"):
            CALLS[name](broken, num_threads=num_threads)
        assert_same(CALLS[name](scores, num_threads=num_threads), expected)
    assert broken.tobytes() == before
