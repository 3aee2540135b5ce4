"""`sample_trees`: what its draws depend on, and what they must not; what it accepts and refuses."""

import random

import numpy as np
import pytest
from reference import FloatArray
from reference_sampling import CASES, WAYS, assert_fits, tree_law
from strategies import pad_batch, rng_for

from spacy_rootmind import sample_trees

NAN, INF = np.nan, np.inf

each_way = pytest.mark.parametrize("way", sorted(WAYS))
each_replace = pytest.mark.parametrize("replace", [True, False])


def matrix(n: int, dtype: type = np.float64, case: str = "normal") -> FloatArray:
    """Return one fixed matrix, without −inf unless the case has it."""
    return CASES[case](rng_for("seeds", n, case), n, dtype)


def easy_batch(size: int, longest: int, dtype: type = np.float64) -> list[FloatArray]:
    """Return matrices of 0 to `longest` words on which no walk takes long, of any method."""
    cases = ("normal", "uniform", "zeros", "trained_like")
    lengths = rng_for("lengths", size, longest).integers(0, longest + 1, size=size)
    return [
        CASES[cases[i % 4]](rng_for("easy", i), n, dtype) for i, n in enumerate(lengths.tolist())
    ]


def padded(size: int, longest: int, dtype: type = np.float64, extra: int = 0):
    """Return `easy_batch` as an array with NaN in the padding, and its lengths."""
    return pad_batch(easy_batch(size, longest, dtype), NAN, extra)


def assert_same(first: tuple, second: tuple) -> None:
    """Assert that two results are the same to the last bit."""
    np.testing.assert_array_equal(first[0], second[0])
    np.testing.assert_array_equal(first[1], second[1])


def differ(first: tuple, second: tuple) -> bool:
    """Tell whether any tree differs."""
    return bool((first[0] != second[0]).any())


# Seeds


@each_replace
def test_a_sentence_takes_two_words_of_the_generator(replace):
    """However many trees are drawn."""
    rng, again = np.random.default_rng(3), np.random.default_rng(3)
    scores, lengths = padded(7, 6)
    for size, k in ((7, 4), (0, 4), (7, 1)):
        sample_trees(scores[:size], k, lengths=lengths[:size], replace=replace, seed=rng)
        again.integers(2**64, size=(size, 2), dtype=np.uint64)
        assert rng.bit_generator.state == again.bit_generator.state
    sample_trees(scores[0], 4, lengths=lengths[0], replace=replace, seed=rng)
    again.integers(2**64, size=2, dtype=np.uint64)
    assert rng.bit_generator.state == again.bit_generator.state


@pytest.mark.parametrize("kind", ["PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"])
def test_generator_of_any_bit_generator(kind):
    bits = getattr(np.random, kind)
    scores = matrix(3)
    law = tree_law(scores)
    for options in ({"method": "auto"}, {"method": "ancestral"}, {"replace": False}):
        k = 5
        batch = np.broadcast_to(scores, (20, 4, 4))
        first = sample_trees(batch, k, seed=np.random.Generator(bits(2)), **options)
        second = sample_trees(batch, k, seed=np.random.Generator(bits(2)), **options)
        assert_same(first, second)
        law.check(*first)
        if kind != "PCG64":
            other = sample_trees(batch, k, seed=np.random.Generator(np.random.PCG64(2)), **options)
            assert differ(first, other)

    def draw(size: int, seed: int):
        heads, log_probs = sample_trees(scores, size, seed=np.random.Generator(bits(seed)))
        return law.check(heads, log_probs)

    assert_fits(draw, law.probabilities, 4000, kind)


@pytest.mark.one_each("seed")
@pytest.mark.parametrize(
    "seed",
    [
        "5",
        5.0,
        1.5,
        [1, 2],
        (1,),
        np.array([1, 2]),
        b"5",
        np.random,
        np.random.RandomState(5),
        np.random.SeedSequence(5),
        np.random.PCG64(5),
        random.Random(5),
    ],
    ids=lambda seed: type(seed).__name__,
)
@each_replace
def test_seed_of_another_type_is_refused(replace, seed):
    for scores in (matrix(4), matrix(0), np.zeros((0, 3, 3))):
        with pytest.raises(TypeError, match=r"seed"):
            sample_trees(scores, 3, replace=replace, seed=seed)


@pytest.mark.parametrize("seed", [-1, -(2**70)])
def test_seed_below_zero_is_refused(seed):
    with pytest.raises(ValueError):  # noqa: PT011 the message is numpy's
        sample_trees(matrix(4), 3, seed=seed)


@each_way
def test_global_random_state_is_neither_used_nor_changed(way):
    scores = matrix(5)
    results = []
    for state in (1, 2):
        np.random.seed(state)  # noqa: NPY002
        random.seed(state)
        numpy_before, python_before = np.random.get_state(), random.getstate()  # noqa: NPY002
        results.append(sample_trees(scores, 20, seed=9, **WAYS[way]))
        sample_trees(scores, 20, **WAYS[way])
        for before, after in zip(numpy_before, np.random.get_state(), strict=True):  # noqa: NPY002
            np.testing.assert_array_equal(before, after)
        assert random.getstate() == python_before
    assert_same(*results)
    assert differ(results[0], sample_trees(scores, 20, seed=10, **WAYS[way]))
    np.random.seed(1)  # noqa: NPY002
    first = sample_trees(scores, 20, **WAYS[way])
    np.random.seed(1)  # noqa: NPY002
    assert differ(first, sample_trees(scores, 20, **WAYS[way]))


# The first of k


@each_way
def test_first_trees_do_not_depend_on_k(way):
    scores, lengths = padded(10, 12)
    heads, log_probs = sample_trees(scores, 40, lengths=lengths, seed=1, **WAYS[way])
    for k in (1, 2, 3, 10, 39):
        start = sample_trees(scores, k, lengths=lengths, seed=1, **WAYS[way])
        assert_same(start, (heads[:, :k], log_probs[:, :k]))


# --- the order of draws, which is a promise ------------------------------------------------------

# Scores that are sums of quarters, so that no rounding comes in.
N = 6
DEP, HEAD = np.indices((N + 1, N + 1))
QUARTERS = ((7 * DEP + 5 * HEAD * HEAD + DEP * HEAD) % 11) / 4.0

# Trees that the first release of each method drew; seeds in papers and reports rely on them.
DRAWN = {
    "auto": [[6, 6, 0, 5, 3, 5], [2, 3, 0, 6, 6, 2], [6, 3, 0, 3, 2, 4], [6, 1, 1, 3, 2, 0]],
    "ancestral": [[5, 4, 6, 3, 2, 0], [0, 3, 1, 1, 2, 5], [5, 3, 0, 5, 2, 2], [4, 4, 2, 0, 2, 5]],
    "colbourn": [[4, 6, 5, 5, 2, 0], [4, 1, 1, 0, 2, 3], [6, 1, 4, 5, 2, 0], [0, 1, 5, 3, 2, 5]],
    "wilson": [[6, 6, 0, 5, 3, 5], [2, 3, 0, 6, 6, 2], [6, 3, 0, 3, 2, 4], [6, 1, 1, 3, 2, 0]],
    "wilson_reject": [
        [0, 1, 1, 3, 3, 3],
        [6, 1, 5, 0, 1, 4],
        [5, 1, 6, 6, 0, 5],
        [0, 1, 6, 6, 2, 5],
    ],
    "distinct": [[5, 4, 6, 3, 2, 0], [5, 6, 6, 3, 2, 0], [6, 1, 6, 3, 4, 0], [3, 1, 0, 2, 3, 5]],
    "projective": [[5, 1, 1, 5, 0, 5], [2, 0, 4, 5, 2, 2], [6, 1, 5, 5, 2, 0], [0, 1, 6, 3, 3, 1]],
}


@pytest.mark.parametrize("method", DRAWN)
def test_seed_draws_what_it_drew_before(method):
    heads, _ = sample_trees(QUARTERS, 4, seed=2026, **WAYS[method])
    assert heads[:, 1:].tolist() == DRAWN[method]
