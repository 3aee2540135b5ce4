"""Time per sample over sentence length, as in figure 6 of Zmigrod, Vieira & Cotterell (2021).

Usage: python scripts/zmigrod2021_figure6.py [--smoke] [--checkouts FOLDER]

Efficient Sampling of Dependency Structure, EMNLP 2021. The experiment in their repository
(notes/runtime_experiment.py): graphs with uniform weights, 5 to 100 nodes, 20 samples per graph.
Here `words` does not count ROOT, and the preparation for a graph is part of the time of its 20
samples. `slope` is the exponent of n, by least squares on logarithms, over all lengths as in the
paper (1.42 for Colbourn, 1.14 for the biased Wilson), and over the upper half of them; times are
medians of processor time, of calls in turns. The second table has the mean number of steps that
walks take, in closed form.
"""

import os
import sys
from pathlib import Path
from statistics import median

# Set before NumPy is imported, so that it uses one thread.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "benchmarks"))

import numpy as np
from lib.checkouts import load_peers
from lib.inputs import Batch
from lib.options import add_options, make_parser, read_checkouts
from lib.sampler_times import try_out
from lib.samplers import (
    ANCESTRAL,
    AUTO,
    COLBOURN,
    REJECT,
    WILSON,
    load_treesample,
    load_treesample_biased,
    our_samplers,
)
from lib.tables import duration, setup_line, table
from lib.timing import interleave

from spacy_rootmind import TreeDistribution

SAMPLES = 20
SIZES = tuple(range(5, 101, 5))
OURS = (WILSON, REJECT, AUTO, COLBOURN, ANCESTRAL)
REMEDY = "pip install tqdm, and --checkouts with treesample"
LOADERS = {
    "treesample": (load_treesample, REMEDY),
    "treesample, biased": (lambda given: [load_treesample_biased(given)], REMEDY),
}
# Graphs per size, for the steps of walks.
STEP_GRAPHS = 10


def uniform_weights(n: int, count: int, seed: int = 0) -> Batch:
    """Make graphs whose weights, not scores, are uniform in (0, 1]."""
    rng = np.random.default_rng(seed)
    scores = np.log(1 - rng.random((count, n + 1, n + 1)))
    return Batch(scores, np.full(count, n, dtype=np.intp))


def time_samples(samplers: list, n: int, graphs: int, budget: float) -> dict[str, float]:
    """Time all samplers on graphs of one size; returns microseconds per sample."""
    batch = uniform_weights(n, graphs)
    ready = {sampler.name: try_out(sampler, batch, SAMPLES, budget) for sampler in samplers}
    calls = {name: tried.call for name, tried in ready.items()}
    times = interleave(calls, budget, 5)
    return {name: median(taken) / ready[name].count * 1e6 for name, taken in times.items()}


def slope(sizes: list[int], values: list[float]) -> float:
    """Fit the exponent of n."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def walk_steps(n: int, graphs: int) -> float:
    """Calculate the mean number of steps of `wilson` for one tree, walks that are erased included.

    That of a walk to word r is the trace of the inverse of I - P, where P has the probabilities of
    steps among the other words (Wilson 1996): the expected visits of each word from itself.
    """
    batch = uniform_weights(n, graphs)
    weights = np.exp(batch.scores)[:, 1:, 1:] * (1 - np.eye(n))
    steps = weights / weights.sum(axis=2, keepdims=True)
    roots = TreeDistribution(batch.scores).marginals[:, 1:, 0]
    total = 0.0
    for root in range(n):
        others = np.delete(np.arange(n), root)
        inverse = np.linalg.inv(np.eye(n - 1) - steps[:, others][:, :, others])
        total += float(roots[:, root] @ np.trace(inverse, axis1=1, axis2=2))
    return total / graphs


def main() -> None:
    """Measure and print."""
    parser = make_parser(__doc__)
    add_options(parser)
    parser.add_argument("--graphs", type=int, help="graphs per size (100)")
    parser.add_argument("--budget", type=float, help="seconds per sampler and size (2)")
    options = parser.parse_args()
    sizes = list((5, 10, 20) if options.smoke else SIZES)
    graphs = options.graphs or (5 if options.smoke else 100)
    budget = options.budget or (0.05 if options.smoke else 2.0)
    samplers = our_samplers(*OURS)
    peers, missing = load_peers(LOADERS, read_checkouts(options))
    samplers += [peer for peer in peers if peer.replace]
    for name, remedy in missing.items():
        print(f"{name}: not here; {remedy}")
    found = [time_samples(samplers, n, graphs, budget) for n in sizes]
    lines = []
    for sampler in samplers:
        own = [times[sampler.name] for times in found]
        cells = [duration(taken) for taken in own]
        half = len(sizes) // 2
        slopes = slope(sizes, own), slope(sizes[half:], own[half:])
        lines.append([sampler.name, *cells, *(f"{each:.2f}" for each in slopes)])
    print(setup_line(), end="\n\n")
    print(f"Time per sample, {SAMPLES} samples per graph, preparation included:", end="\n\n")
    print(table(["words", *map(str, sizes), "slope", "upper half"], lines))
    print(f"\nMean steps of `{WILSON}` for one tree, {STEP_GRAPHS} graphs per size:", end="\n\n")
    steps = [walk_steps(n, STEP_GRAPHS) for n in sizes]
    lines = [
        ["steps", *(f"{each:.1f}" for each in steps), f"{slope(sizes, steps):.2f}"],
        ["steps per word", *(f"{s / n:.2f}" for s, n in zip(steps, sizes, strict=True)), ""],
    ]
    print(table(["words", *map(str, sizes), "slope"], lines))


if __name__ == "__main__":
    main()
