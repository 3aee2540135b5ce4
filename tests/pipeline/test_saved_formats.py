"""Components of all formats are loaded and parse as they did; see tests/saved/make.py."""

import json

import pytest
import srsly
from conftest import ROOT
from parsers import assign
from spacy.tokens import Doc
from spacy.util import load_config, load_model_from_config

from spacy_rootmind.pipeline.serialization import FORMAT

SAVED = ROOT / "tests" / "saved"
FORMATS = sorted(path.stem for path in SAVED.glob("*.cfg"))


def load(name, folder):
    """A pipeline of the config that was saved with a component."""
    nlp = load_model_from_config(load_config(SAVED / f"{name}.cfg"))
    nlp.get_pipe("root_mst").from_disk(folder, exclude=["vocab"])
    return nlp


def assert_parses_as_saved(nlp, name):
    pipe = nlp.get_pipe("root_mst")
    before = assign(pipe, confidence=True)
    for saved in json.loads((SAVED / f"{name}.json").read_text(encoding="utf8")):
        doc = nlp(Doc(nlp.vocab, words=saved["words"]))
        assert [token.head.i for token in doc] == saved["heads"]
        assert [token.dep_ for token in doc] == saved["deps"]
        assert [token._.head_prob for token in doc] == pytest.approx(saved["probs"], abs=1e-4)
    pipe.use_settings(before)


def test_there_is_a_component_of_the_present_format():
    assert f"format-{FORMAT}" in FORMATS


@pytest.mark.parametrize("name", FORMATS)
def test_component_parses_as_it_did(name):
    nlp = load(name, SAVED / name)
    assert_parses_as_saved(nlp, name)
    pipe = nlp.get_pipe("root_mst")
    again = load(name, SAVED / name)
    again.get_pipe("root_mst").from_bytes(pipe.to_bytes())
    assert_parses_as_saved(again, name)


def test_present_format_is_written_as_it_was_read(tmp_path):
    """A change of what is saved needs a new format number."""
    name = f"format-{FORMAT}"
    load(name, SAVED / name).get_pipe("root_mst").to_disk(tmp_path, exclude=["vocab"])
    own, saved = (srsly.read_json(folder / "cfg") for folder in (tmp_path, SAVED / name))
    assert {**own, "sha256": ""} == {**saved, "sha256": ""}
    own, saved = (
        srsly.msgpack_loads((folder / "model").read_bytes()) for folder in (tmp_path, SAVED / name)
    )
    assert own.keys() == saved.keys()
    assert own["nodes"] == saved["nodes"]
