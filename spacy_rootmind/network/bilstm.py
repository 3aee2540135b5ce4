"""Bidirectional LSTM over sentences, for context beyond a convolution's window.

Thinc's own LSTM leaves the backward states of the shorter sentences of a batch unset, so it is not
used here. Both directions share one matrix product per step.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
from thinc.api import LayerNorm, Linear, Model

from spacy_rootmind.kernel import layers as kernel
from spacy_rootmind.network import compiled
from spacy_rootmind.network.dropout import RATE
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


def BiLSTM(hidden_width: int, dropout: float, nI: int | None = None) -> Model[InT, OutT]:
    """Add the states of an LSTM in both directions to each row.

    A row x becomes norm(x + linear([forward; backward])).

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
    Hochreiter & Schmidhuber (1997), Long Short-Term Memory. Gers, Schmidhuber & Cummins (2000),
    Learning to Forget.
    """
    return Model(
        "bilstm",
        forward,
        init=init,
        dims={"nI": nI, "nH": hidden_width},
        params={"W": None, "V": None, "b": None},
        layers=[Linear(nO=nI, nI=2 * hidden_width), LayerNorm(nI=nI)],
        attrs={RATE: dropout},
    )


def init(model: Model[InT, OutT], X: InT | None = None, Y: OutT | None = None) -> None:
    """Draw the parameters; forget gates start open."""
    width, hidden = init_layers(model, X)
    model.set_param("W", draw_gates(model, (width, hidden), 4))
    model.set_param("V", draw_gates(model, (hidden, hidden), 4))
    b: Floats3d = model.ops.alloc3f(2, 1, 4 * hidden)
    b[:, :, hidden : 2 * hidden] = 1.0
    model.set_param("b", b)


def forward(
    model: Model[InT, OutT], X: InT, is_train: bool
) -> tuple[OutT, Callable[[OutT], Floats2d]]:
    """Run both directions; the callback takes the gradient of the result to that of the rows."""
    return add_states(model, X, is_train, partial(run_packed, run=_run_packed))


def _run_packed(
    model: Model[InT, OutT], packed: Floats3d, packing: Packing
) -> tuple[Floats3d, Callable[[Floats3d], Floats3d]]:
    """Run the recurrence over rows (2, n_rows, nI) in packed order.

    Gates lie side by side: input, forget, output, candidate. The logistic function is computed as
    (1 + tanh(x / 2)) / 2, so that one tanh serves all four gates. Weights are halved instead of x,
    which changes no digit.
    """
    xp = model.ops.xp
    W: Floats3d = model.get_param("W")
    V: Floats3d = model.get_param("V")
    b: Floats3d = model.get_param("b")
    hidden = V.shape[1]
    if compiled.serves(packed, W, V, b):
        return _run_compiled(model, packed, packing)
    scale = xp.ones(4 * hidden, dtype=packed.dtype)
    scale[: 3 * hidden] = 0.5
    recurrent = V * scale
    gates = packed @ (W * scale)
    gates += b * scale
    cells = xp.empty((2, packed.shape[1], hidden), dtype=packed.dtype)
    states, tanh_cells = xp.empty_like(cells), xp.empty_like(cells)
    for now, before, _n in packing.steps():
        z, cell = gates[:, now], cells[:, now]
        if now.start > 0:
            z += states[:, before] @ recurrent
        xp.tanh(z, out=z)
        logistic = z[:, :, : 3 * hidden]
        logistic *= 0.5
        logistic += 0.5
        xp.multiply(z[:, :, :hidden], z[:, :, 3 * hidden :], out=cell)
        if now.start > 0:
            cell += z[:, :, hidden : 2 * hidden] * cells[:, before]
        xp.tanh(cell, out=tanh_cells[:, now])
        xp.multiply(z[:, :, 2 * hidden : 3 * hidden], tanh_cells[:, now], out=states[:, now])

    def backprop(d_states: Floats3d) -> Floats3d:
        d_gates = xp.empty_like(gates)
        longest = packing.starts[1] if len(packing.starts) > 1 else 0
        d_state = xp.zeros((2, longest, hidden), dtype=packed.dtype)
        d_cell = xp.zeros_like(d_state)
        previous = xp.zeros_like(states)
        for now, before, n in reversed(list(packing.steps())):
            i, f, o, g = (gates[:, now, k * hidden : (k + 1) * hidden] for k in range(4))
            di, df, do, dg = (d_gates[:, now, k * hidden : (k + 1) * hidden] for k in range(4))
            dh = d_states[:, now] + d_state[:, :n]
            tanh_cell = tanh_cells[:, now]
            dc = dh * o
            dc *= 1.0 - tanh_cell * tanh_cell
            dc += d_cell[:, :n]
            do[...] = dh * tanh_cell * o * (1.0 - o)
            di[...] = dc * g * i * (1.0 - i)
            dg[...] = dc * i * (1.0 - g * g)
            if now.start > 0:
                previous[:, now] = states[:, before]
                df[...] = dc * cells[:, before] * f * (1.0 - f)
                d_cell[:, :n] = dc * f
                d_state[:, :n] = d_gates[:, now] @ V.transpose((0, 2, 1))
            else:
                df[...] = 0.0
        model.inc_grad("W", packed.transpose((0, 2, 1)) @ d_gates)
        model.inc_grad("V", previous.transpose((0, 2, 1)) @ d_gates)
        model.inc_grad("b", d_gates.sum(axis=1, keepdims=True))
        return d_gates @ W.transpose((0, 2, 1))

    return states, backprop


def _run_compiled(
    model: Model[InT, OutT], packed: Floats3d, packing: Packing
) -> tuple[Floats3d, Callable[[Floats3d], Floats3d]]:
    """Run the recurrence as `_run_packed`, on the CPU."""
    W: Floats3d = model.get_param("W")
    V: Floats3d = model.get_param("V")
    gates = packed @ W
    gates += model.get_param("b")
    cells = np.empty((2, packed.shape[1], V.shape[1]), dtype=packed.dtype)
    states = np.empty_like(cells)
    kernel.bilstm(gates, V, packing.starts, cells, states)

    def backprop(d_states: Floats3d) -> Floats3d:
        d_gates = np.empty_like(gates)
        kernel.bilstm_gradient(gates, V, packing.starts, cells, d_states, d_gates)
        previous = np.zeros_like(states)
        for now, before, _n in packing.steps():
            if now.start > 0:
                previous[:, now] = states[:, before]
        model.inc_grad("W", packed.transpose((0, 2, 1)) @ d_gates)
        model.inc_grad("V", previous.transpose((0, 2, 1)) @ d_gates)
        model.inc_grad("b", d_gates.sum(axis=1, keepdims=True))
        return d_gates @ W.transpose((0, 2, 1))

    return states, backprop
