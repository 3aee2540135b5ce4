"""Ways to a fast network on a CPU: NumPy's BLAS, compiled loops, and kept embeddings.

The network's own layers run the loops of `kernel.layers` where their operations are `NumpyOps`,
whose own loops also take NumPy's arrays in single precision. Thinc's layers get them from
`use_fast_cpu`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from thinc.api import LayerNorm, Linear, Maxout, Model, NumpyOps, expand_window

from spacy_rootmind.compat import forward_of, set_forward
from spacy_rootmind.kernel import layers as kernel
from spacy_rootmind.network.type_cache import cache_embeddings, no_backprop
from spacy_rootmind.network.types import Floats2d

# OpenBLAS is about twice as fast at products of up to this many multiplications, on processors with
# 512-bit vectors; with more rows than FEW, larger ones are as fast.
PIECE, FEW = 1_000_000, 64


def use_fast_cpu(model: Model[Any, Any]) -> Model[Any, Any]:
    """Multiply matrices with NumPy's BLAS, not Thinc's; compile layers; keep vectors of types.

    NumPy's BLAS is about three times as fast on processors with 512-bit vectors. Layers with other
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


def multiply(X: Floats2d, weights: Floats2d, out: Floats2d | None = None) -> Floats2d:
    """Multiply rows by weights (n_in, n_out); a few rows in pieces that BLAS is fast at."""
    n_out = weights.shape[1]
    n_pieces = -(-len(X) * weights.size // PIECE)
    if n_pieces < 2 or len(X) > FEW:
        return np.matmul(X, weights, out=out)
    out = np.empty((len(X), n_out), dtype=X.dtype) if out is None else out
    width = -(-n_out // n_pieces)
    for start in range(0, n_out, width):
        columns = slice(start, start + width)
        np.matmul(X, weights[:, columns], out=out[:, columns])
    return out


class _Product:
    """The forward pass of a layer that multiplies rows by weights.

    BLAS takes twice as long for the rows of a sentence if it has to transpose the weights itself.
    In prediction, they are kept as it reads them, until the layer is trained: from then on, they
    may change in place at any time. Copies of the layer may share the pass.
    """

    def __init__(self) -> None:
        self.is_trained = False
        self.kept: tuple[Any, Any] = None, None

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy, and send to other processes, without what is kept."""
        return type(self), ()

    def multiply(self, model: Any, X: Any) -> Any:
        """Multiply rows by the transposed weights W (..., n_in) in prediction."""
        W = model.get_param("W")
        if model.ops.use_blis:
            return model.ops.gemm(X, W.reshape((-1, W.shape[-1])), trans2=True)
        source, weights = self.kept
        if source is not W or self.is_trained:
            weights = np.ascontiguousarray(W.reshape((-1, W.shape[-1])).T)
            self.kept = W, weights
        return multiply(X, weights)


class _Maxout(_Product):
    """Multiply rows and find the largest of each few results, as `thinc.api.Maxout`."""

    def __call__(self, model: Any, X: Any, is_train: bool) -> tuple[Any, Callable]:
        self.is_trained = self.is_trained or is_train
        b = model.get_param("b")
        pieces = b.shape[1]
        if not isinstance(model.ops, NumpyOps) or X.dtype != "float32" or pieces not in (2, 3):
            return _MAXOUT(model, X, is_train)
        if not is_train:
            return kernel.maxout(self.multiply(model, X), b, False)[0], no_backprop
        W = model.get_param("W")
        by_piece = W.reshape((b.size, -1))
        found, which = kernel.maxout(model.ops.gemm(X, by_piece, trans2=True), b, True)

        def backprop(d_found: Any) -> Any:
            d_pieces = model.ops.backprop_maxout(d_found, which, pieces)
            model.inc_grad("b", d_pieces.sum(axis=0))
            d_flat = d_pieces.reshape((-1, b.size))
            model.inc_grad("W", model.ops.gemm(d_flat, X, trans1=True).reshape(W.shape))
            return model.ops.gemm(d_flat, by_piece)

        return found, backprop


class _Linear(_Product):
    """Multiply rows and add a bias, as `thinc.api.Linear`."""

    def __call__(self, model: Any, X: Any, is_train: bool) -> tuple[Any, Callable]:
        self.is_trained = self.is_trained or is_train
        if is_train or not isinstance(model.ops, NumpyOps):
            return _LINEAR(model, X, is_train)
        found = self.multiply(model, X)
        found += model.get_param("b")
        return found, no_backprop


# Thinc's own forward passes.
_LAYER_NORM, _MAXOUT, _LINEAR, _EXPAND_WINDOW = (
    forward_of(layer()) for layer in (LayerNorm, Maxout, Linear, expand_window)
)
_COMPILED = {
    _LAYER_NORM: lambda: _layer_norm,
    _EXPAND_WINDOW: lambda: _expand_window,
    _MAXOUT: _Maxout,
    _LINEAR: _Linear,
}
