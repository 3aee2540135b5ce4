"""Saved components: what comes back, and what damaged files get."""

import pickle

import pytest
import spacy
import srsly
from parsers import arcs_of, make_nlp, settable

from spacy_rootmind.annotation.extensions import ATTRIBUTES, register_extensions

TEXT = "The teacher that she met gave the boy a book ."


@pytest.fixture
def saved(trained, tmp_path):
    trained.to_disk(tmp_path / "model")
    return tmp_path / "model"


def component_by_bytes(nlp):
    again = make_nlp()
    again.get_pipe("root_mst").from_bytes(nlp.get_pipe("root_mst").to_bytes())
    return again


def test_parses_after_loading(trained, saved):
    for again in (
        spacy.load(saved),
        make_nlp().from_bytes(trained.to_bytes()),
        component_by_bytes(trained),
        pickle.loads(pickle.dumps(trained)),
    ):
        assert arcs_of(again(TEXT)) == arcs_of(trained(TEXT))


def test_saved_model_holds_no_pickle(saved):
    # msgpack of plain arrays and JSON: nothing that runs code when loaded.
    model = srsly.msgpack_loads((saved / "root_mst" / "model").read_bytes())
    assert model["nodes"]
    assert srsly.read_json(saved / "root_mst" / "cfg")["root_label"] == "ROOT"


def test_attributes_are_there_after_unpickling_elsewhere(trained):
    with settable(trained) as set_all:
        data = pickle.dumps(set_all(confidence=True))
    # As in a process that has made no parser yet.
    for owner, name, _ in ATTRIBUTES:
        owner.remove_extension(name)
    try:
        nlp = pickle.loads(data)
        assert 0 < nlp("The dog barked.")[0]._.head_prob <= 1
    finally:
        register_extensions()


def test_uninitialized_component_survives_a_round_trip(tmp_path):
    nlp = make_nlp()
    nlp.get_pipe("root_mst").add_label("rare")
    nlp.to_disk(tmp_path / "blank")
    again = spacy.load(tmp_path / "blank")
    assert again.get_pipe("root_mst").labels == ("ROOT", "rare")
