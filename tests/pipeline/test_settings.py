"""Settings are checked when the component is made, and whenever they are changed."""

import dataclasses
import inspect
from typing import get_args, get_type_hints

import numpy as np
import pytest
import spacy
from parsers import SMALL_MODEL, make_nlp

from spacy_rootmind import configure
from spacy_rootmind.pipeline.factory import make_root_mst
from spacy_rootmind.pipeline.settings import Objective, Settings, default_settings
from spacy_rootmind.training.objective import OBJECTIVES

A_FUNCTION = "the block of a config that names a registered function, .*, or None"

# Per setting: values that are refused, and what is expected.
CASES = {
    "objective": (["crf", "", None, 1], f"one of {', '.join(get_args(Objective))}"),
    "margin": ([-0.1, float("inf"), float("nan"), "1", True, None], "a number of at least 0"),
    "sentences": (["nonsense", "Auto", None], "one of auto, given, doc"),
    "boundary_threshold": (
        [-0.1, 1.5, float("nan"), float("inf"), "0.5", True, None],
        "a probability from 0 to 1",
    ),
    "blank_lines": (["yes", 1, None], "True or False"),
    "line_ends": (["yes", 1, "items", None], "True or False"),
    "max_sentence_length": (
        [0, -3, 2.5, True, "9", None, float("inf"), float("nan")],
        "an integer of at least 1",
    ),
    "decode": (["labels", None, np.array(["tree", "tree"])], "one of tree, labelled_tree"),
    "projective": (["yes", 1, None], "True or False"),
    "guidelines": (
        ["ud_guidelines", 1, {"@misc": "not_registered.v1"}, {"fixed_tags": True}],
        A_FUNCTION,
    ),
    "constraints": (
        ["preset_heads", 1, {"@misc": "not_registered.v1"}, {"root_label": "ROOT"}],
        A_FUNCTION,
    ),
    "temperature": ([0, -1.0, float("inf"), float("nan"), "1", True], "a number above 0, or None"),
    "confidence": (["yes", 1, None], "True or False"),
    "arc_threshold": (
        [0, -0.1, 1.01, float("nan"), float("inf"), "0.5", True],
        "a probability above 0 and at most 1, or None",
    ),
    "alternatives": ([5, "best", True, {"@misc": 3}], "one of kbest, sample, or None"),
    "n_alternatives": ([0, 2.5, "3", True, None], "an integer of at least 1"),
    "sample_seed": ([-1, 0.5, "1", False], "an integer of at least 0, or None"),
    "keep_trees": (["yes", 1, None], "True or False"),
    "distribution_threshold": (
        [0, 1.5, float("nan"), "0.01", True],
        "a probability above 0 and at most 1, or None",
    ),
    "learn_rate_factor": ([0, -1, float("inf"), float("nan"), None], "a number above 0"),
}
MULTI_HASH = {
    "@architectures": "spacy.MultiHashEmbed.v2",
    "width": 8,
    "attrs": ["NORM"],
    "rows": [10],
    "include_static_vectors": False,
}
REFUSED = [
    pytest.param(name, value, expected, id=f"{name}-{value!r}")
    for name, (refused, expected) in CASES.items()
    for value in refused
]


def test_every_setting_has_cases():
    assert set(default_settings()) == set(CASES)


@pytest.fixture(scope="module")
def nlp():
    return make_nlp()


@pytest.mark.parametrize(("name", "value", "expected"), REFUSED)
def test_wrong_values_are_refused_when_made_and_by_configure(nlp, name, value, expected):
    message = rf"expected {name} .*{expected}, received"
    with pytest.raises(ValueError, match=message):
        Settings(**{name: value})
    parser = nlp.get_pipe("root_mst")
    before, block = parser.settings, dict(nlp.get_pipe_config("root_mst"))
    with pytest.raises(ValueError, match=message):
        configure(nlp, **{"confidence": True, name: value})
    assert parser.settings is before
    assert nlp.get_pipe_config("root_mst") == block


@pytest.mark.parametrize("block", [MULTI_HASH, {"@misc": "spacy_rootmind.preset_heads.v1"}])
def test_another_network_than_a_parsers_is_refused(block):
    match = r"expected model as .*spacy_rootmind\.\w+\.v1 .*, received "
    with pytest.raises(ValueError, match=match):
        spacy.blank("xx").add_pipe("root_mst", config={"model": block})


def test_a_parser_is_found_by_its_type(nlp):
    other = make_nlp()
    other.rename_pipe("root_mst", "parser")
    configure(other, confidence=True)
    assert other.config["components"]["parser"]["confidence"]
    second = other.add_pipe("root_mst", "second", config={"model": SMALL_MODEL})
    with pytest.raises(ValueError, match=r"called 'root_mst', found .*'parser', 'second'"):
        configure(other, confidence=False)
    configure(other, "second", confidence=True)
    assert second.settings.confidence


def test_configure_names_what_there_is(nlp):
    with pytest.raises(ValueError, match=r"root_mst has no setting 'colour', expected"):
        configure(nlp, colour="red")
    nlp.add_pipe("sentencizer")
    match = r"expected a root_mst called 'sentencizer', found <spacy\.pipeline\.sentencizer"
    with pytest.raises(ValueError, match=match):
        configure(nlp, "sentencizer", confidence=True)
    nlp.remove_pipe("sentencizer")
    match = r"expected a root_mst called 'parser', found the components \['root_mst'\]"
    with pytest.raises(ValueError, match=match):
        configure(nlp, "parser", confidence=True)


def test_settings_cannot_be_assigned(nlp):
    """A change of these alone would not be saved."""
    parser = nlp.get_pipe("root_mst")
    for name in CASES:
        with pytest.raises(AttributeError):
            setattr(parser.settings, name, Settings())
    assert vars(parser.settings) == default_settings()


def test_numbers_of_numpy_are_taken_and_kept_as_plain_ones():
    settings = Settings(max_sentence_length=np.int64(7), temperature=np.float32(0.5))
    assert type(settings.max_sentence_length) is int
    assert type(settings.temperature) is float
    assert (settings.max_sentence_length, settings.temperature) == (7, 0.5)


# --- the factory -------------------------------------------------------------------------------


def test_factory_has_every_setting_with_its_type():
    """spaCy reads the signature, and the types from the annotations."""
    assert set(get_args(Objective)) == set(OBJECTIVES)
    settings = {each.name: each for each in dataclasses.fields(Settings)}
    parameters = inspect.signature(make_root_mst).parameters
    assert set(parameters) == {"nlp", "name", "model", "scorer", *settings}
    types = get_type_hints(make_root_mst)
    for name, setting in settings.items():
        assert parameters[name].default == setting.default
        assert types[name] == get_args(setting.type)[0]
