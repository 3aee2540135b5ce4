"""Arc scores of sentences from token vectors, in rounds of refinement."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from thinc.api import Model, uniform_init

from spacy_rootmind.network.layout import Layout
from spacy_rootmind.network.ops import HOST, Compiled, Predict, Read, prepare_layer
from spacy_rootmind.network.types import Floats2d, Floats3d, Ints1d


class TreeInput(NamedTuple):
    """Token vectors, and the sentences among them.

    Attributes
    ----------
    vectors : list of float array of shape (n_tokens, width)
        One array per Doc.
    sentences : list of list of int array
        Per Doc, the tokens of each sentence.
    """

    vectors: Sequence[Floats2d]
    sentences: Sequence[Sequence[NDArray[np.int64]]]


class TreeGradient(NamedTuple):
    """Gradients for `backprop`: of each round's arc scores, and of the refined rows."""

    rounds: list[list[Floats3d]]
    rows: Floats2d


@dataclass(frozen=True, eq=False)
class TreeScores:
    """Arc scores of a batch of sentences; plain arrays without reference to the model.

    Attributes
    ----------
    layout : Layout
        Rows and buckets of the sentences of all Docs, in order.
    rounds : list of list of float array of shape (b, m, m)
        Arc scores of each round, one array per bucket. The last round is decoded; the earlier ones
        are trained as well.
    rows : float array of shape (n_rows, width)
        Refined vectors of the words and of ROOT, from which labels are scored.
    forced_labels : int array of shape (n_rows,), optional
        Number of the label that each word has whatever its head, 0 where it is free.
    kept : dict
        What label layers have computed from the rows in prediction.
    """

    layout: Layout
    rounds: list[list[Floats3d]]
    rows: Floats2d
    forced_labels: Ints1d | None = None
    kept: dict[int, Any] = field(default_factory=dict)

    @property
    def arcs(self) -> list[Floats3d]:
        """Arc scores to decode, one array of shape (b, m, m) per bucket."""
        return self.rounds[-1]


def TreeScorer(qrnn: Model | None, arcs: Model, labels: Model, refine: Sequence[Model]) -> Model:
    """Score arcs by a biaffine product, refine the vectors and score again.

    The QRNN, if there is one, adds context to the vectors first. Each round has the same layer
    `arcs`. The label layer is sized and saved with this one, as its reference "labels", but run on
    arcs that are chosen later. The callback takes a TreeGradient.

    Returns
    -------
    model : Model[TreeInput, TreeScores]
    """
    return Model(
        "tree_scorer",
        Compiled(prepare, forward),
        init=init,
        dims={"nI": None},
        params={"root": None},
        layers=[*([] if qrnn is None else [qrnn]), arcs, labels, *refine],
        refs={"arcs": arcs, "labels": labels},
        ops=HOST,
    )


def init(model: Model, X: object = None, Y: object = None) -> None:
    """Draw ROOT's vector at random and initialize all layers; nI must be set."""
    width = model.get_dim("nI")
    model.set_param("root", uniform_init(model.ops, (width,), lo=-1.0, hi=1.0))
    for layer in model.layers:
        layer.set_dim("nI", width)
        layer.initialize()


def prepare(read: Read, model: Model) -> Predict:
    """Prepare the weights for prediction on a CPU."""
    score = prepare_layer(read, model.get_ref("arcs"))
    context = [prepare_layer(read, own) for own in model.layers if own.name == "qrnn"]
    refine = [prepare_layer(read, own) for own in model.layers if own.name == "refine"]

    def predict(X: TreeInput) -> TreeScores:
        layout = lay_out(X)
        rows, _ = _gather_rows(model, X, layout)
        for layer in context:
            rows = layer((rows, layout))
        rounds = [score((rows, layout))]
        for layer in refine:
            rows = layer((rows, rounds[-1], layout))
            rounds.append(score((rows, layout)))
        return TreeScores(layout, rounds, rows)

    return predict


def forward(
    model: Model, X: TreeInput, is_train: bool
) -> tuple[TreeScores, Callable[[TreeGradient], list[Floats2d]]]:
    """Score all rounds; the callback takes their gradients to gradients of the token vectors."""
    arcs = model.get_ref("arcs")
    qrnn = next((layer for layer in model.layers if layer.name == "qrnn"), None)
    refine = [layer for layer in model.layers if layer.name == "refine"]
    layout = lay_out(X)
    rows, backprop_rows = _gather_rows(model, X, layout)
    if qrnn is not None:
        rows, backprop_states = qrnn((rows, layout), is_train)
    scores, backprop_scores = arcs((rows, layout), is_train)
    rounds, backprops, refine_backprops = [scores], [backprop_scores], []
    for layer in refine:
        rows, backprop_refine = layer((rows, rounds[-1], layout), is_train)
        scores, backprop_scores = arcs((rows, layout), is_train)
        rounds.append(scores)
        backprops.append(backprop_scores)
        refine_backprops.append(backprop_refine)

    def backprop(gradient: TreeGradient) -> list[Floats2d]:
        d_rows = backprops[-1](gradient.rounds[-1]) + gradient.rows
        for step in reversed(range(len(refine_backprops))):
            d_rows, d_scores = refine_backprops[step](d_rows)
            earlier = [a + b for a, b in zip(gradient.rounds[step], d_scores, strict=True)]
            d_rows += backprops[step](earlier)
        if qrnn is not None:
            d_rows = backprop_states(d_rows)
        return backprop_rows(d_rows)

    return TreeScores(layout, rounds, rows), backprop


def lay_out(X: TreeInput) -> Layout:
    """Lay out the sentences of all Docs."""
    return Layout.from_lengths([len(words) for doc in X.sentences for words in doc])


def _gather_rows(
    model: Model, X: TreeInput, layout: Layout
) -> tuple[Floats2d, Callable[[Floats2d], list[Floats2d]]]:
    """Copy the vectors of scored tokens, and ROOT's, to their rows."""
    vectors, tokens = X.vectors, flat_tokens(X)
    root = model.get_param("root")
    rows = np.empty((layout.n_rows, root.shape[0]), dtype=root.dtype)
    rows[layout.roots] = root
    if len(tokens):
        flat = vectors[0] if len(vectors) == 1 else np.concatenate(vectors)
        rows[layout.words] = flat[tokens]

    def backprop(d_rows: Floats2d) -> list[Floats2d]:
        model.inc_grad("root", d_rows[layout.roots].sum(axis=0))
        d_flat = np.zeros((sum(map(len, vectors)), root.shape[0]), dtype=d_rows.dtype)
        d_flat[tokens] = d_rows[layout.words]
        return np.split(d_flat, np.cumsum(list(map(len, vectors)))[:-1].tolist())

    return rows, backprop


def flat_tokens(X: TreeInput) -> Ints1d:
    """Index of every scored token in the Docs' vectors, one Doc after another."""
    parts = [np.zeros(0, dtype="i8")]
    start = 0
    for vectors, sentences in zip(X.vectors, X.sentences, strict=True):
        parts += [words + start for words in sentences]
        start += len(vectors)
    return np.concatenate(parts)
