"""Biaffine arc scores with relative position.

Dozat & Manning (2017), Deep Biaffine Attention for Neural Dependency Parsing, section 3.
"""

from collections.abc import Callable

import numpy as np
from thinc.api import Maxout, Model, uniform_init

from spacy_rootmind.kernel import layers as kernel
from spacy_rootmind.network import distance
from spacy_rootmind.network.dropout import RATE, sentence_dropout
from spacy_rootmind.network.layout import Layout
from spacy_rootmind.network.ops import HOST, Compiled, Predict, Read, prepare_dense, run_layer
from spacy_rootmind.network.types import Floats2d, Floats3d

InT = tuple[Floats2d, Layout]
OutT = list[Floats3d]


def BiaffineArcs(hidden_width: int, dropout: float) -> Model:
    """Score every arc of every sentence.

    score[d, h] = (D[d] W + b) . H[h] + (D[d] P)[q] + (H[h] R)[q], where D and H are perceptrons of
    the dependent's and the head's row, and q is the bucket of the distance from d to h. D and H
    have dropout, one mask per sentence.

    Returns
    -------
    model : Model[(rows, layout) -> scores]
        rows : float array of shape (n_rows, nI); scores : one array of shape (b, m, m) per bucket.
        Row 0, the diagonal and the padding hold arbitrary finite numbers.
    """
    return Model(
        "biaffine_arcs",
        Compiled(prepare, forward),
        init=init,
        dims={"nI": None, "nH": hidden_width},
        params={"W": None, "b": None, "dep_distance": None, "head_distance": None},
        layers=[Maxout(nO=hidden_width, nP=2), Maxout(nO=hidden_width, nP=2)],
        attrs={RATE: dropout},
        ops=HOST,
    )


def init(model: Model, X: InT | None = None, Y: OutT | None = None) -> None:
    """Draw the parameters; products start near zero, so that all heads start equal."""
    width = model.get_dim("nH")
    for layer in model.layers:
        layer.set_dim("nI", model.get_dim("nI"))
        layer.initialize()
    ops = model.ops
    model.set_param("W", uniform_init(ops, (width, width), lo=-0.01, hi=0.01))
    model.set_param("b", ops.alloc1f(width))
    small = uniform_init(ops, (2 * width, distance.N_BUCKETS), lo=-0.01, hi=0.01)
    model.set_param("dep_distance", small[:width])
    model.set_param("head_distance", small[width:])


def prepare(read: Read, model: Model) -> Predict:
    """Prepare the weights for prediction on a CPU."""
    dep_layer, head_layer = (prepare_dense(read, layer) for layer in model.layers)
    product = kernel.Dense(read(model, "W"), read(model, "b"))
    near = [kernel.Dense(read(model, name)) for name in ("dep_distance", "head_distance")]

    def predict(X: InT) -> OutT:
        rows, layout = X
        D, H = dep_layer(rows), head_layer(rows)
        return kernel.score_arcs(product(D), H, near[0](D), near[1](H), layout.buckets)

    return predict


def forward(model: Model, X: InT, is_train: bool) -> tuple[OutT, Callable[[OutT], Floats2d]]:
    """Score the arcs; the callback takes gradients of the scores to the gradient of the rows."""
    rows, layout = X
    ops, buckets = model.ops, layout.buckets
    dep_layer, head_layer = model.layers
    D, backprop_D = run_layer(dep_layer, rows, is_train)
    H, backprop_H = run_layer(head_layer, rows, is_train)
    D, drop_D = sentence_dropout(model, layout, D, is_train)
    H, drop_H = sentence_dropout(model, layout, H, is_train)
    W: Floats2d = model.get_param("W")
    dep_distance: Floats2d = model.get_param("dep_distance")
    head_distance: Floats2d = model.get_param("head_distance")
    DW: Floats2d = ops.gemm(D, W) + model.get_param("b")
    D_near, H_near = ops.gemm(D, dep_distance), ops.gemm(H, head_distance)
    scores = kernel.score_arcs(DW, H, D_near, H_near, buckets)

    def backprop(d_scores: OutT) -> Floats2d:
        dDW, dH, dD_near, dH_near = map(np.zeros_like, (DW, H, D_near, H_near))
        for bucket, dS in zip(buckets, d_scores, strict=True):
            # Entries that forward leaves arbitrary get no gradient.
            dS = dS * bucket.allowed
            bucket.add_unpadded(dS @ bucket.pad(H), dDW)
            bucket.add_unpadded(dS.transpose((0, 2, 1)) @ bucket.pad(DW), dH)
            for over_heads, d_near in ((True, dD_near), (False, dH_near)):
                sums = distance.collect(dS, bucket.distances, over_heads=over_heads)
                bucket.add_unpadded(sums, d_near)
        model.inc_grad("W", ops.gemm(D, dDW, trans1=True))
        model.inc_grad("b", dDW.sum(axis=0))
        model.inc_grad("dep_distance", ops.gemm(D, dD_near, trans1=True))
        model.inc_grad("head_distance", ops.gemm(H, dH_near, trans1=True))
        dD = ops.gemm(dDW, W, trans2=True) + ops.gemm(dD_near, dep_distance, trans2=True)
        dH += ops.gemm(dH_near, head_distance, trans2=True)
        return backprop_D(drop_D(dD)) + backprop_H(drop_H(dH))

    return scores, backprop
