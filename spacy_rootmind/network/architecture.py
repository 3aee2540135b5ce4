"""The parser's network, registered as `spacy_rootmind.BiaffineParser.v1`."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from spacy.tokens import Doc
from thinc.api import Model, NumpyOps

from spacy_rootmind.annotation.sentences import Sentences, sentences_of, words_of
from spacy_rootmind.network.boundaries import BoundaryInput, SentenceStarts
from spacy_rootmind.network.listeners import Tok2Vec, require_width, token_vectors
from spacy_rootmind.network.tree_scorer import TreeGradient, TreeInput, TreeScorer, TreeScores
from spacy_rootmind.network.types import Floats1d


class ParserInput(NamedTuple):
    """Docs, and the sentences to parse in each."""

    docs: Sequence[Doc]
    sentences: Sequence[Sentences]


class ParserScores(NamedTuple):
    """What the network says of Docs.

    Attributes
    ----------
    trees : TreeScores
        Of the sentences to parse.
    boundaries : float array of shape (all tokens,)
        Log-odds that a token starts a sentence, one Doc after another.
    """

    trees: TreeScores
    boundaries: Floats1d


class ParserGradient(NamedTuple):
    """Gradients for `backprop`: of what `ParserScores` has; None for a part without."""

    trees: TreeGradient
    boundaries: Floats1d | None = None


# From a ParserInput (or a plain list of Docs) to ParserScores; its backward pass takes a
# ParserGradient, which Thinc's types have no place for. Its parts, "tok2vec", "boundaries" and
# "trees", are also run apart: sentences may depend on the boundaries found.
ParserModel = Model[Any, Any]


def build_biaffine_parser(
    tok2vec: Tok2Vec,
    lstm_width: int = 128,
    arc_width: int = 128,
    label_width: int = 64,
    refinements: int = 1,
    dropout: float = 0.33,
    boundary_width: int = 64,
    null_label: bool = False,
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
    boundary_width
        Width of the hidden layer that finds where sentences start.
    null_label
        Whether labels are learnt with one more, that the arc is wrong, from the best wrong head of
        each word. The network learns from it what makes an arc right; it has no part in parses.
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
        ("boundary_width", boundary_width, 1),
    )
    for name, size, least in sizes:
        if size < least:
            raise ValueError(f"expected {name} of at least {least}, received {size}")
    if not 0.0 <= dropout < 1.0:
        raise ValueError(f"expected a dropout of at least 0 and below 1, received {dropout}")
    boundaries = SentenceStarts(boundary_width)
    trees = TreeScorer(lstm_width, arc_width, label_width, refinements, dropout, null_label, nO)
    model: ParserModel = Model(
        "biaffine_parser",
        forward,
        init=init,
        dims={"nI": None},
        layers=[tok2vec, boundaries, trees],
        refs={
            "tok2vec": tok2vec,
            "boundaries": boundaries,
            "trees": trees,
            "labels": trees.get_ref("labels"),
        },
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
    require_width(tok2vec)
    tok2vec.initialize(X=docs or None)
    width = tok2vec.maybe_get_dim("nO")
    if width is None:
        # Listeners to a transformer learn their width from what they hear.
        width = tok2vec.predict(docs[:1])[0].shape[1]
    model.set_dim("nI", width)
    for layer in model.layers[1:]:
        layer.set_dim("nI", width)
        layer.initialize()


def forward(
    model: ParserModel, X: Sequence[Doc] | ParserInput, is_train: bool
) -> tuple[ParserScores, Callable[[ParserGradient], list[Doc]]]:
    """Score boundaries and trees; the callback takes their gradients to the token vectors."""
    docs, sentences = _as_input(X)
    vectors, backprop_vectors = token_vectors(
        model.get_ref("tok2vec"), docs, model.get_dim("nI"), model.ops, is_train
    )
    boundaries, backprop_boundaries = model.get_ref("boundaries")(
        BoundaryInput(vectors, [words_of(doc) for doc in docs]), is_train
    )
    trees, backprop_trees = model.get_ref("trees")(TreeInput(vectors, sentences), is_train)

    def backprop(gradient: ParserGradient) -> list[Doc]:
        d_vectors = backprop_trees(gradient.trees)
        if gradient.boundaries is not None:
            others = backprop_boundaries(gradient.boundaries)
            d_vectors = [a + b for a, b in zip(d_vectors, others, strict=True)]
        return backprop_vectors(d_vectors)

    return ParserScores(trees, boundaries), backprop


def _as_input(X: Sequence[Doc] | ParserInput) -> ParserInput:
    if isinstance(X, ParserInput):
        return X
    return ParserInput(X, [sentences_of(doc) for doc in X])


def require_finite(xp: Any, scores: Any, kind: str) -> None:
    """Refuse scores of a network, arrays of the module `xp`, if one is not finite."""
    if not xp.isfinite(scores).all():
        raise ValueError(
            f"the network's {kind} scores are not finite: training diverged, or the saved weights "
            f"are damaged"
        )
