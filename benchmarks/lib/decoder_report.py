"""Report of the comparison of decoders: CSV, Markdown and a plot."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.ticker import NullLocator

from lib.cells import Row, time_tables
from lib.decoder_checks import Verdict
from lib.decoders import ANY_ROOTS, ONE_ROOT, Decoder
from lib.plots import legend_below, panels, save
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
PEERS_CAPTION = (
    "Median time per sentence over its length, one panel for each family of scores. Solid: "
    "spacy-rootmind, in batches; `tarjan` does not enforce one root. Dashed: peers that enforce "
    "one root. Dotted: peers that do not. A line ends where its budget of time does; wrong or "
    "failing cells are left out."
)
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


# --- plot --------------------------------------------------------------------------------------

OURS_STYLES = {
    "gabow_tarjan": {"color": "#c1121f", "linewidth": 2.8, "zorder": 6},
    "gabow_tarjan, one call each": {"color": "#f48c06", "linewidth": 1.6, "zorder": 5},
    "tarjan": {"color": "#023e8a", "linewidth": 1.2, "zorder": 7},
    "row argmax (NumPy)": {"color": "#000000", "linewidth": 0.9, "zorder": 3},
}
PEER_STYLES = {
    "synjax": {"color": "#6a8d73", "marker": "o"},
    "spanningtrees": {"color": "#8e7dbe", "marker": "s"},
    "Fast-MST-Algorithm": {"color": "#b08968", "marker": "^"},
    "supar": {"color": "#c98bb9", "marker": "v"},
    "stanza": {"color": "#7f9fb8", "marker": "D"},
    "ufal.chu_liu_edmonds": {"color": "#5f8f9e", "marker": "P"},
    "spacy-experimental": {"color": "#a3a35c", "marker": "X"},
    "networkx": {"color": "#a0a0a0", "marker": "*"},
}


def draw_times(rows: Sequence[Row], decoders: Sequence[Decoder], path: Path) -> None:
    """Draw one panel per family, with our decoders in strong colours and peers in muted ones."""
    tasks = {decoder.name: decoder.task for decoder in decoders}
    rows = [row for row in rows if row.n and row.microseconds is not None and not row.note]
    families = list(dict.fromkeys(row.case for row in rows))
    columns = min(3, len(families))
    n_rows = -(-len(families) // columns)
    figure, axes = panels(columns, n_rows, 3.1, 2.6, sharex=True, sharey=True)
    for axis, family in zip(axes, families, strict=False):
        for name, style in {**PEER_STYLES, **OURS_STYLES}.items():
            own = [row for row in rows if (row.case, row.method) == (family, name)]
            if own and own[0].kind == "peer":
                dashes = ":" if tasks[name] == ANY_ROOTS else "--"
                style = {"linestyle": dashes, "linewidth": 1.2, "markersize": 3.5, **style}
            if own:
                points = sorted((row.n, row.microseconds) for row in own)
                axis.plot(*zip(*points, strict=True), label=name, **style)
        axis.set(xscale="log", yscale="log")
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
        axis.yaxis.set_major_formatter(lambda value, _: tick(value))
        axis.yaxis.set_minor_locator(NullLocator())
        axis.set_title(family.replace("_", " "), loc="left", fontsize="medium", weight="bold")
        if axis.get_subplotspec().is_first_col():
            axis.set_ylabel("time per sentence")
    for axis in axes[len(families) :]:
        axis.set_visible(False)
    figure.supxlabel("words in the sentence", fontsize=10)
    legend_below(figure, 4, [*OURS_STYLES, *PEER_STYLES])
    save(figure, path)


def tick(microseconds: float) -> str:
    """Write a power of ten with its unit."""
    for unit, size in (("s", 1e6), ("ms", 1e3), ("µs", 1.0)):
        if microseconds >= 0.999 * size:
            return f"{microseconds / size:g} {unit}"
    return f"{microseconds * 1e3:g} ns"


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
    draw_times(rows, decoders, folder / "times.png")
    parts = [
        "# Decoders compared",
        setup_line(),
        "## In short",
        short_table(rows, decoders),
        f"![Plot](times.png)\n\n{PEERS_CAPTION}",
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
