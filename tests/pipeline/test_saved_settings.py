"""Settings changed by `configure`: they are in the config, and come back when it is loaded."""

import copy
import pickle

import pytest
import spacy
from parsers import make_nlp
from spacy.util import get_lang_class, registry
from thinc.api import Config

from spacy_rootmind import configure
from spacy_rootmind.guidelines.constraints import Constraints, preset_heads
from spacy_rootmind.pipeline.settings import default_settings

UD = {"@misc": "spacy_rootmind.ud_guidelines.v1", "fixed_tags": True}
PRESET = {"@misc": "spacy_rootmind.preset_heads.v1"}
# Per setting: a value other than the default, and what it is in a config.
CHANGED = {
    "objective": ("perceptron", "perceptron"),
    "margin": (0, 0.0),
    "sentences": ("doc", "doc"),
    "boundary_threshold": (0.25, 0.25),
    "blank_lines": (False, False),
    "line_ends": (True, True),
    "max_sentence_length": (77, 77),
    "decode": ("tree", "tree"),
    "projective": (True, True),
    "guidelines": (UD, UD),
    "constraints": (PRESET, PRESET),
    "temperature": (3, 3.0),
    "confidence": (True, True),
    "arc_threshold": (0.25, 0.25),
    "alternatives": ("sample", "sample"),
    "n_alternatives": (3, 3),
    "sample_seed": (None, None),
    "keep_trees": (True, True),
    "distribution_threshold": (0.01, 0.01),
    "learn_rate_factor": (2, 2.0),
}


def parser_of(nlp, name="root_mst"):
    return nlp.get_pipe(name)


def block(nlp, name="root_mst"):
    return nlp.config["components"][name]


# The settings that go together.
TOGETHER = {
    name: value for name, value in CHANGED.items() if name not in ("projective", "guidelines")
}


def configure_all(nlp, name="root_mst"):
    configure(nlp, name, **{setting: value for setting, (value, _) in TOGETHER.items()})


def settings_of(nlp, name="root_mst"):
    """The settings of a parser, as in its config, which has the blocks of functions."""
    found = vars(parser_of(nlp, name).settings)
    in_config = block(nlp, name)
    assert all((value is None) == (in_config[key] is None) for key, value in found.items())
    return {key: in_config[key] if callable(value) else value for key, value in found.items()}


EXPECTED = {**default_settings(), **{name: in_config for name, (_, in_config) in TOGETHER.items()}}


def via_disk(nlp, folder, **rest):
    nlp.to_disk(folder)
    return spacy.load(folder, **rest)


def copy_of(trained):
    """A copy of the shared parser that can be changed."""
    return get_lang_class("xx").from_config(trained.config).from_bytes(trained.to_bytes())


@pytest.fixture
def nlp():
    """A pipeline whose parser has no weights yet."""
    return make_nlp()


@pytest.fixture
def parsing(trained):
    """A pipeline that parses."""
    return copy_of(trained)


def test_every_setting_is_changed_here():
    assert set(CHANGED) == set(default_settings())
    assert all(CHANGED[name][1] != default for name, default in default_settings().items())


def test_changed_settings_are_in_the_config(nlp):
    before = {**block(nlp)}
    for name, (value, in_config) in CHANGED.items():
        configure(nlp, **{name: value})
        assert block(nlp) == {**before, name: in_config}
        assert settings_of(nlp) == {**default_settings(), name: in_config}
        configure(nlp, **{name: before[name]})


def test_the_fitted_temperature_stays_when_another_is_set(nlp, tmp_path):
    parser_of(nlp).cfg["temperature"] = 1.379
    configure(nlp, temperature=3.0)
    again = via_disk(nlp, tmp_path / "model")
    assert parser_of(again).temperature == 3.0
    configure(again, temperature=None)
    assert parser_of(again).temperature == 1.379


def test_settings_passed_when_loading_take_precedence(nlp, tmp_path):
    configure(nlp, temperature=3.0)
    configure(nlp, confidence=True)
    overrides = {
        "components.root_mst.temperature": None,
        "components.root_mst.confidence": False,
        "components.root_mst.arc_threshold": 0.5,
    }
    again = via_disk(nlp, tmp_path / "model", config=overrides)
    assert settings_of(again) == {**default_settings(), "arc_threshold": 0.5}
    # And what is changed after loading counts again.
    configure(again, arc_threshold=0.125)
    again = via_disk(again, tmp_path / "again")
    assert settings_of(again) == {**default_settings(), "arc_threshold": 0.125}


def test_variables_in_the_config_are_replaced(nlp, tmp_path):
    nlp.to_disk(tmp_path / "first")
    path = tmp_path / "first" / "config.cfg"
    config = Config().from_disk(path, interpolate=False)
    config["vars"] = {"heat": 2.0}
    config["components"]["root_mst"]["temperature"] = "${vars.heat}"
    config["components"]["root_mst"]["learn_rate_factor"] = "${vars.heat}"
    config.to_disk(path)
    again = spacy.load(tmp_path / "first")
    assert parser_of(again).temperature == 2.0
    configure(again, temperature=3.0)
    last = via_disk(again, tmp_path / "second")
    assert parser_of(last).temperature == 3.0
    assert block(last)["learn_rate_factor"] == "${vars.heat}"


# --- components in other pipelines -------------------------------------------------------------


def taken_from(nlp):
    """A pipeline that took the parser of another, while the other is still there."""
    target = spacy.blank("xx")
    target.add_pipe("root_mst", source=nlp)
    return target


def unpickled(nlp):
    return pickle.loads(pickle.dumps(nlp))


@pytest.mark.parametrize("move", [taken_from, unpickled, copy.deepcopy])
def test_settings_changed_after_a_move_are_in_the_config_and_come_back(move, nlp, tmp_path):
    configure(nlp, max_sentence_length=55)
    moved = move(nlp)
    assert block(moved)["max_sentence_length"] == 55
    configure_all(moved)
    assert {name: block(moved)[name] for name in EXPECTED} == EXPECTED
    # The config of the other pipeline says what it said, also if both have the same component.
    assert block(nlp)["max_sentence_length"] == 55
    overrides = {"components.root_mst.confidence": False}
    again = via_disk(moved, tmp_path / "model", config=overrides)
    assert settings_of(again) == {**EXPECTED, "confidence": False}
    assert settings_of(copy_of(moved)) == EXPECTED


# --- functions ---------------------------------------------------------------------------------


def test_a_parser_with_functions_can_be_pickled(parsing):
    configure(parsing, constraints=PRESET, guidelines=UD)
    again = unpickled(parsing)
    assert parser_of(again).settings.constraints is parser_of(parsing).settings.constraints
    assert block(again)["guidelines"] == UD


def first_is_root(doc):
    return Constraints(forced=[(0, 0)])


@pytest.fixture
def registered():
    """A registered function of a user."""
    registry.misc("test_first_is_root.v1", func=lambda: first_is_root)
    return {"@misc": "test_first_is_root.v1"}


def test_a_registered_function_of_a_user_is_saved_by_its_block(parsing, registered, tmp_path):
    configure(parsing, constraints=registered)
    again = via_disk(parsing, tmp_path / "model")
    assert again("The cat slept.")[0].dep_ == "ROOT"
    # Made by loading the config, which alone knows its block.
    assert parser_of(again).settings.constraints is first_is_root
    configure(again, confidence=True)
    last = via_disk(again, tmp_path / "again")
    assert parser_of(last).settings.constraints is first_is_root
    assert block(last)["constraints"] == registered


@pytest.mark.parametrize("value", [first_is_root, preset_heads()])
def test_functions_are_given_by_their_block(nlp, value):
    before = {**block(nlp)}
    with pytest.raises(ValueError, match="expected constraints as the block of a config that"):
        configure(nlp, confidence=True, constraints=value)
    assert block(nlp) == before
    assert not parser_of(nlp).settings.confidence
