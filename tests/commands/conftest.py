"""Corpora, and pipelines that `spacy train` made of them."""

import pytest
import spacy
from commandline import TOK2VEC, root_mst, tagger, train, write_config, write_docs
from conftest import QUICKSTART
from parsers import LISTENER, read_conllu

ASSETS = QUICKSTART / "assets"


@pytest.fixture(scope="session")
def corpora(tmp_path_factory):
    """A folder with train.spacy and dev.spacy, one sentence a Doc."""
    folder = tmp_path_factory.mktemp("corpora")
    vocab = spacy.blank("en").vocab
    for name, limit in (("train", 120), ("dev", 40)):
        docs = read_conllu(ASSETS / f"en_quick-ud-{name}.conllu", vocab, limit)
        write_docs(folder / f"{name}.spacy", docs)
    return folder


@pytest.fixture(scope="session")
def plain_config(corpora, tmp_path_factory):
    """The config of a pipeline that is nothing but the parser."""
    path = tmp_path_factory.mktemp("plain") / "plain.cfg"
    return write_config(path, {"root_mst": root_mst()}, corpora, steps=80)


@pytest.fixture(scope="session")
def plain(plain_config):
    """The folder of a trained pipeline that is nothing but the parser."""
    return train(plain_config, plain_config.parent / "out", "--gpu-id", "-1")


@pytest.fixture(scope="session")
def shared_config(corpora, tmp_path_factory):
    """The config of a pipeline in which a tagger and the parser listen to the same vectors."""
    path = tmp_path_factory.mktemp("shared") / "shared.cfg"
    components = {
        "tok2vec": TOK2VEC,
        "tagger": tagger(LISTENER),
        "root_mst": root_mst(LISTENER),
    }
    return write_config(path, components, corpora, steps=80)


@pytest.fixture(scope="session")
def shared(shared_config):
    """The folder of a trained pipeline in which a tagger and the parser share their vectors."""
    return train(shared_config, shared_config.parent / "out")
