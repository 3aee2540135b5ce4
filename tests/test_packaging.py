"""What the package says of itself, in every place that says it."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import srsly
from conftest import ROOT

import spacy_rootmind


def test_one_version():
    citation = srsly.read_yaml(ROOT / "CITATION.cff")
    assert citation["version"] == spacy_rootmind.__version__
    assert version("spacy-rootmind") == spacy_rootmind.__version__


def test_type_checkers_find_the_package():
    """In a folder of the path, where PEP 561 has them look, not behind an import hook."""
    code = "import sys; print(*sys.path, sep='\\n')"
    result = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True
    )
    folders = [Path(line, "spacy_rootmind") for line in result.stdout.splitlines()]
    [package, *_] = [folder for folder in folders if folder.is_dir()]
    assert (package / "py.typed").is_file()
    assert {path.stem for path in package.glob("kernel/*.pyi")} >= {"batch", "samplers"}
