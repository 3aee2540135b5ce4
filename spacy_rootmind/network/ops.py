"""Forward passes of layers on a CPU: compiled loops, weights prepared once, kept embeddings.

The network's own layers run the loops of `kernel.layers`, on arrays of NumPy in single precision.
Thinc's layers get compiled loops from `use_fast_cpu`. Only they compute on a GPU, in training: see
`run_layer`.
"""

from collections.abc import Callable
from operator import is_
from typing import Any, TypeAlias

import numpy as np
from thinc.api import LayerNorm, Linear, Maxout, Model, NumpyOps, to_numpy

from spacy_rootmind.compat import Softmax_v2, forward_of, parameters_of, set_forward
from spacy_rootmind.kernel import layers as kernel
from spacy_rootmind.network.type_cache import cache_embeddings, no_backprop

Forward: TypeAlias = Callable[[Any, Any, bool], tuple[Any, Callable]]
Predict: TypeAlias = Callable[[Any], Any]
Read: TypeAlias = Callable[[Any, str], Any]
"""Reads a parameter of a layer, from which its prediction is prepared."""


# The operations of the network's own layers.
HOST = NumpyOps(use_blis=False)


class Compiled:
    """The forward pass of a layer: in prediction on a CPU, with weights that were prepared for it.

    They are prepared again once another array is in the place of one of them. In training, weights
    may change in place at any time: from then on, they are prepared for each prediction.

    Parameters
    ----------
    prepare : callable
        Prepares the weights of the layer, and of those within, which it reads by its first
        argument. Returns the function from the layer's input to its output in prediction, or None
        if there is none for such a layer.
    forward : callable
        The forward pass in training, and of Thinc's layers on a GPU.
    """

    def __init__(self, prepare: Callable[[Read, Any], Predict | None], forward: Forward) -> None:
        self.prepare, self.forward, self.is_trained = prepare, forward, False
        # The layer, its parameters: where they are kept, by which keys, and their arrays; and what
        # they make.
        self._prepared: tuple[Any, ...] = None, [], [], [], None

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy, and send to other processes, without what is prepared."""
        return type(self), (self.prepare, self.forward)

    def __call__(self, model: Any, X: Any, is_train: bool) -> tuple[Any, Callable]:
        """Run the layer."""
        self.is_trained = self.is_trained or is_train
        if not is_train and not getattr(model.ops, "use_blis", True):
            owner, places, keys, arrays, predict = self._prepared
            is_same = owner is model and all(map(is_, map(dict.get, places, keys), arrays))
            if self.is_trained or not is_same:
                predict = self._prepare(model)
            if predict is not None:
                return predict(X), no_backprop
        return self.forward(model, X, is_train)

    def _prepare(self, model: Any) -> Predict | None:
        places, keys, arrays = [], [], []

        def read(layer: Any, name: str) -> Any:
            places.append(parameters_of(layer))
            keys.append((layer.id, name))
            arrays.append(layer.get_param(name))
            return to_numpy(arrays[-1])

        predict = self.prepare(read, model)
        if any(array.dtype != "float32" for array in arrays):
            predict = None
        self._prepared = model, places, keys, arrays, predict
        return predict


def run_layer(layer: Any, X: Any, is_train: bool) -> tuple[Any, Callable]:
    """Run a layer on NumPy arrays, which are copied to where its weights are, and back."""
    ops = layer.ops
    if ops.xp is np:
        return layer(X, is_train)
    found, backprop = layer(ops.asarray(X), is_train)
    return to_numpy(found), lambda d_found: to_numpy(backprop(ops.asarray(d_found)))


def prepare_layer(read: Read, layer: Any) -> Any:
    """Prepare a layer that is `Compiled`, for the prediction of one that it is part of."""
    return forward_of(layer).prepare(read, layer)


def prepare_dense(read: Read, layer: Any, norm: Any = None) -> Any:
    """Prepare a `Linear` or `Maxout`, and the `LayerNorm` after it if there is one."""
    W, b = read(layer, "W"), read(layer, "b")
    gains = (None, None) if norm is None else (read(norm, "G"), read(norm, "b"))
    return kernel.Dense(W.reshape((b.size, -1)).T, b, gains)


def use_fast_cpu(model: Model[Any, Any]) -> Model[Any, Any]:
    """Compile layers and their products; keep vectors of types; train with NumPy's BLAS.

    It is about three times as fast as Thinc's on processors with 512-bit vectors. Layers with other
    `Ops`, such as a GPU's, keep them; so does a shared tok2vec that the model only listens to.
    Returns the model.
    """
    for node in model.walk():
        if type(node.ops) is NumpyOps:
            node.ops = HOST
        compiled: Any = _COMPILED.get(forward_of(node))
        if compiled is not None:
            set_forward(node, compiled())
    cache_embeddings(model)
    return model


def _layer_norm(model: Any, X: Any, is_train: bool) -> tuple[Any, Callable]:
    """Normalize rows, as `thinc.api.LayerNorm`."""
    G = model.get_param("G")
    # Thinc's layer says what is wrong with rows of another width.
    if not isinstance(model.ops, NumpyOps) or X.dtype != "float32" or X.shape[1] != len(G):
        return _LAYER_NORM(model, X, is_train)
    rows, b = model.ops.as_contig(X), model.get_param("b")

    def backprop(d_normed: Any) -> Any:
        d_normed = model.ops.as_contig(d_normed, dtype="float32")
        d_rows, d_G, d_b = kernel.layer_norm_gradient(rows, G, d_normed)
        model.inc_grad("G", d_G)
        model.inc_grad("b", d_b)
        return d_rows

    return kernel.layer_norm(rows, G, b), backprop if is_train else no_backprop


def _maxout(model: Any, X: Any, is_train: bool) -> tuple[Any, Callable]:
    """Multiply rows and find the largest of each few results, as `thinc.api.Maxout`."""
    W, b = model.get_param("W"), model.get_param("b")
    pieces = b.shape[1]
    if not isinstance(model.ops, NumpyOps) or X.dtype != "float32" or pieces not in (2, 3):
        return _MAXOUT(model, X, is_train)
    by_piece = W.reshape((b.size, -1))
    found, which = kernel.maxout(model.ops.gemm(X, by_piece, trans2=True), b)

    def backprop(d_found: Any) -> Any:
        d_pieces = model.ops.backprop_maxout(d_found, which, pieces)
        model.inc_grad("b", d_pieces.sum(axis=0))
        d_flat = d_pieces.reshape((-1, b.size))
        model.inc_grad("W", model.ops.gemm(d_flat, X, trans1=True).reshape(W.shape))
        return model.ops.gemm(d_flat, by_piece)

    return found, backprop if is_train else no_backprop


def _prepare_maxout(read: Read, layer: Any) -> Predict | None:
    return prepare_dense(read, layer) if read(layer, "b").shape[1] in (2, 3) else None


def _prepare_softmax(read: Read, layer: Any) -> Predict:
    """Prepare a layer that finds probabilities, or scores alone where only the largest counts."""
    scores, attrs = prepare_dense(read, layer), layer.attrs
    return lambda X: _SOFTMAX(layer, X, False)[0] if attrs["softmax_normalize"] else scores(X)


# Thinc's own forward passes.
_LAYER_NORM, _MAXOUT, _LINEAR, _SOFTMAX = (
    forward_of(layer()) for layer in (LayerNorm, Maxout, Linear, Softmax_v2)
)
_COMPILED: dict[Any, Callable[[], Forward]] = {
    _LAYER_NORM: lambda: _layer_norm,
    _MAXOUT: lambda: Compiled(_prepare_maxout, _maxout),
    _LINEAR: lambda: Compiled(prepare_dense, _LINEAR),
    _SOFTMAX: lambda: Compiled(_prepare_softmax, _SOFTMAX),
}
