"""Memory stays flat over thousands of Docs and updates.

Growth is the median of the growth of each block, so that tables and heaps that grow now and then do
not count, and a leak, which adds to each block, does. Its confidence interval is that of the sign
test, from order statistics: it assumes no distribution, and is too wide if noise comes and goes.
"""

import ctypes
import json
import math
import os
import statistics
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

LEAK = Path(__file__).with_name("leak.py")
# Let malloc count Python's objects as well, and not the small blocks that it keeps for later.
MALLOC = {"PYTHONMALLOC": "malloc", "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}
# Two-sided level of confidence intervals.
LEVEL = 0.99

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "mallinfo2"),
    reason="needs Linux's /proc and glibc's malloc",
)


def growth(kind, n_blocks, size, *options, what="rss"):
    """Measure in a process of its own; returns the growth of each block, in bytes per item."""
    result = subprocess.run(
        [sys.executable, LEAK, kind, str(n_blocks), str(size), *options],
        stdout=subprocess.PIPE,
        check=True,
        env={**os.environ, **(MALLOC if what == "in_use" else {})},
    )
    bytes_used = json.loads(result.stdout.splitlines()[-1])[what]
    assert len(bytes_used) == n_blocks + 1
    return [(b - a) / size for a, b in pairwise(bytes_used)]


def interval(values, level=LEVEL):
    """Compute the confidence interval of a median, from order statistics."""
    n = len(values)
    ordered = sorted(values)
    # The number of values below the median is binomial.
    tail, left_out = 0.5**n, 0
    while tail <= (1 - level) / 2:
        left_out += 1
        tail += math.comb(n, left_out) * 0.5**n
    if not left_out:
        raise ValueError(f"expected more than {n} values for an interval of level {level}")
    return ordered[left_out - 1], ordered[n - left_out]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "size", "most"),
    # Less than any object of Python's for each Doc; less than any array of the model's weights,
    # nearly all of them larger than a page, for each update.
    [("docs", 500, 48), ("updates", 50, 480)],
)
def test_resident_memory_is_flat(kind, size, most):
    grown = growth(kind, 40, size)
    low, high = interval(grown)
    print(
        f"{40 * size} {kind}: {statistics.median(grown):.1f} bytes each, "
        f"{LEVEL:.0%} interval {low:.1f} to {high:.1f}, in all {sum(grown) * size / 1024:.0f} KiB"
    )
    assert low <= 0
    # Otherwise the noise would hide a leak.
    assert high < most


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "size", "leak"), [("docs", 500, 100), ("updates", 50, 1000)])
def test_small_leak_is_found(kind, size, leak):
    low, high = interval(growth(kind, 12, size, "--leak", str(leak)))
    assert 0 < low <= high
    assert high > leak


@pytest.mark.parametrize(
    ("kind", "size"),
    [
        pytest.param("docs", 30, marks=pytest.mark.workflow),
        pytest.param("updates", 4, marks=pytest.mark.slow),
    ],
)
def test_memory_in_use_is_flat(kind, size):
    """As above, but exact, and so for fewer of them."""
    assert statistics.median(growth(kind, 8, size, what="in_use")) < 16
