"""Plots, as PNG."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.ticker import NullFormatter

RED, BLUE, TEAL, ORANGE = "#c1121f", "#023e8a", "#2a9d8f", "#f48c06"
DPI = 140


def panels(
    columns: int = 1, rows: int = 1, width: float = 5.0, height: float = 3.8, **options: Any
) -> tuple[Any, list[Any]]:
    """Make panels of this size in inches, row after row, without frames above and to the right."""
    size = (width * columns, height * rows)
    figure, axes = plt.subplots(
        rows, columns, figsize=size, squeeze=False, layout="constrained", **options
    )
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(True, color="#e6e6e6", linewidth=0.6)
        axis.set_axisbelow(True)
    return figure, list(axes.flat)


def legend_below(figure: Any, columns: int, order: Sequence[str] = ()) -> None:
    """Put one legend for all panels below them; names in `order` come in that order."""
    handles = {
        label: handle
        for axis in figure.axes
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    names = [name for name in order if name in handles] or list(handles)
    figure.legend(
        [handles[name] for name in names],
        names,
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        ncols=columns,
        frameon=False,
        fontsize=9,
        handlelength=3,
    )


def logarithmic(axis: Any, ticks: Sequence[float]) -> None:
    """Make the x axis logarithmic, with plain numbers at the given ticks."""
    axis.set_xscale("log")
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.xaxis.set_minor_formatter(NullFormatter())


def save(figure: Any, path: Path) -> None:
    """Write a figure as PNG."""
    figure.savefig(path, dpi=DPI, bbox_inches="tight")
    plt.close(figure)
