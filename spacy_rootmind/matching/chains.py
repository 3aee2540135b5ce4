"""Bounds on the probability that tokens are below others in a tree, however far.

No exact formula of polynomial time is known. A token has exactly one chain of heads, so the
probability is a sum over chains. A search that takes the most probable ones first bounds it: from
below by complete chains, from above by these and the chains that it has begun.
"""

from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import count, islice

import numpy as np

from spacy_rootmind.annotation.sentence_trees import ArcSet, Matrix, SentenceTrees, only
from spacy_rootmind.trees.conventions import ROOT

# Marginals below this may be roundings of 0, and so their arcs parts of cycles.
FLOOR = 1e-13
# The bounds are at most this far apart, unless the search ends after this number of steps.
WIDTH, MOST_STEPS = 0.01, 1000
# Multiplications for all searches in a sentence, in seconds; but a number of steps at least.
WORK, FEWEST_STEPS = 3e9, 50
# Rounds in which the bounds of all pairs are lowered, unless they change less.
ROUNDS, CHANGE = 12, 1e-3

Chain = tuple[int, int]
"""A token, and the one that has to be above it."""
Bounds = tuple[float, float]
"""A probability is between these."""


def ancestor_bounds(marginals: Matrix) -> Matrix:
    """Bound from above the probability that a token is below another, [lower, upper].

    The other is its head, or it is above its head, which is not more probable than the head itself.
    """
    bounds = np.ones_like(marginals)
    for _ in range(ROUNDS):
        sums = np.zeros_like(bounds)
        for head in range(1, len(bounds)):
            sums += np.minimum(marginals[:, head, None], bounds[head])
        np.fill_diagonal(sums, 1.0)
        before, bounds = bounds, np.minimum(sums, bounds)
        if (before - bounds).max() < CHANGE:
            break
    np.fill_diagonal(bounds, 0.0)
    return bounds


def bound_chains(
    trees: SentenceTrees,
    arc_sets: Iterable[tuple[ArcSet, float]],
    chains: Sequence[Chain],
    highest: Matrix,
    threshold: float,
    steps: Iterator[int],
) -> Bounds:
    """Bound the probability that a tree has all chains, and one of some sets of arcs.

    These exclude each other, and come with the probability of each; `highest` are the
    `ancestor_bounds` of the marginals. The search ends as soon as the probability is known to be
    below `threshold`, or there are no `steps` left.
    """
    low, numbers = 0.0, count()
    # Minus the most that each set adds; the token whose head is wanted next; the probability.
    begun: list[tuple[float, int, ArcSet, int, float]] = []

    def add(arcs: ArcSet, prob: float) -> float:
        """Begin with arcs of this probability; returns it if they complete all chains."""
        token, upper = _find_open(arcs, chains) if prob > 0 else (ROOT, ROOT)
        if token == upper:
            return prob if token != ROOT else 0.0
        bound = min(prob, float(highest[token, upper]))
        if bound > 0:
            heappush(begun, (-bound, next(numbers), arcs, token, prob))
        return 0.0

    for arcs, prob in arc_sets:
        low += add(arcs, prob)
    for _ in islice(steps, MOST_STEPS):
        width = -sum(each[0] for each in begun)
        if width <= WIDTH or low + width < threshold:
            break
        _, _, arcs, token, prob = heappop(begun)
        probs, given = trees.head_probs(arcs, token), arcs.get(token, np.ones(len(highest)))
        for head in np.flatnonzero(probs >= FLOOR).tolist():
            low += add({**arcs, token: only(head, given)}, prob * float(probs[head]))
    return low, min(low - sum(each[0] for each in begun), 1.0)


def _find_open(arcs: ArcSet, chains: Sequence[Chain]) -> Chain:
    """Find the token where a chain goes on, and where it has to lead.

    They are the same if all chains are complete, and ROOT if one has missed its end.
    """
    end = chains[-1][1]
    for token, end in chains:
        while True:
            heads = np.flatnonzero(arcs[token]).tolist() if token in arcs else []
            if len(heads) != 1:
                return token, end
            [token] = heads
            if token in (ROOT, end):
                break
        if token == ROOT:
            return ROOT, ROOT
    return end, end
