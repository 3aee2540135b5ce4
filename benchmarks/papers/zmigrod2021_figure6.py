"""Time per sample over sentence length, as in figure 6 of Zmigrod, Vieira & Cotterell (2021).

Usage: python benchmarks/papers/zmigrod2021_figure6.py [--smoke] [--checkout treesample=PATH]

Efficient Sampling of Dependency Structure, EMNLP 2021. The experiment in their repository
(notes/runtime_experiment.py): graphs with uniform weights, 5 to 100 nodes, 20 samples per graph.
Here `words` does not count ROOT, and the preparation for a graph is part of the time of its 20
samples. `growth` is the exponent of n in the upper half of the lengths, by least squares on
logarithms; times are medians of calls in turns.
"""

import argparse
import os
import sys
from pathlib import Path
from statistics import median

# Set before NumPy is imported, so that it uses one thread.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from lib.inputs import Batch
from lib.options import add_options, read_checkouts
from lib.samplers import ANCESTRAL, AUTO, COLBOURN, REJECT, WILSON, load_treesample, our_samplers
from lib.tables import duration, setup_line, table
from lib.timing import interleave, seconds

SAMPLES = 20
SIZES = (5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100)
OURS = (WILSON, REJECT, AUTO, COLBOURN, ANCESTRAL)


def uniform_weights(n: int, count: int, seed: int = 0) -> Batch:
    """Make graphs whose weights, not scores, are uniform in (0, 1]."""
    rng = np.random.default_rng(seed)
    scores = np.log(1 - rng.random((count, n + 1, n + 1)))
    return Batch(scores, np.full(count, n, dtype=np.intp))


def time_samples(samplers: list, n: int, graphs: int, budget: float) -> dict[str, float]:
    """Time all samplers on graphs of one size; returns microseconds per sample.

    A slow one gets fewer graphs, so that its turns stay within the budget.
    """
    batch = uniform_weights(n, graphs)
    calls, counts = {}, {}
    for sampler in samplers:
        trial = sampler.bind(batch.take(1), SAMPLES)
        trial()
        each = max(seconds(trial), 1e-9)
        counts[sampler.name] = max(1, min(graphs, int(budget / 5 / each)))
        calls[sampler.name] = sampler.bind(batch.take(counts[sampler.name]), SAMPLES)
    times = interleave(calls, budget, repeats=5)
    return {name: median(taken) / counts[name] / SAMPLES * 1e6 for name, taken in times.items()}


def growth(sizes: list[int], times: list[float]) -> float:
    """Fit the exponent of n over the upper half of the sizes."""
    half = len(sizes) // 2
    return float(np.polyfit(np.log(sizes[half:]), np.log(times[half:]), 1)[0])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_options(parser)
    parser.add_argument("--graphs", type=int, help="graphs per size (100)")
    parser.add_argument("--budget", type=float, help="seconds per sampler and size (2)")
    options = parser.parse_args()
    sizes = list((5, 10, 20) if options.smoke else SIZES)
    graphs = options.graphs or (5 if options.smoke else 100)
    budget = options.budget or (0.05 if options.smoke else 2.0)
    samplers = our_samplers(*OURS)
    try:
        samplers += [
            one for one in load_treesample(read_checkouts(options, ["treesample"])) if one.replace
        ]
    except (ImportError, OSError) as error:
        print(f"treesample: not here; pip install tqdm, and --checkout treesample=PATH ({error})")
    found = [time_samples(samplers, n, graphs, budget) for n in sizes]
    lines = []
    for sampler in samplers:
        own = [times[sampler.name] for times in found]
        cells = [duration(taken) for taken in own]
        lines.append([sampler.name, *cells, f"n^{growth(sizes, own):.1f}"])
    print(setup_line(), end="\n\n")
    print(f"Time per sample, {SAMPLES} samples per graph, preparation included:", end="\n\n")
    print(table(["words", *map(str, sizes), "growth"], lines))


if __name__ == "__main__":
    main()
