"""The matches of patterns in one sentence, and their probabilities."""

from collections.abc import Iterator, Sequence, Set
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.annotation.sentence_trees import ArcSet, Matrix, SentenceTrees, only
from spacy_rootmind.matching.chains import (
    FEWEST_STEPS,
    FLOOR,
    WORK,
    Bounds,
    ancestor_bounds,
    bound_chains,
)
from spacy_rootmind.matching.patterns import (
    ARC,
    CHAIN,
    ORDER,
    PLACES,
    SIBLING,
    Node,
    Pattern,
    Relation,
)
from spacy_rootmind.trees.conventions import ROOT

Candidate = tuple[Pattern, list[int], list[ArcSet]]
"""Tokens that may match a pattern's nodes, and sets of arcs of which a tree has to have one."""


class SentenceSearch:
    """Finds matches over the trees of a sentence of n tokens, numbered from 1.

    `attributes` are the tokens that meet conditions, (n_conditions, n), and `accepted` the labels
    of the trees that do, (n_conditions, n_labels + 1); last, any other label. Matches are at least
    as probable as the threshold.
    """

    def __init__(
        self,
        trees: SentenceTrees,
        attributes: NDArray[np.bool_],
        accepted: NDArray[np.bool_],
        threshold: float,
    ) -> None:
        self.trees = trees
        self.attributes = np.pad(attributes, ((0, 0), (1, 0)))
        self.accepted = accepted
        self.threshold = max(threshold, FLOOR)
        self._marginals = {frozenset({0}): trees.marginals}
        self._free = np.ones(len(trees.marginals))
        # The conditions that tokens meet, and that enough arcs do in the mean over all trees.
        counts = np.append(trees.label_counts, np.inf)
        self._attributes_met = np.logical_or.reduce(attributes, 1)
        self._labels_met = np.where(accepted, counts, 0.0).sum(1) >= self.threshold
        tokens = np.arange(len(trees.marginals))
        distances = tokens - tokens[:, None]
        self._steps = iter(range(max(int(WORK / len(tokens) ** 3), FEWEST_STEPS)))
        self._places = {name: is_there(distances) for name, is_there in PLACES.items()}

    def find(self, patterns: Sequence[Pattern]) -> Iterator[tuple[Pattern, list[int], Bounds]]:
        """Find the matches of patterns: the token of each node, and bounds on the probability."""
        candidates = [
            each
            for pattern in patterns
            if all(
                self._attributes_met[a] and self._labels_met[label] for a, label in pattern.nodes
            )
            for each in self._candidates(pattern)
        ]
        arc_sets = [arcs for *_, own in candidates for arcs in own]
        probs = iter(self.trees.probs(arc_sets).tolist() if arc_sets else [])
        for pattern, tokens, own in candidates:
            bounds = self._bound(pattern, tokens, [(arcs, next(probs)) for arcs in own])
            if sum(bounds) / 2 >= self.threshold:
                yield pattern, tokens, bounds

    def _bound(
        self, pattern: Pattern, tokens: list[int], arc_sets: list[tuple[ArcSet, float]]
    ) -> Bounds:
        prob = min(sum(prob for _, prob in arc_sets), 1.0)
        chains = [(tokens[r.lower], tokens[r.upper]) for r in pattern.relations if r.kind == CHAIN]
        if not chains or prob < self.threshold:
            return prob, prob
        return bound_chains(
            self.trees, arc_sets, chains, self._ancestors, self.threshold, self._steps
        )

    @cached_property
    def _ancestors(self) -> Matrix:
        return ancestor_bounds(self.trees.marginals)

    # --- candidates ----------------------------------------------------------------------------

    def _candidates(self, pattern: Pattern) -> Iterator[Candidate]:
        """List the tokens that may match; each of a pattern's relations is probable enough."""
        allowed = [self._tokens(node) for node in pattern.nodes]
        found = np.flatnonzero(allowed[0])[:, None]
        for right, relation in enumerate(pattern.relations, start=1):
            related = self._related(pattern, relation) & allowed[right]
            rows, tokens = np.nonzero(related[found[:, relation.left]])
            found = np.concatenate([found[rows], tokens[:, None]], axis=1)
        for match in found.tolist():
            yield pattern, match, self._arc_sets(pattern, match)

    def _tokens(self, node: Node) -> NDArray[np.bool_]:
        """Mark the tokens that may match a node, whatever their heads."""
        tokens = self.attributes[node.attributes]
        if not node.label:
            return tokens
        return tokens & (self._labelled({node.label}).sum(axis=1) >= self.threshold)

    def _labelled(self, labels: Set[int]) -> Matrix:
        """Find the probability of each arc with a label that meets conditions, all of them."""
        key = frozenset(labels)
        if key not in self._marginals:
            accepted = np.logical_and.reduce(self.accepted[list(labels)])
            self._marginals[key] = self.trees.labelled_marginals(accepted)
        return self._marginals[key]

    def _related(self, pattern: Pattern, relation: Relation) -> NDArray[np.bool_]:
        """Mark the pairs of a left and a right token that may have a relation."""
        kind, place, left, lower, upper = relation
        places = self._places[place]
        if kind == ORDER:
            return places
        if kind == SIBLING:
            # The smaller of two probabilities is not above their geometric mean.
            one, other = (
                np.sqrt(self._labelled({pattern.nodes[i].label})[:, 1:]) for i in (lower, upper)
            )
            bounds = one @ other.T
        else:
            label = {pattern.nodes[lower].label}
            bounds = self._labelled(label) if kind == ARC else self._ancestors
        return places & ((bounds if left == lower else bounds.T) >= self.threshold)

    # --- conditions on trees -------------------------------------------------------------------

    def _arc_sets(self, pattern: Pattern, tokens: list[int]) -> list[ArcSet]:
        """List sets of arcs, which exclude each other, that make tokens match; without chains."""
        labels: dict[int, set[int]] = {}
        for token, node in zip(tokens, pattern.nodes, strict=True):
            if node.label:
                labels.setdefault(token, set()).add(node.label)
        rows = {
            token: self.trees.label_probs(self._labelled(own), token)
            for token, own in labels.items()
        }
        siblings = []
        for kind, _, _, lower, upper in pattern.relations:
            ends = tokens[lower], tokens[upper]
            if kind == ARC:
                rows[ends[0]] = only(ends[1], rows.get(ends[0], self._free))
            elif kind == SIBLING:
                siblings.append(ends)
        arc_sets: list[ArcSet] = [rows]
        for pair in siblings:
            arc_sets = [
                {**arcs, **{token: only(head, arcs.get(token, self._free)) for token in pair}}
                for arcs in arc_sets
                for head in self._common_heads(arcs, pair)
            ]
        return arc_sets

    def _common_heads(self, arcs: ArcSet, pair: tuple[int, int]) -> list[int]:
        one, other = (self.trees.marginals[i] * arcs.get(i, self._free) >= FLOOR for i in pair)
        one[ROOT] = False
        return np.flatnonzero(one & other).tolist()


def in_tree(
    pattern: Pattern, tokens: Sequence[int], heads: Sequence[int], accepted: NDArray[np.bool_]
) -> bool:
    """Tell whether a match is also one in a tree, given its heads, (n + 1,).

    `accepted` are the tokens whose labels in the tree meet conditions, (n_conditions, n + 1).
    """
    pairs = zip(pattern.nodes, tokens, strict=True)
    return all(accepted[node.label, token] for node, token in pairs) and all(
        _is_related(kind, tokens[lower], tokens[upper], heads)
        for kind, _, _, lower, upper in pattern.relations
    )


def _is_related(kind: str, lower: int, upper: int, heads: Sequence[int]) -> bool:
    if kind == ARC:
        return heads[lower] == upper
    if kind == SIBLING:
        return heads[lower] == heads[upper] != ROOT
    if kind == CHAIN:
        token = heads[lower]
        while token not in (upper, ROOT):
            token = heads[token]
        return token == upper
    return True
