"""Log-odds that a token starts a sentence, before any tree is known."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from thinc.api import Linear, Maxout, Model, Ops, chain

from spacy_rootmind.network.layout import Layout
from spacy_rootmind.network.qrnn import QRNN
from spacy_rootmind.network.transfer import to_device
from spacy_rootmind.network.types import Floats1d, Floats2d, Ints1d

# Neighbouring words on either side whose vectors are used, besides the word's own.
WINDOW = 1
# Log-odds that a whitespace token starts a sentence.
NOT_A_WORD = -1e3


class BoundaryInput(NamedTuple):
    """Token vectors of each Doc, and the tokens that are words.

    Windows skip whitespace: it would separate the end of a sentence from the start of the next, and
    treebanks have none to learn from.
    """

    vectors: Sequence[Floats2d]
    words: Sequence[NDArray[np.int64]]


InT = BoundaryInput
OutT = Floats1d


def SentenceStarts(
    hidden_width: int, qrnn_width: int = 0, dropout: float = 0.0, nI: int | None = None
) -> Model[InT, OutT]:
    """Score each word as a sentence start: maxout over a window of words, then a linear layer.

    Parameters
    ----------
    hidden_width
        Width of the hidden layer.
    qrnn_width
        Width of the states of a quasi-recurrent layer over the words of a Doc, which are added to
        each word before the window is taken; 0 for none.
    dropout
        Dropout rate of these states, one mask per Doc.
    nI
        Width of the token vectors.

    Returns
    -------
    model : Model[BoundaryInput -> scores]
        scores : float array of shape (all tokens,), log-odds of a start, one Doc after another;
        `NOT_A_WORD` for whitespace.
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
            ),
            *([QRNN(qrnn_width, dropout, nI)] if qrnn_width else []),
        ],
    )


def init(model: Model[InT, OutT], X: InT | None = None, Y: OutT | None = None) -> None:
    """Size the layer by the vectors and draw its parameters."""
    mlp, *recurrent = model.layers
    for layer in recurrent:
        layer.set_dim("nI", model.get_dim("nI"))
        layer.initialize()
    maxout = mlp.layers[0]
    while maxout.layers:
        maxout = maxout.layers[0]
    maxout.set_dim("nI", model.get_dim("nI") * (2 * WINDOW + 1))
    mlp.initialize()


def forward(
    model: Model[InT, OutT], X: InT, is_train: bool
) -> tuple[OutT, Callable[[OutT], list[Floats2d]]]:
    """Score all tokens; the callback takes the gradient of the scores to that of the vectors."""
    xp = model.ops.xp
    vectors = list(X.vectors)
    width = model.get_dim("nI")
    words, places, n_rows = _lay_out(model.ops, X)
    n_tokens = sum(map(len, vectors))
    scores = xp.full(n_tokens, NOT_A_WORD, dtype=vectors[0].dtype if vectors else "f")
    if not len(words):
        return scores, lambda d_scores: [xp.zeros_like(own) for own in vectors]
    own, backprop_context = _add_context(model, xp.concatenate(vectors)[words], X, is_train)
    apart = xp.zeros((n_rows, width), dtype=scores.dtype)
    apart[places] = own
    steps = range(-WINDOW, WINDOW + 1)
    windows = xp.concatenate([apart[places + step] for step in steps], axis=1)
    found, backprop_found = model.layers[0](windows, is_train)
    scores[words] = found[:, 0]

    def backprop(d_scores: OutT) -> list[Floats2d]:
        d_windows = backprop_found(d_scores[words].reshape((-1, 1)))
        d_apart = xp.zeros((n_rows, width), dtype=d_windows.dtype)
        for i, step in enumerate(steps):
            d_apart[places + step] += d_windows[:, i * width : (i + 1) * width]
        d_flat = xp.zeros((n_tokens, width), dtype=d_windows.dtype)
        d_flat[words] = backprop_context(d_apart[places])
        return xp.split(d_flat, np.cumsum([len(own) for own in vectors])[:-1].tolist())

    return scores, backprop


def _add_context(
    model: Model[InT, OutT], vectors: Floats2d, X: InT, is_train: bool
) -> tuple[Floats2d, Callable[[Floats2d], Floats2d]]:
    """Add the states of the recurrent layer, if there is one, to the vectors of all words."""
    if len(model.layers) == 1:
        return vectors, lambda d_vectors: d_vectors
    # A sentence of this layout is all words of a Doc; the place of ROOT has zeros.
    layout = Layout.from_lengths(model.ops, [len(own) for own in X.words], padded=False)
    words, xp = layout.on_device.words, model.ops.xp

    def spread(own: Floats2d) -> Floats2d:
        rows = xp.zeros((layout.n_rows, own.shape[1]), dtype=own.dtype)
        rows[words] = own
        return rows

    found, backprop = model.layers[1]((spread(vectors), layout), is_train)
    return found[words], lambda d_vectors: backprop(spread(d_vectors))[words]


def _lay_out(ops: Ops, X: InT) -> tuple[Ints1d, Ints1d, int]:
    """Find the words of all Docs, and their rows in an array with zeros between Docs.

    The zeros keep a window from reaching into the next Doc. Also returns the number of rows.
    """
    words, places = [np.zeros(0, dtype="i8")], [np.zeros(0, dtype="i8")]
    token = row = 0
    for vectors, own in zip(X.vectors, X.words, strict=True):
        words.append(own + token)
        places.append(np.arange(len(own)) + row + WINDOW)
        token += len(vectors)
        row += len(own) + WINDOW
    rows: Ints1d = np.concatenate(places)
    tokens: Ints1d = np.concatenate(words)
    return (*to_device(ops.xp, [tokens, rows]), row + WINDOW)
