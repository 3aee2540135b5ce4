"""The schema of a packed record of parse details, and the check of one.

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

    def fits(self, value: Any, sizes: dict[str, int]) -> bool:
        """Check an array, and learn the sizes that are not known yet."""
        if value is None:
            return self.is_optional
        kinds = "f" if self.below is None else "iu"
        is_array = isinstance(value, np.ndarray) and value.dtype.kind in kinds
        if not is_array or value.ndim != len(self.shape):
            return False
        pairs = zip(self.shape, value.shape, strict=True)
        if any(sizes.setdefault(axis, size) != size for axis, size in pairs):
            return False
        if self.has_gaps:
            value = value[~np.isnan(value)]
        if not value.size:
            return True
        low, high = value.min(), value.max()
        if self.below is not None:
            return bool(low >= 0 and high < sizes[self.below])
        # Comparisons with NaN are false.
        return bool(self.low <= low and high <= self.high)


@dataclass(frozen=True)
class Value:
    """A value of a record that is no array."""

    is_sound: Callable[[Any], bool]

    def fits(self, value: Any, sizes: dict[str, int]) -> bool:
        """Check a value."""
        return self.is_sound(value)


@dataclass(frozen=True)
class Names(Value):
    """The names of labels, a list; a tuple after spaCy has read it from bytes."""

    def fits(self, value: Any, sizes: dict[str, int]) -> bool:
        """Check names, and learn how many labels there are."""
        if not self.is_sound(value):
            return False
        sizes["labels"] = len(value)
        return True


def _are_names(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(name, str) for name in value)


def _is_number(value: Any) -> bool:
    return isinstance(value, float | np.floating) and not np.isnan(value)


NAMES = Names(_are_names)
NUMBER = Value(_is_number)
TEXT = Value(lambda value: isinstance(value, str))
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
            f"expected parse details of format {FORMAT}, found format {repr(found)[:60]} at the "
            f"sentence {sentence.text[:40]!r}: the Doc was saved by another version of "
            f"spacy-rootmind, or is damaged; parse it again"
        )
    damaged = _find_damage(packed, kinds, several)
    if damaged is not None:
        raise UnreadableDetailsError(
            f"the parse details of the sentence {sentence.text[:40]!r} are damaged, in {damaged}; "
            f"parse the Doc again"
        )


def _find_damage(packed: dict[Any, Any], kinds: Mapping[str, type], several: str) -> str | None:
    """Return the name of the first part that is not as described; None if all are."""
    needed = {"format", "tree", "extents"}
    if not (packed.keys() >= needed and packed.keys() <= {*needed, *kinds}):
        return "the names of its parts"
    extents, characters = packed["extents"], {"characters": np.iinfo(np.int32).max, "ends": 2}
    is_sound = Column.indices("tokens", "ends", of="characters").fits(extents, characters)
    if not is_sound or (np.diff(extents.ravel()) < 0).any():
        return "extents"
    sizes = {"tokens": len(extents)}
    if not Column.indices("tokens", of="tokens").fits(packed["tree"], sizes):
        return "tree"
    for name in [name for name in kinds if name in packed]:
        parts = packed[name] if name == several else [packed[name]]
        if not isinstance(parts, list | tuple):
            return name
        if not all(_is_sound(part, kinds[name], dict(sizes)) for part in parts):
            return name
    return None


def _is_sound(part: Any, kind: type, sizes: dict[str, int]) -> bool:
    schema = schema_of(kind)
    if not isinstance(part, Mapping) or part.keys() != schema.keys():
        return False
    if not all(check.fits(part[name], sizes) for name, check in schema.items()):
        return False
    return "label_arcs" not in schema or _are_sound_labels(part)


def _are_sound_labels(part: Mapping[str, Any]) -> bool:
    """Check that arcs with labels have a probability for one of them, and are not from ROOT."""
    arcs, probs = part["label_arcs"], part["label_probs"]
    has_prob = np.bincount(arcs.astype(np.int64), probs)[arcs] > 0
    return bool((has_prob & (part["dependents"][arcs] != part["heads"][arcs])).all())
