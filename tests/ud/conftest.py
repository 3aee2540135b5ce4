"""A made-up treebank, and a checkout to run the project in."""

import shutil

import pytest
import spacy
import srsly
from conftest import QUICKSTART
from parsers import read_conllu
from ud_treebanks import PROJECT, write_treebank


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """A made-up treebank's folder, UD_Made-Up, and the numbers of its tokens."""
    folder = tmp_path_factory.mktemp("treebanks") / "UD_Made-Up"
    return folder, write_treebank(folder)


@pytest.fixture(scope="session")
def corpora(made, tmp_path_factory):
    """The made-up treebank in both kinds of words."""
    # On the path since `ud_treebanks` was imported.
    from convert import WORDS, convert

    folder = tmp_path_factory.mktemp("corpora")
    for words in WORDS:
        convert(made[0], folder / words, words, "auto")
    return folder


@pytest.fixture(scope="session")
def checkout(tmp_path_factory):
    """A checkout that commands of the project may write to; returns the project's folder.

    It has a workflow that leaves out what most tests do not ask for.
    """
    project = tmp_path_factory.mktemp("checkout") / "projects" / "ud"
    shutil.copytree(PROJECT / "scripts", project / "scripts")
    config = srsly.read_yaml(PROJECT / "project.yml")
    config["workflows"]["scored"] = ["fetch", "convert", "train", "evaluate"]
    srsly.write_yaml(project / "project.yml", config)
    return project


@pytest.fixture(scope="session")
def sentences():
    """Texts of the quickstart treebank, for a tokenizer to learn its pieces from."""
    path = QUICKSTART / "assets" / "en_quick-ud-train.conllu"
    return [doc.text for doc in read_conllu(path, spacy.blank("xx").vocab, 100)]


@pytest.fixture(scope="session")
def bert(sentences, tmp_path_factory):
    """The folder of a tiny BERT with random weights, as text."""
    pytest.importorskip("transformers.models", reason="needs transformers")
    import torch
    from encoders import write_bert

    torch.set_num_threads(1)
    return write_bert(tmp_path_factory.mktemp("bert"), sentences)
