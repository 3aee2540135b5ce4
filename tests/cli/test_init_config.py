"""`python -m spacy_rootmind init-config`: the config, and trainings that it describes."""

import numpy as np
import pytest
import spacy
from commandline import read_docs, write_docs
from conftest import CONFIGS, QUICKSTART
from parsers import join, read_conllu
from spacy.cli.init_config import fill_config
from spacy.cli.train import train
from spacy.tokens import Doc
from spacy.training import Example
from spacy.training.initialize import init_nlp
from spacy.util import load_config, load_model_from_config
from spacy.vectors import Vectors
from thinc.api import Config

from spacy_rootmind.cli.init_config import ConfigOptions, init_config, make_config

# Components that the bundled treebank has annotation for.
NEIGHBOURS = ["tagger", "morphologizer", "trainable_lemmatizer"]
ALL = [*NEIGHBOURS, "root_mst", "ner"]
ENCODERS = {
    "transformer": ("roberta-base", "spacy_transformers"),
    "curated": ("bert-base-cased", "spacy_curated_transformers"),
}
QUICK = {
    "training.max_steps": 2,
    "training.eval_frequency": 1,
    "training.optimizer.learn_rate.total_steps": 2,
}


def options(pipeline=("root_mst",), lang="xx", **others):
    """Options; the language has the fewest tokenizer exceptions."""
    return ConfigOptions(lang, ",".join(pipeline), **others)


def shipped(name):
    return Config().from_disk(CONFIGS / f"{name}.cfg", interpolate=False)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Some sentences of the bundled treebank, five per Doc, as a corpus."""
    vocab = spacy.blank("xx").vocab
    docs = read_conllu(QUICKSTART / "assets" / "en_quick-ud-train.conllu", vocab, 40)
    return write_docs(tmp_path_factory.mktemp("corpus") / "gold.spacy", join(docs, 5))


@pytest.fixture(scope="module")
def vectors(tmp_path_factory):
    """A folder of a pipeline with word vectors."""
    nlp = spacy.blank("xx")
    vectors = Vectors(strings=nlp.vocab.strings, data=np.eye(3, dtype="f"))
    for row, word in enumerate(["cat", "dog", "saw"]):
        vectors.add(word, row=row)
    nlp.vocab.vectors = vectors
    folder = tmp_path_factory.mktemp("vectors") / "words"
    nlp.to_disk(folder)
    return folder


# --- the config --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["cpu", *ENCODERS])
def test_root_mst_alone_has_the_shipped_config(name):
    chosen = {name: ENCODERS[name][0]} if name in ENCODERS else {}
    assert make_config(options(lang="en", **chosen)) == shipped(name)


def test_tokenizer_is_fitted_before_training(corpus, tmp_path):
    """The bundled treebank has no `!!!`, which spaCy splits: add it to the corpus."""
    docs = read_docs(corpus, spacy.blank("en").vocab)
    words = ["Well", "!!!", "Yes", "!!", "No", "!!!!"]
    docs.append(Doc(docs[0].vocab, words, heads=[0] * 6, deps=["ROOT", *["dep"] * 5]))
    paths = dict.fromkeys(("paths.train", "paths.dev"), str(write_docs(tmp_path / "c.spacy", docs)))
    init_config(tmp_path / "config.cfg", options(fit_tokenizer=True))
    nlp = init_nlp(load_config(tmp_path / "config.cfg", overrides=paths))
    assert [token.text for token in nlp("Oh!!!!!")] == ["Oh", "!!!!!"]


def test_factory_defaults_are_those_of_the_shipped_config():
    nlp = spacy.blank("en")
    nlp.add_pipe("root_mst")
    default = nlp.get_pipe_config("root_mst")
    own = shipped("cpu").interpolate()["components"]["root_mst"]
    # As a default, it would be added to the configs of parsers that were saved without a rank.
    assert own["model"]["label_rank"] == 32
    own["model"]["label_rank"] = None
    assert default == own


@pytest.mark.parametrize("name", ["cpu", *ENCODERS])
def test_components_listen_to_one_another_and_train_with_the_shipped_settings(name):
    chosen = {name: ENCODERS[name][0]} if name in ENCODERS else {}
    config, own = make_config(options(ALL, "en", **chosen)), shipped(name)
    source = "transformer" if name in ENCODERS else "tok2vec"
    names = [source, *ALL[:2], "attribute_ruler", *ALL[2:]]
    assert config["nlp"]["pipeline"] == names == list(config["components"])
    listeners = [config["components"][name]["model"]["tok2vec"] for name in ALL]
    assert all(listener == listeners[0] for listener in listeners)
    assert "Listener" in listeners[0]["@architectures"]
    weights = config["training"]["score_weights"]
    assert all(weights[f] > 0 for f in ("tag_acc", "morph_acc", "lemma_acc", "dep_las", "ents_f"))
    assert sum(weight or 0 for weight in weights.values()) == pytest.approx(1.0, abs=0.02)
    assert list(config["initialize"]["components"].pop("attribute_ruler")) == ["patterns"]
    for part in (config, own):
        del part["training"]["score_weights"]
    for section in ("system", "corpora", "training", "initialize"):
        assert config[section] == own[section]
    model, own_model = (each["components"]["root_mst"]["model"] for each in (config, own))
    if name in ENCODERS:
        assert config["components"]["transformer"] == own["components"]["transformer"]
        assert model["grad_factor"] < own_model["grad_factor"] == 1.0
    else:
        blas = {"@callbacks": "spacy_rootmind.fast_cpu.v1"}
        assert config["nlp"]["after_pipeline_creation"] == blas
        assert config["components"]["root_mst"]["learn_rate_factor"] == 2.0
        assert model["qrnn_width"] == 1.5 * own_model["qrnn_width"]


@pytest.mark.parametrize(
    "chosen",
    [
        options(ALL),
        # Its score weights change when spaCy rescales them again.
        options([*NEIGHBOURS, "root_mst"]),
        options(["sentencizer", "root_mst", "textcat", "senter"], lang="de"),
        options(ALL, lang="zh"),
        options(["tagger", "root_mst"], vectors="words"),
        *(options(["tagger", "root_mst"], **{kind: name}) for kind, (name, _) in ENCODERS.items()),
    ],
    ids=lambda chosen: f"{chosen.lang}-{chosen.pipeline}",
)
def test_config_needs_no_filling(chosen, tmp_path):
    for kind, (_, package) in ENCODERS.items():
        if getattr(chosen, kind):
            pytest.importorskip(package, reason=f"needs {package}")
    init_config(tmp_path / "own.cfg", chosen)
    fill_config(tmp_path / "filled.cfg", tmp_path / "own.cfg", silent=True)
    written, filled = (tmp_path / f"{name}.cfg" for name in ("own", "filled"))
    assert written.read_text("utf8").strip() == filled.read_text("utf8").strip()


# --- errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--lang", "qq"], "--lang qq --pipeline root_mst: "),
        (["--pipeline", "tager,root_mst"], "--pipeline tager,root_mst: "),
        (["--pipeline", "tagger"], "Expected root_mst in --pipeline, received tagger"),
        (["--pipeline", " , "], "received nothing"),
        (["--pipeline", "transformer,root_mst"], "Expected --transformer ENCODER"),
        (["--lang", "ru", "--pipeline", "lemmatizer,root_mst"], "--pipeline lemmatizer,root_mst: "),
        (["--vectors", "en_core_web_md", "--curated", "x"], "Expected one of --transformer"),
        (["--transformer", "x", "--curated", "x"], "Expected one of --transformer"),
    ],
)
def test_errors_are_one_line(run, arguments, message, tmp_path):
    result = run("init-config", tmp_path / "own.cfg", *arguments)
    assert result.returncode == 1
    assert not (tmp_path / "own.cfg").exists()
    [line] = result.stderr.decode().splitlines()
    assert message in line


# --- the command -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        (["-p", "tagger, root_mst,tok2vec"], "python -m spacy train {path} --output"),
        (["--curated", "bert-base-german-cased"], "fill-curated-transformer {path} {path} -m bert"),
        (["--vectors", "{vectors}"], "--paths.train train.spacy --paths.dev dev.spacy"),
    ],
)
def test_command_says_what_to_do_next(run, chosen, said, vectors, tmp_path):
    path = tmp_path / "configs" / "own.cfg"
    for force in ([], ["--force"]):
        result = run(
            "init-config", path, *(each.format(vectors=vectors) for each in chosen), *force
        )
        assert result.returncode == 0
        printed = result.stderr.decode()
        assert said.format(path=path) in printed
        config = path.read_text("utf8")
        path.write_text("mine", encoding="utf8")
        refused = run("init-config", path, *chosen)
        assert refused.returncode == 1
        assert b"--force" in refused.stderr
        assert path.read_text("utf8") == "mine"
    assert Config().from_str(config, interpolate=False)["nlp"]["pipeline"][-1] == "root_mst"


def test_config_is_printed(run):
    printed = run("init-config", "-", "--pipeline", "tagger,root_mst").stdout.decode()
    assert Config().from_str(printed, interpolate=False)["nlp"]["pipeline"][-1] == "root_mst"


@pytest.mark.parametrize(
    ("pipeline", "transformer", "annotating"),
    [
        (["sentencizer", "root_mst"], None, ["sentencizer"]),
        (["tagger", "senter", "root_mst", "ner"], None, ["senter"]),
        (["root_mst", "senter"], None, []),
        (["parser", "root_mst"], "roberta-base", ["transformer", "parser"]),
    ],
    ids=str,
)
def test_components_that_find_sentences_annotate_in_training(pipeline, transformer, annotating):
    config = make_config(options(pipeline, transformer=transformer))
    assert config["training"]["annotating_components"] == annotating


@pytest.mark.parametrize(
    ("pipeline", "expected"),
    [
        (["root_mst"], ["root_mst"]),
        (
            [*NEIGHBOURS, "root_mst"],
            ["tok2vec", *NEIGHBOURS[:2], "attribute_ruler", NEIGHBOURS[2], "root_mst"],
        ),
        # A component that the user gives stays where it is, and as it is.
        (
            ["tagger", "root_mst", "attribute_ruler", "ud_tag_repair"],
            ["tok2vec", "tagger", "root_mst", "attribute_ruler", "ud_tag_repair"],
        ),
    ],
)
def test_components_are_added_where_they_are_needed(pipeline, expected):
    """With guidelines, tags are repaired, once, if there are any."""
    config = make_config(options(pipeline, ud=True))
    block = {"@misc": "spacy_rootmind.ud_guidelines.v1", "fixed_tags": False}
    assert config["components"]["root_mst"]["guidelines"] == block
    repaired = ["ud_tag_repair"] * ("morphologizer" in pipeline)
    assert config["nlp"]["pipeline"] == [*expected, *repaired]
    if repaired:
        assert config["components"]["ud_tag_repair"]["morphologizer"] == "morphologizer"
    if "attribute_ruler" in pipeline:
        assert not config["initialize"]["components"]
        assert config["components"]["attribute_ruler"]["scorer"] is not None


@pytest.mark.parametrize("taggers", [["tagger"], ["morphologizer"], ["tagger", "morphologizer"]])
def test_whitespace_gets_the_tags_of_spacys_pipelines(taggers, quickstart_docs):
    """The tags of each tagger in the pipeline, whatever it predicts for whitespace."""
    nlp = load_model_from_config(make_config(options(["root_mst", *taggers])), auto_fill=False)
    examples = [Example(nlp.make_doc(gold.text), gold) for gold in quickstart_docs[:5]]
    nlp.initialize(lambda: examples)
    doc = nlp("Go  on.\n\n \t Now")
    assert sum(token.is_space for token in doc) == 2
    for token in doc:
        assert (token.tag_ == "_SP") == (token.is_space and "tagger" in taggers)
        assert (token.pos_ == "SPACE") == (token.is_space and "morphologizer" in taggers)
        assert not (token.is_space and str(token.morph))


def test_tags_may_begin_with_an_exclamation_mark():
    nlp = load_model_from_config(make_config(options(["tagger", "root_mst"])))
    gold = Doc(nlp.vocab, ["Go", "!"], tags=["VB", "!"], heads=[0, 0], deps=["ROOT", "punct"])
    examples = [Example(nlp.make_doc(gold.text), gold)]
    nlp.initialize(lambda: examples)
    assert nlp.update(examples)["tagger"] > 0


@pytest.mark.workflow
def test_config_trains(corpus, tmp_path):
    init_config(tmp_path / "own.cfg", options([*NEIGHBOURS, "root_mst"], lang="en"))
    overrides = {**QUICK, "paths.train": str(corpus), "paths.dev": str(corpus)}
    train(tmp_path / "own.cfg", tmp_path / "out", overrides=overrides)
    nlp = spacy.load(tmp_path / "out" / "model-last")
    assert nlp.get_pipe("root_mst").temperature != 1.0
    assert nlp.get_pipe("tok2vec").listening_components == [*NEIGHBOURS, "root_mst"]
    [gold, *_] = read_docs(corpus, nlp.vocab)
    doc = nlp(Doc(nlp.vocab, words=[token.text for token in gold]))
    assert doc.has_annotation("DEP")
    assert doc.has_annotation("TAG")


@pytest.mark.parametrize("pipeline", [["root_mst"], ["tagger", "root_mst"]])
def test_vectors_are_used(pipeline, vectors, corpus, tmp_path):
    init_config(tmp_path / "own.cfg", options(pipeline, vectors=str(vectors)))
    paths = {"paths.train": str(corpus), "paths.dev": str(corpus)}
    nlp = init_nlp(load_config(tmp_path / "own.cfg", overrides=paths))
    assert nlp.vocab.vectors.shape == (3, 3)
    first = nlp.get_pipe(nlp.pipe_names[0])
    names = [node.name for node in first.model.walk()]
    assert "static_vectors" in names
