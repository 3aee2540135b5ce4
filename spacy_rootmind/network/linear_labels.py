"""Label scores of arcs as sums of weights of hashed features."""

from collections.abc import Callable
from typing import Any

import numpy as np
from thinc.api import Model

from spacy_rootmind.network.feature_keys import make_bucket_keys
from spacy_rootmind.network.label_scorer import NULL_LABEL, Arcs
from spacy_rootmind.network.layout import Layout
from spacy_rootmind.network.sparse_gradient import gradient_of
from spacy_rootmind.network.types import Floats2d, Ints2d

InT = tuple[Ints2d, Layout, Arcs]
OutT = Floats2d


def LinearLabels(bits: int, nO: int | None = None) -> Model[InT, OutT]:
    """Score every label on each of the given arcs.

    Parameters
    ----------
    bits
        Logarithm to base 2 of the number of weights for each label.
    nO
        Number of labels.

    Returns
    -------
    model : Model[(keys, layout, arcs) -> scores]
        keys : uint32 array of shape (n_rows, 2 * n_templates), as `feature_keys` makes them;
        scores : float array of shape (n_arcs, nO). Keys have no gradient: it is zero.
    """
    return Model(
        "linear_labels",
        forward,
        init=init,
        dims={"nO": nO, "nV": 1 << bits},
        params={"W": None},
        attrs={NULL_LABEL: False},
    )


def init(model: Model[InT, OutT], X: InT | None = None, Y: OutT | None = None) -> None:
    """Set all weights to zero; nO must be set."""
    model.set_param("W", model.ops.alloc2f(model.get_dim("nV"), model.get_dim("nO")))


def forward(model: Model[InT, OutT], X: InT, is_train: bool) -> tuple[OutT, Callable[[OutT], Any]]:
    """Score; the callback adds the gradient of the weights, and returns zeros."""
    keys, _, arcs = X
    places = _find_places(keys, arcs, model.get_dim("nV"))
    weights: Floats2d = model.get_param("W")
    scores = model.ops.gather_add(weights, places)

    def backprop(d_scores: OutT) -> Any:
        d_weights = gradient_of(model, "W")
        d_scores = np.ascontiguousarray(d_scores)
        columns: Ints2d = np.ascontiguousarray(places.T)
        for column in columns:
            model.ops.scatter_add(d_weights, column, d_scores)
        return np.zeros_like(keys)

    return scores, backprop


def _find_places(keys: Ints2d, arcs: Arcs, n_weights: int) -> Ints2d:
    """Find the places of each arc's weights: one per template, with the arc's direction."""
    n_templates = keys.shape[1] // 2
    directions = make_bucket_keys(n_templates)[arcs.buckets, -1:]
    places = keys[arcs.deps, :n_templates] + keys[arcs.heads, n_templates:] + directions
    return (places & np.uint32(n_weights - 1)).astype(np.int32)
