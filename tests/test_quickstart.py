"""The bundled treebank is valid, and the project parses with it."""

import os
import re
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import spacy
from conftest import QUICKSTART, ROOT
from environments import make_installed
from parsers import read_conllu
from spacy.training import Example

from spacy_rootmind.cli.debug import check_examples, compare
from spacy_rootmind.formats.conllu import read_sentences
from spacy_rootmind.formats.conllu_sentence import DEPREL, FORM, HEAD
from spacy_rootmind.formats.lines import lines_of
from spacy_rootmind.trees.checks import is_projective

ASSETS = QUICKSTART / "assets"
SPLITS = ("train", "dev", "test")
PAGE = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf8")
# A text that the pages show.
SHOWN = "Which book did Anna say that she had read?"


@pytest.fixture(scope="module")
def sentences():
    """The sentences of all splits, as they are in the files."""
    paths = (str(ASSETS / f"en_quick-ud-{split}.conllu") for split in SPLITS)
    return [sentence for path in paths for sentence in read(path)]


def read(path):
    return list(read_sentences(path, lines_of(path)))


@pytest.fixture(scope="module")
def findings():
    """The findings of `debug` in each split."""
    vocab = spacy.blank("en").vocab
    found = []
    for path in (ASSETS / f"en_quick-ud-{split}.conllu" for split in SPLITS):
        docs = read_conllu(path, vocab)
        found.append(check_examples(path.name, [Example(doc, doc) for doc in docs]))
    for other in found[1:]:
        compare(found[0], other, learns_boundaries=False)
    return found


def test_treebank_has_no_problems(findings):
    for found in findings:
        assert found.problems == {}
        assert found.n_heads == found.n_words
        assert found.labels["ROOT"] == found.n_sentences


def test_splits_share_no_sentence_with_each_other_or_with_the_input(sentences):
    texts = [sentence.comment("text") for sentence in sentences]
    texts += (ASSETS / "input.txt").read_text(encoding="utf8").splitlines()
    assert len(set(texts)) == len(texts) == 1025
    assert SHOWN in texts[1000:]
    names = [sentence.comment("sent_id") for sentence in sentences]
    assert None not in names
    assert len(set(names)) == len(names)


def test_readme_has_the_counts_of_the_treebank(findings):
    readme = (ASSETS / "README.md").read_text(encoding="utf8")
    for found in findings:
        heads = [
            np.array([-1, *(int(row[HEAD]) for row in sentence.words)])
            for sentence in read(str(ASSETS / found.name))
        ]
        n_crossing = sum(not is_projective(tree) for tree in heads)
        assert n_crossing >= 10
        share = f"{100 * n_crossing / found.n_sentences:.1f} %"
        row = f"| {found.n_sentences} | {found.n_words} | {n_crossing} ({share}) |"
        assert f"| `{found.name}` {row}" in readme
    labels = sum((found.labels for found in findings), Counter())
    labels["root"] = labels.pop("ROOT")
    assert dict(re.findall(r"(?m)^\| ([a-z:]+) \| (\d+) \|$", readme)) == {
        label: str(count) for label, count in labels.items()
    }


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
    [command] = re.findall(r"^```bash\n(.*)\n```$", PAGE, flags=re.MULTILINE)
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
