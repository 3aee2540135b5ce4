"""Weights in half precision on disk: a small file, nearly the same numbers, single precision."""

import numpy as np
import pytest
import spacy
from parsers import LISTENING, SMALL_MODEL, arcs_of, gold_examples, train
from spacy.util import fix_random_seed, load_model_from_config
from thinc.api import Config

from spacy_rootmind import configure
from spacy_rootmind.network.half_precision import build_half_precision

TOK2VEC = {
    "@architectures": "spacy_rootmind.HalfPrecision.v1",
    "model": SMALL_MODEL["tok2vec"],
}


TEXT = "The teacher that she met gave the boy a book."


@pytest.fixture(scope="module")
def nlp(quickstart_docs):
    """A pipeline that has learnt a little, and has its shared token vectors in half precision."""
    fix_random_seed(0)
    nlp = spacy.blank("xx")
    nlp.add_pipe("tok2vec", config={"model": TOK2VEC})
    nlp.add_pipe("root_mst", config={"model": LISTENING})
    return train(nlp, gold_examples(quickstart_docs[:40], nlp), steps=6)


def weights_of(model):
    return [
        node.get_param(name)
        for node in model.walk()
        for name in node.param_names
        if node.has_param(name)
    ]


def parse(nlp):
    """Heads, labels and probabilities."""
    configure(nlp, confidence=True)
    doc = nlp(TEXT)
    return arcs_of(doc), [t._.head_prob for t in doc]


@pytest.mark.parametrize("way", ["folder", "bytes"])
def test_pipeline_is_read_as_it_was_rounded(way, nlp, tmp_path):
    before = weights_of(nlp.get_pipe("tok2vec").model)
    if way == "folder":
        nlp.to_disk(tmp_path)
        size = (tmp_path / "tok2vec" / "model").stat().st_size
        assert size < 2.2 * sum(weights.size for weights in before)
        read = spacy.load(tmp_path)
    else:
        read = load_model_from_config(Config(nlp.config).copy()).from_bytes(nlp.to_bytes())
    after = weights_of(read.get_pipe("tok2vec").model)
    assert len(before) == len(after) >= 6
    for old, new in zip(before, after, strict=True):
        assert new.dtype == "float32"
        np.testing.assert_array_equal(new, old.astype("float16").astype("float32"))
    # Rounding is done once: what was read is written and read again without a change.
    assert read.get_pipe("tok2vec").model.to_bytes() == nlp.get_pipe("tok2vec").model.to_bytes()
    (arcs, probs), (other_arcs, other_probs) = parse(nlp), parse(read)
    assert arcs == other_arcs
    assert probs == pytest.approx(other_probs, abs=0.02)
    assert probs != other_probs


def test_listeners_can_be_replaced(nlp, tmp_path):
    """The parser's own copy of the vectors is then stored as the parser is, exactly."""
    other = load_model_from_config(Config(nlp.config).copy()).from_bytes(nlp.to_bytes())
    other.replace_listeners("tok2vec", "root_mst", ["model.tok2vec"])
    other.remove_pipe("tok2vec")
    other.to_disk(tmp_path)
    (arcs, probs), (other_arcs, other_probs) = parse(spacy.load(tmp_path)), parse(other)
    assert arcs == other_arcs
    assert probs == pytest.approx(other_probs, abs=1e-6)


def test_single_precision_is_read(nlp):
    """A pipeline that was trained without can be given the architecture afterwards."""
    outer = nlp.get_pipe("tok2vec").model
    assert outer.get_dim("nO") == 32
    exact = {**outer.to_dict(), "params": [{}, *outer.layers[0].to_dict()["params"]]}
    other = build_half_precision(outer.layers[0].copy()).from_dict(exact)
    for old, new in zip(weights_of(outer), weights_of(other), strict=True):
        np.testing.assert_array_equal(new, old)
