"""Tables of results, as Markdown."""

import os
import platform
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np

from spacy_rootmind import __version__


def duration(microseconds: float) -> str:
    """Write a time with three digits and a unit."""
    units = ((1e6, "s"), (1e3, "ms"))
    size, unit = next((own for own in units if microseconds >= own[0]), (1, "µs"))
    value = microseconds / size
    digits = max(0, 2 - int(np.floor(np.log10(max(value, 1e-9)))))
    return f"{value:.{digits}f} {unit}"


def table(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Lay out a Markdown table."""
    rows = [header, ["---"] * len(header), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def grid(cells: Mapping[tuple[str, Any], str], title: Callable[[Any], str] = str) -> str:
    """Lay out cells by the names of their lines and columns; `title` makes the headings."""
    names, columns = (dict.fromkeys(key[place] for key in cells) for place in (0, 1))
    lines = [[name, *(cells.get((name, column), "") for column in columns)] for name in names]
    return table(["", *map(title, columns)], lines)


def method_table(methods: Sequence[Any], missing: dict[str, str]) -> str:
    """List what is compared, and how to install the peers that are missing."""
    lines = [[each.name, each.language, each.version, each.note] for each in methods]
    lines += [[name, "", "not here", remedy] for name, remedy in missing.items()]
    return table(("", "language", "version", "note"), lines)


def write_markdown(path: Path, parts: Iterable[str]) -> None:
    """Write paragraphs, and print them."""
    text = "\n\n".join(parts) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf8")
    print(text)
    print(f"written to {path.parent}")


def spread(values: Sequence[float], scale: float = 100.0) -> str:
    """Format mean and sample standard deviation, in percent by default; empty without values."""
    if len(values) < 2:
        return "".join(f"{scale * value:.2f}" for value in values)
    return f"{scale * mean(values):.2f} ± {scale * stdev(values):.2f}"


def setup_line() -> str:
    """Describe versions and hardware."""
    info = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*:\s*(.+)", info.read_text()) if info.exists() else None
    cpu = found[1].strip() if found else platform.processor() or platform.machine()
    return (
        f"spacy-rootmind {__version__}, Python {platform.python_version()}, NumPy "
        f"{np.__version__}, {platform.system()} on {cpu} ({os.cpu_count()} cores)."
    )
