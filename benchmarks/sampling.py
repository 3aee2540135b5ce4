"""Compare the times of samplers of dependency trees.

Usage: python benchmarks/sampling.py [--smoke] [--out DIR] [--checkouts FOLDER]

The peers are the samplers of a checkout of treesample. Calls are timed in turns, preparation
included; that ours draw from the right distribution is tested, not measured. Writes sampling.md.
"""

import os

# Set before NumPy is imported, so that it uses one thread.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from lib.cells import time_tables
from lib.checkouts import load_peers
from lib.options import add_options, make_parser, read_checkouts
from lib.sampler_times import time_rows
from lib.samplers import LOADERS, our_samplers
from lib.tables import method_table, setup_line, write_markdown

# Words of a sentence, trees of each, seconds and repeats of each sampler.
FULL = ((10, 25, 50, 100), (20, 100), 1.0, 9)
SMOKE = ((10, 25), (5,), 0.05, 3)


def main() -> None:
    """Measure, print and write."""
    parser = make_parser(__doc__)
    add_options(parser)
    options = parser.parse_args()
    peers, missing = load_peers(LOADERS, read_checkouts(options))
    samplers = [*our_samplers(), *peers]
    rows = list(time_rows(samplers, *(SMOKE if options.smoke else FULL)))
    parts = [
        "# Samplers compared",
        setup_line(),
        method_table(samplers, missing),
        "## Times",
        "Median per tree, preparation of its sentence included; float64 scores.",
        *time_tables(rows),
    ]
    write_markdown(options.out / "sampling.md", parts)


if __name__ == "__main__":
    main()
