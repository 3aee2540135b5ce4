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
from spacy_rootmind.network.ops import HOST, follow_fast_cpu, use_fast_cpu
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


# From a ParserInput (or a plain list of Docs) to ParserScores; its backward pass takes a
# ParserGradient, which Thinc's types have no place for.
ParserModel = Model[Any, Any]


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
    qrnn_width
        Width of the states of a bidirectional quasi-recurrent layer over the token vectors, or 0
        for none. It carries context beyond a convolution's window.
    arc_width
        Width of the arc scorer's perceptrons.
    label_width
        Width of either side of the label scorer's biaffine product; its perceptron is twice as
        wide.
    refinements
        Rounds of refinement, 0 or more.
    dropout
        Dropout rate of the parser's own hidden units, one mask per sentence; `training.dropout`
        sets the dropout of `tok2vec`.
    boundary_width
        Width of the hidden layer that predicts sentence starts.
    null_label
        Whether to train one more label, "this arc is wrong", on the best wrong head of each word.
        The network learns from it what makes an arc right; parses never contain it.
    grad_factor
        Factor on the gradient of token vectors that come from a listener, so that they learn from
        all components that share them, not from this one alone: its norm is 7 to 200 times that of
        spaCy's tagger. It multiplies the factor that listeners to transformers have. Token vectors
        of the parser's own get the whole gradient.
    label_rank : int, optional
        Rank of the biaffine label scores on either side. If it is smaller than `label_width`, they
        take less time and space.
    boundary_qrnn_width
        Width of the states of such a layer over all words of a Doc, below the layer that predicts
        sentence starts, or 0 for none. Over convolutions, boundaries have no other context beyond
        their window.
    features : Model[list[Doc], list[Floats2d]], optional
        More vectors of each token, appended to what `tok2vec` makes: embeddings of attributes that
        earlier components set, such as `spacy.MultiHashEmbed.v2`, or static vectors. They are
        layers of the parser's own and get the whole gradient.
    nO
        Number of labels; filled in by the component from its data.

    Returns
    -------
    model : Model[ParserInput, ParserScores]
        Also takes a plain list of Docs, each of which then counts as one sentence.

    Raises
    ------
    ValueError
        If an option is out of range or of another type, or `features` have a listener.
    """
    sizes = {
        "qrnn_width": (qrnn_width, 0),
        "arc_width": (arc_width, 1),
        "label_width": (label_width, 1),
        "refinements": (refinements, 0),
        "boundary_width": (boundary_width, 1),
        "boundary_qrnn_width": (boundary_qrnn_width, 0),
    }
    if label_rank is not None:
        sizes["label_rank"] = (label_rank, 1)
    _check_options(sizes, dropout, grad_factor, null_label)
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


def _check_options(
    sizes: dict[str, tuple[Any, int]], dropout: Any, grad_factor: Any, null_label: Any
) -> None:
    """Check sizes, each with its least value, and the other options.

    Configs let texts such as "64" pass as numbers, and leave them as they are.
    """
    for name, (size, least) in sizes.items():
        if not _is_a(Integral, size) or size < least:
            raise ValueError(
                f"expected {name} as an integer of at least {least}, received {size!r}"
            )
    if not _is_a(Real, dropout) or not 0.0 <= dropout < 1.0:
        raise ValueError(f"expected a dropout of at least 0 and below 1, received {dropout!r}")
    if not _is_a(Real, grad_factor) or not 0.0 < grad_factor < math.inf:
        raise ValueError(f"expected grad_factor as a number above 0, received {grad_factor!r}")
    if not isinstance(null_label, bool | np.bool_):
        raise ValueError(f"expected null_label to be true or false, received {null_label!r}")


def _is_a(kind: type, value: object) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def init(model: ParserModel, X: Docs | ParserInput | None = None, Y: object = None) -> None:
    """Initialize the token vectors and features, then size the other layers by their width."""
    tok2vec, features = model.get_ref("tok2vec"), model.maybe_get_ref("features")
    docs = [] if X is None else list(_as_input(X).docs)
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
    model: ParserModel, X: Docs | ParserInput, is_train: bool
) -> tuple[ParserScores, Callable[[ParserGradient], Docs]]:
    """Encode, score and label; the callback takes the gradients down to the token vectors.

    Raises
    ------
    ValueError
        From the callback, if the gradient is of the labels of other arcs than those scored.
    """
    docs, sentences, words, choose_arcs = _as_input(X)
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
        if len(gradient.labels) != len(backprop_labels):
            raise ValueError(
                f"expected gradients of the label scores of {len(backprop_labels)} sets of arcs, "
                f"received {len(gradient.labels)}: the labels of the same arcs must be scored in "
                f"the forward pass, see ParserInput.choose_arcs"
            )
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
    follow_fast_cpu(model.get_ref("tok2vec"), model)
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


def _as_input(X: Docs | ParserInput) -> ParserInput:
    if isinstance(X, ParserInput):
        return X
    return ParserInput(X, [[np.arange(len(doc))] if len(doc) else [] for doc in X])


def require_finite(scores: Any, kind: str) -> None:
    """Refuse an array of scores, or a list of arrays, that are not finite.

    Raises
    ------
    ValueError
        If there is one.
    """
    arrays = scores if isinstance(scores, list) else [scores]
    if not all(np.isfinite(own).all() for own in arrays):
        raise ValueError(
            f"the network's {kind} scores are not finite: training diverged, or the saved weights "
            f"are damaged"
        )
