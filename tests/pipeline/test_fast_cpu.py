"""The callback that makes all components faster on a CPU."""

import numpy as np
import pytest
import spacy
from parsers import LISTENER, LISTENING, SMALL_MODEL
from spacy.training import Example
from spacy.util import fix_random_seed, load_model_from_config
from thinc.api import Config

from spacy_rootmind.compat import forward_of
from spacy_rootmind.network.type_cache import TypeCache

CALLBACK = {"@callbacks": "spacy_rootmind.fast_cpu.v1"}


TAGGER = {"@architectures": "spacy.Tagger.v2", "nO": None, "tok2vec": LISTENER}
PARSER = {
    "@architectures": "spacy.TransitionBasedParser.v2",
    "state_type": "parser",
    "extra_state_tokens": False,
    "hidden_width": 8,
    "maxout_pieces": 2,
    "use_upper": True,
    "nO": None,
    "tok2vec": LISTENER,
}
OTHERS = {
    "tok2vec": {"factory": "tok2vec", "model": SMALL_MODEL["tok2vec"]},
    # Without a model.
    "sentencizer": {"factory": "sentencizer"},
    "tagger": {"factory": "tagger", "model": TAGGER},
    "parser": {"factory": "parser", "model": PARSER},
}
ALL = {**OTHERS, "root_mst": {"factory": "root_mst", "model": LISTENING}}
TEXTS = ["The cat saw a dog.", "Which book did Anna read?", ""]


def make_nlp(components, callback=CALLBACK, disabled=()):
    """A pipeline that is not initialized."""
    config = Config(spacy.blank("xx").config)
    config["components"] = components
    config["nlp"].update(
        pipeline=list(components), disabled=list(disabled), after_pipeline_creation=callback
    )
    fix_random_seed(0)
    return load_model_from_config(config, auto_fill=True)


def initialize(nlp, docs):
    """Initialize on sentences of the bundled treebank; returns them as Examples."""
    examples = [Example(nlp.make_doc(doc.text), doc) for doc in docs[:20]]
    nlp.initialize(lambda: examples)
    return examples


def libraries(nlp):
    """Whether a component's layers use BLIS; those with both are listed with both.

    Embeddings of types that are kept do, and are left out.
    """
    models = {name: pipe.model for name, pipe in nlp.components if hasattr(pipe, "model")}
    return {
        name: {node.ops.use_blis for node in model.walk() if node.id not in embeddings_in(model)}
        for name, model in models.items()
    }


def embeddings_in(model):
    """Ids of layers of embeddings that keep the vectors of types."""
    return {
        layer.id
        for node in model.walk()
        if isinstance(forward_of(node), TypeCache)
        for layer in node.walk()
    }


def test_all_components_use_numpy_with_the_callback_and_the_parser_without(
    quickstart_docs, tmp_path
):
    found = libraries(make_nlp(ALL, callback=None))
    assert found == {"tok2vec": {True}, "tagger": {True}, "parser": {True}, "root_mst": {False}}
    nlp = make_nlp(ALL, disabled=["tagger"])
    for _ in range(2):
        assert libraries(nlp) == {name: {False} for name in ALL if name != "sentencizer"}
        initialize(nlp, quickstart_docs)
    nlp.to_disk(tmp_path)
    loaded = spacy.load(tmp_path)
    assert libraries(loaded) == libraries(nlp)
    parses = [[doc.to_json() for doc in own.pipe(TEXTS)] for own in (loaded, nlp)]
    assert parses[0] == parses[1]
    # Sourced components as well, but not those that are added later.
    other = make_nlp({name: {"source": str(tmp_path)} for name in ("tok2vec", "tagger")})
    other.add_pipe("parser")
    assert libraries(other) == {"tok2vec": {False}, "tagger": {False}, "parser": {True}}


def test_training_is_that_with_blis(quickstart_docs):
    """Losses of some steps, and vectors and tags after them, agree to a few digits."""
    losses, outputs = [], []
    for callback in (CALLBACK, None):
        nlp = make_nlp(ALL, callback)
        examples = initialize(nlp, quickstart_docs)
        losses.append([nlp.update(examples[i : i + 5], drop=0.0) for i in (0, 5, 10)])
        docs = list(nlp.pipe(TEXTS))
        outputs.append([nlp.get_pipe(name).model.predict(docs) for name in ("tok2vec", "tagger")])
    for own, expected in zip(*losses, strict=True):
        assert set(own) == {"tok2vec", "tagger", "parser", "root_mst"}
        assert own == pytest.approx(expected, rel=1e-3)
    for own, expected in zip(*outputs, strict=True):
        for a, b in zip(own, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-2, atol=1e-3)


def libraries_after_replacing(nlp, *names):
    """The libraries of components whose listeners are replaced, once they have been used."""
    for name in names:
        nlp.replace_listeners("tok2vec", name, ["model.tok2vec"])
    list(nlp.pipe(TEXTS))
    found = libraries(nlp)
    return [found[name] for name in names]


def test_all_components_keep_numpy_where_listeners_are_replaced(quickstart_docs, tmp_path):
    nlp = make_nlp(ALL)
    initialize(nlp, quickstart_docs)
    nlp.to_disk(tmp_path / "shared")
    names = ("tagger", "parser", "root_mst")
    assert libraries_after_replacing(nlp, *names) == [{False}] * 3
    nlp.to_disk(tmp_path / "replaced")
    assert libraries(spacy.load(tmp_path / "replaced")) == libraries(nlp)
    # With components sourced one by one, as in a config.
    sourced = {"source": str(tmp_path / "shared"), "replace_listeners": ["model.tok2vec"]}
    nlp = make_nlp({"tagger": sourced, "root_mst": sourced})
    assert libraries(nlp) == {"tagger": {False}, "root_mst": {False}}
    # As in Python, from a pipeline with the callback.
    nlp = spacy.load(tmp_path / "shared")
    other = spacy.blank("xx", vocab=nlp.vocab)
    for name in ("tok2vec", "tagger", "root_mst"):
        other.add_pipe(name, source=nlp)
    assert libraries_after_replacing(other, "tagger", "root_mst") == [{False}] * 2
