"""Label scores of chosen arcs: a biaffine product plus a perceptron.

Arcs are given by the flat rows of their ends, in NumPy arrays. Column i of the scores is label
number i + 1: number 0 is the root's label, which needs no score, as in `RootMST.labels`.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from thinc.api import Linear, Maxout, Model, glorot_uniform_init, uniform_init

from spacy_rootmind.kernel import layers as kernel
from spacy_rootmind.network import distance
from spacy_rootmind.network.dropout import RATE, sentence_dropout
from spacy_rootmind.network.layout import Layout
from spacy_rootmind.network.ops import HOST, Compiled, Predict, Read, prepare_dense, run_layer
from spacy_rootmind.network.tree_scorer import TreeScores
from spacy_rootmind.network.types import Floats2d, Floats3d, Ints1d

# Width of the perceptron, as a multiple of the biaffine product's sides; the cost of the latter
# grows with the square of their width.
HIDDEN_FACTOR = 2
# How far below the mean of the others the scores of a new label start.
NEW_LABEL_GAP = 5.0
# Arcs that are scored at once; each takes memory for a hidden layer per label.
MAX_ARCS = 4096
# Parameters of the biaffine term with a rank: of dependents and of heads.
PROJECTIONS = ("P", "Q")
# Model attribute: whether a wrong arc has a score of its own, after all labels.
NULL_LABEL = "null_label"


class LabelInput(NamedTuple):
    """Rows of words and ROOT, and arcs between them.

    Attributes
    ----------
    rows : float array of shape (n_rows, width)
    layout : Layout
    deps, heads : int array of shape (n_arcs,)
        Flat rows.
    kept : dict, optional
        In prediction, layers keep here what depends on the rows alone, for other arcs.
    """

    rows: Floats2d
    layout: Layout
    deps: Ints1d
    heads: Ints1d
    kept: dict[int, Any] | None = None


OutT = Floats2d
# The network's label layer, its reference "labels".
Labeller = Model[Any, Floats2d]


def BiaffineLabels(
    hidden_width: int,
    dropout: float,
    null_label: bool = False,
    rank: int | None = None,
    nO: int | None = None,
) -> Model:
    """Score every label on each of the given arcs.

    score[l] = [D; 1] U[l] [H; 1] + V[l] maxout(A d + B h + C[q]), where d and h are the dependent's
    and the head's row, D and H perceptrons of them, and q is the bucket of the distance from one to
    the other. The second term has interactions that the first, being bilinear, lacks.

    With a rank, U[l] is P G[l] Qᵀ, with P and Q the same for all labels: a Tucker decomposition of
    the tensor U. A score then takes rank² multiplications instead of hidden_width².

    Returns
    -------
    model : Model[LabelInput, scores]
        scores : float array of shape (n_arcs, nO), or (n_arcs, nO + 1) with the null label last.

    References
    ----------
    The first term: Dozat & Manning (2017), Deep Biaffine Attention for Neural Dependency Parsing,
    section 3. Its rank: Tucker (1966), Some mathematical notes on three-mode factor analysis.
    """
    return Model(
        "biaffine_labels",
        Compiled(prepare, forward),
        init=init,
        dims={"nO": nO, "nI": None, "nH": hidden_width},
        layers=[biaffine_term(hidden_width, dropout, rank), perceptron_term(hidden_width, dropout)],
        attrs={NULL_LABEL: null_label},
        ops=HOST,
    )


def init(model: Model, X: Any = None, Y: Any = None) -> None:
    """Size both terms."""
    for term in model.layers:
        term.set_dim("nI", model.get_dim("nI"))
        term.set_dim("nO", model.get_dim("nO") + model.attrs[NULL_LABEL])
        term.initialize()


def prepare(read: Read, model: Model) -> Predict:
    """Prepare the weights for prediction on a CPU."""
    biaffine, perceptron = model.layers
    hidden = [prepare_dense(read, layer) for layer in biaffine.layers]
    project = [_prepare_projection(read, biaffine, name) for name in PROJECTIONS]
    U, C = read(biaffine, "U"), read(perceptron, "C")
    product = kernel.Dense(U.reshape((len(U), -1)))
    *sums, output = (prepare_dense(read, layer) for layer in perceptron.layers)

    def predict(X: LabelInput) -> OutT:
        deps, heads, kept = X.deps, X.heads, {} if X.kept is None else X.kept
        if model.id not in kept:
            sides = zip(project, hidden, strict=True)
            parts = [own(layer(X.rows)) for own, layer in sides]
            kept[model.id] = *parts, *(layer(X.rows) for layer in sums)
        D, H, A, B = kept[model.id]
        # With many arcs of few words, as in alternative trees, words are multiplied once.
        if len(deps) > len(D):
            words, places = np.unique(deps, return_inverse=True)
            DU = product(D[words])[places]
        else:
            DU = product(D[deps])
        scores = (DU.reshape((-1, *U.shape[1:])) @ H[heads][:, :, None])[:, :, 0]
        buckets = X.layout.arc_distances(deps, heads)
        return scores + output(kernel.arc_maxout(A, B, C, deps, heads, buckets)[0])

    return predict


def forward(model: Model, X: LabelInput, is_train: bool) -> tuple[OutT, Callable[[OutT], Floats2d]]:
    """Add both terms; the callback takes the scores' gradient to the rows' gradient."""
    biaffine_term, perceptron_term = model.layers
    biaffine, backprop_biaffine = biaffine_term(X, is_train)
    perceptron, backprop_perceptron = perceptron_term(X, is_train)

    def backprop(d_scores: OutT) -> Floats2d:
        return backprop_biaffine(d_scores) + backprop_perceptron(d_scores)

    return biaffine + perceptron, backprop


# --- the biaffine term -------------------------------------------------------------------------


def biaffine_term(hidden_width: int, dropout: float, rank: int | None = None) -> Model:
    """Compute [D; 1] U[l] [H; 1], with D and H perceptrons of the arc's two rows.

    With a rank, U is the tensor between projections P and Q of both sides.
    """
    dims: dict[str, int | None] = {"nO": None, "nI": None, "nH": hidden_width}
    params: dict[str, Any] = {"U": None}
    if rank is not None:
        dims["nR"] = rank
        params |= dict.fromkeys(PROJECTIONS)
    return Model(
        "label_biaffine",
        biaffine_forward,
        init=biaffine_init,
        dims=dims,
        params=params,
        layers=[Maxout(nO=hidden_width, nP=2), Maxout(nO=hidden_width, nP=2)],
        attrs={RATE: dropout},
        ops=HOST,
    )


def biaffine_init(model: Model, X: Any = None, Y: Any = None) -> None:
    """Draw the parameters; all scores start near zero."""
    for layer in model.layers:
        layer.set_dim("nI", model.get_dim("nI"))
        layer.initialize()
    width = side = model.get_dim("nH") + 1
    if model.has_dim("nR"):
        side = model.get_dim("nR")
        for name in PROJECTIONS:
            model.set_param(name, glorot_uniform_init(model.ops, (width, side)))
    shape = (side, model.get_dim("nO"), side)
    model.set_param("U", uniform_init(model.ops, shape, lo=-0.01, hi=0.01))


def biaffine_forward(
    model: Model, X: LabelInput, is_train: bool
) -> tuple[OutT, Callable[[OutT], Floats2d]]:
    """Score with one matrix product for all labels."""
    ops = model.ops
    (D_all, backprop_D), (H_all, backprop_H) = (
        _read_side(model, X, side, is_train) for side in range(2)
    )
    D, H = D_all[X.deps], H_all[X.heads]
    U: Floats3d = model.get_param("U")
    width, n_labels, _ = U.shape
    U_flat = U.reshape((width, n_labels * width))
    DU: Floats3d = ops.gemm(D, U_flat)
    DU = DU.reshape((-1, n_labels, width))
    scores = (DU @ H[:, :, None])[:, :, 0]

    def backprop(d_scores: OutT) -> Floats2d:
        dDU = (d_scores[:, :, None] * H[:, None, :]).reshape((-1, n_labels * width))
        dU: Floats2d = ops.gemm(D, dDU, trans1=True)
        model.inc_grad("U", dU.reshape(U.shape))
        dH = (d_scores[:, None, :] @ DU)[:, 0]
        dD = ops.gemm(dDU, U_flat, trans2=True)
        dD_all, dH_all = _scatter(model, X, D_all, dD, dH)
        return backprop_D(dD_all) + backprop_H(dH_all)

    return scores, backprop


def _read_side(
    model: Model, X: LabelInput, side: int, is_train: bool
) -> tuple[Floats2d, Callable[[Floats2d], Floats2d]]:
    """Compute what rows contribute as dependents, side 0, or as heads, side 1.

    Appends a one to each row of the hidden layer, and projects the rows if the layer has a rank.
    """
    ops, name = model.ops, PROJECTIONS[side]
    hidden, backprop_hidden = run_layer(model.layers[side], X.rows, is_train)
    hidden, drop = sentence_dropout(model, X.layout, hidden, is_train)
    if not model.has_param(name):
        ones = np.ones((hidden.shape[0], 1), dtype=hidden.dtype)
        extended = np.concatenate((hidden, ones), axis=1)
        return extended, lambda d: backprop_hidden(drop(ops.as_contig(d[:, :-1])))
    weights: Floats2d = model.get_param(name)

    def backprop(d_projected: Floats2d) -> Floats2d:
        of_rows: Any = ops.gemm(hidden, d_projected, trans1=True)
        d_weights: Any = np.concatenate((of_rows, d_projected.sum(axis=0)[None]))
        model.inc_grad(name, d_weights)
        return backprop_hidden(drop(ops.gemm(d_projected, weights[:-1], trans2=True)))

    return ops.gemm(hidden, weights[:-1]) + weights[-1], backprop


def _prepare_projection(read: Read, model: Model, name: str) -> Predict:
    if model.has_param(name):
        weights = read(model, name)
        return kernel.Dense(weights[:-1], weights[-1])
    return lambda hidden: np.concatenate(
        (hidden, np.ones((len(hidden), 1), dtype=np.float32)), axis=1
    )


def _scatter(
    model: Model,
    X: LabelInput,
    like: Floats2d,
    d_deps: Floats2d,
    d_heads: Floats2d,
) -> tuple[Floats2d, Floats2d]:
    """Add the gradients of the arcs' two sides to their rows, which may have many arcs."""
    all_deps, all_heads = np.zeros_like(like), np.zeros_like(like)
    for rows, d_rows, total in ((X.deps, d_deps, all_deps), (X.heads, d_heads, all_heads)):
        model.ops.scatter_add(total, rows.astype("int32"), model.ops.as_contig(d_rows))
    return all_deps, all_heads


# --- the perceptron term -----------------------------------------------------------------------


def perceptron_term(hidden_width: int, dropout: float) -> Model:
    """Compute V[l] maxout(A d + B h + C[q])."""
    width = 2 * HIDDEN_FACTOR * hidden_width
    return Model(
        "label_perceptron",
        perceptron_forward,
        init=perceptron_init,
        dims={"nO": None, "nI": None, "nH": HIDDEN_FACTOR * hidden_width},
        params={"C": None},
        layers=[Linear(nO=width), Linear(nO=width), Linear(nI=HIDDEN_FACTOR * hidden_width)],
        attrs={RATE: dropout},
        ops=HOST,
    )


def perceptron_init(model: Model, X: Any = None, Y: Any = None) -> None:
    """Draw the parameters."""
    dep_layer, head_layer, output = model.layers
    dep_layer.set_dim("nI", model.get_dim("nI"))
    head_layer.set_dim("nI", model.get_dim("nI"))
    output.set_dim("nO", model.get_dim("nO"))
    for layer in model.layers:
        layer.initialize()
    shape = (distance.N_BUCKETS, 2 * model.get_dim("nH"))
    model.set_param("C", uniform_init(model.ops, shape, lo=-0.1, hi=0.1))


def perceptron_forward(
    model: Model, X: LabelInput, is_train: bool
) -> tuple[OutT, Callable[[OutT], Floats2d]]:
    """Score; each row is multiplied by A and B once, however many arcs it has."""
    ops = model.ops
    dep_layer, head_layer, output = model.layers
    A, backprop_A = run_layer(dep_layer, X.rows, is_train)
    B, backprop_B = run_layer(head_layer, X.rows, is_train)
    C: Floats2d = model.get_param("C")
    buckets = X.layout.arc_distances(X.deps, X.heads)
    hidden, which = kernel.arc_maxout(A, B, C, X.deps, X.heads, buckets)
    hidden, drop = sentence_dropout(model, X.layout, hidden, is_train, X.deps)
    scores, backprop_output = run_layer(output, hidden, is_train)

    def backprop(d_scores: OutT) -> Floats2d:
        d_hidden = drop(backprop_output(d_scores))
        d_sums = ops.backprop_maxout(d_hidden, which, 2).reshape((len(d_hidden), -1))
        model.inc_grad("C", distance.collect_flat(d_sums, buckets))
        dA, dB = _scatter(model, X, A, d_sums, d_sums)
        return backprop_A(dA) + backprop_B(dB)

    return scores, backprop


# --- more labels -------------------------------------------------------------------------------


def add_label(model: Model) -> None:
    """Give a parser's network one more label, whose scores start below the mean of the others.

    Thus no arc has it as its best label before it is trained. Weights stay, in new layers: an
    optimizer keeps arrays of each layer's size.
    """
    old = model.get_ref("labels")
    labeller, n_labels = old.copy(), old.get_dim("nO")
    if labeller.layers:
        biaffine, perceptron = labeller.layers
        _widen(labeller, n_labels, {})
        _widen(biaffine, n_labels, {"U": (1, 0.0)})
        _widen(perceptron, n_labels, {})
        _widen(perceptron.layers[-1], n_labels, {"W": (0, 0.0), "b": (0, -NEW_LABEL_GAP)})
    else:
        _widen(labeller, n_labels, {"W": (1, 0.0)})
    # As `Model.replace_node`, which fails where a reference is unset (Thinc 8.3).
    for node in list(model.walk(order="dfs_post")):
        node.layers[:] = [labeller if layer is old else layer for layer in node.layers]
        for name in node.ref_names:
            if node.maybe_get_ref(name) is old:
                node.set_ref(name, labeller)


def _widen(layer: Model, n_labels: int, axes: dict[str, tuple[int, float]]) -> None:
    """Give a layer one more output, before the null label's.

    `axes` has the parameters with an entry for each output: its axis, and what is added to the mean
    of the others.
    """
    xp = layer.ops.xp
    params: dict[str, Any] = {name: layer.get_param(name) for name in layer.param_names}
    for name, (axis, offset) in axes.items():
        labels, null = xp.split(params[name], [n_labels], axis=axis)
        added = labels.mean(axis=axis, keepdims=True) + offset
        params[name] = xp.concatenate((labels, added, null), axis=axis)
        # A gradient that was not used yet has the old size.
        layer.set_grad(name, xp.zeros_like(params[name]))
    # Thinc changes no dimension of a layer that has parameters.
    for name in params:
        layer.set_param(name, None)
    layer.set_dim("nO", layer.get_dim("nO") + 1, force=True)
    for name, weights in params.items():
        layer.set_param(name, weights)


# --- scores of arcs in training and prediction --------------------------------------------------


class ChosenArcs(NamedTuple):
    """Arcs to label, with what their labels should be in training.

    Attributes
    ----------
    deps, heads : int array of shape (n_arcs,)
        Flat rows.
    targets : int array of shape (n_arcs,) or float array of shape (n_arcs, n_labels)
        Column of the right label; or the weight of each label, which need not sum to one.
    weight : float
        Weight of these arcs in the loss.
    """

    deps: Ints1d
    heads: Ints1d
    targets: Ints1d | Floats2d
    weight: float = 1.0


class LabelScores(NamedTuple):
    """Arcs with their label scores, of shape (n_arcs, n_labels), the null label included."""

    arcs: ChosenArcs
    scores: Floats2d


def begin_label_scores(
    labeller: Labeller, trees: TreeScores, arcs: ChosenArcs, is_train: bool
) -> tuple[LabelScores, Callable[[Floats2d], Floats2d]]:
    """Score labels of chosen arcs; the callback finds the gradient of `trees.rows`."""
    given = LabelInput(trees.rows, trees.layout, arcs.deps, arcs.heads)
    scores, backprop = labeller(given, is_train)
    return LabelScores(arcs, scores), backprop


def iterate_label_scores(
    labeller: Labeller, trees: TreeScores, deps: Ints1d, heads: Ints1d
) -> Iterator[tuple[int, Floats2d]]:
    """Score labels of any number of arcs in bounded memory, without dropout.

    Yields the index of the first arc of each chunk, and the chunk's scores, of shape
    (n_arcs, n_labels), without the null label. A word whose label is fixed has no other: -inf.
    """
    for start in range(0, len(deps), MAX_ARCS):
        chunk = slice(start, start + MAX_ARCS)
        given = LabelInput(trees.rows, trees.layout, deps[chunk], heads[chunk], trees.kept)
        scores = labeller.predict(given)
        scores = scores[:, : labeller.get_dim("nO")]
        if trees.forced_labels is not None:
            labels = trees.forced_labels[deps[chunk]]
            fixed: Any = np.flatnonzero(labels)
            scores[fixed] = -np.inf
            scores[fixed, labels[fixed] - 1] = 0.0
        yield start, scores


def find_best_labels(
    labeller: Labeller, trees: TreeScores, deps: Ints1d, heads: Ints1d, temperature: float = 1.0
) -> tuple[Ints1d, NDArray[np.float64]]:
    """Find the number of the best label of each arc, from 1, and its log probability.

    Scores are divided by the temperature.
    """
    labels, log_probs = np.empty(len(deps), dtype=np.int64), np.empty(len(deps))
    for start, scores in iterate_label_scores(labeller, trees, deps, heads):
        behind = scores - scores.max(axis=1, keepdims=True)
        totals = np.exp(behind / temperature).sum(axis=1)
        own = slice(start, start + len(scores))
        labels[own] = scores.argmax(axis=1) + 1
        log_probs[own] = -np.log(totals.astype(np.float64))
    return labels, log_probs


def find_label_log_probs(
    labeller: Labeller, trees: TreeScores, deps: Ints1d, heads: Ints1d, temperature: float = 1.0
) -> NDArray[np.float64]:
    """Find the log probabilities of all labels of each arc, of shape (n_arcs, n_labels).

    Column i is that of label number i + 1. Scores are divided by the temperature.
    """
    parts = [np.zeros((0, labeller.get_dim("nO")))]
    for _, scores in iterate_label_scores(labeller, trees, deps, heads):
        log_weights = scores.astype(np.float64)
        behind = (log_weights - log_weights.max(axis=1, keepdims=True)) / temperature
        parts.append(behind - np.log(np.exp(behind).sum(axis=1, keepdims=True)))
    return np.concatenate(parts)


def find_probable_labels(
    labeller: Labeller,
    trees: TreeScores,
    deps: Ints1d,
    heads: Ints1d,
    arc_probs: NDArray[np.float64],
    threshold: float,
    temperature: float,
) -> tuple[Ints1d, Ints1d, NDArray[np.float64]]:
    """Find the labelled arcs with a probability of at least `threshold`.

    `arc_probs` are probabilities of the arcs, whatever their labels; scores of labels are divided
    by the temperature. Returns the index of each arc that is found in `deps`, the number of its
    label, from 1, and the probability of arc and label together.
    """
    found = [(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0))]
    for start, scores in iterate_label_scores(labeller, trees, deps, heads):
        label_probs = HOST.softmax(scores / temperature).astype(np.float64)
        probs = label_probs * arc_probs[start : start + len(label_probs), None]
        arcs, columns = np.nonzero(probs >= threshold)
        found.append((arcs + start, columns, probs[arcs, columns]))
    arcs, columns, probs = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return arcs, columns + 1, probs
