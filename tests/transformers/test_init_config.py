"""`init-config` for a transformer under several components."""

import pytest
import spacy
from listening import QUICK, transformer
from spacy.cli.train import train
from spacy.util import load_config

from spacy_rootmind.cli.init_config import ConfigOptions, init_config

pytestmark = pytest.mark.filterwarnings(
    # spacy-curated-transformers makes a number of an array of one.
    "ignore:Conversion of an array with ndim:DeprecationWarning"
)
OPTIONS = {"spacy_transformers": "transformer", "spacy_curated_transformers": "curated"}


def test_config_trains_components_over_one_encoder(package, encoder, corpus, tmp_path):
    pipeline = ["tagger", "root_mst", "morphologizer"]
    path = tmp_path / "own.cfg"
    init_config(path, ConfigOptions("en", ",".join(pipeline), **{OPTIONS[package]: encoder}))
    # Sizes of the tiny encoder.
    config = load_config(path, interpolate=False)
    config["components"]["transformer"]["model"].update(transformer(package, encoder)["model"])
    config["paths"].update(train=corpus, dev=corpus)
    config["system"]["gpu_allocator"] = None
    config.to_disk(path)
    steps = {"training.max_steps": 2, "training.eval_frequency": 1}
    train(path, tmp_path / "out", overrides={**QUICK, **steps})
    nlp = spacy.load(tmp_path / "out" / "model-last")
    # The last one tags whitespace.
    assert nlp.pipe_names == ["transformer", *pipeline, "attribute_ruler"]
    assert len(nlp.get_pipe("transformer").listeners) == len(pipeline)
    assert nlp.get_pipe("root_mst").temperature != 1.0
    doc = nlp("The cat saw a dog.")
    assert doc.has_annotation("TAG")
    assert doc.has_annotation("DEP")
