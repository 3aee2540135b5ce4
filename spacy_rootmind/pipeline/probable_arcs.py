"""Arcs of sentences that are probable enough to be kept, and those of a batch in one list."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.trees.conventions import ROOT


@dataclass(frozen=True, eq=False)
class ProbableArcs:
    """Arcs of a sentence without labels, by dependent; arrays of shape (n_arcs,)."""

    deps: NDArray[np.int64]
    heads: NDArray[np.int64]
    probs: NDArray[np.float64]


def find_arcs(
    marginals: NDArray[np.float64],
    lengths: NDArray[np.intp],
    threshold: float,
    parses: NDArray[np.int32] | None = None,
) -> list[ProbableArcs]:
    """Find the arcs of each sentence with a probability of at least `threshold`.

    Parameters
    ----------
    marginals : float array of shape (b, m, m)
        Probability of each arc, `marginals[i, dep, head]`.
    lengths : int array of shape (b,)
    threshold : float
    parses : int array of shape (b, m) or None
        Trees, as returned by `decode`, whose arcs are listed however improbable they are.
    """
    found = []
    for i, n in enumerate(lengths.tolist()):
        probs = marginals[i, : n + 1, : n + 1]
        listed = probs >= threshold
        if parses is not None:
            listed[np.arange(1, n + 1), parses[i, 1 : n + 1]] = True
        deps, heads = listed.nonzero()
        found.append(ProbableArcs(deps, heads, probs[deps, heads]))
    return found


@dataclass(frozen=True, eq=False)
class BatchArcs:
    """Arcs of the sentences of a batch, one sentence after another.

    Attributes
    ----------
    sentences : int array of shape (n_arcs,)
        Number of each arc's sentence.
    deps, heads : int array of shape (n_arcs,)
        Words of the sentence, numbered from 1, with ROOT as 0.
    probs : float array of shape (n_arcs,)
    bounds : int array of shape (n_sentences + 1,)
        Sentence i has the arcs from `bounds[i]` up to `bounds[i + 1]`.
    """

    sentences: NDArray[np.int64]
    deps: NDArray[np.int64]
    heads: NDArray[np.int64]
    probs: NDArray[np.float64]
    bounds: NDArray[np.int64]

    @classmethod
    def join(cls, arcs: Sequence[ProbableArcs]) -> "BatchArcs":
        """Join the arcs of at least one sentence."""
        sizes = [len(own.deps) for own in arcs]
        return cls(
            np.repeat(np.arange(len(arcs)), sizes),
            np.concatenate([own.deps for own in arcs]),
            np.concatenate([own.heads for own in arcs]),
            np.concatenate([own.probs for own in arcs]),
            np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]),
        )

    def between_words(self) -> NDArray[np.int64]:
        """List the arcs that have a label to find: those whose head is not ROOT."""
        return np.flatnonzero(self.heads != ROOT)

    def flat_rows(
        self, arcs: NDArray[np.int64], roots: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Convert the ends of some arcs to flat rows of the batch: dependents, heads.

        `roots` are the rows of the sentences' ROOTs.
        """
        first = roots[self.sentences[arcs]]
        return self.deps[arcs] + first, self.heads[arcs] + first
