"""Command line options that several benchmarks share."""

import argparse
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
    parser.add_argument("--checkouts", type=Path, help="a folder with the peers' repositories")
    parser.add_argument("--out", type=Path, default=RESULTS)


def add_pipelines(parser: argparse.ArgumentParser, corpus: str = "corpus") -> None:
    """Add trained pipelines, a treebank to parse with them, and --out."""
    kind = {"corpus": "gold Docs, a .spacy file", "treebank": "a CoNLL-U file"}[corpus]
    parser.add_argument("models", nargs="+", help="names or folders of trained pipelines")
    parser.add_argument(f"--{corpus}", type=Path, required=True, help=kind)
    parser.add_argument("--limit", type=int, help="number of Docs to use")
    parser.add_argument("--out", type=Path, default=RESULTS)


def read_checkouts(options: argparse.Namespace) -> dict[str, Path]:
    """List the repositories of peers by name; none without --checkouts."""
    folder = options.checkouts
    return {path.name: path for path in folder.iterdir()} if folder else {}
