"""`nlp.initialize()` without examples, next to what spaCy's own `parser` does."""

import pytest
import spacy
from parsers import LISTENING, make_nlp, make_shared
from spacy.tokens import Doc
from spacy.training import Example


def initialized(*labels, **config):
    """A pipeline whose parser got these labels, and no examples."""
    nlp = make_nlp(**config)
    for label in labels:
        nlp.get_pipe("root_mst").add_label(label)
    nlp.initialize()
    return nlp


def learn(nlp, examples, steps):
    optimizer = nlp.create_optimizer()
    optimizer.learn_rate = 0.01
    for _ in range(steps):
        nlp.update(examples, sgd=optimizer, drop=0.0)


@pytest.mark.parametrize("labels", [["obj", "nsubj", "obj"], ["nsubj", "ROOT"]])
def test_labels_are_those_of_spacys_parser(labels):
    spacys = spacy.blank("xx")
    parser = spacys.add_pipe("parser")
    for label in labels:
        parser.add_label(label)
    spacys.initialize()
    found = initialized(*labels).get_pipe("root_mst").labels
    # The label of tokens that only follow the text around, which spaCy's parser always has.
    assert {*found, "dep"} == set(parser.labels)
    assert len(found) == len(set(found))


def test_root_label_is_an_added_one_that_is_spelled_so():
    parser = initialized("nsubj", "root").get_pipe("root_mst")
    assert parser.label_data == {"root_label": "root", "labels": ["nsubj"]}
    assert parser.labels == ("root", "nsubj")


def test_update_skips_labels_that_were_not_added():
    nlp = initialized("nsubj", "root")
    words, deps = ["She", "saw", "him"], ["nsubj", "root", "obj"]
    gold = Doc(nlp.vocab, words=words, heads=[1, 1, 1], deps=deps)
    learn(nlp, [Example(nlp.make_doc("She saw him"), gold)], steps=40)
    doc = nlp("She saw him")
    assert [token.head.i for token in doc] == [1, 1, 1]
    assert [token.dep_ for token in doc] == ["nsubj", "root", "nsubj"]


def test_listener_is_sized():
    nlp = make_shared({"root_mst": LISTENING})
    parser = nlp.get_pipe("root_mst")
    parser.add_label("nsubj")
    nlp.initialize()
    assert parser.model.get_dim("nI") == 32
    assert nlp("She saw him").has_annotation("DEP")
