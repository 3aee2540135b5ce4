"""Labels of arcs that count the queries, and all labelled trees by enumeration."""

import itertools

import numpy as np
from numpy.typing import NDArray
from reference import FloatArray, IntArray, enumerate_trees, is_projective, tree_score
from strategies import places_of

from spacy_rootmind.trees.conventions import MISSING, ROOT_LABEL


def random_labels(rng: np.random.Generator, n: int, n_labels: int, spread: float) -> FloatArray:
    """Return log probabilities of the labels of all arcs of a sentence, [dep, head, label − 1]."""
    scores = spread * rng.standard_normal((n + 1, n + 1, n_labels))
    return scores - np.logaddexp.reduce(scores, axis=2, keepdims=True)


class ArcLabels:
    """Log probabilities of labels of some sentences' arcs, asked for by rows.

    `asked` counts how often the labels of each arc were found, `rounds` the calls.
    """

    def __init__(self, *log_probs: FloatArray) -> None:
        self.sentences = log_probs
        self.forget()

    def forget(self) -> None:
        """Start to count again."""
        self.asked = [np.zeros(own.shape[:2], dtype=int) for own in self.sentences]
        self.rounds = 0

    def log_probs(self, deps: NDArray[np.intp], heads: NDArray[np.intp]) -> FloatArray:
        """Find the log probabilities of all labels of arcs."""
        self.rounds += 1
        places = places_of(self.sentences, deps, heads)
        for i, dep, head in places:
            self.asked[i][dep, head] += 1
        return np.array([self.sentences[i][dep, head] for i, dep, head in places])

    def best(
        self, deps: NDArray[np.intp], heads: NDArray[np.intp]
    ) -> tuple[NDArray[np.intp], FloatArray]:
        """Find the best labels of arcs, and their log probabilities."""
        found = self.log_probs(deps, heads)
        return found.argmax(axis=1) + 1, found.max(axis=1)


def with_best_labels(weights: FloatArray, log_probs: FloatArray) -> FloatArray:
    """Return log-weights of arcs together with their best labels; the label of ROOT's is sure."""
    joint = weights + log_probs.max(axis=2)
    joint[:, 0] = weights[:, 0]
    return joint


def labelled_score(
    weights: FloatArray, log_probs: FloatArray, heads: IntArray, labels: IntArray
) -> float:
    """Return the log-weight of a labelled tree."""
    arcs = [(dep, head) for dep, head in enumerate(heads) if head > 0]
    return tree_score(weights, heads) + sum(log_probs[a][labels[a[0]] - 1] for a in arcs)


def enumerate_labelled(
    weights: FloatArray, log_probs: FloatArray, *, projective: bool = False
) -> list[tuple[float, tuple[int, ...], tuple[int, ...]]]:
    """Return all labelled single-root trees, best first: log-weights, heads and labels."""
    found = []
    for heads in map(tuple, enumerate_trees(len(weights) - 1, True).tolist()):
        if tree_score(weights, heads) == -np.inf or (projective and not is_projective(heads)):
            continue
        every = range(1, log_probs.shape[2] + 1)
        for labels in itertools.product(*(every if head else [ROOT_LABEL] for head in heads[1:])):
            own = (MISSING, *labels)
            found.append((labelled_score(weights, log_probs, heads, own), heads, own))
    return sorted((one for one in found if one[0] > -np.inf), reverse=True)
