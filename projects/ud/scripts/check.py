"""Check, before any work, that everything that the other commands need is available."""

import argparse
import sys
from collections import defaultdict
from functools import partial
from pathlib import Path

from convert import ANY, AUTO, choose_language
from fetch import locate
from pretrained import ENCODERS, check, check_package
from train import COMPONENTS, choose_components, read_seeds
from treebank import TreebankError, find_files
from wasabi import msg

ASSETS = Path("assets")
# Packages that spaCy builds wheels with, and that `evaluate.py` scores with.
BUILD, SCORER = "build", "udtools"
NO_BUILD = "none"


def check_language(wanted: str, source: str, treebank: str) -> None:
    """Check that spaCy has the language, or what the tokenizer of the treebank's needs."""
    try:
        code, _ = find_files(locate(source, ASSETS, treebank))
    except TreebankError:
        # Reported by itself.
        code = ANY
    choose_language(wanted, code)


def check_build(formats: str) -> None:
    """Check that the formats of packages can be built."""
    if formats != NO_BUILD:
        otherwise = f" {BUILD}, or set --vars.build {NO_BUILD}"
        check_package(BUILD, f"--vars.build {formats}", otherwise)


def main() -> None:
    """Run the command; reports everything that is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("encoder", choices=ENCODERS)
    parser.add_argument("--treebank", default="")
    parser.add_argument("--source", default="", help="a folder; empty if it is in the assets")
    parser.add_argument("--language", default=AUTO)
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--components", default=" ".join(COMPONENTS))
    parser.add_argument("--pretrained", default=AUTO, help="name or folder of an encoder")
    parser.add_argument("--gpu-id", type=int, default=-1)
    parser.add_argument("--build", default=NO_BUILD, help="formats of the package")
    args = parser.parse_args()
    problems = []
    for requirement in (
        partial(locate, args.source, ASSETS, args.treebank),
        partial(check_language, args.language, args.source, args.treebank),
        partial(read_seeds, args.seeds),
        partial(choose_components, args.components, defaultdict(lambda: 1.0)),
        partial(check, args.encoder, args.pretrained, args.gpu_id),
        partial(check_build, args.build),
        partial(check_package, SCORER, "the command evaluate"),
    ):
        try:
            requirement()
        except ValueError as error:
            problems.append(str(error))
    if problems:
        sys.exit("\n".join(problems))
    msg.good(f"{args.treebank}, {args.encoder}: all that is needed is there")


if __name__ == "__main__":
    main()
