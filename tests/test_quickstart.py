"""The bundled treebank is valid, and the project parses with it."""

import os
import re
from pathlib import Path

import pytest
from commandline import sentences_in
from conftest import QUICKSTART

from spacy_rootmind.formats.conllu_sentence import DEPREL, FORM, HEAD


def heads_and_labels(path):
    """The text, and head and label of each word, of each sentence of a CoNLL-U file."""
    return {
        sentence.comment("text"): [(row[FORM], row[HEAD], row[DEPREL]) for row in sentence.words]
        for sentence in sentences_in(path)
    }


@pytest.mark.workflow
def test_project_parses_all_bundled_sentences_right_without_a_warning():
    """ROOTMIND_QUICKSTART names the file of what the command of the page printed: `nox`."""
    if "ROOTMIND_QUICKSTART" not in os.environ:
        pytest.skip("runs in `nox -s quickstart`")
    parsed = heads_and_labels(QUICKSTART / "output" / "parsed.conllu")
    expected = heads_and_labels(Path(__file__).with_name("quickstart_parses.conllu"))
    assert len(expected) == 25
    assert parsed == expected
    printed = Path(os.environ["ROOTMIND_QUICKSTART"]).read_text(encoding="utf8")
    assert re.search(
        r"Wrote 25 documents, 25 sentences, .* to output/parsed.conllu .*\s*$", printed
    )
    assert "warning" not in printed.lower()
