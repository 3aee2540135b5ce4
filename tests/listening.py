"""Configs of pipelines in which components listen to a tiny transformer, for either package."""

import json
from pathlib import Path

import spacy
from commandline import train
from conftest import CONFIGS
from parsers import SMALL_MODEL, gold_examples, update
from spacy.util import fix_random_seed, load_model_from_config
from thinc.api import Config

PACKAGES = ("spacy_transformers", "spacy_curated_transformers")
# The width of the encoder's vectors, and how many pieces it takes at once.
WIDTH, MAX_PIECES = 32, 64

# Instead of many steps on a large encoder, few on a tiny one.
QUICK = {
    "training.max_steps": 60,
    "training.eval_frequency": 30,
    "training.optimizer.learn_rate.total_steps": 60,
    "training.optimizer.learn_rate.warmup_steps": 6,
    "training.optimizer.learn_rate.initial_rate": 0.0005,
}


def transformer(package, encoder, window=16, **settings):
    """The section of a transformer whose weights come from a folder.

    Windows overlap; they are of words for the one package, and of pieces for the other.
    """
    if package == "spacy_transformers":
        model = {
            "@architectures": "spacy-transformers.TransformerModel.v3",
            "name": encoder,
            "tokenizer_config": {"use_fast": True},
            "get_spans": {
                "@span_getters": "spacy-transformers.strided_spans.v1",
                "window": window,
                "stride": window * 3 // 4,
            },
        }
        return {"factory": "transformer", "model": {**model, **settings}}
    model = {
        "@architectures": "spacy-curated-transformers.BertTransformer.v1",
        "vocab_size": json.loads((Path(encoder) / "config.json").read_text("utf8"))["vocab_size"],
        "hidden_width": WIDTH,
        "intermediate_width": 64,
        "num_attention_heads": 2,
        "num_hidden_layers": 2,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "max_position_embeddings": MAX_PIECES,
        "model_max_length": MAX_PIECES,
        "piece_encoder": {"@architectures": "spacy-curated-transformers.BertWordpieceEncoder.v1"},
        "with_spans": {
            "@architectures": "spacy-curated-transformers.WithStridedSpans.v1",
            "window": window,
            "stride": window * 3 // 4,
        },
    }
    return {"factory": "curated_transformer", "model": {**model, **settings}}


def loaders(package, encoder):
    """The section [initialize.components] for that transformer."""
    if package == "spacy_transformers":
        return {}
    loader = "spacy-curated-transformers.{}.v1".format
    return {
        "encoder_loader": {"@model_loaders": loader("HFTransformerEncoderLoader"), "name": encoder},
        "piecer_loader": {"@model_loaders": loader("HFPieceEncoderLoader"), "name": encoder},
    }


def listener(package, **settings):
    """The section of a listener."""
    pooling = {"@layers": "reduce_mean.v1"}
    if package == "spacy_transformers":
        name = "spacy-transformers.TransformerListener.v1"
        return {"@architectures": name, "pooling": pooling, **settings}
    name = "spacy-curated-transformers.LastTransformerLayerListener.v1"
    return {"@architectures": name, "pooling": pooling, "width": WIDTH, **settings}


def root_mst(tok2vec, **settings):
    """The parser's section; the encoder gets the whole gradient, which tests compare."""
    model = {**SMALL_MODEL, "grad_factor": 1.0, "tok2vec": tok2vec}
    return {"factory": "root_mst", "model": model, **settings}


def make_config(package, encoder, components=None, **settings):
    """The config of a transformer and what listens to it: the parser unless others are given."""
    config = Config(spacy.blank("en").config)
    config["components"] = {
        "transformer": transformer(package, encoder, **settings),
        **(components or {"root_mst": root_mst(listener(package))}),
    }
    config["nlp"]["pipeline"] = list(config["components"])
    config["initialize"]["components"] = {"transformer": loaders(package, encoder)}
    return config


def make_nlp(config):
    """A pipeline from such a config, not initialized."""
    fix_random_seed(0)
    return load_model_from_config(config, auto_fill=True)


def initialized(config, docs):
    """A pipeline from such a config, initialized on the given Docs; also gives the Examples."""
    nlp = make_nlp(config)
    examples = gold_examples(docs, nlp)
    nlp.initialize(lambda: examples)
    return nlp, examples


def encoder_of(nlp, name="transformer"):
    """The torch module of a transformer."""
    [shim] = [shim for node in nlp.get_pipe(name).model.walk() for shim in node.shims]
    return shim._model


def weights_of(encoder):
    """A copy of a torch module's weights, flat and by name."""
    return {name: value.detach().clone() for name, value in encoder.named_parameters()}


def losses_of(nlp, examples, optimizer=None, steps=15, **settings):
    """The parser's losses while a pipeline learns some examples."""
    optimizer = optimizer or nlp.create_optimizer()
    return [update(nlp, examples, optimizer, **settings)["root_mst"] for _ in range(steps)]


def unchanged(before, encoder):
    """Whether an encoder has the weights that it had."""
    after = weights_of(encoder)
    return all((after[name] == value).all() for name, value in before.items())


def train_shipped(name, encoder, corpus, folder, **settings):
    """Run `spacy train` on a config that ships; returns the folder of the last model."""
    paths = {"paths.train": corpus, "paths.dev": corpus, "paths.encoder": encoder}
    arguments = [f"--{key}={value}" for key, value in {**paths, **QUICK, **settings}.items()]
    return train(CONFIGS / name, folder / "out", *arguments)


def sizes(encoder):
    """Overrides that make the config of curated transformers fit an encoder."""
    found = json.loads((Path(encoder) / "config.json").read_text("utf8"))
    names = {
        "hidden_size": "hidden_width",
        "intermediate_size": "intermediate_width",
        "max_position_embeddings": "max_position_embeddings",
        "num_attention_heads": "num_attention_heads",
        "num_hidden_layers": "num_hidden_layers",
        "vocab_size": "vocab_size",
    }
    own = {theirs: found[name] for name, theirs in names.items()}
    own["model_max_length"] = own["max_position_embeddings"]
    return {f"components.transformer.model.{name}": size for name, size in own.items()}
