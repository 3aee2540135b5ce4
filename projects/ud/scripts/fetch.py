"""Copy a treebank from a local folder to the assets, or check that it is there."""

import argparse
import shutil
import sys
from itertools import chain
from pathlib import Path

from treebank import TreebankError, find_files
from wasabi import msg


def fetch(source: Path, target: Path) -> list[Path]:
    """Copy a treebank's files, README and licence; the target is emptied first.

    Parameters
    ----------
    source
        The treebank's folder, or its parent folder.
    target
        A folder named like the treebank.
    """
    folder = source / target.name if (source / target.name).is_dir() else source
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
    parser.add_argument("target", type=Path)
    args = parser.parse_args()
    target = args.target
    if not args.source and not target.is_dir():
        sys.exit(
            f"{target} does not exist. Download it with `spacy project assets`, or copy it from a "
            f"folder with `--vars.source FOLDER`"
        )
    try:
        files = fetch(Path(args.source) if args.source else target, target)
    except TreebankError as error:
        sys.exit(str(error))
    msg.good(f"{target}: {', '.join(path.name for path in files)}")


if __name__ == "__main__":
    main()
