"""Compare decoders of dependency trees: check that they find the same trees, then time them.

Usage: python benchmarks/compare.py [--treebank FILE.conllu] [--checkouts FOLDER] [--smoke]

Runs our algorithms and all peers that are installed, or whose checkout is given, on the same score
matrices. First, all of them have to reach the same score: an error of a peer becomes a line in the
report, and an error of ours ends the run with status 1. Then their calls are timed in turns. Writes
results.md.
"""

import dataclasses
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

# Set before NumPy is imported, so that it uses one thread.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from lib.cells import Row, WrongError
from lib.checkouts import load_peers
from lib.decoder_checks import Verdict, soft_mask_verdicts
from lib.decoder_peers import LOADERS
from lib.decoder_report import write_report
from lib.decoder_times import measure_decoders
from lib.decoders import Decoder, our_decoders, row_argmax
from lib.inputs import FAMILIES, UNCLEAR, family_batch, treebank_batch
from lib.options import add_options, make_parser, read_checkouts
from lib.timing import Forecast

FULL_SIZES = (10, 25, 50, 100, 200, 500, 1000, 2000)
# Lengths of short sentences, to predict the time of long ones.
PROBES = (50, 100)


@dataclasses.dataclass(frozen=True)
class Plan:
    """How much to measure; the smoke run measures everything once, on small inputs.

    `budget` is in seconds, for a decoder on one cell of the tables.
    """

    budget: float = 2.0
    sizes: tuple[int, ...] = FULL_SIZES
    repeats: int = 9
    treebank: int = 1000
    masks: int = 300


SMOKE = Plan(budget=0.1, sizes=(10, 25), repeats=3, treebank=50, masks=20)


def family_rows(plan: Plan, decoders: Sequence[Decoder]) -> Iterator[Row]:
    """Measure each family at each size."""
    for family in FAMILIES:
        forecast = Forecast()
        # Short sentences first, to predict how long the long ones take.
        probes = [n for n in PROBES if min(plan.sizes) > max(PROBES)]
        for n in [*probes, *sorted(plan.sizes)]:
            batch = family_batch(family, n, batch_size(n))
            rows = measure_decoders(family, n, batch, decoders, forecast, plan.budget, plan.repeats)
            if n in plan.sizes:
                yield from rows


def treebank_rows(plan: Plan, decoders: Sequence[Decoder], treebank: Path | None) -> Iterator[Row]:
    """Measure sentences of treebank lengths with clear heads, all of them or most."""
    for family, unclear in (("treebank_batch", 0.0), ("treebank_batch_unclear", UNCLEAR)):
        batch = treebank_batch(plan.treebank, treebank, unclear=unclear)
        yield from measure_decoders(
            family, 0, batch, decoders, Forecast(), plan.budget, plan.repeats
        )


def batch_size(n: int) -> int:
    """Return the number of sentences of n words in a batch."""
    return max(1, min(1000, 200_000 // n**2))


def check_soft_masks(decoders: Sequence[Decoder], count: int) -> list[tuple[Decoder, str, Verdict]]:
    """Count wrong trees under finite masks; of our algorithms, only reweighting may have any."""
    verdicts = soft_mask_verdicts(list(decoders), count)
    for decoder, dtype, verdict in verdicts:
        print(f"soft_masks  {dtype}  {decoder.name:<45} {verdict}")
        if verdict.wrong and decoder.kind == "ours" and decoder.name != "reweighting":
            raise WrongError(f"{decoder.name} on soft masks in {dtype}: {verdict}")
    return verdicts


def main() -> None:
    """Measure, print and write."""
    parser = make_parser(__doc__)
    add_options(parser)
    parser.add_argument("--treebank", type=Path, help="CoNLL-U file to take sentence lengths from")
    options = parser.parse_args()
    plan = SMOKE if options.smoke else Plan()
    checkouts = read_checkouts(options)
    peers, missing = load_peers(LOADERS, checkouts)
    ours = our_decoders()
    decoders = [*ours, *peers, row_argmax()]
    for name, remedy in missing.items():
        print(f"{name}: not here; {remedy}")
    try:
        masks = check_soft_masks(decoders, plan.masks)
        rows = [*family_rows(plan, decoders), *treebank_rows(plan, decoders, options.treebank)]
    except WrongError as error:
        sys.exit(f"WRONG: {error}")
    write_report(options.out, rows, masks, decoders, missing)


if __name__ == "__main__":
    main()
