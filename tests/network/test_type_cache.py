"""Embeddings of types: as without the cache, and with the weights that are there now."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import spacy
from spacy.ml.models.tok2vec import CharacterEmbed, MultiHashEmbed
from spacy.tokens import Doc
from thinc.api import Adam, Dropout, Model, NumpyOps, chain, expand_window, set_dropout_rate

from spacy_rootmind.compat import forward_of
from spacy_rootmind.network.affixes import build_affix_embed
from spacy_rootmind.network.type_cache import TypeCache, _keys_of, cache_embeddings

WIDTH = 12
WORDS = ["The", "cat", "saw", "a", "dog", ".", "the", "Cat", "42", "\n", "naïve"]


@pytest.fixture
def nlp():
    nlp = spacy.blank("xx")
    rng = np.random.default_rng(2)
    vectors = spacy.vectors.Vectors(shape=(6, 5))
    for word in WORDS[:6]:
        vectors.add(nlp.vocab.strings.add(word), vector=rng.normal(size=5))
    nlp.vocab.vectors = vectors
    return nlp


ATTRS = ("NORM", "PREFIX", "SUFFIX", "SHAPE")


def embed(docs, *, attrs=ATTRS, static=True, seed=0, affixes=False):
    """Embeddings with random weights."""
    if affixes:
        model = build_affix_embed(WIDTH, list(attrs), [1], [2, 3], [50] * (len(attrs) + 3), static)
    else:
        model = MultiHashEmbed(WIDTH, list(attrs), [50] * len(attrs), static)
    model.initialize(X=docs)
    rng = np.random.default_rng(seed)
    for node in model.walk():
        for name in node.param_names:
            node.set_param(name, rng.normal(size=node.get_param(name).shape).astype("f"))
    return model


def cached(model, size=100):
    """A layer around embeddings that keeps the vectors of types."""
    tok2vec = Model("tok2vec", lambda own, X, is_train: model(X, is_train), layers=[model])
    tok2vec.set_ref("embed", model)
    cache_embeddings(tok2vec, size)
    return tok2vec


def random_docs(nlp, rng, n=4, longest=12):
    """Docs, of which only the first may not be empty."""
    lengths = [rng.integers(i == 0, longest) for i in range(n)]
    words = [[str(word) for word in rng.choice(WORDS, length)] for length in lengths]
    return [Doc(nlp.vocab, words=own) for own in words]


def cache_of(tok2vec):
    return forward_of(tok2vec.get_ref("embed"))


def assert_as_without(tok2vec, docs):
    """Compare with the embeddings' own forward pass, to the last bit: both use BLIS."""
    model = tok2vec.get_ref("embed")
    found = tok2vec.predict(docs)
    expected = cache_of(tok2vec).forward(model, docs, False)[0]
    assert [own.shape for own in found] == [(len(doc), WIDTH) for doc in docs]
    for own, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(own, other)


@pytest.mark.parametrize("static", [True, False], ids=["vectors", "no vectors"])
@pytest.mark.parametrize("attrs", [["NORM"], ["NORM", "SUFFIX"], ATTRS], ids=len)
@pytest.mark.parametrize("size", [1, 3, 100])
def test_vectors_are_those_without_cache(nlp, size, attrs, static):
    rng = np.random.default_rng(0)
    tok2vec = cached(embed(random_docs(nlp, rng), attrs=attrs, static=static), size)
    for _ in range(8):
        assert_as_without(tok2vec, random_docs(nlp, rng, n=rng.integers(1, 5)))


@pytest.mark.parametrize("width", [1, 2, 3, 5])
def test_types_have_keys_of_their_own(width):
    """Also if attributes are equal, or 0, or sums of others."""
    rng = np.random.default_rng(width)
    few = np.append(rng.integers(2**63, size=12), [0, 1, 2]).astype(np.uint64)
    values = np.unique(rng.choice(few, size=(5000, width)), axis=0)
    assert len(np.unique(_keys_of(values))) == len(values)


def test_types_are_kept_up_to_the_size(nlp):
    tok2vec = cached(embed([Doc(nlp.vocab, words=WORDS[:4])]), size=6)
    cache, calls = cache_of(tok2vec), []
    forward = cache.forward
    cache.forward = lambda model, docs, is_train: (
        calls.append(len(docs[0])) or forward(model, docs, is_train)
    )
    for start, stop in [(0, 4), (0, 4), (2, 6), (5, 9), (5, 9)]:
        tok2vec.predict([Doc(nlp.vocab, words=WORDS[start:stop])])
    assert calls == [4, 2, 4]


def test_attributes_that_tokens_set_themselves_count(nlp):
    tok2vec = cached(embed(docs := [Doc(nlp.vocab, words=["cat", "cat"])]))
    docs[0][1].norm_ = "dog"
    first, second = tok2vec.predict(docs)[0]
    assert (first != second).any()
    assert_as_without(tok2vec, docs)


def train_once(model, docs, rate):
    """Return the vectors of a training step, and all gradients of random ones of the vectors."""
    np.random.seed(5)  # noqa: NPY002
    set_dropout_rate(model, rate)
    found, backprop = model.begin_update(docs)
    rng = np.random.default_rng(6)
    backprop([rng.normal(size=own.shape).astype("f") for own in found])
    pairs = [(node, name) for node in model.walk() for name in node.param_names]
    gradients = {(node.id, name): node.get_grad(name) for node, name in pairs}
    for node, name in pairs:
        node.set_grad(name, 0 * node.get_grad(name))
    return found, gradients


@pytest.mark.parametrize("static", [True, False], ids=["vectors", "no vectors"])
@pytest.mark.parametrize("rate", [0.0, 0.4])
@pytest.mark.parametrize("affixes", [False, True], ids=["", "affixes"])
def test_training_is_that_of_each_token(nlp, affixes, rate, static):
    """The same masks of dropout as well: it is that of tokens, although types are computed."""
    docs = random_docs(nlp, np.random.default_rng(3), n=6)
    model = embed(docs, static=static, affixes=affixes)
    expected = train_once(model, docs, rate)
    rows = []
    tok2vec = cached(model)
    forward = cache_of(tok2vec).forward
    cache_of(tok2vec).forward = lambda model, docs, is_train: (
        rows.extend(map(len, docs)) or forward(model, docs, is_train)
    )
    found = train_once(model, docs, rate)
    assert rows == [len({token.text for doc in docs for token in doc})]
    for one, other in zip(found[0], expected[0], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    assert found[1].keys() == expected[1].keys()
    for key, gradient in found[1].items():
        np.testing.assert_allclose(gradient, expected[1][key], rtol=1e-3, atol=1e-4)
    assert {node.attrs.get("dropout_rate", rate) for node in model.walk()} == {rate}


def test_dropout_before_other_layers_is_drawn_for_each_token(nlp):
    docs = random_docs(nlp, np.random.default_rng(3))
    model = embed(docs)
    maxout = next(node for node in model.walk() if node.name.startswith("maxout>>"))
    maxout.layers.insert(0, Dropout(0.3))
    expected = train_once(model, docs, 0.3)
    found = train_once(cached(model).get_ref("embed"), docs, 0.3)
    for one, other in zip(found[0], expected[0], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def load(tok2vec, docs):
    tok2vec.get_ref("embed").from_bytes(embed(docs, seed=9).to_bytes())


def train(tok2vec, docs):
    """Optimizers change weights in place."""
    for _ in range(2):
        found, backprop = tok2vec.begin_update(docs)
        backprop([np.ones_like(own) for own in found])
        assert_as_without(tok2vec, docs)
        tok2vec.finish_update(Adam(0.1))


def change_vectors(tok2vec, docs):
    docs[0].vocab.vectors.data = 2 * docs[0].vocab.vectors.data


def add_vector(tok2vec, docs):
    docs[0].vocab.vectors.add(docs[0].vocab.strings["naïve"], row=1)


@pytest.mark.parametrize("change", [load, train, change_vectors, add_vector])
def test_other_weights_and_word_vectors_are_noticed(nlp, change):
    docs = [Doc(nlp.vocab, words=WORDS)]
    tok2vec = cached(embed(docs))
    before = tok2vec.predict(docs)
    change(tok2vec, docs)
    assert_as_without(tok2vec, docs)
    assert (tok2vec.predict(docs)[0] != before[0]).any()


def test_averaged_weights_are_noticed_and_given_back(nlp):
    docs = [Doc(nlp.vocab, words=WORDS)]
    tok2vec = cached(embed(docs))
    [before] = tok2vec.predict(docs)
    pairs = [(node, name) for node in tok2vec.walk() for name in node.param_names]
    params = {(node.id, name): 2 * node.get_param(name) for node, name in pairs}
    with tok2vec.use_params(params):
        assert_as_without(tok2vec, docs)
        assert (tok2vec.predict(docs)[0] != before).any()
    np.testing.assert_array_equal(tok2vec.predict(docs)[0], before)


def test_copies_have_caches_of_their_own(nlp):
    docs = random_docs(nlp, np.random.default_rng(1))
    tok2vec = cached(embed(docs))
    tok2vec.predict(docs)
    cache = cache_of(tok2vec)
    for other in (copy.deepcopy(cache), pickle.loads(pickle.dumps(TypeCache(len, 3)))):
        assert not other._rows
    shared = tok2vec.get_ref("embed").copy()
    assert forward_of(shared) is cache
    wrapped = cached(shared)
    assert cache_of(wrapped) is not cache
    assert cache_of(wrapped).forward is cache.forward
    assert_as_without(wrapped, docs)
    # As `nlp.replace_listeners` makes them; references are not copied.
    copied = tok2vec.copy()
    assert copied.maybe_get_ref("embed") is None
    cache_embeddings(copied)
    [own] = [forward_of(node) for node in copied.walk() if type(forward_of(node)) is TypeCache]
    assert own is not cache
    assert own.forward is cache.forward


def test_threads_share_a_cache(nlp):
    rng = np.random.default_rng(3)
    tok2vec = cached(embed(random_docs(nlp, rng)), size=5)
    batches = [random_docs(nlp, rng) for _ in range(40)]
    expected = [cached(embed(batches[0])).predict(docs) for docs in batches]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(tok2vec.predict, 3 * batches))
    for one, other in zip(found, 3 * expected, strict=True):
        assert all((a == b).all() for a, b in zip(one, other, strict=True))


def test_embeddings_that_read_more_than_a_token_stay(nlp):
    docs = [Doc(nlp.vocab, words=WORDS)]
    of_window = chain(embed(docs), Model("with_window", expand_window(1)._func))
    for model in (of_window, CharacterEmbed(WIDTH, 50, 4, 3, False)):
        forward = forward_of(model)
        assert forward_of(cached(model).get_ref("embed")) is forward


def test_multiplication_is_thincs_only_where_types_are_kept(nlp):
    docs = [Doc(nlp.vocab, words=WORDS)]
    model = embed(docs)
    for node in model.walk():
        node.ops = NumpyOps(use_blis=False)
    tok2vec = cached(model)
    tok2vec.predict(docs)
    assert {node.ops.use_blis for node in model.walk()} == {True}
    tok2vec.begin_update(docs)
    assert {node.ops.use_blis for node in model.walk()} == {False}
