"""Word vectors in half precision on disk: a small file, nearly the same numbers, the same keys."""

import pickle

import numpy as np
import pytest
import spacy
from spacy.training.initialize import load_vectors_into_model
from spacy.util import load_model_from_config
from thinc.api import Config

from spacy_rootmind.pipeline.vectors import HalfPrecisionVectors

WORDS = ("cat", "dog", "book", "she")
WIDTH = 7
CONFIG = {
    "nlp": {
        "vectors": {"@vectors": "spacy_rootmind.HalfPrecisionVectors.v1", "attr": "NORM"},
    }
}


@pytest.fixture
def nlp():
    """A blank pipeline with vectors of a few words."""
    nlp = spacy.blank("xx", config=CONFIG)
    data = np.random.default_rng(0).normal(size=(len(WORDS), WIDTH)).astype("float32")
    nlp.vocab.vectors = HalfPrecisionVectors(
        strings=nlp.vocab.strings, data=data, keys=WORDS, attr="NORM", name="few"
    )
    return nlp


def again(nlp, way, folder):
    """The pipeline, written and read."""
    if way == "folder":
        nlp.to_disk(folder)
        return spacy.load(folder)
    if way == "bytes":
        return load_model_from_config(Config(nlp.config).copy()).from_bytes(nlp.to_bytes())
    return pickle.loads(pickle.dumps(nlp))


@pytest.mark.parametrize("way", ["folder", "bytes", "pickle"])
def test_vectors_are_read_as_they_were_rounded(way, nlp, tmp_path):
    read = again(nlp, way, tmp_path / "nlp")
    vectors = read.vocab.vectors
    assert isinstance(vectors, HalfPrecisionVectors)
    assert vectors.data.dtype == "float32"
    rounded = nlp.vocab.vectors.data.astype("float16").astype("float32")
    np.testing.assert_array_equal(vectors.data, rounded)
    assert (rounded != nlp.vocab.vectors.data).any()
    # Rounding is done once.
    assert vectors.to_bytes() == again(read, way, tmp_path / "read").vocab.vectors.to_bytes()
    # They are looked up by their attribute.
    doc = read("The CAT saw Dog.")
    assert [token.has_vector for token in doc] == [False, True, False, True, False]
    np.testing.assert_allclose(doc[1].vector, nlp.vocab.vectors["cat"], rtol=1e-3)


def test_writing_leaves_single_precision(nlp, tmp_path):
    before = nlp.vocab.vectors.data.copy()
    nlp.to_disk(tmp_path)
    np.testing.assert_array_equal(nlp.vocab.vectors.data, before)
    assert np.load(tmp_path / "vocab" / "vectors").dtype == "float16"


def test_file_of_single_precision_is_read(nlp, tmp_path):
    """As that of spaCy's vectors, whose attribute is lost."""
    plain = spacy.blank("xx")
    plain.vocab.vectors = spacy.vectors.Vectors(
        strings=plain.vocab.strings, data=nlp.vocab.vectors.data, keys=WORDS
    )
    plain.to_disk(tmp_path)
    load_vectors_into_model(nlp, tmp_path)
    np.testing.assert_array_equal(nlp.vocab.vectors.data, plain.vocab.vectors.data)
    assert [token.has_vector for token in nlp("cat CAT")] == [True, False]


def test_floret_vectors_are_stored(nlp, tmp_path):
    data = np.random.default_rng(1).normal(size=(50, WIDTH)).astype("float32")
    nlp.vocab.vectors = HalfPrecisionVectors(
        strings=nlp.vocab.strings, data=data, mode="floret", minn=2, maxn=3, hash_count=2
    )
    read = again(nlp, "folder", tmp_path)
    assert read.vocab.vectors.mode == "floret"
    np.testing.assert_allclose(
        read.vocab.vectors["anything"], nlp.vocab.vectors["anything"], atol=2e-3
    )


@pytest.mark.parametrize("number", [7e4, np.inf, np.nan])
def test_numbers_that_do_not_fit_are_refused(number, nlp, tmp_path):
    nlp.vocab.vectors.data[1, 2] = number
    with pytest.raises(ValueError, match=r"expected weights below 65504.*HalfPrecisionVectors"):
        nlp.vocab.vectors.to_disk(tmp_path)
