"""Dataclasses from plain data, which is checked: arrays, numbers, texts, lists and dicts.

A Doc may come from anyone, and `doc.user_data` takes anything. The types of a dataclass's fields
say how they are read, so that nothing behind it meets other types, shapes or values. The types of
arrays are annotated with a reader, `indices` or `floats`.
"""

from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from functools import cache, partial
from types import UnionType
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

Kind = TypeVar("Kind")
Reader = Callable[[Any, dict[str, int]], Any]
"""Reads a field, given the sizes that are known so far; learns those that are not.

The sizes of a part of a record are "tokens", "labels", and others that only this part has. Raises
ValueError if the data is malformed.
"""


def read_dataclass(kind: Callable[..., Kind], data: Any, sizes: Mapping[str, int]) -> Kind:
    """Make a dataclass of a mapping from its fields; a ValueError names one that is malformed.

    Missing fields are read as None.
    """
    readers = _readers(kind)
    if not isinstance(data, Mapping) or not data.keys() <= readers.keys():
        raise ValueError("the names of its parts")
    values, known = {}, dict(sizes)
    for name, read in readers.items():
        try:
            values[name] = read(data.get(name), known)
        except ValueError as error:
            raise ValueError(name) from error
    return kind(**values)


@cache
def _readers(kind: Any) -> dict[str, Reader]:
    """List the readers of the fields of a dataclass, from their types; names of labels first."""
    hints = get_type_hints(kind, include_extras=True)
    readers = {name: _reader(hint) for name, hint in hints.items()}
    return dict(sorted(readers.items(), key=lambda item: item[1] is not _read_names))


def _reader(hint: Any) -> Reader:
    """Make the reader of a type."""
    own, *annotated = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    if isinstance(own, UnionType):
        read = annotated[0] if annotated else _reader(get_args(own)[0])
        return lambda value, sizes: None if value is None else read(value, sizes)
    if annotated:
        return annotated[0]
    if is_dataclass(own):
        return partial(read_dataclass, own)
    if own == tuple[str, ...]:
        return _read_names
    if get_origin(own) is tuple:
        return partial(_read_several, _reader(get_args(own)[0]))
    return partial(_read_value, (float, np.floating) if own is float else own)


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


def _array(kinds: str, shape: tuple[str, ...], value: Any, sizes: dict[str, int]) -> Any:
    is_array = isinstance(value, np.ndarray) and value.dtype.kind in kinds
    if not is_array or value.ndim != len(shape):
        raise ValueError
    if any(sizes.setdefault(*pair) != pair[1] for pair in zip(shape, value.shape, strict=True)):
        raise ValueError
    return value


# --- other fields ------------------------------------------------------------------------------


def _read_value(kinds: Any, value: Any, sizes: dict[str, int]) -> Any:
    if not isinstance(value, kinds):
        raise ValueError
    return value


def _read_names(value: Any, sizes: dict[str, int]) -> tuple[str, ...]:
    """Read the names of labels: a tuple, or a list after spaCy has read it from bytes."""
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
        raise ValueError
    sizes["labels"] = len(value)
    return tuple(value)


def _read_several(read: Reader, value: Any, sizes: dict[str, int]) -> tuple[Any, ...]:
    """Read a list; an empty one if it is missing."""
    if value is not None and not isinstance(value, list | tuple):
        raise ValueError
    return tuple(read(each, sizes) for each in value or ())
