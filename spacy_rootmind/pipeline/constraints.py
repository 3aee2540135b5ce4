"""What a Doc's trees must respect: arcs forced and forbidden, spans that stay together.

The component asks a function for the constraints of each Doc. Two come with the package,
`spacy_rootmind.preset_heads.v1` and `spacy_rootmind.span_subtrees.v1`. The best tree, probabilities
and alternatives are then those among trees that comply.
"""

import itertools
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc

from spacy_rootmind.annotation.reading import annotated_heads
from spacy_rootmind.annotation.sentences import CERTAIN, NEVER, Starts
from spacy_rootmind.trees.checks import tree_score
from spacy_rootmind.trees.conventions import MISSING
from spacy_rootmind.trees.decoding import decode
from spacy_rootmind.trees.errors import NoTreeError


@dataclass(frozen=True)
class Constraints:
    """Constraints on the trees of a Doc; tokens are counted within it, not within sentences.

    Attributes
    ----------
    forced : iterable of (int, int)
        Arcs that must be there, as (token, head); a token that is to be a root is its own head.
    forbidden : iterable of (int, int)
        Arcs that must not be there, likewise.
    subtrees : iterable of (int, int)
        Spans, first token and end, of which only one token may have its head outside. Others may
        still depend on any of the span's tokens.
    """

    forced: Iterable[tuple[int, int]] = ()
    forbidden: Iterable[tuple[int, int]] = ()
    subtrees: Iterable[tuple[int, int]] = ()


Constrain = Callable[[Doc], Constraints]


def preset_heads(root_label: str = "ROOT") -> Constrain:
    """Keep the heads that a Doc has; registered as `spacy_rootmind.preset_heads.v1`.

    A head counts as set where the token has a label, and, if the token is its own head, where the
    label is `root_label` or "root" in any case. Heads of whitespace, and on whitespace, are not
    kept.
    """
    return partial(_preset_heads, root_label=root_label)


def span_subtrees(spans_key: str | None = None) -> Constrain:
    """Keep spans together, each a subtree; registered as `spacy_rootmind.span_subtrees.v1`.

    Those of `doc.spans[spans_key]`, or without a key the entities. A Doc without such a group has
    no constraints.
    """
    return partial(_span_subtrees, spans_key=spans_key)


# Functions of this module with settings bound, not functions within functions: a component is
# pickled with what it was given, by `nlp.pipe(n_process=2)` where processes are spawned.


def _preset_heads(doc: Doc, *, root_label: str) -> Constraints:
    heads, _ = annotated_heads(doc, root_label)
    return Constraints(
        forced=[
            (token.i, head)
            for token, head in zip(doc, heads.tolist(), strict=True)
            if head != MISSING and not token.is_space and not doc[head].is_space
        ]
    )


def _span_subtrees(doc: Doc, *, spans_key: str | None) -> Constraints:
    spans = doc.ents if spans_key is None else doc.spans.get(spans_key, ())
    return Constraints(subtrees=[(span.start, span.end) for span in spans])


# --- as the parser uses them -------------------------------------------------------------------


@dataclass(frozen=True)
class DocConstraints:
    """Constraints that have been checked against their Doc.

    Attributes
    ----------
    heads : dict of int to int
        Forced heads.
    forbidden : dict of int to set of int
        Forbidden heads.
    subtrees : dict of int to int array
        Words of each span of two or more, by the first.
    """

    heads: dict[int, int]
    forbidden: dict[int, set[int]]
    subtrees: dict[int, NDArray[np.int64]]

    @classmethod
    def check(cls, doc: Doc, constraints: Constraints) -> "DocConstraints":
        """Take constraints over; refuse what no tree of this Doc could respect.

        Raises
        ------
        ValueError
            If they are no `Constraints`, name a token that is not there or whitespace, force two
            heads on a token or one that is forbidden, or if spans overlap.
        """
        if not isinstance(constraints, Constraints):
            raise ValueError(
                f"expected the constraints of a Doc as "
                f"spacy_rootmind.pipeline.constraints.Constraints, received {constraints!r:.100}"
            )
        forbidden: dict[int, set[int]] = {}
        for pair in _pairs(constraints.forbidden, "forbidden"):
            token, head = _check_arc(doc, pair)
            forbidden.setdefault(token, set()).add(head)
        heads: dict[int, int] = {}
        for token, head in (_check_arc(doc, arc) for arc in _pairs(constraints.forced, "forced")):
            if heads.setdefault(token, head) != head:
                raise ValueError(
                    f"token {token} ({doc[token].text!r}) is to have two heads, {heads[token]} and "
                    f"{head}: force one at most"
                )
            if head in forbidden.get(token, ()):
                raise ValueError(
                    f"token {token} ({doc[token].text!r}): the arc to its head {head} is both "
                    f"forced and forbidden"
                )
        subtrees: dict[int, NDArray[np.int64]] = {}
        taken = np.zeros(len(doc), dtype=bool)
        for start, end in _pairs(constraints.subtrees, "subtrees"):
            if not 0 <= start < end <= len(doc):
                raise ValueError(
                    f"expected a span of tokens within 0 and {len(doc)}, received {start} to {end}"
                )
            if taken[start:end].any():
                raise ValueError(
                    f"the span {doc[start:end].text!r:.60} overlaps another that is to be a "
                    f"subtree: choose among them, for instance with spacy.util.filter_spans"
                )
            taken[start:end] = True
            words = [i for i in range(start, end) if not doc[i].is_space]
            if len(words) > 1:
                subtrees[words[0]] = np.array(words, dtype=np.int64)
        return cls(heads, forbidden, subtrees)

    def bind(self, doc: Doc, log_odds: NDArray[np.floating]) -> NDArray[np.floating]:
        """Rule out boundaries within forced arcs and spans, and part forced roots.

        Raises
        ------
        ValueError
            If a boundary that is certain lies where there must be none, or two forced roots come
            into one sentence.
        """
        bound = log_odds.copy()
        for tokens in self._together():
            inside = slice(int(tokens.min()) + 1, int(tokens.max()) + 1)
            if (bound[inside] >= CERTAIN / 2).any():
                self._refuse_two_sentences(doc, tokens)
            bound[inside] = NEVER
        roots = sorted(token for token, head in self.heads.items() if token == head)
        for left, right in itertools.pairwise(roots):
            between = bound[left + 1 : right + 1]
            if (between > 0).any():
                continue
            best = left + 1 + int(between.argmax())
            if bound[best] <= -CERTAIN / 2:
                raise ValueError(
                    f"tokens {left} ({doc[left].text!r}) and {right} ({doc[right].text!r}) are "
                    f"both to be roots and in one sentence, which has one root: put a boundary "
                    f"between them, or leave a constraint out"
                )
            bound[best] = CERTAIN
        return bound

    def check_starts(self, doc: Doc, starts: Starts) -> None:
        """See to it that nothing that belongs together was split because of its length."""
        sentence = np.searchsorted(starts, np.arange(len(doc)), side="right")
        for tokens in self._together():
            if len(set(sentence[tokens].tolist())) > 1:
                self._refuse_two_sentences(doc, tokens)

    def _together(self) -> list[NDArray[np.int64]]:
        arcs = [np.array(arc, dtype=np.int64) for arc in self.heads.items()]
        return arcs + list(self.subtrees.values())

    def _refuse_two_sentences(self, doc: Doc, tokens: NDArray[np.int64]) -> None:
        left, right = int(tokens.min()), int(tokens.max())
        raise ValueError(
            f"tokens {left} ({doc[left].text!r}) and {right} ({doc[right].text!r}) are to be in "
            f"one tree and lie in two sentences: move the boundary, leave the constraint out, or "
            f"raise max_sentence_length"
        )

    def of_sentence(self, words: NDArray[np.int64]) -> "SentenceConstraints | None":
        """Take out those of one sentence, counted within it; None if there are none.

        `words` are its scored tokens.
        """
        n = len(words)
        place = {token: i for i, token in enumerate(words.tolist(), start=1)}
        allowed = np.ones((n + 1, n + 1), dtype=bool)
        spans = []
        for token, i in place.items():
            if token in self.heads:
                allowed[i] = False
                allowed[i, _head_place(place, token, self.heads[token])] = True
            for head in self.forbidden.get(token, ()):
                if head in place:
                    allowed[i, _head_place(place, token, head)] = False
            if token in self.subtrees:
                spans.append(np.array([place[t] for t in self.subtrees[token].tolist()]))
        return None if allowed.all() and not spans else SentenceConstraints(allowed, spans)


@dataclass(frozen=True)
class SentenceConstraints:
    """Constraints on one sentence's tree, words counted from 1 and ROOT 0.

    Attributes
    ----------
    allowed : bool array of shape (n + 1, n + 1)
    spans : list of int array
    """

    allowed: NDArray[np.bool_]
    spans: list[NDArray[np.int64]]

    def apply(self, scores: NDArray[np.floating]) -> NDArray[np.floating]:
        """Forbid, by scores of -inf, all arcs that do not comply.

        Which word of a span has its head outside is no matter of single arcs: it is chosen here as
        in the best tree that complies. That tree is exact; probabilities, alternatives, and the
        best tree together with its labels, are given these choices.

        Raises
        ------
        NoTreeError
            If no tree complies.
        """
        bound = np.where(self.allowed, scores, -np.inf).astype(scores.dtype)
        if self.spans:
            for span, top in zip(
                self.spans, _find_tops(bound.astype(np.float64), self.spans), strict=True
            ):
                outside = np.ones(len(bound), dtype=bool)
                outside[span] = False
                bound[np.ix_(span[span != top], outside)] = -np.inf
                bound[top, span] = -np.inf
        decode(bound)
        return bound


def _pairs(given: Any, name: str) -> list[tuple[int, int]]:
    """Take pairs of token numbers over."""
    try:
        return [(operator.index(first), operator.index(second)) for first, second in given]
    except (TypeError, ValueError):
        raise ValueError(
            f"expected {name} as pairs of token numbers (ints), received {given!r:.100}"
        ) from None


def _head_place(place: dict[int, int], token: int, head: int) -> int:
    """Where a token's head is in its sentence; a root's, which is itself, is ROOT."""
    return 0 if head == token else place[head]


def _check_arc(doc: Doc, arc: tuple[int, int]) -> tuple[int, int]:
    token, head = arc
    for end in (token, head):
        if not 0 <= end < len(doc):
            raise ValueError(
                f"expected an arc between tokens from 0 to {len(doc) - 1}, received {token, head}"
            )
        if doc[end].is_space:
            raise ValueError(
                f"token {end} is whitespace, which is not parsed: leave the arc {token, head} out"
            )
    return token, head


def _find_tops(scores: NDArray[np.floating], spans: list[NDArray[np.int64]]) -> list[int]:
    """Find the word of each span that has its head outside, in the best tree that complies.

    Exact: each span becomes one word, whose arcs to heads are scored with the best tree within the
    span below the word that the arc leaves from.
    """
    n = len(scores)
    group = np.arange(n)
    for span in spans:
        group[span] = span[0]
    names, group = np.unique(group, return_inverse=True)
    exits = scores.copy()
    for span in spans:
        exits[span] += _inner_scores(scores, span)[:, None]
    contracted = np.full((len(names), len(names)), -np.inf)
    np.maximum.at(contracted, (group[:, None], group[None, :]), exits)
    np.fill_diagonal(contracted, -np.inf)
    heads = decode(contracted)
    tops = []
    for span in spans:
        reached = np.flatnonzero(group == heads[group[span[0]]])
        tops.append(int(span[exits[np.ix_(span, reached)].max(axis=1).argmax()]))
    return tops


def _inner_scores(scores: NDArray[np.floating], span: NDArray[np.int64]) -> NDArray[np.float64]:
    """Score of the best tree over a span's words below each of them; -inf where there is none."""
    inner = np.full((len(span) + 1, len(span) + 1), -np.inf)
    inner[1:, 1:] = scores[np.ix_(span, span)]
    found = np.full(len(span), -np.inf)
    for i in range(len(span)):
        inner[1:, 0] = -np.inf
        inner[i + 1, 0] = 0.0
        try:
            found[i] = tree_score(inner, decode(inner))
        except NoTreeError:
            continue
    return found
