"""The configs that ship, through spaCy's own commands."""

import pytest
import spacy
from conftest import CONFIGS, QUICKSTART
from spacy.cli.init_config import fill_config
from spacy.cli.train import train
from spacy.tokens import DocBin
from spacy.util import load_config

SHIPPED = [*sorted(CONFIGS.glob("*.cfg")), QUICKSTART / "configs" / "config.cfg"]
# Packages that the configs over transformers need as well.
PACKAGES = {"transformer": "spacy_transformers", "curated": "spacy_curated_transformers"}


@pytest.fixture
def corpus(quickstart_docs, tmp_path):
    path = tmp_path / "corpus.spacy"
    DocBin(docs=quickstart_docs[:40]).to_disk(path)
    return str(path)


def settings_in(path):
    """The lines of a config without comments."""
    lines = path.read_text("utf8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_config_is_what_spacy_writes(path, tmp_path):
    """Word for word what `spacy init fill-config` writes, comments excepted."""
    if path.stem in PACKAGES:
        pytest.importorskip(PACKAGES[path.stem], reason=f"needs {PACKAGES[path.stem]}")
    fill_config(tmp_path / "filled.cfg", path, silent=True)
    assert settings_in(path) == settings_in(tmp_path / "filled.cfg")
    training = load_config(path, interpolate=False)["training"]
    rate = training["optimizer"]["learn_rate"]
    assert not isinstance(rate, dict) or rate["total_steps"] == training["max_steps"]


def test_linear_parser_of_its_config_trains_and_loads(corpus, tmp_path):
    overrides = {"paths.train": corpus, "paths.dev": corpus, "training.max_epochs": 2}
    train(CONFIGS / "linear.cfg", tmp_path / "out", overrides=overrides)
    nlp = spacy.load(tmp_path / "out" / "model-last")
    assert nlp.meta["performance"]["dep_uas"] > 0.5
    doc = nlp("The cat saw a dog.")
    assert sum(token.head.i == token.i for token in doc) == 1
