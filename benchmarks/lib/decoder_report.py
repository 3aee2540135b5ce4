"""Report of the comparison of decoders: CSV and Markdown."""

from collections.abc import Sequence
from pathlib import Path

from lib.cells import Row, time_tables
from lib.decoder_checks import Verdict
from lib.decoders import ONE_ROOT, Decoder
from lib.tables import (
    Figure,
    duration,
    figure_tables,
    grid,
    method_table,
    setup_line,
    table,
    write_csv,
    write_markdown,
)

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


def cell(row: Row | None) -> str:
    """Format a time, marked where the result was wrong."""
    if row is None or row.microseconds is None:
        return "fails" if row is not None and row.note.startswith("fails") else ""
    return duration(row.microseconds) + (" (wrong)" if row.note else "")


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
        cells = [cell(found.get((decoder.name, *key))) for key in columns]
        lines.append([decoder.name, "yes" if decoder.task == ONE_ROOT else "no", *cells])
    return table(header, lines)


# --- all of it ---------------------------------------------------------------------------------


def write_report(
    folder: Path,
    rows: Sequence[Row],
    figures: Sequence[Figure],
    masks: Sequence[tuple[Decoder, str, Verdict]],
    decoders: Sequence[Decoder],
    missing: dict[str, str],
) -> None:
    """Write everything to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    write_csv(folder / "times.csv", rows)
    write_csv(folder / "figures.csv", figures)
    parts = [
        "# Decoders compared",
        setup_line(),
        "## In short",
        short_table(rows, decoders),
        "## Decoders",
        method_table(decoders, missing),
        "## Derived figures",
        figure_tables(figures),
        "## Trees that are wrong under soft masks",
        MASKS_CAPTION,
        soft_mask_table(masks),
        "## Times",
        "Median per sentence.",
        *time_tables(rows),
    ]
    write_markdown(folder / "results.md", parts)
