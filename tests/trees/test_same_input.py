"""Same scores, same result, bit for bit: alone, in any batch, by any number of threads.

See docs/promises.md.
"""

from functools import cache

import numpy as np
import pytest
from array_functions import CALLS, matrices
from strategies import each_dtype, each_root, pad_batch

from spacy_rootmind import decode_kbest

# NumPy adds the numbers of head_selection: padding may change the last digit of a sum.
SAME = sorted(name for name in CALLS if "head_selection" not in name)

each_call = pytest.mark.parametrize("name", SAME)


@cache
def alone(name: str, dtype: type) -> list[list[np.ndarray]]:
    """Call for each sentence by itself."""
    return [CALLS[name](one, i, num_threads=1) for i, one in enumerate(matrices(name, dtype))]


def assert_part(part: np.ndarray, one: np.ndarray, n: int) -> None:
    """Assert that a sentence's part of a batch's result has the bits of its own result."""
    inside = tuple(slice(0, size) for size in one.shape)
    assert part[inside].tobytes() == one.tobytes(), n
    # Heads and log probabilities of trees that there are not, and padding.
    nothing = -1 if part.dtype == np.int32 else -np.inf if part.ndim == 1 else 0.0
    outside = np.array(part)
    outside[inside] = nothing
    assert (outside == nothing).all(), n


@pytest.mark.one_each("name")
@each_call
@each_dtype
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_results_do_not_depend_on_the_batch(name, dtype, threads):
    """Padding of NaN would spread to whatever it is added to."""
    own = matrices(name, dtype)
    for extra in (0, 3):
        scores, lengths = pad_batch(own, np.nan, extra)
        together = CALLS[name](scores, lengths=lengths, num_threads=threads)
        for i, expected in enumerate(alone(name, dtype)):
            for whole, one in zip(together, expected, strict=True):
                assert_part(whole[i], one, int(lengths[i]))


@each_dtype
@each_root
def test_k_best_do_not_depend_on_k_or_on_calls_before(dtype, single_root):
    own = matrices("k best of all trees", dtype)
    first = [decode_kbest(one, 6, single_root=single_root) for one in own]
    for (heads, scores), one in reversed(list(zip(first, own, strict=True))):
        for k in (6, 3):
            again = decode_kbest(one.copy(), k, single_root=single_root)
            assert again[0].tobytes() == heads[:k].tobytes()
            assert again[1].tobytes() == scores[:k].tobytes()
