"""What recurrent layers over sentences share: both directions, and rows in packed order.

A layer's `run` takes rows to its states, forward and backward side by side. Where a step computes
all sentences at once, they are packed: step t holds position t of all sentences that are long
enough, longest first, so that no padding is computed.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from thinc.api import Model, glorot_uniform_init

from spacy_rootmind.network.dropout import sentence_mask
from spacy_rootmind.network.layout import FlatLayout
from spacy_rootmind.network.types import Floats2d, Floats3d, Ints2d

InT = tuple[Floats2d, FlatLayout]
OutT = Floats2d
# From rows (n_rows, nI) to states (n_rows, 2 * nH); the callback takes the gradient of the states
# to that of the rows.
Run = Callable[
    [Model[InT, OutT], Floats2d, FlatLayout], tuple[Floats2d, Callable[[Floats2d], Floats2d]]
]
# The same over packed rows of both directions: from (2, n_rows, nI) to (2, n_rows, nH).
RunPacked = Callable[
    [Model[InT, OutT], Floats3d, "Packing"], tuple[Floats3d, Callable[[Floats3d], Floats3d]]
]


class Packing(NamedTuple):
    """Rows in packed order.

    Attributes
    ----------
    rows : int array of shape (2, n_rows)
        Flat row at each packed place, forwards and backwards.
    starts : list of int
        First packed place of each step, and n_rows at the end.
    """

    rows: Ints2d
    starts: list[int]

    @classmethod
    def of(cls, ops, layout: FlatLayout) -> "Packing":
        """Pack a layout, longest sentence first."""
        widths = layout.lengths + 1
        order = np.argsort(-widths, kind="stable")
        widths, roots = widths[order], layout.roots[order]
        steps = np.arange(widths.max(initial=0))
        present = steps[:, None] < widths
        forward_rows = (roots + steps[:, None])[present]
        backward_rows = (roots + widths - 1 - steps[:, None])[present]
        starts = np.concatenate(([0], np.cumsum(present.sum(axis=1)))).tolist()
        return cls(ops.asarray(np.stack([forward_rows, backward_rows])), starts)

    def steps(self) -> Iterator[tuple[slice, slice, int]]:
        """Yield the places of each step, the same sentences' one step before, and their number."""
        before = 0
        for start, stop in zip(self.starts[:-1], self.starts[1:], strict=True):
            n = stop - start
            yield slice(start, stop), slice(before, before + n), n
            before = start


def init_layers(model: Model[InT, OutT], X: InT | None) -> tuple[int, int]:
    """Size and initialize project and norm; returns the widths of the rows and of the states."""
    if X is not None:
        model.set_dim("nI", X[0].shape[1])
    width = model.get_dim("nI")
    project, norm = model.layers
    project.set_dim("nO", width)
    norm.set_dim("nI", width)
    for layer in model.layers:
        layer.initialize()
    return width, model.get_dim("nH")


def draw_gates(model: Model[InT, OutT], shape: tuple[int, int], n_gates: int) -> Floats3d:
    """Draw the weights of gates side by side, for two directions: (2, rows, n_gates * columns).

    Each gate is drawn for itself, since the initializer scales by the shape of a matrix.
    """
    xp = model.ops.xp
    gates = [glorot_uniform_init(model.ops, shape) for _ in range(2 * n_gates)]
    return xp.stack([xp.concatenate(side, axis=1) for side in (gates[:n_gates], gates[n_gates:])])


def add_states(
    model: Model[InT, OutT], X: InT, is_train: bool, run: Run
) -> tuple[OutT, Callable[[OutT], Floats2d]]:
    """Run both directions; the callback takes the gradient of the result to that of the rows.

    A row x becomes norm(x + project([forward; backward])), with the model's layers project and
    norm.
    """
    rows, layout = X
    project, norm = model.layers
    states, backprop_states = run(model, rows, layout)
    mask = sentence_mask(model, layout, states.shape[1], is_train)
    update, backprop_project = project(states if mask is None else states * mask, is_train)
    result, backprop_norm = norm(rows + update, is_train)

    def backprop(d_result: OutT) -> Floats2d:
        d_rows = backprop_norm(d_result)
        d_states = backprop_project(d_rows)
        return d_rows + backprop_states(d_states if mask is None else d_states * mask)

    return result, backprop


def run_packed(
    model: Model[InT, OutT], rows: Floats2d, layout: FlatLayout, run: RunPacked
) -> tuple[Floats2d, Callable[[Floats2d], Floats2d]]:
    """Run a layer over packed rows: a `Run` from a `RunPacked`."""
    xp = model.ops.xp
    packing = Packing.of(model.ops, layout)
    packed_states, backprop_packed = run(model, rows[packing.rows], packing)
    hidden = packed_states.shape[2]
    states = xp.empty((rows.shape[0], 2 * hidden), dtype=rows.dtype)
    states[packing.rows[0], :hidden] = packed_states[0]
    states[packing.rows[1], hidden:] = packed_states[1]

    def backprop(d_states: Floats2d) -> Floats2d:
        d_packed_states = xp.stack(
            [d_states[packing.rows[0], :hidden], d_states[packing.rows[1], hidden:]]
        )
        d_packed = backprop_packed(d_packed_states)
        # Each row occurs once in either direction.
        d_rows = xp.empty_like(rows)
        d_rows[packing.rows[0]] = d_packed[0]
        d_rows[packing.rows[1]] += d_packed[1]
        return d_rows

    return states, backprop
