"""Fuzzers of configs: a setting is refused with a message, or the parser parses with it."""

import copy
from dataclasses import fields
from typing import Literal, get_args, get_origin

import numpy as np
import spacy
from fuzzing import VALUES, fuzz, no_hang
from hypothesis import given, settings
from hypothesis import strategies as st
from parsers import SMALL_MODEL
from spacy.tokens import Doc

from spacy_rootmind.pipeline.settings import Settings

WORDS = ["She", " ", "saw", "him", ".", "It", "rained"]
STARTS = [True, *[False] * 4, True, False]
RATES = st.one_of(st.none(), st.floats(), st.sampled_from([0.0, 1e-300, 0.05, 0.5, 1.0, 1e300]))
FUNCTIONS = {
    "constraints": st.just({"@misc": "spacy_rootmind.preset_heads.v1"}),
    "alternatives": st.sampled_from([None, "kbest", "sample", "best"]),
    "sample_seed": st.sampled_from([None, 0, -1]),
}


def plausible(setting):
    """Values that a setting's type allows, most of them at least."""
    kind = get_args(setting.type)[0]
    if get_origin(kind) is Literal:
        return st.sampled_from(get_args(kind))
    return {bool: st.booleans(), int: st.integers(1, 8)}.get(kind, RATES)


GOOD = {**{each.name: plausible(each) for each in fields(Settings)}, **FUNCTIONS}
SIZES = st.one_of(st.integers(-1, 9), st.sampled_from([None, 0.5, "1", True]))
NETWORK = {
    "arc_width": SIZES,
    "label_width": SIZES,
    "label_rank": SIZES,
    "qrnn_width": SIZES,
    "boundary_qrnn_width": SIZES,
    "boundary_width": SIZES,
    "refinements": st.integers(-1, 3),
    "dropout": RATES,
    "grad_factor": RATES,
    "null_label": st.booleans(),
}


@st.composite
def sections(draw, values, rare):
    """Values for some settings, now and then any value."""
    chosen = draw(st.lists(st.sampled_from(sorted(values)), max_size=3, unique=True))
    return {
        name: draw(VALUES if draw(st.integers(0, rare)) == 0 else values[name]) for name in chosen
    }


def parse_and_train(config):
    """Make a parser, parse with it, and train it for a step."""
    nlp = spacy.blank("xx")
    parser = nlp.add_pipe("root_mst", config=config)
    for label in ("nsubj", "obj", "punct"):
        parser.add_label(label)
    nlp.initialize()
    docs = [Doc(nlp.vocab, words=WORDS, sent_starts=STARTS), Doc(nlp.vocab, words=["one"])]
    # Sentences are given, as `sentences = "given"` wants it.
    docs[1][0].is_sent_start = True
    for doc in nlp.pipe(docs):
        for sentence in doc.sents:
            assert sum(token.head == token for token in sentence) == 1
        if parser.settings.confidence:
            probs = [token._.head_prob for token in doc if not token.is_space]
            assert all(0 <= prob <= 1 + 1e-9 for prob in probs), probs
    again = spacy.blank("xx")
    again.add_pipe("root_mst", config=copy.deepcopy(nlp.get_pipe_config("root_mst")))
    again.from_bytes(nlp.to_bytes())


@settings(fuzz(12))
@given(sections(GOOD, rare=3), sections(NETWORK, rare=9))
def test_configs(component, network):
    config = {"model": {**copy.deepcopy(SMALL_MODEL), **network}, **component}
    with no_hang(), np.errstate(over="ignore"):
        try:
            parse_and_train(config)
        except ValueError as error:
            assert str(error)  # noqa: PT017
