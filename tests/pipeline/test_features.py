"""Attributes of tokens and static vectors as inputs of the parser (`model.features`)."""

import numpy as np
import pytest
from parsers import (
    LISTENER,
    SMALL_MODEL,
    gold_examples,
    join,
    make_nlp,
    make_shared,
    multi_hash,
    tok2vec_of,
    update,
)
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import minibatch

from spacy_rootmind.network.architecture import reading_layers
from spacy_rootmind.pipeline.inputs import attributes_read

TOK2VEC = SMALL_MODEL["tok2vec"]
TEXTS = ["The cat saw a dog.", "She slept. He read the book that he had.", ""]


def with_features(*attrs, tok2vec=TOK2VEC, **settings):
    """The config of a network that reads these attributes."""
    return {**SMALL_MODEL, "tok2vec": tok2vec, "features": multi_hash(*attrs, width=8, **settings)}


def shared(*attrs):
    """A pipeline whose tagger and parser share token vectors, not initialized."""
    tagger = {"@architectures": "spacy.Tagger.v2", "tok2vec": LISTENER}
    return make_shared({"tagger": tagger, "root_mst": with_features(*attrs, tok2vec=LISTENER)})


@pytest.fixture(scope="module")
def examples(quickstart_docs):
    """Gold Docs of several sentences; use `gold_examples` for Examples of a pipeline."""
    return join(quickstart_docs[:100], 5)


@pytest.fixture(scope="module")
def tagged(examples):
    """A pipeline trained so that the parser reads the tags that the tagger predicts."""
    nlp = shared("TAG")
    own = gold_examples(examples, nlp)
    optimizer = nlp.initialize(lambda: own)
    optimizer.learn_rate = 0.01
    for _ in range(3):
        for batch in minibatch(own, 5):
            fresh = [Example(eg.predicted.copy(), eg.reference) for eg in batch]
            update(nlp, fresh, optimizer, annotates=["tok2vec", "tagger"])
    return nlp


# --- learning ----------------------------------------------------------------------------------


def star_examples(nlp, n, rng):
    """Sentences of equal words: all attach to the one that has another tag."""
    made = []
    for _ in range(n):
        length = int(rng.integers(3, 7))
        root = int(rng.integers(length))
        tags = ["root" if i == root else "other" for i in range(length)]
        words = ["x"] * length
        deps = ["ROOT" if i == root else "dep" for i in range(length)]
        gold = Doc(nlp.vocab, words=words, heads=[root] * length, deps=deps)
        made.append(Example(Doc(nlp.vocab, words=words, tags=tags), gold))
    return made


@pytest.mark.parametrize(("attr", "learns"), [("TAG", True), ("MORPH", False)])
def test_heads_that_only_an_attribute_decides_are_learnt_with_it_alone(attr, learns):
    nlp = make_nlp(model=with_features(attr), sentences="doc")
    given = star_examples(nlp, 60, np.random.default_rng(0))
    for example in given:
        for token in example.predicted:
            token.set_morph("Case=Nom")
    optimizer = nlp.initialize(lambda: given[:40])
    optimizer.learn_rate = 0.01
    for _ in range(15):
        nlp.update(given[:40], sgd=optimizer)
    parses = [nlp(example.predicted) for example in given[40:]]
    pairs = [
        (token.head.i, gold.head.i)
        for doc, eg in zip(parses, given[40:], strict=True)
        for token, gold in zip(doc, eg.reference, strict=True)
    ]
    accuracy = np.mean([head == gold for head, gold in pairs])
    assert accuracy == 1.0 if learns else accuracy < 0.6


# --- attributes that are missing ---------------------------------------------------------------


def test_attributes_read_are_those_that_components_set():
    nlp = make_nlp(model=with_features("NORM", "MORPH", "TAG"))
    assert attributes_read(reading_layers(nlp.get_pipe("root_mst").model)) == ["TAG", "MORPH"]
    nlp = make_nlp(model={**SMALL_MODEL, "tok2vec": tok2vec_of(multi_hash("LOWER", "POS"))})
    assert attributes_read(reading_layers(nlp.get_pipe("root_mst").model)) == ["POS"]
    assert attributes_read(reading_layers(make_nlp().get_pipe("root_mst").model)) == []


def test_training_without_annotating_components_is_refused(examples):
    nlp = shared("TAG")
    own = gold_examples(examples[:4], nlp)
    nlp.initialize(lambda: own)
    match = r"expected TAG .* found none in .*tagger.*annotating_components"
    with pytest.raises(ValueError, match=match):
        nlp.update(own, sgd=nlp.create_optimizer())
    with pytest.raises(ValueError, match="expected TAG"):
        nlp.get_pipe("root_mst").fit_temperature(own)


def test_parsing_needs_the_tagger_or_tags(tagged):
    with pytest.raises(ValueError, match="expected TAG on the tokens of each Doc"):
        tagged(TEXTS[0], disable=["tagger"])
    doc = Doc(tagged.vocab, words=["A", "dog"], tags=["DT", "NN"])
    assert tagged(doc, disable=["tagger"]).has_annotation("DEP")


def test_a_listener_as_features_is_refused():
    model = {**SMALL_MODEL, "features": LISTENER}
    with pytest.raises(ValueError, match="received a listener, which belongs in tok2vec"):
        make_nlp(model=model)


# --- use and saving ----------------------------------------------------------------------------


def test_docs_without_words_need_no_attributes_and_single_tokens_may_lack_them(tagged):
    with tagged.select_pipes(enable=["tok2vec", "root_mst"]):
        docs = [
            tagged.make_doc(""),
            tagged.make_doc(" \n"),
            Doc(tagged.vocab, words=["A", "dog"], tags=["DT", ""]),
        ]
        assert all(doc.has_annotation("DEP") for doc in tagged.pipe(docs))
