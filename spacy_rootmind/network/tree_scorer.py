"""From token vectors to arc and label scores of the sentences among them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from thinc.api import Model, uniform_init

from spacy_rootmind.network import distance
from spacy_rootmind.network.arcs import BiaffineArcs
from spacy_rootmind.network.bilstm import BiLSTM
from spacy_rootmind.network.labels import NULL_LABEL, Arcs, BiaffineLabels
from spacy_rootmind.network.layout import Layout
from spacy_rootmind.network.refine import Refine
from spacy_rootmind.network.types import Floats2d, Floats3d, Ints1d

# Arcs that are labelled at once: each takes the size of a label times a hidden layer.
MAX_ARCS = 4096


class TreeInput(NamedTuple):
    """Token vectors, and which of them form sentences.

    Attributes
    ----------
    vectors : list of float array of shape (n_tokens, width)
        One array a Doc.
    sentences : list of list of int array
        For each Doc, the tokens of each sentence.
    """

    vectors: Sequence[Floats2d]
    sentences: Sequence[Sequence[NDArray[np.int64]]]


class TreeGradient(NamedTuple):
    """Gradients for `backprop`: of each round's arc scores, and of the rows that labels saw."""

    rounds: list[list[Floats3d]]
    rows: Floats2d


@dataclass
class TreeScores:
    """What the network says of the trees of a batch.

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

    @property
    def has_null_label(self) -> bool:
        """Whether one score more, after those of the labels, says that an arc is wrong."""
        return bool(self.labeller.attrs[NULL_LABEL])

    def begin_labels(
        self, deps: Ints1d, heads: Ints1d, is_train: bool
    ) -> tuple[Floats2d, Callable[[Floats2d], Floats2d]]:
        """Score labels on chosen arcs, given as flat rows in numpy arrays.

        Returns scores of shape (n_arcs, n_labels), the null label among them, and a callback from
        their gradient to that of `rows`.
        """
        return self.labeller((self.rows, self.layout, self._arcs(deps, heads)), is_train)

    def _arcs(self, deps: Ints1d, heads: Ints1d) -> Arcs:
        ops = self.labeller.ops
        roots = ops.to_numpy(self.layout.roots)
        sentence = np.searchsorted(roots, deps, side="right") - 1
        buckets = distance.bucket_of(deps - roots[sentence], heads - roots[sentence])
        return Arcs(*(ops.asarray(part, dtype="int32") for part in (deps, heads, buckets)))

    def best_labels(
        self, deps: Ints1d, heads: Ints1d, temperature: float = 1.0
    ) -> tuple[Ints1d, NDArray[np.float64]]:
        """Find the best label on each of many arcs, and its log probability, at most 0.

        `temperature` is what label scores are divided by before they make probabilities.
        """
        ops = self.labeller.ops
        parts = [(np.zeros(0, dtype=np.int64), np.zeros(0))]
        for _, scores in self.label_scores(deps, heads):
            behind = scores - scores.max(axis=1, keepdims=True)
            total = ops.to_numpy(ops.xp.exp(behind / temperature).sum(axis=1))
            parts.append((ops.to_numpy(scores.argmax(axis=1)), -np.log(total.astype(np.float64))))
        labels, log_probs = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        return labels, log_probs

    def probable_labels(
        self,
        deps: Ints1d,
        heads: Ints1d,
        arc_probs: NDArray[np.float64],
        threshold: float,
        temperature: float,
    ) -> tuple[Ints1d, Ints1d, NDArray[np.float64]]:
        """Find the labels that arcs have with some probability at least.

        Parameters
        ----------
        deps, heads : int array of shape (n_arcs,)
            As of `begin_labels`.
        arc_probs : float array of shape (n_arcs,)
            Probability of each arc, labels aside.
        threshold : float
            Least probability of an arc and its label together.
        temperature : float
            What label scores are divided by before they make probabilities.

        Returns
        -------
        arcs, labels : int array of shape (n_found,)
            Which arc, by its place in `deps`, has which label.
        probs : float array of shape (n_found,)
            Probability of arc and label together.
        """
        ops = self.labeller.ops
        found = [(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0))]
        for start, scores in self.label_scores(deps, heads):
            of_labels = ops.to_numpy(ops.softmax(scores / temperature)).astype(np.float64)
            probs = of_labels * arc_probs[start : start + len(of_labels), None]
            arcs, labels = np.nonzero(probs >= threshold)
            found.append((arcs + start, labels, probs[arcs, labels]))
        arcs, labels, probs = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return arcs, labels, probs

    def label_scores(self, deps: Ints1d, heads: Ints1d) -> Iterator[tuple[int, Floats2d]]:
        """Score labels on chosen arcs, so many at a time that memory stays bounded.

        Gives the place of the first of them and their scores, of shape (n_arcs, n_labels), the
        null label left out.
        """
        for start in range(0, len(deps), MAX_ARCS):
            chunk = slice(start, start + MAX_ARCS)
            yield start, self._predict_labels(self._arcs(deps[chunk], heads[chunk]))

    def _predict_labels(self, arcs: Arcs) -> Floats2d:
        """Score labels on arcs, looking only at the rows that they are between."""
        xp = self.labeller.ops.xp
        ends = xp.concatenate((arcs.deps, arcs.heads))
        rows, places = xp.unique(ends, return_inverse=True)
        own = Arcs(places[: len(arcs.deps)], places[len(arcs.deps) :], arcs.buckets)
        scores = self.labeller.predict((self.rows[rows], self.layout, own))
        return scores[:, : self.labeller.get_dim("nO")]


# Its backward pass takes a TreeGradient, which Thinc's types have no place for.
TreeModel = Model[Any, Any]


def TreeScorer(
    lstm_width: int,
    arc_width: int,
    label_width: int,
    refinements: int,
    dropout: float,
    null_label: bool = False,
    nO: int | None = None,
) -> TreeModel:
    """Score arcs by a biaffine product, refine, score again; labels on arcs chosen later.

    Parameters
    ----------
    lstm_width, arc_width, label_width, refinements, dropout, null_label
        See `spacy_rootmind.network.architecture.build_biaffine_parser`.
    nO
        Number of labels.

    Returns
    -------
    model : Model[TreeInput, TreeScores]
    """
    lstm = BiLSTM(lstm_width, dropout) if lstm_width else None
    arcs = BiaffineArcs(arc_width, dropout)
    labels = BiaffineLabels(label_width, dropout, null_label, nO=nO)
    refine = [Refine(dropout) for _ in range(refinements)]
    return Model(
        "tree_scorer",
        forward,
        init=init,
        dims={"nI": None},
        params={"root": None},
        layers=[*([lstm] if lstm else []), arcs, labels, *refine],
        refs={"lstm": lstm, "arcs": arcs, "labels": labels},
    )


def init(model: TreeModel, X: object = None, Y: object = None) -> None:
    """Draw ROOT's vector and initialize all layers; nI must be set."""
    width = model.get_dim("nI")
    model.set_param("root", uniform_init(model.ops, (width,), lo=-1.0, hi=1.0))
    for layer in model.layers:
        layer.set_dim("nI", width)
        layer.initialize()


def forward(
    model: TreeModel, X: TreeInput, is_train: bool
) -> tuple[TreeScores, Callable[[TreeGradient], list[Floats2d]]]:
    """Score all rounds; the callback takes their gradients down to the token vectors."""
    vectors, sentences = X
    arcs = model.get_ref("arcs")
    lstm = model.maybe_get_ref("lstm")
    refine = [layer for layer in model.layers if layer.name == "refine"]
    layout = Layout.from_lengths(
        model.ops, [len(sentence) for doc_sentences in sentences for sentence in doc_sentences]
    )
    rows, backprop_rows = _gather_rows(model, vectors, sentences, layout)
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

    def backprop(gradient: TreeGradient) -> list[Floats2d]:
        d_rows = backprops[-1](gradient.rounds[-1]) + gradient.rows
        for step in reversed(range(len(refine_backprops))):
            d_rows, d_scores = refine_backprops[step](d_rows)
            earlier = [a + b for a, b in zip(gradient.rounds[step], d_scores, strict=True)]
            d_rows += backprops[step](earlier)
        if lstm is not None:
            d_rows = backprop_lstm(d_rows)
        return backprop_rows(d_rows)

    return TreeScores(layout, rounds, rows, model.get_ref("labels")), backprop


def _gather_rows(
    model: TreeModel,
    vectors: Sequence[Floats2d],
    sentences: Sequence[Sequence[NDArray[np.int64]]],
    layout: Layout,
) -> tuple[Floats2d, Callable[[Floats2d], list[Floats2d]]]:
    """Put the vectors of scored tokens, and ROOT's, in their rows."""
    xp = model.ops.xp
    root = model.get_param("root")
    tokens = model.ops.asarray(_flat_tokens(vectors, sentences))
    rows = xp.empty((layout.n_rows, root.shape[0]), dtype=root.dtype)
    rows[layout.roots] = root
    if len(tokens):
        flat = vectors[0] if len(vectors) == 1 else xp.concatenate(vectors)
        rows[layout.words] = flat[tokens]

    def backprop(d_rows: Floats2d) -> list[Floats2d]:
        model.inc_grad("root", d_rows[layout.roots].sum(axis=0))
        d_flat = xp.zeros((sum(map(len, vectors)), root.shape[0]), dtype=d_rows.dtype)
        d_flat[tokens] = d_rows[layout.words]
        stops = np.cumsum([len(own) for own in vectors])[:-1].tolist()
        return xp.split(d_flat, stops)

    return rows, backprop


def _flat_tokens(
    vectors: Sequence[Floats2d], sentences: Sequence[Sequence[NDArray[np.int64]]]
) -> Ints1d:
    """Index of every scored token in the Docs' vectors, one Doc after another."""
    parts = [np.zeros(0, dtype="i8")]
    start = 0
    for own, doc_sentences in zip(vectors, sentences, strict=True):
        parts += [sentence + start for sentence in doc_sentences]
        start += len(own)
    return np.concatenate(parts)
