"""One round of refinement: every word gets the vectors of its likely head and dependents.

A first-order scorer scores each arc alone. Given first scores, the expected head of a word and the
sum of its expected dependents, both under the softmax over heads, are two small matrix products.
With them, the second scores of an arc depend on likely siblings and grandparents.
"""

from collections.abc import Callable

import numpy as np
from thinc.api import LayerNorm, Maxout, Model, get_array_module

from spacy_rootmind.kernel import layers as kernel
from spacy_rootmind.network.dropout import RATE, sentence_dropout
from spacy_rootmind.network.layout import Bucket, Layout
from spacy_rootmind.network.ops import Compiled, Predict, Read, prepare_dense
from spacy_rootmind.network.types import Floats2d, Floats3d

InT = tuple[Floats2d, list[Floats3d], Layout]
OutT = Floats2d


def Refine(dropout: float, nI: int | None = None) -> Model[InT, OutT]:
    """Update each row with the vectors of its likely head and likely dependents.

    With P the softmax of the arc scores over heads, a row x becomes
    norm(x + maxout([x; P x; transpose(P) x])).

    Parameters
    ----------
    dropout
        Share of the maxout's output that a sentence loses in training.
    nI
        Width of the rows, in and out.

    Returns
    -------
    model : Model[(rows, scores, layout) -> rows]
        rows : float array of shape (n_rows, nI); scores : one array of shape (b, m, m) per bucket.
        The callback returns the gradients of both.
    """
    return Model(
        "refine",
        Compiled(prepare, forward),
        init=init,
        dims={"nI": nI},
        layers=[Maxout(nO=nI, nI=None if nI is None else 3 * nI, nP=3), LayerNorm(nI=nI)],
        attrs={RATE: dropout},
    )


def init(model: Model[InT, OutT], X: InT | None = None, Y: OutT | None = None) -> None:
    """Size both layers by the rows and draw their parameters."""
    width = model.get_dim("nI")
    mix, norm = model.layers
    mix.set_dim("nO", width)
    mix.set_dim("nI", 3 * width)
    norm.set_dim("nI", width)
    for layer in model.layers:
        layer.initialize()


def softmax_heads(scores: Floats3d, bucket: Bucket) -> Floats3d:
    """Compute the softmax over heads; zero in row 0, on the diagonal and in the padding."""
    allowed = bucket.allowed
    masked = scores + (allowed - 1.0) * 1e9
    masked -= masked.max(axis=2, keepdims=True)
    # exp of a masked score is 0, except in rows without any allowed head.
    weights = get_array_module(scores).exp(masked) * allowed
    weights /= weights.sum(axis=2, keepdims=True) + (allowed.sum(axis=2, keepdims=True) == 0)
    return weights


def add_context(
    rows: Floats2d, scores: list[Floats3d], layout: Layout
) -> tuple[Floats2d, list[Floats3d]]:
    """Join each row with its likely head and dependents; also returns P."""
    buckets = layout.buckets
    if layout.is_compiled:
        return kernel.add_context(np.ascontiguousarray(rows), scores, buckets)
    width = rows.shape[1]
    probs = [softmax_heads(S, bucket) for S, bucket in zip(scores, buckets, strict=True)]
    context = get_array_module(rows).zeros((rows.shape[0], 3 * width), dtype=rows.dtype)
    context[:, :width] = rows
    for bucket, P in zip(buckets, probs, strict=True):
        Xp = bucket.pad(rows)
        bucket.add_unpadded(P @ Xp, context[:, width : 2 * width])
        bucket.add_unpadded(P.transpose((0, 2, 1)) @ Xp, context[:, 2 * width :])
    return context, probs


def prepare(read: Read, model: Model[InT, OutT]) -> Predict:
    """Prepare the weights for prediction on a CPU."""
    layer, norm = model.layers
    mix = prepare_dense(read, layer, norm)

    def predict(X: InT) -> OutT:
        rows, scores, layout = X
        return mix(add_context(rows, scores, layout)[0], rows)

    return predict


def forward(
    model: Model[InT, OutT], X: InT, is_train: bool
) -> tuple[OutT, Callable[[OutT], tuple[Floats2d, list[Floats3d]]]]:
    """Refine the rows; the callback returns (gradient of rows, gradients of scores)."""
    rows, scores, layout = X
    buckets = layout.on_device.buckets
    mix, norm = model.layers
    width = rows.shape[1]
    context, probs = add_context(rows, scores, layout.on_device)
    update, backprop_mix = mix(context, is_train)
    update, drop = sentence_dropout(model, layout, update, is_train)
    refined, backprop_norm = norm(rows + update, is_train)

    def backprop(d_refined: OutT) -> tuple[Floats2d, list[Floats3d]]:
        d_sum = backprop_norm(d_refined)
        d_context = backprop_mix(drop(d_sum))
        d_rows = d_sum + d_context[:, :width]
        d_scores = []
        for bucket, P in zip(buckets, probs, strict=True):
            Xp = bucket.pad(rows)
            d_heads = bucket.pad(d_context[:, width : 2 * width])
            d_deps = bucket.pad(d_context[:, 2 * width :])
            dP = d_heads @ Xp.transpose((0, 2, 1)) + Xp @ d_deps.transpose((0, 2, 1))
            d_scores.append(P * (dP - (P * dP).sum(axis=2, keepdims=True)))
            bucket.add_unpadded(P.transpose((0, 2, 1)) @ d_heads + P @ d_deps, d_rows)
        return d_rows, d_scores

    return refined, backprop
