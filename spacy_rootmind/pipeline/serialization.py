"""Format, checks and loading of saved components.

Everything is read and checked before the component changes.
"""

from collections.abc import Callable, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import srsly
from spacy.pipeline import TrainablePipe

from spacy_rootmind.network.architecture import ParserModel
from spacy_rootmind.network.dropout import RATE
from spacy_rootmind.network.half_precision import widened
from spacy_rootmind.network.labels import NULL_LABEL
from spacy_rootmind.network.listeners import GRAD_FACTOR
from spacy_rootmind.pipeline.labels import read_labels

# Format of the saved `cfg`; raised when it changes.
FORMAT = 2
# Parts of a component besides its vocab.
PARTS = ("cfg", "model")


def initial_cfg() -> dict[str, Any]:
    """Return the state of a component that is not trained, apart from its weights."""
    return {
        "format": FORMAT,
        "root_label": "ROOT",
        "labels": [],
        "finds_boundaries": True,
        "temperature": 1.0,
        "label_temperature": 1.0,
    }


# --- loading -----------------------------------------------------------------------------------


def load_bytes(component: TrainablePipe, data: bytes, exclude: Iterable[str]) -> None:
    """Load a component from the bytes of `to_bytes`.

    Raises
    ------
    ValueError
        If they are incomplete or do not fit. The component is then unchanged.
    """
    source = "the given bytes"
    with _refusing(source):
        found = srsly.msgpack_loads(data)
        wanted = [name for name in PARTS if name not in exclude]
        if wanted and not any(name in found for name in wanted):
            raise ValueError(f"expected {' and '.join(wanted)}, received {sorted(found)}")
        # A part that `to_bytes` left out stays as it is, as with spaCy's own components.
        parts = {name: found[name] for name in wanted if name in found}
        vocab = None if "vocab" in exclude else found.get("vocab")
    _load(
        component,
        parts,
        source,
        lambda: None if vocab is None else component.vocab.from_bytes(vocab, exclude=exclude),
        source,
    )


def load_folder(component: TrainablePipe, folder: Path, exclude: Iterable[str]) -> None:
    """Load a component from a folder that `to_disk` wrote.

    Raises
    ------
    ValueError
        If a file is missing, truncated, or does not fit. The component is then unchanged.
    """
    parts: dict[str, bytes] = {}
    for name in PARTS:
        if name not in exclude:
            with _refusing(folder / name):
                parts[name] = (folder / name).read_bytes()
    has_vocab = "vocab" not in exclude
    _load(
        component,
        parts,
        folder,
        lambda: component.vocab.from_disk(folder / "vocab", exclude=exclude) if has_vocab else None,
        folder / "vocab",
    )


def _load(
    component: TrainablePipe,
    parts: dict[str, bytes],
    source: object,
    load_vocab: Callable[[], object],
    vocab_source: object,
) -> None:
    """Read and check weights and state, then load the vocab, then change the component."""
    weights, cfg = None, component.cfg
    with _refusing(source):
        if "cfg" in parts:
            cfg = read_cfg(parts["cfg"])
        if "model" in parts:
            # `to_disk` writes single precision, but packages may keep half of it.
            weights = widened(srsly.msgpack_loads(parts["model"]))
            check_weights(component.model, weights, len(cfg["labels"]))
    with _refusing(vocab_source):
        load_vocab()
    if weights is not None:
        _set_weights(component.model, weights)
    component.cfg.update(cfg)


@contextmanager
def _refusing(source: object):
    """Turn any error of reading into one ValueError that names its source."""
    try:
        yield
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise ValueError(
            f"cannot load {source}: {error}. It is incomplete, or was saved with another version "
            f"or config; save it again, or load it with the config it was trained with"
        ) from error


def _set_weights(model: ParserModel, weights: Any) -> None:
    # What only training uses is as in the config, which may have changed since the weights were
    # saved.
    kept = [
        (node.attrs, name, node.attrs[name])
        for node in model.walk()
        for name in (RATE, GRAD_FACTOR)
        if name in node.attrs
    ]
    model.from_dict(weights)
    for attrs, name, value in kept:
        attrs[name] = value


# --- checks ------------------------------------------------------------------------------------


def check_weights(model: ParserModel, weights: dict[str, Any], n_labels: int) -> None:
    """Compare saved weights with a network and its number of labels.

    Raises
    ------
    ValueError
        If they do not fit.
    """
    nodes = list(model.walk())
    if len(weights["nodes"]) != len(nodes):
        raise ValueError(f"expected {len(nodes)} layers, found {len(weights['nodes'])}")
    labels = model.get_ref("labels")
    label_layer = weights["nodes"][nodes.index(labels)]
    # The labels of an uninitialized component are not fixed yet.
    if label_layer["dims"]["nO"] not in (None, n_labels):
        raise ValueError(
            f"expected weights for {n_labels} labels besides the root's, as in cfg, found weights "
            f"for {label_layer['dims']['nO']}"
        )
    null_label = bool(labels.attrs[NULL_LABEL])
    for term in labels.layers:
        found = weights["nodes"][nodes.index(term)]["dims"]["nO"]
        if found not in (None, n_labels + null_label):
            raise ValueError(
                f"expected weights for {n_labels} labels besides the root's and null_label = "
                f"{str(null_label).lower()}, as in the config, found weights for {found} in all"
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
    """Read a saved `cfg`, refusing another format."""
    cfg = srsly.json_loads(data)
    if not isinstance(cfg, dict) or cfg.get("format") != FORMAT:
        found = cfg.get("format") if isinstance(cfg, dict) else cfg
        raise ValueError(f"expected a cfg of format {FORMAT}, found {found!r}")
    root_label, labels = read_labels(cfg)
    # Parsers saved before there was a label_temperature have none fitted.
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
