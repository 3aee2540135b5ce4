"""Compare log partition and arc marginals with other libraries: errors and times.

Usage: python benchmarks/probabilities.py [--smoke] [--out DIR] [--checkouts FOLDER]

Compares log partitions and marginals, and all peers that are installed, with enumeration in 80
digits at several scales of scores; if ours exceed their error bounds, the run ends with status 1.
Then times marginals in turns. Writes probabilities.md.
"""

import os
import sys

# Set before NumPy is imported, so that it uses one thread.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from lib.cells import WrongError, time_tables
from lib.checkouts import load_peers
from lib.options import add_options, make_parser, read_checkouts
from lib.probability_accuracy import accuracy, accuracy_tables
from lib.probability_peers import LOADERS, our_route
from lib.probability_times import TIMES_CAPTION, Plan, speed_rows
from lib.tables import method_table, setup_line, write_markdown

SCALES = (1e-3, 1e-2, 0.1, 1, 3, 10, 30, 100, 300, 1000)
FULL = Plan(SCALES, 60, (10, 25, 50, 100), budget=2.0, repeats=9, numbers=400_000)
SMOKE = Plan((1e-3, 1, 30, 300), 4, (10, 25), budget=0.05, repeats=3, numbers=10_000)


def main() -> None:
    """Measure, print and write."""
    parser = make_parser(__doc__)
    add_options(parser)
    options = parser.parse_args()
    plan = SMOKE if options.smoke else FULL
    peers, missing = load_peers(LOADERS, read_checkouts(options))
    routes = [our_route(), *peers]
    errors = list(accuracy(routes, plan.scales, plan.sentences))
    try:
        rows = list(speed_rows(routes, plan))
    except WrongError as error:
        sys.exit(f"WRONG: {error}")
    parts = [
        "# Probabilities compared",
        setup_line(),
        method_table(routes, missing),
        "## Errors over the scale of scores",
        *accuracy_tables(errors),
        "## Times of marginals",
        TIMES_CAPTION,
        *time_tables(rows),
    ]
    write_markdown(options.out / "probabilities.md", parts)
    wrong = [row for row in errors if row.kind == "ours" and not row.within]
    if wrong:
        sys.exit("WRONG: " + "; ".join(map(str, wrong)))


if __name__ == "__main__":
    main()
