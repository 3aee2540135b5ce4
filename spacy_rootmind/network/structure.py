"""Comparison of saved weights with the network that is to have them.

Thinc's `Model.from_dict` takes over names, dimensions, attributes and arrays as they are, whatever
the config says. Weights are the right ones if they have not changed since they were saved (which a
checksum tells), and if their layers are those of the network: `require_same_network` compares the
layers before anything changes.
"""

from typing import Any

from thinc.api import Model, deserialize_attr

from spacy_rootmind.network.label_scorer import NULL_LABEL
from spacy_rootmind.network.linear_trees import CONTEXT, N_ATTRS

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


def require_same_network(model: Model, message: dict[str, Any]) -> None:
    """Refuse weights of other layers than a network has, or of other sizes than its config sets.

    Parameters
    ----------
    model : Model
        It does not change.
    message : dict
        As `Model.to_dict` made it.

    Raises
    ------
    ValueError
        If a layer is another, or its sizes or attributes are. Errors of other packages' attributes
        are raised as they are.
    """
    nodes = list(model.walk())
    _require(len(message["nodes"]) == len(nodes), f"{len(nodes)} layers", len(message["nodes"]))
    numbers = {node.id: number for number, node in enumerate(nodes)}
    parts = zip(
        nodes,
        message["nodes"],
        message["attrs"],
        message["params"],
        message["shims"],
        strict=True,
    )
    for node, info, attrs, params, shims in parts:
        # Names of combined layers may be older than the layers: spaCy can replace a listener.
        if not node.layers:
            _require(info["name"] == node.name, f"a layer {_name(node)}", info["name"])
        for kind, own, found in (
            ("dimensions", node.dim_names, info["dims"]),
            ("parameters", node.param_names, params),
        ):
            expected = f"{_name(node)} to have the {kind} {sorted(own)}"
            _require(set(own) == set(found), expected, sorted(found))
        for dim, size in info["dims"].items():
            own_size = node.maybe_get_dim(dim)
            expected = f"{dim} of {_name(node)} to be {own_size}"
            _require(own_size in (size, None), expected, size)
        for ref in node.ref_names:
            layer, found = node.maybe_get_ref(ref), info["refs"].get(ref)
            number = None if layer is None else numbers.get(layer.id)
            expected = f"the reference {ref} of {_name(node)} to be layer {number}"
            # The copy of a listener's token vectors has none.
            _require(number == found or None in (number, found), expected, found)
        _require_attrs(node, attrs)
        expected = f"{len(node.shims)} wrapped networks in {_name(node)}"
        _require(len(shims) == len(node.shims), expected, len(shims))


def _require_attrs(node: Model, attrs: dict[str, bytes]) -> None:
    """Compare the attributes that are fixed; read the others, which fails now or not at all."""
    for name in FIXED_ATTRS:
        if name in node.attrs:
            _require(name in attrs, f"an attribute {name} of {_name(node)}", sorted(attrs))
    for name, value in attrs.items():
        own = node.attrs.get(name)
        found = deserialize_attr(own, value, name, node)
        if name in FIXED_ATTRS:
            expected = f"{name} of {_name(node)} to be {own!r}, as in the config"
            _require(found == own, expected, repr(found))


def _require(holds: bool, expected: str, found: object) -> None:
    if not holds:
        raise ValueError(f"expected {expected}, found {_short(found)}")


def _name(node: Model) -> str:
    """Name a layer; names of combined layers may be very long."""
    return _short(node.name)


def _short(found: object) -> str:
    text = found if isinstance(found, str) else repr(found)
    return text if len(text) <= 60 else f"{text[:60]}..."
