"""spaCy's undocumented names: there, looked up when they are needed, and in `compat` alone."""

import re
import subprocess
import sys

import pytest
from conftest import ROOT

from spacy_rootmind import compat


@pytest.mark.parametrize("name", compat.MODULES)
def test_spacy_has_the_name(name):
    assert getattr(compat, name) is not None


def test_other_names_are_refused():
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        _ = compat.colour


def test_a_name_that_spacy_removed_breaks_only_what_needs_it(monkeypatch):
    monkeypatch.setitem(compat.MODULES, "TPL_PAGE", "spacy.displacy.removed")
    with pytest.raises(ImportError):
        _ = compat.TPL_PAGE
    assert compat.get_doc_settings


def test_import_needs_no_spacy():
    code = "import sys, spacy_rootmind.compat; print('spacy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_private_modules_of_spacy_are_imported_by_compat_alone():
    found = [
        path.name
        for path in (ROOT / "spacy_rootmind").rglob("*.py")
        if re.search(r"(from|import) spacy(\.\w+)*\._", path.read_text("utf8"))
    ]
    assert not found
