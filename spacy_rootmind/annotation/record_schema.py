"""What a packed record of parse details has to look like, and the check of one.

A Doc may come from anyone, and `doc.user_data` takes anything. `records` calls the check whenever
it reads a record, so that nothing behind it meets other types, shapes or values.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from spacy.tokens import Span

# Format of what is stored; raised when it changes.
FORMAT = 2

# Rounding can bring a probability above 1.
MAX_PROB = 1.001


class UnreadableDetailsError(ValueError):
    """Parse details of another format, or damaged ones."""


@dataclass(frozen=True)
class Column:
    """An array of a record.

    Attributes
    ----------
    shape : tuple of str
        Names of its sizes: "tokens", "labels", or any other name, which then stands for the same
        size throughout a part of the record.
    below : str or None
        For integers, the name of the size that all must be below, from 0; None for floats.
    low, high : float
        Least and greatest float.
    is_optional : bool
        Whether it may be None.
    """

    shape: tuple[str, ...]
    below: str | None = None
    low: float = -np.inf
    high: float = np.inf
    is_optional: bool = False

    def check(self, name: str, value: Any, sizes: dict[str, int]) -> None:
        """Check an array, and learn the sizes that are not known yet."""
        if value is None and self.is_optional:
            return
        kinds = "f" if self.below is None else "iu"
        is_array = isinstance(value, np.ndarray) and value.dtype.kind in kinds
        if not is_array or value.ndim != len(self.shape):
            dtype = "floats" if self.below is None else "integers"
            _refuse(name, f"an array of {dtype} with {len(self.shape)} axes", value)
        for axis, size in zip(self.shape, value.shape, strict=True):
            if sizes.setdefault(axis, size) != size:
                expected = tuple(sizes.get(one, "any") for one in self.shape)
                _refuse(name, f"an array of shape {expected}", value)
        if not value.size:
            return
        low, high = value.min(), value.max()
        # Comparisons with NaN are false.
        if self.below is None:
            if not (self.low <= low and high <= self.high):
                _refuse(name, f"numbers from {self.low} to {self.high}", value)
        elif low < 0 or high >= sizes[self.below]:
            _refuse(name, f"integers from 0, below {sizes[self.below]}", value)


def _index(size: str, *more: str, of: str) -> Column:
    return Column((size, *more), below=of)


def _probs(size: str, *, is_optional: bool = False) -> Column:
    return Column((size,), low=0.0, high=MAX_PROB, is_optional=is_optional)


LARGEST = float(np.finfo(np.float32).max)
# Parts of a record, and the arrays, numbers and texts of each.
SCHEMA: dict[str, dict[str, Column | type]] = {
    "confidence": {"head_probs": _probs("tokens"), "log_prob": float, "entropy": float},
    "arcs": {
        "dependents": _index("arcs", of="tokens"),
        "heads": _index("arcs", of="tokens"),
        "labels": _index("arcs", of="labels"),
        "probs": _probs("arcs"),
    },
    "alternatives": {
        "heads": _index("parses", "tokens", of="tokens"),
        "labels": _index("parses", "tokens", of="labels"),
        "log_probs": Column(("parses",)),
    },
    "distributions": {
        "dependents": _index("arcs", of="tokens"),
        "heads": _index("arcs", of="tokens"),
        "log_weights": Column(("arcs",), low=-LARGEST, high=LARGEST),
        "label_arcs": _index("entries", of="arcs"),
        "labels": _index("entries", of="labels"),
        "label_probs": _probs("entries"),
        "start_probs": _probs("tokens", is_optional=True),
        "teacher": str,
    },
}
# Those with labels; their names are a list, or a tuple after spaCy has read it from bytes.
LABELLED = ("arcs", "alternatives", "distributions")


def check_record(packed: Any, sentence: Span) -> None:
    """Check the packed record of a sentence.

    Raises
    ------
    UnreadableDetailsError
        If it has another format, or anything in it is not as described.
    """
    found = packed.get("format") if isinstance(packed, dict) else None
    if type(found) is not int or found != FORMAT:
        raise UnreadableDetailsError(
            f"expected parse details of format {FORMAT}, found format {_shown(found)} at the "
            f"sentence {sentence.text[:40]!r}: the Doc was saved by another version of "
            f"spacy-rootmind, or is damaged; parse it again"
        )
    try:
        _check_parts(packed)
    except UnreadableDetailsError as error:
        raise UnreadableDetailsError(
            f"the parse details of the sentence {sentence.text[:40]!r} are damaged: {error}; parse "
            f"the Doc again"
        ) from error


def _check_parts(packed: dict[Any, Any]) -> None:
    _check_names("parse details", packed, ("format", "tree", "extents"), optional=tuple(SCHEMA))
    extents = packed["extents"]
    characters = {"characters": int(np.iinfo(np.int32).max), "ends": 2}
    Column(("tokens", "ends"), below="characters").check("extents", extents, characters)
    ends = extents.ravel()
    if (ends[1:] < ends[:-1]).any():
        _refuse("extents", "ascending integers", extents)
    n_tokens = len(extents)
    _index("tokens", of="tokens").check("tree", packed["tree"], {"tokens": n_tokens})
    for name in SCHEMA:
        if name not in packed:
            continue
        parts = [packed[name]]
        if name == "distributions":
            parts = packed[name]
            if not isinstance(parts, list | tuple):
                _refuse(name, "a list", parts)
        for part in parts:
            try:
                _check_part(name, part, n_tokens)
            except UnreadableDetailsError as error:
                raise UnreadableDetailsError(f"in {name}, {error}") from error


def _check_part(name: str, part: Any, n_tokens: int) -> None:
    columns = SCHEMA[name]
    is_labelled = name in LABELLED
    _check_names("it", part, (*columns, "label_names") if is_labelled else tuple(columns))
    sizes = {"tokens": n_tokens}
    if is_labelled:
        labels = part["label_names"]
        if not isinstance(labels, list | tuple) or not all(isinstance(one, str) for one in labels):
            _refuse("label_names", "a list of strings", labels)
        sizes["labels"] = len(labels)
    for key, column in columns.items():
        if isinstance(column, Column):
            column.check(key, part[key], sizes)
        elif column is str:
            if not isinstance(part[key], str):
                _refuse(key, "a text", part[key])
        elif not isinstance(part[key], float | np.floating) or np.isnan(part[key]):
            _refuse(key, "a number", part[key])
    if name == "distributions":
        _check_label_probs(part)


def _check_label_probs(part: dict[str, Any]) -> None:
    """Refuse arcs whose labels have no probability, and arcs from ROOT with labels."""
    arcs, probs = part["label_arcs"], part["label_probs"]
    if not (np.bincount(arcs.astype(np.int64), probs)[arcs] > 0).all():
        _refuse("label_probs", "a probability above 0 for each arc", probs)
    if (part["dependents"][arcs] == part["heads"][arcs]).any():
        _refuse("label_arcs", "arcs between words", arcs)


def _check_names(
    what: str, found: Any, expected: tuple[str, ...], optional: tuple[str, ...] = ()
) -> None:
    is_sound = isinstance(found, Mapping) and found.keys() >= set(expected)
    if not is_sound or not found.keys() <= {*expected, *optional}:
        names = sorted(map(str, found)) if isinstance(found, Mapping) else found
        _refuse(what, f"a dict with {sorted((*expected, *optional))}", names)


def _refuse(name: str, expected: str, found: object) -> None:
    raise UnreadableDetailsError(f"expected {name} as {expected}, found {_shown(found)}")


def _shown(found: object) -> str:
    if isinstance(found, np.ndarray):
        values = _cut(found.ravel()[:8].tolist())
        return f"an array of type {found.dtype} and shape {found.shape}: {values}"
    return _cut(found)


def _cut(found: object) -> str:
    text = repr(found)
    return text if len(text) <= 60 else f"{text[:60]}..."
