"""Kernels read and write nothing beyond their arrays, and arrays of any kind are safe."""

import mmap
import sys

import numpy as np
import pytest
from strategies import DTYPES, FAMILIES, rng_for

from spacy_rootmind import TreeDistribution, decode, decode_kbest, sample_trees

DECODERS = (
    {},
    {"arcmax": False},
    {"arcmax": False, "single_root": False},
    {"algorithm": "preselection", "arcmax": False},
    {"algorithm": "naive_chu_liu_edmonds"},
    {"projective": True},
)


def decoded(scores):
    return [decode(scores, **options) for options in DECODERS]


def summed_and_sampled(scores):
    for single_root in (True, False):
        trees = TreeDistribution(scores, single_root=single_root)
        yield trees.marginals
        yield trees.entropy()
        for replace in (True, False):
            options = {"single_root": single_root, "replace": replace, "seed": len(scores)}
            yield sample_trees(scores, 3, **options)[0]


@pytest.fixture(scope="module")
def guarded():
    """Give a function that puts an array between two pages that nobody may touch.

    Reading past either end kills the process. Sanitizers do not see what SIMD loads under a mask.
    """
    import ctypes

    if sys.platform == "win32":
        pytest.skip("needs mprotect")
    libc = ctypes.CDLL(None, use_errno=True)
    page, room = mmap.PAGESIZE, 256 * mmap.PAGESIZE
    memory = mmap.mmap(-1, room + 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protect = libc.mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    assert protect(start, page, 0) == 0
    assert protect(start + page + room, page, 0) == 0

    def place(array: np.ndarray, *, at_end: bool) -> np.ndarray:
        offset = page + room - array.nbytes if at_end else page
        placed = np.frombuffer(memory, array.dtype, array.size, offset).reshape(array.shape)
        placed[...] = array
        return placed

    yield place
    # Python could not unmap protected pages.
    assert protect(start, room + 2 * page, mmap.PROT_READ | mmap.PROT_WRITE) == 0


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("at_end", [True, False])
@pytest.mark.parametrize(
    ("run", "families"),
    [
        (decoded, ("cycles_of_supernodes", "clusters_at_root", "gaussian")),
        (summed_and_sampled, ("gaussian",)),
    ],
)
def test_nothing_is_read_beyond_the_scores(guarded, run, families, at_end, dtype):
    for n in [*range(1, 42), 63, 64, 65]:
        for family in families:
            scores = FAMILIES[family](rng_for("guarded", n, family), n, dtype)
            placed = guarded(scores, at_end=at_end)
            for found, expected in zip(run(placed), run(scores), strict=True):
                np.testing.assert_array_equal(found, expected)


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_subclasses_of_arrays_are_taken_as_arrays():
    scores = np.array([[0, 0, 0], [3, 0, 1], [3, 2, 0.0]])
    for words in (1, 2):
        matrix = np.asmatrix(scores[: words + 1, : words + 1])
        plain = decode(scores[: words + 1, : words + 1])
        np.testing.assert_array_equal(decode(matrix), plain)
        np.testing.assert_array_equal(decode_kbest(matrix, 1)[0][0], plain)
    with pytest.raises(TypeError, match="MaskedArray"):
        decode(scores[None], lengths=np.ma.masked_array([2]))


@pytest.mark.parametrize("n", [3, 4, 10])
def test_sums_that_overflow_are_refused(n):
    scores = np.full((n + 1, n + 1), 1.7e308 / n)
    scores[:, 1] /= 2
    for run in (
        lambda: decode(scores, projective=True, arcmax=False),
        lambda: decode_kbest(scores, 3),
    ):
        with pytest.raises(ArithmeticError, match="overflow"):
            run()
    scores /= 4
    assert (decode(scores, projective=True, arcmax=False)[1:] == 0).sum() == 1
    assert len(decode_kbest(scores, 3)[0]) == 3
