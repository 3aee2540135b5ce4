"""The training objective: from gold trees or teachers, and the scores, to loss and gradient.

Pure functions of their arguments: no layer runs here, and no gradient is accumulated.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from spacy_rootmind.annotation.gold import GoldBatch, drop_contradictions
from spacy_rootmind.annotation.reading import NO_LABEL
from spacy_rootmind.annotation.teacher_records import TeacherTarget
from spacy_rootmind.network.architecture import ParserGradient, ParserScores, require_finite
from spacy_rootmind.network.label_scorer import ChosenArcs
from spacy_rootmind.network.layout import Bucket, Layout
from spacy_rootmind.network.ops import HOST
from spacy_rootmind.network.tree_scorer import TreeScores
from spacy_rootmind.network.types import Floats1d, Floats2d, Floats3d, Ints1d, Ints2d
from spacy_rootmind.trees import losses
from spacy_rootmind.trees.conventions import MISSING, ROOT

# The default of the component's setting `margin`.
MARGIN = 1.0

# Called with scores, gold heads and lengths, over trees with a single root.
Loss = Callable[..., losses.Loss]
OBJECTIVES: dict[str, Loss] = {
    "head_selection": losses.head_selection,
    "tree_crf": losses.tree_crf,
    "perceptron": losses.perceptron,
}

# Weight of the arc scores of all rounds of refinement but the last, whose weight is 1.
EARLY_ROUND_WEIGHT = 0.5
# Weight of the labels of gold arcs: at 1, heads are learnt well before labels are.
LABEL_WEIGHT = 2.0
# Weight of the null label on the best wrong arc of each word.
NULL_WEIGHT = 1.0


def parser_loss(
    gold: GoldBatch,
    scores: ParserScores,
    objective: str,
    finds_boundaries: bool,
    margin: float = MARGIN,
) -> tuple[float, ParserGradient]:
    """Sum the losses of arcs, labels and sentence boundaries; returns the sum and its gradient.

    The scores are of the same Docs and sentences, with label scores of the arcs of `arcs_to_label`;
    scores that are not finite are refused. Boundaries are trained if
    `finds_boundaries`. The margin is the perceptron's, per wrong arc.
    """
    total, rounds = _arc_loss(gold, scores.trees, objective, margin)
    d_labels: list[Floats2d] = []
    for arcs, own in scores.labels or ():
        loss, gradient = _label_cross_entropy(own, arcs.targets)
        total += loss * arcs.weight
        d_labels.append(gradient * arcs.weight)
    d_boundaries = None
    if finds_boundaries:
        truths: Floats1d = gold.boundaries.astype("f4")
        loss, d_boundaries = boundary_loss(scores.boundaries, truths)
        total += loss
    return total, ParserGradient(rounds, d_labels, d_boundaries)


# --- arcs --------------------------------------------------------------------------------------


def _arc_loss(
    gold: GoldBatch, scores: TreeScores, objective: str, margin: float
) -> tuple[float, list[list[Floats3d]]]:
    """Sum the losses of all buckets in all rounds; also the gradients of each round's scores."""
    gold_loss, layout = OBJECTIVES[objective], scores.layout
    if objective == "perceptron":
        gold_loss = partial(gold_loss, margin=margin)
    require_finite(scores.arcs, "arc")
    total = 0.0
    gradients: list[list[Floats3d]] = [[] for _ in scores.rounds]
    for i, (bucket, padded) in enumerate(
        zip(layout.buckets, gold_heads(gold, scores), strict=True)
    ):
        # Losses over trees need heads that form one.
        heads = drop_contradictions(padded, bucket.lengths)
        parts = _parts_of_bucket(gold, bucket, heads, gold_loss)
        for step, arcs in enumerate(scores.rounds):
            weight = 1.0 if arcs is scores.arcs else EARLY_ROUND_WEIGHT
            gradient = np.empty_like(arcs[i])
            for places, loss, target in parts:
                own, lengths = arcs[i][places], bucket.lengths[places]
                each, gradient[places] = loss(own, target, lengths=lengths)
                total += float(each.sum()) * weight
            gradients[step].append(gradient * weight)
    return total, gradients


# The places of sentences in a bucket, their loss, and its target: gold heads or arc marginals.
BucketParts = list[tuple[Any, Loss, Any]]


def _parts_of_bucket(
    gold: GoldBatch, bucket: Bucket, heads: Ints2d, gold_loss: Loss
) -> BucketParts:
    """Find the losses of the sentences with gold trees, and of those with teachers."""
    is_taught = np.array([sentence in gold.targets for sentence in bucket.sentences])
    if not is_taught.any():
        return [(slice(None), gold_loss, heads)]
    places, others = is_taught.nonzero()[0], (~is_taught).nonzero()[0]
    # A distribution over trees enters by its arc marginals alone, see `trees.losses`.
    marginals = np.zeros((len(places), *bucket.rows.shape[1:] * 2))
    for own, place in zip(marginals, places.tolist(), strict=True):
        found = gold.targets[bucket.sentences[place]].marginals
        own[: len(found), : len(found)] = found
    parts: BucketParts = [(places, losses.tree_cross_entropy, marginals)]
    if len(others):
        parts.append((others, gold_loss, heads[others]))
    return parts


def gold_heads(gold: GoldBatch, scores: TreeScores) -> list[Ints2d]:
    """Convert gold heads to places in their sentence: a NumPy array of shape (b, m) per bucket."""
    layout = scores.layout
    roots = layout.roots[layout.sentence_of_row]
    local = np.where(gold.heads == MISSING, MISSING, gold.heads - roots)
    return layout.pad(local, MISSING)


# --- sentence starts ---------------------------------------------------------------------------


def boundary_loss(scores: Floats1d, truths: Floats1d | Ints1d) -> tuple[float, Floats1d]:
    """Sum the cross entropy of sentence starts, in nats; returns it with its gradient.

    Scores are the log-odds that a token starts a sentence, truths the probability that it does: 1
    or 0 where that is known, a teacher's otherwise, and MISSING where unknown; all of shape (n,).
    """
    known = truths != MISSING
    # log(1 + exp(z)) without overflow, z the log-odds of each wrong answer.
    rest = np.log1p(np.exp(-np.abs(scores)))
    each = truths * np.maximum(-scores, 0.0) + (1.0 - truths) * np.maximum(scores, 0.0) + rest
    share = np.exp(np.minimum(scores, 0.0) - rest)
    gradient = ((share - truths) * known).astype(scores.dtype)
    return float((each * known).sum()), gradient


# --- labels ------------------------------------------------------------------------------------


def arcs_to_label(
    gold: GoldBatch, columns: Mapping[int, int], null_column: int | None
) -> Callable[[TreeScores], list[ChosenArcs]]:
    """Choose the arcs whose labels are trained, once their scores are known.

    `columns` has the column of each label in the label scores, by its hash; `null_column` is that
    of the null label, which is trained on wrong arcs, or None.
    """

    def choose(trees: TreeScores) -> list[ChosenArcs]:
        deps, targets = labelled_words(gold, trees, columns)
        chosen = [ChosenArcs(deps, gold.heads[deps], targets, LABEL_WEIGHT)]
        if null_column is not None:
            deps, heads = wrong_arcs(trees, gold_heads(gold, trees))
            targets = np.full(len(deps), null_column)
            chosen.append(ChosenArcs(deps, heads, targets, NULL_WEIGHT))
        if gold.targets:
            n_columns = len(columns) + (null_column is not None)
            arcs = label_targets(trees.layout, gold.targets, columns, n_columns)
            chosen.append(ChosenArcs(*arcs, LABEL_WEIGHT))
        return [arcs for arcs in chosen if len(arcs.deps)]

    return choose


def labelled_words(
    gold: GoldBatch, scores: TreeScores, columns: Mapping[int, int]
) -> tuple[Ints1d, Ints1d]:
    """Find the words whose gold arc has a label that the network scores, and its column."""
    targets = np.array([columns.get(dep, MISSING) for dep in gold.deps.tolist()], dtype="i8")
    is_between_words = ~np.isin(gold.heads, scores.layout.roots)
    deps = ((targets != MISSING) & is_between_words).nonzero()[0]
    return deps, targets[deps]


def label_targets(
    layout: Layout,
    targets: Mapping[int, TeacherTarget],
    columns: Mapping[int, int],
    n_columns: int,
) -> tuple[Ints1d, Ints1d, Floats2d]:
    """Find the arcs whose labels are learnt from teachers, and the probability of each label.

    `columns` has the column of each label, by its hash; other labels are ignored. Returns the flat
    rows of dependents and heads, of shape (n_arcs,), and the probabilities of arc and label
    together, of shape (n_arcs, n_columns).
    """
    roots = layout.roots
    deps, heads, found, probs = [], [], [], []
    for sentence, target in targets.items():
        label_columns = np.array(
            [columns.get(label, -1) for label in target.labels.tolist()], dtype="i8"
        )
        is_known = label_columns >= 0
        deps.append(target.deps[is_known] + roots[sentence])
        heads.append(target.heads[is_known] + roots[sentence])
        found.append(label_columns[is_known])
        probs.append(target.label_probs[is_known])
    entries = np.stack([np.concatenate(deps), np.concatenate(heads)], axis=1)
    arcs, numbers = np.unique(entries, axis=0, return_inverse=True)
    dense = np.zeros((len(arcs), n_columns))
    # Teachers that agree on an arc and its label add up.
    np.add.at(dense, (numbers.reshape(-1), np.concatenate(found)), np.concatenate(probs))
    return arcs[:, 0], arcs[:, 1], dense


def unscored_labels(gold: GoldBatch, scores: TreeScores, columns: Mapping[int, int]) -> set[int]:
    """Find the labels of gold arcs between words that the network does not score.

    The label of arcs from ROOT is not scored at all.
    """
    is_between_words = ~np.isin(gold.heads, scores.layout.roots)
    return set(gold.deps[is_between_words].tolist()) - {NO_LABEL, *columns}


def wrong_arcs(scores: TreeScores, padded_heads: list[Ints2d]) -> tuple[Ints1d, Ints1d]:
    """Find the best wrong head other than ROOT of each word whose gold head is known.

    `padded_heads` come from `gold_heads`. Returns the flat rows of dependents and heads.
    """
    all_deps, all_heads = [np.zeros(0, dtype="i8")], [np.zeros(0, dtype="i8")]
    buckets = zip(scores.layout.buckets, scores.arcs, padded_heads, strict=True)
    for bucket, arcs, padded in buckets:
        sentence, dep = np.nonzero(padded != MISSING)
        rivals = arcs[sentence, dep]
        each = np.arange(len(dep))
        rivals[np.arange(rivals.shape[1]) > bucket.lengths[sentence, None]] = -np.inf
        rivals[:, ROOT] = rivals[each, dep] = rivals[each, padded[sentence, dep]] = -np.inf
        head = rivals.argmax(axis=1)
        # In a sentence of two words, the only other head may be the right one.
        found = rivals[each, head] > -np.inf
        all_deps.append(bucket.rows[sentence[found], dep[found]])
        all_heads.append(bucket.rows[sentence[found], head[found]])
    return np.concatenate(all_deps), np.concatenate(all_heads)


def _label_cross_entropy(scores: Floats2d, targets: Any) -> tuple[float, Floats2d]:
    """Find the cross entropy of labels, by the column of each or the weights of all."""
    probs = HOST.softmax(scores)
    log_probs = np.log(probs + 1e-30)
    if targets.ndim == 2:
        totals = targets.sum(axis=1, keepdims=True)
        loss = -float((targets * log_probs).sum())
        return loss, (probs * totals - targets).astype(probs.dtype)
    each = np.arange(len(targets))
    loss = -float(log_probs[each, targets].sum())
    probs[each, targets] -= 1.0
    return loss, probs
