"""Command line options that several benchmarks share."""

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path


def make_parser(description: str | None) -> argparse.ArgumentParser:
    """Make a parser that shows a script's whole docstring, as it is laid out."""
    layout = argparse.RawDescriptionHelpFormatter
    return argparse.ArgumentParser(description=description, formatter_class=layout)


def add_options(parser: argparse.ArgumentParser, results: Path | None = None) -> None:
    """Add --smoke, the checkouts of peers, and --out if results are written to a folder."""
    parser.add_argument("--smoke", action="store_true", help="small inputs only, in seconds")
    parser.add_argument(
        "--checkout",
        action="append",
        default=[],
        metavar="NAME=PATH",
        help="a peer's repository; may be repeated",
    )
    parser.add_argument("--checkouts", type=Path, help="a folder with repositories of those names")
    if results is not None:
        parser.add_argument("--out", type=Path, default=results)


def read_checkouts(options: argparse.Namespace, names: Iterable[str]) -> dict[str, Path]:
    """Collect the checkouts given one by one or as a folder."""
    found = {}
    if options.checkouts is not None:
        folders = {name: options.checkouts / name for name in names}
        found = {name: folder for name, folder in folders.items() if folder.is_dir()}
    for given in options.checkout:
        name, _, path = given.partition("=")
        if not path:
            sys.exit(f"--checkout {given}: expected NAME=PATH")
        found[name] = Path(path)
    return found
