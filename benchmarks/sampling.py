"""Compare samplers of dependency trees: check their distributions, then time them.

Usage: python benchmarks/sampling.py [--smoke] [--out DIR] [--checkout NAME=PATH] ...

The peers are those of a checkout of treesample. First, frequencies of arcs are compared with
arc_marginals; an error of ours ends the run with status 1. Then calls are timed in turns,
preparation included. Writes sampling_times.csv, sampling_checks.csv and sampling.md.
"""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

# Set before NumPy is imported, so that it uses one thread.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from lib.checkouts import load_peers
from lib.options import add_options, make_parser, read_checkouts
from lib.sampler_checks import Check, law_checks
from lib.sampler_times import time_rows, time_tables
from lib.samplers import LOADERS, our_samplers
from lib.tables import method_table, setup_line, table, write_csv, write_markdown


@dataclass(frozen=True)
class Plan:
    """How much to measure."""

    sizes: tuple[int, ...]
    ks: tuple[int, ...]
    budget: float
    repeats: int
    ours: int  # trees per check of our samplers
    peers: int  # trees per check of peers


FULL = Plan((10, 25, 50, 100), (20, 100), 1.0, 9, 100_000, 4000)
SMOKE = Plan((10, 25), (5,), 0.05, 3, 2000, 100)


def check_tables(checks: Sequence[Check]) -> list[str]:
    """Lay out the results of the checks, one table with a heading per title."""
    parts = []
    for title, group in groupby(checks, key=lambda check: check.title):
        lines = [
            [check.case, check.sampler, "yes" if check.passed else "**no**", check.result]
            for check in group
        ]
        parts.append(f"### {title}\n\n{table(('case', 'sampler', 'right', 'result'), lines)}")
    return parts


def main() -> None:
    """Check, measure, print and write."""
    parser = make_parser(__doc__)
    add_options(parser, Path(__file__).parent / "results")
    options = parser.parse_args()
    plan = SMOKE if options.smoke else FULL
    peers, missing = load_peers(LOADERS, read_checkouts(options, LOADERS))
    samplers = [*our_samplers(), *peers]
    options.out.mkdir(parents=True, exist_ok=True)
    checks = list(law_checks(samplers, plan.ours, plan.peers))
    rows = list(time_rows(samplers, plan.sizes, plan.ks, plan.budget, plan.repeats))
    write_csv(options.out / "sampling_checks.csv", checks)
    write_csv(options.out / "sampling_times.csv", rows)
    parts = [
        "# Samplers compared",
        setup_line(),
        method_table(samplers, missing),
        "## Checks",
        *check_tables(checks),
        "## Times",
        "Median per tree, preparation of its sentence included; float64 scores.",
        *time_tables(rows),
    ]
    write_markdown(options.out / "sampling.md", parts)
    wrong = [check for check in checks if check.ours and not check.passed]
    if wrong:
        sys.exit("WRONG: " + "; ".join(map(str, wrong)))


if __name__ == "__main__":
    main()
