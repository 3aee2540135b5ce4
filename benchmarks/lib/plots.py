"""Plots, as PNG."""

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

TEAL, ORANGE = "#2a9d8f", "#f48c06"
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


def save(figure: Any, path: Path) -> None:
    """Write a figure as PNG."""
    figure.savefig(path, dpi=DPI, bbox_inches="tight")
    plt.close(figure)
