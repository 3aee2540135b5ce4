"""Saved components: what comes back, and what damaged files get."""

import pickle
import subprocess
import sys

import pytest
import spacy
import srsly
from parsers import arcs_of, make_nlp

from spacy_rootmind.network.dropout import RATE
from spacy_rootmind.network.listeners import GRAD_FACTOR
from spacy_rootmind.pipeline.serialization import WEIGHTS

TEXT = "The teacher that she met gave the boy a book ."


@pytest.fixture
def saved(trained, tmp_path):
    trained.to_disk(tmp_path / "model")
    return tmp_path / "model"


def component_by_bytes(nlp):
    again = make_nlp()
    again.get_pipe("root_mst").from_bytes(nlp.get_pipe("root_mst").to_bytes())
    return again


def test_parses_after_loading(trained, saved):
    for again in (
        spacy.load(saved),
        make_nlp().from_bytes(trained.to_bytes()),
        component_by_bytes(trained),
        pickle.loads(pickle.dumps(trained)),
    ):
        assert arcs_of(again(TEXT)) == arcs_of(trained(TEXT))


def test_saved_model_holds_no_pickle(saved):
    # msgpack of plain arrays and JSON: nothing that runs code when loaded.
    model = srsly.msgpack_loads((saved / "root_mst" / "model").read_bytes())
    assert srsly.msgpack_loads(model[WEIGHTS])["nodes"]
    assert srsly.read_json(saved / "root_mst" / "cfg")["root_label"] == "ROOT"


@pytest.mark.parametrize("name", ["cfg", "model"])
@pytest.mark.parametrize("damage", ["truncated", "missing"])
def test_from_disk_damaged_file_is_named_and_changes_nothing(trained, saved, name, damage):
    path = saved / "root_mst" / name
    data = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(data[: len(data) // 2])
    pipe = make_nlp().from_bytes(trained.to_bytes()).get_pipe("root_mst")
    before = (pipe.model.to_bytes(), dict(pipe.cfg))
    with pytest.raises(ValueError, match=r"\[root_mst\] cannot load .*root_mst"):
        pipe.from_disk(saved / "root_mst", exclude=["vocab"])
    assert (pipe.model.to_bytes(), dict(pipe.cfg)) == before
    with pytest.raises(ValueError, match="save it again"):
        spacy.load(saved)


def test_from_disk_other_format_is_refused(saved):
    path = saved / "root_mst" / "cfg"
    srsly.write_json(path, {**srsly.read_json(path), "format": 99})
    with pytest.raises(ValueError, match=r"format 4 or older, found 99: .*update the package") as e:
        spacy.load(saved)
    assert "save it again" not in str(e.value)
    srsly.write_json(path, {**srsly.read_json(path), "format": 1})
    with pytest.raises(ValueError, match="expected a cfg of format 4, found 1"):
        spacy.load(saved)


def test_temperatures_are_read(saved):
    path = saved / "root_mst" / "cfg"
    cfg = srsly.read_json(path)
    srsly.write_json(path, {**cfg, "label_temperature": 2.5})
    assert spacy.load(saved).get_pipe("root_mst").cfg["label_temperature"] == 2.5
    srsly.write_json(path, {**cfg, "label_temperature": 0.0})
    with pytest.raises(ValueError, match=r"expected a label_temperature above 0, found 0\.0"):
        spacy.load(saved)


@pytest.mark.parametrize("left_out", ["model", "cfg", "vocab"])
def test_from_bytes_takes_what_there_is(trained, left_out):
    parser = trained.get_pipe("root_mst")
    other = component_by_bytes(trained)
    data = parser.to_bytes(exclude=[left_out])
    assert other.get_pipe("root_mst").from_bytes(data).to_bytes() == parser.to_bytes()


def test_dropout_and_grad_factor_are_those_of_the_config(trained, saved):
    changed = {f"components.root_mst.model.{name}": 0.5 for name in ("dropout", "grad_factor")}
    model = spacy.load(saved, config=changed).get_pipe("root_mst").model
    rates = [node.attrs[RATE] for node in model.walk() if RATE in node.attrs]
    assert rates
    assert set(rates) == {0.5}
    assert trained.get_pipe("root_mst").model.attrs[GRAD_FACTOR] != 0.5
    assert model.attrs[GRAD_FACTOR] == 0.5


def test_attributes_are_there_after_unpickling_elsewhere(trained, saved, tmp_path):
    nlp = spacy.load(saved, config={"components.root_mst.confidence": True})
    (tmp_path / "nlp.pickle").write_bytes(pickle.dumps(nlp))
    code = (
        "import pickle, sys; nlp = pickle.load(open(sys.argv[1], 'rb'));"
        "assert 0 < nlp('The dog barked.')[0]._.head_prob <= 1"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path / "nlp.pickle"], check=True)


@pytest.mark.parametrize("data", [b"\x01", b"\x80", b"", b"\xc1"])
def test_from_bytes_of_something_else_is_refused(data):
    with pytest.raises(ValueError, match=r"cannot load the given bytes"):
        make_nlp().get_pipe("root_mst").from_bytes(data)


def test_from_disk_without_vocab_changes_nothing(trained, saved):
    pipe = make_nlp().get_pipe("root_mst")
    with pytest.raises(ValueError, match=r"cannot load .*vocab"):
        pipe.from_disk(saved / "root_mst")
    assert pipe.labels == ("ROOT",)


def test_uninitialized_component_survives_a_round_trip(tmp_path):
    nlp = make_nlp()
    nlp.get_pipe("root_mst").add_label("rare")
    nlp.to_disk(tmp_path / "blank")
    again = spacy.load(tmp_path / "blank")
    assert again.get_pipe("root_mst").labels == ("ROOT", "rare")
