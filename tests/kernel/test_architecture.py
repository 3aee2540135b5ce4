"""The page on the kernel names what is there."""

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


# What nearly all use, and what holds inline functions alone.
SHARED = {"batch", "decode_batch", "interrupt", "simd", "random", "room", "heap", "chart"}


def called(module):
    """The modules of algorithms of which a module calls functions; types begin in capitals."""
    text = (ROOT / "cython_src" / f"{module}.pyx").read_text(encoding="utf8")
    lines = r"^from spacy_rootmind\.kernel\.(\w+) cimport (\([^)]*\)|.*)$"
    return {
        other
        for other, names in re.findall(lines, text, flags=re.MULTILINE)
        if other not in SHARED and re.search(r"\b(?!score_t\b)[a-z]\w* *(,|as\b|$|\))", names)
    }


def test_rows_say_what_each_module_calls():
    rows = re.findall(
        r"^\| (`.*?`) \|.*\| (.*?) ?\|$", PAGE.read_text(encoding="utf8"), re.MULTILINE
    )
    wrong = {}
    for modules, calls in rows:
        for module in named(modules):
            if named(calls) != called(module):
                wrong[module] = called(module)
    assert wrong == {}
