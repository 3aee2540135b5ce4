"""The distribution over all trees of a sentence, from what a Doc keeps of it."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Span, Token

from spacy_rootmind.annotation.details import ParseDetails, StoredTrees
from spacy_rootmind.trees.conventions import ROOT, blocks_of_rows
from spacy_rootmind.trees.distribution import TreeDistribution

Row = NDArray[np.float64]
"""A number for each head of a token, (n + 1,): first ROOT, then the n tokens."""
Matrix = NDArray[np.float64]
"""The rows of all tokens, [dependent, head], (n + 1, n + 1); row 0 means nothing."""

ArcSet = Mapping[int, Row]
"""Conditions on the arcs of some tokens, numbered from 1: the probability that an arc meets them.

For a wanted head, it is the probability of the label, given this head; for other heads, it is 0.
"""


class SentenceTrees:
    """The distribution over all trees of a sentence: `span._.trees`.

    Attributes
    ----------
    span : Span
        The sentence.
    """

    def __init__(self, span: Span, details: ParseDetails) -> None:
        self.span = span
        self._tree = details.tree
        # The numbers of the words.
        self._words = details.words + 1
        self._stored = cast(StoredTrees, details.trees)

    def prob(self, arcs: Iterable[tuple[Token, Token, str | None]]) -> float:
        """Find the probability that a tree has given arcs, all of them.

        It is exact over all trees. Labels that have, together with their arc, a probability below
        0.001 count as impossible.

        Parameters
        ----------
        arcs : iterable of (dependent, head, label)
            Tokens of the sentence; as in spaCy, the root is its own head. The label is a string,
            or None for any.

        Raises
        ------
        ValueError
            If a dependent or a head is not a token of the sentence.
        """
        rows: dict[int, Row] = {}
        labels: dict[int, str] = {}
        for dependent, head, label in arcs:
            dep = self._number(dependent)
            row = rows.get(dep, np.ones(len(self.span) + 1))
            rows[dep] = only(ROOT if head == dependent else self._number(head), row)
            if label is not None and labels.setdefault(dep, label) != label:
                return 0.0
        names = np.array([*self.label_names, None])
        for dep, label in labels.items():
            rows[dep] = rows[dep] * self.label_probs(self.labelled_marginals(names == label), dep)
        return float(self.probs([rows])[0])

    def _number(self, token: object) -> int:
        span = self.span
        if isinstance(token, Token) and token.doc is span.doc and span.start <= token.i < span.end:
            return token.i - span.start + 1
        raise ValueError(
            f"expected dependents and heads as tokens of the sentence {span.text[:40]!r}, received "
            f"{token!r}"
        )

    # --- for matchers --------------------------------------------------------------------------

    @property
    def label_names(self) -> tuple[str, ...]:
        """The labels of probable arcs."""
        return self._stored.label_names

    @property
    def label_counts(self) -> NDArray[np.float64]:
        """The mean number of arcs with each label, over all trees."""
        counts: Any = np.bincount(self._stored.labels, self._stored.probs, len(self.label_names))
        return counts

    @cached_property
    def _distribution(self) -> TreeDistribution:
        # Whitespace has one head.
        numbers = np.arange(len(self._tree) + 1)
        scores = np.where(np.append(0, self._tree + 1)[:, None] == numbers, 0.0, -np.inf)
        scores[np.ix_(self._words, self._words)] = self._stored.log_weights
        scores[:, ROOT] = scores.diagonal()
        return TreeDistribution(scores, projective=self._stored.projective)

    @cached_property
    def marginals(self) -> Matrix:
        """The probability of each arc, whatever its label."""
        return self._distribution.marginals

    @cached_property
    def _places(self) -> NDArray[np.intp]:
        deps, heads = self._words[self._stored.dependents], self._words[self._stored.heads]
        return deps * len(self.marginals) + np.where(heads == deps, ROOT, heads)

    def labelled_marginals(self, accepted: NDArray[np.bool_]) -> Matrix:
        """Find the probability of each arc with one of some labels.

        `accepted` marks them among `label_names`; its last item stands for all other labels, which
        have the rest of an arc's probability.
        """
        probs = self._stored.probs * (accepted[self._stored.labels] ^ accepted[-1])
        found = np.zeros_like(self.marginals)
        np.add.at(found.ravel(), self._places, probs)
        return np.maximum(self.marginals - found, 0.0) if accepted[-1] else found

    def label_probs(self, labelled: Matrix, token: int) -> Row:
        """Find the probability of the labels of labelled marginals, given each head of a token."""
        row, marginals = labelled[token], self.marginals[token]
        return np.minimum(np.divide(row, marginals, np.zeros_like(row), where=row > 0), 1.0)

    def probs(self, arc_sets: Sequence[ArcSet]) -> NDArray[np.float64]:
        """Find the probability of each of k sets of conditions, (k,)."""
        found = np.empty(len(arc_sets))
        for some in blocks_of_rows(len(arc_sets), self.marginals.size):
            scores = self._restrict(arc_sets[some])
            found[some] = np.exp(self._distribution.inference.log_shares(scores))
        return found

    def head_probs(self, arc_set: ArcSet, token: int) -> Row:
        """Find the probability of each head of a token, given conditions that some tree meets."""
        [scores] = self._restrict([arc_set])
        return TreeDistribution(scores, projective=self._stored.projective).marginals[token]

    def _restrict(self, arc_sets: Sequence[ArcSet]) -> NDArray[np.float64]:
        scores: NDArray[np.float64]
        scores = np.repeat(self._distribution.scores[None], len(arc_sets), axis=0)
        places = [(i, token) for i, own in enumerate(arc_sets) for token in own]
        if places:
            with np.errstate(divide="ignore"):
                added = np.log([row for own in arc_sets for row in own.values()])
            scores[tuple(np.array(places).T)] += added
        return scores


def only(head: int, row: Row) -> Row:
    """Keep only one head of a row."""
    kept = np.zeros_like(row)
    kept[head] = row[head]
    return kept
