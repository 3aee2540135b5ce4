"""`spacy train`, in the ways that spaCy knows to put a pipeline together."""

import pytest
import spacy
from commandline import (
    TOK2VEC,
    assert_one_root_each,
    log_of,
    read_docs,
    root_mst,
    tagger,
    train,
    weights_of,
    write_config,
    write_docs,
)
from parsers import LISTENER, arcs_of
from spacy.tokens import Doc
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

# Learns nothing, but says in training whether it saw trees and sentences.
READER = """
from spacy.language import Language
from spacy.pipeline import Pipe


@Language.factory("tree_reader")
class TreeReader(Pipe):
    is_trainable = True
    model = None

    def __init__(self, nlp, name):
        self.name = name

    def __call__(self, doc):
        return doc

    def update(self, examples, *, drop=0.0, sgd=None, losses=None):
        for example in examples:
            doc = example.predicted
            if not doc.has_annotation("DEP"):
                raise ValueError("no trees to read")
            roots = sum(token.head.i == token.i for token in doc)
            if roots != len(list(doc.sents)):
                raise ValueError(f"{roots} roots in {len(list(doc.sents))} sentences")
        losses[self.name] = losses.get(self.name, 0.0) + len(examples)
        return losses
"""


@pytest.mark.parametrize("is_frozen", [False, True])
def test_later_component_reads_trees_of_the_annotating_parser(is_frozen, plain, corpora, tmp_path):
    (tmp_path / "reader.py").write_text(READER, encoding="utf8")
    parser = sourced(plain) if is_frozen else root_mst()
    config = write_config(
        *(tmp_path / "read.cfg", {"root_mst": parser, "tree_reader": {"factory": "tree_reader"}}),
        *(corpora,),
        steps=4,
        frozen_components=["root_mst"] * is_frozen,
        annotating_components=["root_mst"],
    )
    folder = train(config, tmp_path / "out", "--code", tmp_path / "reader.py")
    assert log_of(config)[-1]["losses"]["tree_reader"] > 0
    assert (weights_of(folder) == weights_of(plain)) == is_frozen


@pytest.fixture(scope="module")
def joined_corpora(corpora, tmp_path_factory):
    """Docs of three sentences each."""
    folder = tmp_path_factory.mktemp("joined")
    vocab = spacy.blank("en").vocab
    for name in ("train", "dev"):
        docs = read_docs(corpora / f"{name}.spacy", vocab)
        joined = [Doc.from_docs(docs[i : i + 3]) for i in range(0, len(docs) - 2, 3)]
        write_docs(folder / f"{name}.spacy", joined)
    return folder


def test_senter_trained_with_the_parser_annotates_for_it(joined_corpora, tmp_path):
    components = {
        "tok2vec": TOK2VEC,
        "senter": tagger(LISTENER, factory="senter"),
        "root_mst": root_mst(LISTENER),
    }
    config = write_config(
        *(tmp_path / "senter.cfg", components, joined_corpora),
        steps=60,
        annotating_components=["tok2vec", "senter"],
    )
    nlp = spacy.load(train(config, tmp_path / "out"))
    assert nlp.meta["performance"]["sents_f"] > 0.8
    assert nlp.meta["performance"]["dep_uas"] > 0.4
    [doc] = nlp.pipe([" ".join(TEXTS)])
    assert_one_root_each(doc)
