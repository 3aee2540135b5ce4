"""The English pipeline in the repository: its package, what it says of itself, and its parses."""

import re
import shlex
import sys

import pytest
import spacy
import srsly
from commandline import run_module
from conftest import PIPELINE, ROOT
from spacy.tokens import DocBin
from spacy.training import Corpus

PROJECT = ROOT / "projects" / "web"
README = ROOT / "README.md"
sys.path.insert(0, str(PROJECT / "scripts"))
sys.path.insert(0, str(ROOT / "projects" / "ud" / "scripts"))
import make_package  # noqa: E402

TEXT = "Which book did Anna say that she had read? She saw the man with the telescope."


@pytest.fixture(scope="module")
def nlp(web_pipeline):
    return spacy.load(web_pipeline)


@pytest.fixture(scope="module")
def meta(web_pipeline):
    return srsly.read_json(web_pipeline / "meta.json")


# --- the package -------------------------------------------------------------------------------


def test_package_is_small(web_pipeline):
    assert make_package.size_of(web_pipeline) < 8_000_000


def test_package_has_licence_and_attribution(web_pipeline, meta):
    assert meta["license"] == "CC BY-SA 4.0"
    treebank, *encoders = meta["sources"]
    assert "English Web Treebank" in treebank["name"]
    assert treebank["license"] == "CC BY-SA 4.0"
    assert [encoder["name"] for encoder in encoders] == ["all-MiniLM-L6-v2", "all-mpnet-base-v2"]
    assert {encoder["license"] for encoder in encoders} == {"Apache License 2.0"}
    for folder in (PIPELINE, web_pipeline):
        licence = (folder / "LICENSE").read_text(encoding="utf8")
        assert licence.startswith("Attribution-ShareAlike 4.0 International")
        readme = (folder / "README.md").read_text(encoding="utf8")
        assert "The Board of Trustees of The Leland Stanford Junior University" in readme
        assert "https://creativecommons.org/licenses/by-sa/4.0/" in readme
        assert all(encoder["name"] in readme for encoder in encoders)


def test_tokens_of_which_the_treebank_has_no_examples(nlp):
    doc = nlp.make_doc("w- well, #rain et al., (#rain) ======")
    expected = "w- well , #rain et al. , ( #rain ) ======"
    assert " ".join(token.text for token in doc) == expected


def test_package_has_no_path_of_a_machine(web_pipeline):
    for path in PIPELINE.rglob("*"):
        if path.suffix in (".json", ".cfg", ".md", ".py"):
            assert not re.search(r"[\"' =]/(tmp|home|root|work|Users)\b", path.read_text("utf8"))


# --- its parses --------------------------------------------------------------------------------


def test_whitespace_is_tagged_as_in_spacys_pipelines(nlp):
    """It had tags of words, most often of nouns and punctuation."""
    text = "".join(
        TEXT.replace(" ", space) for space in ("  ", "\n\n", " \t ", "\n  ", "\u00a0\u00a0")
    )
    doc = nlp(text)
    spaces = [token for token in doc if token.is_space]
    assert len(spaces) > 60
    assert {(token.tag_, token.pos_, str(token.morph)) for token in spaces} == {
        ("_SP", "SPACE", "")
    }
    words = {token.pos_ for token in doc if not token.is_space}
    assert "SPACE" not in words
    assert "NOUN" in words


def test_readme_shows_what_is_printed(web_pipeline, tmp_path):
    page = README.read_text(encoding="utf8")
    shown = re.search(
        r"^## Quickstart.*?&& python -m ([^\n]*)\n```$.*?^```\n(.*?)^```$",
        page,
        flags=re.DOTALL | re.MULTILINE,
    )
    arguments = shlex.split(shown[1].replace(make_package.NAME, shlex.quote(str(web_pipeline))))
    result = run_module(*arguments, cwd=tmp_path)
    assert result.stdout.decode().strip("\n") == shown[2].strip("\n")


@pytest.mark.workflow
def test_scores_are_those_of_the_weights(nlp, meta, ud_folder, tmp_path):
    import convert
    from treebank import read_sentences, space_ends

    path = ud_folder / "UD_English-EWT" / "en_ewt-ud-test.conllu"
    sentences = space_ends({"test": read_sentences([path])})["test"]
    docs, _ = convert.convert_split(sentences, convert.ORTHOGRAPHIC, nlp, by_paragraph=True)
    DocBin(docs=docs).to_disk(tmp_path / "test.spacy")
    found = nlp.evaluate(list(Corpus(tmp_path / "test.spacy")(nlp)))
    for name in make_package.FIGURES:
        if meta["performance"].get(name) is not None:
            assert found[name] == pytest.approx(meta["performance"][name], abs=0.002), name
