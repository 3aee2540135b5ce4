"""Damaged and mixed-up components: one error that names the file, before anything changes."""

import copy
import gc
import hashlib
from functools import partial

import numpy as np
import pytest
import spacy
import srsly
from parsers import SMALL_MODEL, arcs_of, gold_examples, make_nlp, multi_hash, tok2vec_of
from spacy.util import registry
from spacy.vocab import Vocab
from thinc.api import Model, Shim

from spacy_rootmind.network.dropout import RATE
from spacy_rootmind.network.listeners import GRAD_FACTOR
from spacy_rootmind.pipeline.serialization import CHECKSUM, DIGEST, WEIGHTS, save_folder

TEXT = "The teacher that she met gave the boy a book ."
WITHOUT_VOCAB = {"exclude": ["vocab"]}


def state_of(pipe):
    return pipe.model.to_bytes(), dict(pipe.cfg)


@pytest.fixture(scope="module")
def parts(trained):
    """Both parts of a saved component: `cfg`, and `model` with its weights as `Model.to_dict`."""
    found = srsly.msgpack_loads(trained.get_pipe("root_mst").to_bytes(**WITHOUT_VOCAB))
    model = srsly.msgpack_loads(found["model"])
    model[WEIGHTS] = srsly.msgpack_loads(model[WEIGHTS])
    return srsly.json_loads(found["cfg"]), model


@pytest.fixture(scope="module")
def loaded(trained):
    """A pipeline that has loaded the component, and still has it after each test."""
    return make_nlp().from_bytes(trained.to_bytes())


@pytest.fixture(scope="module")
def unloaded():
    """A component that has no weights yet; it knows fewer sizes, and needs them all the same."""
    return make_nlp().get_pipe("root_mst")


@pytest.fixture(scope="module")
def refused(loaded, unloaded):
    """Asserts that both parts in a folder are refused, from there and as bytes."""
    return partial(assert_both_refused, loaded, unloaded)


@pytest.fixture(scope="module")
def relabelled(trained):
    """A trained component with as many labels, of other names."""
    other = make_nlp().get_pipe("root_mst").from_bytes(trained.get_pipe("root_mst").to_bytes())
    other.cfg["labels"] = [f"{label}:other" for label in other.cfg["labels"]]
    return other


@pytest.fixture(scope="module")
def retrained(trained):
    """A component with the same labels and config, and other weights."""
    other = make_nlp().get_pipe("root_mst").from_bytes(trained.get_pipe("root_mst").to_bytes())
    root = other.model.get_ref("trees").get_param("root")
    other.model.get_ref("trees").set_param("root", root + 1)
    return other


def write(folder, cfg, model, *, checksum=True):
    """Write the parts of a component, by default with a checksum that fits."""
    folder.mkdir(exist_ok=True)
    if isinstance(model, dict) and isinstance(model.get(WEIGHTS), dict):
        model = {**model, WEIGHTS: srsly.msgpack_dumps(model[WEIGHTS])}
        if checksum:
            model[CHECKSUM] = hashlib.sha256(model[WEIGHTS]).hexdigest()
            cfg = {**cfg, CHECKSUM: model[CHECKSUM]}
    data = model if isinstance(model, bytes) else srsly.msgpack_dumps(model)
    (folder / "model").write_bytes(data)
    (folder / "cfg").write_bytes(
        cfg if isinstance(cfg, bytes) else srsly.json_dumps(cfg).encode("utf8")
    )


def assert_refused(nlp, load, match):
    """Loading raises one ValueError; component, parses and the garbage collector are as before."""
    pipe = nlp.get_pipe("root_mst")
    state = state_of(pipe)
    assert gc.isenabled()
    with pytest.raises(ValueError, match=r"^\[root_mst\] cannot load ") as caught:
        load(pipe)
    assert gc.isenabled()
    found = str(caught.value)
    assert found.count("cannot load") == 1
    caught.match(match)
    assert state_of(pipe) == state


def assert_both_refused(nlp, unloaded, folder, match):
    """Parts in a folder are refused from there, naming the file, and as bytes."""
    data = {name: (folder / name).read_bytes() for name in ("cfg", "model")}
    part = match[0]
    assert_refused(
        nlp,
        lambda pipe: pipe.from_disk(folder, **WITHOUT_VOCAB),
        rf"{folder.name}/{part}: .*{match[1]}",
    )
    assert_refused(
        nlp,
        lambda pipe: pipe.from_bytes(srsly.msgpack_dumps(data)),
        rf"the given bytes \({part}\): .*{match[1]}",
    )
    state = state_of(unloaded)
    with pytest.raises(ValueError, match=match[1]):
        unloaded.from_disk(folder, **WITHOUT_VOCAB)
    assert state_of(unloaded) == state


# --- weights of another network ----------------------------------------------------------------


def layer(message, name):
    return [info["name"] for info in message["nodes"]].index(name)


def put(value, name, part, *path):
    """Make a function that changes what a layer has at a path."""

    def change(message):
        *above, last = path
        owner = message[part][layer(message, name)]
        for key in above:
            owner = owner[key]
        owner[last] = value

    return change


def rename_param(message):
    params = message["params"][layer(message, "biaffine_arcs")]
    params["w"] = params.pop("W")


def drop_layer(message):
    i = layer(message, "refine")
    for part in message.values():
        del part[i]


OTHERS = {
    "layers": (drop_layer, r"expected \d+ layers, found \d+"),
    "name": (put("hashembad", "hashembed", "nodes", "name"), "a layer hashembed, found hashembad"),
    "parameter": (rename_param, r"biaffine_arcs to have the parameters \['W', "),
    "dim": (
        put(17, "biaffine_arcs", "nodes", "dims", "nH"),
        "nH of biaffine_arcs to be 16, found 17",
    ),
    "other dim": (put(1, "refine", "nodes", "dims", "nX"), "refine to have the dimensions"),
    "no width": (
        put(None, "biaffine_arcs", "nodes", "dims", "nH"),
        "nH of biaffine_arcs to be 16, found None",
    ),
    "references": (
        put(1, "tree_scorer", "nodes", "refs", "labels"),
        "reference labels of tree_scorer to be",
    ),
    "attribute": (
        put(b"\x91\xa3TAG", "extract_features", "attrs", "columns"),
        "columns of extract",
    ),
    "attribute lost": (
        lambda m: m["attrs"][layer(m, "extract_features")].pop("columns"),
        r"an attribute columns of extract_features, found \[\]",
    ),
    "part lost": (lambda m: m.pop("shims"), "KeyError.*shims"),
    "seed": (put(b"\x01", "hashembed", "attrs", "seed"), "seed of hashembed to be 8"),
    "attribute that cannot be read": (
        put(b"\xc1", "refine", "attrs", "parser_dropout"),
        "FormatError",
    ),
    "shims": (lambda m: m["shims"].__setitem__(0, [b""]), "0 wrapped networks in biaffine_parser"),
}


@pytest.mark.parametrize("case", OTHERS)
def test_weights_of_another_network_are_refused(refused, parts, tmp_path, case):
    """They are as they were saved, by their checksum."""
    change, match = OTHERS[case]
    cfg, model = copy.deepcopy(parts)
    change(model[WEIGHTS])
    write(tmp_path, cfg, model)
    refused(tmp_path, ("model", match))


MODEL = {
    "digest lost": (lambda m: m.pop(DIGEST), "expected a model with"),
    "digest": (lambda m: m.update({DIGEST: "0" * 64}), "in this order, found weights for others"),
    "format lost": (lambda m: m.pop("format"), "expected a model of format 4, found None"),
    "newer format": (lambda m: m.update(format=5), "a model of format 4 or older, found 5"),
    "format as text": (lambda m: m.update(format="4"), "expected a model of format 4, found '4'"),
    "precision": (lambda m: m.update(half_precision=1), "expected a model with"),
    "weights": (lambda m: m.update({WEIGHTS: 3}), "expected a model with"),
    "checksum": (lambda m: m.update({CHECKSUM: "0" * 64}), "were saved together with cfg"),
}


@pytest.mark.parametrize("case", MODEL)
def test_damaged_model_is_refused(refused, parts, tmp_path, case):
    damage, match = MODEL[case]
    cfg, model = copy.deepcopy(parts)
    model[WEIGHTS] = srsly.msgpack_dumps(model[WEIGHTS])
    damage(model)
    write(tmp_path, cfg, model)
    refused(tmp_path, ("model", match))


def test_changed_weights_are_refused_with_and_without_their_cfg(loaded, refused, parts, tmp_path):
    cfg, model = copy.deepcopy(parts)
    params = model[WEIGHTS]["params"]
    root = params[layer(model[WEIGHTS], "tree_scorer")]["root"]
    root[0] += 1.0
    write(tmp_path, cfg, model, checksum=False)
    match = "the weights are not those that were saved"
    refused(tmp_path, ("model", match))
    data = srsly.msgpack_dumps({"model": (tmp_path / "model").read_bytes()})
    assert_refused(loaded, lambda pipe: pipe.from_bytes(data), match)


@pytest.mark.parametrize("message", [[], 3, None, {}, "nodes", {"nodes": []}])
def test_something_else_than_weights_is_refused(refused, parts, tmp_path, message):
    write(tmp_path, parts[0], srsly.msgpack_dumps(message))
    refused(tmp_path, ("model", "expected"))


CFG = {
    "a list": (lambda cfg: [cfg], "a cfg as an object, found list"),
    "no labels": (lambda cfg: cfg.pop("labels") and cfg, "expected a cfg with .*'labels'"),
    "extra": (lambda cfg: {**cfg, "extra": 1}, "expected a cfg with .*found .*'extra'"),
    "labels as text": (lambda cfg: {**cfg, "labels": "nsubj"}, "labels as a list of strings"),
    "a label is a number": (lambda cfg: {**cfg, "labels": [1]}, "labels as a list of strings"),
    "root is none": (lambda cfg: {**cfg, "root_label": None}, "labels as a list of strings"),
    "temperature": (lambda cfg: {**cfg, "temperature": -1.0}, "a temperature above 0, found -1.0"),
    "boundaries": (lambda cfg: {**cfg, "finds_boundaries": 1}, "finds_boundaries as true or false"),
    "label temperature": (
        lambda cfg: {**cfg, "label_temperature": 0.0},
        r"expected a label_temperature above 0, found 0\.0",
    ),
    "format": (lambda cfg: {**cfg, "format": True}, "expected a cfg of format 4, found True"),
    "older format": (lambda cfg: {**cfg, "format": 1}, "expected a cfg of format 4, found 1"),
    # Saving it again would not help.
    "newer format": (
        lambda cfg: {**cfg, "format": 99},
        "format 4 or older, found 99: .*update the package, or save it with this version$",
    ),
    "checksum": (lambda cfg: {**cfg, CHECKSUM: 0}, f"{CHECKSUM} as a string, found 0"),
}


@pytest.mark.parametrize("case", CFG)
def test_damaged_cfg_is_refused(refused, parts, tmp_path, case):
    damage, match = CFG[case]
    cfg, message = copy.deepcopy(parts)
    write(tmp_path, damage(cfg), message, checksum=False)
    refused(tmp_path, ("cfg", match))


@pytest.mark.parametrize("change", ["swapped labels", "other label", "other root"])
def test_other_labels_than_the_weights_are_for_are_refused(refused, parts, tmp_path, change):
    cfg, message = copy.deepcopy(parts)
    first, second, *rest = cfg["labels"]
    changed = {
        "swapped labels": {"labels": [second, first, *rest]},
        "other label": {"labels": ["other", second, *rest]},
        "other root": {"root_label": "root"},
    }
    write(tmp_path, {**cfg, **changed[change]}, message)
    refused(tmp_path, ("model", "expected weights for the labels"))


# --- files -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("swapped", "other"), [("cfg", "relabelled"), ("model", "relabelled"), ("model", "retrained")]
)
def test_files_of_two_components_are_refused(refused, trained, request, tmp_path, swapped, other):
    trained.get_pipe("root_mst").to_disk(tmp_path / "one", **WITHOUT_VOCAB)
    request.getfixturevalue(other).to_disk(tmp_path / "other", **WITHOUT_VOCAB)
    (tmp_path / "one" / swapped).write_bytes((tmp_path / "other" / swapped).read_bytes())
    refused(
        tmp_path / "one",
        ("model", "(were saved together with cfg|for the labels .*), found"),
    )


@pytest.mark.parametrize("part", ["cfg", "model"])
def test_bytes_of_one_part_of_another_component_are_refused(loaded, relabelled, part):
    other = {"cfg": "model", "model": "cfg"}[part]
    data = relabelled.to_bytes(exclude=["vocab", other])
    match = {"cfg": "labels of the weights that are loaded", "model": "weights for the labels"}
    assert_refused(loaded, lambda pipe: pipe.from_bytes(data), match[part])


def test_damaged_vocab_is_refused_before_anything_changes(loaded, trained, tmp_path):
    trained.get_pipe("root_mst").to_disk(tmp_path)
    (tmp_path / "vocab" / "strings.json").write_text('["a-new-string", 3')
    strings = set(loaded.vocab.strings)
    assert_refused(loaded, lambda pipe: pipe.from_disk(tmp_path), "/vocab")
    assert set(loaded.vocab.strings) == strings


@pytest.mark.parametrize("is_enabled", [True, False])
@pytest.mark.parametrize("data", [b"\xc1", None])
def test_garbage_collector_is_left_as_it_was(trained, is_enabled, data):
    """msgpack of srsly leaves it off when it fails, and on when it does not."""
    pipe = make_nlp().get_pipe("root_mst")
    whole = trained.get_pipe("root_mst").to_bytes()
    try:
        if not is_enabled:
            gc.disable()
        if data is None:
            pipe.from_bytes(whole)
        else:
            with pytest.raises(ValueError, match="cannot load"):
                pipe.from_bytes(data)
        assert gc.isenabled() == is_enabled
    finally:
        gc.enable()


# --- configs -----------------------------------------------------------------------------------

EMBED = SMALL_MODEL["tok2vec"]


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"features": multi_hash("TAG")}, r"expected \d+ layers, found \d+"),
        (
            {"null_label": True},
            "null_label of biaffine_labels to be True, as in the config",
        ),
        ({"lstm_width": 0}, r"expected \d+ layers, found \d+"),
        ({"lstm_width": 0, "qrnn_width": 16}, r"qrnn to have the parameters \['W', 'b'\], found"),
        ({"boundary_qrnn_width": 8}, r"expected \d+ layers, found \d+"),
        ({"label_rank": 4}, "label_biaffine to have the dimensions .*'nR'"),
        ({"arc_width": 24}, "nH of biaffine_arcs to be 24, found 16"),
        ({"boundary_width": 32}, "nH of sentence_starts to be 32, found 64"),
        ({"tok2vec": {**EMBED, "width": 16}}, "to be 16, found 32"),
        ({"tok2vec": {**EMBED, "embed_size": 300}}, "nV of hashembed to be 300, found 200"),
        ({"tok2vec": {**EMBED, "window_size": 2}}, "window_size of expand_window to be 2, as in"),
    ],
)
def test_config_of_another_network_is_refused(pipeline, changed, match):
    config = {f"components.root_mst.model.{name}": value for name, value in changed.items()}
    with pytest.raises(ValueError, match=rf"root_mst/model: .*{match}"):
        spacy.load(pipeline, config=config)


def test_attributes_of_another_config_are_refused(quickstart_docs):
    """All arrays have the same shapes."""

    def make(*attrs):
        return make_nlp(model={**SMALL_MODEL, "tok2vec": tok2vec_of(multi_hash(*attrs))})

    nlp = make("NORM", "PREFIX")
    nlp.initialize(lambda: gold_examples(quickstart_docs[:20], nlp))
    data = nlp.get_pipe("root_mst").to_bytes()
    make("NORM", "PREFIX").get_pipe("root_mst").from_bytes(data)
    other = make("NORM", "SUFFIX").get_pipe("root_mst")
    with pytest.raises(ValueError, match=r"columns of extract_features to be .*'SUFFIX'\], as in"):
        other.from_bytes(data)


def test_config_may_change_settings_and_training(trained, pipeline):
    changed = {
        "components.root_mst.model.dropout": 0.5,
        "components.root_mst.model.grad_factor": 0.5,
        "components.root_mst.temperature": 2.0,
        "components.root_mst.decode": "tree",
        "components.root_mst.objective": "head_selection",
        "components.root_mst.confidence": True,
        "components.root_mst.alternatives": {"@misc": "spacy_rootmind.kbest.v1", "k": 2},
    }
    nlp = spacy.load(pipeline, config=changed)
    parser = nlp.get_pipe("root_mst")
    assert parser.temperature == 2.0
    rates = [node.attrs[RATE] for node in parser.model.walk() if RATE in node.attrs]
    assert set(rates) == {0.5}
    assert trained.get_pipe("root_mst").model.attrs[GRAD_FACTOR] != 0.5
    assert parser.model.attrs[GRAD_FACTOR] == 0.5
    assert [t.head.i for t in nlp(TEXT)] == [t.head.i for t in trained(TEXT)]


# --- half precision, listeners, layers of others -----------------------------------------------


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
    (tmp_path / "model").write_bytes((tmp_path / "model").read_bytes()[:-1] + b"\x7c")
    with pytest.raises(ValueError, match="the weights are not those that were saved"):
        pipe.from_disk(tmp_path, **WITHOUT_VOCAB)


# --- networks of others ------------------------------------------------------------------------


def with_table(tok2vec):
    """A layer of another package on top of token vectors: whole and double-precision numbers."""

    def forward(model, docs, is_train):
        vectors, backprop = model.layers[0](docs, is_train)
        scale = float(model.get_param("scale")[0]) * int(model.get_param("table")[-1])
        vectors = [own * np.float32(scale) for own in vectors]
        return vectors, lambda d: backprop([own * np.float32(scale) for own in d])

    def init(model, X=None, Y=None):
        model.layers[0].initialize(X, Y)
        model.set_param("table", np.arange(4, dtype="i8"))
        model.set_param("scale", np.array([1 / 3]))

    params = {"table": None, "scale": None}
    dims = {"nO": tok2vec.maybe_get_dim("nO")}
    return Model("table", forward, init=init, layers=[tok2vec], params=params, dims=dims)


def test_parameters_of_any_type_are_saved_and_loaded(quickstart_docs, tmp_path):
    registry.architectures("test_with_table.v1", func=with_table)
    model = {"@architectures": "test_with_table.v1", "tok2vec": EMBED}
    nlp = spacy.blank("xx")
    nlp.add_pipe("root_mst", config={"model": {**SMALL_MODEL, "tok2vec": model}})
    nlp.initialize(lambda: gold_examples(quickstart_docs[:5], nlp))
    table = nlp.get_pipe("root_mst").model.get_ref("tok2vec")
    table.set_param("scale", np.array([1 / 7]))
    nlp.to_disk(tmp_path)
    again = spacy.load(tmp_path)
    assert arcs_of(again(TEXT)) == arcs_of(nlp(TEXT))
    loaded_table = again.get_pipe("root_mst").model.get_ref("tok2vec")
    for name, dtype in (("table", "int64"), ("scale", "float64")):
        assert loaded_table.get_param(name).dtype == dtype
        assert (loaded_table.get_param(name) == table.get_param(name)).all()


class Wrapped(Shim):
    """The weights of another framework, which are refused where they begin with "bad"."""

    def to_bytes(self):
        return self._model

    def from_bytes(self, data):
        self._model = data
        if data.startswith(b"bad"):
            raise RuntimeError("not the sizes of this network")


def with_wrapped(tok2vec):
    shims = [Wrapped(b"first"), Wrapped(b"second")]
    dims = {"nO": tok2vec.maybe_get_dim("nO")}

    def forward(model, docs, is_train):
        return model.layers[0](docs, is_train)

    return Model("wrapped", forward, layers=[tok2vec], shims=shims, dims=dims, init=init_below)


def init_below(model, X=None, Y=None):
    model.layers[0].initialize(X, Y)


def test_wrapped_networks_that_fail_leave_vocab_and_weights(quickstart_docs, tmp_path):
    registry.architectures("test_with_wrapped.v1", func=with_wrapped)
    model = {"@architectures": "test_with_wrapped.v1", "tok2vec": EMBED}

    def make():
        nlp = spacy.blank("xx")
        nlp.add_pipe("root_mst", config={"model": {**SMALL_MODEL, "tok2vec": model}})
        nlp.initialize(lambda: gold_examples(quickstart_docs[:5], nlp))
        return nlp

    def shims_of(nlp):
        return nlp.get_pipe("root_mst").model.get_ref("tok2vec").shims

    other = make()
    other.vocab.strings.add("a string that only this one has")
    shims_of(other)[0]._model, shims_of(other)[1]._model = b"third", b"bad"
    other.get_pipe("root_mst").to_disk(tmp_path)
    nlp = make()
    assert_refused(nlp, lambda pipe: pipe.from_disk(tmp_path), "model: .*not the sizes of this")
    assert [shim._model for shim in shims_of(nlp)] == [b"first", b"second"]
    assert "a string that only this one has" not in nlp.vocab.strings
    # And whatever fails after them leaves them as they were.
    shims_of(other)[1]._model = b"fourth"
    other.get_pipe("root_mst").to_disk(tmp_path)
    pipe = nlp.get_pipe("root_mst")
    state = state_of(pipe)
    pipe.vocab = BrokenVocab()
    with pytest.raises(ValueError, match=r"cannot load .*vocab: the disk is gone"):
        pipe.from_disk(tmp_path)
    assert state_of(pipe) == state
    assert [shim._model for shim in shims_of(nlp)] == [b"first", b"second"]


class BrokenVocab(Vocab):
    def from_disk(self, path, *, exclude=()):
        raise OSError("the disk is gone")
