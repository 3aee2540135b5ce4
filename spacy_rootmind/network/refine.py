"""One round of refinement: every word gets the vectors of its likely head and dependents.

A first-order scorer scores each arc alone. Given first scores, the expected head of a word and the
sum of its expected dependents, both under the softmax over heads, are two small matrix products.
With them, the second scores of an arc depend on likely siblings and grandparents.
"""

from collections.abc import Callable

from thinc.api import LayerNorm, Maxout, Model

from spacy_rootmind.kernel import layers as kernel
from spacy_rootmind.network.dropout import RATE, sentence_dropout
from spacy_rootmind.network.layout import Layout
from spacy_rootmind.network.ops import HOST, Compiled, Predict, Read, prepare_dense, run_layer
from spacy_rootmind.network.types import Floats2d, Floats3d

InT = tuple[Floats2d, list[Floats3d], Layout]
OutT = Floats2d


def Refine(dropout: float) -> Model:
    """Update each row with the vectors of its likely head and likely dependents.

    With P the softmax of the arc scores over heads, a row x becomes
    norm(x + maxout([x; P x; transpose(P) x])). The maxout has dropout, one mask per sentence.

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
        dims={"nI": None},
        layers=[Maxout(nP=3), LayerNorm()],
        attrs={RATE: dropout},
        ops=HOST,
    )


def init(model: Model, X: InT | None = None, Y: OutT | None = None) -> None:
    """Size both layers by the rows and draw their parameters."""
    width = model.get_dim("nI")
    mix, norm = model.layers
    mix.set_dim("nO", width)
    mix.set_dim("nI", 3 * width)
    norm.set_dim("nI", width)
    for layer in model.layers:
        layer.initialize()


def prepare(read: Read, model: Model) -> Predict:
    """Prepare the weights for prediction on a CPU."""
    layer, norm = model.layers
    mix = prepare_dense(read, layer, norm)

    def predict(X: InT) -> OutT:
        rows, scores, layout = X
        return mix(kernel.add_context(rows, scores, layout.buckets)[0], rows)

    return predict


def forward(
    model: Model, X: InT, is_train: bool
) -> tuple[OutT, Callable[[OutT], tuple[Floats2d, list[Floats3d]]]]:
    """Refine the rows; the callback returns (gradient of rows, gradients of scores)."""
    rows, scores, layout = X
    mix, norm = model.layers
    width = rows.shape[1]
    context, probs = kernel.add_context(rows, scores, layout.buckets)
    update, backprop_mix = run_layer(mix, context, is_train)
    update, drop = sentence_dropout(model, layout, update, is_train)
    refined, backprop_norm = run_layer(norm, rows + update, is_train)

    def backprop(d_refined: OutT) -> tuple[Floats2d, list[Floats3d]]:
        d_sum = backprop_norm(d_refined)
        d_context = backprop_mix(drop(d_sum))
        d_rows = d_sum + d_context[:, :width]
        d_scores = []
        for bucket, P in zip(layout.buckets, probs, strict=True):
            Xp = bucket.pad(rows)
            d_heads = bucket.pad(d_context[:, width : 2 * width])
            d_deps = bucket.pad(d_context[:, 2 * width :])
            dP = d_heads @ Xp.transpose((0, 2, 1)) + Xp @ d_deps.transpose((0, 2, 1))
            d_scores.append(P * (dP - (P * dP).sum(axis=2, keepdims=True)))
            bucket.add_unpadded(P.transpose((0, 2, 1)) @ d_heads + P @ d_deps, d_rows)
        return d_rows, d_scores

    return refined, backprop
