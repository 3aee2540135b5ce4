"""A parser in another pipeline has the heads of its own, or is an error that says what to write."""

import gc
import pickle
import threading

import numpy as np
import pytest
import spacy
from parsers import (
    LISTENER,
    LISTENING,
    SMALL_MODEL,
    add_initialized,
    arcs_of,
    gold_examples,
    make_shared,
    multi_hash,
    tok2vec_of,
    train,
    update,
)
from spacy.util import fix_random_seed, load_model_from_config
from spacy.vectors import Vectors
from thinc.api import Config

from spacy_rootmind import replace_parser

# spaCy says so of any component, whatever it reads.
pytestmark = pytest.mark.filterwarnings("ignore:.W113. Sourced component:UserWarning")

TEXTS = ["The cat saw a dog.", "Which book did Anna read? It slept.", "", "He saw her \n dog."]


TOK2VEC = tok2vec_of(multi_hash("NORM", "SUFFIX", width=32, include_static_vectors=True))
TAGGER = {"@architectures": "spacy.Tagger.v2", "nO": None, "tok2vec": LISTENER}


def with_static_vectors(docs, mode="default", dtype="float16"):
    """A blank pipeline with vectors of all words; their numbers have this precision."""
    nlp, rng = spacy.blank("xx"), np.random.default_rng(0)
    strings = nlp.vocab.strings
    words = sorted({token.lower_ for doc in docs for token in doc})
    data = rng.normal(size=(len(words), 6)).astype(dtype).astype("float32")
    if mode == "floret":
        options = {"minn": 2, "maxn": 3, "hash_count": 2, "mode": "floret"}
    else:
        options = {"keys": [strings.add(word) for word in words]}
    nlp.vocab.vectors = Vectors(strings=strings, data=data, attr="NORM", **options)
    return nlp


def make_home(docs, mode="default", dtype="float16"):
    """A trained pipeline whose parser listens to a tok2vec that reads static vectors."""
    fix_random_seed(0)
    nlp = with_static_vectors(docs, mode, dtype)
    nlp.add_pipe("tok2vec", config={"model": TOK2VEC})
    nlp.add_pipe("root_mst", config={"model": LISTENING})
    return train(nlp, gold_examples(docs[:40], nlp), steps=12)


@pytest.fixture(scope="module")
def folder(quickstart_docs, tmp_path_factory):
    """The folder of such a pipeline, from which each test loads its own."""
    path = tmp_path_factory.mktemp("home")
    make_home(quickstart_docs).to_disk(path)
    return path


@pytest.fixture
def other(quickstart_docs):
    """An initialized pipeline with another tok2vec of the same width."""
    nlp = make_shared({"tagger": TAGGER})
    nlp.get_pipe("tagger").add_label("NN")
    nlp.initialize(lambda: gold_examples(quickstart_docs[:5], nlp), sgd=None)
    return nlp


def parses(nlp):
    return [arcs_of(nlp(text)) for text in TEXTS]


@pytest.fixture(scope="module")
def expected(folder):
    found = parses(spacy.load(folder))
    # Vectors matter to it.
    blind = spacy.load(folder)
    blind.vocab.vectors.data[:] = 0
    assert parses(blind) != found
    return found


def refusing():
    return pytest.raises(
        ValueError,
        match=r"'root_mst' was trained over other token vectors .*"
        r"spacy_rootmind\.replace_parser\(nlp, source\)",
    )


# --- taken without what it reads ---------------------------------------------------------------


def reversed_vectors(nlp):
    """Other static vectors of the same width."""
    vectors = nlp.vocab.vectors
    own = Vectors(strings=nlp.vocab.strings, data=vectors.data[::-1].copy(), attr="NORM")
    own.key2row = dict(vectors.key2row)
    return own


@pytest.mark.parametrize(
    "case", ["alone", "other", "component", "disabled", "excluded", "vectors", "at home"]
)
def test_a_parser_without_what_it_was_trained_over_is_an_error(case, folder, other, tmp_path):
    """Without a tok2vec or with another, and with its own where static vectors are not the same."""
    without = {"disabled": {"disable": ["tok2vec"]}, "excluded": {"exclude": ["tok2vec"]}}
    source = spacy.load(folder, **without.get(case, {}))
    nlp = other if case in ("other", "component", *without) else spacy.blank("xx")
    if case == "component":
        nlp.vocab.vectors = source.vocab.vectors
    if case == "vectors":
        nlp.add_pipe("tok2vec", source=source)
        nlp.vocab.vectors = reversed_vectors(source)
    if case == "at home":
        nlp = source
        nlp.remove_pipe("tok2vec")
        nlp.add_pipe("tok2vec", source=other, first=True)
    else:
        nlp.add_pipe("root_mst", source=source)
    for _ in range(2):
        with refusing():
            nlp(TEXTS[0])
    nlp.to_disk(tmp_path)
    if case in ("other", "component", "vectors", "at home"):
        with refusing():
            spacy.load(tmp_path)


def test_a_shared_vocab_is_an_error_when_it_is_loaded(folder, other, tmp_path):
    """While the source exists, it cannot be told from its pipeline."""
    source = spacy.load(folder)
    nlp = spacy.blank("xx", vocab=source.vocab)
    nlp.add_pipe("tok2vec", source=other)
    nlp.add_pipe("root_mst", source=source)
    nlp.to_disk(tmp_path)
    with refusing():
        spacy.load(tmp_path)
    del source
    gc.collect()
    with refusing():
        nlp(TEXTS[0])


def test_vectors_of_a_component_that_was_removed_are_used(folder, expected):
    nlp = spacy.load(folder)
    _, tok2vec = nlp.remove_pipe("tok2vec")
    parser = nlp.get_pipe("root_mst")
    docs = [parser(tok2vec(nlp.make_doc(text))) for text in TEXTS]
    assert list(map(arcs_of, docs)) == expected


def test_processes_know_as_much_as_the_one_that_starts_them(folder, other, expected):
    other.add_pipe("root_mst", source=spacy.load(folder))
    parser = pickle.loads(pickle.dumps(other.get_pipe("root_mst")))
    with refusing():
        parser(other.get_pipe("tok2vec")(other.make_doc(TEXTS[0])))
    home = spacy.load(folder)
    parser = pickle.loads(pickle.dumps(home.get_pipe("root_mst")))
    assert arcs_of(parser(home.get_pipe("tok2vec")(home.make_doc(TEXTS[0])))) == expected[0]
    # Home stays right.
    home.add_pipe("sentencizer", last=True)
    assert parses(home) == expected


def test_parser_and_its_tok2vec_may_be_taken_together(folder, expected):
    source = spacy.load(folder)
    nlp = spacy.blank("xx")
    nlp.vocab.vectors = source.vocab.vectors
    nlp.add_pipe("tok2vec", source=source)
    nlp.add_pipe("root_mst", source=source)
    # The first Doc that they see has what cannot be saved.
    doc = nlp.make_doc(TEXTS[0])
    doc.user_hooks["vector"], doc.user_data["lock"] = (lambda doc: None), threading.Lock()
    assert arcs_of(nlp(doc)) == expected[0]
    assert parses(nlp) == expected
    assert spacy.load(folder).config["components"] == nlp.config["components"]


def test_parser_that_is_trained_over_another_tok2vec_is_right(folder, other, quickstart_docs):
    other.add_pipe("root_mst", source=spacy.load(folder))
    examples = gold_examples(quickstart_docs[:5], other)
    losses = []
    with other.select_pipes(enable=["tok2vec", "root_mst"]):
        for _ in range(5):
            losses.append(update(other, examples, other.resume_training())["root_mst"])
    assert losses[-1] < losses[0]
    found = parses(other)
    loaded = spacy.blank("xx").from_config(other.config).from_bytes(other.to_bytes())
    assert parses(loaded) == found


def test_a_parser_that_reads_static_vectors_of_the_vocab_needs_them(quickstart_docs):
    source = with_static_vectors(quickstart_docs)
    source.add_pipe("root_mst", config={"model": {**SMALL_MODEL, "tok2vec": TOK2VEC}})
    train(source, gold_examples(quickstart_docs[:40], source), steps=3)
    nlp = spacy.blank("xx")
    nlp.add_pipe("root_mst", source=source)
    with refusing():
        nlp(TEXTS[0])
    nlp.vocab.vectors = source.vocab.vectors
    assert parses(nlp) == parses(source)


@pytest.mark.parametrize("is_replaced", [True, False])
def test_a_config_may_name_a_pipeline_whose_parser_was_replaced(
    is_replaced, folder, other, expected, tmp_path
):
    if is_replaced:
        replace_parser(other, folder)
    other.to_disk(tmp_path / "other")
    config = Config(spacy.blank("xx").config)
    sources = tmp_path / "other", tmp_path / "other" if is_replaced else folder
    names = ["tok2vec", "root_mst"]
    config["components"] = {
        name: {"source": str(path)} for name, path in zip(names, sources, strict=True)
    }
    config["nlp"]["pipeline"] = names
    nlp = load_model_from_config(config, auto_fill=True)
    nlp.to_disk(tmp_path / "assembled")
    if is_replaced:
        assert parses(nlp) == parses(spacy.load(tmp_path / "assembled")) == expected
    else:
        with refusing():
            parses(nlp)
        with refusing():
            spacy.load(tmp_path / "assembled")


# --- the table of static vectors ---------------------------------------------------------------


@pytest.mark.parametrize("n_bytes", [2, 4])
def test_vectors_are_saved_exactly_and_small(n_bytes, folder, quickstart_docs, tmp_path):
    """Numbers of half precision, and a table of single precision."""
    home = spacy.load(folder) if n_bytes == 2 else make_home(quickstart_docs, "floret", "float32")
    nlp, data = spacy.blank("xx"), home.vocab.vectors.data
    replace_parser(nlp, home)
    nlp.to_disk(tmp_path)
    loaded = spacy.load(tmp_path)
    assert parses(loaded) == parses(home)
    # And where `nlp.pipe(n_process=2)` spawns processes.
    for parser in (loaded.get_pipe("root_mst"), pickle.loads(pickle.dumps(nlp)).pipeline[0][1]):
        table = parser.model.get_ref("tok2vec").attrs["static_vectors"]
        np.testing.assert_array_equal(table.data, data)
    saved = (tmp_path / "root_mst" / "model").read_bytes()
    assert data.astype(f"float{8 * n_bytes}").tobytes() in saved


def test_a_table_is_trained_from_a_source_alone(folder, quickstart_docs):
    nlp = spacy.blank("xx")
    replace_parser(nlp, folder)
    losses = [
        nlp.update(gold_examples(quickstart_docs[:5], nlp), sgd=nlp.resume_training())
        for _ in range(3)
    ]
    assert losses[-1]["root_mst"] < losses[0]["root_mst"]
    again = spacy.blank("xx").from_config(nlp.config)
    with pytest.raises(ValueError, match=r"no static vectors to start with: take .* by `source`"):
        again.initialize(lambda: gold_examples(quickstart_docs[:5], again))


# --- in one line -------------------------------------------------------------------------------


@pytest.fixture
def with_parser(other):
    """Another pipeline, with spaCy's parser between two components."""
    add_initialized(other, "parser", before="tagger")
    return other


@pytest.mark.filterwarnings("error:.W113")
@pytest.mark.parametrize("is_loaded", [False, True])
@pytest.mark.parametrize("is_disabled", [False, True])
def test_a_parser_is_replaced(is_loaded, is_disabled, folder, with_parser, expected, tmp_path):
    source = spacy.load(folder, disable=["tok2vec"] if is_disabled else [])
    if not is_loaded:
        source.to_disk(tmp_path / "source")
    if is_disabled:
        with_parser.disable_pipe("parser")
    before = source.to_bytes()
    parser = replace_parser(with_parser, source if is_loaded else tmp_path / "source")
    assert source.to_bytes() == before
    assert with_parser.pipe_names == ["tok2vec", "parser", "tagger"]
    assert with_parser.get_pipe("parser") is parser
    assert parses(with_parser) == expected
    with_parser.to_disk(tmp_path / "with")
    loaded = spacy.load(tmp_path / "with")
    assert parses(loaded) == expected
    assert [arcs_of(doc) for doc in loaded.pipe(TEXTS, n_process=2)] == expected
    # Again, in a pipeline with a root_mst, and in one without any parser.
    replace_parser(loaded, with_parser)
    assert loaded.pipe_names == ["tok2vec", "parser", "tagger"]
    assert parses(loaded) == expected
    empty = spacy.blank("xx")
    replace_parser(empty, folder)
    assert empty.pipe_names == ["root_mst"]
    assert parses(empty) == expected


@pytest.mark.parametrize("width", [6, 0])
def test_a_replaced_parser_keeps_the_static_vectors_of_its_vocab(width, quickstart_docs, tmp_path):
    source = with_static_vectors(quickstart_docs)
    features = tok2vec_of(multi_hash("NORM", width=8, include_static_vectors=True))
    model = {**SMALL_MODEL, "tok2vec": TOK2VEC, "features": features}
    source.add_pipe("root_mst", config={"model": model})
    train(source, gold_examples(quickstart_docs[:40], source), steps=3)
    nlp = spacy.blank("xx")
    if width:
        nlp.vocab.vectors = Vectors(data=np.ones((1, width), "f"), keys=["cat"])
    replace_parser(nlp, source)
    assert parses(nlp) == parses(source)
    nlp.to_disk(tmp_path)
    assert parses(spacy.load(tmp_path)) == parses(source)


def untrained():
    nlp = spacy.blank("xx")
    nlp.add_pipe("root_mst", config={"model": SMALL_MODEL})
    return nlp


@pytest.mark.parametrize(
    ("make_source", "expected"),
    [
        (
            lambda folder: spacy.load(folder, exclude=["root_mst"]),
            r"expected a root_mst called 'root_mst', found .*'tok2vec'",
        ),
        (
            lambda folder: untrained(),
            r"expected a source with a trained parser, found 'root_mst'",
        ),
        (
            lambda folder: spacy.load(folder, exclude=["tok2vec"]),
            r"'tok2vec'|the component that 'root_mst' listens to",
        ),
        (lambda folder: "no_such_pipeline", r"Can't find model"),
        (None, r"expected at most one component that sets heads, found \['parser', 'second'\]"),
    ],
)
def test_what_cannot_be_replaced_stays(make_source, expected, folder, with_parser):
    if make_source is None:
        add_initialized(with_parser, "parser", name="second")
    source = make_source(folder) if make_source else folder
    before = with_parser.to_bytes()
    with pytest.raises((ValueError, OSError), match=expected):
        replace_parser(with_parser, source)
    assert with_parser.to_bytes() == before
