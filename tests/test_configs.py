"""The configs that ship, through spaCy's own commands."""

from pathlib import Path

import pytest
import spacy
import srsly
from commandline import spacy_command
from conftest import QUICKSTART, ROOT
from spacy.cli.init_config import fill_config
from spacy.cli.train import train
from spacy.tokens import DocBin
from spacy.training import Example
from spacy.util import load_config, load_model_from_config

from spacy_rootmind.pipeline.attributes import (
    attributes_read,
    require_annotated_vectors,
    unset_attributes,
)

CONFIGS = [ROOT / "configs" / "cpu.cfg", QUICKSTART / "configs" / "config.cfg"]
FEATURES = ROOT / "configs" / "features.cfg"
LINEAR = ROOT / "configs" / "linear.cfg"
# What the configs over transformers need as well.
PACKAGES = {"transformer": "spacy_transformers", "curated": "spacy_curated_transformers"}


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


def settings_in(path):
    """The lines of a config but for comments."""
    lines = path.read_text("utf8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


@pytest.mark.parametrize(
    "name", ["cpu", "distillation", "features", "linear", "pipeline", "transformer", "curated"]
)
def test_config_is_what_spacy_writes(name, tmp_path):
    if name in PACKAGES:
        pytest.importorskip(PACKAGES[name], reason=f"needs {PACKAGES[name]}")
    fill_config(tmp_path / "filled.cfg", ROOT / "configs" / f"{name}.cfg", silent=True)
    assert settings_in(ROOT / "configs" / f"{name}.cfg") == settings_in(tmp_path / "filled.cfg")


@pytest.mark.parametrize(
    "path", [*CONFIGS, FEATURES], ids=lambda path: f"{path.parent.parent.name}-{path.stem}"
)
def test_config_trains_and_loads(path, corpus, tmp_path):
    overrides = {
        "paths.train": corpus,
        "paths.dev": corpus,
        "training.max_steps": 2,
        "training.eval_frequency": 2,
        "training.optimizer.learn_rate.total_steps": 2,
    }
    train(path, tmp_path / "out", overrides=overrides)
    nlp = spacy.load(tmp_path / "out" / "model-last")
    doc = nlp("The cat saw a dog.")
    assert sum(token.head.i == token.i for token in doc) == 1
    assert len(list(doc.sents)) == 1


def test_linear_parser_of_its_config_trains_and_loads(corpus, tmp_path):
    overrides = {"paths.train": corpus, "paths.dev": corpus, "training.max_epochs": 2}
    train(LINEAR, tmp_path / "out", overrides=overrides)
    nlp = spacy.load(tmp_path / "out" / "model-last")
    assert nlp.meta["performance"]["dep_uas"] > 0.5
    doc = nlp("The cat saw a dog.")
    assert sum(token.head.i == token.i for token in doc) == 1


def test_features_are_predicted_by_the_components_of_their_config():
    config = load_config(FEATURES)
    nlp = load_model_from_config(config, auto_fill=False)
    assert nlp.pipe_names == ["tok2vec", "tagger", "morphologizer", "root_mst"]
    read = attributes_read(nlp.get_pipe("root_mst").model)
    assert read == ["TAG", "POS", "MORPH"]
    assert list(unset_attributes(nlp, "root_mst", read)) == []
    require_annotated_vectors(nlp, "root_mst", read)


def test_spacy_debugs_the_parser_of_a_config_with_features(corpus, tmp_path):
    """It updates the parser alone, without the components that predict its features."""
    arguments = ["--paths.train", corpus, "--paths.dev", corpus]
    printed = spacy_command("debug", "model", FEATURES, "root_mst", *arguments, cwd=tmp_path)
    assert "model looks good" in printed


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


def test_init_labels_writes_what_training_reads(corpus, tmp_path):
    overrides = {"paths.train": corpus, "paths.dev": corpus}
    arguments = [f"--{name}={value}" for name, value in overrides.items()]
    spacy_command("init", "labels", CONFIGS[0], tmp_path, *arguments, cwd=tmp_path)
    labels = srsly.read_json(tmp_path / "root_mst.json")
    assert labels["root_label"] == "ROOT"
    assert "nsubj" in labels["labels"]
    config = load_config(CONFIGS[0])
    config["training"]["max_steps"] = 1
    config["paths"].update(train=corpus, dev=corpus)
    config["initialize"]["components"] = {
        "root_mst": {
            "labels": {"@readers": "spacy.read_labels.v1", "path": str(tmp_path / "root_mst.json")}
        }
    }
    config.to_disk(tmp_path / "labelled.cfg")
    train(tmp_path / "labelled.cfg", tmp_path / "out")
    nlp = spacy.load(tmp_path / "out" / "model-last")
    assert nlp.get_pipe("root_mst").label_data == labels


def test_training_goes_on_from_a_saved_model(corpus, tmp_path):
    base = {"paths.train": corpus, "paths.dev": corpus, "training.max_steps": 2}
    train(CONFIGS[0], tmp_path / "first", overrides=base)
    config = load_config(CONFIGS[0])
    config["components"]["root_mst"] = {"source": str(tmp_path / "first" / "model-last")}
    config.to_disk(tmp_path / "again.cfg")
    train(tmp_path / "again.cfg", tmp_path / "second", overrides=base)
    first = spacy.load(tmp_path / "first" / "model-last").get_pipe("root_mst")
    second = spacy.load(tmp_path / "second" / "model-last").get_pipe("root_mst")
    assert second.labels == first.labels
    assert second.model.to_bytes() != first.model.to_bytes()


def test_resume_training_makes_an_optimizer(corpus, tmp_path):
    overrides = {"paths.train": corpus, "paths.dev": corpus, "training.max_steps": 1}
    train(CONFIGS[0], tmp_path / "out", overrides=overrides)
    nlp = spacy.load(tmp_path / "out" / "model-last")
    optimizer = nlp.resume_training()
    doc = next(iter(DocBin().from_disk(corpus).get_docs(nlp.vocab)))
    assert nlp.update([Example(nlp.make_doc(doc.text), doc)], sgd=optimizer)["root_mst"] > 0.0
