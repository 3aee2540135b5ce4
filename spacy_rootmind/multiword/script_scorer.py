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
    width = tok2vec.get_dim("nO") if tok2vec.has_dim("nO") else None
    output = Linear(nO, width, init_W=zero_init)
    return Model(
        "script_scorer",
        forward,
        init=init,
        layers=[tok2vec, output],
        dims={"nO": nO},
        refs={"tok2vec": tok2vec, "output": output},
    )


def init(model: Model[ChosenTokens, Any], X: ChosenTokens | None = None, Y: Any = None) -> None:
    """Size the linear layer by the token vectors and the number of scripts."""
    tok2vec, output = model.layers
    docs = list(X.docs) if X else None
    tok2vec.initialize(X=docs)
    width: Any = tok2vec.maybe_get_dim("nO")
    if width is None and docs:
        # A listener to a transformer learns its width from the vectors it receives.
        width = tok2vec.predict(docs[:1])[0].shape[1]
    output.set_dim("nI", width)
    if model.has_dim("nO"):
        output.set_dim("nO", model.get_dim("nO"))
    output.initialize()


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
