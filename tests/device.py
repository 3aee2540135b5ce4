"""Arrays that live elsewhere, as on a GPU.

Like CuPy's, they mix with no NumPy array, nor become one unasked; all results stay on the device,
even single numbers. Only functions and methods that CuPy has, and that Thinc's layers use, are
there (`FUNCTIONS`, `METHODS`). Operations for which Thinc has CUDA kernels refuse arrays
that these kernels would read wrongly: Thinc's own checks leave out memory order.

Stricter than CuPy, they are indexed by no list or NumPy array: CuPy copies these silently.

`pytest --gpu` puts CuPy's own arrays, on a GPU, in their place.
"""

import sys
from contextlib import contextmanager
from functools import partial

import numpy as np
import thinc.backends
import thinc.util
from thinc.api import NumpyOps, Ops, get_current_ops, set_current_ops


def _names(text):
    return frozenset(text.split())


FUNCTIONS = _names(
    "add ascontiguousarray concatenate divide dot hstack maximum minimum multiply ones power "
    "remainder sqrt subtract sum zeros zeros_like"
)
# Functions that take arrays alone, no numbers of NumPy's.
OF_ARRAYS = _names("ascontiguousarray concatenate dot hstack sum zeros_like")
METHODS = _names("astype copy fill max mean reshape sum var")
ATTRIBUTES = _names("dtype flags ndim shape size")


class DeviceArray(np.lib.mixins.NDArrayOperatorsMixin):
    """An array whose numbers only functions of `DeviceModule`, its methods and `get` reach."""

    def __init__(self, numbers):
        self._numbers = numbers

    def __array__(self, *_args, **_kwargs):
        raise TypeError("implicit copy from the device")

    def __array_ufunc__(self, ufunc, method, *inputs, **settings):
        if method != "__call__" or ufunc.__name__ not in FUNCTIONS:
            raise TypeError(f"the device has no function {ufunc.__name__}, called by {method}")
        return _wrap(ufunc(*_unwrap(inputs), **_unwrap(settings)))

    def __getattr__(self, name):
        if name in ATTRIBUTES:
            return getattr(self._numbers, name)
        if name not in METHODS:
            raise AttributeError(f"arrays on the device have no attribute {name}")
        return _on_device(getattr(self._numbers, name), name)

    @property
    def T(self):  # noqa: N802
        """The transpose."""
        return _wrap(self._numbers.T)

    def __getitem__(self, index):
        return _wrap(self._numbers[_unwrap_index(index)])

    def __setitem__(self, index, value):
        self._numbers[_unwrap_index(index)] = _unwrap(value)

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
    if isinstance(found, np.ndarray | np.generic):
        return DeviceArray(np.asarray(found))
    if isinstance(found, list | tuple):
        return tuple(map(_wrap, found)) if isinstance(found, tuple) else list(map(_wrap, found))
    return found


def _unwrap(given):
    if isinstance(given, np.ndarray):
        raise TypeError("a NumPy array among those of the device")
    if isinstance(given, DeviceArray):
        return given._numbers
    if isinstance(given, list | tuple):
        return type(given)(map(_unwrap, given))
    if isinstance(given, dict):
        return {name: _unwrap(value) for name, value in given.items()}
    return given


def _unwrap_index(index):
    parts = index if isinstance(index, tuple) else (index,)
    if list in map(type, parts):
        raise TypeError("a list among the indices of an array on the device")
    return _unwrap(index)


def _on_device(function, name):
    def run(*inputs, **settings):
        return _wrap(function(*_unwrap(inputs), **_unwrap(settings)))

    def run_on_arrays(first, *others, **settings):
        for array in first if isinstance(first, list | tuple) else [first]:
            if not isinstance(array, DeviceArray):
                raise TypeError(f"{name} takes arrays on the device, received {type(array)}")
        return run(first, *others, **settings)

    return run_on_arrays if name in OF_ARRAYS and function is getattr(np, name) else run


class DeviceModule:
    """Functions of CuPy, under NumPy's names."""

    def __getattr__(self, name):
        if name not in FUNCTIONS:
            raise AttributeError(f"the device's module has no function {name}")
        return _on_device(getattr(np, name), name)

    def asarray(self, data, dtype=None):
        """Copy to the device, unless the data are there."""
        if isinstance(data, DeviceArray):
            return _wrap(np.asarray(data._numbers, dtype))
        return _wrap(np.array(data, dtype))

    array = asarray

    def split(self, data, places):
        """Split along the first axis; the places are known to the host, as in CuPy."""
        return _wrap(np.split(_unwrap(data), places))


MODULE = DeviceModule()
HOST = NumpyOps()


class DeviceOps(Ops):
    """The operations of Thinc's `CupyOps`, on the device."""

    name = "device"
    xp = MODULE

    def asarray(self, data, dtype=None):
        """Copy to the device, unless the data are there."""
        return MODULE.asarray(data, dtype)

    def to_numpy(self, data, *, byte_order=None):
        """Copy from the device."""
        data = data.get() if isinstance(data, DeviceArray) else np.asarray(data)
        return data if byte_order is None else data.astype(data.dtype.newbyteorder(byte_order))

    def gemm(self, x, y, out=None, trans1=False, trans2=False):
        """Multiply matrices."""
        product = MODULE.dot(x.T if trans1 else x, y.T if trans2 else y)
        if out is None:
            return product
        out[...] = product
        return out

    def scatter_add(self, table, indices, values):
        """Add each row of `values` to the row of `table` that its index says."""
        np.add.at(_unwrap(table), _unwrap(indices), _unwrap(values))

    def clip_gradient(self, gradient, threshold):
        """Clip a gradient, without a look at its norm."""
        norm = MODULE.maximum(MODULE.sqrt((gradient * gradient).sum()), 1e-12)
        gradient *= MODULE.minimum(threshold, norm) / norm
        return gradient

    def adam(self, weights, gradient, mom1, mom2, *settings):
        """Take a step of Adam."""
        for array in (gradient, mom1, mom2):
            assert array.shape == weights.shape
        _run_kernel("adam", weights, gradient, mom1, mom2, *settings)
        gradient.fill(0)
        return weights, gradient, mom1, mom2

    def backprop_maxout(self, dY, which, P):
        """Run Thinc's kernel."""
        assert (which.dtype, which.shape) == ("int32", dY.shape)
        return _run_kernel("backprop_maxout", dY, which, P)

    def gather_add(self, table, indices):
        """Run Thinc's kernel."""
        return _run_kernel("gather_add", table, indices.astype("int32"))


def _run_kernel(name, *inputs, **settings):
    """Run an operation on arrays as Thinc's CUDA kernels read them: in C order, without gaps."""
    for array in (*inputs, *settings.values()):
        if isinstance(array, DeviceArray):
            if not array.flags["C_CONTIGUOUS"]:
                raise TypeError(f"{name} reads an array of another memory order than C's")
            if array.dtype not in ("float32", "float64", "int32", "uint64"):
                raise TypeError(f"Thinc has no CUDA kernel of {name} for {array.dtype}")
    return _wrap(getattr(HOST, name)(*_unwrap(inputs), **_unwrap(settings)))


for _name in ("maxout", "seq2col", "backprop_seq2col", "hash"):
    setattr(DeviceOps, _name, staticmethod(partial(_run_kernel, _name)))

# Thinc's functions that have to know such arrays, by module and name.
STAND_INS = {
    (thinc.util, "get_array_module"): lambda a: MODULE if isinstance(a, DeviceArray) else np,
    (thinc.util, "to_numpy"): DeviceOps().to_numpy,
    (thinc.util, "is_xp_array"): lambda a: isinstance(a, DeviceArray | np.ndarray),
    (thinc.backends, "get_array_ops"): lambda a: (
        DeviceOps() if isinstance(a, DeviceArray) else HOST
    ),
}

# Whether the arrays of this module are CuPy's.
ON_GPU = False


def use_gpu():
    """Put CuPy's arrays and Thinc's operations on them in the place of the stand-in.

    Called before tests import this module's names.
    """
    import cupy
    from thinc.api import CupyOps

    global DeviceArray, DeviceOps, ON_GPU
    DeviceArray, DeviceOps, ON_GPU = cupy.ndarray, CupyOps, True


def use_device(monkeypatch):
    """Let Thinc's helpers know these arrays as they know CuPy's, wherever they are imported."""
    if ON_GPU:
        return
    for (home, name), stand_in in STAND_INS.items():
        own = getattr(home, name)
        for module in list(sys.modules.values()):
            if vars(module).get(name) is own:
                monkeypatch.setattr(module, name, stand_in)


@contextmanager
def on_device():
    """Put the layers that are made in a block on the device, as after `spacy.require_gpu`."""
    before = get_current_ops()
    set_current_ops(DeviceOps())
    try:
        yield
    finally:
        set_current_ops(before)
