"""Bidirectional quasi-recurrent layer over sentences: recurrent, but without a product per step.

Its gates depend on the input alone, so that one matrix product computes all of them, and only sums
of cells run along the sentence. An LSTM is slower, as its gates also depend on the state before.
"""

from collections.abc import Callable

import numpy as np
from thinc.api import LayerNorm, Linear, Model

from spacy_rootmind.kernel import layers as kernel
from spacy_rootmind.network import compiled
from spacy_rootmind.network.dropout import RATE
from spacy_rootmind.network.layout import FlatLayout
from spacy_rootmind.network.recurrence import (
    InT,
    OutT,
    Packing,
    add_states,
    draw_gates,
    init_layers,
    run_packed,
)
from spacy_rootmind.network.types import Floats2d, Floats3d


def QRNN(hidden_width: int, dropout: float, nI: int | None = None) -> Model[InT, OutT]:
    """Add the states of a quasi-recurrent layer in both directions to each row.

    A row x becomes norm(x + linear([forward; backward])). In each direction, with gates z = tanh(Z
    x), f = logistic(F x) and o = logistic(O x), a cell is c = f c' + (1 - f) z, where c' is the
    cell before, and a state is o c.

    Parameters
    ----------
    hidden_width
        Width of the state in each direction.
    dropout
        Dropout rate of the states, one mask per sentence.
    nI
        Width of the rows, in and out.

    Returns
    -------
    model : Model[(rows, layout) -> rows]
        rows : float array of shape (n_rows, nI).

    References
    ----------
    Bradbury, Merity, Xiong & Socher (2017), Quasi-Recurrent Neural Networks, section 2:
    fo-pooling. Its convolutions are those of the token vectors.
    """
    return Model(
        "qrnn",
        forward,
        init=init,
        dims={"nI": nI, "nH": hidden_width},
        params={"W": None, "b": None},
        layers=[Linear(nO=nI, nI=2 * hidden_width), LayerNorm(nI=nI)],
        attrs={RATE: dropout},
    )


def init(model: Model[InT, OutT], X: InT | None = None, Y: OutT | None = None) -> None:
    """Draw the parameters; forget gates start open."""
    width, hidden = init_layers(model, X)
    model.set_param("W", draw_gates(model, (width, hidden), 3))
    b: Floats3d = model.ops.alloc3f(2, 1, 3 * hidden)
    b[:, :, hidden : 2 * hidden] = 1.0
    model.set_param("b", b)


def forward(
    model: Model[InT, OutT], X: InT, is_train: bool
) -> tuple[OutT, Callable[[OutT], Floats2d]]:
    """Run both directions; the callback takes the gradient of the result to that of the rows."""
    return add_states(model, X, is_train, _run)


def _run(
    model: Model[InT, OutT], rows: Floats2d, layout: FlatLayout
) -> tuple[Floats2d, Callable[[Floats2d], Floats2d]]:
    """Run the recurrence over sentences, one after another where loops are compiled."""
    W: Floats3d = model.get_param("W")
    b: Floats3d = model.get_param("b")
    if not compiled.serves(rows, W, b):
        return run_packed(model, rows, layout, _run_packed)
    gates = rows @ W
    cells, states = kernel.qrnn(gates, b, layout.roots, layout.lengths)

    def backprop(d_states: Floats2d) -> Floats2d:
        sentences = layout.roots, layout.lengths
        d_gates = kernel.qrnn_gradient(gates, *sentences, cells, np.ascontiguousarray(d_states))
        return _backprop_product(model, W, rows.T, d_gates).sum(axis=0)

    return states, backprop


def _run_packed(
    model: Model[InT, OutT], packed: Floats3d, packing: Packing
) -> tuple[Floats3d, Callable[[Floats3d], Floats3d]]:
    """Run the recurrence over rows (2, n_rows, nI) in packed order.

    Gates lie side by side: candidate z, forget f, output o.
    """
    xp = model.ops.xp
    W: Floats3d = model.get_param("W")
    gates = packed @ W
    gates += model.get_param("b")
    hidden = gates.shape[2] // 3
    # (1 + tanh(x / 2)) / 2 is the logistic function.
    logistic = gates[:, :, hidden:]
    logistic *= 0.5
    xp.tanh(gates, out=gates)
    logistic *= 0.5
    logistic += 0.5
    z, f, o = (gates[:, :, k * hidden : (k + 1) * hidden] for k in range(3))
    cells = (1.0 - f) * z
    for now, before, _n in packing.steps():
        if now.start > 0:
            cells[:, now] += f[:, now] * cells[:, before]

    def backprop(d_states: Floats3d) -> Floats3d:
        d_cells = d_states * o
        previous = xp.zeros_like(cells)
        for now, before, _n in reversed(list(packing.steps())):
            if now.start > 0:
                d_cells[:, before] += f[:, now] * d_cells[:, now]
                previous[:, now] = cells[:, before]
        d_gates = xp.empty_like(gates)
        d_gates[:, :, :hidden] = d_cells * (1.0 - f) * (1.0 - z * z)
        d_gates[:, :, hidden : 2 * hidden] = d_cells * (previous - z) * f * (1.0 - f)
        d_gates[:, :, 2 * hidden :] = d_states * cells * o * (1.0 - o)
        return _backprop_product(model, W, packed.transpose((0, 2, 1)), d_gates)

    return o * cells, backprop


def _backprop_product(
    model: Model[InT, OutT], W: Floats3d, transposed: Floats2d | Floats3d, d_gates: Floats3d
) -> Floats3d:
    """Add to the gradients of weights and biases, given the rows transposed.

    Returns the gradient of the rows, per direction.
    """
    model.inc_grad("W", transposed @ d_gates)
    model.inc_grad("b", d_gates.sum(axis=1, keepdims=True))
    return d_gates @ W.transpose((0, 2, 1))
