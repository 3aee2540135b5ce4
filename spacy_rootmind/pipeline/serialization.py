"""Format, checks, saving and loading of components.

A saved component has two parts besides its vocab, each a file or an entry of the bytes:

- `cfg`, JSON: the format number, labels and temperatures, and the checksum of the weights;
- `model`, msgpack: the format number, the weights as bytes, their checksum, a digest of the labels,
  and whether the weights are in half precision. The weights are what Thinc's `Model.to_dict` makes.

Everything is read and checked before the component changes. The checksum tells damage, and weights
that were saved with another `cfg`. The digest tells whose labels the weights score where they come
without a `cfg`, or where that was edited. What else of the config decides the meaning of weights is
in the layers that Thinc writes, and `network.structure` compares it.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import srsly
from spacy import util
from spacy.pipeline import TrainablePipe
from spacy.vocab import Vocab

from spacy_rootmind.compat import gc_unchanged
from spacy_rootmind.network.architecture import ParserModel
from spacy_rootmind.network.dropout import RATE
from spacy_rootmind.network.half_precision import narrowed, widened
from spacy_rootmind.network.listeners import GRAD_FACTOR
from spacy_rootmind.network.structure import require_same_network
from spacy_rootmind.network.transfer import to_host
from spacy_rootmind.pipeline.label_inventory import read_labels

# Format of the saved parts; raised when it changes. `tests/saved` has a component of each format.
FORMAT = 4
# Parts of a component besides its vocab.
PARTS = ("cfg", "model")
# Entries that a saved part has, and the component in memory does not.
CHECKSUM = "weights_sha256"
DIGEST = "labels_sha256"
WEIGHTS = "weights"
HALF_PRECISION = "half_precision"


class NewerFormatError(ValueError):
    """Data in a format that only a newer version of the package can read."""


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


def labels_digest(cfg: dict[str, Any]) -> str:
    """Compute the digest of a component's labels, in their order."""
    return _sha256(json.dumps([cfg["root_label"], *cfg["labels"]]).encode("utf8"))


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# --- saving ------------------------------------------------------------------------------------


def save_bytes(component: TrainablePipe, exclude: Iterable[str]) -> bytes:
    """Save a component to bytes."""
    exclude = tuple(exclude)
    parts = _save(component)
    getters: dict[str, Callable[[], bytes]] = {
        name: partial(parts.__getitem__, name) for name in parts
    }
    getters["vocab"] = lambda: component.vocab.to_bytes(exclude=exclude)
    return util.to_bytes(getters, exclude)


def save_folder(
    component: TrainablePipe, folder: Path, exclude: Iterable[str], *, half_precision: bool = False
) -> None:
    """Save a component to a folder, if asked with weights in half precision."""
    exclude = tuple(exclude)
    parts = _save(component, half_precision)
    writers: dict[str, Callable[[Path], Any]] = {
        name: lambda path: path.write_bytes(parts[path.name]) for name in parts
    }
    writers["vocab"] = lambda path: component.vocab.to_disk(path, exclude=exclude)
    util.to_disk(folder, writers, exclude)


def _save(component: TrainablePipe, half_precision: bool = False) -> dict[str, bytes]:
    """Make the parts of a component."""
    message = _on_host(component.model)
    weights = srsly.msgpack_dumps(narrowed(message) if half_precision else message)
    checksum = _sha256(weights)
    model = {
        "format": FORMAT,
        DIGEST: labels_digest(component.cfg),
        HALF_PRECISION: half_precision,
        CHECKSUM: checksum,
        WEIGHTS: weights,
    }
    cfg = {**component.cfg, "format": FORMAT, CHECKSUM: checksum}
    return {
        "cfg": srsly.json_dumps(cfg, indent=2).encode("utf8"),
        "model": srsly.msgpack_dumps(model),
    }


def _on_host(model: ParserModel) -> dict[str, Any]:
    """Serialize a network as Thinc does, with its weights in NumPy arrays."""
    message = model.to_dict()
    weights = [own for layer in message["params"] for own in layer.values() if own is not None]
    found = iter(to_host(model.ops.xp, weights))
    params = [
        {name: own if own is None else next(found) for name, own in layer.items()}
        for layer in message["params"]
    ]
    return {**message, "params": params}


# --- loading -----------------------------------------------------------------------------------


def load_bytes(component: TrainablePipe, data: bytes, exclude: Iterable[str]) -> None:
    """Load a component from the bytes of `to_bytes`.

    Raises
    ------
    ValueError
        If they are incomplete or do not fit. The component is then unchanged.
    """
    exclude = tuple(exclude)
    source = "the given bytes"
    with gc_unchanged():
        with _refusing(source):
            found = srsly.msgpack_loads(data)
            wanted = [name for name in PARTS if name not in exclude]
            if not isinstance(found, dict) or (
                wanted and not any(name in found for name in wanted)
            ):
                shown = sorted(map(str, found)) if isinstance(found, dict) else type(found).__name__
                raise ValueError(f"expected {' and '.join(wanted)}, found {shown}")
            # A part that `to_bytes` left out stays as it is, as with spaCy's own components.
            parts = {name: _as_bytes(name, found[name]) for name in wanted if name in found}
            vocab = None if "vocab" in exclude else found.get("vocab")
        _load(
            component,
            parts,
            {name: f"{source} ({name})" for name in (*PARTS, "vocab")},
            None if vocab is None else lambda own: own.from_bytes(vocab, exclude=exclude),
        )


def load_folder(component: TrainablePipe, folder: Path, exclude: Iterable[str]) -> None:
    """Load a component from a folder that `to_disk` wrote.

    Raises
    ------
    ValueError
        If a file is missing, truncated, or does not fit. The component is then unchanged.
    """
    exclude = tuple(exclude)
    parts: dict[str, bytes] = {}
    for name in PARTS:
        if name not in exclude:
            with _refusing(folder / name):
                parts[name] = (folder / name).read_bytes()
    has_vocab = "vocab" not in exclude
    with gc_unchanged():
        _load(
            component,
            parts,
            {name: folder / name for name in (*PARTS, "vocab")},
            (lambda own: own.from_disk(folder / "vocab", exclude=exclude)) if has_vocab else None,
        )


def _as_bytes(name: str, part: Any) -> bytes:
    # spaCy's own components write their cfg as a string.
    if isinstance(part, str):
        return part.encode("utf8")
    if not isinstance(part, bytes):
        raise ValueError(f"expected {name} as bytes, found {type(part).__name__}")
    return part


def _load(
    component: TrainablePipe,
    parts: dict[str, bytes],
    sources: dict[str, Any],
    load_vocab: Callable[[Vocab], object] | None,
) -> None:
    """Read and check state, weights and vocab, then change the component."""
    weights, cfg, checksum = None, component.cfg, None
    if "cfg" in parts:
        with _refusing(sources["cfg"]):
            cfg, checksum = read_cfg(parts["cfg"])
            if "model" not in parts:
                _check_labels(cfg, component)
    if "model" in parts:
        with _refusing(sources["model"]):
            weights = read_weights(parts["model"], checksum, component.model, cfg)
    if load_vocab is not None:
        with _refusing(sources["vocab"]):
            # Loading fails halfway, so it is tried on another one.
            load_vocab(Vocab())
    # What may still fail comes first, and is undone.
    with _wrapped_networks_set(component.model, weights, sources["model"]):
        if load_vocab is not None:
            with _refusing(sources["vocab"]):
                load_vocab(component.vocab)
    if weights is not None:
        _set_weights(component.model, weights)
    component.cfg.update(cfg)


@contextmanager
def _refusing(source: object):
    """Turn any error of reading into one ValueError that names its source."""
    try:
        yield
    except MemoryError:
        raise
    except NewerFormatError as error:
        raise ValueError(f"cannot load {source}: {error}") from error
    # Damaged data can make msgpack, Thinc and spaCy raise nearly anything.
    except Exception as error:
        is_explained = isinstance(error, OSError | ValueError) and str(error)
        reason = str(error) if is_explained else repr(error)
        raise ValueError(
            f"cannot load {source}: {reason}. The saved component is incomplete or damaged, or was "
            f"saved with another version or config; save it again, or load it with the config it "
            f"was trained with"
        ) from error


@contextmanager
def _wrapped_networks_set(
    model: ParserModel, weights: dict[str, Any] | None, source: object
) -> Iterator[None]:
    """Set the weights of wrapped networks, such as PyTorch's; on an error, take them back.

    Other frameworks check them when they read them, and may do so halfway.
    """
    shims = [] if weights is None else [shim for node in model.walk() for shim in node.shims]
    saved = [] if weights is None else [data for of_node in weights["shims"] for data in of_node]
    before = [shim.to_bytes() for shim in shims]
    try:
        with _refusing(source):
            for shim, data in zip(shims, saved, strict=True):
                shim.from_bytes(data)
        yield
    except BaseException:
        for shim, data in zip(shims, before, strict=True):
            shim.from_bytes(data)
        raise


def _set_weights(model: ParserModel, weights: dict[str, Any]) -> None:
    """Set the weights of a network, but for those of wrapped networks."""
    # What only training uses is as in the config, which may have changed since the weights were
    # saved.
    kept = [
        (node.attrs, name, node.attrs[name])
        for node in model.walk()
        for name in (RATE, GRAD_FACTOR)
        if name in node.attrs
    ]
    model.from_dict({**weights, "shims": [[] for _ in weights["shims"]]})
    for attrs, name, value in kept:
        attrs[name] = value


# --- checks ------------------------------------------------------------------------------------


def _check_format(found: Any, what: str) -> None:
    if type(found) is int and found > FORMAT:
        raise NewerFormatError(
            f"expected a {what} of format {FORMAT} or older, found {found}: it was saved by a "
            f"newer version of spacy-rootmind; update the package, or save it with this version"
        )
    if type(found) is not int or found != FORMAT:
        raise ValueError(f"expected a {what} of format {FORMAT}, found {found!r}")


def _check_labels(cfg: dict[str, Any], component: TrainablePipe) -> None:
    """Refuse labels without weights that are not those of a component's own weights."""
    is_initialized = component.model.get_ref("labels").has_dim("nO")
    if is_initialized and labels_digest(cfg) != labels_digest(component.cfg):
        raise ValueError(
            f"expected the labels of the weights that are loaded already, "
            f"{[component.cfg['root_label'], *component.cfg['labels']]}, found "
            f"{[cfg['root_label'], *cfg['labels']]}"
        )


def read_weights(
    data: bytes, checksum: str | None, model: ParserModel, cfg: dict[str, Any]
) -> dict[str, Any]:
    """Read the saved `model`, and check that it fits a network and a `cfg`.

    `checksum` is that of the cfg that was saved with it, if there is one.
    """
    saved = srsly.msgpack_loads(data)
    if not isinstance(saved, dict):
        raise ValueError(f"expected a model as a dict, found {type(saved).__name__}")
    _check_format(saved.get("format"), "model")
    expected = {"format", DIGEST, HALF_PRECISION, CHECKSUM, WEIGHTS}
    is_sound = set(saved) == expected and isinstance(saved[WEIGHTS], bytes)
    if not is_sound or not isinstance(saved[HALF_PRECISION], bool):
        raise ValueError(f"expected a model with {sorted(expected)}, found {sorted(saved)}")
    if checksum is not None and saved[CHECKSUM] != checksum:
        raise ValueError("expected the weights that were saved together with cfg, found others")
    if saved[CHECKSUM] != _sha256(saved[WEIGHTS]):
        raise ValueError("the weights are not those that were saved: they were changed afterwards")
    weights = srsly.msgpack_loads(saved[WEIGHTS])
    # First, as it says more than the number of labels that their layers have.
    if saved[DIGEST] != labels_digest(cfg):
        raise ValueError(
            f"expected weights for the labels {[cfg['root_label'], *cfg['labels']]}, in this "
            f"order, found weights for others"
        )
    require_same_network(model, weights)
    # Packages may keep half of the precision.
    return widened(weights) if saved[HALF_PRECISION] else weights


def read_cfg(data: bytes) -> tuple[dict[str, Any], str]:
    """Read a saved `cfg`; returns the component's state, and the checksum of its weights."""
    cfg = srsly.json_loads(data)
    if not isinstance(cfg, dict):
        raise ValueError(f"expected a cfg as an object, found {type(cfg).__name__}")
    _check_format(cfg.get("format"), "cfg")
    if not isinstance(cfg.get(CHECKSUM), str):
        raise ValueError(f"expected {CHECKSUM} as a string, found {cfg.get(CHECKSUM)!r}")
    expected = {*initial_cfg(), CHECKSUM}
    if set(cfg) != expected:
        raise ValueError(f"expected a cfg with {sorted(expected)}, found {sorted(cfg)}")
    root_label, labels = read_labels(cfg)
    for name in ("temperature", "label_temperature"):
        value = cfg[name]
        if not isinstance(value, float) or not 0 < value < float("inf"):
            raise ValueError(f"expected a {name} above 0, found {value!r}")
    if not isinstance(cfg["finds_boundaries"], bool):
        raise ValueError(
            f"expected finds_boundaries as true or false, found {cfg['finds_boundaries']!r}"
        )
    checksum = cfg.pop(CHECKSUM)
    return {**cfg, "format": FORMAT, "root_label": root_label, "labels": labels}, checksum
