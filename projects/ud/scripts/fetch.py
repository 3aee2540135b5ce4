"""Copy a treebank from a local folder to the assets, or check that it is there."""

import argparse
import shutil
import sys
from difflib import get_close_matches
from itertools import chain
from pathlib import Path

from treebank import TreebankError, find_files
from wasabi import msg


def locate(source: str, assets: Path, name: str) -> Path:
    """Find a treebank's folder: in `source` or, if that is empty, in the assets."""
    if not name:
        raise TreebankError(
            "expected the name of a treebank, such as --vars.treebank UD_English-EWT, received none"
        )
    parent = Path(source) if source else assets
    if (parent / name).is_dir():
        return parent / name
    if source and any(parent.glob("*-ud-*.conllu")):
        return parent
    near = get_close_matches(name, [path.name for path in parent.glob("*") if path.is_dir()])
    similar = f" (similar: {', '.join(near)})" if near else ""
    advice = (
        "Expected --vars.source to be a folder that has this folder, or the treebank's files"
        if source
        else "Download it with `spacy project assets`, or copy it from a folder with "
        "`--vars.source FOLDER`"
    )
    raise TreebankError(f"{parent / name} does not exist{similar}. {advice}")


def fetch(source: str, assets: Path, name: str) -> list[Path]:
    """Copy a treebank's files, README and licence to the assets; its folder is emptied first.

    `source` is the treebank's folder or its parent; empty if the treebank is in the assets.
    """
    folder, target = locate(source, assets, name), assets / name
    files = list(chain(*find_files(folder)[1].values()))
    texts = [*folder.glob("README*"), *folder.glob("LICENSE*")]
    if folder.resolve() != target.resolve():
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        for path in [*files, *texts]:
            shutil.copyfile(path, target / path.name)
    return files


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", help="a folder; empty if the treebank is in place")
    parser.add_argument("assets", type=Path)
    parser.add_argument("treebank")
    args = parser.parse_args()
    try:
        files = fetch(args.source, args.assets, args.treebank)
    except TreebankError as error:
        sys.exit(str(error))
    msg.good(f"{args.assets / args.treebank}: {', '.join(path.name for path in files)}")


if __name__ == "__main__":
    main()
