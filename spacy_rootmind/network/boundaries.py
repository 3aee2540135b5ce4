"""Log-odds that a token starts a sentence, before any tree is known."""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from thinc.api import Linear, Maxout, Model, chain

from spacy_rootmind.kernel import layers as kernel
from spacy_rootmind.network.layout import Layout
from spacy_rootmind.network.ops import HOST, run_layer
from spacy_rootmind.network.qrnn import QRNN
from spacy_rootmind.network.types import Floats1d, Floats2d

# Places of a word's window next to its own: the word, and its neighbours on either side.
WINDOW = (-1, 0, 1)
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


def SentenceStarts(hidden_width: int, qrnn_width: int = 0, dropout: float = 0.0) -> Model:
    """Score each word as a sentence start: maxout over a window of words, then a linear layer.

    With a `qrnn_width` above 0, a quasi-recurrent layer over the words of a Doc, whose states have
    dropout, comes before the window.

    Returns
    -------
    model : Model[BoundaryInput -> scores]
        scores : float array of shape (all tokens,), log-odds of a start, one Doc after another;
        `NOT_A_WORD` for whitespace.
    """
    hidden = Maxout(nO=hidden_width, nP=3, normalize=True, dropout=0.0)
    mlp = chain(hidden, Linear(nO=1, nI=hidden_width))
    return Model(
        "sentence_starts",
        forward,
        init=init,
        dims={"nI": None, "nH": hidden_width},
        layers=[mlp, *([QRNN(qrnn_width, dropout)] if qrnn_width else [])],
        ops=HOST,
    )


def init(model: Model, X: InT | None = None, Y: OutT | None = None) -> None:
    """Size the layer by the vectors and draw its parameters."""
    mlp, *recurrent = model.layers
    for layer in recurrent:
        layer.set_dim("nI", model.get_dim("nI"))
        layer.initialize()
    maxout = mlp.layers[0]
    while maxout.layers:
        maxout = maxout.layers[0]
    maxout.set_dim("nI", model.get_dim("nI") * len(WINDOW))
    mlp.initialize()


def forward(model: Model, X: InT, is_train: bool) -> tuple[OutT, Callable[[OutT], list[Floats2d]]]:
    """Score all tokens; the callback takes the gradient of the scores to that of the vectors."""
    mlp, *recurrent = model.layers
    vectors = list(X.vectors)
    width = model.get_dim("nI")
    # A sentence of this layout is all words of a Doc. The place of ROOT has zeros, which keep a
    # window from reaching into another Doc; so has a row after the last.
    layout = Layout.from_lengths([len(own) for own in X.words])
    starts = [0, *accumulate(map(len, vectors))]
    n_tokens = starts[-1]
    scores = np.full(n_tokens, NOT_A_WORD, dtype=vectors[0].dtype if vectors else "f")
    if not len(layout.words):
        return scores, lambda d_scores: [np.zeros_like(own) for own in vectors]
    words = np.concatenate([own + start for own, start in zip(X.words, starts, strict=False)])
    places = layout.words
    rows = np.zeros((layout.n_rows + 1, width), dtype=scores.dtype)
    flat = vectors[0] if len(vectors) == 1 else np.concatenate(vectors)
    rows[places] = flat[words]
    states, backprop_context = rows, None
    if recurrent:
        states, backprop_context = run_layer(recurrent[0], (rows[:-1], layout), is_train)
    found, backprop_found = run_layer(mlp, kernel.windows(states, places), is_train)
    scores[words] = found[:, 0]

    def backprop(d_scores: OutT) -> list[Floats2d]:
        d_windows = backprop_found(d_scores[words].reshape((-1, 1)))
        d_rows = np.zeros((layout.n_rows + 1, width), dtype=d_windows.dtype)
        for i, step in enumerate(WINDOW):
            d_rows[places + step] += d_windows[:, i * width : (i + 1) * width]
        if backprop_context is not None:
            d_states = np.zeros_like(d_rows[:-1])
            d_states[places] = d_rows[places]
            d_rows = backprop_context(d_states)
        d_flat = np.zeros((n_tokens, width), dtype=d_windows.dtype)
        d_flat[words] = d_rows[places]
        return np.split(d_flat, starts[1:-1])

    return scores, backprop
