"""Report of the comparison of decoders."""

from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np

from lib.cells import Row, time_tables
from lib.decoder_checks import Verdict
from lib.decoders import ONE_ROOT, Decoder
from lib.tables import grid, method_table, setup_line, table, write_markdown

GROWING = ("gabow_tarjan", "gabow_tarjan, ArcMax off", "tarjan")
# Shorter sentences take mostly what does not grow.
FEWEST_WORDS = 200
GROWTH_CAPTION = f"Exponent of n in the time per sentence, from {FEWEST_WORDS} words on."

SHORT_COLUMNS = (
    ("treebank_batch", 0),
    ("trained_like", 50),
    ("uniform", 50),
    ("multi_root", 50),
    ("nested_cycles", 50),
    ("uniform", 500),
)

# Not in the short table.
LEFT_OUT = ("gabow_tarjan, ArcMax off", "reweighting")
MASKS_CAPTION = (
    "Small integers, forbidden arcs at -1e32 (float64) or -1e9 (float32), and best trees without "
    "any forbidden arc, found by enumeration. Each decoder gets the scores in its own dtype."
)
# --- tables ------------------------------------------------------------------------------------


def soft_mask_table(verdicts: Sequence[tuple[Decoder, str, Verdict]]) -> str:
    """Lay out how many trees are wrong under large finite masks."""
    cells: dict[tuple[str, str], str] = {}
    reasons: dict[tuple[str, str], str] = {}
    for decoder, dtype, verdict in verdicts:
        cells[decoder.name, f"{dtype} scores"] = f"{verdict.wrong} of {verdict.total}"
        if verdict.reason:
            reasons.setdefault((decoder.name, "first reason"), verdict.reason)
    return grid(cells | reasons)


def short_table(rows: Sequence[Row], decoders: Sequence[Decoder]) -> str:
    """Lay out the short table, as in docs/benchmarks.md."""
    found = {(row.method, row.case, row.n): row for row in rows}
    columns = [key for key in SHORT_COLUMNS if any((row.case, row.n) == key for row in rows)]
    header = ["", "one root", *(f"{family}, n = {n}" if n else family for family, n in columns)]
    lines = []
    for decoder in decoders:
        if decoder.name in LEFT_OUT:
            continue
        own = [found.get((decoder.name, *key)) for key in columns]
        cells = [row.cell if row else "" for row in own]
        lines.append([decoder.name, "yes" if decoder.task == ONE_ROOT else "no", *cells])
    return table(header, lines)


def growth_table(rows: Sequence[Row]) -> str:
    """Fit the exponents by least squares on logarithms."""
    cells = {}
    for case, name in product(dict.fromkeys(row.case for row in rows), GROWING):
        own = [row for row in rows if (row.case, row.method) == (case, name)]
        timed = [row for row in own if row.n >= FEWEST_WORDS and row.microseconds is not None]
        if len(timed) > 1:
            n, taken = np.log([(row.n, row.microseconds) for row in timed]).T
            cells[case, name] = f"{np.polyfit(n, taken, 1)[0]:.2f}"
    return grid(cells)


# --- all of it ---------------------------------------------------------------------------------


def write_report(
    folder: Path,
    rows: Sequence[Row],
    masks: Sequence[tuple[Decoder, str, Verdict]],
    decoders: Sequence[Decoder],
    missing: dict[str, str],
) -> None:
    """Write everything to a folder."""
    parts = [
        "# Decoders compared",
        setup_line(),
        "## In short",
        short_table(rows, decoders),
        "## Decoders",
        method_table(decoders, missing),
        "## Growth of time",
        GROWTH_CAPTION,
        growth_table(rows),
        "## Trees that are wrong under soft masks",
        MASKS_CAPTION,
        soft_mask_table(masks),
        "## Times",
        "Median per sentence.",
        *time_tables(rows),
    ]
    write_markdown(folder / "results.md", parts)
