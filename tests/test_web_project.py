"""The project that makes the English pipeline of the repository, with very small networks."""

import re
import shutil
import sys

import pytest
import spacy
import srsly
from commandline import (
    TOK2VEC,
    assert_one_root_each,
    read_docs,
    root_mst,
    run_spacy,
    tagger,
    write_config,
    write_docs,
)
from conftest import ROOT
from parsers import LISTENER, LISTENING, SMALL_MODEL, gold_examples, join, make_shared, update
from spacy.tokens import Doc
from spacy.util import load_config, load_model_from_config
from ud_treebanks import write_treebank

from spacy_rootmind.pipeline.callbacks import make_fit_tokenizer

PROJECT = ROOT / "projects" / "web"
sys.path.insert(0, str(PROJECT / "scripts"))
import make_package  # noqa: E402
from training_callbacks import make_start_from  # noqa: E402

WIDTH = SMALL_MODEL["tok2vec"]["width"]


@pytest.fixture(scope="module")
def corpus(quickstart_docs, tmp_path_factory):
    """A folder with a test set."""
    folder = tmp_path_factory.mktemp("corpus")
    write_docs(folder / "test.spacy", join(quickstart_docs[:20], 5))
    return folder


@pytest.fixture(scope="module")
def trained(quickstart_docs, tmp_path_factory):
    """A pipeline with shared token vectors, hardly trained, that has `!!!` as one token."""
    names = ("morphologizer", "trainable_lemmatizer")
    components = {name: tagger(LISTENER, factory=name)["model"] for name in names}
    nlp = make_shared({**components, "root_mst": LISTENING}, lang="en")
    examples = gold_examples(join(quickstart_docs[:100], 5), nlp)
    optimizer = nlp.initialize(lambda: examples)
    for _ in range(3):
        update(nlp, examples, optimizer)
    folder = tmp_path_factory.mktemp("trained") / "model-best"
    words = Doc(nlp.vocab, ["Well", "!!!", "Yes", "!!", "No", "!!!!"])
    make_fit_tokenizer(write_docs(folder.parent / "train.spacy", [words]))(nlp)
    nlp.config["paths"]["train"] = "/somewhere/train.spacy"
    nlp.to_disk(folder)
    return folder


def test_stored_pipeline_is_small_and_parses_alike(trained, corpus, tmp_path):
    stored = make_package.store(trained, tmp_path / "stored")
    for name in ("tok2vec", "root_mst"):
        folders = [trained, tmp_path / "stored"]
        single, half = ((folder / name / "model").stat().st_size for folder in folders)
        assert 0.5 < half / single < 0.7, name
        model = stored.get_pipe(name).model
        weights = [node.get_param(p) for node in model.walk() for p in node.param_names]
        assert {array.dtype.name for array in weights} == {"float32"}
    strings = [
        set(srsly.read_json(folder / "vocab" / "strings.json"))
        for folder in (trained, tmp_path / "stored")
    ]
    # A word of the treebank that is no label and not in the tokenizer's rules.
    assert "turtle" in strings[0] - strings[1]
    assert {"nsubj", "root"} & strings[1]
    config = load_config(tmp_path / "stored" / "config.cfg")
    assert config["paths"]["train"] is None
    network = config["components"]["root_mst"]["model"]
    assert network["tok2vec"]["width"] == WIDTH
    doc = stored("The cat slept!!!!!")
    assert [token.text for token in doc] == ["The", "cat", "slept", "!!!!!"]
    # The strings that were left out are not missed.
    whole = make_package.package.store(spacy.load(trained), tmp_path / "whole")
    for gold in read_docs(corpus / "test.spacy", spacy.blank("en").vocab):
        assert stored(gold.text).to_json() == whole(gold.text).to_json()


def test_training_starts_from_another_pipeline(trained, quickstart_docs):
    expected = spacy.load(trained)
    nlp = load_model_from_config(expected.config, auto_fill=True)
    nlp.initialize(lambda: gold_examples(join(quickstart_docs[:100], 5), nlp))
    make_start_from(trained)(nlp)
    for name, pipe in expected.pipeline:
        assert nlp.get_pipe(name).model.to_bytes() == pipe.model.to_bytes(), name
    text = "The cat slept. She said that it rained."
    assert nlp(text).to_json() == expected(text).to_json()


def test_larger_network_starts_from_a_smaller_one(quickstart_docs, tmp_path):
    """It parses the same, and its additions learn."""
    trained, larger = (
        make_shared({"root_mst": {**LISTENING, "qrnn_width": width}}, lang="en", depth=depth)
        for width, depth in ((6, 1), (10, 3))
    )
    examples = gold_examples(join(quickstart_docs[:20], 5), trained)
    optimizer = trained.initialize(lambda: examples)
    for _ in range(3):
        update(trained, examples, optimizer)
    trained.to_disk(tmp_path / "trained")
    optimizer = larger.initialize(lambda: examples)
    make_start_from(tmp_path / "trained")(larger)
    texts = [example.text for example in examples]
    expected, found = (
        [[(t.head.i, t.dep_, t.is_sent_start) for t in doc] for doc in nlp.pipe(texts)]
        for nlp in (trained, larger)
    )
    assert found == expected
    before = [w.copy() for w in weights_of(larger)]
    for _ in range(2):
        update(larger, examples, optimizer)
    unchanged = [
        w.shape for w, own in zip(weights_of(larger), before, strict=True) if (w == own).all()
    ]
    assert not unchanged


def test_smaller_network_does_not_start_from_a_larger_one(quickstart_docs, tmp_path):
    trained, smaller = (
        make_shared({"root_mst": {**LISTENING, "qrnn_width": width}}, lang="en")
        for width in (10, 6)
    )
    for nlp in (trained, smaller):
        examples = gold_examples(join(quickstart_docs[:20], 5), nlp)
        nlp.initialize(lambda own=examples: own)
    trained.to_disk(tmp_path / "trained")
    with pytest.raises(ValueError, match=r"expected the trained shape \(2, 32, 30\) of W in qrnn"):
        make_start_from(tmp_path / "trained")(smaller)


def weights_of(nlp):
    models = [pipe.model for _, pipe in nlp.pipeline if hasattr(pipe, "model")]
    nodes = [node for model in models for node in model.walk()]
    return [node.get_param(p) for node in nodes for p in node.param_names if node.has_param(p)]


@pytest.mark.workflow
def test_project_makes_a_package(quickstart_docs, tmp_path):
    """From a treebank to a package, without a teacher."""
    checkout = tmp_path / "checkout"
    made = shutil.ignore_patterns(
        *("assets", "corpus", "teachers", "taught", "training", "project.lock", "__pycache__")
    )
    for name in ("web", "ud"):
        shutil.copytree(ROOT / "projects" / name, checkout / "projects" / name, ignore=made)
    write_treebank(tmp_path / "treebanks" / "UD_English-EWT")
    components = {
        "tok2vec": TOK2VEC,
        "morphologizer": tagger(LISTENER, factory="morphologizer"),
        "root_mst": root_mst(LISTENER),
    }
    path = write_config(tmp_path / "tiny.cfg", components, tmp_path, steps=20)
    config = load_config(path)
    # A path of this machine, which is refused.
    config["training"]["logger"]["output_file"] = None
    config.to_disk(path)
    variables = {
        "source": tmp_path / "treebanks",
        "config": path,
        # The package's layers are others.
        "layers": "",
        "version": "1.2.3",
    }
    result = run_spacy(
        *("project", "run", "all", checkout / "projects" / "web"),
        *(f"--vars.{name}={value}" for name, value in variables.items()),
        cwd=tmp_path,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    folder = checkout / "pipelines" / make_package.NAME
    meta = srsly.read_json(folder / "meta.json")
    assert (meta["name"], meta["version"]) == ("rootmind_web_sm", "1.2.3")
    assert meta["performance"]["root_violations"] == 0
    assert "speed" not in meta["performance"]
    readme = (folder / "README.md").read_text(encoding="utf8")
    assert f"| LAS | {100 * meta['performance']['dep_las']:.2f} |" in readme
    assert "| | text | gold tokens |" in readme
    assert re.search(r"\| sentences found, F \| [\d.]+ \| 100\.00 \|", readme)
    assert "| Words | Sentences | UPOS | UFeats | UAS | LAS | CLAS | MLAS |" in readme
    assert 0.5 < meta["performance"]["conll18"]["Words"] < 1.0
    assert "`tok2vec`, `morphologizer` and `root_mst`" in readme
    assert "{" not in readme.replace("config={", "")
    data = make_package.data_of(folder)
    assert data.name == f"{make_package.NAME}-1.2.3"
    assert_one_root_each(spacy.load(data)("It rained. She said that it rained."))
