"""How sure a tree is and what else it could be, from arc scores; kept with Docs by `alternatives`.

A record's arrays are over a sentence's words here, ROOT first; `annotate` brings them to tokens.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.layers.trees import TreeScores
from spacy_rootmind.loss import MISSING
from spacy_rootmind.makers import Maker
from spacy_rootmind.probabilities import distribution

Record = dict[str, Any]


def find_confidence(
    scores: NDArray[np.float64], lengths: NDArray[np.intp], heads: NDArray[np.int32]
) -> list[Record]:
    """Find each sentence's head probabilities (index 0 is ROOT's), log probability and entropy.

    Parameters
    ----------
    scores : float array of shape (b, m, m)
    lengths : int array of shape (b,)
    heads : int array of shape (b, m)
        Of the trees, as of `decode`.
    """
    trees = distribution(scores, lengths, heads=heads)
    chosen = np.take_along_axis(trees.marginals, np.maximum(heads, 0)[..., None], axis=2)
    return [
        {
            "head_probs": chosen[i, : n + 1, 0].astype(np.float32),
            "log_prob": float(trees.log_prob[i]),
            "entropy": float(trees.entropy[i]),
        }
        for i, n in enumerate(lengths.tolist())
    ]


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
    labels[real] = scores.best_labels(unique[real] // n_rows, unique[real] % n_rows)
    ends = np.cumsum([own.size for own in arcs])
    for record, own, end in zip(records, arcs, ends.tolist(), strict=True):
        record["deps"] = labels[places[end - own.size : end]].reshape(own.shape)
