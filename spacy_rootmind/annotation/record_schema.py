"""What a packed record of parse details has to look like, and the check of one.

A Doc may come from anyone, and `doc.user_data` takes anything. `records` calls the check whenever
it reads a record, so that nothing behind it meets other types, shapes or values.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, get_type_hints

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
    has_gaps : bool
        Whether floats may be NaN, where there is no number.
    """

    shape: tuple[str, ...]
    below: str | None = None
    low: float = -np.inf
    high: float = np.inf
    is_optional: bool = False
    has_gaps: bool = False

    @classmethod
    def indices(cls, *shape: str, of: str) -> "Column":
        """Describe integers from 0, below the size `of`."""
        return cls(shape, below=of)

    @classmethod
    def probs(cls, size: str, *, is_optional: bool = False, has_gaps: bool = False) -> "Column":
        """Describe probabilities."""
        return cls((size,), low=0.0, high=MAX_PROB, is_optional=is_optional, has_gaps=has_gaps)

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
                expected = tuple(sizes.get(name, "any") for name in self.shape)
                _refuse(name, f"an array of shape {expected}", value)
        if self.has_gaps:
            value = value[~np.isnan(value)]
        if not value.size:
            return
        low, high = value.min(), value.max()
        # Comparisons with NaN are false.
        if self.below is None:
            if not (self.low <= low and high <= self.high):
                _refuse(name, f"numbers from {self.low} to {self.high}", value)
        elif low < 0 or high >= sizes[self.below]:
            _refuse(name, f"integers from 0, below {sizes[self.below]}", value)


@dataclass(frozen=True)
class Value:
    """A value of a record that is no array: what it is called in messages, and what it may be."""

    what: str
    is_sound: Callable[[Any], bool]

    def check(self, name: str, value: Any, sizes: dict[str, int]) -> None:
        """Check a value."""
        if not self.is_sound(value):
            _refuse(name, self.what, value)


@dataclass(frozen=True)
class Names(Value):
    """The names of labels, a list; a tuple after spaCy has read it from bytes."""

    def check(self, name: str, value: Any, sizes: dict[str, int]) -> None:
        """Check names, and learn how many labels there are."""
        super().check(name, value, sizes)
        sizes["labels"] = len(value)


def _are_names(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(name, str) for name in value)


def _is_number(value: Any) -> bool:
    return isinstance(value, float | np.floating) and not np.isnan(value)


NAMES = Names("a list of strings", _are_names)
NUMBER = Value("a number", _is_number)
TEXT = Value("a text", lambda value: isinstance(value, str))
LARGEST = float(np.finfo(np.float32).max)


@cache
def schema_of(kind: type) -> dict[str, Column | Value]:
    """List what the fields of a dataclass have to look like, from their types; names first."""
    hints = get_type_hints(kind, include_extras=True)
    checks = {name: hint.__metadata__[0] for name, hint in hints.items()}
    return dict(sorted(checks.items(), key=lambda item: item[1] is not NAMES))


def check_record(packed: Any, sentence: Span, kinds: Mapping[str, type], several: str) -> None:
    """Check the packed record of a sentence.

    Parameters
    ----------
    packed
    sentence
    kinds : mapping of str to type
        The parts that a record may have, and their dataclasses.
    several : str
        The part that is a list.

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
        _check_parts(packed, kinds, several)
    except UnreadableDetailsError as error:
        raise UnreadableDetailsError(
            f"the parse details of the sentence {sentence.text[:40]!r} are damaged: {error}; parse "
            f"the Doc again"
        ) from error


def _check_parts(packed: dict[Any, Any], kinds: Mapping[str, type], several: str) -> None:
    _check_names("parse details", packed, ("format", "tree", "extents"), optional=tuple(kinds))
    extents = packed["extents"]
    characters = {"characters": int(np.iinfo(np.int32).max), "ends": 2}
    Column.indices("tokens", "ends", of="characters").check("extents", extents, characters)
    ends = extents.ravel()
    if (ends[1:] < ends[:-1]).any():
        _refuse("extents", "ascending integers", extents)
    sizes = {"tokens": len(extents)}
    Column.indices("tokens", of="tokens").check("tree", packed["tree"], sizes)
    for name, kind in kinds.items():
        if name not in packed:
            continue
        parts = packed[name] if name == several else [packed[name]]
        if not isinstance(parts, list | tuple):
            _refuse(name, "a list", parts)
        for part in parts:
            try:
                _check_part(part, kind, dict(sizes))
            except UnreadableDetailsError as error:
                raise UnreadableDetailsError(f"in {name}, {error}") from error


def _check_part(part: Any, kind: type, sizes: dict[str, int]) -> None:
    schema = schema_of(kind)
    _check_names("it", part, tuple(schema))
    for name, check in schema.items():
        check.check(name, part[name], sizes)
    if "label_arcs" in schema:
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
