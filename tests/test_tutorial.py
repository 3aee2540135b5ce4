"""The tutorial's commands and examples in order; examples of other pages."""

import re

import pytest
import spacy
from conftest import CONFIGS, ROOT, blocks
from environments import make_installed
from parsers import LISTENING, SMALL_MODEL, gold_examples, make_nlp
from spacy.tokens import DocBin
from spacy.util import load_model_from_config
from thinc.api import Config

TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf8")
BLOCK = re.compile(r"^```(bash|python)\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)


@pytest.mark.slow
def test_tutorial_runs_as_printed(tmp_path):
    """In an environment with only what it installs."""
    environment = make_installed(tmp_path)
    folder = tmp_path / "checkout"
    folder.mkdir()
    (folder / "projects").symlink_to(ROOT / "projects")
    (folder / "spacy_rootmind").mkdir()
    (folder / "spacy_rootmind" / "configs").symlink_to(CONFIGS)
    _, *steps = BLOCK.findall(TUTORIAL)  # test_quickstart.py runs the first
    for language, code in steps:
        command = ["python", "-c", code] if language == "python" else ["bash", "-ec", code]
        environment.run(*command, cwd=folder)
    assert (folder / "tutorial" / "scores.json").is_file()
    # A model of the README's, for example, stays as it is.
    assert {path.name for path in folder.iterdir()} == {"projects", "spacy_rootmind", "tutorial"}


def test_migration_page_shows_a_config_that_works():
    """The block for `root_mst` fits into a pipeline with a shared tok2vec and a tagger."""
    [block] = blocks("docs/migrating.md", "ini")
    shared = spacy.blank("en")
    shared.add_pipe("tok2vec")
    shared.add_pipe("tagger")
    tok2vec, tagger = (shared.config["components"][name] for name in ("tok2vec", "tagger"))
    own = Config().from_disk(CONFIGS / "cpu.cfg").interpolate()
    tok2vec["model"] = own["components"]["root_mst"]["model"]["tok2vec"]
    shown = block.replace("[nlp]", '[nlp]\nlang = "en"')
    shown = shown.replace("[components.", "[components]\n\n[components.", 1)
    config = Config().from_str(shown, interpolate=False)
    config["components"].update({"tok2vec": tok2vec, "tagger": tagger})
    nlp = load_model_from_config(config, auto_fill=True)
    assert nlp.pipe_names == config["nlp"]["pipeline"]


def test_a_trained_parser_takes_the_place_of_spacys(trained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trained.to_disk(tmp_path / "ours")
    theirs = spacy.blank("en")
    theirs.add_pipe("sentencizer")
    parser = theirs.add_pipe("parser")
    parser.add_label("nsubj")
    theirs.initialize()
    theirs.to_disk(tmp_path / "theirs")
    block = blocks("docs/in-your-pipeline.md", "python")[0]
    block = block.replace("en_core_web_sm", "theirs").replace("en_rootmind_web_sm", "ours")
    exec(compile(block, "in-your-pipeline.md", "exec"), {})
    nlp = spacy.load(tmp_path / "pipeline")
    assert nlp.pipe_names == ["sentencizer", "parser"]
    text = "The cat saw a dog."
    assert [token.dep_ for token in nlp(text)] == [token.dep_ for token in trained(text)]


def weights_of(nlp):
    return {name: pipe.model.to_bytes() for name, pipe in nlp.pipeline if hasattr(pipe, "model")}


def test_a_trained_pipeline_learns_new_sentences(web_pipeline, tmp_path, monkeypatch):
    """Only the parser changes, and the sentences' trees become those that were taught."""
    monkeypatch.chdir(tmp_path)
    nlp = spacy.load(web_pipeline)
    # A particle is called a modifier here.
    docs = [
        nlp(f"{who} {verb} it up .") for who in ("She", "We") for verb in ("gave", "took", "set")
    ]
    for doc in docs:
        doc[3].dep_ = "advmod"
    before = weights_of(nlp)
    DocBin(docs=docs).to_disk("own.spacy")
    found = blocks("docs/in-your-pipeline.md", "python")
    [block] = [block for block in found if "resume_training" in block]
    block = block.replace('"en_rootmind_web_sm"', "web_pipeline").replace("0.0002", "0.002")
    exec(compile(block, "in-your-pipeline.md", "exec"), {"web_pipeline": web_pipeline})
    taught = spacy.load("taught")
    after = weights_of(taught)
    assert {name for name in before if after[name] != before[name]} == {"root_mst"}
    assert nlp("They picked it up .")[3].dep_ == "compound:prt"
    assert taught("They picked it up .")[3].dep_ == "advmod"


@pytest.mark.parametrize("is_in_time", [False, True])
def test_shared_token_vectors_learn_in_time(is_in_time, quickstart_docs):
    """With the loop of the page, as in `spacy train`; `nlp.update` alone is late, as it says."""
    nlp = make_nlp(model=LISTENING)
    tok2vec = nlp.add_pipe("tok2vec", config={"model": SMALL_MODEL["tok2vec"]}, first=True)
    batches = [gold_examples(quickstart_docs[:5], nlp)]
    optimizer = nlp.initialize(lambda: batches[0])
    before = tok2vec.to_bytes()
    if is_in_time:
        block = blocks("docs/migrating.md", "python")[0]
        exec(block, {"nlp": nlp, "batches": batches, "optimizer": optimizer})
    else:
        nlp.update(batches[0], sgd=optimizer)
    assert (tok2vec.to_bytes() != before) == is_in_time
