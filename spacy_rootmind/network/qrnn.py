"""Bidirectional quasi-recurrent layer over sentences: recurrent, but without a product per step.

Its gates depend on the input alone, so that one matrix product computes all of them, and only sums
of cells run along the sentence.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from thinc.api import LayerNorm, Linear, Model, glorot_uniform_init

from spacy_rootmind.kernel import layers as kernel
from spacy_rootmind.network.dropout import RATE, sentence_dropout
from spacy_rootmind.network.layout import Layout
from spacy_rootmind.network.ops import HOST, Compiled, Predict, Read, prepare_dense, run_layer
from spacy_rootmind.network.types import Floats2d, Floats3d

InT = tuple[Floats2d, Layout]
OutT = Floats2d


def QRNN(hidden_width: int, dropout: float) -> Model:
    """Add the states of a quasi-recurrent layer in both directions to each row.

    A row x becomes norm(x + linear([forward; backward])). In each direction, with gates z = tanh(Z
    x), f = logistic(F x) and o = logistic(O x), a cell is c = f c' + (1 - f) z, where c' is the
    cell before, and a state is o c. States have dropout, one mask per sentence.

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
        dims={"nI": None, "nH": hidden_width},
        params={"W": None, "b": None},
        layers=[Linear(nI=2 * hidden_width), LayerNorm()],
        attrs={RATE: dropout},
        ops=HOST,
    )


def init(model: Model, X: InT | None = None, Y: OutT | None = None) -> None:
    """Draw the parameters; forget gates start open."""
    width, hidden = model.get_dim("nI"), model.get_dim("nH")
    project, norm = model.layers
    project.set_dim("nO", width)
    norm.set_dim("nI", width)
    for layer in model.layers:
        layer.initialize()
    # Each gate is drawn for itself, since the initializer scales by the shape of a matrix.
    gates: list[Any] = [glorot_uniform_init(model.ops, (width, hidden)) for _ in range(6)]
    W: Floats3d = np.stack([np.concatenate(side, axis=1) for side in (gates[:3], gates[3:])])
    model.set_param("W", W)
    b: Floats3d = model.ops.alloc3f(2, 1, 3 * hidden)
    b[:, :, hidden : 2 * hidden] = 1.0
    model.set_param("b", b)


def prepare(read: Read, model: Model) -> Predict:
    """Prepare the weights for prediction on a CPU."""
    project, norm = model.layers
    project_states = prepare_dense(read, project, norm)
    return kernel.QRNN(read(model, "W"), read(model, "b"), project_states)


def forward(model: Model, X: InT, is_train: bool) -> tuple[OutT, Callable[[OutT], Floats2d]]:
    """Run both directions; the callback takes the gradient of the result to that of the rows."""
    rows, layout = X
    project, norm = model.layers
    W: Floats3d = model.get_param("W")
    sentences = layout.roots, layout.lengths
    # Activated in place.
    gates = rows @ W
    cells, states = kernel.qrnn(gates, model.get_param("b"), *sentences)
    states, drop = sentence_dropout(model, layout, states, is_train)
    update, backprop_project = run_layer(project, states, is_train)
    result, backprop_norm = run_layer(norm, rows + update, is_train)

    def backprop(d_result: OutT) -> Floats2d:
        d_rows = backprop_norm(d_result)
        d_states = np.ascontiguousarray(drop(backprop_project(d_rows)))
        d_gates = kernel.qrnn_gradient(gates, *sentences, cells, d_states)
        model.inc_grad("W", rows.T @ d_gates)
        model.inc_grad("b", d_gates.sum(axis=1, keepdims=True))
        return d_rows + (d_gates @ W.transpose((0, 2, 1))).sum(axis=0)

    return result, backprop
