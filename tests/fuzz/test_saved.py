"""Fuzzers of saved components and pipelines: refused with one error, or harmless."""

import gc
import pickle

import pytest
import srsly
from fuzzing import damaged_bytes, fuzz, no_hang
from hypothesis import given, settings
from hypothesis import strategies as st
from parsers import initialized

TEXT = "She saw him . It rained"
WITHOUT_VOCAB = {"exclude": ["vocab"]}


@pytest.fixture(scope="module")
def nlp(quickstart_docs):
    """A small parser; what it predicts does not matter."""
    return initialized(quickstart_docs[:5])[0]


@pytest.fixture(scope="module")
def saved(nlp):
    """The parts of the component, as bytes."""
    return srsly.msgpack_loads(nlp.get_pipe("root_mst").to_bytes(**WITHOUT_VOCAB))


def assert_refused_or_harmless(nlp, load):
    """Loading raises one error, or what was loaded parses."""
    pipe = nlp.get_pipe("root_mst")
    whole = pipe.to_bytes(**WITHOUT_VOCAB)
    with no_hang():
        try:
            load(pipe)
        except ValueError as error:
            assert str(error).startswith("cannot load ")  # noqa: PT017
        else:
            doc = nlp(TEXT)
            for sentence in doc.sents:
                assert sum(token.head == token for token in sentence) == 1
        pipe.from_bytes(whole)
    assert gc.isenabled()


@settings(fuzz(30))
@given(st.data())
def test_bytes(nlp, saved, data):
    """Any damage to the bytes of both parts."""
    whole = srsly.msgpack_dumps(saved)
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
