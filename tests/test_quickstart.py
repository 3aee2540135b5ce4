"""The bundled treebank is valid, and the project parses with it."""

import os
import re
import shutil
from pathlib import Path

import pytest
from conftest import QUICKSTART, blocks
from environments import make_installed

from spacy_rootmind.formats.conllu import read_sentences
from spacy_rootmind.formats.conllu_sentence import DEPREL, FORM, HEAD
from spacy_rootmind.formats.lines import lines_of


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """The project's folder after the command of the page, and what that printed.

    ROOTMIND_QUICKSTART names the file to which it was printed, if it was run here before. Otherwise
    it runs where nothing but spacy-rootmind is installed, in a copy.
    """
    printed = os.environ.get("ROOTMIND_QUICKSTART")
    if printed is not None:
        return QUICKSTART, Path(printed).read_text(encoding="utf8")
    environment = make_installed(tmp_path_factory.mktemp("environment"))
    copy = tmp_path_factory.mktemp("checkout") / "projects" / "quickstart"
    made = shutil.ignore_patterns("corpus", "training", "metrics", "output", "project.lock")
    shutil.copytree(QUICKSTART, copy, ignore=made)
    command = blocks("docs/tutorial.md", "bash")[0]
    return copy, environment.shell(command, cwd=copy.parents[1])


def heads_and_labels(path):
    """The text, and head and label of each word, of each sentence of a CoNLL-U file."""
    return {
        sentence.comment("text"): [(row[FORM], row[HEAD], row[DEPREL]) for row in sentence.words]
        for sentence in read_sentences(str(path), lines_of(str(path)))
    }


@pytest.mark.workflow
def test_all_bundled_sentences_are_parsed_right(ran):
    folder, _ = ran
    parsed = heads_and_labels(folder / "output" / "parsed.conllu")
    expected = heads_and_labels(Path(__file__).with_name("quickstart_parses.conllu"))
    assert len(expected) == 25
    assert parsed == expected


@pytest.mark.workflow
def test_project_ends_with_what_it_wrote_and_no_warning(ran):
    _, printed = ran
    assert re.search(r"Wrote 25 texts, 25 sentences, .* to output/parsed.conllu .*\s*$", printed)
    assert "warning" not in printed.lower()
