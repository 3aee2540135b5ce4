"""Memory stays flat over many Docs and updates: what malloc has given out, to the byte.

Growth is the median of the growth of each block, so that tables that grow now and then do not
count, and a leak, which adds to each block, does.
"""

import ctypes
import json
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

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "mallinfo2"),
    reason="needs Linux's /proc and glibc's malloc",
)


@pytest.mark.parametrize(
    ("kind", "size", "leak"),
    [
        pytest.param("docs", 30, 0, marks=pytest.mark.workflow),
        # The test would notice this.
        pytest.param("docs", 30, 100, marks=pytest.mark.slow),
        pytest.param("updates", 4, 0, marks=pytest.mark.slow),
    ],
)
def test_memory_in_use_is_flat(kind, size, leak):
    """In bytes per Doc or update, measured in a process of its own."""
    result = subprocess.run(
        [sys.executable, LEAK, kind, "8", str(size), "--leak", str(leak)],
        stdout=subprocess.PIPE,
        check=True,
        env={**os.environ, **MALLOC},
    )
    in_use = json.loads(result.stdout.splitlines()[-1])
    assert len(in_use) == 9
    growth = statistics.median((b - a) / size for a, b in pairwise(in_use))
    assert leak <= growth < leak + 64 if leak else growth < 16
