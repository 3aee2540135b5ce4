"""The parser's network, registered as `spacy_rootmind.BiaffineParser.v1`.

A forward pass has four steps, and training, calibration and prediction share them: `find_vectors`
(of tokens), and the layers "boundaries" (of sentences), "trees" (arcs of given sentences) and
"labels" (of chosen arcs). The model itself runs them in this order.

Docs pass through to the token vectors and features; nothing here reads them.
"""

import math
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from thinc.api import Model, to_numpy

from spacy_rootmind.network.arc_scorer import BiaffineArcs
from spacy_rootmind.network.boundaries import BoundaryInput, SentenceStarts
from spacy_rootmind.network.label_scorer import (
    BiaffineLabels,
    ChosenArcs,
    LabelScores,
    begin_label_scores,
)
from spacy_rootmind.network.listeners import (
    GRAD_FACTOR,
    Tok2Vec,
    as_arrays_like,
    listeners_in,
    require_width,
    token_vectors,
)
from spacy_rootmind.network.ops import HOST, use_fast_cpu
from spacy_rootmind.network.qrnn import QRNN
from spacy_rootmind.network.refine import Refine
from spacy_rootmind.network.tree_scorer import TreeGradient, TreeInput, TreeScorer, TreeScores
from spacy_rootmind.network.types import Docs, Floats1d, Floats2d, Floats3d


class ParserInput(NamedTuple):
    """Docs, and what to score in each.

    Attributes
    ----------
    docs : sequence of Doc
    sentences : list of list of int array
        Per Doc, the tokens of each sentence to parse.
    words : list of int array, optional
        Per Doc, the tokens that are words, not whitespace; all by default. Only words may start a
        sentence.
    choose_arcs : callable, optional
        From the arc scores to the arcs whose labels are scored; none by default.
    """

    docs: Docs
    sentences: Sequence[Sequence[NDArray[np.int64]]]
    words: Sequence[NDArray[np.int64]] | None = None
    choose_arcs: Callable[[TreeScores], Sequence[ChosenArcs]] | None = None


class ParserScores(NamedTuple):
    """The network's scores, plain arrays without reference to the model.

    Attributes
    ----------
    trees : TreeScores
        Arc scores of the sentences to parse.
    boundaries : float array of shape (all tokens,)
        Log-odds that a token starts a sentence, one Doc after another.
    labels : list of LabelScores or None
        Label scores of the chosen arcs, a list item per set of arcs; None where none were asked
        for.
    """

    trees: TreeScores
    boundaries: Floats1d
    labels: list[LabelScores] | None = None


class ParserGradient(NamedTuple):
    """Gradients for `backprop`.

    Attributes
    ----------
    rounds : list of list of float array of shape (b, m, m)
        Of the arc scores of each round of refinement.
    labels : list of float array of shape (n_arcs, n_labels)
        Of the label scores, one per set of arcs.
    boundaries : float array of shape (all tokens,) or None
        Of the boundary scores; None if they are not trained.
    """

    rounds: list[list[Floats3d]]
    labels: Sequence[Floats2d] = ()
    boundaries: Floats1d | None = None


# From a ParserInput to ParserScores, initialized with Docs; its backward pass takes a
# ParserGradient, which Thinc's types have no place for.
ParserModel = Model


def build_biaffine_parser(
    tok2vec: Tok2Vec,
    qrnn_width: int = 192,
    arc_width: int = 128,
    label_width: int = 64,
    refinements: int = 1,
    dropout: float = 0.33,
    boundary_width: int = 64,
    null_label: bool = False,
    grad_factor: float = 0.4,
    label_rank: int | None = None,
    boundary_qrnn_width: int = 0,
    features: Tok2Vec | None = None,
    nO: int | None = None,
) -> ParserModel:
    """Build a graph-based parser over token vectors.

    Arcs are scored by a biaffine product with relative position. Each round of refinement gives
    every word the vectors of its likely head and dependents, then scores again with the same
    weights. Labels are scored on chosen arcs by a biaffine product and a perceptron.

    Parameters
    ----------
    tok2vec : Model[list[Doc], list[Floats2d]]
        Token vectors, or a listener to a component that shares its own.
    features : Model[list[Doc], list[Floats2d]], optional
        More vectors of each token, appended to what `tok2vec` makes. They get the whole gradient.
    nO
        Number of labels; filled in by the component from its data.

    `docs/settings.md` explains the others.

    Returns
    -------
    model : Model[ParserInput, ParserScores]

    Raises
    ------
    ValueError
        If an option is out of range or of another type, or `features` have a listener.
    """
    numbers = [
        ("qrnn_width", qrnn_width, Integral, 0, math.inf),
        ("arc_width", arc_width, Integral, 1, math.inf),
        ("label_width", label_width, Integral, 1, math.inf),
        ("refinements", refinements, Integral, 0, math.inf),
        ("boundary_width", boundary_width, Integral, 1, math.inf),
        ("boundary_qrnn_width", boundary_qrnn_width, Integral, 0, math.inf),
        ("label_rank", 1 if label_rank is None else label_rank, Integral, 1, math.inf),
        ("dropout", dropout, Real, 0.0, 1.0),
        ("grad_factor", grad_factor, Real, 0.0, math.inf),
    ]
    for number in numbers:
        check_number(*number)
    if not isinstance(null_label, bool | np.bool_):
        raise ValueError(f"expected null_label to be true or false, received {null_label!r}")
    if features is not None and listeners_in(features):
        raise ValueError(
            "expected features that are layers of the parser's own, received a listener, which "
            "belongs in tok2vec"
        )
    labels = BiaffineLabels(label_width, dropout, null_label, label_rank, nO=nO)
    trees = TreeScorer(
        qrnn=QRNN(qrnn_width, dropout) if qrnn_width else None,
        arcs=BiaffineArcs(arc_width, dropout),
        labels=labels,
        refine=[Refine(dropout) for _ in range(refinements)],
    )
    boundaries = SentenceStarts(boundary_width, boundary_qrnn_width, dropout)
    model: ParserModel = Model(
        "biaffine_parser",
        forward,
        init=init,
        dims={"nI": None},
        layers=[tok2vec, boundaries, trees, *([] if features is None else [features])],
        refs={
            "tok2vec": tok2vec,
            "features": features,
            "boundaries": boundaries,
            "trees": trees,
            "labels": labels,
        },
        attrs={GRAD_FACTOR: grad_factor},
        ops=HOST,
    )
    return use_fast_cpu(model)


def check_number(name: str, value: Any, kind: Any, least: float, below: float) -> None:
    """Refuse an option that is no number of a kind, or not in a range.

    Configs let texts such as "64" pass as numbers, and leave them as they are.
    """
    if isinstance(value, bool) or not isinstance(value, kind) or not least <= value < below:
        kind_name = "an integer" if kind is Integral else "a number"
        limit = "" if below == math.inf else f" and below {below}"
        raise ValueError(
            f"expected {name} as {kind_name} of at least {least}{limit}, received {value!r}"
        )


def init(model: ParserModel, X: Docs | None = None, Y: object = None) -> None:
    """Initialize the token vectors and features, then size the other layers by their width."""
    tok2vec, features = model.get_ref("tok2vec"), model.maybe_get_ref("features")
    docs = list(X or [])
    require_width(tok2vec)
    width = _init_vectors(tok2vec, docs)
    model.set_dim("nI", width)
    if features is not None:
        width += _init_vectors(features, docs)
    for name in ("boundaries", "trees"):
        layer = model.get_ref(name)
        layer.set_dim("nI", width)
        layer.initialize()


def _init_vectors(layer: Tok2Vec, docs: list) -> int:
    """Initialize a layer that makes vectors of tokens; returns their width."""
    layer.initialize(X=docs or None)
    width = layer.maybe_get_dim("nO")
    # A listener to a transformer learns its width from the vectors it receives; embeddings that
    # spaCy mixes do not tell theirs.
    return layer.predict(docs[:1])[0].shape[1] if width is None else width


def forward(
    model: ParserModel, X: ParserInput, is_train: bool
) -> tuple[ParserScores, Callable[[ParserGradient], Docs]]:
    """Encode, score and label; the callback takes the gradients down to the token vectors."""
    docs, sentences, words, choose_arcs = X
    words = [np.arange(len(doc)) for doc in docs] if words is None else words
    vectors, backprop_vectors = find_vectors(model, docs, is_train)
    given = BoundaryInput(vectors, words)
    boundaries, backprop_boundaries = model.get_ref("boundaries")(given, is_train)
    trees, backprop_trees = model.get_ref("trees")(TreeInput(vectors, sentences), is_train)
    labels, backprop_labels = None, []
    if choose_arcs is not None:
        labeller = model.get_ref("labels")
        begun = [begin_label_scores(labeller, trees, own, is_train) for own in choose_arcs(trees)]
        labels, backprop_labels = [own for own, _ in begun], [own for _, own in begun]

    def backprop(gradient: ParserGradient) -> Docs:
        d_rows = np.zeros_like(trees.rows)
        for backprop_scores, d_scores in zip(backprop_labels, gradient.labels, strict=True):
            d_rows += backprop_scores(d_scores)
        d_vectors = backprop_trees(TreeGradient(gradient.rounds, d_rows))
        if gradient.boundaries is not None:
            others = backprop_boundaries(gradient.boundaries)
            d_vectors = [a + b for a, b in zip(d_vectors, others, strict=True)]
        return backprop_vectors(d_vectors)

    return ParserScores(trees, boundaries, labels), backprop


def find_vectors(
    model: ParserModel, docs: Docs, is_train: bool
) -> tuple[list[Floats2d], Callable[[list[Floats2d]], Docs]]:
    """Compute the token vectors alone, features included, of shape (n_tokens, width) per Doc.

    They are NumPy arrays, wherever they are computed.
    """
    vectors, backprop_vectors = token_vectors(model, docs, is_train)
    features = model.maybe_get_ref("features")
    if features is None:
        return vectors, backprop_vectors
    found, backprop_features = features(list(docs), is_train)
    width = model.get_dim("nI")
    extended = [np.hstack((own, to_numpy(more))) for own, more in zip(vectors, found, strict=True)]

    def backprop(d_both: list[Floats2d]) -> Docs:
        backprop_features(as_arrays_like(found, [d[:, width:] for d in d_both]))
        return backprop_vectors([d[:, :width] for d in d_both])

    return extended, backprop


def reading_layers(model: ParserModel) -> list[Tok2Vec]:
    """List the layers that read Docs: the token vectors, and the features if there are any."""
    features = model.maybe_get_ref("features")
    return [model.get_ref("tok2vec"), *([] if features is None else [features])]


def require_finite(scores: Any, kind: str) -> None:
    """Refuse an array of scores, or a list of arrays, that are not finite."""
    arrays = scores if isinstance(scores, list) else [scores]
    if not all(np.isfinite(own).all() for own in arrays):
        raise ValueError(
            f"the network's {kind} scores are not finite: training diverged, or the saved weights "
            f"are damaged"
        )
