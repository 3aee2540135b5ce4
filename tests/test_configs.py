"""The configs that ship, through spaCy's own commands."""

from pathlib import Path

import pytest
import spacy
from conftest import QUICKSTART, ROOT
from spacy.cli.train import train
from spacy.tokens import DocBin
from spacy.util import load_config, load_model_from_config

CONFIGS = [ROOT / "configs" / "cpu.cfg", QUICKSTART / "configs" / "config.cfg"]


@pytest.fixture
def corpus(quickstart_docs, tmp_path):
    path = tmp_path / "corpus.spacy"
    DocBin(docs=quickstart_docs[:40]).to_disk(path)
    return str(path)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.parent.parent.name)
def test_config_is_complete(path):
    config = load_config(path)
    nlp = load_model_from_config(config, auto_fill=False)
    assert nlp.pipe_names == ["root_mst"]
    assert (
        config["training"]["max_steps"]
        == (config["training"]["optimizer"]["learn_rate"]["total_steps"])
    )


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.parent.parent.name)
def test_config_trains_and_loads(path, corpus, tmp_path):
    overrides = {
        "paths.train": corpus,
        "paths.dev": corpus,
        "training.max_steps": 4,
        "training.eval_frequency": 2,
        "training.optimizer.learn_rate.total_steps": 4,
    }
    train(path, tmp_path / "out", overrides=overrides)
    nlp = spacy.load(tmp_path / "out" / "model-last")
    doc = nlp("The cat saw a dog.")
    assert sum(token.head.i == token.i for token in doc) == 1
    assert len(list(doc.sents)) == 1


def test_config_with_a_shared_tok2vec_trains(corpus, tmp_path):
    config = load_config(CONFIGS[0])
    tok2vec = dict(config["components"]["root_mst"]["model"]["tok2vec"])
    tok2vec["embed"] = {**tok2vec["embed"], "width": 32}
    tok2vec["encode"] = {**tok2vec["encode"], "width": 32, "depth": 1}
    config["nlp"]["pipeline"] = ["tok2vec", "tagger", "root_mst"]
    config["components"]["tok2vec"] = {"factory": "tok2vec", "model": tok2vec}
    listener = {"@architectures": "spacy.Tok2VecListener.v1", "width": 32, "upstream": "tok2vec"}
    config["components"]["tagger"] = {
        "factory": "tagger",
        "model": {"@architectures": "spacy.Tagger.v2", "nO": None, "tok2vec": listener},
    }
    config["components"]["root_mst"]["model"]["tok2vec"] = listener
    config["training"]["max_steps"] = 3
    config["paths"].update(train=corpus, dev=corpus)
    path = Path(tmp_path / "shared.cfg")
    config.to_disk(path)
    train(path, tmp_path / "out")
    nlp = spacy.load(tmp_path / "out" / "model-last")
    before = [(token.head.i, token.dep_) for token in nlp("The cat saw a dog.")]
    nlp.replace_listeners("tok2vec", "root_mst", ["model.tok2vec"])
    assert [(token.head.i, token.dep_) for token in nlp("The cat saw a dog.")] == before
