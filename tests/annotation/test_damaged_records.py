"""Malformed records in `doc.user_data`: a clear ValueError from accessors, none from the parser."""

import copy
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parsers import COPIES, with_weights_of
from spacy.tokens import Doc
from spacy.training import Example

from spacy_rootmind.annotation.details import (
    Alternatives,
    ArcTable,
    Confidence,
    StoredDistribution,
    StoredTrees,
)
from spacy_rootmind.annotation.extensions import ATTRIBUTES
from spacy_rootmind.annotation.records import (
    UnreadableDetailsError,
    is_record_key,
    read_record,
)
from spacy_rootmind.annotation.teacher_records import has_distributions

WORDS = ["The", "teacher", " ", "saw", "him", ".", "She", "left", "."]
SENT_STARTS = [True, *[False] * 5, True, False, False]


def new_doc(vocab):
    return Doc(vocab, words=WORDS, sent_starts=SENT_STARTS)


@pytest.fixture(scope="module")
def parser(trained):
    """A parser that leaves every kind of details on a Doc."""
    return with_weights_of(
        trained,
        confidence=True,
        arc_threshold=0.01,
        distribution_threshold=0.01,
        keep_trees=True,
        alternatives="kbest",
        n_alternatives=3,
    )


@pytest.fixture(scope="module")
def parsed(parser):
    doc = parser(new_doc(parser.vocab))
    # It has learnt from Docs of one sentence each, and finds no boundaries.
    for key, record in doc.user_data.items():
        stored = record["distribution"]
        starts = np.full(record["is_word"].sum(), 0.5, "f4")
        stored = {**stored, "start_probs": starts}
        gaps = np.where(np.arange(len(starts)) == 0, np.float32(np.nan), starts)
        found = {"confidence": {**record["confidence"], "start_probs": gaps}}
        found |= {"distribution": stored, "guideline_status": "broken"}
        doc.user_data[key] = {**record, **found}
    return doc


def first_record(doc):
    return min((key, value) for key, value in doc.user_data.items() if is_record_key(key))[1]


def with_record(doc, record):
    """A copy of a Doc that has another record of its first sentence."""
    changed = doc.copy()
    key = min(key for key in changed.user_data if is_record_key(key))
    changed.user_data[key] = record
    return changed


def accessors(doc):
    """Call each way of reading details, with all spans and tokens; words are no details."""
    for owner, name, getter in ATTRIBUTES:
        if name == "words":
            continue
        for item in doc if owner.__name__ == "Token" else doc.sents:
            yield name, lambda getter=getter, item=item: getter(item)


def read_everything(doc):
    """Names of the accessors that refuse a Doc; any other error fails the test."""
    refused = set()
    for name, read in accessors(doc):
        try:
            read()
        except UnreadableDetailsError as error:
            assert "parse" in str(error)  # noqa: PT017
            assert "The teacher" in str(error)  # noqa: PT017
            refused.add(name)
    return refused


def assert_parser_does_not_mind(parser, doc):
    """Parsing overwrites the records, and Docs that carry them can be saved."""
    for one in [make_copy(doc) for make_copy in COPIES.values()]:
        assert len(list(parser.pipe([one]))) == 1
        assert read_everything(one) == set()


# --- known cases -------------------------------------------------------------------------------


def field(part, name, change):
    """Damage one field of a part."""

    def damage(record):
        record[part][name] = change(record[part][name])
        return record

    return damage


def first(value):
    """Set the first number of an array."""

    def change(array):
        changed = array.copy()
        changed.flat[0] = value
        return changed

    return change


KINDS = {
    "confidence": Confidence,
    "arcs": ArcTable,
    "alternatives": Alternatives,
    "trees": StoredTrees,
    "distribution": StoredDistribution,
}
# One row for each kind of check: what the message says is damaged, and the damage.
FORMAT, NAMES = "in format, which is .* instead of 6", "in the names of its parts"
DAMAGE = [
    (FORMAT, lambda record: "nothing"),
    (FORMAT, lambda record: record.pop("format") and record),
    (FORMAT, lambda record: {**record, "format": np.array([1, 1])}),
    (FORMAT, lambda record: {**record, "format": True}),
    (NAMES, lambda record: {**record, "more": 1}),
    ("in tree", lambda record: {**record, "tree": record["tree"] + 99}),
    ("in (tree|is_word)", lambda record: {**record, "tree": record["tree"][1:]}),
    ("in is_word", lambda record: {**record, "is_word": record["is_word"][1:]}),
    ("in is_word", lambda record: {**record, "is_word": record["tree"]}),
    ("in confidence", lambda record: {**record, "is_word": ~record["is_word"]}),
    ("in arcs", lambda record: record["arcs"].pop("heads") is not None and record),
    ("in distribution", lambda record: {**record, "distribution": [3]}),
    ("in guideline_status", lambda record: {**record, "guideline_status": 3}),
    # Arrays of another type, shape or size, and numbers that are out of range.
    ("in arcs", field("arcs", "heads", np.ndarray.tolist)),
    ("in arcs", field("arcs", "heads", lambda array: array[..., None])),
    ("in arcs", field("arcs", "heads", lambda array: array[:-1])),
    ("in arcs", field("arcs", "heads", lambda array: array.astype("f4"))),
    ("in arcs", field("arcs", "heads", first(-1))),
    ("in arcs", field("arcs", "heads", first(99))),
    ("in confidence", field("confidence", "head_probs", lambda array: array.astype("c8"))),
    ("in confidence", field("confidence", "labels", first(99))),
    ("in alternatives", field("alternatives", "label_names", lambda names: [])),
    ("in alternatives", field("alternatives", "label_names", lambda names: [1, *names[1:]])),
    ("in trees", field("trees", "log_weights", lambda array: array[:, 1:])),
]
# Any other type, in every field.
DAMAGE += [
    (f"in {part}", field(part, name, lambda value: object()))
    for part, kind in KINDS.items()
    for name in kind.__dataclass_fields__
]


@pytest.mark.parametrize("number", range(len(DAMAGE)))
def test_malformed_record_is_a_clear_error(parser, parsed, number):
    """Everything read from the sentence is refused, and parsing again mends the Doc."""
    where, damage = DAMAGE[number]
    doc = with_record(parsed, damage(copy.deepcopy(first_record(parsed))))
    with pytest.raises(UnreadableDetailsError, match=rf"(The teacher.*)?{where}.*parse"):
        read_record(next(doc.sents))
    assert read_everything(doc) == {name for name, _ in accessors(doc)}
    if number < 2:
        assert_parser_does_not_mind(parser, doc)


def test_sound_records_are_read(parsed):
    assert read_everything(parsed) == set()
    record = read_record(next(parsed.sents))
    assert len(record.distribution.heads)
    assert len(record.alternatives.log_probs) == 3


# --- random damage -----------------------------------------------------------------------------

JUNK = [None, True, -1, 10**12, np.nan, "text", b"bytes", ["a", 1], {"format": 1}]
JUNK += [np.zeros(0), np.zeros((2, 3), "i4"), np.array(3), np.array(["a"]), np.array([np.inf])]


def damage(rng, owner):
    """Change an entry of a record at random, at any depth."""
    key = rng.choice(list(owner) if isinstance(owner, dict) else range(len(owner)))
    value = owner[key]
    if isinstance(value, dict | list) and value and rng.random() < 0.8:
        damage(rng, value)
    elif rng.random() < 0.2:
        del owner[key]
    elif isinstance(value, np.ndarray) and value.size and rng.random() < 0.7:
        owner[key] = damage_array(rng, value)
    else:
        owner[key] = copy.deepcopy(rng.choice(JUNK))


def damage_array(rng, array):
    changed = array.copy()
    values = [-1, 99, 2**31 - 1] if array.dtype.kind == "i" else [np.nan, -np.inf, 1e30, -1.0]
    changed.flat[rng.randrange(array.size)] = rng.choice(values)
    with np.errstate(invalid="ignore"):
        other = array.astype(rng.choice(["f8", "i8", "u8", "?", "U3"]))
    return rng.choice([changed, changed, other, array[1:], array[::-1], array[None], array[..., 0]])


@settings(max_examples=100, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32))
def test_random_damage_never_raises_anything_else(parser, parsed, seed):
    """Neither does training, whose error names the component and the sentence."""
    rng = random.Random(seed)
    record = copy.deepcopy(first_record(parsed))
    damage(rng, record["distribution"] if rng.random() < 0.5 else record)
    doc = with_record(parsed, record)
    read_everything(doc)
    has_distributions(doc)
    if rng.random() < 0.1:
        assert_parser_does_not_mind(parser, doc)
    pipe, example = parser.get_pipe("root_mst"), Example(new_doc(parser.vocab), doc)
    try:
        loss = pipe.update([example])["root_mst"]
    except ValueError as error:
        assert "The teacher" in str(error)  # noqa: PT017
    else:
        assert np.isfinite(loss)
