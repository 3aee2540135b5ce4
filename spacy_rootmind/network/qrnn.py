"""Bidirectional quasi-recurrent layer over sentences: recurrent, but without a product per step.

Its gates depend on the input alone, so that one matrix product computes all of them, and only sums
of cells run along the sentence.
"""

from collections.abc import Callable

import numpy as np
from thinc.api import LayerNorm, Linear, Model, NumpyOps, Ops, glorot_uniform_init

from spacy_rootmind.kernel import layers as kernel
from spacy_rootmind.network.dropout import RATE, sentence_dropout
from spacy_rootmind.network.layout import Layout
from spacy_rootmind.network.ops import Compiled, Predict, Read, prepare_dense
from spacy_rootmind.network.types import Floats2d, Floats3d, Ints2d

InT = tuple[Floats2d, Layout]
OutT = Floats2d


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
    fo-pooling. The token vectors have its convolutions.
    """
    return Model(
        "qrnn",
        Compiled(prepare, forward),
        init=init,
        dims={"nI": nI, "nH": hidden_width},
        params={"W": None, "b": None},
        layers=[Linear(nO=nI, nI=2 * hidden_width), LayerNorm(nI=nI)],
        attrs={RATE: dropout},
    )


def init(model: Model[InT, OutT], X: InT | None = None, Y: OutT | None = None) -> None:
    """Draw the parameters; forget gates start open."""
    width, hidden = model.get_dim("nI"), model.get_dim("nH")
    project, norm = model.layers
    project.set_dim("nO", width)
    norm.set_dim("nI", width)
    for layer in model.layers:
        layer.initialize()
    # Each gate is drawn for itself, since the initializer scales by the shape of a matrix.
    xp = model.ops.xp
    gates = [glorot_uniform_init(model.ops, (width, hidden)) for _ in range(6)]
    W = xp.stack([xp.concatenate(side, axis=1) for side in (gates[:3], gates[3:])])
    model.set_param("W", W)
    b: Floats3d = model.ops.alloc3f(2, 1, 3 * hidden)
    b[:, :, hidden : 2 * hidden] = 1.0
    model.set_param("b", b)


def prepare(read: Read, model: Model[InT, OutT]) -> Predict:
    """Prepare the weights for prediction on a CPU."""
    project, norm = model.layers
    project_states = prepare_dense(read, project, norm)
    return kernel.QRNN(read(model, "W"), read(model, "b"), project_states)


def forward(
    model: Model[InT, OutT], X: InT, is_train: bool
) -> tuple[OutT, Callable[[OutT], Floats2d]]:
    """Run both directions; the callback takes the gradient of the result to that of the rows."""
    rows, layout = X
    project, norm = model.layers
    if isinstance(model.ops, NumpyOps):
        states, backprop_states = _run_compiled(model, rows, layout)
    else:
        states, backprop_states = _run_packed(model, rows, layout)
    states, drop = sentence_dropout(model, layout, states, is_train)
    update, backprop_project = project(states, is_train)
    result, backprop_norm = norm(rows + update, is_train)

    def backprop(d_result: OutT) -> Floats2d:
        d_rows = backprop_norm(d_result)
        return d_rows + backprop_states(drop(backprop_project(d_rows)))

    return result, backprop


def _run_compiled(
    model: Model[InT, OutT], rows: Floats2d, layout: Layout
) -> tuple[Floats2d, Callable[[Floats2d], Floats2d]]:
    """Run the recurrence over one sentence after another."""
    rows = rows.astype("float32", copy=False)
    sentences = layout.roots, layout.lengths
    gates = rows @ model.get_param("W")
    cells, states = kernel.qrnn(gates, model.get_param("b"), *sentences)

    def backprop(d_states: Floats2d) -> Floats2d:
        d_gates = kernel.qrnn_gradient(gates, *sentences, cells, np.ascontiguousarray(d_states))
        return _backprop_product(model, rows.T, d_gates).sum(axis=0)

    return states, backprop


def _pack(ops: Ops, layout: Layout) -> tuple[Ints2d, list[tuple[slice, slice]]]:
    """Order rows so that each step computes all sentences at once.

    Step t has position t of all sentences that are long enough, longest first, so that no padding
    is computed.

    Returns
    -------
    rows : int array of shape (2, n_rows)
        Flat row at each packed place, forwards and backwards.
    steps : list of pairs of slices
        The places of each step but the first, and of the step before for its sentences.
    """
    widths = layout.lengths + 1
    order = np.argsort(-widths, kind="stable")
    widths, roots = widths[order], layout.roots[order]
    positions = np.arange(widths.max(initial=0))[:, None]
    present = positions < widths
    rows: Ints2d = np.stack(
        [(roots + positions)[present], (roots + widths - 1 - positions)[present]]
    )
    starts = np.concatenate(([0], np.cumsum(present.sum(axis=1)))).tolist()
    steps = [
        (slice(start, stop), slice(before, before + stop - start))
        for before, start, stop in zip(starts, starts[1:], starts[2:], strict=False)
    ]
    return ops.asarray(rows), steps


def _run_packed(
    model: Model[InT, OutT], rows: Floats2d, layout: Layout
) -> tuple[Floats2d, Callable[[Floats2d], Floats2d]]:
    """Run the recurrence step by step. Gates lie side by side: candidate z, forget f, output o."""
    xp = model.ops.xp
    places, steps = _pack(model.ops, layout)
    packed = rows[places]
    gates = packed @ model.get_param("W")
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
    for now, before in steps:
        cells[:, now] += f[:, now] * cells[:, before]
    states = xp.empty((rows.shape[0], 2 * hidden), dtype=rows.dtype)
    packed_states = o * cells
    states[places[0], :hidden] = packed_states[0]
    states[places[1], hidden:] = packed_states[1]

    def backprop(d_both: Floats2d) -> Floats2d:
        d_states = xp.stack([d_both[places[0], :hidden], d_both[places[1], hidden:]])
        d_cells = d_states * o
        previous = xp.zeros_like(cells)
        for now, before in reversed(steps):
            d_cells[:, before] += f[:, now] * d_cells[:, now]
            previous[:, now] = cells[:, before]
        d_gates = xp.empty_like(gates)
        d_gates[:, :, :hidden] = d_cells * (1.0 - f) * (1.0 - z * z)
        d_gates[:, :, hidden : 2 * hidden] = d_cells * (previous - z) * f * (1.0 - f)
        d_gates[:, :, 2 * hidden :] = d_states * cells * o * (1.0 - o)
        d_packed = _backprop_product(model, packed.transpose((0, 2, 1)), d_gates)
        # Each row occurs once in either direction.
        d_rows = xp.empty_like(rows)
        d_rows[places[0]] = d_packed[0]
        d_rows[places[1]] += d_packed[1]
        return d_rows

    return states, backprop


def _backprop_product(
    model: Model[InT, OutT], transposed: Floats2d | Floats3d, d_gates: Floats3d
) -> Floats3d:
    """Add to the gradients of weights and biases, given the rows transposed.

    Returns the gradient of the rows, per direction.
    """
    W: Floats3d = model.get_param("W")
    model.inc_grad("W", transposed @ d_gates)
    model.inc_grad("b", d_gates.sum(axis=1, keepdims=True))
    return d_gates @ W.transpose((0, 2, 1))
