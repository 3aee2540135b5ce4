"""`spacy train`, in the ways that spaCy knows to put a pipeline together."""

import pytest
import spacy
from commandline import (
    TOK2VEC,
    log_of,
    read_docs,
    tagger,
    train,
    weights_of,
    write_config,
)
from parsers import LISTENER, arcs_of
from spacy.training import Example

pytestmark = pytest.mark.workflow

TEXTS = ["The teacher that she met gave the boy a book.", "Yes", "The cat slept. A dog came."]


def parses_of(folder):
    return [arcs_of(doc) for doc in spacy.load(folder).pipe(TEXTS)]


def sourced(folder, **settings):
    """A component taken from a trained pipeline."""
    return {"source": str(folder), **settings}


# --- from scratch ------------------------------------------------------------------------------


def test_training_from_scratch_learns(plain, plain_config, corpora):
    first, middle, last = log_of(plain_config)
    # Losses are summed over the steps since the evaluation before: one, then equally many.
    assert last["losses"]["root_mst"] < 0.5 * middle["losses"]["root_mst"]
    nlp = spacy.load(plain)
    performance = nlp.meta["performance"]
    assert performance["dep_uas"] > 0.65
    assert 100 * performance["dep_las"] > 5 * first["scores"]["dep_las"]
    assert performance["dep_las_per_type"]["det"]["f"] > 0.6
    assert performance["root_violations"] == 0.0
    # The saved pipeline is the one that was scored.
    docs = read_docs(corpora / "dev.spacy", nlp.vocab)
    scores = nlp.evaluate([Example(nlp.make_doc(doc.text), doc) for doc in docs])
    assert scores["dep_las"] == pytest.approx(performance["dep_las"], abs=1e-6)


def test_training_is_reproducible(plain, plain_config, tmp_path):
    again = train(plain_config, tmp_path / "again", f"--training.logger.output_file={tmp_path}/log")
    assert weights_of(again) == weights_of(plain)


# --- what was trained before -------------------------------------------------------------------


def test_sourced_component_goes_on_learning(plain, plain_config, corpora, tmp_path):
    config = write_config(tmp_path / "again.cfg", {"root_mst": sourced(plain)}, corpora, steps=20)
    again = train(config, tmp_path / "out")
    assert weights_of(again) != weights_of(plain)
    assert spacy.load(again).get_pipe("root_mst").labels == (
        spacy.load(plain).get_pipe("root_mst").labels
    )
    # It starts where the first run stopped, apart from one step.
    first, *_, last = [entry["scores"]["dep_las"] for entry in log_of(plain_config)]
    assert log_of(config)[0]["scores"]["dep_las"] > (first + last) / 2


def test_sourced_listener_with_vectors_of_its_own_is_not_disturbed(shared, corpora, tmp_path):
    """`replace_listeners` gives the frozen parser a copy of the vectors that it was trained on."""
    components = {
        "tok2vec": TOK2VEC,
        "tagger": tagger(LISTENER),
        "root_mst": sourced(shared, replace_listeners=["model.tok2vec"]),
    }
    config = write_config(
        tmp_path / "copy.cfg", components, corpora, steps=10, frozen_components=["root_mst"]
    )
    folder = train(config, tmp_path / "out")
    assert weights_of(folder, "tok2vec") != weights_of(shared, "tok2vec")
    assert parses_of(folder) == parses_of(shared)
    nlp = spacy.load(folder)
    assert nlp.get_pipe("tok2vec").listening_components == ["tagger"]
    assert nlp.config["components"]["root_mst"]["model"]["tok2vec"] == TOK2VEC["model"]


# --- annotating components ---------------------------------------------------------------------
