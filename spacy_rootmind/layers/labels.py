"""Biaffine label scores on chosen arcs (Dozat & Manning 2017, section 3)."""

from collections.abc import Callable
from typing import NamedTuple

from thinc.api import Maxout, Model, uniform_init

from spacy_rootmind.layers import distance
from spacy_rootmind.layers.dropout import RATE, sentence_mask
from spacy_rootmind.layers.layout import Layout
from spacy_rootmind.layers.types import Floats2d, Floats3d, Ints1d


class Arcs(NamedTuple):
    """Arcs to label: flat rows of dependents and heads, and their distance buckets."""

    deps: Ints1d
    heads: Ints1d
    buckets: Ints1d


InT = tuple[Floats2d, Layout, Arcs]
OutT = Floats2d


def BiaffineLabels(
    hidden_width: int, dropout: float, nO: int | None = None, nI: int | None = None
) -> Model[InT, OutT]:
    """Score every label on each of the given arcs.

    score[l] = [D; 1] U[l] [H; 1] + T[q, l], where D and H are perceptrons of the dependent's and
    the head's row, and q is the bucket of the distance from one to the other.

    Parameters
    ----------
    hidden_width
        Width of D and H.
    dropout
        Share of D and H that a sentence loses in training.
    nO
        Number of labels.
    nI
        Width of the input rows.

    Returns
    -------
    model : Model[(rows, layout, arcs) -> scores]
        rows : float array of shape (n_rows, nI); scores : float array of shape (n_arcs, nO).

    References
    ----------
    Dozat & Manning (2017), Deep Biaffine Attention for Neural Dependency Parsing, section 3.
    """
    return Model(
        "biaffine_labels",
        forward,
        init=init,
        dims={"nO": nO, "nI": nI, "nH": hidden_width},
        params={"U": None, "T": None},
        layers=[Maxout(nO=hidden_width, nI=nI, nP=2), Maxout(nO=hidden_width, nI=nI, nP=2)],
        attrs={RATE: dropout},
    )


def init(model: Model[InT, OutT], X: InT | None = None, Y: OutT | None = None) -> None:
    """Draw the parameters; all scores begin near zero."""
    if X is not None:
        model.set_dim("nI", X[0].shape[1])
    if Y is not None:
        model.set_dim("nO", Y.shape[1])
    for layer in model.layers:
        layer.set_dim("nI", model.get_dim("nI"))
        layer.initialize()
    width = model.get_dim("nH") + 1
    n_labels = model.get_dim("nO")
    model.set_param("U", uniform_init(model.ops, (width, n_labels, width), lo=-0.01, hi=0.01))
    model.set_param("T", model.ops.alloc2f(distance.N_BUCKETS, n_labels))


def forward(
    model: Model[InT, OutT], X: InT, is_train: bool
) -> tuple[OutT, Callable[[OutT], Floats2d]]:
    """Score the labels; the callback takes gradients of the scores to those of the rows."""
    rows, layout, arcs = X
    ops = model.ops
    dep_layer, head_layer = model.layers
    D_all, backprop_D = dep_layer(rows, is_train)
    H_all, backprop_H = head_layer(rows, is_train)
    D_mask = sentence_mask(model, layout, D_all.shape[1], is_train)
    H_mask = sentence_mask(model, layout, H_all.shape[1], is_train)
    D = _with_one(ops.xp, (D_all if D_mask is None else D_all * D_mask)[arcs.deps])
    H = _with_one(ops.xp, (H_all if H_mask is None else H_all * H_mask)[arcs.heads])
    U: Floats3d = model.get_param("U")
    width, n_labels, _ = U.shape
    U_flat = U.reshape((width, n_labels * width))
    DU = ops.gemm(D, U_flat).reshape((-1, n_labels, width))
    scores = (DU @ H[:, :, None])[:, :, 0] + model.get_param("T")[arcs.buckets]

    def backprop(d_scores: OutT) -> Floats2d:
        model.inc_grad("T", distance.collect_flat(d_scores, arcs.buckets))
        dDU = (d_scores[:, :, None] * H[:, None, :]).reshape((-1, n_labels * width))
        dU: Floats2d = ops.gemm(D, dDU, trans1=True)
        model.inc_grad("U", dU.reshape(U.shape))
        dH = (d_scores[:, None, :] @ DU)[:, 0, :-1]
        dD = ops.gemm(dDU, U_flat, trans2=True)[:, :-1]
        dD_all = ops.xp.zeros_like(D_all)
        # A dependent has one arc, but a head may have many.
        dD_all[arcs.deps] = dD
        dH_all = ops.xp.zeros_like(H_all)
        ops.scatter_add(dH_all, arcs.heads, dH)
        d_rows = backprop_D(dD_all if D_mask is None else dD_all * D_mask)
        d_rows += backprop_H(dH_all if H_mask is None else dH_all * H_mask)
        return d_rows

    return scores, backprop


def _with_one(xp, X: Floats2d) -> Floats2d:
    ones = xp.ones((X.shape[0], 1), dtype=X.dtype)
    return xp.concatenate((X, ones), axis=1)
