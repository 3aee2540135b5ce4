"""What distributions over trees accept and refuse, and what must not change their results."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from checks import numbers_in
from numpy.typing import NDArray
from probability_cases import scaled, tame_batch
from reference import FloatArray, random_heads
from strategies import (
    LAYOUTS,
    each_dtype,
    each_root,
    fixed_batch,
    fixed_matrix,
    pad_batch,
    rng_for,
)

from spacy_rootmind import (
    NoTreeError,
    arc_marginals,
    decode,
    entropy,
    log_partition,
    tree_log_prob,
)

NAN, INF = np.nan, np.inf


def chain_log_prob(scores: FloatArray, **options: object) -> object:
    """Call `tree_log_prob` on the chain, where every word hangs from the one before it."""
    shape = scores.shape[:-1] if getattr(scores, "ndim", 0) > 1 else (2,)
    heads = np.broadcast_to(np.arange(-1, shape[-1] - 1), shape)
    return tree_log_prob(scores, heads, **options)


FUNCTIONS = {
    "log_partition": log_partition,
    "arc_marginals": arc_marginals,
    "entropy": entropy,
    "tree_log_prob": chain_log_prob,
}
MASK_LAYOUTS = {name: layout for name, layout in LAYOUTS.items() if name != "unaligned"}

each_function = pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS.keys())
each_junk = pytest.mark.parametrize("junk", [NAN, INF, -INF, 1e30, -1e30, 0.0])


def assert_identical(got: object, expected: object) -> None:
    """Assert the same type, shape and bits."""
    assert type(got) is type(expected)
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    assert got.tobytes() == expected.tobytes(), (got, expected)


def assert_row(row: object, one: object) -> None:
    """Assert that a sentence's part of a batched result is its own result, bit for bit."""
    if np.ndim(row) == 2:
        size = len(one)
        assert row[:size, :size].tobytes() == one.tobytes()
        outside = row.copy()
        outside[:size, :size] = 0
        assert not outside.any()
    else:
        assert row.tobytes() == one.tobytes()


# Results


@each_dtype
@each_root
def test_probabilities_of_one_sentence_are_float64(dtype, single_root):
    scores = fixed_matrix(5, dtype)
    for name in ("log_partition", "entropy", "tree_log_prob"):
        got = FUNCTIONS[name](scores, single_root=single_root)
        assert isinstance(got, np.float64)
    P = arc_marginals(scores, single_root=single_root)
    assert isinstance(P, np.ndarray)
    assert (P.dtype, P.shape) == (np.float64, (6, 6))


@each_dtype
@each_root
def test_probabilities_of_a_batch_are_float64_arrays(dtype, single_root):
    scores = fixed_batch(3, 5, dtype, family="gaussian")
    for name in ("log_partition", "entropy", "tree_log_prob"):
        got = FUNCTIONS[name](scores, single_root=single_root)
        assert isinstance(got, np.ndarray)
        assert (got.dtype, got.shape) == (np.float64, (3,))
    P = arc_marginals(scores, single_root=single_root)
    assert (P.dtype, P.shape) == (np.float64, (3, 6, 6))


@each_function
def test_probabilities_of_an_empty_batch_are_none(function):
    for lengths in (None, np.empty(0, dtype=np.int64)):
        got = function(np.empty((0, 4, 4)), lengths=lengths)
        assert got.shape == ((0, 4, 4) if function is arc_marginals else (0,))
        assert got.dtype == np.float64


@each_function
def test_probabilities_of_empty_sentences_are_zero(function):
    for scores, lengths in (
        (np.full((3, 1, 1), NAN), None),
        (np.full((2, 4, 4), NAN), np.zeros(2, dtype=np.int64)),
    ):
        got = function(scores, lengths=lengths)
        assert got.shape == (scores.shape if function is arc_marginals else scores.shape[:1])
        assert not got.any()


@each_function
def test_probabilities_are_new_and_writable(function):
    scores = fixed_batch(3, 4, family="gaussian")
    first, second = function(scores), function(scores)
    first[:] = 7
    assert 7 not in second
    assert 7 not in function(scores)


# What results do not depend on


@each_function
def test_probabilities_with_more_threads_than_sentences(function):
    for size in (0, 1, 2, 3):
        scores = fixed_batch(3, 6, family="gaussian")[:size]
        assert_identical(function(scores, num_threads=8), function(scores))
    assert_identical(function(fixed_matrix(9), num_threads=4), function(fixed_matrix(9)))


@each_function
def test_probabilities_called_from_several_threads_at_once(function):
    scores, lengths = pad_batch(tame_batch(3, 30, 15, np.float64), NAN)
    expected = function(scores, lengths=lengths)
    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(function, scores, lengths=lengths, num_threads=2) for _ in range(8)]
        for job in jobs:
            assert_identical(job.result(), expected)


@pytest.mark.one_each("junk")
@each_function
@each_junk
def test_probabilities_ignore_what_lies_in_the_padding(function, junk):
    matrices = tame_batch(6, 20, 9, np.float32)
    scores, lengths = pad_batch(matrices, 0.0, 2)
    expected = function(scores, lengths=lengths)
    other, _ = pad_batch(matrices, junk, 2)
    assert_identical(function(other, lengths=lengths), expected)


@pytest.mark.one_each("junk", "function")
@each_function
@each_junk
@each_root
@pytest.mark.parametrize("family", ["integer_ties", "all_prefer_root", "nested_pairs"])
def test_probabilities_ignore_row_zero_and_diagonal(function, family, single_root, junk):
    for n in (0, 1, 2, 3, 8, 21):
        scores = fixed_matrix(n, np.float64, family)
        expected = function(scores, single_root=single_root)
        scores[0, :] = junk
        np.fill_diagonal(scores, junk)
        assert_identical(function(scores, single_root=single_root), expected)


@each_function
@each_root
def test_probabilities_of_float32_are_those_of_the_same_values_as_float64(function, single_root):
    scores, lengths = pad_batch(tame_batch(7, 40, 10, np.float32), NAN)
    wide = scores.astype(np.float64)
    got = function(scores, lengths=lengths, single_root=single_root)
    assert_identical(got, function(wide, lengths=lengths, single_root=single_root))


@pytest.mark.one_each("layout", "function")
@each_function
@each_dtype
@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_probabilities_take_any_layout(function, layout, dtype):
    scores, lengths = pad_batch(tame_batch(8, 20, 8, dtype), NAN)
    assert_identical(
        function(LAYOUTS[layout](scores), lengths=lengths), function(scores, lengths=lengths)
    )
    for family in ("integer_ties", "nested_pairs", "all_prefer_root"):
        one = fixed_matrix(9, dtype, family)
        assert_identical(function(LAYOUTS[layout](one)), function(one))


@each_function
def test_probabilities_take_a_batch_axis_anywhere(function):
    scores = fixed_batch(5, 6, family="gaussian")
    expected = function(scores)
    inner = np.moveaxis(np.moveaxis(scores, 0, -1).copy(), -1, 0)
    assert_identical(function(inner), expected)
    np.testing.assert_array_equal(function(scores[::-1]), expected[::-1])
    np.testing.assert_array_equal(function(scores[::2]), expected[::2])
    repeated = np.broadcast_to(scores[0], (4, 7, 7))
    np.testing.assert_array_equal(function(repeated), np.stack([expected[0]] * 4))


@each_function
@each_root
def test_probabilities_never_change_their_input(function, single_root):
    scores, lengths = pad_batch(tame_batch(9, 40, 9, np.float64), NAN)
    allowed = np.ones(scores.shape, dtype=bool)
    before = scores.tobytes(), lengths.tobytes(), allowed.tobytes()
    function(scores, lengths=lengths, allowed=allowed, single_root=single_root)
    assert (scores.tobytes(), lengths.tobytes(), allowed.tobytes()) == before


@each_function
def test_probabilities_never_change_their_input_when_they_fail(function):
    scores = fixed_batch(3, 6, family="gaussian")
    scores[2, 5] = -INF
    before = scores.tobytes()
    with pytest.raises(NoTreeError):
        function(scores)
    assert scores.tobytes() == before


# A mask of allowed arcs


def masked_batch(dtype: type) -> tuple[FloatArray, NDArray[np.bool_], NDArray[np.int64]]:
    """Return padded scores and masks that leave some tree, and lengths."""
    rng = rng_for("masked batch", dtype.__name__)
    matrices = [scaled(rng, i % 9, (1.0, 30.0, 300.0)[i % 3], dtype) for i in range(36)]
    scores, lengths = pad_batch(matrices, NAN, extra=1)
    allowed = rng.random(scores.shape) < rng.choice([0.2, 0.5, 0.9], size=(len(scores), 1, 1))
    for mask, n in zip(allowed, lengths.tolist(), strict=True):
        mask[np.arange(1, n + 1), random_heads(rng, n, True)[1:]] = True
    return scores, allowed, lengths


@each_function
@each_root
@each_dtype
def test_probabilities_allowed_equals_minus_infinity(function, dtype, single_root):
    scores, allowed, lengths = masked_batch(dtype)
    hard = np.where(allowed, scores, dtype(-INF))
    expected = function(hard, lengths=lengths, single_root=single_root)
    got = function(scores, lengths=lengths, allowed=allowed, single_root=single_root)
    assert_identical(got, expected)
    for junk in (NAN, INF, -INF, 1e30, -1e30):
        poisoned = np.where(allowed, scores, dtype(junk))
        got = function(poisoned, lengths=lengths, allowed=allowed, single_root=single_root)
        assert_identical(got, expected)
    n = int(lengths[-1]) + 1
    one = function(scores[-1, :n, :n], allowed=allowed[-1, :n, :n], single_root=single_root)
    assert_row(expected[-1], one)


@pytest.mark.one_each("layout")
@each_function
@pytest.mark.parametrize("layout", sorted(MASK_LAYOUTS))
def test_probabilities_allowed_of_any_layout(function, layout):
    scores, allowed, lengths = masked_batch(np.float64)
    expected = function(scores, lengths=lengths, allowed=allowed)
    # Layouts fill gaps with NaN, which as a bool is True.
    other = MASK_LAYOUTS[layout](allowed)
    np.testing.assert_array_equal(other, allowed)
    assert_identical(function(scores, lengths=lengths, allowed=other), expected)


@each_function
def test_probabilities_allowed_threads_do_not_change_the_result(function):
    scores, allowed, lengths = masked_batch(np.float32)
    expected = function(scores, lengths=lengths, allowed=allowed)
    for num_threads in (2, 4):
        got = function(scores, lengths=lengths, allowed=allowed, num_threads=num_threads)
        assert_identical(got, expected)


@each_function
def test_probabilities_with_nothing_allowed_have_no_tree(function):
    with pytest.raises(NoTreeError):
        function(fixed_matrix(3), allowed=np.zeros((4, 4), dtype=bool))


# Values


@each_function
@each_root
@pytest.mark.parametrize("bad", [NAN, INF])
def test_probabilities_refuse_a_bad_value_anywhere_inside(function, bad, single_root):
    for n in (1, 2, 4):
        for dep in range(1, n + 1):
            for head in set(range(n + 1)) - {dep}:
                scores = fixed_matrix(n)
                scores[dep, head] = bad
                with pytest.raises(ValueError, match=r"dep") as error:
                    function(scores, single_root=single_root)
                assert not isinstance(error.value, NoTreeError)
                assert {dep, head} <= set(numbers_in(error))


@each_function
@each_root
@pytest.mark.parametrize("num_threads", [1, 3])
def test_probabilities_no_tree_message_names_the_sentence(function, num_threads, single_root):
    scores = fixed_batch(40, 3, family="gaussian")
    scores[37, 2] = -INF
    with pytest.raises(NoTreeError) as error:
        function(scores, num_threads=num_threads, single_root=single_root)
    assert 37 in numbers_in(error)
    assert "sentence" in str(error.value)


@each_function
@pytest.mark.parametrize("bad", [NAN, -INF])
def test_probabilities_work_again_after_an_error(function, bad):
    scores = fixed_batch(3, 8, family="gaussian")
    expected = function(scores)
    broken = scores.copy()
    broken[1, 4] = bad
    with pytest.raises(ValueError, match=r"sentence"):
        function(broken)
    assert_identical(function(scores), expected)


# Heads


def test_tree_log_prob_ignores_index_zero_and_padding_of_heads():
    scores = np.full((1, 6, 6), np.nan)
    scores[0, :4, :4] = scaled(rng_for("padding"), 3, 1.0)
    expected = tree_log_prob(scores[0, :4, :4], np.array([-1, 2, 0, 1]))
    for junk in (-1, 0, 3, 77):
        heads = np.array([[junk, 2, 0, 1, junk, junk]])
        assert tree_log_prob(scores, heads, lengths=np.array([3])).tolist() == [expected]


def test_tree_log_prob_heads_are_not_changed_and_may_lie_anywhere():
    matrices = [scaled(rng_for("layouts", i), i % 7, 1.0) for i in range(20)]
    scores, lengths = pad_batch(matrices, np.nan)
    heads = decode(scores, lengths=lengths)
    before = heads.tobytes()
    expected = tree_log_prob(scores, heads, lengths=lengths)
    spread = np.repeat(np.repeat(heads, 2, axis=1), 2, axis=0)[::2, ::2]
    spread.flags.writeable = False
    for other in (np.asfortranarray(heads), spread, heads[:, ::-1].copy()[:, ::-1]):
        assert tree_log_prob(scores, other, lengths=lengths).tolist() == expected.tolist()
    assert heads.tobytes() == before
