"""A mask of allowed arcs: the same, bit for bit, as −inf wherever it is False."""

import re

import numpy as np
import pytest
import reference
from numpy.typing import NDArray
from reference import FloatArray
from strategies import (
    DTYPES,
    FAMILIES,
    INPUT_OPTIONS,
    LAYOUTS,
    REDUCTIONS,
    each_dtype,
    each_family,
    each_root,
    mixed_batch,
    name_of,
    pad_batch,
    rng_for,
)

from spacy_rootmind import NoTreeError, decode, decode_kbest

NAN, INF = np.nan, np.inf

Mask = NDArray[np.bool_]

OPTIONS = [
    {key: value for key, value in options.items() if key != "arcmax"}
    for options in INPUT_OPTIONS
    if options["arcmax"] is True
]
MASK_LAYOUTS = {name: layout for name, layout in LAYOUTS.items() if name != "unaligned"}


each_options = pytest.mark.parametrize("options", OPTIONS, ids=name_of)
each_arcmax = pytest.mark.parametrize("arcmax", [True, False])


def mask_with_tree(rng: np.random.Generator, n: int) -> Mask:
    """Return a random mask that leaves room for a projective single-root tree."""
    allowed = rng.random((n + 1, n + 1)) < rng.choice([0.2, 0.5, 0.9])
    heads = reference.random_projective_heads(rng, n, True)
    allowed[np.arange(1, n + 1), heads[1:]] = True
    return allowed


def masked(scores: FloatArray, allowed: Mask) -> FloatArray:
    """Return scores with −inf where arcs are not allowed."""
    return np.where(allowed, scores, -INF)


def junk_under(rng: np.random.Generator, scores: FloatArray, allowed: Mask) -> FloatArray:
    """Return scores with all sorts of values where arcs are not allowed."""
    junk = rng.choice([NAN, INF, -INF, 1e30, -1e30, 0.0], size=scores.shape)
    return np.where(allowed, scores, junk.astype(scores.dtype))


def pairs(
    seed: str, size: int, longest: int, dtype: type[np.floating]
) -> list[tuple[FloatArray, Mask]]:
    """Return matrices of all families, each with a mask; a tree remains in all of them."""
    rng = rng_for("pairs", seed, dtype.__name__)
    result = []
    for scores in mixed_batch(60, size, longest, dtype):
        allowed = mask_with_tree(rng, len(scores) - 1)
        result.append((np.where(scores == -INF, dtype(-2), scores), allowed))
    return result


def padded_pairs(
    seed: str, size: int, longest: int, dtype: type[np.floating], fill: bool
) -> tuple[FloatArray, Mask, NDArray[np.int64]]:
    """Return padded scores, padded masks and lengths."""
    found = pairs(seed, size, longest, dtype)
    scores, lengths = pad_batch([one for one, _ in found], NAN, extra=2)
    allowed = np.full(scores.shape, fill)
    for row, (_, mask) in zip(allowed, found, strict=True):
        row[: len(mask), : len(mask)] = mask
    return scores, allowed, lengths


def one_pair(n: int = 8, dtype: type[np.floating] = np.float64) -> tuple[FloatArray, Mask]:
    """Return one matrix with many ties, and a mask."""
    rng = rng_for("one pair", n)
    return FAMILIES["integer_ties"](rng, n, dtype), mask_with_tree(rng, n)


# The same as minus infinity


@pytest.mark.one_each("family", "arcmax")
@each_options
@each_arcmax
@each_family
def test_decode_allowed_equals_minus_infinity(family, arcmax, options):
    rng = rng_for("allowed", family, name_of(options))
    trees = 0
    for n in (0, 1, 2, 2, 3, 3, 4, 5, 8, 14):
        for dtype in DTYPES:
            scores = FAMILIES[family](rng, n, dtype)
            allowed = rng.random(scores.shape) < 0.4 if n % 3 == 2 else mask_with_tree(rng, n)
            hard = masked(scores, allowed)
            assert hard.dtype == dtype
            soft = junk_under(rng, scores, allowed)
            try:
                expected = decode(hard, arcmax=arcmax, **options)
            except NoTreeError:
                for matrix in (scores, soft):
                    with pytest.raises(NoTreeError):
                        decode(matrix, allowed=allowed, arcmax=arcmax, **options)
                continue
            trees += 1
            for matrix in (scores, soft):
                heads = decode(matrix, allowed=allowed, arcmax=arcmax, **options)
                np.testing.assert_array_equal(heads, expected)
                assert allowed[np.arange(1, n + 1), heads[1:]].all()
    assert trees >= (4 if "forbidden" in family else 8)


@pytest.mark.parametrize("algorithm", REDUCTIONS)
def test_decode_allowed_equals_minus_infinity_with_arcmax_inside(algorithm):
    rng = rng_for("inside")
    options = {"algorithm": algorithm, "arcmax": "inside"}
    for scores, allowed in pairs("inside", 60, 10, np.float32):
        soft = junk_under(rng, scores, allowed)
        expected = decode(masked(scores, allowed), **options)
        np.testing.assert_array_equal(decode(soft, allowed=allowed, **options), expected)


@pytest.mark.one_each("family")
@each_root
@each_family
def test_decode_kbest_allowed_equals_minus_infinity(family, single_root):
    rng = rng_for("allowed kbest", family, single_root)
    for n in (0, 1, 2, 2, 3, 3, 4, 5, 8):
        for dtype in DTYPES:
            scores = FAMILIES[family](rng, n, dtype)
            allowed = rng.random(scores.shape) < 0.5 if n == 2 else mask_with_tree(rng, n)
            hard, soft = masked(scores, allowed), junk_under(rng, scores, allowed)
            for k in (1, 20):
                if not reference.has_tree(hard, single_root):
                    with pytest.raises(NoTreeError):
                        decode_kbest(soft, k, allowed=allowed, single_root=single_root)
                    continue
                expected = decode_kbest(hard, k, single_root=single_root)
                for matrix in (scores, soft):
                    results = decode_kbest(matrix, k, allowed=allowed, single_root=single_root)
                    for result, right in zip(results, expected, strict=True):
                        np.testing.assert_array_equal(result, right)


@each_root
def test_decode_kbest_allowed_gives_each_allowed_tree_exactly_once(single_root):
    rng = rng_for("allowed trees", single_root)
    for n in (2, 3, 4, 5):
        trees = reference.enumerate_trees(n, single_root)
        for _ in range(5):
            allowed = mask_with_tree(rng, n)
            inside = trees[allowed[np.arange(1, n + 1), trees[:, 1:]].all(axis=1)]
            scores = FAMILIES["integer_ties"](rng, n, np.float64)
            heads, _ = decode_kbest(scores, 2000, allowed=allowed, single_root=single_root)
            assert sorted(heads.tolist()) == sorted(inside.tolist())


@each_options
def test_decode_everything_allowed_changes_nothing(options):
    scores, lengths = pad_batch(
        [one for one, _ in pairs("everything", 40, 9, np.float64)], NAN, extra=1
    )
    allowed = np.ones(scores.shape, dtype=bool)
    heads = decode(scores, lengths=lengths, allowed=allowed, **options)
    np.testing.assert_array_equal(heads, decode(scores, lengths=lengths, **options))
    heads = decode(scores, lengths=lengths, allowed=None, **options)
    np.testing.assert_array_equal(heads, decode(scores, lengths=lengths, **options))


@pytest.mark.one_each("options")
@each_options
@pytest.mark.parametrize("n", [1, 2, 5, 30])
def test_decode_only_allowed_tree_is_found(n, options):
    heads = reference.random_projective_heads(rng_for("only", n), n, True)
    allowed = np.zeros((n + 1, n + 1), dtype=bool)
    allowed[np.arange(1, n + 1), heads[1:]] = True
    scores = np.where(allowed, -5.0, NAN)
    np.testing.assert_array_equal(decode(scores, allowed=allowed, **options), heads)


def test_decode_allowed_written_out():
    scores = np.array([[0, 0, 0, 0], [5, 0, 1, 1], [1, 9, 0, 1], [1, 9, 2, 0]], dtype=np.float32)
    allowed = np.ones((4, 4), dtype=bool)
    assert decode(scores, allowed=allowed).tolist() == [-1, 0, 1, 1]
    allowed[3, 1] = False
    assert decode(scores, allowed=allowed).tolist() == [-1, 0, 1, 2]
    allowed[1, 0] = False
    assert decode(scores, allowed=allowed).tolist() == [-1, 3, 1, 0]
    heads, totals = decode_kbest(scores, 2, allowed=allowed)
    assert heads[0].tolist() == [-1, 3, 1, 0]
    assert totals.tolist() == [11, 4]


# What the mask does not say


@pytest.mark.one_each("options")
@each_options
@pytest.mark.parametrize("value", [True, False])
def test_decode_allowed_means_nothing_in_row_zero_and_on_the_diagonal(value, options):
    for n in (0, 1, 2, 5, 12):
        scores, allowed = one_pair(n)
        expected = decode(masked(scores, allowed), **options)
        allowed[0] = value
        np.fill_diagonal(allowed, value)
        np.testing.assert_array_equal(decode(scores, allowed=allowed, **options), expected)


@pytest.mark.one_each("options")
@each_options
@each_dtype
@pytest.mark.parametrize("fill", [True, False])
def test_decode_allowed_means_nothing_in_the_padding(fill, dtype, options):
    scores, allowed, lengths = padded_pairs("padding", 34, 9, dtype, fill)
    heads = decode(scores, lengths=lengths, allowed=allowed, **options)
    for row, one, mask, n in zip(heads, scores, allowed, lengths.tolist(), strict=True):
        inside = masked(one, mask)[: n + 1, : n + 1]
        np.testing.assert_array_equal(row[: n + 1], decode(inside, **options))
        assert (row[n + 1 :] == -1).all()
        np.testing.assert_array_equal(decode(one, lengths=n, allowed=mask, **options), row)


@pytest.mark.one_each("options")
@each_options
@each_arcmax
def test_decode_allowed_with_threads(arcmax, options):
    scores, allowed, lengths = padded_pairs("threads", 60, 12, np.float32, True)
    options = {**options, "arcmax": arcmax}
    expected = decode(masked(scores, allowed), lengths=lengths, **options)
    for num_threads in (1, 2, 3):
        heads = decode(scores, lengths=lengths, allowed=allowed, num_threads=num_threads, **options)
        np.testing.assert_array_equal(heads, expected)


# Layouts


@pytest.mark.one_each("options")
@each_options
@pytest.mark.parametrize("layout", sorted(MASK_LAYOUTS))
def test_decode_allowed_of_any_layout(layout, options):
    for dtype in DTYPES:
        scores, allowed, lengths = padded_pairs("layout", 17, 8, dtype, False)
        expected = decode(masked(scores, allowed), lengths=lengths, **options)
        other = MASK_LAYOUTS[layout](allowed)
        np.testing.assert_array_equal(other, allowed)
        for matrices in (scores, MASK_LAYOUTS[layout](scores), np.asfortranarray(scores)):
            heads = decode(matrices, lengths=lengths, allowed=other, **options)
            np.testing.assert_array_equal(heads, expected)
        one, mask = scores[5, :6, :6], MASK_LAYOUTS[layout](allowed[5, :6, :6])
        n = min(5, int(lengths[5]))
        mask_too = masked(one, allowed[5, :6, :6])
        try:
            right = decode(mask_too, lengths=n, **options)
        except NoTreeError:
            continue
        np.testing.assert_array_equal(decode(one, lengths=n, allowed=mask, **options), right)


@each_options
def test_decode_allowed_may_be_broadcast(options):
    rng = rng_for("broadcast")
    scores = np.stack([FAMILIES["integer_ties"](rng, 6, np.float32) for _ in range(5)])
    allowed = mask_with_tree(rng, 6)
    expected = decode(masked(scores, allowed), **options)
    wide = np.broadcast_to(allowed, scores.shape)
    np.testing.assert_array_equal(decode(scores, allowed=wide, **options), expected)
    everything = np.broadcast_to(np.True_, scores.shape)
    heads = decode(scores, allowed=everything, **options)
    np.testing.assert_array_equal(heads, decode(scores, **options))
    columns = np.broadcast_to(np.arange(7) < 4, scores.shape)  # words 4 to 6 get no dependents
    heads = decode(scores, allowed=columns, **options)
    np.testing.assert_array_equal(heads, decode(masked(scores, columns), **options))
    assert heads.max() < 4
    same = np.broadcast_to(scores[0], scores.shape)
    heads = decode(same, allowed=wide, **options)
    np.testing.assert_array_equal(heads, np.repeat(expected[:1], 5, axis=0))


@pytest.mark.one_each("options")
@each_options
@each_dtype
def test_decode_changes_neither_scores_nor_mask(dtype, options):
    scores, allowed, lengths = padded_pairs("unchanged", 34, 8, dtype, True)
    scores = junk_under(rng_for("junk"), scores, allowed)
    for writeable in (True, False):
        scores.flags.writeable = allowed.flags.writeable = writeable
        before = scores.tobytes(), allowed.tobytes()
        for num_threads in (1, 2):
            decode(scores, lengths=lengths, allowed=allowed, num_threads=num_threads, **options)
        assert (scores.tobytes(), allowed.tobytes()) == before


# Errors


@each_options
def test_decode_mask_without_tree_names_the_sentence(options):
    rng = rng_for("no tree")
    scores = np.stack([FAMILIES["gaussian"](rng, 5, np.float64) for _ in range(20)])
    allowed = np.ones(scores.shape, dtype=bool)
    allowed[[13, 18], 4] = False
    for num_threads in (1, 2):
        with pytest.raises(NoTreeError, match=r"sentence 13\b"):
            decode(scores, allowed=allowed, num_threads=num_threads, **options)
    allowed[[13, 18], 4] = True
    np.testing.assert_array_equal(
        decode(scores, allowed=allowed, **options), decode(scores, **options)
    )


@pytest.mark.one_each("options")
@each_options
@pytest.mark.parametrize("n", [1, 2, 6])
def test_decode_nothing_allowed_has_no_tree(n, options):
    scores, _ = one_pair(n)
    with pytest.raises(NoTreeError):
        decode(scores, allowed=np.zeros(scores.shape, dtype=bool), **options)


@each_options
def test_decode_nothing_allowed_leaves_the_empty_sentence_its_tree(options):
    nothing = np.zeros((1, 1), dtype=bool)
    assert decode(np.full((1, 1), NAN), allowed=nothing, **options).tolist() == [-1]
    heads = decode(
        np.zeros((2, 3, 3)), lengths=np.array([0, 0]), allowed=np.zeros((2, 3, 3), bool), **options
    )
    assert heads.tolist() == [[-1] * 3] * 2
    assert decode(np.empty((0, 3, 3)), allowed=np.empty((0, 3, 3), bool), **options).shape == (0, 3)


@pytest.mark.one_each("options", "bad")
@each_options
@each_arcmax
@pytest.mark.parametrize("bad", [NAN, INF])
def test_decode_bad_value_where_allowed_is_refused(bad, arcmax, options):
    for n in (1, 2, 4):
        for dep in range(1, n + 1):
            for head in set(range(n + 1)) - {dep}:
                scores = np.stack([one_pair(n)[0]] * 3)
                allowed = np.stack([one_pair(n)[1]] * 3)
                scores[2, dep, head] = bad
                allowed[2, dep, head] = True
                with pytest.raises(ValueError, match=r"dep") as error:
                    decode(scores, allowed=allowed, arcmax=arcmax, **options)
                assert not isinstance(error.value, NoTreeError)
                assert {str(dep), str(head), "2"} <= set(re.findall(r"\d+", str(error.value)))


@each_options
def test_decode_bad_value_message_passes_over_what_the_mask_hides(options):
    scores = np.zeros((2, 5, 5))
    allowed = np.ones(scores.shape, dtype=bool)
    scores[0, 1, 2] = scores[1, 2, 1] = NAN
    allowed[0, 1, 2] = allowed[1, 2, 1] = False
    scores[1, 3, 4] = INF
    with pytest.raises(ValueError, match=r"sentence 1\b.*dep 3\b.*head 4\b.*inf"):
        decode(scores, allowed=allowed, **options)
    kind = {key: value for key, value in options.items() if key != "algorithm"}
    with pytest.raises(ValueError, match=r"sentence 1\b.*dep 3\b.*head 4\b.*inf"):
        decode_kbest(scores, 4, allowed=allowed, **kind)


def test_decode_works_again_after_a_mask_without_tree():
    scores, allowed = one_pair(9)
    expected = decode(scores)
    for _ in range(3):
        with pytest.raises(NoTreeError):
            decode(scores, allowed=np.zeros_like(allowed))
        np.testing.assert_array_equal(decode(scores), expected)
        decode(scores, allowed=allowed)
        np.testing.assert_array_equal(decode(scores), expected)
