"""Tests of arrays run where spaCy and Thinc are not installed."""

import re
import subprocess
import sys

from conftest import ROOT

# Labelled trees are tested with a parser.
WITH_PARSERS = {"test_labelled.py"}
RUN = """
import sys
sys.modules["spacy"] = sys.modules["thinc"] = None
import pytest
sys.exit(pytest.main(["-q", "-n", "0", "-p", "no:cacheprovider", *sys.argv[1:]]))
"""


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


def test_they_pass():
    files = ["tests/kernel/test_boundary.py", "tests/trees/test_tree_checks.py"]
    # They run as a whole elsewhere.
    command = [sys.executable, "-c", RUN, "--every", "4", *files]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\d+ passed", done.stdout)
