"""Other people's packages install next to spaCy, and their tests run."""

import os
import re
import site
import subprocess
import sys

import pytest
import spacy
from conftest import ROOT

PACKAGES = [
    *("negspacy", "textacy", "pytextrank", "textdescriptives", "spacy-conll", "errant"),
    *("clause-segmenter", "PyRuSH"),
]


@pytest.mark.slow
def test_packages_install_next_to_spacy(tmp_path):
    """In an environment of their own above this one, and with NumPy 1, as one of them needs it."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    [packages] = (tmp_path / "venv").glob("lib/python*/site-packages")
    (packages / "below.pth").write_text("\n".join(site.getsitepackages()), encoding="utf8")
    python = tmp_path / "venv" / "bin" / "python"
    constraints = tmp_path / "constraints.txt"
    constraints.write_text(f"spacy=={spacy.__version__}\n", encoding="utf8")
    subprocess.run([python, "-m", "pip", "install", "-q", "-c", constraints, *PACKAGES], check=True)
    done = subprocess.run(
        [python, "-m", "pytest", "-q", "-n", "0", ROOT / "tests" / "third_party"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\b8 passed\b(?!.* skipped)", done.stdout), done.stdout
