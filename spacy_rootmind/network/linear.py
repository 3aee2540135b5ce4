"""A parser without a neural network: scores are sums of weights of hashed features.

`build_linear_parser` is registered as `spacy_rootmind.LinearParser.v1`. Its three layers score
sentence starts, arcs, and the labels of chosen arcs.

A feature of an arc is a conjunction of attributes of the dependent and of the head. Each side has a
random key per template, and the key of the feature is their sum, so only keys of tokens are stored
for the n^2 arcs of a sentence. Its lowest bits are the place of its weight, so some features share
a weight (Weinberger et al. 2009, Feature Hashing for Large Scale Multitask Learning). Keys depend
on the attributes only, not on the processor or NumPy's version. They have no gradient, so the
gradients of all inputs are zero.
"""

from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from thinc.api import Model, NumpyOps, registry

from spacy_rootmind.kernel.linear import ArcFeatures
from spacy_rootmind.network import distance
from spacy_rootmind.network.architecture import ParserModel, check_number, forward, init
from spacy_rootmind.network.boundaries import NOT_A_WORD, BoundaryInput
from spacy_rootmind.network.label_scorer import NULL_LABEL, LabelInput
from spacy_rootmind.network.layout import Layout
from spacy_rootmind.network.listeners import GRAD_FACTOR
from spacy_rootmind.network.tree_scorer import (
    TreeGradient,
    TreeInput,
    TreeScores,
    flat_tokens,
    lay_out,
)
from spacy_rootmind.network.types import Floats1d, Floats2d, Ints1d, Ints2d

# Attributes of words that need no component before the parser.
ATTRS = ("NORM", "PREFIX", "SUFFIX", "SHAPE")
# Weights are found by 32-bit keys.
MAX_BITS = 30
# Logarithm to base 2 of the number of weights of sentence starts.
START_BITS = 16
# Attributes of the layer of arcs that decide what its weights mean.
N_ATTRS, CONTEXT = "n_attrs", "context_column"
# "Attributes" of ROOT, and of what comes after the last word.
ROOT_ATTRIBUTE = 0x9E3779B97F4A7C15
END_ATTRIBUTE = 0xC2B2AE3D27D4EB4F
# In place of an attribute's number in a template.
NOTHING = -1
# Contexts: the token with the one before it, and with the one after it.
N_CONTEXTS = 2
# Columns of ArcKeys.between: as the dependent, the head, the words between, and that alone.
N_BETWEEN = 4


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

    Raises
    ------
    ValueError
        If a number of bits is out of range.

    References
    ----------
    McDonald, Crammer & Pereira (2005), Online Large-Margin Training of Dependency Parsers,
    table 1.
    Jurafsky & Martin, Speech and Language Processing (3rd edition draft), section 18.3.2.
    """
    check_number("arc_bits", arc_bits, Integral, 1, MAX_BITS + 1)
    check_number("label_bits", label_bits, Integral, 1, MAX_BITS + 1)
    columns = [*attrs] if context in attrs else [*attrs, context]
    width = len(columns)
    attributes: Model = registry.get("layers", "spacy.FeatureExtractor.v1")(columns)
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


def _init(model: Model, X: Any = None, Y: Any = None) -> None:
    """Set all weights to zero, of layers within as well."""
    shape = [model.get_dim(name) for name in ("nV", "nO") if name in model.dim_names]
    model.set_param("W", model.ops.alloc(tuple(shape)))
    for layer in model.layers:
        layer.initialize()


def _gradient_of(model: Model) -> Any:
    """Return the gradient of the weights, zeros if there is none, to add to in place.

    `Model.inc_grad` takes a gradient as large as the parameter, though few entries differ from 0.
    """
    if not model.has_grad("W"):
        model.set_grad("W", model.ops.xp.zeros_like(model.get_param("W")))
    return model.get_grad("W")


# --- sentence starts ---------------------------------------------------------------------------


def LinearStarts(nI: int) -> Model:
    """Score each word as a sentence start by its attributes and its neighbours'.

    A BoundaryInput has `nI` columns of attributes, uint64, instead of vectors; scores are as from
    `boundaries.SentenceStarts`.
    """
    return Model(
        "linear_starts",
        _forward_starts,
        init=_init,
        dims={"nI": nI, "nV": 1 << START_BITS},
        params={"W": None},
    )


def _forward_starts(
    model: Model, X: BoundaryInput, is_train: bool
) -> tuple[Floats1d, Callable[[Floats1d], list[Floats2d]]]:
    """Score all tokens; the callback adds the gradient of the weights, and returns zeros."""
    weights = model.get_param("W")
    scores: Floats1d = np.full(sum(map(len, X.vectors)), NOT_A_WORD, dtype=weights.dtype)
    mask = np.uint32(model.get_dim("nV") - 1)
    found = []
    start = 0
    for attributes, own in zip(X.vectors, X.words, strict=True):
        words, places = own + start, make_start_keys(attributes[own]) & mask
        scores[words] = weights[places].sum(axis=1)
        found.append((words, places))
        start += len(attributes)

    def backprop(d_scores: Floats1d) -> list[Floats2d]:
        d_weights = _gradient_of(model)
        for words, places in found:
            np.add.at(d_weights, places, d_scores[words, None])
        return [np.zeros_like(own) for own in X.vectors]

    return scores, backprop


# --- arcs --------------------------------------------------------------------------------------


def LinearTreeScorer(
    n_attrs: int, context: int, nI: int, arc_bits: int, label_bits: int, nO: int | None = None
) -> Model:
    """Score arcs by sums of weights of features, as McDonald et al.

    `list_templates` lists the features; each counts alone and combined with the arc's direction and
    distance (`distance.BOUNDS`). Each distinct context attribute between dependent and head adds
    two, combined with the direction: it alone, and with the attributes of dependent and head.

    A TreeInput has `nI` columns of attributes, uint64, instead of vectors; `n_attrs` and `context`
    are as in `make_arc_keys`. `TreeScores.rows` are keys of features. The label layer has the same
    templates and weights of its own.
    """
    labels = LinearLabels(label_bits, nO=nO)
    return Model(
        "linear_trees",
        _forward_trees,
        init=_init,
        dims={"nI": nI, "nV": 1 << arc_bits},
        params={"W": None},
        layers=[labels],
        refs={"labels": labels},
        attrs={N_ATTRS: n_attrs, CONTEXT: context},
    )


def _forward_trees(
    model: Model, X: TreeInput, is_train: bool
) -> tuple[TreeScores, Callable[[TreeGradient], list[Floats2d]]]:
    """Score; the callback adds the gradient of the weights, and returns zeros for the input."""
    layout = lay_out(X)
    none = np.zeros((0, model.get_dim("nI")), dtype=np.uint64)
    attributes = np.concatenate([none, *X.vectors])[flat_tokens(X)]
    n_attrs = model.attrs[N_ATTRS]
    keys = make_arc_keys(attributes, layout, n_attrs, model.attrs[CONTEXT])
    bucket_keys = make_bucket_keys(len(list_templates(n_attrs)))
    weights: Any = model.get_param("W")
    features = [
        ArcFeatures(*keys, bucket_keys, own.distances, layout.roots[own.sentences], own.lengths)
        for own in layout.buckets
    ]
    scores = [
        np.zeros((*own.rows.shape, own.rows.shape[1]), weights.dtype) for own in layout.buckets
    ]
    for arcs, own in zip(features, scores, strict=True):
        arcs.score(weights, own)

    def backprop(gradient: TreeGradient) -> list[Floats2d]:
        [d_scores] = gradient.rounds
        d_weights = _gradient_of(model)
        for arcs, own in zip(features, d_scores, strict=True):
            arcs.add_gradient(d_weights, np.ascontiguousarray(own, dtype=d_weights.dtype))
        return [np.zeros_like(own) for own in X.vectors]

    return TreeScores(layout, [scores], keys.templates), backprop


# --- labels ------------------------------------------------------------------------------------


def LinearLabels(bits: int, nO: int | None = None) -> Model:
    """Score every label on each of the given arcs, from `ArcKeys.templates`.

    Keys are of shape (n_rows, 2 * n_templates), scores of shape (n_arcs, nO); each label has 2 to
    the power of `bits` weights.
    """
    return Model(
        "linear_labels",
        _forward_labels,
        init=_init,
        dims={"nO": nO, "nV": 1 << bits},
        params={"W": None},
        attrs={NULL_LABEL: False},
    )


def _forward_labels(
    model: Model, X: LabelInput, is_train: bool
) -> tuple[Floats2d, Callable[[Floats2d], Any]]:
    """Score; the callback adds the gradient of the weights, and returns zeros."""
    # A key for each template, with the arc's direction.
    n_templates = X.rows.shape[1] // 2
    directions = make_bucket_keys(n_templates)[X.layout.arc_distances(X.deps, X.heads), -1:]
    keys = X.rows[X.deps, :n_templates] + X.rows[X.heads, n_templates:] + directions
    places = (keys & np.uint32(model.get_dim("nV") - 1)).astype(np.int32)
    weights: Floats2d = model.get_param("W")
    scores = model.ops.gather_add(weights, places)

    def backprop(d_scores: Floats2d) -> Any:
        d_weights = _gradient_of(model)
        d_scores = np.ascontiguousarray(d_scores)
        columns: Ints2d = np.ascontiguousarray(places.T)
        for column in columns:
            model.ops.scatter_add(d_weights, column, d_scores)
        return np.zeros_like(X.rows)

    return scores, backprop


# --- keys of features -----------------------------------------------------------------------------


class ArcKeys(NamedTuple):
    """Keys of the rows of a layout.

    Attributes
    ----------
    templates : uint32 array of shape (n_rows, 2 * n_templates)
        The key as the dependent for each template, then the key as the head for each.
    between : uint32 array of shape (n_rows, N_BETWEEN)
        Keys in features of the words between dependent and head.
    previous : int32 array of shape (n_rows,)
        The last earlier row of the sentence with the same context attribute, or -1.
    """

    templates: Ints2d
    between: Ints2d
    previous: Ints1d


def list_templates(n_attrs: int) -> list[tuple[int, int]]:
    """List the templates: the attributes of the dependent and of the head in a feature.

    Each attribute and context alone, each pair of attributes, and each pair of contexts. Numbers
    from `n_attrs` on are contexts; NOTHING stands for no attribute.
    """
    attrs = range(n_attrs)
    contexts = range(n_attrs, n_attrs + N_CONTEXTS)
    alone = [*attrs, *contexts]
    return [
        *((one, NOTHING) for one in alone),
        *((NOTHING, one) for one in alone),
        *((dep, head) for dep in attrs for head in attrs),
        *((dep, head) for dep in contexts for head in contexts),
    ]


def make_arc_keys(attributes: Ints2d, layout: Layout, n_attrs: int, context: int) -> ArcKeys:
    """Make the keys of words and of ROOT, from attributes of words: uint64, (n_words, n_columns).

    The first `n_attrs` columns are attributes of dependents and heads; the column `context` is the
    attribute of neighbours and of the words between.
    """
    rows = np.full((layout.n_rows, attributes.shape[1]), ROOT_ATTRIBUTE, dtype=np.uint64)
    rows[layout.words] = attributes
    own = mix(rows[:, context])
    # The key of nothing is 1, so that factors tell templates apart.
    nothing = np.ones(layout.n_rows, dtype=np.uint64)
    parts = [mix(rows[:, :n_attrs] + _odd(n_attrs)), *_contexts(own, layout), nothing]
    sides = np.column_stack(parts)
    sources = np.transpose(list_templates(n_attrs)).ravel()
    factors = _odd(len(sources) + N_BETWEEN)
    keys = _upper(sides[:, sources] * factors[: len(sources)])
    between = _upper(own[:, None] * factors[None, -N_BETWEEN:])
    return ArcKeys(keys, between, _find_previous(rows[:, context], layout))


def make_bucket_keys(n_templates: int) -> Ints2d:
    """Make keys of distances, (N_BUCKETS, n_templates + 1); the last column has directions."""
    numbers = np.arange(1, distance.N_BUCKETS * n_templates + 1, dtype=np.uint64)
    keys = _upper(mix(numbers)).reshape((distance.N_BUCKETS, n_templates))
    is_after = np.arange(distance.N_BUCKETS) > len(distance.BOUNDS)
    directions = _upper(mix(numbers[:2]))[is_after.astype(np.intp)]
    return np.ascontiguousarray(np.column_stack((keys, directions)))


def mix(numbers: Ints1d | Ints2d) -> Ints1d | Ints2d:
    """Spread the bits of 64-bit integers (the finalizer of SplitMix64, by Steele et al. 2014)."""
    mixed = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def _odd(n: int) -> Ints1d:
    """Make odd random numbers, for multiplications that lose no information."""
    steps = np.arange(1, n + 1, dtype=np.uint64) * np.uint64(ROOT_ATTRIBUTE)
    return mix(steps) | np.uint64(1)


def _upper(numbers: Ints2d) -> Ints2d:
    return (numbers >> np.uint64(32)).astype(np.uint32, order="C")


def _contexts(own: Ints1d, layout: Layout) -> list[Ints1d]:
    """Combine each row with the one before and the one after it in its sentence."""
    before, after = np.roll(own, 1), np.roll(own, -1)
    lasts = layout.roots + layout.lengths
    after[lasts] = mix(np.array([END_ATTRIBUTE], dtype=np.uint64))
    before[layout.roots] = after[lasts]
    left, right = np.uint64(0x9FB21C651E98DF25), np.uint64(0xD6E8FEB86659FD93)
    return [mix(before * left + own), mix(after * right + own)]


def _find_previous(attribute: Ints1d, layout: Layout) -> Ints1d:
    """Find the last row before each with the same attribute in the same sentence, or -1."""
    # Stable: rows of a group stay in order.
    order = np.lexsort((attribute, layout.sentence_of_row))
    is_same = (attribute[order[1:]] == attribute[order[:-1]]) & (
        layout.sentence_of_row[order[1:]] == layout.sentence_of_row[order[:-1]]
    )
    previous: Ints1d = np.full(len(attribute), -1, dtype=np.int32)
    previous[order[1:][is_same]] = order[:-1][is_same]
    return previous


def make_start_keys(attributes: Ints2d) -> Ints2d:
    """Make keys of words as sentence starts, from their attributes: uint64, (n_words, n_columns).

    Returns uint32 (n_words, 4 * n_columns): keys of each attribute of the word, of the word before,
    of the word after, and of the word and the word before together.
    """
    n_columns = attributes.shape[1]
    own = mix(attributes + _odd(n_columns))
    edge = np.full((1, n_columns), END_ATTRIBUTE, dtype=np.uint64)
    before = np.concatenate((edge, own[:-1]))[: len(own)]
    after = np.concatenate((own[1:], edge))[: len(own)]
    parts = np.concatenate((own, before, after, mix(own + before)), axis=1)
    return _upper(parts * _odd(parts.shape[1]))
