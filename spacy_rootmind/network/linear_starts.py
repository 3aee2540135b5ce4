"""Log-odds of sentence starts as sums of weights of hashed features."""

from collections.abc import Callable

import numpy as np
from thinc.api import Model

from spacy_rootmind.network.boundaries import NOT_A_WORD, BoundaryInput
from spacy_rootmind.network.feature_keys import make_start_keys
from spacy_rootmind.network.sparse_gradient import gradient_of
from spacy_rootmind.network.types import Floats1d, Floats2d

InT = BoundaryInput
OutT = Floats1d

# Logarithm to base 2 of the number of weights.
BITS = 16


def LinearStarts(nI: int) -> Model[InT, OutT]:
    """Score each word as a sentence start by its attributes and those of its neighbours.

    Features are each attribute of the word, of the word before it and of the word after it, and the
    attributes of the word and the word before it together.

    Parameters
    ----------
    nI
        Number of columns of attributes.

    Returns
    -------
    model : Model[BoundaryInput -> scores]
        BoundaryInput has attributes of tokens, uint64, instead of vectors; scores : float array of
        shape (all tokens,), log-odds of a start, one Doc after another; `NOT_A_WORD` for
        whitespace. Gradients of the input are zero.
    """
    return Model(
        "linear_starts",
        forward,
        init=init,
        dims={"nI": nI, "nV": 1 << BITS},
        params={"W": None},
    )


def init(model: Model[InT, OutT], X: InT | None = None, Y: OutT | None = None) -> None:
    """Set all weights to zero."""
    model.set_param("W", model.ops.alloc1f(model.get_dim("nV")))


def forward(
    model: Model[InT, OutT], X: InT, is_train: bool
) -> tuple[OutT, Callable[[OutT], list[Floats2d]]]:
    """Score all tokens; the callback adds the gradient of the weights, and returns zeros."""
    weights = model.get_param("W")
    scores: OutT = np.full(sum(map(len, X.vectors)), NOT_A_WORD, dtype=weights.dtype)
    mask = np.uint32(model.get_dim("nV") - 1)
    places, words = [], []
    start = 0
    for attributes, own in zip(X.vectors, X.words, strict=True):
        places.append(make_start_keys(attributes[own]) & mask)
        words.append(own + start)
        start += len(attributes)
    for at, of in zip(words, places, strict=True):
        scores[at] = weights[of].sum(axis=1)

    def backprop(d_scores: OutT) -> list[Floats2d]:
        d_weights = gradient_of(model, "W")
        for at, of in zip(words, places, strict=True):
            np.add.at(d_weights, of, d_scores[at, None])
        return [np.zeros_like(own) for own in X.vectors]

    return scores, backprop
