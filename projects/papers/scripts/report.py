"""Reports: Markdown with tables."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "benchmarks"))

import numpy as np
from lib.decoders import Call
from lib.tables import setup_line, table
from lib.timing import interleave

# Seconds of processor time after which a call gets no more turns.
ENOUGH = 0.5

Cell = str | int | float | None


def shown(cell: Cell) -> str:
    """Format a cell: numbers with about four digits, empty for missing values."""
    if cell is None or (isinstance(cell, float) and np.isnan(cell)):
        return ""
    if isinstance(cell, float):
        if cell == 0 or abs(cell) >= 1000:
            return f"{cell:,.0f}"
        return f"{cell:.{3 if abs(cell) < 1 else 2 if abs(cell) < 100 else 1}f}"
    return f"{cell:,}" if isinstance(cell, int) else cell


class Report:
    """A Markdown file built section by section."""

    def __init__(self, folder: Path, name: str, title: str) -> None:
        self.folder, self.name = folder, name
        self.parts = [f"# {title}"]
        folder.mkdir(parents=True, exist_ok=True)

    def text(self, *paragraphs: str) -> None:
        """Add paragraphs."""
        self.parts += paragraphs

    def table(self, header: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
        """Add a table."""
        self.parts.append(table(header, (list(map(shown, row)) for row in rows)))

    def write(self) -> None:
        """Write NAME.md."""
        path = self.folder / f"{self.name}.md"
        path.write_text("\n\n".join(self.parts) + "\n", encoding="utf8")
        print(f"Wrote {path}")


def describe_run(options: argparse.Namespace) -> str:
    """Describe versions, hardware and options of measured times."""
    chosen = " ".join(
        f"--{name.replace('_', '-')} {value}"
        for name, value in vars(options).items()
        if name != "root"
    )
    return (
        f"Measured with {setup_line()[:-1]}, and the options `{chosen}`. Times are medians of "
        f"processor time, one thread, of calls in turns, on a machine with other work to do: "
        f"ratios within one run count, not the times."
    )


def median_seconds(calls: Mapping[str, Call], repeats: int) -> dict[str, float]:
    """Time calls in turns by processor time; return medians."""
    times = interleave(calls, ENOUGH, repeats)
    return {name: float(np.median(taken)) for name, taken in times.items()}
