"""Command line options that several benchmarks share."""

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

# The folder of reports, by default.
RESULTS = Path(__file__).parents[1] / "results"


def make_parser(description: str | None) -> argparse.ArgumentParser:
    """Make a parser that shows a script's whole docstring, as it is laid out."""
    layout = argparse.RawDescriptionHelpFormatter
    return argparse.ArgumentParser(description=description, formatter_class=layout)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add --smoke, the checkouts of peers, and --out."""
    parser.add_argument("--smoke", action="store_true", help="small inputs only, in seconds")
    parser.add_argument(
        "--checkout",
        action="append",
        default=[],
        metavar="NAME=PATH",
        help="a peer's repository; may be repeated",
    )
    parser.add_argument("--checkouts", type=Path, help="a folder with repositories of those names")
    parser.add_argument("--out", type=Path, default=RESULTS)


def add_pipelines(parser: argparse.ArgumentParser, corpus: str = "corpus") -> None:
    """Add trained pipelines, a treebank to parse with them, and --out."""
    kind = {"corpus": "gold Docs, a .spacy file", "treebank": "a CoNLL-U file"}[corpus]
    parser.add_argument("models", nargs="+", help="names or folders of trained pipelines")
    parser.add_argument(f"--{corpus}", type=Path, required=True, help=kind)
    parser.add_argument("--limit", type=int, help="number of Docs to use")
    parser.add_argument("--out", type=Path, default=RESULTS)


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
