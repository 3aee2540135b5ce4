"""Report of the comparison of decoders: CSV, Markdown, and plots if matplotlib is installed."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lib.decoder_checks import Verdict
from lib.decoder_times import Row
from lib.decoders import ANY_ROOTS, ONE_ROOT, Decoder
from lib.tables import Figure, duration, figure_tables, setup_line, table, write_csv

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
# --- Markdown ----------------------------------------------------------------------------------


def decoder_table(decoders: Sequence[Decoder], missing: dict[str, str]) -> str:
    """List what is compared, and how to install the peers that are missing."""
    lines = [
        [
            decoder.name,
            "yes" if decoder.exact else "no",
            "yes" if decoder.task == ONE_ROOT else "no",
            decoder.language,
            decoder.version,
            decoder.note,
        ]
        for decoder in decoders
    ]
    lines += [[name, "", "", "", "not here", remedy] for name, remedy in missing.items()]
    return table(("decoder", "exact", "enforces one root", "language", "version", "note"), lines)


def cell(row: Row | None) -> str:
    """Format a time, marked where the result was wrong."""
    if row is None or row.microseconds is None:
        return "fails" if row is not None and row.note.startswith("fails") else ""
    return duration(row.microseconds) + (" (wrong)" if row.note else "")


def time_tables(rows: Sequence[Row]) -> str:
    """Lay out times, a table for each family."""
    parts = []
    for family in dict.fromkeys(row.family for row in rows):
        chosen = [row for row in rows if row.family == family]
        found = {(row.decoder, row.n): row for row in chosen}
        sizes = list(dict.fromkeys(row.n for row in chosen))
        names = dict.fromkeys(row.decoder for row in chosen)
        header = ["decoder", *(f"n = {n}" if n else "per sentence" for n in sizes)]
        lines = [[name, *(cell(found.get((name, n))) for n in sizes)] for name in names]
        settled = {row.n: f"{row.settled:.0%}" for row in chosen}
        lines.append(["settled by ArcMax", *(settled[n] for n in sizes)])
        parts.append(f"### {family}\n\n{table(header, lines)}")
        remarks = [row for row in chosen if row.note and row.note != "over budget"]
        parts += [f"- {row.decoder}, n = {row.n}: {row.note}" for row in remarks]
    return "\n\n".join(parts)


def soft_mask_table(verdicts: Sequence[tuple[Decoder, str, Verdict]]) -> str:
    """Lay out how many trees are wrong under large finite masks."""
    names = dict.fromkeys(decoder.name for decoder, _, _ in verdicts)
    found = {(decoder.name, dtype): verdict for decoder, dtype, verdict in verdicts}
    dtypes = list(dict.fromkeys(dtype for _, dtype, _ in verdicts))
    lines = []
    for name in names:
        counts = [found[name, dtype] for dtype in dtypes]
        reasons = dict.fromkeys(verdict.reason for verdict in counts if verdict.reason)
        numbers = [f"{verdict.wrong} of {verdict.total}" for verdict in counts]
        lines.append([name, *numbers, "; ".join(reasons)])
    header = ["decoder", *(f"{dtype} scores" for dtype in dtypes), "first reason"]
    return table(header, lines)


def short_table(rows: Sequence[Row], decoders: Sequence[Decoder]) -> str:
    """Lay out the short table, as in docs/benchmarks.md."""
    found = {(row.decoder, row.family, row.n): row for row in rows}
    columns = [key for key in SHORT_COLUMNS if any((row.family, row.n) == key for row in rows)]
    header = ["", "one root", *(f"{family}, n = {n}" if n else family for family, n in columns)]
    lines = []
    for decoder in decoders:
        if decoder.name in LEFT_OUT:
            continue
        cells = [cell(found.get((decoder.name, *key))) for key in columns]
        lines.append([decoder.name, "yes" if decoder.task == ONE_ROOT else "no", *cells])
    return table(header, lines)


# --- plots -------------------------------------------------------------------------------------

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


def draw_plots(rows: Sequence[Row], folder: Path) -> list[tuple[str, str]]:
    """Draw the plots that the rows allow; returns file names with captions."""
    try:
        import matplotlib
    except ImportError:
        print("no plot: pip install matplotlib")
        return []
    matplotlib.use("Agg")
    drawn = []
    timed = [row for row in rows if row.n and row.microseconds is not None and not row.note]
    if len({row.n for row in timed}) > 1:
        _plot_peers(timed, folder / "times.png")
        drawn.append(("times.png", PEERS_CAPTION))
    return drawn


def _plot_peers(rows: Sequence[Row], path: Path) -> None:
    """Draw one panel per family, with our decoders in strong colours and peers in muted ones."""
    import matplotlib.pyplot as plt

    families = list(dict.fromkeys(row.family for row in rows))
    columns = min(3, len(families))
    figure, axes = _panels(-(-len(families) // columns), columns)
    for axis, family in zip(axes, families, strict=False):
        for name, style in {**PEER_STYLES, **OURS_STYLES}.items():
            own = [row for row in rows if (row.family, row.decoder) == (family, name)]
            if own and own[0].kind == "peer":
                dashes = ":" if own[0].task == ANY_ROOTS else "--"
                style = {"linestyle": dashes, "linewidth": 1.2, "markersize": 3.5, **style}
            _line(axis, own, name, style)
        _label_panel(axis, family)
    for axis in axes[len(families) :]:
        axis.set_visible(False)
    order = [*OURS_STYLES, *PEER_STYLES]
    _finish(figure, axes, order, path)
    plt.close(figure)


def _panels(n_rows: int, n_columns: int) -> tuple[Any, list[Any]]:
    """Make panels that share their axes."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        n_rows,
        n_columns,
        figsize=(3.0 * n_columns + 0.4, 2.5 * n_rows + 0.3),
        sharex=True,
        sharey=True,
        squeeze=False,
    )
    return figure, list(axes.flat)


def _line(axis: Any, rows: Sequence[Row], name: str, style: dict[str, Any]) -> None:
    """Draw one decoder's line."""
    if rows:
        points = sorted((row.n, row.microseconds) for row in rows)
        axis.plot(*zip(*points, strict=True), label=name, **style)


def _label_panel(axis: Any, text: str) -> None:
    """Make the axes logarithmic, and give the panel its title."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.xaxis.set_major_locator(LogLocator())
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.xaxis.set_minor_locator(LogLocator(subs=range(2, 10)))
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: tick(value)))
    axis.yaxis.set_minor_locator(NullLocator())
    axis.grid(True, color="#e6e6e6", linewidth=0.6)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
    axis.set_title(text.replace("_", " "), loc="left", fontsize="medium", weight="bold")


def tick(microseconds: float) -> str:
    """Write a power of ten with its unit."""
    for unit, size in (("s", 1e6), ("ms", 1e3), ("µs", 1.0)):
        if microseconds >= 0.999 * size:
            return f"{microseconds / size:g} {unit}"
    return f"{microseconds * 1e3:g} ns"


def _finish(figure: Any, axes: list[Any], order: list[str], path: Path) -> None:
    """Name the axes, put one legend below all panels, and save."""
    handles = {
        label: handle
        for axis in axes
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    names = [name for name in order if name in handles]
    figure.supxlabel("words in the sentence", fontsize=10)
    for axis in axes:
        if axis.get_subplotspec().is_first_col():
            axis.set_ylabel("time per sentence")
    figure.tight_layout(pad=0.4)
    figure.legend(
        [handles[name] for name in names],
        names,
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        ncols=4,
        frameon=False,
        fontsize=9,
        handlelength=3,
    )
    figure.savefig(path, dpi=160, bbox_inches="tight")


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
    plots = [f"![Plot]({name})\n\n{caption}" for name, caption in draw_plots(rows, folder)]
    parts = ["# Decoders compared", setup_line()]
    if rows:
        short = short_table(rows, decoders)
        (folder / "short_table.md").write_text(short + "\n", encoding="utf8")
        parts += ["## In short", short, *plots]
    parts += ["## Decoders", decoder_table(decoders, missing)]
    if figures:
        parts += ["## Derived figures", figure_tables(figures)]
    if masks:
        parts += ["## Trees that are wrong under soft masks", MASKS_CAPTION, soft_mask_table(masks)]
    if rows:
        parts += ["## Times", "Median per sentence. Empty: beyond the budget.", time_tables(rows)]
    (folder / "results.md").write_text("\n\n".join(parts) + "\n", encoding="utf8")
