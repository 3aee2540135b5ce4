"""Fuzzers of saved components and pipelines: refused with one error and no change, or harmless."""

import copy
import gc
import pickle

import pytest
import spacy
import srsly
from conftest import QUICKSTART
from fuzzing import VALUES, damaged_bytes, fuzz, no_hang
from hypothesis import given, settings
from hypothesis import strategies as st
from parsers import gold_examples, make_nlp, read_conllu

TEXT = "She saw him . It rained"
WITHOUT_VOCAB = {"exclude": ["vocab"]}


@pytest.fixture(scope="module")
def nlp():
    """A small parser; what it predicts does not matter."""
    nlp = make_nlp()
    docs = read_conllu(QUICKSTART / "assets" / "en_quick-ud-dev.conllu", nlp.vocab, limit=5)
    nlp.initialize(lambda: gold_examples(docs, nlp))
    return nlp


@pytest.fixture(scope="module")
def saved(nlp):
    """The parts of the component, as bytes."""
    return srsly.msgpack_loads(nlp.get_pipe("root_mst").to_bytes(**WITHOUT_VOCAB))


def places(value, path=()):
    """List the paths to all values in nested lists and dicts; arrays count as one value."""
    found = [path]
    if isinstance(value, dict):
        for key in value:
            found += places(value[key], (*path, key))
    elif isinstance(value, list | tuple):
        for i, item in enumerate(value):
            found += places(item, (*path, i))
    return found


def change(value, path, how):
    """Change the value at a path of a copy."""
    if not path:
        return how(value)
    changed = list(value) if isinstance(value, tuple) else copy.copy(value)
    changed[path[0]] = change(value[path[0]], path[1:], how)
    return changed


@st.composite
def changes(draw, message):
    """A message with other values in one or two places."""
    for _ in range(draw(st.integers(1, 2))):
        path = draw(st.sampled_from(places(message)))
        new = draw(VALUES)
        repeats = draw(st.booleans())
        message = change(message, path, lambda old, n=new, r=repeats: [old, old] if r else n)
    return message


def state_of(pipe):
    return pipe.model.to_bytes(), dict(pipe.cfg)


def assert_refused_or_harmless(nlp, load):
    """Loading raises one error and changes nothing, or what was loaded parses."""
    pipe = nlp.get_pipe("root_mst")
    before, whole = state_of(pipe), pipe.to_bytes(**WITHOUT_VOCAB)
    with no_hang():
        try:
            load(pipe)
        except ValueError as error:
            assert str(error).startswith("[root_mst] cannot load ")  # noqa: PT017
            assert state_of(pipe) == before
        else:
            doc = nlp(TEXT)
            for sentence in doc.sents:
                assert sum(token.head == token for token in sentence) == 1
            pipe.from_bytes(whole)
    assert gc.isenabled()


def packed(value):
    """Pack a value with msgpack; None if it has no place for it, such as a number too large."""
    try:
        return srsly.msgpack_dumps(value)
    except (OverflowError, ValueError, TypeError):
        return None


@settings(fuzz(30))
@given(st.data())
def test_entries(nlp, saved, data):
    """Any value in any place of the structure, with a cfg or without."""
    model = data.draw(changes(srsly.msgpack_loads(saved["model"])))
    cfg = data.draw(changes(srsly.json_loads(saved["cfg"])))
    with_cfg = data.draw(st.booleans())
    parts = {"model": packed(model)}
    if with_cfg:
        parts["cfg"] = srsly.json_dumps(cfg) if srsly.is_json_serializable(cfg) else b"{}"
    if parts["model"] is not None:
        assert_refused_or_harmless(nlp, lambda pipe: pipe.from_bytes(srsly.msgpack_dumps(parts)))


@settings(fuzz(30))
@given(st.data())
def test_bytes(nlp, saved, data):
    """Any damage to the bytes of a part, or of the whole; also without the cfg's checksum."""
    parts = saved if data.draw(st.booleans()) else {"model": saved["model"]}
    whole = srsly.msgpack_dumps(parts)
    head, tail = whole[:1500], whole[1500:]
    changed = data.draw(
        st.one_of(damaged_bytes(head).map(lambda h: h + tail), damaged_bytes(whole))
    )
    assert_refused_or_harmless(nlp, lambda pipe: pipe.from_bytes(changed))


@settings(fuzz(30))
@given(st.data())
def test_folders(nlp, saved, tmp_path_factory, data):
    """Damaged, lost and additional files in the folder of a component."""
    folder = tmp_path_factory.mktemp("component")
    for name, content in saved.items():
        content = content if isinstance(content, bytes) else content.encode("utf8")
        how = data.draw(st.sampled_from(["damaged", "damaged", "whole", "lost", "folder"]))
        if how == "folder":
            (folder / name).mkdir()
        elif how != "lost":
            damage = damaged_bytes(content) if how == "damaged" else st.just(content)
            (folder / name).write_bytes(data.draw(damage))
    assert_refused_or_harmless(nlp, lambda pipe: pipe.from_disk(folder, **WITHOUT_VOCAB))


class Executed:
    """Would tell that loading runs what a file says."""

    def __reduce__(self):
        return pytest.fail, ("loading executed what the file says",)


def test_nothing_is_unpickled(nlp, saved, tmp_path):
    for part in ("cfg", "model"):
        data = pickle.dumps(Executed())
        bytes_of = srsly.msgpack_dumps({**saved, part: data})
        assert_refused_or_harmless(nlp, lambda pipe, b=bytes_of: pipe.from_bytes(b))
    assert_refused_or_harmless(nlp, lambda pipe: pipe.from_bytes(pickle.dumps(Executed())))


@settings(fuzz(5))
@given(st.data())
def test_pipelines(nlp, tmp_path_factory, data):
    """`spacy.load` of a pipeline with a damaged file of the parser."""
    folder = tmp_path_factory.mktemp("pipeline")
    nlp.to_disk(folder)
    path = folder / "root_mst" / data.draw(st.sampled_from(["cfg", "model"]))
    path.write_bytes(data.draw(damaged_bytes(path.read_bytes())))
    with no_hang():
        try:
            loaded = spacy.load(folder)
        except ValueError as error:
            assert f"root_mst/{path.name}" in str(error) or "root_mst/model" in str(error)  # noqa: PT017
        else:
            assert [token.head.i for token in loaded(TEXT)] == [token.head.i for token in nlp(TEXT)]
