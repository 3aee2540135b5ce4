"""What a saved component looks like, and the checks before one is loaded."""

from typing import Any

import srsly

from spacy_rootmind.network.architecture import ParserModel
from spacy_rootmind.network.labels import NULL_LABEL

# Raised when the settings change.
FORMAT = 2


def check_weights(model: ParserModel, weights: dict[str, Any], n_labels: int) -> None:
    """Compare saved weights with a network and with the number of labels it is to have."""
    nodes = list(model.walk())
    if len(weights["nodes"]) != len(nodes):
        raise ValueError(f"expected {len(nodes)} layers, found {len(weights['nodes'])}")
    labels = model.get_ref("labels")
    label_layer = weights["nodes"][nodes.index(labels)]
    # An uninitialized component has no labels fixed yet.
    if label_layer["dims"]["nO"] not in (None, n_labels):
        raise ValueError(
            f"the settings list {n_labels} labels besides the root's, and the weights are for "
            f"{label_layer['dims']['nO']}"
        )
    null_label = bool(labels.attrs[NULL_LABEL])
    for term in labels.layers:
        found = weights["nodes"][nodes.index(term)]["dims"]["nO"]
        if found not in (None, n_labels + null_label):
            raise ValueError(
                f"the settings list {n_labels} labels besides the root's, and the weights are for "
                f"{found}, where the config has null_label = {str(null_label).lower()}"
            )
    for node, saved, params in zip(nodes, weights["nodes"], weights["params"], strict=True):
        for dim, size in saved["dims"].items():
            expected = node.maybe_get_dim(dim)
            if expected is not None and expected != size:
                raise ValueError(f"expected {dim} of {node.name} to be {expected}, found {size}")
        if set(params) != set(node.param_names):
            raise ValueError(
                f"expected {node.name} to have {sorted(node.param_names)}, found {sorted(params)}"
            )
        for name, value in params.items():
            own = node.get_param(name).shape if node.has_param(name) else None
            if value is not None and own is not None and value.shape != own:
                raise ValueError(
                    f"expected {name} of {node.name} of shape {own}, found {value.shape}"
                )


def read_cfg(data: bytes) -> dict[str, Any]:
    """Read settings, refusing those of another format."""
    cfg = srsly.json_loads(data)
    if not isinstance(cfg, dict) or cfg.get("format") != FORMAT:
        found = cfg.get("format") if isinstance(cfg, dict) else cfg
        raise ValueError(f"expected settings of format {FORMAT}, found {found!r}")
    root_label, labels = read_labels(cfg)
    # Parsers that were saved before label_temperature came to be have none fitted.
    temperatures = {"label_temperature": 1.0, **cfg}
    for name in ("temperature", "label_temperature"):
        value = temperatures.get(name)
        if not isinstance(value, float) or not 0 < value < float("inf"):
            raise ValueError(f"expected a {name} above 0, found {value!r}")
    finds_boundaries = cfg.get("finds_boundaries")
    if not isinstance(finds_boundaries, bool):
        raise ValueError(f"expected finds_boundaries as true or false, found {finds_boundaries!r}")
    return {
        "format": FORMAT,
        "root_label": root_label,
        "labels": labels,
        "finds_boundaries": finds_boundaries,
        "temperature": temperatures["temperature"],
        "label_temperature": temperatures["label_temperature"],
    }


def read_labels(labels: Any) -> tuple[str | None, list[str]]:
    """Take label data apart: `label_data`, or a list of labels, which may lack the root's."""
    if isinstance(labels, dict):
        root_label, names = labels.get("root_label"), labels.get("labels")
    else:
        names = labels
        root_label = None
        if isinstance(labels, (list, tuple)):
            root_label = next((x for x in labels if str(x).lower() == "root"), None)
    if (
        (isinstance(labels, dict) and (not isinstance(root_label, str) or not root_label))
        or not isinstance(names, (list, tuple))
        or not all(isinstance(name, str) and name for name in names)
    ):
        raise ValueError(
            f"expected labels as a list of strings, or as written by `spacy init labels`, "
            f"received {labels!r}"
        )
    return root_label, list(dict.fromkeys(names))
