"""Dataclasses from plain data, which is checked: arrays, numbers, texts, lists and dicts.

A Doc may come from anyone, and `doc.user_data` takes anything. The types of a dataclass's fields
are annotated with how they are read, so that nothing behind it meets other types, shapes or values.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from typing import Any, TypeVar, get_args

import numpy as np

Kind = TypeVar("Kind")
Reader = Callable[[Any, dict[str, int]], Any]
"""Reads a field, given the sizes that are known so far; learns those that are not.

The sizes of a part of a record are "tokens", "words", "labels", and others that only this part has.
Raises ValueError if the data is malformed.
"""


def read_dataclass(kind: Callable[..., Kind], data: Any, sizes: Mapping[str, int]) -> Kind:
    """Make a dataclass of a mapping from its fields; a ValueError names one that is malformed.

    Missing fields are read as None.
    """
    listed = fields(kind)  # type: ignore[arg-type]
    if not isinstance(data, Mapping) or not data.keys() <= {each.name for each in listed}:
        raise ValueError("the names of its parts")
    values, known = {}, dict(sizes)
    for each in listed:
        _, read = get_args(each.type)
        try:
            values[each.name] = read(data.get(each.name), known)
        except ValueError as error:
            raise ValueError(each.name) from error
    return kind(**values)


def part(kind: Callable) -> Reader:
    """Read a dataclass, or None."""
    return or_none(partial(read_dataclass, kind))


def or_none(read: Reader) -> Reader:
    """Read None as it is."""
    return lambda value, sizes: None if value is None else read(value, sizes)


# --- arrays ------------------------------------------------------------------------------------


def indices(*shape: str, of: str) -> Reader:
    """Read an array of integers from 0, below the size `of`."""

    def read(value: Any, sizes: dict[str, int]) -> Any:
        found = _array("iu", shape, value, sizes)
        if found.size and not 0 <= found.min() <= found.max() < sizes[of]:
            raise ValueError
        return found

    return read


def floats(*shape: str) -> Reader:
    """Read an array of floats."""
    return partial(_array, "f", shape)


def marks(*shape: str, of: str) -> Reader:
    """Read an array of bools, which marks the items that the size `of` counts."""

    def read(value: Any, sizes: dict[str, int]) -> Any:
        found = _array("b", shape, value, sizes)
        sizes[of] = int(found.sum())
        return found

    return read


def _array(kinds: str, shape: tuple[str, ...], value: Any, sizes: dict[str, int]) -> Any:
    is_array = isinstance(value, np.ndarray) and value.dtype.kind in kinds
    if not is_array or value.ndim != len(shape):
        raise ValueError
    if any(sizes.setdefault(*pair) != pair[1] for pair in zip(shape, value.shape, strict=True)):
        raise ValueError
    return value


# --- other fields ------------------------------------------------------------------------------


def value(*kinds: type) -> Reader:
    """Read a value of some types."""

    def read(value: Any, sizes: dict[str, int]) -> Any:
        if not isinstance(value, kinds):
            raise ValueError
        return value

    return read


def read_names(value: Any, sizes: dict[str, int]) -> tuple[str, ...]:
    """Read the names of labels: a tuple, or a list after spaCy has read it from bytes."""
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
        raise ValueError
    sizes["labels"] = len(value)
    return tuple(value)
