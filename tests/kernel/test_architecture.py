"""The page on the kernel names every module, and only files that exist."""

import re

import pytest
from conftest import ROOT

PAGE = ROOT / "spacy_rootmind" / "kernel" / "ARCHITECTURE.md"

pytestmark = pytest.mark.skipif(not (ROOT / "cython_src").is_dir(), reason="needs the sources")


def named(text):
    return set(re.findall(r"`(\w+)`", text))


def test_every_module_has_a_row_and_every_row_a_module():
    rows = re.findall(r"^\| (`.*?`) \|", PAGE.read_text(encoding="utf8"), flags=re.MULTILINE)
    modules = {path.stem for path in ROOT.glob("cython_src/*.pyx")} - {"doc_trees"}
    assert named(" ".join(rows)) == modules


def test_files_that_the_page_names_are_there():
    folders = [ROOT, ROOT / "cython_src", PAGE.parent, ROOT / "spacy_rootmind"]
    names = set(re.findall(r"[\w/]+\.(?:pxd|h|py)\b", PAGE.read_text(encoding="utf8")))
    names -= {"kernel/NAME.pxd", "NAME.py"}
    assert len(names) > 5
    assert {name for name in names if not any((f / name).exists() for f in folders)} == set()
