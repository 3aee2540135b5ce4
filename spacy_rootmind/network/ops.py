"""Ways to a fast network on a CPU: products and loops that are compiled, and kept embeddings.

The network's own layers run the loops of `kernel.layers` where their operations are `NumpyOps`,
whose own loops also take NumPy's arrays in single precision. Thinc's layers get them from
`use_fast_cpu`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from thinc.api import LayerNorm, Linear, Maxout, Model, NumpyOps, expand_window

from spacy_rootmind.compat import Softmax_v2, forward_of, set_forward
from spacy_rootmind.kernel import layers as kernel
from spacy_rootmind.network.type_cache import cache_embeddings, no_backprop


def use_fast_cpu(model: Model[Any, Any]) -> Model[Any, Any]:
    """Compile layers and their products; keep vectors of types; train with NumPy's BLAS.

    It is about three times as fast as Thinc's on processors with 512-bit vectors. Layers with other
    `Ops`, such as a GPU's, keep them; so does a shared tok2vec that the model only listens to.

    Returns
    -------
    model : Model
        The same.
    """
    numpy_blas = NumpyOps(use_blis=False)
    for node in model.walk():
        if type(node.ops) is NumpyOps:
            node.ops = numpy_blas
        compiled: Any = _COMPILED.get(forward_of(node))
        if compiled is not None:
            set_forward(node, compiled())
    cache_embeddings(model)
    return model


def follow_fast_cpu(layer: Model[Any, Any], model: Model[Any, Any]) -> None:
    """Make a layer that was put into a model as fast as the model.

    `nlp.replace_listeners` puts copies of other components' layers there, which always come with
    Thinc's library.
    """
    ops: Any = layer.ops
    if type(ops) is NumpyOps and ops.use_blis and not getattr(model.ops, "use_blis", True):
        use_fast_cpu(layer)


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


def _expand_window(model: Any, X: Any, is_train: bool) -> tuple[Any, Callable]:
    """Join each row with its neighbours, as `thinc.api.expand_window`."""
    is_plain = isinstance(X, np.ndarray) and X.dtype == "float32" and X.flags.c_contiguous
    if is_train or not is_plain or model.attrs["window_size"] != 1:
        return _EXPAND_WINDOW(model, X, is_train)
    return kernel.windows(X, None), no_backprop


class Products:
    """Products of rows by the parameters of a layer, or by matrices that are views of them.

    In prediction, weights are kept as the processor reads them, until the layer is trained: from
    then on, they may change in place at any time. Copies of the layer may share what is kept.
    """

    def __init__(self) -> None:
        self.is_trained = False
        self.kept: dict[str, tuple[Any, list[kernel.Weights]]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy, and send to other processes, without what is kept."""
        return type(self), ()

    def prepare(
        self, model: Any, name: str, W: Any, X: Any, is_train: bool
    ) -> list[kernel.Weights] | None:
        """Prepare W, (n_in, n_out) or several, (n, n_in, n_out), of a parameter, to multiply X.

        Returns None in training, and for arrays that compiled loops do not take.
        """
        self.is_trained = self.is_trained or is_train
        if is_train or getattr(model.ops, "use_blis", True) or not X.dtype == W.dtype == "float32":
            return None
        source, weights = self.kept.get(name, (None, []))
        if source is not model.get_param(name) or self.is_trained:
            weights = [kernel.Weights(own) for own in (W if W.ndim > 2 else [W])]
            self.kept[name] = model.get_param(name), weights
        return weights

    def multiply(self, model: Any, name: str, W: Any, X: Any, is_train: bool) -> Any:
        """Multiply rows X by weights W, (n_in, n_out), of a parameter."""
        weights = self.prepare(model, name, W, X, is_train)
        return model.ops.gemm(X, W.T, trans2=True) if weights is None else weights[0].multiply(X)


class _Maxout(Products):
    """Multiply rows and find the largest of each few results, as `thinc.api.Maxout`."""

    def __call__(self, model: Any, X: Any, is_train: bool) -> tuple[Any, Callable]:
        W, b = model.get_param("W"), model.get_param("b")
        pieces = b.shape[1]
        if not isinstance(model.ops, NumpyOps) or X.dtype != "float32" or pieces not in (2, 3):
            self.is_trained = self.is_trained or is_train
            return _MAXOUT(model, X, is_train)
        by_piece = W.reshape((b.size, -1))
        weights = self.prepare(model, "W", by_piece.T, X, is_train)
        if weights is not None:
            return weights[0].maxout(X, b), no_backprop
        found, which = kernel.maxout(model.ops.gemm(X, by_piece, trans2=True), b)

        def backprop(d_found: Any) -> Any:
            d_pieces = model.ops.backprop_maxout(d_found, which, pieces)
            model.inc_grad("b", d_pieces.sum(axis=0))
            d_flat = d_pieces.reshape((-1, b.size))
            model.inc_grad("W", model.ops.gemm(d_flat, X, trans1=True).reshape(W.shape))
            return model.ops.gemm(d_flat, by_piece)

        return found, backprop if is_train else no_backprop


class _Linear(Products):
    """Multiply rows and add a bias, as `thinc.api.Linear` and, for the largest, `Softmax_v2`."""

    def __call__(self, model: Any, X: Any, is_train: bool) -> tuple[Any, Callable]:
        weights = self.prepare(model, "W", model.get_param("W").T, X, is_train)
        if weights is None or model.attrs.get("softmax_normalize"):
            return (_SOFTMAX if "softmax_normalize" in model.attrs else _LINEAR)(model, X, is_train)
        found = weights[0].multiply(X)
        found += model.get_param("b")
        return found, no_backprop


# Thinc's own forward passes.
_LAYER_NORM, _MAXOUT, _LINEAR, _SOFTMAX, _EXPAND_WINDOW = (
    forward_of(layer()) for layer in (LayerNorm, Maxout, Linear, Softmax_v2, expand_window)
)
_COMPILED = {
    _LAYER_NORM: lambda: _layer_norm,
    _EXPAND_WINDOW: lambda: _expand_window,
    _MAXOUT: _Maxout,
    _LINEAR: _Linear,
    _SOFTMAX: _Linear,
}
