"""Scores of scripts for chosen tokens, registered as `spacy_rootmind.ScriptScorer.v1`."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from thinc.api import Linear, Model, zero_init


class ChosenTokens(NamedTuple):
    """Docs, and the tokens of each whose scripts are scored."""

    docs: Sequence[Any]
    tokens: Sequence[NDArray[np.intp]]


def build_script_scorer(
    tok2vec: Model[Any, Any], nO: int | None = None
) -> Model[ChosenTokens, Any]:
    """Score all scripts for chosen tokens by a linear layer over their vectors.

    All scores start at 0.

    Parameters
    ----------
    tok2vec : Model[list[Doc], list[Floats2d]]
        Token vectors, or a listener to a component that shares its own.
    nO : int, optional
        Number of scripts and one, filled in by the component.

    Returns
    -------
    model : Model[ChosenTokens, Floats2d]
        Scores of shape (n_tokens, nO), one Doc after another.
    """
    layers = [tok2vec, Linear(nO, init_W=zero_init)]
    return Model("script_scorer", forward, init=init, layers=layers, dims={"nO": nO})


def init(model: Model[ChosenTokens, Any], X: ChosenTokens, Y: Any = None) -> None:
    """Size the linear layer by the token vectors and the number of scripts."""
    tok2vec, output = model.layers
    tok2vec.initialize(X=list(X.docs))
    output.set_dim("nO", model.get_dim("nO"))
    output.initialize(X=tok2vec.predict(list(X.docs[:1]))[0])


def forward(
    model: Model[ChosenTokens, Any], X: ChosenTokens, is_train: bool
) -> tuple[Any, Callable[[Any], Any]]:
    """Score; the callback takes the gradient of the scores to the token vectors."""
    tok2vec, output = model.layers
    ops: Any = model.ops
    vectors, backprop_vectors = tok2vec(list(X.docs), is_train)
    chosen = [ops.asarray(own) for own in X.tokens]
    rows = ops.xp.concatenate([v[own] for v, own in zip(vectors, chosen, strict=True)])
    scores, backprop_output = output(rows, is_train)

    def backprop(d_scores: Any) -> Any:
        d_rows = backprop_output(d_scores)
        d_vectors, start = [], 0
        for own, places in zip(vectors, chosen, strict=True):
            d_own = ops.xp.zeros_like(own)
            d_own[places] = d_rows[start : start + len(places)]
            start += len(places)
            d_vectors.append(d_own)
        return backprop_vectors(d_vectors)

    return scores, backprop
