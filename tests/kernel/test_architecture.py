"""The page on the kernel names what is there."""

import re

import pytest
from conftest import ROOT

PAGE = ROOT / "spacy_rootmind" / "kernel" / "ARCHITECTURE.md"


def named(text):
    return set(re.findall(r"`(\w+)`", text))


def test_every_module_has_a_row_and_every_row_a_module():
    if not (ROOT / "cython_src").is_dir():
        pytest.skip("needs the sources")
    rows = re.findall(r"^\| (`.*?`) \|", PAGE.read_text(encoding="utf8"), flags=re.MULTILINE)
    modules = {path.stem for path in ROOT.glob("cython_src/*.pyx")} - {"doc_trees"}
    assert named(" ".join(rows)) == modules


def test_files_that_the_page_names_are_there():
    if not (ROOT / "cython_src").is_dir():
        pytest.skip("needs the sources")
    folders = [ROOT, ROOT / "cython_src", PAGE.parent, ROOT / "spacy_rootmind"]
    names = set(re.findall(r"[\w/]+\.(?:pxd|h|py)\b", PAGE.read_text(encoding="utf8")))
    names -= {"kernel/NAME.pxd", "NAME.py"}
    assert len(names) > 5
    assert {name for name in names if not any((f / name).exists() for f in folders)} == set()
