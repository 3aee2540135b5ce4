"""Copies between the host and the device of a network, many arrays in one.

Each copy makes the host wait for the device, however little it moves. On the CPU, where nothing has
to move, arrays are handed on as they are.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from thinc.api import to_numpy


def to_device(xp: Any, arrays: Sequence[NDArray[Any]]) -> list[Any]:
    """Copy NumPy arrays to arrays of the module `xp`, in one copy."""
    if xp is np or not arrays:
        return list(arrays)
    return _unpack(xp.asarray(_pack(np, arrays)), arrays)


def to_host(xp: Any, arrays: Sequence[Any]) -> list[NDArray[Any]]:
    """Copy arrays of the module `xp` to NumPy arrays, in one copy."""
    if xp is np or not arrays:
        return list(arrays)
    return _unpack(to_numpy(_pack(xp, arrays)), arrays)


def _order(arrays: Sequence[Any]) -> list[int]:
    """Order arrays by the size of their numbers, the largest first, which aligns all of them."""
    return sorted(range(len(arrays)), key=lambda i: -arrays[i].itemsize)


def _pack(xp: Any, arrays: Sequence[Any]) -> Any:
    """Join the bytes of arrays."""
    return xp.concatenate(
        [xp.ascontiguousarray(arrays[i]).reshape(-1).view(np.uint8) for i in _order(arrays)]
    )


def _unpack(packed: Any, arrays: Sequence[Any]) -> list[Any]:
    """Take joined bytes apart again, into arrays of the shapes and dtypes of `arrays`."""
    found: list[Any] = [None] * len(arrays)
    start = 0
    for i in _order(arrays):
        stop = start + arrays[i].nbytes
        found[i] = packed[start:stop].view(arrays[i].dtype).reshape(arrays[i].shape)
        start = stop
    return found
