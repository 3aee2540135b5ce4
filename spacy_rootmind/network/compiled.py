"""Layers whose inner loops are compiled, for the CPU.

`kernel.layers` has those of our own layers, which call them where `serves` allows it, and those of
Thinc's layers, which `compile_layers` gives another forward pass in prediction. Arrays on a GPU and
in double precision go through NumPy's or CuPy's functions, and so do Thinc's layers in training.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from thinc.api import LayerNorm, Maxout, Model

from spacy_rootmind.compat import forward_of, set_forward
from spacy_rootmind.kernel import layers as kernel

# Whether compiled loops are used; tests turn them off to compare.
ENABLED = True
FLOAT32 = np.dtype(np.float32)


def serves(*arrays: Any) -> bool:
    """Tell whether compiled loops take these arrays."""
    # A loop, since a generator takes twice as long.
    for own in arrays:
        if type(own) is not np.ndarray or own.dtype != FLOAT32:
            return False
    return ENABLED


def compile_layers(model: Model[Any, Any]) -> None:
    """Give layers of Thinc's, in all of a model, compiled forward passes in prediction."""
    for node in model.walk():
        found = _FORWARD.get(forward_of(node))
        if found is not None:
            set_forward(node, found)


def _layer_norm(model: Model[Any, Any], X: Any, is_train: bool) -> tuple[Any, Callable]:
    """Normalize rows, as `thinc.api.LayerNorm`."""
    if is_train or not serves(X) or not X.flags.c_contiguous:
        return _LAYER_NORM(model, X, is_train)
    G: Any = model.get_param("G")
    b: Any = model.get_param("b")
    if G.shape[0] != X.shape[1]:
        # Thinc's error says so.
        return _LAYER_NORM(model, X, is_train)
    return kernel.layer_norm(X, G, b), no_backprop


def _maxout(model: Model[Any, Any], X: Any, is_train: bool) -> tuple[Any, Callable]:
    """Multiply rows and take the largest of each few results, as `thinc.api.Maxout`."""
    b: Any = model.get_param("b")
    if is_train or not serves(X) or b.shape[1] not in (2, 3):
        return _MAXOUT(model, X, is_train)
    W: Any = model.get_param("W")
    Y: Any = model.ops.gemm(X, W.reshape((b.size, -1)), trans2=True)
    return kernel.maxout(Y, b), no_backprop


def no_backprop(d_result: Any) -> Any:
    """Refuse a gradient, as the callback of a layer that keeps nothing for one."""
    raise ValueError("no gradient without is_train=True")


# Thinc's own forward passes.
_LAYER_NORM, _MAXOUT = forward_of(LayerNorm()), forward_of(Maxout())
_FORWARD = {_LAYER_NORM: _layer_norm, _MAXOUT: _maxout}
