"""A tiny transformer, and pipelines that learnt over it."""

import pytest
import spacy
from commandline import write_docs
from conftest import QUICKSTART
from listening import PACKAGES, initialized, make_config
from parsers import read_conllu, update


@pytest.fixture(autouse=True)
def no_hub(monkeypatch):
    """No test, and no process that one starts, asks a hub for anything.

    Each has one thread: on matrices so small, several would wait for one another.
    """
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session")
def gold():
    """A hundred sentences of the quickstart treebank, five a Doc."""
    vocab = spacy.blank("en").vocab
    docs = read_conllu(QUICKSTART / "assets" / "en_quick-ud-train.conllu", vocab, 100)
    return [spacy.tokens.Doc.from_docs(docs[i : i + 5]) for i in range(0, len(docs), 5)]


@pytest.fixture(scope="session")
def corpus(gold, tmp_path_factory):
    """The same as a corpus; the file's path as text."""
    return str(write_docs(tmp_path_factory.mktemp("corpus") / "gold.spacy", gold))


@pytest.fixture(scope="session")
def encoder(gold, tmp_path_factory):
    """The folder of a tiny BERT."""
    pytest.importorskip("transformers.models", reason="needs transformers")
    import torch
    from encoders import write_bert

    torch.set_num_threads(1)
    return write_bert(tmp_path_factory.mktemp("bert"), [doc.text for doc in gold])


@pytest.fixture(scope="session", params=PACKAGES)
def package(request):
    """Either package that brings transformers to spaCy."""
    pytest.importorskip(request.param, reason=f"needs {request.param}")
    return request.param


@pytest.fixture
def config(package, encoder):
    """A tiny transformer and a parser that listens to it."""
    return make_config(package, encoder)


@pytest.fixture(scope="session")
def trained(package, encoder, gold):
    """The same, having learnt the gold Docs; use it, do not change it."""
    nlp, examples = initialized(make_config(package, encoder), gold)
    optimizer = nlp.create_optimizer()
    optimizer.learn_rate = 0.003
    for step in range(60):
        start = 4 * step % len(examples)
        update(nlp, examples[start : start + 4], optimizer, drop=0.0)
    return nlp
