"""Saving and loading of components.

A saved component has two parts besides its vocab, each a file or an entry of the bytes:

- `model`, what Thinc's `Model.to_bytes` writes, with weights in half precision if asked;
- `cfg`, JSON: the format number, labels and temperatures, and the checksum of both parts.

The checksum is compared before any weight is read: Thinc takes over what a file says. It tells
damage, and parts of two components.
"""

import hashlib
import json
from collections.abc import Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import srsly
from spacy.pipeline import TrainablePipe
from thinc.api import to_numpy

from spacy_rootmind.network.architecture import ParserModel
from spacy_rootmind.network.dropout import RATE
from spacy_rootmind.network.half_precision import (
    convert_weights,
    to_half_precision,
    to_single_precision,
)
from spacy_rootmind.network.listeners import GRAD_FACTOR
from spacy_rootmind.pipeline.inputs import DIGESTS

# Format of the saved parts; raised when it changes. `tests/saved` has a component of each format.
FORMAT = 6
# Parts of a component besides its vocab.
PARTS = ("cfg", "model")
# An entry that a saved cfg has, and the component in memory does not.
CHECKSUM = "sha256"


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


def _checksum(cfg: dict[str, Any], weights: bytes) -> str:
    return hashlib.sha256(json.dumps(cfg, sort_keys=True).encode("utf8") + weights).hexdigest()


# --- saving ------------------------------------------------------------------------------------


def save_bytes(component: TrainablePipe, exclude: Iterable[str]) -> bytes:
    """Save a component to bytes."""
    exclude = tuple(exclude)
    parts = {name: part for name, part in _save(component).items() if name not in exclude}
    if "vocab" not in exclude:
        parts["vocab"] = component.vocab.to_bytes(exclude=exclude)
    return srsly.msgpack_dumps(parts)


def save_folder(
    component: TrainablePipe, folder: Path, exclude: Iterable[str], *, half_precision: bool = False
) -> None:
    """Save a component to a folder, if asked with weights in half precision."""
    exclude = tuple(exclude)
    folder.mkdir(exist_ok=True)
    for name, part in _save(component, half_precision).items():
        if name not in exclude:
            (folder / name).write_bytes(part)
    if "vocab" not in exclude:
        component.vocab.to_disk(folder / "vocab", exclude=exclude)


def _save(component: TrainablePipe, half_precision: bool = False) -> dict[str, bytes]:
    """Make the parts of a component."""
    message = convert_weights(component.model.to_dict(), to_numpy)
    if half_precision:
        message = convert_weights(message, to_half_precision)
    weights = srsly.msgpack_dumps(message)
    inputs = component.inputs.digests(component.model)
    cfg = {**component.cfg, **inputs, "format": FORMAT}
    cfg[CHECKSUM] = _checksum(cfg, weights)
    return {"cfg": json.dumps(cfg, indent=2).encode("utf8"), "model": weights}


# --- loading -----------------------------------------------------------------------------------


def load_bytes(component: TrainablePipe, data: bytes, exclude: Iterable[str]) -> None:
    """Load a component from the bytes of `to_bytes`.

    Raises ValueError if they are incomplete or do not fit. The component may then be half loaded.
    """
    exclude = tuple(exclude)
    source = "the given bytes"
    with _refusing(source):
        found = srsly.msgpack_loads(data)
        cfg, weights = (found[name] for name in PARTS)
    _load(component, cfg, weights, source)
    if "vocab" in found and "vocab" not in exclude:
        with _refusing(f"{source} (vocab)"):
            component.vocab.from_bytes(found["vocab"], exclude=exclude)


def load_folder(component: TrainablePipe, folder: Path, exclude: Iterable[str]) -> None:
    """Load a component from a folder that `to_disk` wrote.

    Raises ValueError if a file is missing, damaged, or does not fit. The component may then be half
    loaded.
    """
    exclude = tuple(exclude)
    with _refusing(folder):
        cfg, weights = ((folder / name).read_bytes() for name in PARTS)
    _load(component, cfg, weights, folder)
    if "vocab" not in exclude:
        with _refusing(folder / "vocab"):
            component.vocab.from_disk(folder / "vocab", exclude=exclude)


def _load(component: TrainablePipe, saved: bytes | str, weights: bytes, source: object) -> None:
    """Check both parts, then set the weights and the state."""
    with _refusing(source):
        cfg = json.loads(saved)
        _check_format(cfg)
        checksum = cfg.pop(CHECKSUM, None)
        if checksum != _checksum(cfg, weights):
            raise ValueError("cfg and model are not those that were saved together")
        message = convert_weights(srsly.msgpack_loads(weights), to_single_precision)
        _set_weights(component.model, message)
    inputs = {name: cfg.pop(name) for name in DIGESTS if name in cfg}
    component.cfg.update(cfg)
    component.inputs.load(component.model, inputs, component.name)


@contextmanager
def _refusing(source: object):
    """Turn any error of reading into one ValueError that names its source."""
    try:
        yield
    except MemoryError:
        raise
    # Damaged data can make msgpack, Thinc and spaCy raise nearly anything.
    except Exception as error:
        is_explained = isinstance(error, OSError | ValueError) and str(error)
        reason = str(error) if is_explained else repr(error)
        raise ValueError(
            f"cannot load {source}: {reason}. The saved component is incomplete or damaged, or was "
            f"saved with another version or config; save it again, or load it with the config it "
            f"was trained with"
        ) from error


def _check_format(cfg: Any) -> None:
    found = cfg.get("format") if isinstance(cfg, dict) else cfg
    if found != FORMAT:
        raise ValueError(
            f"expected a component of format {FORMAT}, which this version of spacy-rootmind reads, "
            f"found {found!r:.60}"
        )


def _set_weights(model: ParserModel, message: dict[str, Any]) -> None:
    """Set the weights of a network; raises ValueError if the layers are not the same.

    Attributes of layers that decide what weights mean, such as `columns`, are as they were saved.
    """
    for node, saved, params in zip(model.walk(), message["nodes"], message["params"], strict=False):
        # Names of combined layers may be older than the layers: spaCy can replace a listener.
        is_other = not node.layers and node.name != saved["name"]
        if is_other or set(node.param_names) != params.keys():
            raise ValueError(f"the config has other layers than were saved, from {node.name!r} on")
    # The config, which may have changed since the weights were saved, decides on settings that only
    # training uses.
    kept = [
        (node.attrs, name, node.attrs[name])
        for node in model.walk()
        for name in (RATE, GRAD_FACTOR)
        if name in node.attrs
    ]
    model.from_dict(message)
    for attrs, name, value in kept:
        attrs[name] = value
