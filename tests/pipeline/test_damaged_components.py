"""Damaged and mixed-up components: one error that names the file."""

import json

import pytest
import spacy
import srsly
from parsers import SMALL_MODEL, gold_examples, make_nlp, multi_hash, tok2vec_of

from spacy_rootmind.network.dropout import RATE
from spacy_rootmind.network.listeners import GRAD_FACTOR
from spacy_rootmind.pipeline.serialization import FORMAT, save_folder

TEXT = "The teacher that she met gave the boy a book ."
WITHOUT_VOCAB = {"exclude": ["vocab"]}


@pytest.fixture
def saved(trained, tmp_path):
    """The folder of a saved component."""
    trained.get_pipe("root_mst").to_disk(tmp_path / "saved", **WITHOUT_VOCAB)
    return tmp_path / "saved"


def assert_refused(folder, match):
    """A component in a folder is refused from there, which is named, and as bytes."""
    data = {name: (folder / name).read_bytes() for name in ("cfg", "model")}
    for load, source in (
        (lambda pipe: pipe.from_disk(folder, **WITHOUT_VOCAB), folder.name),
        (lambda pipe: pipe.from_bytes(srsly.msgpack_dumps(data)), "the given bytes"),
    ):
        with pytest.raises(ValueError, match=rf"^cannot load .*{source}: {match}"):
            load(make_nlp().get_pipe("root_mst"))


# --- files -------------------------------------------------------------------------------------

CFG = {
    "other label": lambda cfg: {**cfg, "labels": ["other", *cfg["labels"][1:]]},
    "swapped labels": lambda cfg: {**cfg, "labels": cfg["labels"][::-1]},
    "other root": lambda cfg: {**cfg, "root_label": "root"},
    "temperature": lambda cfg: {**cfg, "temperature": -1.0},
    "entry lost": lambda cfg: {key: cfg[key] for key in cfg if key != "finds_boundaries"},
    "entry more": lambda cfg: {**cfg, "extra": 1},
    "checksum": lambda cfg: {**cfg, "sha256": "0" * 64},
    "checksum lost": lambda cfg: {key: cfg[key] for key in cfg if key != "sha256"},
}


@pytest.mark.parametrize("case", CFG)
def test_changed_cfg_is_refused(saved, case):
    cfg = json.loads((saved / "cfg").read_text(encoding="utf8"))
    (saved / "cfg").write_text(json.dumps(CFG[case](cfg)), encoding="utf8")
    assert_refused(saved, "cfg and model are not those that were saved together")


@pytest.mark.parametrize("found", [FORMAT - 1, FORMAT + 1, str(FORMAT), None, True])
def test_other_formats_are_refused(saved, found):
    cfg = json.loads((saved / "cfg").read_text(encoding="utf8"))
    (saved / "cfg").write_text(json.dumps({**cfg, "format": found}), encoding="utf8")
    assert_refused(saved, f"expected a component of format {FORMAT}, .*found {found!r}")


@pytest.mark.parametrize("part", ["cfg", "model"])
def test_files_of_two_components_are_refused(trained, saved, tmp_path, part):
    other = make_nlp().get_pipe("root_mst").from_bytes(trained.get_pipe("root_mst").to_bytes())
    root = other.model.get_ref("trees").get_param("root")
    other.model.get_ref("trees").set_param("root", root + 1)
    other.to_disk(tmp_path / "other", **WITHOUT_VOCAB)
    (saved / part).write_bytes((tmp_path / "other" / part).read_bytes())
    assert_refused(saved, "cfg and model are not those that were saved together")


@pytest.mark.parametrize("part", ["cfg", "model"])
def test_a_file_that_is_missing_or_truncated_is_named(saved, part):
    data = (saved / part).read_bytes()
    (saved / part).write_bytes(data[: len(data) // 2])
    assert_refused(saved, "")
    (saved / part).unlink()
    with pytest.raises(ValueError, match=r"cannot load .*saved: .*save it again"):
        make_nlp().get_pipe("root_mst").from_disk(saved)


def test_damaged_vocab_is_named(trained, tmp_path):
    trained.get_pipe("root_mst").to_disk(tmp_path)
    (tmp_path / "vocab" / "strings.json").write_text('["a-new-string", 3')
    with pytest.raises(ValueError, match=r"cannot load .*/vocab"):
        make_nlp().get_pipe("root_mst").from_disk(tmp_path)


# --- configs -----------------------------------------------------------------------------------

EMBED = SMALL_MODEL["tok2vec"]


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"features": multi_hash("TAG")}, ""),
        ({"qrnn_width": 0}, ""),
        ({"boundary_qrnn_width": 8}, ""),
        ({"label_rank": 4}, "other layers"),
        ({"arc_width": 24}, "dimension 'nH' for model 'biaffine_arcs' from 24 to 16"),
        ({"boundary_width": 32}, "dimension 'nH' for model 'sentence_starts' from 32 to 64"),
        ({"tok2vec": {**EMBED, "width": 16}}, "dimension .* from 16 to 32"),
        ({"tok2vec": {**EMBED, "embed_size": 300}}, "'nV' for model 'hashembed' from 300 to 200"),
    ],
)
def test_config_of_another_network_is_refused(pipeline, changed, match):
    config = {f"components.root_mst.model.{name}": value for name, value in changed.items()}
    with pytest.raises(ValueError, match=rf"cannot load .*root_mst: .*{match}"):
        spacy.load(pipeline, config=config)


def test_other_layers_of_the_same_sizes_are_refused(trained):
    parser = make_nlp().get_pipe("root_mst")
    [layer, *_] = [node for node in parser.model.walk() if not node.layers]
    layer.name = "other"
    with pytest.raises(ValueError, match="other layers than were saved, from 'other' on"):
        parser.from_bytes(trained.get_pipe("root_mst").to_bytes())


def test_what_weights_mean_is_as_it_was_saved(quickstart_docs):
    """All arrays have the same shapes."""

    def make(*attrs):
        return make_nlp(model={**SMALL_MODEL, "tok2vec": tok2vec_of(multi_hash(*attrs))})

    nlp = make("NORM", "PREFIX")
    nlp.initialize(lambda: gold_examples(quickstart_docs[:20], nlp))
    other = make("NORM", "SUFFIX")
    other.get_pipe("root_mst").from_bytes(nlp.get_pipe("root_mst").to_bytes())
    parses = [[token.head.i for token in each(TEXT)] for each in (nlp, other)]
    assert parses[0] == parses[1]


def test_config_may_change_settings_and_training(trained, pipeline):
    changed = {
        "components.root_mst.model.dropout": 0.5,
        "components.root_mst.model.grad_factor": 0.5,
        "components.root_mst.temperature": 2.0,
        "components.root_mst.decode": "tree",
        "components.root_mst.objective": "head_selection",
        "components.root_mst.confidence": True,
        "components.root_mst.alternatives": "kbest",
    }
    nlp = spacy.load(pipeline, config=changed)
    parser = nlp.get_pipe("root_mst")
    assert parser.temperature == 2.0
    rates = [node.attrs[RATE] for node in parser.model.walk() if RATE in node.attrs]
    assert set(rates) == {0.5}
    assert trained.get_pipe("root_mst").model.attrs[GRAD_FACTOR] != 0.5
    assert parser.model.attrs[GRAD_FACTOR] == 0.5
    assert [t.head.i for t in nlp(TEXT)] == [t.head.i for t in trained(TEXT)]


# --- half precision ----------------------------------------------------------------------------


def test_half_precision_is_read(trained, tmp_path):
    save_folder(trained.get_pipe("root_mst"), tmp_path, ["vocab"], half_precision=True)
    nlp = make_nlp()
    pipe = nlp.get_pipe("root_mst").from_disk(tmp_path, **WITHOUT_VOCAB)
    root = pipe.model.get_ref("trees").get_param("root")
    own = trained.get_pipe("root_mst").model.get_ref("trees").get_param("root")
    assert root.dtype == "float32"
    assert (root == own.astype("float16")).all()
    heads = [t.head.i for t in trained(TEXT)]
    assert [t.head.i for t in nlp(TEXT)] == heads
