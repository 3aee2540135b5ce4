"""Checks of saved weights against the network that is to have them.

Thinc's `Model.from_dict` takes over names, dimensions, attributes and arrays as they are, and fails
halfway if they do not fit, or not before the first prediction. These checks come before it.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from thinc.api import Model, deserialize_attr

from spacy_rootmind.network import distance
from spacy_rootmind.network.boundaries import WINDOW
from spacy_rootmind.network.labels import NULL_LABEL
from spacy_rootmind.network.linear_trees import CONTEXT, N_ATTRS

# What `Model.to_dict` makes: under each of these names, an item per layer.
Message = dict[str, Any]
LISTS = ("nodes", "attrs", "params", "shims")

# Attributes of layers that decide what their weights mean; others, such as dropout rates, may have
# changed since.
FIXED_ATTRS = (
    "column",
    "columns",
    "key_attr",
    "seed",
    "window_size",
    NULL_LABEL,
    N_ATTRS,
    CONTEXT,
)

# Layers of the parser that refer to others.
WITH_FIXED_REFS = ("biaffine_parser", "tree_scorer", "linear_parser", "linear_trees")

Dims = dict[str, Any]
Shape = tuple[int, ...]


def _affine(dims: Dims) -> dict[str, Shape]:
    return {"W": (dims["nO"], dims["nI"]), "b": (dims["nO"],)}


# Shapes of parameters from the dimensions of their layer, by its name: the parser's own layers, and
# those that spaCy's token vectors have.
SHAPES: dict[str, Callable[[Dims], dict[str, Shape]]] = {
    "tree_scorer": lambda dims: {"root": (dims["nI"],)},
    "bilstm": lambda dims: {
        "W": (2, dims["nI"], 4 * dims["nH"]),
        "V": (2, dims["nH"], 4 * dims["nH"]),
        "b": (2, 1, 4 * dims["nH"]),
    },
    "biaffine_arcs": lambda dims: {
        "W": (dims["nH"], dims["nH"]),
        "b": (dims["nH"],),
        "dep_distance": (dims["nH"], distance.N_BUCKETS),
        "head_distance": (dims["nH"], distance.N_BUCKETS),
    },
    "label_biaffine": lambda dims: {"U": (dims["nH"] + 1, dims["nO"], dims["nH"] + 1)},
    "linear_trees": lambda dims: {"W": (dims["nV"],)},
    "linear_labels": lambda dims: {"W": (dims["nV"], dims["nO"])},
    "linear_starts": lambda dims: {"W": (dims["nV"],)},
    "label_perceptron": lambda dims: {"C": (distance.N_BUCKETS, 2 * dims["nH"])},
    "linear": _affine,
    "mish": _affine,
    "relu": _affine,
    "maxout": lambda dims: {
        "W": (dims["nO"], dims["nP"], dims["nI"]),
        "b": (dims["nO"], dims["nP"]),
    },
    "layernorm": lambda dims: {"G": (dims["nI"],), "b": (dims["nI"],)},
    "hashembed": lambda dims: {"E": (dims["nV"], dims["nO"])},
    "static_vectors": lambda dims: {"W": (dims["nO"], dims["nM"])},
}


def check_weights(model: Model, message: Any, n_labels: int) -> None:
    """Check every entry of saved weights against a parser's network and its number of labels.

    A dimension or an array that the network does not have yet must agree with the others.

    Parameters
    ----------
    model : Model
        As `architecture.build_biaffine_parser` makes it; it does not change.
    message : dict
        As `Model.to_dict` makes it, or `half_precision.narrowed`; anything, if it is damaged.
    n_labels : int
        Number of labels besides the root's.

    Raises
    ------
    ValueError
        If something does not fit, is missing or is not finite.
    """
    nodes = list(model.walk())
    _require(isinstance(message, dict), "weights as a dict", type(message).__name__)
    for name in LISTS:
        own = message.get(name)
        _require(isinstance(own, list), f"a list of {name}, one per layer", own)
        _require(len(own) == len(nodes), f"{len(nodes)} layers", len(own), f" in {name}")
    for i, node in enumerate(nodes):
        _check_info(node, message["nodes"][i], len(nodes))
        _check_refs(node, message["nodes"][i]["refs"], nodes)
        _check_attrs(node, message["attrs"][i])
        _check_shims(node, message["shims"][i])
    sizes = {node.id: info["dims"] for node, info in zip(nodes, message["nodes"], strict=True)}
    is_initialized = _check_labels(model, sizes, n_labels)
    if is_initialized:
        _check_widths(model, sizes)
    for node, params in zip(nodes, message["params"], strict=True):
        _check_params(node, params, sizes[node.id], is_initialized)


def _require(holds: bool, expected: object, found: object, where: str = "") -> None:
    if not holds:
        raise ValueError(f"expected {expected}, found {_short(found)}{where}")


def _name(node: Model) -> str:
    """Name a layer; names of combined layers may be very long."""
    return _short(node.name)


def _short(found: object) -> str:
    text = found if isinstance(found, str) else repr(found)
    return text if len(text) <= 60 else f"{text[:60]}..."


# --- entries of one layer ----------------------------------------------------------------------


def _check_info(node: Model, info: Any, n_nodes: int) -> None:
    """Check a layer's name and dimensions, and the form of its references."""
    is_sound = isinstance(info, dict) and all(
        isinstance(info.get(name), kind)
        for name, kind in (("name", str), ("dims", dict), ("refs", dict))
    )
    _require(is_sound, f"name, dims and refs of {_name(node)}", info)
    # Names like "maxout>>layernorm" may be older than the layers: spaCy can replace a listener.
    if not any(layer.name in node.name for layer in node.layers):
        _require(info["name"] == node.name, f"a layer {_name(node)}", info["name"])
    _require_names(node, "dimensions", node.dim_names, info["dims"])
    for dim, size in info["dims"].items():
        _require(
            size is None or (type(size) is int and size >= 0),
            f"{dim} of {_name(node)} to be a size",
            size,
        )
        own = node.maybe_get_dim(dim)
        _require(own in (size, None), f"{dim} of {_name(node)} to be {own}", size)
    for name, place in info["refs"].items():
        _require(
            place is None or (type(place) is int and 0 <= place < n_nodes),
            f"the reference {name} of {_name(node)} to be one of {n_nodes} layers",
            place,
        )


def _require_names(node: Model, kind: str, expected: Any, found: Any) -> None:
    is_same = isinstance(found, dict) and set(found) == set(expected)
    shown = sorted(map(str, found)) if isinstance(found, dict) else found
    _require(is_same, f"{_name(node)} to have the {kind} {sorted(expected)}", shown)


def _check_refs(node: Model, refs: dict[str, int | None], nodes: list[Model]) -> None:
    """Check references; `replace_listeners` drops some, and other packages' layers may add some."""
    if node.name in WITH_FIXED_REFS:
        _require_names(node, "references", node.ref_names, refs)
    for name, place in refs.items():
        own = node.maybe_get_ref(name) if name in node.ref_names else None
        found = None if place is None else nodes[place]
        _require(
            found is own or (own is None and node.name not in WITH_FIXED_REFS),
            f"the reference {name} of {_name(node)} to be {own and own.name}",
            found and found.name,
        )


def _check_attrs(node: Model, attrs: Any) -> None:
    """Check that attributes can be read, and that those which are fixed are the network's own."""
    is_sound = isinstance(attrs, dict) and all(
        isinstance(name, str) and isinstance(value, bytes) for name, value in attrs.items()
    )
    _require(is_sound, f"attributes of {_name(node)} as a dict of bytes", attrs)
    for name in FIXED_ATTRS:
        _require(
            name not in node.attrs or name in attrs,
            f"an attribute {name} of {_name(node)}",
            sorted(attrs),
        )
    for name, value in attrs.items():
        own = node.attrs.get(name)
        found = deserialize_attr(own, value, name, node)
        what = f"{name} of {_name(node)} to be"
        if name in FIXED_ATTRS:
            _require(found == own, f"{what} {own!r}, as in the config", repr(found))
        elif isinstance(own, bool | str):
            _require(type(found) is type(own), f"{what} a {type(own).__name__}", found)
        elif isinstance(own, int | float):
            is_number = isinstance(found, int | float) and not isinstance(found, bool)
            _require(is_number and bool(np.isfinite(found)), f"{what} a finite number", found)


def _check_shims(node: Model, shims: Any) -> None:
    is_sound = isinstance(shims, list) and all(isinstance(shim, bytes) for shim in shims)
    _require(is_sound, f"wrapped networks of {_name(node)} as bytes", shims)
    _require(
        len(shims) == len(node.shims), f"{len(node.shims)} wrapped networks in {_name(node)}", shims
    )


# --- sizes and arrays --------------------------------------------------------------------------


def _check_labels(model: Model, sizes: dict[int, Dims], n_labels: int) -> bool:
    """Check the number of labels that are scored; returns whether there are weights for any."""
    labels = model.get_ref("labels")
    found = sizes[labels.id]["nO"]
    # The labels of an uninitialized component are not fixed yet.
    if found is None:
        return False
    _require(
        found == n_labels,
        f"weights for {n_labels} labels besides the root's, as in cfg",
        f"weights for {found}",
    )
    n_scored = n_labels + bool(labels.attrs[NULL_LABEL])
    for layer in _layers_per_label(labels):
        _require(
            sizes[layer.id]["nO"] == n_scored,
            f"{layer.name} to score {n_scored} labels",
            sizes[layer.id]["nO"],
        )
    return True


def _layers_per_label(labels: Model) -> list[Model]:
    """List the layers below the label scores that have a dimension for each label."""
    if not labels.layers:
        return []
    biaffine, perceptron = labels.layers
    return [biaffine, perceptron, perceptron.layers[2]]


def _check_widths(model: Model, sizes: dict[int, Dims]) -> None:
    """Check that the parser's own layers fit together, and the token vectors below them."""
    if model.name == "linear_parser":
        # All sizes but the number of labels are in the config.
        return
    tok2vec, features = model.get_ref("tok2vec"), model.maybe_get_ref("features")
    width = sizes[model.id]["nI"]
    below = sizes[tok2vec.id].get("nO")
    _require(
        width is not None and below in (width, None), "a width of the token vectors", (width, below)
    )
    if features is not None:
        own = sizes[features.id].get("nO")
        width = sizes[model.get_ref("trees").id]["nI"] if own is None else width + own
    for layer, dim, factor in _widths(model):
        found = sizes[layer.id][dim]
        _require(found == factor * width, f"{dim} of {layer.name} to be {factor * width}", found)


def _widths(model: Model) -> Iterator[tuple[Model, str, int]]:
    """List the dimensions that are multiples of the width of the scored vectors.

    A layer, the name of its dimension, and the factor.
    """
    boundaries, trees, labels = map(model.get_ref, ("boundaries", "trees", "labels"))
    biaffine, perceptron = labels.layers
    arcs = trees.get_ref("arcs")
    for layer in (boundaries, trees, *trees.layers, biaffine, perceptron):
        yield layer, "nI", 1
    for layer in (*arcs.layers, *biaffine.layers, *perceptron.layers[:2]):
        yield layer, "nI", 1
    lstm = trees.maybe_get_ref("lstm")
    if lstm is not None:
        project, norm = lstm.layers
        yield project, "nO", 1
        yield norm, "nI", 1
    for refine in (layer for layer in trees.layers if layer.name == "refine"):
        mix, norm = refine.layers
        yield mix, "nO", 1
        yield mix, "nI", 3
        yield norm, "nI", 1
    layer = boundaries
    while layer.layers:
        layer = layer.layers[0]
        yield layer, "nI", 2 * WINDOW + 1


def _check_params(node: Model, params: Any, dims: Dims, is_initialized: bool) -> None:
    """Check names, types, shapes and values of a layer's arrays."""
    _require_names(node, "parameters", node.param_names, params)
    shapes = _expected_shapes(node, dims)
    for name, value in params.items():
        own = node.get_param(name) if node.has_param(name) else None
        what = f"{name} of {_name(node)}"
        if value is None:
            _require(not (is_initialized and node.name in SHAPES), f"{what} as an array", value)
            continue
        _require(isinstance(value, np.ndarray), f"{what} as an array", value)
        dtypes = ("float32" if own is None else str(own.dtype), "float16")
        found = str(value.dtype)
        _require(found in dtypes, f"{what} of type {dtypes[0]} or float16", found)
        shape = shapes.get(name) if own is None else own.shape
        _require(
            shape is not None or node.name not in SHAPES, f"all dimensions of {_name(node)}", dims
        )
        _require(shape in (None, value.shape), f"{what} of shape {shape}", value.shape)
        _require(bool(np.isfinite(value).all()), f"{what} to be finite", "NaN or infinity")


def _expected_shapes(node: Model, dims: Dims) -> dict[str, Shape]:
    """Compute the shapes of a layer's arrays; empty if its kind or its sizes are not known."""
    known = {dim: size for dim, size in dims.items() if size is not None}
    try:
        return SHAPES[node.name](known) if node.name in SHAPES else {}
    except KeyError:
        return {}
