"""A parser without a neural network: scores are sums of weights of hashed features.

`build_linear_parser` is registered as `spacy_rootmind.LinearParser.v1`. Its three layers score
sentence starts, arcs, and the labels of chosen arcs; `feature_keys` makes the keys of features.
Keys have no gradient, so the gradients of all inputs are zero.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from thinc.api import Model, NumpyOps, registry

from spacy_rootmind.kernel.linear import backprop_arcs, score_arcs
from spacy_rootmind.network import distance
from spacy_rootmind.network.architecture import ParserModel, forward, init
from spacy_rootmind.network.boundaries import NOT_A_WORD, BoundaryInput
from spacy_rootmind.network.feature_keys import (
    list_templates,
    make_arc_keys,
    make_bucket_keys,
    make_start_keys,
)
from spacy_rootmind.network.label_scorer import NULL_LABEL, Arcs
from spacy_rootmind.network.layout import Bucket, Layout
from spacy_rootmind.network.listeners import GRAD_FACTOR
from spacy_rootmind.network.tree_scorer import TreeGradient, TreeInput, TreeScores, flat_tokens
from spacy_rootmind.network.types import Floats1d, Floats2d, Ints1d, Ints2d

# Attributes of words that need no component before the parser.
ATTRS = ("NORM", "PREFIX", "SUFFIX", "SHAPE")
# Weights are found by 32-bit keys.
MAX_BITS = 30
# Logarithm to base 2 of the number of weights of sentence starts.
START_BITS = 16
# Attributes of the layer of arcs that decide what its weights mean.
N_ATTRS, CONTEXT = "n_attrs", "context_column"

# Its backward pass takes a TreeGradient, which Thinc's types have no place for.
LinearTreeModel = Model[Any, Any]
LabelsInT = tuple[Ints2d, Layout, Arcs]


def build_linear_parser(
    attrs: Sequence[str] = ATTRS,
    context: str = "SUFFIX",
    arc_bits: int = 20,
    label_bits: int = 15,
    nO: int | None = None,
) -> ParserModel:
    """Build a graph-based parser whose scores are sums of weights of hashed features.

    It is the parser of Jurafsky & Martin's textbook, with the features of McDonald et al.:
    attributes of dependent and head, alone, in pairs and with their neighbours, each also combined
    with direction and distance, and attributes of the words between them. Labels and sentence
    starts are scored by features as well. It always computes on the CPU.

    Parameters
    ----------
    attrs : list of str
        Attributes of dependents and heads: of words, or those that earlier components set.
    context : str
        The attribute of neighbours and of the words between dependent and head; "TAG" or "POS"
        where a component sets them.
    arc_bits
        Logarithm to base 2 of the number of weights of arcs. Features with the same hash share a
        weight.
    label_bits
        Logarithm to base 2 of the number of weights for each label.
    nO
        Number of labels; filled in by the component from its data.

    Returns
    -------
    model : Model[ParserInput, ParserScores]
        Also takes a plain list of Docs, each of which then counts as one sentence.

    Raises
    ------
    ValueError
        If there are no attributes, one is listed twice, or a number of bits is out of range.

    References
    ----------
    McDonald, Crammer & Pereira (2005), Online Large-Margin Training of Dependency Parsers,
    table 1.
    Jurafsky & Martin, Speech and Language Processing (3rd edition draft), section 18.3.2.
    """
    attrs = _check_attrs(attrs)
    for name, bits in (("arc_bits", arc_bits), ("label_bits", label_bits)):
        is_integer = isinstance(bits, int) and not isinstance(bits, bool)
        if not is_integer or not 1 <= bits <= MAX_BITS:
            raise ValueError(
                f"expected {name} as an integer from 1 to {MAX_BITS}, received {bits!r}"
            )
    columns = attrs if context in attrs else [*attrs, context]
    width = len(columns)
    attributes: Model[Any, Any] = registry.get("layers", "spacy.FeatureExtractor.v1")(columns)
    boundaries = LinearStarts(width)
    trees = LinearTreeScorer(len(attrs), columns.index(context), width, arc_bits, label_bits, nO)
    model: ParserModel = Model(
        "linear_parser",
        forward,
        init=init,
        dims={"nI": width},
        layers=[attributes, boundaries, trees],
        refs={
            "tok2vec": attributes,
            "features": None,
            "boundaries": boundaries,
            "trees": trees,
            "labels": trees.get_ref("labels"),
        },
        attrs={GRAD_FACTOR: 1.0},
    )
    ops = NumpyOps()
    for node in model.walk():
        node.ops = ops
    return model


def _check_attrs(attrs: Sequence[str]) -> list[str]:
    is_list = isinstance(attrs, list | tuple) and all(isinstance(name, str) for name in attrs)
    if not is_list or not attrs or len(set(attrs)) < len(attrs):
        raise ValueError(
            f"expected attrs as a list of different names of attributes, received {attrs!r}"
        )
    return list(attrs)


# --- sentence starts ---------------------------------------------------------------------------


def LinearStarts(nI: int) -> Model[BoundaryInput, Floats1d]:
    """Score each word as a sentence start by its attributes and those of its neighbours.

    Features are each attribute of the word, of the word before it and of the word after it, and the
    attributes of the word and the word before it together. A BoundaryInput has `nI` columns of
    attributes, uint64, instead of vectors; scores are those of `boundaries.SentenceStarts`.
    """
    return Model(
        "linear_starts",
        _forward_starts,
        init=_init_starts,
        dims={"nI": nI, "nV": 1 << START_BITS},
        params={"W": None},
    )


def _init_starts(
    model: Model[BoundaryInput, Floats1d], X: BoundaryInput | None = None, Y: Floats1d | None = None
) -> None:
    """Set all weights to zero."""
    model.set_param("W", model.ops.alloc1f(model.get_dim("nV")))


def _forward_starts(
    model: Model[BoundaryInput, Floats1d], X: BoundaryInput, is_train: bool
) -> tuple[Floats1d, Callable[[Floats1d], list[Floats2d]]]:
    """Score all tokens; the callback adds the gradient of the weights, and returns zeros."""
    weights = model.get_param("W")
    scores: Floats1d = np.full(sum(map(len, X.vectors)), NOT_A_WORD, dtype=weights.dtype)
    mask = np.uint32(model.get_dim("nV") - 1)
    places, words = [], []
    start = 0
    for attributes, own in zip(X.vectors, X.words, strict=True):
        places.append(make_start_keys(attributes[own]) & mask)
        words.append(own + start)
        start += len(attributes)
    for at, of in zip(words, places, strict=True):
        scores[at] = weights[of].sum(axis=1)

    def backprop(d_scores: Floats1d) -> list[Floats2d]:
        d_weights = gradient_of(model, "W")
        for at, of in zip(words, places, strict=True):
            np.add.at(d_weights, of, d_scores[at, None])
        return [np.zeros_like(own) for own in X.vectors]

    return scores, backprop


# --- arcs --------------------------------------------------------------------------------------


def LinearTreeScorer(
    n_attrs: int,
    context: int,
    nI: int,
    arc_bits: int,
    label_bits: int,
    nO: int | None = None,
) -> LinearTreeModel:
    """Score arcs by sums of weights of features, like those of McDonald et al.

    Features are those of `feature_keys.list_templates`, each alone and combined with the arc's
    direction and distance (`distance.BOUNDS`). Each distinct context attribute between dependent
    and head adds two, combined with the direction: it alone, and with those of dependent and head.

    A TreeInput has `nI` columns of attributes, uint64, instead of vectors; `n_attrs` and `context`
    are as in `feature_keys.make_arc_keys`. `TreeScores.rows` are keys of features. The label layer,
    reference "labels", has the same templates and weights of its own. It is sized and saved with
    this model, but runs on arcs that are chosen later.
    """
    labels = LinearLabels(label_bits, nO=nO)
    return Model(
        "linear_trees",
        _forward_trees,
        init=_init_trees,
        dims={"nI": nI, "nV": 1 << arc_bits},
        params={"W": None},
        layers=[labels],
        refs={"labels": labels},
        attrs={N_ATTRS: n_attrs, CONTEXT: context},
    )


def _init_trees(model: LinearTreeModel, X: object = None, Y: object = None) -> None:
    """Set all weights to zero, those of labels included."""
    model.set_param("W", model.ops.alloc1f(model.get_dim("nV")))
    model.get_ref("labels").initialize()


def _forward_trees(
    model: LinearTreeModel, X: TreeInput, is_train: bool
) -> tuple[TreeScores, Callable[[TreeGradient], list[Floats2d]]]:
    """Score; the callback adds the gradient of the weights, and returns zeros for the input."""
    layout = Layout.from_lengths(model.ops, [len(words) for doc in X.sentences for words in doc])
    tokens = flat_tokens(X.vectors, X.sentences)
    attributes = np.concatenate(X.vectors)[tokens] if len(X.vectors) else _no_attributes(model)
    n_attrs = model.attrs[N_ATTRS]
    keys = make_arc_keys(attributes, layout, n_attrs, model.attrs[CONTEXT])
    bucket_keys = make_bucket_keys(len(list_templates(n_attrs)))
    weights: Any = model.get_param("W")
    scores = []
    for bucket in layout.buckets:
        m = bucket.rows.shape[1]
        scores.append(np.zeros((len(bucket.sentences), m, m), dtype=weights.dtype))
        score_arcs(weights, *keys, bucket_keys, *_places(layout, bucket), scores[-1])

    def backprop(gradient: TreeGradient) -> list[Floats2d]:
        [d_scores] = gradient.rounds
        d_weights = gradient_of(model, "W")
        for bucket, own in zip(layout.buckets, d_scores, strict=True):
            own = np.ascontiguousarray(own, dtype=d_weights.dtype)
            backprop_arcs(d_weights, *keys, bucket_keys, *_places(layout, bucket), own)
        return [np.zeros_like(own) for own in X.vectors]

    return TreeScores(layout, [scores], keys.templates), backprop


def _no_attributes(model: LinearTreeModel) -> Any:
    return np.zeros((0, model.get_dim("nI")), dtype=np.uint64)


def _places(layout: Layout, bucket: Bucket) -> tuple[Any, Ints1d, Ints1d]:
    """Find the distance buckets of a bucket's arcs, and its sentences' first rows and lengths."""
    roots = np.ascontiguousarray(layout.roots[bucket.sentences], dtype=np.intp)
    lengths = np.ascontiguousarray(bucket.lengths, dtype=np.intp)
    return distance.bucket_table(bucket.rows.shape[1]), roots, lengths


# --- labels ------------------------------------------------------------------------------------


def LinearLabels(bits: int, nO: int | None = None) -> Model[LabelsInT, Floats2d]:
    """Score every label on each of the given arcs, from keys that `feature_keys` makes.

    Keys are of shape (n_rows, 2 * n_templates), scores of shape (n_arcs, nO); each label has 2 to
    the power of `bits` weights.
    """
    return Model(
        "linear_labels",
        _forward_labels,
        init=_init_labels,
        dims={"nO": nO, "nV": 1 << bits},
        params={"W": None},
        attrs={NULL_LABEL: False},
    )


def _init_labels(
    model: Model[LabelsInT, Floats2d], X: LabelsInT | None = None, Y: Floats2d | None = None
) -> None:
    """Set all weights to zero; nO must be set."""
    model.set_param("W", model.ops.alloc2f(model.get_dim("nV"), model.get_dim("nO")))


def _forward_labels(
    model: Model[LabelsInT, Floats2d], X: LabelsInT, is_train: bool
) -> tuple[Floats2d, Callable[[Floats2d], Any]]:
    """Score; the callback adds the gradient of the weights, and returns zeros."""
    keys, _, arcs = X
    places = _find_places(keys, arcs, model.get_dim("nV"))
    weights: Floats2d = model.get_param("W")
    scores = model.ops.gather_add(weights, places)

    def backprop(d_scores: Floats2d) -> Any:
        d_weights = gradient_of(model, "W")
        d_scores = np.ascontiguousarray(d_scores)
        columns: Ints2d = np.ascontiguousarray(places.T)
        for column in columns:
            model.ops.scatter_add(d_weights, column, d_scores)
        return np.zeros_like(keys)

    return scores, backprop


def _find_places(keys: Ints2d, arcs: Arcs, n_weights: int) -> Ints2d:
    """Find the places of each arc's weights: one per template, with the arc's direction."""
    n_templates = keys.shape[1] // 2
    directions = make_bucket_keys(n_templates)[arcs.buckets, -1:]
    places = keys[arcs.deps, :n_templates] + keys[arcs.heads, n_templates:] + directions
    return (places & np.uint32(n_weights - 1)).astype(np.int32)


# --- gradients ---------------------------------------------------------------------------------


def gradient_of(model: Model[Any, Any], name: str) -> Any:
    """Return the gradient of a parameter, zeros if there is none, to add to in place.

    `Model.inc_grad` takes a gradient as large as the parameter, though few entries differ from 0.
    """
    if not model.has_grad(name):
        model.set_grad(name, model.ops.xp.zeros_like(model.get_param(name)))
    return model.get_grad(name)
