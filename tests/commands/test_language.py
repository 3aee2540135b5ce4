"""The methods of spaCy's `Language`, as users of `parser` know them."""

import copy
import pickle

import pytest
import spacy
from commandline import read_docs
from parsers import SMALL_MODEL, arcs_of, gold_examples

pytestmark = pytest.mark.workflow

TEXTS = ["The teacher that she met gave the boy a book.", "\n Yes", "", "Dogs bark. A cat came."]
UNSURE = {
    "components.root_mst.confidence": True,
    "components.root_mst.alternatives": {"@misc": "spacy_rootmind.kbest.v1", "k": 3},
    # Heads, of which these Docs have none: it is there to be copied.
    "components.root_mst.constraints": {"@misc": "spacy_rootmind.preset_heads.v1"},
}


@pytest.fixture
def nlp(shared):
    """A trained pipeline with shared vectors, a tagger and the parser, fresh for each test."""
    return spacy.load(shared)


def parses_of(nlp):
    return [arcs_of(doc) for doc in nlp.pipe(TEXTS)]


def weights(nlp, name="root_mst"):
    return nlp.get_pipe(name).model.to_bytes()


# --- processes and memory ----------------------------------------------------------------------


def test_labels_outlive_memory_zones(plain):
    """Also where the Vocab knows nothing, and the first Doc ever is parsed in a zone."""
    source = spacy.load(plain)
    nlp = spacy.blank("en")
    pipe = nlp.add_pipe("root_mst", config={"model": SMALL_MODEL})
    assert "nsubj:pass" not in nlp.vocab.strings
    pipe.from_disk(plain / "root_mst", exclude=["vocab"])
    with nlp.memory_zone():
        assert parses_of(nlp) == parses_of(source)
    assert "nsubj:pass" in pipe.labels
    assert all(label in nlp.vocab.strings for label in pipe.labels)
    assert parses_of(nlp) == parses_of(source)


def test_two_parsers_in_one_pipeline(corpora):
    nlp = spacy.blank("en")
    nlp.add_pipe("root_mst", name="first", config={"model": SMALL_MODEL})
    other = {"model": {**SMALL_MODEL, "arc_width": 24}, "objective": "perceptron"}
    nlp.add_pipe("root_mst", name="second", config=other)
    examples = gold_examples(read_docs(corpora / "train.spacy", nlp.vocab)[:20], nlp)
    optimizer = nlp.initialize(lambda: examples)
    for _ in range(5):
        losses = nlp.update(examples, sgd=optimizer)
    assert set(losses) == {"first", "second"}
    alone = {}
    for name in losses:
        with nlp.select_pipes(enable=name):
            alone[name] = parses_of(nlp)
    assert alone["first"] != alone["second"]
    # The later one has the last word, on the sentences that the first has set.
    doc = nlp.get_pipe("first")(nlp.make_doc(TEXTS[0]))
    assert arcs_of(doc) == alone["first"][0]
    assert arcs_of(nlp.get_pipe("second")(doc)) == arcs_of(nlp(TEXTS[0]))


# --- what a pipeline says of itself -------------------------------------------------------------


# --- copies ------------------------------------------------------------------------------------


def from_disk(nlp, folder):
    nlp.to_disk(folder)
    return spacy.load(folder)


def from_bytes(nlp, folder):
    return spacy.blank("en").from_config(nlp.config).from_bytes(nlp.to_bytes())


def from_pickle(nlp, folder):
    return pickle.loads(pickle.dumps(nlp))


def from_deepcopy(nlp, folder):
    return copy.deepcopy(nlp)


@pytest.mark.parametrize("make", [from_disk, from_bytes, from_pickle, from_deepcopy])
def test_copy_parses_alike_and_learns_by_itself(make, shared, corpora, tmp_path):
    nlp = spacy.load(shared, config=UNSURE)
    again = make(nlp, tmp_path)
    assert again.config["components"] == nlp.config["components"]
    assert again.pipe_labels == nlp.pipe_labels
    before = weights(nlp), parses_of(nlp)
    assert (weights(again), parses_of(again)) == before
    for doc, same in zip(nlp.pipe(TEXTS), again.pipe(TEXTS), strict=True):
        for sentence, other in zip(doc.sents, same.sents, strict=True):
            assert sentence._.parse_entropy == pytest.approx(other._.parse_entropy, abs=1e-6)
            assert len(sentence._.parses) == len(other._.parses)
    optimizer = again.resume_training()
    optimizer.learn_rate = 0.1
    docs = read_docs(corpora / "train.spacy", again.vocab)[:30]
    again.update(gold_examples(docs, again), sgd=optimizer)
    assert weights(again) != before[0]
    assert (weights(nlp), parses_of(nlp)) == before
