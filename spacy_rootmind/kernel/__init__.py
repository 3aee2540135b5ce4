"""Compiled kernels: decoding, sums over trees and sampling, on memory and numbers alone."""

from importlib.util import find_spec
from pathlib import Path

# Python looks in the current folder first, and a checkout there hides an installed package.
if find_spec("spacy_rootmind.kernel.decode") is None:
    raise ImportError(
        f"expected spacy_rootmind with its compiled modules, found only its sources in "
        f"{str(Path(__file__).parents[2])!r}: start Python in another folder to use an installed "
        f"package, or build the modules by `pip install -e .` in that folder"
    )
