"""Checks of packed records of parse details.

A Doc may come from anyone, and `doc.user_data` takes anything. `records` checks each record that it
reads, so that nothing behind it meets other types, shapes or values.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, get_type_hints

import numpy as np
from spacy.tokens import Span

# Format of what is stored; raised when it changes.
FORMAT = 3
# The status of a sentence's tree, next to the parts of its record.
STATUS = "guideline_status"

# Rounding can bring a probability above 1.
MAX_PROB = 1.001
LARGEST = float(np.finfo(np.float32).max)


class UnreadableDetailsError(ValueError):
    """Parse details of another format, or damaged ones."""


# --- checks of a field -------------------------------------------------------------------------

Check = Callable[[Any, dict[str, int]], bool]
"""Checks a field, given the sizes that are known so far; learns those that are not.

The sizes of a part of a record are "tokens", "labels", and others that only this part has.
"""


def indices(*shape: str, of: str) -> Check:
    """Check an array of integers from 0, below the size `of`."""

    def check(value: Any, sizes: dict[str, int]) -> bool:
        if not _has_shape(value, "iu", shape, sizes):
            return False
        return not value.size or bool(value.min() >= 0 and value.max() < sizes[of])

    return check


def floats(*shape: str, low: float = -np.inf, high: float = np.inf, gaps: bool = False) -> Check:
    """Check an array of floats in a range; NaN is one of them if there may be `gaps`."""

    def check(value: Any, sizes: dict[str, int]) -> bool:
        if not _has_shape(value, "f", shape, sizes):
            return False
        numbers = value[~np.isnan(value)] if gaps else value
        # Comparisons with NaN are false.
        return not numbers.size or bool(low <= numbers.min() and numbers.max() <= high)

    return check


def probs(size: str, *, gaps: bool = False) -> Check:
    """Check an array of probabilities."""
    return floats(size, low=0.0, high=MAX_PROB, gaps=gaps)


def optional(check: Check) -> Check:
    """Check a field that may be None."""
    return lambda value, sizes: value is None or check(value, sizes)


def _has_shape(value: Any, kinds: str, shape: tuple[str, ...], sizes: dict[str, int]) -> bool:
    if not isinstance(value, np.ndarray) or value.dtype.kind not in kinds:
        return False
    pairs = zip(shape, value.shape, strict=False)
    return value.ndim == len(shape) and all(
        sizes.setdefault(axis, size) == size for axis, size in pairs
    )


def number(value: Any, sizes: dict[str, int]) -> bool:
    """Check a float that is a number."""
    return isinstance(value, float | np.floating) and not np.isnan(value)


def text(value: Any, sizes: dict[str, int]) -> bool:
    """Check a string."""
    return isinstance(value, str)


def flag(value: Any, sizes: dict[str, int]) -> bool:
    """Check a bool."""
    return isinstance(value, bool)


def names(value: Any, sizes: dict[str, int]) -> bool:
    """Check the names of labels: a list, or a tuple after spaCy has read it from bytes."""
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
        return False
    sizes["labels"] = len(value)
    return True


# --- records -----------------------------------------------------------------------------------


@cache
def schema_of(kind: type) -> dict[str, Check]:
    """List the checks of the fields of a dataclass, from their types; names first."""
    hints = get_type_hints(kind, include_extras=True)
    checks = {name: hint.__metadata__[0] for name, hint in hints.items()}
    return dict(sorted(checks.items(), key=lambda item: item[1] is not names))


def check_record(packed: Any, sentence: Span, kinds: Mapping[str, type], several: str) -> None:
    """Check the packed record of a sentence; UnreadableDetailsError says which part is wrong.

    `kinds` are the parts that a record may have, as dataclasses; that called `several` is a list.
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
    if not (packed.keys() >= needed and packed.keys() <= {*needed, STATUS, *kinds}):
        return "the names of its parts"
    if not text(packed.get(STATUS, ""), {}):
        return STATUS
    extents = packed["extents"]
    limits = {"characters": np.iinfo(np.int32).max, "ends": 2}
    is_sound = indices("tokens", "ends", of="characters")(extents, limits)
    if not is_sound or (np.diff(extents.ravel()) < 0).any():
        return "extents"
    sizes = {"tokens": len(extents)}
    if not indices("tokens", of="tokens")(packed["tree"], sizes):
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
    if not all(check(part[name], sizes) for name, check in schema.items()):
        return False
    return "label_arcs" not in schema or _are_sound_labels(part)


def _are_sound_labels(part: Mapping[str, Any]) -> bool:
    """Check that arcs with labels have a probability for one of them, and are not from ROOT."""
    arcs, label_probs = part["label_arcs"], part["label_probs"]
    has_prob = np.bincount(arcs.astype(np.int64), label_probs)[arcs] > 0
    return bool((has_prob & (part["dependents"][arcs] != part["heads"][arcs])).all())
