"""Arc scores as sums of weights of hashed features."""

from collections.abc import Callable
from typing import Any

import numpy as np
from thinc.api import Model

from spacy_rootmind.kernel.linear import backprop_arcs, score_arcs
from spacy_rootmind.network import distance
from spacy_rootmind.network.feature_keys import (
    list_templates,
    make_arc_keys,
    make_bucket_keys,
)
from spacy_rootmind.network.layout import Bucket, Layout
from spacy_rootmind.network.linear_labels import LinearLabels
from spacy_rootmind.network.sparse_gradient import gradient_of
from spacy_rootmind.network.tree_scorer import TreeGradient, TreeInput, TreeScores, flat_tokens
from spacy_rootmind.network.types import Floats2d, Ints1d

# Attributes that decide what the weights mean.
N_ATTRS, CONTEXT = "n_attrs", "context_column"

# Its backward pass takes a TreeGradient, which Thinc's types have no place for.
LinearTreeModel = Model[Any, Any]


def LinearTreeScorer(
    n_attrs: int,
    context: int,
    nI: int,
    arc_bits: int,
    label_bits: int,
    nO: int | None = None,
) -> LinearTreeModel:
    """Score arcs by sums of weights of features, like those of McDonald et al.

    Features are those of `feature_keys.list_templates`, each alone and combined with the arc's
    direction and distance (`distance.BOUNDS`). Each distinct context attribute between dependent
    and head adds two, combined with the direction: it alone, and with those of dependent and head.

    The label layer, reference "labels", has the same templates and weights of its own. It is sized
    and saved with this model, but runs on arcs that are chosen later.

    Parameters
    ----------
    n_attrs, context
        The number of attributes, and the column of the attribute in contexts; see
        `feature_keys.make_arc_keys`.
    nI
        Number of columns of attributes.
    arc_bits, label_bits
        Logarithms to base 2 of the number of weights of arcs, and of labels for each label.
    nO
        Number of labels.

    Returns
    -------
    model : Model[TreeInput, TreeScores]
        TreeInput has attributes of tokens, uint64, instead of vectors. `TreeScores.rows` are keys
        of features, which have no gradient: gradients of the input are zero.

    References
    ----------
    McDonald, Crammer & Pereira (2005), Online Large-Margin Training of Dependency Parsers, table 1.
    Jurafsky & Martin, Speech and Language Processing (3rd edition draft), section 18.3.2.
    """
    labels = LinearLabels(label_bits, nO=nO)
    return Model(
        "linear_trees",
        forward,
        init=init,
        dims={"nI": nI, "nV": 1 << arc_bits},
        params={"W": None},
        layers=[labels],
        refs={"labels": labels},
        attrs={N_ATTRS: n_attrs, CONTEXT: context},
    )


def init(model: LinearTreeModel, X: object = None, Y: object = None) -> None:
    """Set all weights to zero, those of labels included."""
    model.set_param("W", model.ops.alloc1f(model.get_dim("nV")))
    model.get_ref("labels").initialize()


def forward(
    model: LinearTreeModel, X: TreeInput, is_train: bool
) -> tuple[TreeScores, Callable[[TreeGradient], list[Floats2d]]]:
    """Score; the callback adds the gradient of the weights, and returns zeros for the input."""
    layout = Layout.from_lengths(model.ops, [len(words) for doc in X.sentences for words in doc])
    tokens = flat_tokens(X.vectors, X.sentences)
    attributes = np.concatenate(X.vectors)[tokens] if len(X.vectors) else _no_attributes(model)
    n_attrs = model.attrs[N_ATTRS]
    keys = make_arc_keys(attributes, layout, n_attrs, model.attrs[CONTEXT])
    bucket_keys = make_bucket_keys(len(list_templates(n_attrs)))
    weights: Any = model.get_param("W")
    scores = []
    for bucket in layout.buckets:
        m = bucket.rows.shape[1]
        scores.append(np.zeros((len(bucket.sentences), m, m), dtype=weights.dtype))
        score_arcs(weights, *keys, bucket_keys, *_places(layout, bucket), scores[-1])

    def backprop(gradient: TreeGradient) -> list[Floats2d]:
        [d_scores] = gradient.rounds
        d_weights = gradient_of(model, "W")
        for bucket, own in zip(layout.buckets, d_scores, strict=True):
            own = np.ascontiguousarray(own, dtype=d_weights.dtype)
            backprop_arcs(d_weights, *keys, bucket_keys, *_places(layout, bucket), own)
        return [np.zeros_like(own) for own in X.vectors]

    return TreeScores(layout, [scores], keys.templates), backprop


def _no_attributes(model: LinearTreeModel) -> Any:
    return np.zeros((0, model.get_dim("nI")), dtype=np.uint64)


def _places(layout: Layout, bucket: Bucket) -> tuple[Any, Ints1d, Ints1d]:
    """Find the distance buckets of a bucket's arcs, and its sentences' first rows and lengths."""
    roots = np.ascontiguousarray(layout.roots[bucket.sentences], dtype=np.intp)
    lengths = np.ascontiguousarray(bucket.lengths, dtype=np.intp)
    return distance.bucket_table(bucket.rows.shape[1]), roots, lengths
