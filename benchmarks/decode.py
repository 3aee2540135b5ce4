"""Time the decoder over families of scores and sentence lengths.

Usage: python benchmarks/decode.py [--smoke]

Prints microseconds a sentence (median of repeats, one thread), and for comparison the time that
NumPy takes to find the largest score of each row, which reads the same bytes once.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind import decode, is_tree

Scores = NDArray[np.float32]
Maker = Callable[[np.random.Generator, int], Scores]


def uniform(rng: np.random.Generator, n: int) -> Scores:
    """No structure: several cycles a sentence."""
    return rng.random((n + 1, n + 1), dtype=np.float32)


def trained_like(rng: np.random.Generator, n: int) -> Scores:
    """One head stands out for each word, and these heads form a tree."""
    scores = rng.standard_normal((n + 1, n + 1), dtype=np.float32)
    order = rng.permutation(n) + 1
    heads = [0, *(order[rng.integers(0, i)] for i in range(1, n))]
    scores[order, heads] += 8
    return scores


def multi_root(rng: np.random.Generator, n: int) -> Scores:
    """Every word prefers ROOT: n - 1 root arcs have to go."""
    scores = uniform(rng, n)
    scores[:, 0] += 2
    return scores


def nested_cycles(rng: np.random.Generator, n: int) -> Scores:
    """Each contraction makes the next cycle: n - 1 contractions, one inside the other."""
    scores = np.full((n + 1, n + 1), -1e6, dtype=np.float32)
    for word in range(2, n + 1):
        scores[word, word - 1] = 10 * n
        scores[word - 1, word] = 10 * n - 2 * word
    scores[:, 0] = rng.random(n + 1, dtype=np.float32)
    return scores


FAMILIES: dict[str, Maker] = {
    "uniform": uniform,
    "trained_like": trained_like,
    "multi_root": multi_root,
    "nested_cycles": nested_cycles,
}


def median_microseconds(function: Callable[[], object], repeats: int) -> float:
    """Median time of one call."""
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6


def main() -> None:
    """Print one table row per family and length."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="small sizes only, to see it run")
    smoke = parser.parse_args().smoke
    sizes = [10, 25] if smoke else [10, 25, 50, 100, 200, 500, 1000, 2000]
    repeats = 3 if smoke else 15
    rng = np.random.default_rng(0)
    print(f"{'family':<14} {'n':>5} {'decode us':>11} {'row max us':>11}")
    for family, make in FAMILIES.items():
        for n in sizes:
            b = max(1, min(200, 200_000 // n**2))
            batch = np.stack([make(rng, n) for _ in range(b)])
            assert np.all(is_tree(decode(batch))), (family, n)
            ours = median_microseconds(lambda batch=batch: decode(batch), repeats) / b
            scan = median_microseconds(lambda batch=batch: batch.max(axis=2), repeats) / b
            print(f"{family:<14} {n:>5} {ours:>11.2f} {scan:>11.2f}", flush=True)


if __name__ == "__main__":
    main()
