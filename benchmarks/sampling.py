"""Compare samplers of dependency trees: check their distributions, then time them.

Usage: python benchmarks/sampling.py [--smoke] [--out DIR] [--checkout NAME=PATH] ...

The peers are treesample and synjax, from their checkouts. First, frequencies of arcs are compared
with arc_marginals; an error of ours ends the run with status 1. Then calls are timed in turns,
preparation included. Writes sampling_times.csv, sampling_checks.csv and sampling.md.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

# Set before NumPy is imported, so that it uses one thread.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from lib.checkouts import load_peers
from lib.options import add_options, make_parser, read_checkouts
from lib.sampler_checks import Check, law_checks
from lib.sampler_times import Row, time_rows, time_tables
from lib.samplers import LOADERS, SYNJAX, Sampler, our_samplers
from lib.synjax_process import SynjaxWilson
from lib.tables import setup_line, table, write_csv


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


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = make_parser(__doc__)
    add_options(parser, Path(__file__).parent / "results")
    parser.add_argument("--parts", nargs="+", choices=("checks", "times"))
    parser.add_argument("--sizes", nargs="+", type=int, help="words in a sentence, for times")
    parser.add_argument("--budget", type=float, help="seconds for a sampler on one cell (1)")
    return parser.parse_args()


def hangs(samplers: Sequence[Sampler]) -> list[str]:
    """Tell how often SynJax's sampler did not return and needed another seed."""
    owners = [getattr(sampler.bind, "__self__", None) for sampler in samplers]
    return [
        f"{SYNJAX}: {owner.hangs} of {owner.calls} calls did not return within {owner.timeout:g} s."
        for owner in owners
        if isinstance(owner, SynjaxWilson)
    ]


def sampler_table(samplers: Sequence[Sampler], missing: dict[str, str]) -> str:
    """List what is compared, and how to install the peers that are missing."""
    lines = [[s.name, s.language, s.version, s.note] for s in samplers]
    lines += [[name, "", "not here", remedy] for name, remedy in missing.items()]
    return table(("sampler", "language", "version", "note"), lines)


def write_checks(checks: Sequence[Check], folder: Path) -> list[str]:
    """Write the results of the checks; returns Markdown."""
    write_csv(folder / "sampling_checks.csv", checks)
    parts = ["## Checks"]
    for title, group in groupby(checks, key=lambda check: check.title):
        lines = [
            [check.case, check.sampler, "yes" if check.passed else "**no**", check.result]
            for check in group
        ]
        parts.append(f"### {title}\n\n{table(('case', 'sampler', 'right', 'result'), lines)}")
    return parts


def write_times(rows: Sequence[Row], folder: Path) -> list[str]:
    """Write times; returns Markdown."""
    write_csv(folder / "sampling_times.csv", rows)
    parts = ["## Times", "Median per tree, preparation of its sentence included; float64 scores."]
    for title, header, lines in time_tables(rows):
        parts.append(f"### {title}\n\n{table(header, lines)}")
    return parts


def main() -> None:
    """Check, measure, print and write."""
    options = parse_arguments()
    plan = SMOKE if options.smoke else FULL
    plan = replace(
        plan,
        sizes=tuple(options.sizes or plan.sizes),
        budget=options.budget or plan.budget,
    )
    parts = options.parts or ("checks", "times")
    peers, missing = load_peers(LOADERS, read_checkouts(options, LOADERS))
    samplers = [*our_samplers(), *peers]
    options.out.mkdir(parents=True, exist_ok=True)
    written = ["# Samplers compared", setup_line(), sampler_table(samplers, missing)]
    checks: list[Check] = []
    if "checks" in parts:
        checks = list(law_checks(samplers, plan.ours, plan.peers))
        written += write_checks(checks, options.out)
    if "times" in parts:
        rows = list(time_rows(samplers, plan.sizes, plan.ks, plan.budget, plan.repeats))
        written += write_times(rows, options.out)
    written += hangs(samplers)
    text = "\n\n".join(written) + "\n"
    (options.out / "sampling.md").write_text(text, encoding="utf8")
    print(text)
    print(f"written to {options.out}")
    wrong = [check for check in checks if check.ours and not check.passed]
    if wrong:
        sys.exit("WRONG: " + "; ".join(map(str, wrong)))


if __name__ == "__main__":
    main()
