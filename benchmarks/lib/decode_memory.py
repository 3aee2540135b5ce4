"""Print by how many bytes decoding grows the resident set of a new process.

Usage: python decode_memory.py WHAT N COUNT THREADS, for COUNT sentences of N words. WHAT is `tree`,
`projective tree` or `k best`.
"""

import re
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind import decode, decode_kbest


def peak_bytes() -> int:
    """Return the largest resident set so far."""
    status = Path("/proc/self/status")
    if status.exists():
        # getrusage would start from the parent's size here.
        kib = re.search(r"^VmHWM:\s*(\d+)", status.read_text(), re.MULTILINE)
        if kib:
            return int(kib[1]) * 1024
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def fill_pairs(scores: NDArray[np.floating]) -> None:
    """Fill scores so that pairs of words prefer each other, then ROOT; n is even."""
    word = np.arange(1, scores.shape[-1])
    scores[...] = -5
    scores[..., word, (word - 1 ^ 1) + 1] = 1
    scores[..., 0] = 0


def main() -> None:
    """Decode pairs of words that prefer each other, which make the most cycles."""
    what = sys.argv[1]
    n, count, threads = map(int, sys.argv[2:])
    projective = what == "projective tree"
    rng = np.random.default_rng(0)
    # A first call, so that memory that is needed only once does not count.
    small = rng.random((4, 4, 4), dtype=np.float32)
    decode(small, num_threads=threads, projective=projective)
    decode_kbest(small[0], 2)
    scores = np.empty((count, n + 1, n + 1), dtype=np.float32)
    fill_pairs(scores)
    before = peak_bytes()
    if what == "k best":
        decode_kbest(scores[0], 10)
    else:
        decode(scores, num_threads=threads, projective=projective)
    print(peak_bytes() - before)


if __name__ == "__main__":
    main()
