"""What `decode` accepts and refuses, how it says so, and what its result must not depend on."""

import re

import numpy as np
import pytest
import reference
from checks import numbers_in
from strategies import (
    DTYPES,
    LAYOUTS,
    each_dtype,
    fixed_batch,
    fixed_matrix,
    mixed_batch,
    pad_batch,
    rng_for,
)

from spacy_rootmind import NoTreeError, decode

NAN, INF = np.nan, np.inf

each_arcmax = pytest.mark.parametrize("arcmax", [True, False], ids=["arcmax", "no_arcmax"])
each_junk = pytest.mark.parametrize("junk", [NAN, INF, -INF, 1e30, -1e30, 0.0])


# Results


@each_dtype
def test_decode_returns_int32_heads_per_matrix(dtype):
    heads = decode(fixed_matrix(5, dtype))
    assert isinstance(heads, np.ndarray)
    assert (heads.dtype, heads.shape, heads[0]) == (np.int32, (6,), -1)


@each_dtype
def test_decode_returns_int32_heads_per_batch(dtype):
    heads = decode(fixed_batch(3, 5, dtype))
    assert (heads.dtype, heads.shape) == (np.int32, (3, 6))
    assert (heads[:, 0] == -1).all()


def test_decode_batch_of_none_gives_none():
    assert decode(np.empty((0, 4, 4))).shape == (0, 4)
    assert decode(np.empty((0, 4, 4)), lengths=np.empty(0, dtype=np.int64)).shape == (0, 4)


@each_arcmax
def test_decode_batch_of_empty_sentences_gives_root_only(arcmax):
    assert decode(np.full((3, 1, 1), NAN), arcmax=arcmax).tolist() == [[-1]] * 3
    heads = decode(np.full((2, 4, 4), NAN), lengths=np.zeros(2, dtype=np.int64), arcmax=arcmax)
    assert heads.tolist() == [[-1] * 4] * 2


@each_dtype
@pytest.mark.parametrize("single_root", [True, False])
def test_decode_batch_equals_one_by_one(dtype, single_root):
    matrices = mixed_batch(1, 60, 12, dtype)
    scores, lengths = pad_batch(matrices, NAN)
    heads = decode(scores, lengths=lengths, single_root=single_root)
    for row, one in zip(heads, matrices, strict=True):
        np.testing.assert_array_equal(row[: len(one)], decode(one, single_root=single_root))
        assert (row[len(one) :] == -1).all()


def test_decode_batch_order_does_not_matter():
    scores, lengths = pad_batch(mixed_batch(2, 40, 10, np.float32), NAN)
    order = rng_for("order").permutation(len(scores))
    np.testing.assert_array_equal(
        decode(scores[order], lengths=lengths[order]), decode(scores, lengths=lengths)[order]
    )


@pytest.mark.parametrize("extra", [0, 1, 7])
def test_decode_padding_width_does_not_matter(extra):
    matrices = mixed_batch(3, 20, 9, np.float64)
    scores, lengths = pad_batch(matrices, NAN)
    narrow = decode(scores, lengths=lengths)
    wide = decode(pad_batch(matrices, NAN, extra)[0], lengths=lengths)
    np.testing.assert_array_equal(wide[:, : narrow.shape[1]], narrow)
    assert (wide[:, narrow.shape[1] :] == -1).all()


# Entries that nobody reads


@pytest.mark.one_each("family", "junk")
@each_junk
@each_arcmax
@pytest.mark.parametrize("single_root", [True, False])
@pytest.mark.parametrize("family", ["integer_ties", "all_prefer_root", "nested_cycles"])
def test_decode_ignores_row_zero_and_diagonal(family, single_root, arcmax, junk):
    for n in (0, 1, 2, 3, 8, 21):
        scores = fixed_matrix(n, np.float64, family)
        expected = decode(scores, single_root=single_root, arcmax=arcmax)
        scores[0, :] = junk
        np.fill_diagonal(scores, junk)
        heads = decode(scores, single_root=single_root, arcmax=arcmax)
        np.testing.assert_array_equal(heads, expected)
        assert reference.is_tree(heads, single_root)


@pytest.mark.one_each("junk", "arcmax")
@each_junk
@each_arcmax
@each_dtype
def test_decode_ignores_padding(dtype, arcmax, junk):
    matrices = mixed_batch(4, 30, 9, dtype)
    scores, lengths = pad_batch(matrices, junk, 2)
    heads = decode(scores, lengths=lengths, arcmax=arcmax)
    for row, one in zip(heads, matrices, strict=True):
        np.testing.assert_array_equal(row[: len(one)], decode(one, arcmax=arcmax))
        assert (row[len(one) :] == -1).all()


@each_junk
def test_decode_single_matrix_with_length_ignores_padding(junk):
    scores = np.full((9, 9), junk)
    scores[:6, :6] = fixed_matrix(5)
    heads = decode(scores, lengths=5)
    np.testing.assert_array_equal(heads[:6], decode(fixed_matrix(5)))
    assert heads.shape == (9,)
    assert (heads[6:] == -1).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.__name__)
def test_decode_only_heads_within_sentence_are_used(dtype):
    scores = np.full(
        (1, 6, 6), 100.0, dtype=dtype
    )  # every padded head looks better than any real one
    scores[0, :4, :4] = fixed_matrix(3, dtype)
    assert decode(scores, lengths=np.array([3])).max() <= 3


# Lengths


@pytest.mark.parametrize(
    "kind", [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint32, np.intp]
)
def test_decode_lengths_of_any_integer_dtype(kind):
    matrices = mixed_batch(5, 10, 7, np.float32)
    scores, lengths = pad_batch(matrices, NAN)
    found = decode(scores, lengths=lengths.astype(kind))
    np.testing.assert_array_equal(found, decode(scores, lengths=lengths))


def test_decode_lengths_may_be_strided_and_read_only():
    scores, lengths = pad_batch(mixed_batch(6, 10, 7, np.float32), NAN)
    spread = np.repeat(lengths, 2)[::-2]
    spread.flags.writeable = False
    found = decode(scores[::-1], lengths=spread)
    np.testing.assert_array_equal(found, decode(scores, lengths=lengths)[::-1])


@pytest.mark.parametrize("length", [5, np.int64(5), np.uint8(5)])
def test_decode_single_matrix_takes_one_length(length):
    np.testing.assert_array_equal(decode(fixed_matrix(5), lengths=length), decode(fixed_matrix(5)))


def test_decode_full_lengths_equal_none():
    scores = fixed_batch(4, 6)
    np.testing.assert_array_equal(decode(scores, lengths=np.full(4, 6)), decode(scores))


@pytest.mark.parametrize(
    "lengths", [[-1, 3], [3, 5], [3, 2**40], [-(2**40), 1], [3, 2**32 + 1], [-128, 0]]
)
def test_decode_lengths_out_of_range_are_refused(lengths):
    with pytest.raises(ValueError, match=r"length"):
        decode(fixed_batch(2, 4), lengths=np.array(lengths))


def test_decode_unsigned_lengths_out_of_range_are_refused():
    with pytest.raises(ValueError, match=r"length"):
        decode(fixed_batch(2, 4), lengths=np.array([3, 2**64 - 1], dtype=np.uint64))


@pytest.mark.parametrize("length", [-1, 6, 2**40])
def test_decode_single_length_out_of_range_is_refused(length):
    with pytest.raises(ValueError, match=r"length"):
        decode(fixed_matrix(5), lengths=length)


@pytest.mark.parametrize("shape", [(1,), (3,), (2, 1), (0,), (1, 2)])
def test_decode_lengths_of_wrong_shape_are_refused(shape):
    with pytest.raises(ValueError, match=r"length"):
        decode(fixed_batch(2, 4), lengths=np.ones(shape, dtype=np.int64))


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.bool_, np.complex128, object])
def test_decode_lengths_must_be_integers(kind):
    with pytest.raises(TypeError, match=r"length"):
        decode(fixed_batch(2, 4), lengths=np.array([3, 4]).astype(kind))


@pytest.mark.parametrize("length", [4.0, "4", 2.5])
def test_decode_single_length_must_be_an_integer(length):
    with pytest.raises(TypeError, match=r"length"):
        decode(fixed_matrix(5), lengths=length)


def test_decode_single_matrix_refuses_lengths_array():
    with pytest.raises((TypeError, ValueError), match=r"length"):
        decode(fixed_matrix(5), lengths=np.array([5, 5]))


def test_decode_batch_refuses_single_length():
    with pytest.raises((TypeError, ValueError), match=r"length"):
        decode(fixed_batch(2, 4), lengths=4)


# Shapes, dtypes, options


@pytest.mark.parametrize(
    "shape",
    [(), (4,), (3, 4), (4, 3), (0, 0), (2, 3, 4), (2, 4, 3), (2, 0, 0), (1, 2, 3, 3), (0, 3)],
)
def test_decode_wrong_shape_is_refused(shape):
    with pytest.raises(ValueError, match=re.escape(str(shape))):
        decode(np.zeros(shape))


@pytest.mark.parametrize(
    "kind",
    [np.float16, np.int32, np.int64, np.uint8, np.bool_, object, np.complex64, np.complex128],
)
def test_decode_wrong_dtype_is_refused(kind):
    with pytest.raises(TypeError, match=r"dtype"):
        decode(np.ones((3, 3), dtype=kind))


@each_dtype
def test_decode_foreign_byte_order_is_refused(dtype):
    swapped = fixed_matrix(3).astype(np.dtype(dtype).newbyteorder())
    with pytest.raises(TypeError):
        decode(swapped)


@pytest.mark.parametrize(
    "value", [[[0.0, 0.0], [0.0, 0.0]], ((0.0,),), 1.0, None, "scores", b"abc"]
)
def test_decode_anything_but_an_array_is_refused(value):
    with pytest.raises(TypeError):
        decode(value)


def test_decode_unknown_algorithm_lists_known_ones():
    with pytest.raises(ValueError, match=r"magic") as error:
        decode(fixed_matrix(3), algorithm="magic")
    assert re.search(r"\bgabow_tarjan\b", str(error.value))
    assert re.search(r"(?<!_)\btarjan\b", str(error.value))


@pytest.mark.parametrize("algorithm", ["Tarjan", "", "gabow-tarjan", "tarjan "])
def test_decode_algorithm_names_are_exact(algorithm):
    with pytest.raises(ValueError, match=r"gabow_tarjan"):
        decode(fixed_matrix(3), single_root=False, algorithm=algorithm)


def test_decode_tarjan_refuses_single_root():
    with pytest.raises(ValueError, match=r"single_root"):
        decode(fixed_matrix(3), algorithm="tarjan")
    with pytest.raises(ValueError, match=r"single_root"):
        decode(fixed_matrix(3), single_root=True, algorithm="tarjan", arcmax=False)


@pytest.mark.parametrize("num_threads", [0, -1])
def test_decode_num_threads_below_one_is_refused(num_threads):
    with pytest.raises(ValueError, match=r"num_threads"):
        decode(fixed_matrix(3), num_threads=num_threads)


def test_decode_options_are_keyword_only():
    with pytest.raises(TypeError):
        decode(fixed_matrix(3), np.array([3]))


def test_no_tree_error_is_a_value_error():
    assert issubclass(NoTreeError, ValueError)


# Values


@each_arcmax
@pytest.mark.parametrize("bad", [NAN, INF])
@pytest.mark.parametrize("algorithm", ["gabow_tarjan", "tarjan"])
def test_decode_bad_value_anywhere_inside_is_refused(algorithm, bad, arcmax):
    for n in (1, 2, 4):
        for dep in range(1, n + 1):
            for head in set(range(n + 1)) - {dep}:
                scores = fixed_matrix(n)
                scores[dep, head] = bad
                with pytest.raises(ValueError, match=r"dep") as error:
                    decode(scores, single_root=False, algorithm=algorithm, arcmax=arcmax)
                assert not isinstance(error.value, NoTreeError)
                assert {dep, head} <= set(numbers_in(error))


@each_arcmax
@pytest.mark.parametrize("bad", [NAN, INF])
@pytest.mark.parametrize("family", ["trained_like", "nested_cycles"])
@each_dtype
def test_decode_bad_value_message_names_the_place(dtype, family, bad, arcmax):
    scores = np.stack([fixed_matrix(30, dtype, family)] * 20)
    scores[17, 23, 19] = bad
    with pytest.raises(ValueError, match=r"dep") as error:
        decode(scores, arcmax=arcmax)
    assert not isinstance(error.value, NoTreeError)
    assert {17, 23, 19} <= set(numbers_in(error))
    for word in ("sentence", "dep", "head"):
        assert word in str(error.value)


@each_arcmax
@pytest.mark.parametrize("bad", [NAN, INF])
def test_decode_bad_value_next_to_forbidden_arcs_is_refused(bad, arcmax):
    scores = np.full((5, 5), -INF)
    scores[1:, 0] = 1
    scores[3, 2] = bad
    with pytest.raises(ValueError, match=r"dep") as error:
        decode(scores, single_root=False, arcmax=arcmax)
    assert not isinstance(error.value, NoTreeError)


@pytest.mark.parametrize("bad", [NAN, INF])
def test_decode_bad_value_at_the_edge_of_a_sentence(bad):
    scores = np.zeros((1, 7, 7))
    for dep, head, inside in (
        (4, 3, True),
        (4, 0, True),
        (1, 4, True),
        (5, 3, False),
        (3, 5, False),
    ):
        poisoned = scores.copy()
        poisoned[0, dep, head] = bad
        if inside:
            with pytest.raises(ValueError, match=r"dep"):
                decode(poisoned, lengths=np.array([4]))
        else:
            np.testing.assert_array_equal(
                decode(poisoned, lengths=np.array([4])), decode(scores, lengths=np.array([4]))
            )


@each_arcmax
def test_decode_no_tree_message_names_the_sentence(arcmax):
    scores = fixed_batch(40, 3)
    scores[37, 2] = -INF
    with pytest.raises(NoTreeError) as error:
        decode(scores, arcmax=arcmax)
    assert 37 in numbers_in(error)
    assert "sentence" in str(error.value)


@pytest.mark.parametrize("bad", [NAN, -INF])
def test_decode_works_again_after_an_error(bad):
    scores = fixed_batch(3, 8)
    expected = decode(scores)
    broken = scores.copy()
    broken[1, 4] = bad
    with pytest.raises(ValueError, match=r"sentence"):
        decode(broken)
    np.testing.assert_array_equal(decode(scores), expected)


@each_dtype
def test_decode_lowest_finite_scores_are_allowed(dtype):
    scores = np.full((4, 4), np.finfo(dtype).min / 8, dtype=dtype)
    scores[1, 0] = scores[2, 1] = scores[3, 2] = 0
    assert decode(scores).tolist() == [-1, 0, 1, 2]


# Memory


@pytest.mark.one_each("layout")
@pytest.mark.parametrize("layout", sorted(LAYOUTS))
@each_dtype
@each_arcmax
def test_decode_any_layout_of_one_matrix(layout, dtype, arcmax):
    for family in ("gaussian", "integer_ties", "nested_cycles", "all_prefer_root"):
        scores = fixed_matrix(9, dtype, family)
        other = LAYOUTS[layout](scores)
        np.testing.assert_array_equal(other, scores)
        np.testing.assert_array_equal(decode(other, arcmax=arcmax), decode(scores, arcmax=arcmax))


@pytest.mark.one_each("layout")
@pytest.mark.parametrize("layout", sorted(LAYOUTS))
@each_dtype
def test_decode_any_layout_of_a_batch(layout, dtype):
    scores, lengths = pad_batch(mixed_batch(7, 20, 8, dtype), NAN)
    found = decode(LAYOUTS[layout](scores), lengths=lengths)
    np.testing.assert_array_equal(found, decode(scores, lengths=lengths))


@each_dtype
def test_decode_batch_axis_may_lie_anywhere(dtype):
    scores = fixed_batch(5, 6, dtype)
    expected = decode(scores)
    inner = np.moveaxis(np.moveaxis(scores, 0, -1).copy(), -1, 0)
    np.testing.assert_array_equal(decode(inner), expected)
    np.testing.assert_array_equal(decode(scores[::-1]), expected[::-1])
    np.testing.assert_array_equal(decode(scores[::2]), expected[::2])


@each_dtype
def test_decode_broadcast_input_works(dtype):
    scores = fixed_matrix(6, dtype)
    repeated = np.broadcast_to(scores, (4, 7, 7))
    np.testing.assert_array_equal(decode(repeated), np.stack([decode(scores)] * 4))
    constant = np.broadcast_to(dtype(1.5), (5, 5))
    assert reference.is_tree(decode(constant), True)


@each_dtype
@each_arcmax
@pytest.mark.parametrize("single_root", [True, False])
def test_decode_never_changes_its_input(dtype, single_root, arcmax):
    scores, lengths = pad_batch(mixed_batch(8, 40, 9, dtype), NAN)
    before = scores.tobytes(), lengths.tobytes()
    decode(scores, lengths=lengths, single_root=single_root, arcmax=arcmax)
    assert (scores.tobytes(), lengths.tobytes()) == before


def test_decode_never_changes_its_input_when_it_fails():
    scores = fixed_batch(3, 6)
    scores[2, 5] = -INF
    before = scores.tobytes()
    with pytest.raises(NoTreeError):
        decode(scores)
    assert scores.tobytes() == before


def test_decode_result_is_new_and_writable():
    scores = fixed_matrix(4)
    first, second = decode(scores), decode(scores)
    first[1:] = 7
    assert 7 not in second
    assert 7 not in decode(scores)
