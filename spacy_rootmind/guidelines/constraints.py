"""Constraints on a Doc's trees: forced and forbidden arcs, labels, and spans that are subtrees.

The component calls a function for the constraints of each Doc. Two come with the package,
`spacy_rootmind.preset_heads.v1` and `spacy_rootmind.span_subtrees.v1`. The best tree, probabilities
and alternatives are then those among the trees that comply.
"""

import itertools
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc

from spacy_rootmind.annotation.reading import annotated_heads
from spacy_rootmind.annotation.sentences import CERTAIN, JOINED, NEVER, Starts, bounds, words_of
from spacy_rootmind.config_blocks import RegisteredFunction
from spacy_rootmind.trees.checks import tree_score
from spacy_rootmind.trees.conventions import MISSING, ROOT, ROOT_LABEL
from spacy_rootmind.trees.decoding import decode
from spacy_rootmind.trees.errors import NoTreeError


@dataclass(frozen=True)
class Constraints:
    """Constraints on the trees of a Doc; tokens are numbered within the Doc.

    Attributes
    ----------
    forced : iterable of (int, int)
        Arcs that every tree must have, as (token, head); a root is its own head.
    forbidden : iterable of (int, int)
        Arcs that no tree may have, in the same form.
    subtrees : iterable of (int, int)
        Spans, as (first token, end), of which only one token may have its head outside. Tokens
        outside may depend on any token of the span.
    labels : iterable of (int, str)
        Labels that tokens have in every tree, whatever their heads, as (token, label).
    """

    forced: Iterable[tuple[int, int]] = ()
    forbidden: Iterable[tuple[int, int]] = ()
    subtrees: Iterable[tuple[int, int]] = ()
    labels: Iterable[tuple[int, str]] = ()


Constrain = Callable[[Doc], Constraints]

# In `doc.user_data`: constraints of this Doc, which add to the setting's.
CONSTRAINTS = "spacy_rootmind.constraints"


def preset_heads(root_label: str = "ROOT") -> Constrain:
    """Keep the heads that a Doc has; registered as `spacy_rootmind.preset_heads.v1`.

    A head counts as set if the token has a label; a token that is its own head must also have the
    label `root_label`, or "root" in any case. With another label, it has a label without a head:
    the label is kept. Labels of tokens with a head are predicted again, since the head may be new
    to them, or the labels to this parser. Heads of whitespace tokens, and heads that are whitespace
    tokens, are not kept. A Doc without heads and labels is parsed freely.

    Parameters
    ----------
    root_label : str
        Label of roots.
    """
    block = {"@misc": "spacy_rootmind.preset_heads.v1", "root_label": root_label}
    return RegisteredFunction(block, partial(_preset_heads, root_label=root_label))


def span_subtrees(spans_key: str | None = None) -> Constrain:
    """Make each span a subtree; registered as `spacy_rootmind.span_subtrees.v1`.

    The spans are `doc.spans[spans_key]`, or the entities without a key. A Doc must have been
    annotated with them, if only to say that it has none: a group without spans asks nothing, and a
    Doc without the group is refused, since a component that makes it is missing or comes after the
    parser. So is, without a key, a Doc whose tokens nothing has marked as entities or as none.

    Parameters
    ----------
    spans_key : str, optional
        Name of the span group.
    """
    block = {"@misc": "spacy_rootmind.span_subtrees.v1", "spans_key": spans_key}
    return RegisteredFunction(block, partial(_span_subtrees, spans_key=spans_key))


# Functions of this module with arguments bound, not nested functions: `nlp.pipe(n_process=2)`
# pickles a component with its settings where processes are spawned.


def _preset_heads(doc: Doc, *, root_label: str) -> Constraints:
    heads, _ = annotated_heads(doc, root_label)
    words = [(token, int(heads[token.i])) for token in doc if not token.is_space]
    return Constraints(
        forced=[
            (token.i, head) for token, head in words if head != MISSING and not doc[head].is_space
        ],
        labels=[(token.i, token.dep_) for token, head in words if head == MISSING and token.dep],
    )


def _span_subtrees(doc: Doc, *, spans_key: str | None) -> Constraints:
    if len(words_of(doc)):
        _require_spans(doc, spans_key)
    spans = doc.ents if spans_key is None else doc.spans.get(spans_key, ())
    return Constraints(subtrees=[(span.start, span.end) for span in spans])


def _require_spans(doc: Doc, spans_key: str | None) -> None:
    if spans_key is None and not doc.has_annotation("ENT_IOB"):
        raise ValueError(
            f"expected a Doc with entities for span_subtrees, found none set on "
            f"{doc.text[:40]!r}: put a component that sets them, such as `ner`, before the parser, "
            f"or set `doc.ents` yourself, to () if there are none"
        )
    if spans_key is not None and spans_key not in doc.spans:
        raise ValueError(
            f"expected a Doc with the span group {spans_key!r} for span_subtrees, found the groups "
            f"{sorted(doc.spans)} in {doc.text[:40]!r}: put a component that makes it before the "
            f"parser, or set `doc.spans[{spans_key!r}]`, to [] if there are none"
        )


def constraints_of(doc: Doc, constrain: Constrain | None) -> Constraints:
    """Put together the constraints of a setting and those that the Doc itself has."""
    made = Constraints() if constrain is None else constrain(doc)
    given = doc.user_data.get(CONSTRAINTS)
    # Another object than constraints is refused when it is checked.
    if given is None or not isinstance(made, Constraints):
        return made
    return Constraints(
        [*made.forced, *given.forced], made.forbidden, made.subtrees, [*made.labels, *given.labels]
    )


# --- checked constraints -----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
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
    labels : dict of int to int
        Numbers of given labels. That of the root is a forced head instead.
    """

    heads: dict[int, int]
    forbidden: dict[int, set[int]]
    subtrees: dict[int, NDArray[np.int64]]
    labels: dict[int, int]

    @classmethod
    def check(
        cls, doc: Doc, constraints: Constraints, label_names: Sequence[str]
    ) -> "DocConstraints":
        """Check the constraints of a Doc; refuse those that none of its trees could meet.

        `label_names` are the parser's labels by number.

        Raises ValueError if they are not `Constraints`, name a token that does not exist or is
        whitespace, or a label that does not exist, force two heads or labels on a token or a
        forbidden head, or if spans overlap.
        """
        if not isinstance(constraints, Constraints):
            raise ValueError(
                f"expected the constraints of a Doc as "
                f"spacy_rootmind.guidelines.constraints.Constraints, received {constraints!r:.100}"
            )
        forbidden: dict[int, set[int]] = {}
        for token, head in _arcs(doc, constraints.forbidden, "forbidden"):
            forbidden.setdefault(token, set()).add(head)
        labels = _labels(doc, constraints.labels, label_names)
        roots = [(token, token) for token, label in labels.items() if label == ROOT_LABEL]
        for token in labels.keys() - dict(roots).keys():
            # ROOT's arc has the root's label.
            forbidden.setdefault(token, set()).add(token)
        forced = [*_arcs(doc, constraints.forced, "forced"), *roots]
        heads = _one_each(doc, forced, "forced heads")
        for token, head in heads.items():
            if head in forbidden.get(token, ()):
                raise ValueError(
                    f"token {token} ({doc[token].text!r}): the arc to its head {head} is both "
                    f"forced and forbidden, by another arc or by a label"
                )
        others = {token: label for token, label in labels.items() if label != ROOT_LABEL}
        return cls(heads, forbidden, _subtrees(doc, constraints.subtrees), others)

    def bind(self, doc: Doc, log_odds: NDArray[np.floating]) -> NDArray[np.floating]:
        """Rule out boundaries inside forced arcs and spans, and separate forced roots by one.

        Raises ValueError if the Doc has a boundary where there must be none, or two forced roots
        are in one sentence.
        """
        self.check_starts(doc, np.flatnonzero(log_odds >= CERTAIN / 2))
        constrained = log_odds.copy()
        for left, right in self._together():
            constrained[left + 1 : right + 1] = NEVER
        roots = sorted(token for token, head in self.heads.items() if token == head)
        for left, right in itertools.pairwise(roots):
            best = left + 1 + int(constrained[left + 1 : right + 1].argmax())
            if constrained[best] <= -CERTAIN / 2:
                raise ValueError(
                    f"tokens {left} ({doc[left].text!r}) and {right} ({doc[right].text!r}) are "
                    f"forced roots of the same sentence, which has one root: put a boundary "
                    f"between them, or leave a constraint out"
                )
            constrained[best] = max(constrained[best], CERTAIN)
        return constrained

    def join_rootless(self, doc: Doc, log_odds: NDArray[np.floating]) -> NDArray[np.floating]:
        """Change log-odds so that each sentence has a word that may be its root, if it can.

        A sentence has none if all of its words have labels of other arcs, for instance. The less
        likely of its two boundaries then gives way, unless the Doc or the constraints state it.
        O(n log n).
        """
        words = words_of(doc)
        is_word, may_be_root = np.zeros((2, len(doc)), dtype=bool)
        is_word[words] = may_be_root[words] = True
        for token, head in self.heads.items():
            may_be_root[token] = token == head
        may_be_root[[token for token, heads in self.forbidden.items() if token in heads]] = False
        joined = log_odds.copy()
        while len(doc):
            starts = bounds(np.flatnonzero(joined > 0), len(doc))
            has_words = np.logical_or.reduceat(is_word, starts[:-1])
            has_root = np.logical_or.reduceat(may_be_root, starts[:-1])
            rootless = np.flatnonzero(has_words & ~has_root)
            likely = np.append(joined[starts[:-1]], np.inf)
            likely[0] = np.inf
            likely[likely >= CERTAIN / 2] = np.inf
            weaker = rootless + (likely[rootless + 1] < likely[rootless])
            weaker = weaker[likely[weaker] < np.inf]
            if not len(weaker):
                break
            joined[starts[weaker]] = JOINED
        return joined

    def check_starts(self, doc: Doc, starts: Starts) -> None:
        """Refuse sentences that start inside a forced arc or span, by the Doc or by length."""
        for left, right in self._together():
            if ((starts > left) & (starts <= right)).any():
                raise ValueError(
                    f"tokens {left} ({doc[left].text!r}) and {right} ({doc[right].text!r}) are "
                    f"constrained to one tree but lie in two sentences: move the boundary, leave "
                    f"the constraint out, or raise max_sentence_length"
                )

    def _together(self) -> list[tuple[int, int]]:
        """List the first and last tokens of forced arcs and spans."""
        arcs = [(min(arc), max(arc)) for arc in self.heads.items()]
        return arcs + [(first, int(words[-1])) for first, words in self.subtrees.items()]

    def of_sentence(self, words: NDArray[np.int64]) -> "SentenceConstraints | None":
        """Select the constraints on one sentence, by place in it; None if there are none.

        `words` are its scored tokens.
        """
        n = len(words)
        place = {token: i for i, token in enumerate(words.tolist(), start=1)}
        allowed = np.ones((n + 1, n + 1), dtype=bool)
        for token, i in place.items():
            # A root is its own head, and has ROOT.
            if token in self.heads:
                head = self.heads[token]
                allowed[i] = False
                allowed[i, ROOT if head == token else place[head]] = True
            for head in self.forbidden.get(token, set()) & place.keys():
                allowed[i, ROOT if head == token else place[head]] = False
        spans = [
            np.array([place[t] for t in own.tolist()])
            for first, own in self.subtrees.items()
            if first in place
        ]
        labels = {i: self.labels[token] for token, i in place.items() if token in self.labels}
        return None if allowed.all() and not spans else SentenceConstraints(allowed, spans, labels)


@dataclass(frozen=True, eq=False)
class SentenceConstraints:
    """Constraints on the tree of one sentence, with words numbered from 1 and ROOT as 0.

    Attributes
    ----------
    allowed : bool array of shape (n + 1, n + 1)
    spans : list of int array
    labels : dict of int to int
        Numbers of given labels.
    """

    allowed: NDArray[np.bool_]
    spans: list[NDArray[np.int64]]
    labels: dict[int, int] = field(default_factory=dict)

    def apply(
        self, scores: NDArray[np.floating], *, projective: bool = False
    ) -> NDArray[np.floating]:
        """Set the scores of all arcs that do not comply to -inf.

        A rule on single arcs cannot say which word of a span has its head outside. It is chosen
        here as in the best tree that complies. The best tree is therefore exact; probabilities,
        alternatives and the best labelled tree are conditional on these choices.

        Raises NoTreeError if no tree complies. Raises ValueError if there are spans, and trees must
        be projective: the word to choose is then another.
        """
        constrained = np.where(self.allowed, scores, -np.inf).astype(scores.dtype)
        if self.spans:
            if projective:
                raise ValueError(
                    "expected constraints without subtrees, since the parser's setting "
                    "`projective` is on, received subtrees: turn `projective` off, or force arcs "
                    "instead"
                )
            for span, top in zip(
                self.spans, _find_tops(constrained.astype(np.float64), self.spans), strict=True
            ):
                outside = np.ones(len(constrained), dtype=bool)
                outside[span] = False
                constrained[np.ix_(span[span != top], outside)] = -np.inf
                constrained[top, span] = -np.inf
        decode(constrained, projective=projective)
        return constrained


def _pairs(given: Any, name: str) -> list[tuple[int, int]]:
    """Convert to pairs of token numbers."""
    try:
        return [(operator.index(first), operator.index(second)) for first, second in given]
    except (TypeError, ValueError):
        raise ValueError(
            f"expected {name} as pairs of token numbers (ints), received {given!r:.100}"
        ) from None


def _arcs(doc: Doc, given: Any, name: str) -> list[tuple[int, int]]:
    """Convert to arcs between words."""
    arcs = _pairs(given, name)
    for token, head in arcs:
        for end in (token, head):
            if not 0 <= end < len(doc):
                raise ValueError(
                    f"expected an arc between tokens from 0 to {len(doc) - 1}, received "
                    f"{token, head}"
                )
            if doc[end].is_space:
                raise ValueError(
                    f"expected arcs between words, received {token, head}: token {end} is "
                    f"whitespace; leave the arc out"
                )
    return arcs


def _labels(doc: Doc, given: Any, names: Sequence[str]) -> dict[int, int]:
    """Convert labels of words to numbers."""
    try:
        pairs = [(operator.index(token), label) for token, label in given]
        is_sound = all(isinstance(label, str) for _, label in pairs)
    except (TypeError, ValueError):
        is_sound = False
    if not is_sound:
        raise ValueError(
            f"expected labels as pairs of a token number (int) and a label (str), received "
            f"{given!r:.100}"
        )
    _arcs(doc, [(token, token) for token, _ in pairs], "labels")
    for token, label in pairs:
        if label not in names:
            raise ValueError(
                f"token {token} ({doc[token].text!r}): expected one of the parser's labels "
                f"({', '.join(names):.400}), received {label!r}"
            )
    numbers = {name: number for number, name in enumerate(names)}
    return {token: numbers[label] for token, label in _one_each(doc, pairs, "labels").items()}


def _one_each(doc: Doc, pairs: Iterable[tuple[int, Any]], kind: str) -> dict[int, Any]:
    """Map tokens to the one thing that each may have."""
    found: dict[int, Any] = {}
    for token, value in pairs:
        if found.setdefault(token, value) != value:
            raise ValueError(
                f"token {token} ({doc[token].text!r}) has two {kind}, {found[token]!r} and "
                f"{value!r}: expected at most one"
            )
    return found


def _subtrees(doc: Doc, given: Any) -> dict[int, NDArray[np.int64]]:
    """List the words of each span of two or more, by the first."""
    subtrees: dict[int, NDArray[np.int64]] = {}
    taken = np.zeros(len(doc), dtype=bool)
    for start, end in _pairs(given, "subtrees"):
        if not 0 <= start < end <= len(doc):
            raise ValueError(
                f"expected a span of tokens within 0 and {len(doc)}, received {start} to {end}"
            )
        if taken[start:end].any():
            raise ValueError(
                f"the span {doc[start:end].text!r:.60} overlaps another subtree: expected "
                f"spans without overlap, for instance from spacy.util.filter_spans"
            )
        taken[start:end] = True
        words = [i for i in range(start, end) if not doc[i].is_space]
        if len(words) > 1:
            subtrees[words[0]] = np.array(words, dtype=np.int64)
    return subtrees


def _find_tops(scores: NDArray[np.floating], spans: list[NDArray[np.int64]]) -> list[int]:
    """Find the word of each span that has its head outside, in the best tree that complies.

    Exact: each span is contracted to one word; the score of an arc from a word of the span to a
    head includes the best tree over the span with that word on top.
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
    """Score the best tree over a span with each of its words on top; -inf if there is none."""
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
