"""How sure a tree is and what else it could be, from arc scores; kept with Docs by `alternatives`.

A record's arrays are over a sentence's words here, ROOT first; `annotate` brings them to tokens.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.network.tree_scorer import TreeScores
from spacy_rootmind.pipeline.alternatives import Maker
from spacy_rootmind.trees.conventions import MISSING
from spacy_rootmind.trees.distribution import Distribution

Record = dict[str, Any]


def find_confidence(
    trees: Distribution, lengths: NDArray[np.intp], heads: NDArray[np.int32]
) -> list[Record]:
    """Find each sentence's head probabilities (index 0 is ROOT's), log probability and entropy.

    Parameters
    ----------
    trees : Distribution
        Of b sentences, with the log probability of the trees that `heads` are.
    lengths : int array of shape (b,)
    heads : int array of shape (b, m)
        As of `decode`.
    """
    chosen = np.take_along_axis(trees.marginals, np.maximum(heads, 0)[..., None], axis=2)
    return [
        {
            "head_probs": chosen[i, : n + 1, 0].astype(np.float32),
            "log_prob": float(trees.log_prob[i]),
            "entropy": float(trees.entropy[i]),
        }
        for i, n in enumerate(lengths.tolist())
    ]


def find_arcs(trees: Distribution, lengths: NDArray[np.intp], threshold: float) -> list[Record]:
    """Find the arcs of each sentence that have a probability of at least `threshold`."""
    records: list[Record] = []
    for marginals, n in zip(trees.marginals, lengths.tolist(), strict=True):
        own = marginals[: n + 1, : n + 1]
        deps, heads = np.nonzero(own >= threshold)
        records.append({"arc_dependents": deps, "arc_heads": heads, "arc_probs": own[deps, heads]})
    return records


def make_alternatives(scores: NDArray[np.float64], maker: Maker, words: Sequence[str]) -> Record:
    """Make a sentence's alternatives: heads of shape (k, n + 1) and log probabilities."""
    heads, log_probs = maker(scores, words)
    return {"heads": heads, "log_probs": log_probs}


def label_alternatives(
    scores: TreeScores, records: Sequence[Record], roots: NDArray[np.int64]
) -> None:
    """Add the best label of each arc, by its number; -1 on arcs from ROOT.

    Arcs that several trees have are scored once.
    """
    n_rows = scores.layout.n_rows
    arcs = []
    for root, record in zip(roots.tolist(), records, strict=True):
        heads = record["heads"].astype(np.int64)
        deps = np.arange(heads.shape[1]) + root
        arcs.append(np.where(heads > 0, deps * n_rows + heads + root, MISSING))
    flat = np.concatenate([own.ravel() for own in arcs]) if arcs else np.zeros(0, "i8")
    unique, places = np.unique(flat, return_inverse=True)
    labels = np.full(len(unique), -1, dtype=np.int32)
    real = unique != MISSING
    labels[real], _ = scores.best_labels(unique[real] // n_rows, unique[real] % n_rows)
    ends = np.cumsum([own.size for own in arcs])
    for record, own, end in zip(records, arcs, ends.tolist(), strict=True):
        record["deps"] = labels[places[end - own.size : end]].reshape(own.shape)


def label_arcs(
    scores: TreeScores,
    records: Sequence[Record],
    roots: NDArray[np.int64],
    threshold: float,
    temperature: float,
) -> None:
    """Put labelled arcs of a probability of at least `threshold` in place of those of `find_arcs`.

    An arc comes once for each label that is probable enough; those of a word come by falling
    probability. Labels are numbers; -1 on arcs from ROOT, which are sure of theirs. `temperature`
    is that of label scores.
    """
    counts = [len(record["arc_dependents"]) for record in records]
    sentence = np.repeat(np.arange(len(records)), counts)
    deps, heads, probs = (
        np.concatenate([record[key] for record in records]) if records else np.zeros(0, "i8")
        for key in ("arc_dependents", "arc_heads", "arc_probs")
    )
    inner, outer = np.flatnonzero(heads), np.flatnonzero(heads == 0)
    first = roots[sentence[inner]]
    arcs, labels, joint = scores.probable_labels(
        deps[inner] + first, heads[inner] + first, probs[inner], threshold, temperature
    )
    arcs = np.concatenate([outer, inner[arcs]])
    labels = np.concatenate([np.full(len(outer), -1), labels])
    joint = np.concatenate([probs[outer], joint])
    order = np.lexsort((-joint, deps[arcs], sentence[arcs]))
    arcs, labels, joint = arcs[order], labels[order], joint[order]
    ends = np.searchsorted(sentence[arcs], np.arange(len(records) + 1))
    for i, record in enumerate(records):
        own = slice(ends[i], ends[i + 1])
        record["arc_dependents"], record["arc_heads"] = deps[arcs[own]], heads[arcs[own]]
        record["arc_labels"], record["arc_probs"] = labels[own], joint[own]
