"""Compare log partition and arc marginals with those of peers: errors and times.

Usage: python benchmarks/probabilities.py [--smoke] [--out DIR] [--checkout synjax=PATH]

Compares log_partition and arc_marginals, and all peers that are installed, with enumeration in 80
digits at several scales of scores; if ours exceed their error bounds, the run ends with status 1.
Then times them in turns, next to numpy.linalg.inv of as many matrices of the same size. Writes
accuracy.csv, accuracy.png, probability_times.csv and probabilities.md.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

# Set before NumPy is imported, so that it uses one thread.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from lib.checkouts import load_peers
from lib.options import add_options, make_parser, read_checkouts
from lib.probability_accuracy import CAPTION, Errors, accuracy, accuracy_tables, draw_accuracy
from lib.probability_peers import LOADERS, Route, our_route
from lib.probability_times import (
    TIMES_CAPTION,
    Effort,
    Row,
    speed_rows,
    speed_tables,
)
from lib.tables import setup_line, table, write_csv


@dataclass(frozen=True)
class Plan:
    """How much to measure."""

    scales: tuple[float, ...]
    sentences: int
    effort: Effort


FULL = Plan(
    (1e-3, 1e-2, 0.1, 1, 3, 10, 30, 100, 300, 1000),
    60,
    Effort((10, 25, 50, 100), budget=2.0, repeats=9, numbers=400_000),
)
SMOKE = Plan((1e-3, 1, 30, 300), 4, Effort((10, 25), 0.05, repeats=3, numbers=10_000))


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = make_parser(__doc__)
    add_options(parser, Path(__file__).parent / "results")
    parser.add_argument("--parts", nargs="+", choices=("accuracy", "speed"))
    parser.add_argument("--sizes", nargs="+", type=int, help="words in a sentence, for speed")
    return parser.parse_args()


def route_table(routes: Sequence[Route], missing: dict[str, str]) -> str:
    """List what is compared, and how to install the peers that are missing."""
    lines = [[route.name, route.language, route.version, route.note] for route in routes]
    lines += [[name, "", "not here", remedy] for name, remedy in missing.items()]
    return table(("route", "language", "version", "note"), lines)


def write_accuracy(rows: Sequence[Errors], folder: Path) -> list[str]:
    """Write table and plot of errors; returns Markdown."""
    write_csv(folder / "accuracy.csv", rows)
    parts = ["## Errors over the scale of scores"]
    if draw_accuracy(rows, folder / "accuracy.png"):
        parts.append(f"![Plot](accuracy.png)\n\n{CAPTION}")
    for title, header, lines in accuracy_tables(rows):
        parts.append(f"### {title}\n\n{table(header, lines)}")
    return parts


def write_speed(rows: Sequence[Row], folder: Path) -> list[str]:
    """Write times; returns Markdown."""
    write_csv(folder / "probability_times.csv", rows)
    parts = ["## Times", TIMES_CAPTION]
    for title, header, lines in speed_tables(rows):
        parts.append(f"### {title}\n\n{table(header, lines)}")
    return parts


def main() -> None:
    """Measure, print and write."""
    options = parse_arguments()
    plan = SMOKE if options.smoke else FULL
    if options.sizes:
        plan = replace(plan, effort=replace(plan.effort, sizes=tuple(options.sizes)))
    parts = options.parts or ("accuracy", "speed")
    peers, missing = load_peers(LOADERS, read_checkouts(options, LOADERS))
    routes = [our_route(), *peers]
    options.out.mkdir(parents=True, exist_ok=True)
    written = ["# Probabilities compared", setup_line(), route_table(routes, missing)]
    wrong: list[Errors] = []
    if "accuracy" in parts:
        errors = list(accuracy(routes, plan.scales, plan.sentences))
        written += write_accuracy(errors, options.out)
        wrong = [row for row in errors if row.kind == "ours" and not row.within]
    if "speed" in parts:
        rows = list(speed_rows(routes, plan.effort))
        written += write_speed(rows, options.out)
    text = "\n\n".join(written) + "\n"
    (options.out / "probabilities.md").write_text(text, encoding="utf8")
    print(text)
    print(f"written to {options.out}")
    if wrong:
        sys.exit("WRONG: " + "; ".join(map(str, wrong)))


if __name__ == "__main__":
    main()
