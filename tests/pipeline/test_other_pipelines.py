"""A parser in another pipeline has the heads of its own, or is an error that says what to write."""

import gc
import pickle
import threading
from contextlib import nullcontext

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
    multi_hash,
    tok2vec_of,
    train,
    update,
)
from spacy.util import fix_random_seed, load_model_from_config
from spacy.vectors import Vectors
from thinc.api import Config

from spacy_rootmind import replace_parser
from spacy_rootmind.pipeline.callbacks import make_fast_cpu

# spaCy says so of any component, whatever it reads.
pytestmark = pytest.mark.filterwarnings("ignore:.W113. Sourced component:UserWarning")

TEXTS = ["The cat saw a dog.", "Which book did Anna read? It slept.", "", "He saw her \n dog."]


TOK2VEC = tok2vec_of(multi_hash("NORM", "SUFFIX", width=32, include_static_vectors=True))
TAGGER = {"@architectures": "spacy.Tagger.v2", "nO": None, "tok2vec": LISTENER}


# The line that the error says to write.
PATHS = ["model.tok2vec"]


def static_vectors(docs, strings, mode, dtype="float16"):
    """Vectors of all words; all numbers have half precision, unless they are of another type."""
    rng = np.random.default_rng(0)
    words = sorted({token.lower_ for doc in docs for token in doc})
    data = rng.normal(size=(len(words), 6)).astype(dtype).astype("float32")
    if mode == "floret":
        options = {"minn": 2, "maxn": 3, "hash_count": 2, "mode": "floret"}
        return Vectors(strings=strings, data=data, attr="NORM", **options)
    keys = [strings.add(word) for word in words]
    return Vectors(strings=strings, data=data, keys=keys, attr="NORM")


def make_home(docs, mode="default", dtype="float16"):
    """A trained pipeline whose parser listens to a tok2vec that reads static vectors."""
    fix_random_seed(0)
    nlp = spacy.blank("xx")
    nlp.vocab.vectors = static_vectors(docs, nlp.vocab.strings, mode, dtype)
    nlp.add_pipe("tok2vec", config={"model": TOK2VEC})
    nlp.add_pipe("root_mst", config={"model": LISTENING})
    return train(nlp, gold_examples(docs[:40], nlp), steps=12)


@pytest.fixture(scope="module")
def folder(quickstart_docs, tmp_path_factory):
    """The folder of such a pipeline, from which each test loads its own."""
    path = tmp_path_factory.mktemp("home")
    make_home(quickstart_docs).to_disk(path)
    return path


def make_other(docs):
    """An initialized pipeline with another tok2vec of the same width."""
    fix_random_seed(1)
    nlp = spacy.blank("xx")
    nlp.add_pipe("tok2vec", config={"model": SMALL_MODEL["tok2vec"]})
    nlp.add_pipe("tagger", config={"model": TAGGER})
    nlp.get_pipe("tagger").add_label("NN")
    nlp.initialize(lambda: gold_examples(docs[:5], nlp), sgd=None)
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


@pytest.fixture
def other(quickstart_docs):
    return make_other(quickstart_docs)


def refusing():
    return pytest.raises(
        ValueError,
        match=r"\[root_mst\] .* taken from a pipeline whose 'tok2vec' it listens to.*"
        r"source\.replace_listeners\('tok2vec', 'root_mst', \['model\.tok2vec'\]\)",
    )


# --- in a running program ----------------------------------------------------------------------


@pytest.mark.parametrize("is_empty", [False, True])
def test_parser_that_listens_to_another_tok2vec_or_none_is_an_error(
    is_empty, folder, other, tmp_path
):
    nlp = spacy.blank("xx") if is_empty else other
    nlp.add_pipe("root_mst", source=spacy.load(folder))
    for _ in range(2):
        with refusing():
            nlp(TEXTS[0])
    nlp.to_disk(tmp_path)
    if not is_empty:
        with refusing():
            spacy.load(tmp_path)


def test_what_the_error_says_gives_the_heads_of_home(folder, other, expected, tmp_path):
    source = spacy.load(folder)
    other.add_pipe("root_mst", source=source)
    with refusing():
        other(TEXTS[0])
    other.remove_pipe("root_mst")
    source.replace_listeners("tok2vec", "root_mst", PATHS)
    other.add_pipe("root_mst", source=source)
    assert parses(other) == expected
    # Home has the same parser.
    assert parses(source) == expected
    other.to_disk(tmp_path)
    loaded = spacy.load(tmp_path)
    assert loaded.vocab.vectors.size == 0
    assert parses(loaded) == expected
    again = spacy.blank("xx").from_config(loaded.config).from_bytes(loaded.to_bytes())
    assert parses(again) == expected
    assert [doc.to_json() for doc in loaded.pipe(TEXTS, n_process=2)] == [
        loaded(text).to_json() for text in TEXTS
    ]


@pytest.mark.parametrize(
    ("is_kept", "without"), [(True, {"disable": ["tok2vec"]}), (False, {"exclude": ["tok2vec"]})]
)
def test_a_source_without_its_tok2vec_is_an_error(is_kept, without, folder, other):
    source = spacy.load(folder, **without)
    other.add_pipe("root_mst", source=source)
    if not is_kept:
        del source
        gc.collect()
    with refusing():
        other(TEXTS[0])


def test_processes_know_as_much_as_the_one_that_starts_them(folder, other, expected):
    other.add_pipe("root_mst", source=spacy.load(folder))
    parser = pickle.loads(pickle.dumps(other.get_pipe("root_mst")))
    doc = other.get_pipe("tok2vec")(other.make_doc(TEXTS[0]))
    with pytest.raises(ValueError, match="was taken from a pipeline"):
        parser(doc)
    home = spacy.load(folder)
    parser = pickle.loads(pickle.dumps(home.get_pipe("root_mst")))
    doc = parser(home.get_pipe("tok2vec")(home.make_doc(TEXTS[0])))
    assert arcs_of(doc) == expected[0]


def test_another_tok2vec_at_home_is_an_error(folder, other):
    nlp = spacy.load(folder)
    nlp.remove_pipe("tok2vec")
    nlp.add_pipe("tok2vec", source=other, first=True)
    with refusing():
        nlp(TEXTS[0])


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


def test_other_static_vectors_of_the_same_width_are_an_error(folder):
    source = spacy.load(folder)
    nlp = spacy.blank("xx")
    vectors = source.vocab.vectors
    own = Vectors(strings=nlp.vocab.strings, data=vectors.data[::-1].copy(), attr="NORM")
    own.key2row = dict(vectors.key2row)
    nlp.vocab.vectors = own
    nlp.add_pipe("tok2vec", source=source)
    nlp.add_pipe("root_mst", source=source)
    # Neither an empty Doc nor whitespace shows it.
    assert [len(doc) for doc in nlp.pipe(["", " "])] == [0, 1]
    with refusing():
        nlp(TEXTS[0])


def test_an_empty_table_is_not_trained(folder, quickstart_docs):
    nlp = spacy.load(folder)
    nlp.replace_listeners("tok2vec", "root_mst", PATHS)
    nlp.remove_pipe("tok2vec")
    again = spacy.blank("xx").from_config(nlp.config)
    with pytest.raises(ValueError, match=r"no static vectors to start with: take .* by `source`"):
        again.initialize(lambda: gold_examples(quickstart_docs[:5], again))


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
    source = spacy.load(folder)
    other.add_pipe("root_mst", source=source)
    examples = gold_examples(quickstart_docs[:5], other)
    losses = []
    with other.select_pipes(enable=["tok2vec", "root_mst"]):
        for _ in range(5):
            losses.append(update(other, examples, other.resume_training())["root_mst"])
    assert losses[-1] < losses[0]
    found = parses(other)
    loaded = spacy.blank("xx").from_config(other.config).from_bytes(other.to_bytes())
    assert parses(loaded) == found


def test_a_parser_that_reads_static_vectors_of_the_vocab_says_which_it_needs(quickstart_docs):
    source = with_static_vectors(quickstart_docs)
    source.add_pipe("root_mst", config={"model": {**SMALL_MODEL, "tok2vec": TOK2VEC}})
    train(source, gold_examples(quickstart_docs[:40], source), steps=3)
    nlp = spacy.blank("xx")
    nlp.add_pipe("root_mst", source=source)
    with pytest.raises(ValueError, match=r"width 6, .* width 0: .*nlp\.vocab\.vectors ="):
        nlp(TEXTS[0])
    nlp.vocab.vectors = source.vocab.vectors
    assert parses(nlp) == parses(source)


# --- by a config -------------------------------------------------------------------------------


def config_with(folder, other_folder, **parser):
    config = Config(spacy.blank("xx").config)
    config["components"] = {
        "tok2vec": {"source": str(other_folder)},
        "root_mst": {"source": str(folder), **parser},
    }
    config["nlp"]["pipeline"] = ["tok2vec", "root_mst"]
    return config


@pytest.fixture
def other_folder(other, tmp_path):
    other.to_disk(tmp_path / "other")
    return tmp_path / "other"


@pytest.mark.parametrize("is_replaced", [True, False])
def test_config_gives_the_heads_of_home_with_replaced_listeners_alone(
    is_replaced, folder, other_folder, expected, tmp_path
):
    replaced = {"replace_listeners": PATHS} if is_replaced else {}
    nlp = load_model_from_config(config_with(folder, other_folder, **replaced), auto_fill=True)
    with nullcontext() if is_replaced else refusing():
        assert parses(nlp) == expected
    nlp.to_disk(tmp_path / "assembled")
    with nullcontext() if is_replaced else refusing():
        assert parses(spacy.load(tmp_path / "assembled")) == expected


# --- the table of static vectors ---------------------------------------------------------------


@pytest.mark.parametrize("n_bytes", [2, 4])
def test_vectors_are_saved_exactly_and_small(n_bytes, folder, quickstart_docs, tmp_path):
    """Numbers of half precision, and a table of single precision."""
    home = spacy.load(folder) if n_bytes == 2 else make_home(quickstart_docs, "floret", "float32")
    expected = parses(home)
    data = home.vocab.vectors.data.copy()
    home.replace_listeners("tok2vec", "root_mst", PATHS)
    nlp = spacy.blank("xx")
    nlp.add_pipe("root_mst", source=home)
    nlp.to_disk(tmp_path)
    loaded = spacy.load(tmp_path)
    assert parses(loaded) == expected
    table = loaded.get_pipe("root_mst").model.get_ref("tok2vec").attrs["static_vectors"]
    np.testing.assert_array_equal(table.data, data)
    saved = (tmp_path / "root_mst" / "model").read_bytes()
    assert data.astype(f"float{8 * n_bytes}").tobytes() in saved


@pytest.mark.parametrize("largest", [1.0, 1e6])
def test_pickled_tables_are_exact(largest, folder):
    """As where `nlp.pipe(n_process=2)` spawns processes."""
    home = spacy.load(folder)
    # Not numbers of half precision.
    home.vocab.vectors.data[0] = largest / 3
    home.replace_listeners("tok2vec", "root_mst", PATHS)
    parser = pickle.loads(pickle.dumps(home.get_pipe("root_mst")))
    table = parser.model.get_ref("tok2vec").attrs["static_vectors"]
    np.testing.assert_array_equal(table.data, home.vocab.vectors.data)


def with_static_vectors(docs):
    nlp = spacy.blank("xx")
    nlp.vocab.vectors = static_vectors(docs, nlp.vocab.strings, "default")
    return nlp


def test_static_vectors_are_kept_where_the_parser_was_added_to_a_fast_pipeline(quickstart_docs):
    nlp = with_static_vectors(quickstart_docs)
    nlp.add_pipe("tok2vec", config={"model": TOK2VEC})
    make_fast_cpu()(nlp)
    nlp.add_pipe("root_mst", config={"model": LISTENING})
    train(nlp, gold_examples(quickstart_docs[:40], nlp), steps=4)
    expected = parses(nlp)
    nlp.replace_listeners("tok2vec", "root_mst", PATHS)
    other = make_other(quickstart_docs)
    other.vocab.vectors = static_vectors(quickstart_docs, other.vocab.strings, "default")
    other.vocab.vectors.data[:] = 0
    other.add_pipe("root_mst", source=nlp)
    assert parses(other) == expected


# --- references in configs ---------------------------------------------------------------------


@pytest.mark.parametrize("is_loaded", [False, True])
def test_a_copy_of_token_vectors_does_not_refer_to_the_original(
    is_loaded, quickstart_docs, tmp_path
):
    width = "${components.vectors.model.encode.width}"
    tok2vec = tok2vec_of(multi_hash("NORM", width=32))
    tok2vec["embed"]["width"] = width
    sections = {
        "vectors": {"factory": "tok2vec", "model": tok2vec},
        "root_mst": {
            "factory": "root_mst",
            "model": {**LISTENING, "tok2vec": {**LISTENER, "width": width}},
        },
    }
    config = Config(spacy.blank("xx").config)
    config["components"], config["nlp"]["pipeline"] = sections, list(sections)
    nlp = load_model_from_config(config)
    train(nlp, gold_examples(quickstart_docs[:20], nlp), steps=2)
    if is_loaded:
        nlp.to_disk(tmp_path / "before")
        nlp = spacy.load(tmp_path / "before")
    assert nlp.config["components"]["vectors"]["model"]["embed"]["width"] == width
    expected = parses(nlp)
    nlp.replace_listeners("vectors", "root_mst", PATHS)
    nlp.remove_pipe("vectors")
    nlp.to_disk(tmp_path / "after")
    assert parses(spacy.load(tmp_path / "after")) == expected


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


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("two", r"expected at most one component that sets heads, found \['parser', 'second'\]"),
        ("none", r"expected a root_mst called 'root_mst', found .*'tok2vec'"),
        ("untrained", r"expected a source with a trained parser, found 'root_mst'"),
        ("alone", r"'tok2vec'|the component that 'root_mst' listens to"),
        ("missing", r"Can't find model"),
    ],
)
def test_what_cannot_be_replaced_stays(case, expected, folder, with_parser):
    source = folder
    if case == "two":
        add_initialized(with_parser, "parser", name="second")
    elif case == "none":
        source = spacy.load(folder, exclude=["root_mst"])
    elif case == "untrained":
        source = spacy.blank("xx")
        source.add_pipe("root_mst", config={"model": SMALL_MODEL})
    elif case == "alone":
        source = spacy.load(folder, exclude=["tok2vec"])
    else:
        source = "no_such_pipeline"
    before = with_parser.to_bytes()
    with pytest.raises((ValueError, OSError), match=expected):
        replace_parser(with_parser, source)
    assert with_parser.to_bytes() == before


@pytest.mark.parametrize("is_first", [True, False])
def test_static_vectors_are_kept_whichever_component_was_added_first(is_first, quickstart_docs):
    nlp = with_static_vectors(quickstart_docs)
    nlp.add_pipe("root_mst", config={"model": LISTENING})
    nlp.add_pipe("tok2vec", config={"model": TOK2VEC}, first=True)
    if is_first:
        nlp.rename_pipe("root_mst", "parser")
        nlp.rename_pipe("parser", "root_mst")
    train(nlp, gold_examples(quickstart_docs[:20], nlp), steps=1)
    nlp.replace_listeners("tok2vec", "root_mst", PATHS)
    assert nlp.get_pipe("root_mst").model.get_ref("tok2vec").name == "own_static_vectors"


def test_it_may_be_taken_further(folder, expected):
    nlp = spacy.load(folder)
    nlp.replace_listeners("tok2vec", "root_mst", PATHS)
    for _ in range(2):
        further = spacy.blank("xx")
        further.add_pipe("root_mst", source=nlp)
        nlp = further
    assert parses(nlp) == expected


def test_home_stays_right(folder, other, expected):
    source = spacy.load(folder)
    other.add_pipe("root_mst", source=source)
    with refusing():
        other(TEXTS[0])
    assert parses(source) == expected
    with refusing():
        other(TEXTS[0])
    source.add_pipe("sentencizer", last=True)
    assert parses(source) == expected
    source.to_bytes()


def test_a_pipeline_that_changes_while_its_parser_is_disabled_is_its_home(folder, expected):
    nlp = spacy.load(folder)
    nlp.disable_pipe("root_mst")
    nlp.add_pipe("sentencizer", last=True)
    nlp.enable_pipe("root_mst")
    assert parses(nlp) == expected
    nlp.to_bytes()


def test_vectors_of_a_component_that_was_removed_are_used(folder, expected):
    nlp = spacy.load(folder)
    _, tok2vec = nlp.remove_pipe("tok2vec")
    parser = nlp.get_pipe("root_mst")
    docs = [parser(tok2vec(nlp.make_doc(text))) for text in TEXTS]
    assert list(map(arcs_of, docs)) == expected


def test_a_tok2vec_that_is_disabled_at_home_is_no_other(folder):
    nlp = spacy.load(folder, disable=["tok2vec"])
    with pytest.raises(ValueError, match="has no token vectors"):
        nlp(TEXTS[0])
    nlp.enable_pipe("tok2vec")
    assert len(parses(nlp)) == len(TEXTS)


def test_components_of_others_keep_their_results(folder, other, expected):
    """Theirs in a pipeline of ours."""
    doc = other(TEXTS[0])
    other.replace_listeners("tok2vec", "tagger", PATHS)
    nlp = spacy.load(folder)
    nlp.add_pipe("tagger", source=other)
    assert [token.tag_ for token in nlp(TEXTS[0])] == [token.tag_ for token in doc]
    assert parses(nlp) == expected


def test_a_table_of_its_own_can_be_trained(folder, quickstart_docs):
    nlp = spacy.load(folder)
    nlp.replace_listeners("tok2vec", "root_mst", PATHS)
    losses = [
        nlp.update(gold_examples(quickstart_docs[:5], nlp), sgd=nlp.resume_training())
        for _ in range(3)
    ]
    assert losses[-1]["root_mst"] < losses[0]["root_mst"]
