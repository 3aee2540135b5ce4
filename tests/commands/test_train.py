"""`spacy train`, in the ways that spaCy knows to put a pipeline together, `init` and `evaluate`."""

import pytest
import spacy
import srsly
from commandline import (
    TOK2VEC,
    log_of,
    read_docs,
    spacy_command,
    tagger,
    train,
    weights_of,
    write_config,
)
from parsers import LISTENER, SMALL_MODEL, arcs_of, gold_examples
from spacy.training import Example
from spacy.util import load_config

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


# As a user adds it to a config of their own.
BY_HAND = '\n[components.root_mst]\nfactory = "root_mst"\n'


def test_fill_config_adds_all_settings_and_the_config_trains(corpora, tmp_path):
    """A config from `spacy init config`, to which root_mst was added by hand."""
    path, filled = tmp_path / "base.cfg", tmp_path / "filled.cfg"
    spacy_command("init", "config", path, "--pipeline", "tagger", cwd=tmp_path)
    text = path.read_text(encoding="utf8").replace('"tagger"]', '"tagger", "root_mst"]')
    path.write_text(text + BY_HAND, encoding="utf8")
    spacy_command("init", "fill-config", path, filled, cwd=tmp_path)
    config = load_config(filled)
    assert config["nlp"]["pipeline"] == ["tok2vec", "tagger", "root_mst"]
    section = config["components"]["root_mst"]
    defaults = spacy.blank("en").get_factory_meta("root_mst").default_config
    assert set(section) == {"factory", *defaults}
    assert section["model"]["@architectures"] == "spacy_rootmind.BiaffineParser.v1"
    assert section["scorer"] == {"@scorers": "spacy_rootmind.parser_scorer.v1"}
    weights = config["training"]["score_weights"]
    # Shared with the tagger's, and in all 1.
    assert weights["dep_uas"] == weights["dep_las"] == 0.25
    assert "root_violations" in weights
    assert sum(weight or 0.0 for weight in weights.values()) == pytest.approx(1.0, abs=0.01)
    paths = [f"--paths.{name}={corpora / name}.spacy" for name in ("train", "dev")]
    spacy_command(
        *("train", filled, "--output", tmp_path, *paths, "--training.max_steps=2"), cwd=tmp_path
    )
    nlp = spacy.load(tmp_path / "model-last")
    assert nlp.pipe_names == ["tok2vec", "tagger", "root_mst"]
    assert nlp("The cat slept.").has_annotation("DEP")


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


# --- scores and labels -------------------------------------------------------------------------

# The scores of spaCy's parser, which `spacy evaluate` therefore writes.
PARSER_SCORES = {"dep_uas", "dep_las", "dep_las_per_type", "sents_p", "sents_r", "sents_f"}
OWN_SCORES = {
    *("dep_ls", "dep_uem", "dep_lem", "dep_uas_all", "dep_las_all", "dep_las_conll18"),
    *("root_acc", "root_violations"),
}


@pytest.fixture(scope="module")
def expected(shared, corpora):
    """The scores of the pipeline on the development corpus, from within Python."""
    nlp = spacy.load(shared)
    docs = read_docs(corpora / "dev.spacy", nlp.vocab)
    return nlp.evaluate([Example(nlp.make_doc(doc.text), doc) for doc in docs])


def test_evaluate_writes_the_scores(shared, corpora, expected, tmp_path):
    arguments = (shared, corpora / "dev.spacy", "--output", "scores.json", "--gpu-id", "-1")
    printed = spacy_command("evaluate", *arguments, "--displacy-path", tmp_path, cwd=tmp_path)
    # Trees are drawn for a component of the factory "parser" alone, as `docs/migrating.md` says.
    assert not list(tmp_path.glob("*.html"))
    for line in ("UAS", "LAS", "SENT F", "LAS (per type)"):
        assert line in printed
    scores = srsly.read_json(tmp_path / "scores.json")
    assert set(scores) >= {*PARSER_SCORES, "tag_acc", "speed"}
    for name in PARSER_SCORES - {"dep_las_per_type"}:
        assert scores[name] == pytest.approx(expected[name], abs=1e-6)
    assert set(scores["dep_las_per_type"]) == set(expected["dep_las_per_type"])
    assert scores["dep_las_per_type"]["det"]["f"] > 0.5
    spacy_command("evaluate", *arguments, "--per-component", cwd=tmp_path)
    scores = srsly.read_json(tmp_path / "scores.json")["root_mst"]
    assert set(scores) == PARSER_SCORES | OWN_SCORES
    for name in OWN_SCORES:
        assert scores[name] == pytest.approx(expected[name], abs=1e-6)


def parse_texts(nlp):
    return [arcs_of(doc) for doc in nlp.pipe(TEXTS)]


def test_labels_outlive_memory_zones(plain):
    """Also where the Vocab knows nothing, and the first Doc ever is parsed in a zone."""
    source = spacy.load(plain)
    nlp = spacy.blank("en")
    pipe = nlp.add_pipe("root_mst", config={"model": SMALL_MODEL})
    assert "nsubj:pass" not in nlp.vocab.strings
    pipe.from_disk(plain / "root_mst", exclude=["vocab"])
    with nlp.memory_zone():
        assert parse_texts(nlp) == parse_texts(source)
    assert "nsubj:pass" in pipe.labels
    assert all(label in nlp.vocab.strings for label in pipe.labels)
    assert parse_texts(nlp) == parse_texts(source)


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
            alone[name] = parse_texts(nlp)
    assert alone["first"] != alone["second"]
    # The later one has the last word, on the sentences that the first has set.
    doc = nlp.get_pipe("first")(nlp.make_doc(TEXTS[0]))
    assert arcs_of(doc) == alone["first"][0]
    assert arcs_of(nlp.get_pipe("second")(doc)) == arcs_of(nlp(TEXTS[0]))
