"""What the package says of itself, in every place that says it."""

from importlib.metadata import version

import srsly
from conftest import ROOT

import spacy_rootmind


def test_one_version():
    citation = srsly.read_yaml(ROOT / "CITATION.cff")
    assert citation["version"] == spacy_rootmind.__version__
    assert version("spacy-rootmind") == spacy_rootmind.__version__
