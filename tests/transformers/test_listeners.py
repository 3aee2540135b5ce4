"""The parser over a shared transformer, alike for both packages that bring one to spaCy."""

import numpy as np
import pytest
import spacy
from listening import (
    MAX_PIECES,
    WIDTH,
    encoder_of,
    initialized,
    listener,
    losses_of,
    make_config,
    make_nlp,
    root_mst,
    unchanged,
    weights_of,
)
from parsers import arcs_of, gold_examples, update
from spacy.tokens import Doc
from spacy.training import Example
from thinc.api import Adam

from spacy_rootmind.annotation.sentences import sentences_of
from spacy_rootmind.network.architecture import ParserInput

pytestmark = [
    # spacy-curated-transformers makes a number of an array of one.
    pytest.mark.filterwarnings("ignore:Conversion of an array with ndim:DeprecationWarning"),
]
TEXTS = ["The cat saw a dog. It slept.", "Which book did Anna say that she had read?", "Yes."]


# --- learning ----------------------------------------------------------------------------------


def test_parser_learns_trees_and_boundaries(trained, gold):
    scores = trained.evaluate(gold_examples(gold, trained))
    assert scores["dep_uas"] > 0.8
    assert scores["dep_las"] > 0.75
    assert scores["sents_f"] > 0.9
    assert scores["root_violations"] == 0


def test_width_is_learnt_without_examples(config):
    nlp = make_nlp(config)
    nlp.get_pipe("root_mst").add_label("nsubj")
    nlp.initialize()
    assert nlp.get_pipe("root_mst").model.get_dim("nI") == WIDTH
    assert nlp("She saw him").has_annotation("DEP")


def loss_and_gradient(nlp, examples):
    """Loss of the parser, and the gradient that each of the encoder's weights gets."""
    losses = {}
    nlp.update(examples, sgd=False, losses=losses, drop=0.0)
    gradients = {
        name: weight.grad.clone()
        for name, weight in encoder_of(nlp).named_parameters()
        if weight.grad is not None
    }
    for weight in encoder_of(nlp).parameters():
        weight.grad = None
    return losses.get("root_mst"), gradients


def test_gradient_of_the_encoder_matches_finite_differences(package, encoder, gold):
    # In one window each: of words that two windows share, spacy-curated-transformers passes on
    # half of the gradient.
    short = [sent.as_doc() for doc in gold for sent in doc.sents if len(sent) <= 8]
    nlp, examples = initialized(make_config(package, encoder, window=MAX_PIECES), short)
    weights = encoder_of(nlp)
    _, gradients = loss_and_gradient(nlp, examples[:8])
    assert gradients
    norm = sum(float((g**2).sum()) for g in gradients.values()) ** 0.5
    start = weights_of(weights)

    def loss_at(step):
        for name, weight in weights.named_parameters():
            if name in gradients:
                weight.data = start[name] + step / norm * gradients[name]
        return loss_and_gradient(nlp, examples[:8])[0]

    # Along its own direction, a gradient's size is how fast the loss grows. A longer step would
    # cross the kinks of Maxout layers.
    step = 1e-4
    numeric = (loss_at(step) - loss_at(-step)) / (2 * step)
    assert numeric == pytest.approx(norm, rel=0.01)


# --- frozen, sourced and replaced encoders -----------------------------------------------------


def test_frozen_encoder_that_annotates_stays_as_it_is(config, gold):
    nlp, examples = initialized(config, gold)
    before = weights_of(encoder_of(nlp))
    optimizer = nlp.create_optimizer()
    frozen = {"exclude": ["transformer"], "annotates": ["transformer"]}
    losses = losses_of(nlp, examples[:4], optimizer, **frozen)
    assert losses[-1] < 0.8 * losses[0]
    assert unchanged(before, encoder_of(nlp))
    # Thawed again, it learns.
    losses_of(nlp, examples[:4], optimizer, steps=2)
    assert not unchanged(before, encoder_of(nlp))


def test_frozen_encoder_that_does_not_annotate_is_an_error(config, gold):
    nlp, examples = initialized(config, gold)
    with pytest.raises(ValueError, match=r"annotat|E203"):
        nlp.update(examples[:4], exclude=["transformer"])


def test_parser_before_the_transformer_is_an_error(config, gold):
    config["nlp"]["pipeline"] = ["root_mst", "transformer"]
    nlp = make_nlp(config)
    examples = gold_examples(gold, nlp)

    def train():
        nlp.initialize(lambda: examples)
        nlp.update(examples)

    with pytest.raises(ValueError, match=r"transformer\b.*before"):
        train()


def test_replaced_listener_parses_alike_and_learns_alone(trained, gold, tmp_path):
    trained.to_disk(tmp_path / "shared")
    nlp = spacy.load(tmp_path / "shared")
    expected = [arcs_of(doc) for doc in trained.pipe(TEXTS)]
    assert [arcs_of(doc) for doc in nlp.pipe(TEXTS)] == expected
    nlp.replace_listeners("transformer", "root_mst", ["model.tok2vec"])
    nlp.remove_pipe("transformer")
    assert [arcs_of(doc) for doc in nlp.pipe(TEXTS)] == expected
    nlp.to_disk(tmp_path / "alone")
    nlp = spacy.load(tmp_path / "alone")
    assert [arcs_of(doc) for doc in nlp.pipe(TEXTS)] == expected
    examples = gold_examples(gold, nlp)
    before = weights_of(encoder_of(nlp, "root_mst"))
    nlp.update(examples[:4], sgd=nlp.create_optimizer())
    assert not unchanged(before, encoder_of(nlp, "root_mst"))


# --- prediction --------------------------------------------------------------------------------


def test_a_disabled_transformer_is_an_error_that_names_it(trained):
    with (
        trained.select_pipes(enable=["root_mst"]),
        pytest.raises(ValueError, match=r"no token vectors .* the pipeline's transformer: enab"),
    ):
        trained(TEXTS[0])
    doc = trained(TEXTS[0])
    expected = arcs_of(doc)
    with trained.select_pipes(enable=["root_mst"]):
        assert arcs_of(trained(doc)) == expected
        assert len(trained("")) == 0
        with doc.retokenize() as retokenizer:
            retokenizer.merge(doc[:2])
        with pytest.raises(ValueError, match="was tokenized again"):
            trained(doc)


def test_docs_without_words_are_parsed_and_learnt_among_others(trained, config, gold):
    texts = ["", TEXTS[0], "  \n", " ", TEXTS[1], ""]
    docs = [trained.make_doc(text) for text in texts]
    docs = list(trained.get_pipe("transformer").pipe(docs))
    # All at once: `pipe` would try one by one where a batch fails.
    parser = trained.get_pipe("root_mst")
    parses = parser.predict(docs)
    scores = parser.model.predict(ParserInput(docs, [sentences_of(doc) for doc in docs]))
    assert {arcs.dtype.name for arcs in scores.trees.arcs} == {"float32"}
    assert [len(parse.heads) for parse in parses] == [len(doc) for doc in docs]
    assert [arcs_of(doc) for doc in trained.pipe(texts)] == [
        arcs_of(trained(text)) for text in texts
    ]
    nlp, examples = initialized(config, gold)
    bare = [Example(nlp.make_doc(text), nlp.make_doc(text)) for text in ("", "  \n", "")]
    optimizer = nlp.create_optimizer()
    for batch in (bare, [bare[0], *examples[:2], bare[1]], bare[:1], bare[1:2]):
        losses = update(nlp, batch, optimizer)
        assert (losses["root_mst"] > 0) == (len(batch) > 3)
    assert np.isfinite(update(nlp, examples[:4], optimizer)["root_mst"])


def test_long_doc_is_parsed_as_its_windows_say(trained, gold, monkeypatch):
    words = [token.text for doc in gold for token in doc]
    words = (words * (3000 // len(words) + 1))[:3000]
    doc = trained(Doc(trained.vocab, words=words))
    sents = list(doc.sents)
    assert all(sum(token.head == token for token in sent) == 1 for sent in sents)
    # As in short Docs, most sentences of the treebank are found.
    n_gold = len(words) / np.mean([len(sent) for doc in gold for sent in doc.sents])
    assert 0.8 * n_gold < len(sents) < 1.2 * n_gold
    # Vectors that come from a listener are not cut into slices, whatever the Doc's length.
    monkeypatch.setattr("spacy_rootmind.pipeline.prediction.MAX_TOKENS", 100)
    monkeypatch.setattr("spacy_rootmind.pipeline.prediction.CONTEXT", 5)
    assert arcs_of(trained(Doc(trained.vocab, words=words))) == arcs_of(doc)


def test_words_that_the_encoder_has_no_place_for_are_parsed(trained):
    """A window of them has many times the pieces that the encoder takes at once."""
    words = ["Donaudampfschifffahrtsgesellschaft" * 3] * 40
    doc = trained(Doc(trained.vocab, words=words))
    assert all(sum(token.head == token for token in sent) == 1 for sent in doc.sents)


# --- another pipeline --------------------------------------------------------------------------


def test_parser_taken_from_its_pipeline(trained, config, tmp_path):
    """Over another transformer it refuses, with a copy of its own or with its own it is right."""
    trained.to_disk(tmp_path)
    expected = [arcs_of(trained(text)) for text in TEXTS]
    other, _ = initialized(config, [trained(text) for text in TEXTS])
    other.remove_pipe("root_mst")
    source = spacy.load(tmp_path)
    other.add_pipe("root_mst", source=source)
    with pytest.raises(ValueError, match=r"spacy_rootmind\.replace_parser"):
        other(TEXTS[0])
    other.remove_pipe("root_mst")
    source.replace_listeners("transformer", "root_mst", ["model.tok2vec"])
    other.add_pipe("root_mst", source=source)
    assert [arcs_of(other(text)) for text in TEXTS] == expected
    together = spacy.blank("en")
    source = spacy.load(tmp_path)
    together.add_pipe("transformer", source=source)
    together.add_pipe("root_mst", source=source)
    assert [arcs_of(together(text)) for text in TEXTS] == expected
    assert len(together.get_pipe("transformer").listeners) == 1


@pytest.mark.parametrize("decay", [0.0, 0.01])
def test_no_gradient_does_not_freeze_where_weights_decay(decay, package, encoder, gold):
    """As docs/transformers.md says."""
    components = {"root_mst": root_mst(listener(package, grad_factor=0.0))}
    nlp, examples = initialized(make_config(package, encoder, components), gold)
    before = weights_of(encoder_of(nlp))
    losses_of(nlp, examples[:4], Adam(0.001, L2=decay), steps=2)
    assert unchanged(before, encoder_of(nlp)) == (decay == 0)
