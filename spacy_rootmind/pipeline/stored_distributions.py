"""Tree distributions of sentences, from their scores, in the form in which a Doc stores them."""

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.annotation.details import StoredDistribution
from spacy_rootmind.network.architecture import ParserModel
from spacy_rootmind.network.label_scorer import (
    Labeller,
    find_best_labels,
    find_probable_labels,
)
from spacy_rootmind.network.transfer import to_host
from spacy_rootmind.network.tree_scorer import TreeScores
from spacy_rootmind.pipeline.probable_arcs import BatchArcs, ProbableArcs


def sigmoid(log_odds: NDArray[np.floating]) -> NDArray[np.float32]:
    """Convert log-odds to probabilities, without overflow."""
    return (0.5 * (1.0 + np.tanh(0.5 * log_odds))).astype(np.float32)


def teacher_name(model: ParserModel, labels: Sequence[str]) -> str:
    """Name a parser by its labels and the weights above its token vectors.

    A parser that parses a Doc again is known for the same teacher, from whichever file it was
    loaded, and one that was trained further for another. The weights are rounded as packages round
    them (`network.half_precision`), so a parser and its package are the same teacher.
    """
    weights = [
        node.get_param(name)
        for layer in model.layers
        if layer is not model.get_ref("tok2vec")
        for node in layer.walk()
        for name in node.param_names
        if node.has_param(name)
    ]
    digest = hashlib.blake2b(repr(tuple(labels)).encode("utf8"), digest_size=8)
    for array in to_host(model.ops.xp, weights):
        digest.update(_rounded(array).tobytes())
    return digest.hexdigest()


def _rounded(weights: NDArray) -> NDArray:
    # Packages have no weights that overflow; here they are as good as any.
    with np.errstate(over="ignore"):
        return weights.astype(np.float16) if weights.dtype == np.float32 else weights


def store_distributions(
    labeller: Labeller,
    scores: TreeScores,
    arcs: Sequence[ProbableArcs],
    log_weights: Sequence[NDArray[np.float64]],
    start_probs: Sequence[NDArray[np.float32] | None],
    label_names: tuple[str, ...],
    threshold: float,
    temperature: float,
    teacher: str,
) -> list[StoredDistribution]:
    """Join the arcs of each sentence, their log-weights, and the probabilities of their labels.

    A label is kept if the probability of arc and label together is at least `threshold`, and the
    best one of each arc always. `temperature` divides label scores. `teacher` is the parser's name
    of `teacher_name`.
    """
    if not arcs:
        return []
    batch = BatchArcs.join(arcs)
    roots = scores.layout.roots
    inner = batch.between_words()
    entries, labels, label_probs = _find_labels(
        labeller, scores, *batch.flat_rows(inner, roots), batch.probs[inner], threshold, temperature
    )
    # Of the batch's arcs, then of the sentence's.
    entries = inner[entries]
    bounds = batch.bounds.tolist()
    stored = []
    for i, (sentence_arcs, weights, starts) in enumerate(
        zip(arcs, log_weights, start_probs, strict=True)
    ):
        mine = slice(*np.searchsorted(entries, bounds[i : i + 2]))
        stored.append(
            StoredDistribution(
                sentence_arcs.deps.astype(np.int32),
                sentence_arcs.heads.astype(np.int32),
                weights.astype(np.float32),
                (entries[mine] - bounds[i]).astype(np.int32),
                labels[mine].astype(np.int32),
                label_probs[mine].astype(np.float32),
                label_names,
                starts,
                teacher,
            )
        )
    return stored


def _find_labels(
    labeller: Labeller,
    scores: TreeScores,
    deps: NDArray[np.int64],
    heads: NDArray[np.int64],
    arc_probs: NDArray[np.float64],
    threshold: float,
    temperature: float,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Find the labels to keep: the number of the arc, the label and its probability on the arc."""
    arcs, labels, joint = find_probable_labels(
        labeller, scores, deps, heads, arc_probs, threshold, temperature
    )
    others = np.setdiff1d(np.arange(len(deps)), arcs)
    best, log_probs = find_best_labels(labeller, scores, deps[others], heads[others], temperature)
    all_arcs = np.concatenate([arcs, others])
    order = np.argsort(all_arcs, kind="stable")
    probs = np.concatenate([joint / arc_probs[arcs], np.exp(log_probs)])
    return all_arcs[order], np.concatenate([labels, best])[order], probs[order]
