"""Arrays that live elsewhere, as on a GPU: they mix with no NumPy array, nor become one unasked.

CuPy refuses the same, so what runs on these copies nothing to or from a device behind our backs.
They do not tell which functions CuPy has.
"""

import numpy as np
from thinc.api import Ops


class DeviceArray(np.lib.mixins.NDArrayOperatorsMixin):
    """An array whose numbers only functions of `DeviceModule`, its methods and `get` reach."""

    def __init__(self, numbers):
        self._numbers = numbers

    def __array__(self, *_args, **_kwargs):
        raise TypeError("implicit copy from the device")

    def __array_ufunc__(self, ufunc, method, *inputs, **settings):
        return _wrap(getattr(ufunc, method)(*_unwrap(inputs), **_unwrap(settings)))

    def __array_function__(self, function, _types, inputs, settings):
        return _wrap(function(*_unwrap(inputs), **_unwrap(settings)))

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(self._numbers, name)
        if not callable(found):
            return _wrap(found)
        return lambda *inputs, **settings: _wrap(found(*_unwrap(inputs), **_unwrap(settings)))

    def __getitem__(self, index):
        return _wrap(self._numbers[_unwrap(index)])

    def __setitem__(self, index, value):
        self._numbers[_unwrap(index)] = _unwrap(value)

    def __len__(self):
        return len(self._numbers)

    def __iter__(self):
        return map(_wrap, self._numbers)

    def __float__(self):
        return float(self._numbers)

    def __bool__(self):
        return bool(self._numbers)

    def get(self):
        """Copy to a NumPy array."""
        return self._numbers.copy()


def _wrap(found):
    if isinstance(found, np.ndarray):
        return DeviceArray(found)
    if isinstance(found, (list, tuple)):
        return type(found)(map(_wrap, found))
    return found


def _unwrap(given):
    if isinstance(given, np.ndarray):
        raise TypeError("a NumPy array among those of the device")
    if isinstance(given, DeviceArray):
        return given._numbers
    if isinstance(given, (list, tuple)):
        return type(given)(map(_unwrap, given))
    if isinstance(given, dict):
        return {name: _unwrap(value) for name, value in given.items()}
    return given


class DeviceModule:
    """NumPy's functions, on the device."""

    def __getattr__(self, name):
        found = getattr(np, name)
        if isinstance(found, type) or not callable(found):
            return found
        return lambda *inputs, **settings: _wrap(found(*_unwrap(inputs), **_unwrap(settings)))

    def asarray(self, data, dtype=None):
        """Copy to the device."""
        return DeviceArray(
            np.array(_unwrap(data) if isinstance(data, DeviceArray) else data, dtype)
        )


MODULE = DeviceModule()


class DeviceOps(Ops):
    """Thinc's operations in terms of array functions alone, on the device."""

    name = "device"
    xp = MODULE

    def asarray(self, data, *, dtype=None):
        """Copy to the device."""
        return MODULE.asarray(data, dtype)

    def to_numpy(self, data, *, byte_order=None):
        """Copy from the device."""
        return data.get() if isinstance(data, DeviceArray) else np.asarray(data)

    def scatter_add(self, table, indices, values):
        """Add each row of `values` to the row of `table` that its index says."""
        np.add.at(_unwrap(table), _unwrap(indices), _unwrap(values))
        return table


def get_array_module(array):
    """As Thinc's function of that name."""
    return MODULE if isinstance(array, DeviceArray) else np
