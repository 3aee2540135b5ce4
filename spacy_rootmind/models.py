"""The parser's network, registered as `spacy_rootmind.BiaffineParser.v1`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from spacy.tokens import Doc
from thinc.api import Model, NumpyOps, uniform_init

from spacy_rootmind.layers import distance
from spacy_rootmind.layers.arcs import BiaffineArcs
from spacy_rootmind.layers.bilstm import BiLSTM
from spacy_rootmind.layers.labels import Arcs, BiaffineLabels
from spacy_rootmind.layers.layout import Layout
from spacy_rootmind.layers.refine import Refine
from spacy_rootmind.layers.types import Floats2d, Floats3d, Ints1d
from spacy_rootmind.sentences import Sentences, sentences_of

Tok2Vec = Model[list[Doc], list[Floats2d]]


class ParserInput(NamedTuple):
    """Docs, and the sentences to parse in each."""

    docs: Sequence[Doc]
    sentences: Sequence[Sentences]


class ParserGradient(NamedTuple):
    """Gradients for `backprop`: of each round's arc scores, and of the rows that labels saw."""

    rounds: list[list[Floats3d]]
    rows: Floats2d | None


@dataclass
class ParserScores:
    """What the network says of a batch.

    Attributes
    ----------
    layout : Layout
        Where sentences lie; those of all Docs in order.
    rounds : list of list of float array of shape (b, m, m)
        Arc scores of each round, one array a bucket. The last round is the one to decode; the
        earlier ones are trained alike.
    rows : float array of shape (n_rows, width)
        Refined vectors, ROOT's among them.
    """

    layout: Layout
    rounds: list[list[Floats3d]]
    rows: Floats2d
    labeller: Model[tuple[Floats2d, Layout, Arcs], Floats2d]

    @property
    def arcs(self) -> list[Floats3d]:
        """Arc scores to decode, one array of shape (b, m, m) a bucket."""
        return self.rounds[-1]

    def begin_labels(
        self, deps: Ints1d, heads: Ints1d, is_train: bool
    ) -> tuple[Floats2d, Callable[[Floats2d], Floats2d]]:
        """Score labels on chosen arcs, given as flat rows in numpy arrays.

        Returns scores of shape (n_arcs, n_labels), and a callback from their gradient to that of
        `rows`.
        """
        ops = self.labeller.ops
        roots = ops.to_numpy(self.layout.roots)
        sentence = np.searchsorted(roots, deps, side="right") - 1
        buckets = distance.bucket_of(deps - roots[sentence], heads - roots[sentence])
        arcs = Arcs(*(ops.asarray(part, dtype="int32") for part in (deps, heads, buckets)))
        return self.labeller((self.rows, self.layout, arcs), is_train)


# From a ParserInput (or a plain list of Docs) to ParserScores; its backward pass takes a
# ParserGradient, which Thinc's types have no place for.
ParserModel = Model[Any, Any]


def build_biaffine_parser(
    tok2vec: Tok2Vec,
    lstm_width: int = 128,
    arc_width: int = 128,
    label_width: int = 64,
    refinements: int = 1,
    dropout: float = 0.33,
    nO: int | None = None,
) -> ParserModel:
    """Build a graph-based parser over token vectors.

    Arcs are scored by a biaffine product with relative position; every round of refinement tells
    each word of its likely head and dependents and scores again with the same weights; labels are
    scored by a biaffine product and a perceptron on the arcs chosen.

    Parameters
    ----------
    tok2vec : Model[list[Doc], list[Floats2d]]
        Token vectors, or a listener to those of a shared component.
    lstm_width
        Width of a bidirectional LSTM's states over the token vectors, or 0 for none. It carries
        what lies beyond a convolution's window.
    arc_width
        Width of the arc scorer's perceptrons.
    label_width
        Width of either side of the label scorer's biaffine product; its perceptron is twice as
        wide.
    refinements
        Rounds of refinement, 0 or more.
    dropout
        Share of the parser's own hidden units that a sentence loses in training; that of
        `tok2vec` is set by `training.dropout`.
    nO
        Number of labels; filled in by the component from its data.

    Returns
    -------
    model : Model[ParserInput, ParserScores]
        Also takes a plain list of Docs; their own sentence boundaries are used then.
    """
    sizes = (
        ("lstm_width", lstm_width, 0),
        ("arc_width", arc_width, 1),
        ("label_width", label_width, 1),
        ("refinements", refinements, 0),
    )
    for name, size, least in sizes:
        if size < least:
            raise ValueError(f"expected {name} of at least {least}, received {size}")
    if not 0.0 <= dropout < 1.0:
        raise ValueError(f"expected a dropout of at least 0 and below 1, received {dropout}")
    arcs = BiaffineArcs(arc_width, dropout)
    labels = BiaffineLabels(label_width, dropout, nO=nO)
    refine = [Refine(dropout) for _ in range(refinements)]
    lstm = BiLSTM(lstm_width, dropout) if lstm_width else None
    model: ParserModel = Model(
        "biaffine_parser",
        forward,
        init=init,
        dims={"nI": None},
        params={"root": None},
        layers=[tok2vec, *([lstm] if lstm else []), arcs, labels, *refine],
        refs={"tok2vec": tok2vec, "lstm": lstm, "arcs": arcs, "labels": labels},
    )
    _use_numpy_blas(model)
    return model


def _use_numpy_blas(model: ParserModel) -> None:
    """Multiply matrices by NumPy's BLAS rather than the one that Thinc brings.

    Where the processor has 512-bit vectors it is about three times as fast. Other kinds of `Ops`,
    those of a GPU among them, stay as they are; so does a shared tok2vec, which is not in here.
    """
    numpy_blas = NumpyOps(use_blis=False)
    for node in model.walk():
        if type(node.ops) is NumpyOps:
            node.ops = numpy_blas


def init(
    model: ParserModel, X: Sequence[Doc] | ParserInput | None = None, Y: object = None
) -> None:
    """Initialize token vectors first, and size the rest by them."""
    tok2vec = model.get_ref("tok2vec")
    docs = [] if X is None else list(_as_input(X).docs)
    tok2vec.initialize(X=docs or None)
    width = tok2vec.maybe_get_dim("nO")
    if width is None:
        # Listeners to a transformer learn their width from what they hear.
        width = tok2vec.predict(docs[:1])[0].shape[1]
    model.set_dim("nI", width)
    model.set_param("root", uniform_init(model.ops, (width,), lo=-1.0, hi=1.0))
    for layer in model.layers[1:]:
        layer.set_dim("nI", width)
        layer.initialize()


def forward(
    model: ParserModel, X: Sequence[Doc] | ParserInput, is_train: bool
) -> tuple[ParserScores, Callable[[ParserGradient], list[Doc]]]:
    """Score all rounds; the callback takes their gradients down to the token vectors."""
    docs, sentences = _as_input(X)
    arcs = model.get_ref("arcs")
    lstm = model.maybe_get_ref("lstm")
    refine = [layer for layer in model.layers if layer.name == "refine"]
    tokvecs, backprop_tokvecs = model.get_ref("tok2vec")(docs, is_train)
    layout = Layout.from_lengths(
        model.ops, [len(sentence) for doc_sentences in sentences for sentence in doc_sentences]
    )
    rows, backprop_rows = _gather_rows(model, tokvecs, sentences, layout)
    if lstm is not None:
        rows, backprop_lstm = lstm((rows, layout), is_train)
    scores, backprop_scores = arcs((rows, layout), is_train)
    rounds = [scores]
    backprops = [backprop_scores]
    refine_backprops = []
    for layer in refine:
        rows, backprop_refine = layer((rows, rounds[-1], layout), is_train)
        scores, backprop_scores = arcs((rows, layout), is_train)
        rounds.append(scores)
        backprops.append(backprop_scores)
        refine_backprops.append(backprop_refine)

    def backprop(gradient: ParserGradient) -> list[Doc]:
        d_rows = backprops[-1](gradient.rounds[-1])
        if gradient.rows is not None:
            d_rows += gradient.rows
        for step in reversed(range(len(refine_backprops))):
            d_rows, d_scores = refine_backprops[step](d_rows)
            earlier = [a + b for a, b in zip(gradient.rounds[step], d_scores, strict=True)]
            d_rows += backprops[step](earlier)
        if lstm is not None:
            d_rows = backprop_lstm(d_rows)
        return backprop_tokvecs(backprop_rows(d_rows))

    return ParserScores(layout, rounds, rows, model.get_ref("labels")), backprop


def _as_input(X: Sequence[Doc] | ParserInput) -> ParserInput:
    if isinstance(X, ParserInput):
        return X
    return ParserInput(X, [sentences_of(doc) for doc in X])


def _gather_rows(
    model: ParserModel, tokvecs: list[Floats2d], sentences: Sequence[Sentences], layout: Layout
) -> tuple[Floats2d, Callable[[Floats2d], list[Floats2d]]]:
    """Put the vectors of scored tokens, and ROOT's, in their rows."""
    xp = model.ops.xp
    root = model.get_param("root")
    tokens = model.ops.asarray(_flat_tokens(tokvecs, sentences))
    rows = xp.empty((layout.n_rows, root.shape[0]), dtype=root.dtype)
    rows[layout.roots] = root
    if len(tokens):
        rows[layout.words] = xp.concatenate(tokvecs)[tokens]

    def backprop(d_rows: Floats2d) -> list[Floats2d]:
        model.inc_grad("root", d_rows[layout.roots].sum(axis=0))
        d_flat = xp.zeros((sum(map(len, tokvecs)), root.shape[0]), dtype=d_rows.dtype)
        d_flat[tokens] = d_rows[layout.words]
        stops = np.cumsum([len(vectors) for vectors in tokvecs])[:-1].tolist()
        return xp.split(d_flat, stops)

    return rows, backprop


def _flat_tokens(tokvecs: list[Floats2d], sentences: Sequence[Sentences]) -> Ints1d:
    """Index of every scored token in the Docs' vectors, one Doc after another."""
    parts = [np.zeros(0, dtype="i8")]
    start = 0
    for vectors, doc_sentences in zip(tokvecs, sentences, strict=True):
        parts += [sentence + start for sentence in doc_sentences]
        start += len(vectors)
    return np.concatenate(parts)
