"""Where sentences start, judged token by token before any tree is known."""

from collections.abc import Callable

import numpy as np
from thinc.api import Linear, Maxout, Model, chain

from spacy_rootmind.layers.types import Floats1d, Floats2d, Ints1d

InT = list[Floats2d]
OutT = Floats1d

# Tokens to either side that are looked at beside a token, over what its vector knows of them.
WINDOW = 1


def SentenceStarts(hidden_width: int, nI: int | None = None) -> Model[InT, OutT]:
    """Score each token for starting a sentence: maxout over a window of vectors, then linear.

    Parameters
    ----------
    hidden_width
        Width of the hidden layer.
    nI
        Width of the token vectors.

    Returns
    -------
    model : Model[vectors -> scores]
        vectors : one float array of shape (n_tokens, nI) a Doc; scores : float array of shape
        (all tokens,), the log-odds of a start, one Doc after another.
    """
    return Model(
        "sentence_starts",
        forward,
        init=init,
        dims={"nI": nI, "nH": hidden_width},
        layers=[
            chain(
                Maxout(
                    nO=hidden_width,
                    nI=None if nI is None else nI * (2 * WINDOW + 1),
                    nP=3,
                    normalize=True,
                    dropout=0.0,
                ),
                Linear(nO=1, nI=hidden_width),
            )
        ],
    )


def init(model: Model[InT, OutT], X: InT | None = None, Y: OutT | None = None) -> None:
    """Size the layer by the vectors and draw its parameters."""
    if X is not None:
        model.set_dim("nI", X[0].shape[1])
    mlp = model.layers[0]
    maxout = mlp.layers[0]
    while maxout.layers:
        maxout = maxout.layers[0]
    maxout.set_dim("nI", model.get_dim("nI") * (2 * WINDOW + 1))
    mlp.initialize()


def forward(
    model: Model[InT, OutT], vectors: InT, is_train: bool
) -> tuple[OutT, Callable[[OutT], InT]]:
    """Score all tokens; the callback takes gradients of the scores to those of the vectors."""
    xp = model.ops.xp
    width = model.get_dim("nI")
    lengths = np.array([len(own) for own in vectors], dtype="i8")
    if not lengths.sum():
        return model.ops.alloc1f(0), lambda d_scores: [xp.zeros_like(own) for own in vectors]
    # A window does not reach into the next Doc: rows of zeros lie between them.
    n_rows = int((lengths + WINDOW).sum()) + WINDOW
    number_of_doc = np.repeat(np.arange(1, len(lengths) + 1), lengths)
    places: Ints1d = np.arange(lengths.sum()) + WINDOW * number_of_doc
    places = model.ops.asarray(places)
    apart = xp.zeros((n_rows, width), dtype=vectors[0].dtype)
    apart[places] = xp.concatenate(vectors)
    steps = range(-WINDOW, WINDOW + 1)
    windows = xp.concatenate([apart[places + step] for step in steps], axis=1)
    scores, backprop_scores = model.layers[0](windows, is_train)

    def backprop(d_scores: OutT) -> InT:
        d_windows = backprop_scores(d_scores.reshape((-1, 1)))
        d_apart = xp.zeros((n_rows, width), dtype=d_windows.dtype)
        for i, step in enumerate(steps):
            d_apart[places + step] += d_windows[:, i * width : (i + 1) * width]
        return xp.split(d_apart[places], np.cumsum(lengths)[:-1].tolist())

    return scores.reshape((-1,)), backprop
