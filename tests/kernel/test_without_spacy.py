"""Tests of arrays run where spaCy and Thinc are not installed: `nox -s wheel` runs them so."""

import re

from conftest import ROOT

# Labelled trees are tested with a parser.
WITH_PARSERS = {"test_labelled.py"}


def test_their_modules_import_neither():
    found = [
        path.name
        for folder in ("kernel", "trees")
        for path in (ROOT / "tests" / folder).glob("*.py")
        if re.search(
            r"^(from|import) (spacy|thinc|parsers)\b", path.read_text("utf8"), re.MULTILINE
        )
    ]
    assert set(found) == WITH_PARSERS
