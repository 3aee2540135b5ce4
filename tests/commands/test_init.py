"""`spacy init`, `spacy assemble` and `spacy debug`."""

import pytest
import spacy
import srsly
from commandline import (
    TOK2VEC,
    assert_one_root_each,
    read_docs,
    root_mst,
    spacy_command,
    train,
    write_config,
)
from conftest import QUICKSTART
from parsers import LISTENER
from spacy.util import load_config

pytestmark = pytest.mark.workflow

ASSETS = QUICKSTART / "assets"
# As a user adds it to a config of their own.
BY_HAND = '\n[components.root_mst]\nfactory = "root_mst"\n'


# --- configs -----------------------------------------------------------------------------------


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


@pytest.mark.parametrize("labels", [None, {"root_label": "root", "labels": ["nsubj", "obj"]}])
def test_assemble_initializes_a_parser_without_examples(labels, corpora, tmp_path):
    """As it does spaCy's own, which it assembles next to it."""
    components = {
        "tok2vec": TOK2VEC,
        "parser": {"factory": "parser"},
        "root_mst": root_mst(LISTENER),
    }
    initialize = {"components": {"root_mst": {"labels": labels}}} if labels else {}
    path = write_config(tmp_path / "assemble.cfg", components, corpora)
    load_config(path).merge({"initialize": initialize}).to_disk(path)
    spacy_command("assemble", path, tmp_path / "out", cwd=tmp_path)
    nlp = spacy.load(tmp_path / "out")
    found = nlp.get_pipe("root_mst").labels
    assert found == (("root", "nsubj", "obj") if labels else nlp.get_pipe("parser").labels)
    assert_one_root_each(nlp("Dogs bark."))


# --- labels ------------------------------------------------------------------------------------


def test_init_labels_writes_what_initialize_reads(plain_config, corpora, plain, tmp_path):
    spacy_command("init", "labels", plain_config, tmp_path, cwd=tmp_path)
    labels = srsly.read_json(tmp_path / "root_mst.json")
    vocab = spacy.blank("en").vocab
    tokens = [token for doc in read_docs(corpora / "train.spacy", vocab) for token in doc]
    assert labels["root_label"] == "ROOT"
    assert labels["labels"] == sorted({token.dep_ for token in tokens} - {"ROOT"})
    config = load_config(plain_config)
    config["initialize"]["components"]["root_mst"] = {
        "labels": {"@readers": "spacy.read_labels.v1", "path": str(tmp_path / "root_mst.json")}
    }
    config["training"]["logger"]["output_file"] = None
    config["training"]["max_steps"] = 1
    config.to_disk(tmp_path / "labelled.cfg")
    nlp = spacy.load(train(tmp_path / "labelled.cfg", tmp_path / "out"))
    assert nlp.get_pipe("root_mst").label_data == labels
    # The same as without a file.
    assert spacy.load(plain).get_pipe("root_mst").label_data == labels


# --- debug -------------------------------------------------------------------------------------
