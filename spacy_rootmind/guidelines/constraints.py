"""Constraints on a Doc's trees: forced and forbidden arcs, and labels.

The component calls a function for the constraints of each Doc. One comes with the package,
`spacy_rootmind.preset_heads.v1`. The best tree, probabilities and alternatives are then those among
the trees that comply.
"""

import itertools
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc

from spacy_rootmind.annotation.reading import annotated_heads
from spacy_rootmind.annotation.sentences import CERTAIN, JOINED, NEVER, Starts, bounds, words_of
from spacy_rootmind.trees.conventions import MISSING, ROOT, ROOT_LABEL


@dataclass(frozen=True)
class Constraints:
    """Constraints on the trees of a Doc; tokens are numbered within the Doc.

    Attributes
    ----------
    forced : iterable of (int, int)
        Arcs that every tree must have, as (token, head); a root is its own head.
    forbidden : iterable of (int, int)
        Arcs that no tree may have, in the same form.
    labels : iterable of (int, str)
        Labels that tokens have in every tree, whatever their heads, as (token, label).
    """

    forced: Iterable[tuple[int, int]] = ()
    forbidden: Iterable[tuple[int, int]] = ()
    labels: Iterable[tuple[int, str]] = ()


Constrain = Callable[[Doc], Constraints]

# In `doc.user_data`: constraints of this Doc, which add to the setting's.
CONSTRAINTS = "spacy_rootmind.constraints"


def preset_heads() -> Constrain:
    """Keep the heads that a Doc has; registered as `spacy_rootmind.preset_heads.v1`.

    A head counts as set if the token has a label; a token that is its own head must also have the
    label "root", in any case. With another label, it has a label without a head: the label is kept.
    Labels of tokens with a head are predicted again, since the head may be new to them, or the
    labels to this parser. Heads of whitespace tokens, and heads that are whitespace tokens, are not
    kept. A Doc without heads and labels is parsed freely.
    """
    return _preset_heads


def _preset_heads(doc: Doc) -> Constraints:
    heads, _ = annotated_heads(doc, root_label="ROOT")
    words = [(token, int(heads[token.i])) for token in doc if not token.is_space]
    return Constraints(
        forced=[
            (token.i, head) for token, head in words if head != MISSING and not doc[head].is_space
        ],
        labels=[(token.i, token.dep_) for token, head in words if head == MISSING and token.dep],
    )


def constraints_of(doc: Doc, constrain: Constrain | None) -> Constraints:
    """Put together the constraints of a setting and those that the Doc itself has."""
    made = Constraints() if constrain is None else constrain(doc)
    if not isinstance(made, Constraints):
        raise ValueError(
            f"expected the constraints of a Doc as spacy_rootmind.Constraints, "
            f"received {made!r:.100}"
        )
    given = doc.user_data.get(CONSTRAINTS)
    if given is None:
        return made
    return Constraints([*made.forced, *given.forced], made.forbidden, [*made.labels, *given.labels])


# --- checked constraints -----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class DocConstraints:
    """Constraints that have been checked against their Doc, by token.

    `heads` are forced; `labels` are numbers. The root's label is a forced head instead.
    """

    heads: dict[int, int]
    forbidden: dict[int, set[int]]
    labels: dict[int, int]

    @classmethod
    def check(
        cls, doc: Doc, constraints: Constraints, label_names: Sequence[str]
    ) -> "DocConstraints":
        """Check the constraints of a Doc; refuse those that none of its trees could meet.

        `label_names` are the parser's labels by number.

        Raises ValueError if they name a token that does not exist or is whitespace, or a label that
        does not exist, force two heads or labels on a token or a forbidden head.
        """
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
        return cls(heads, forbidden, others)

    def bind(self, doc: Doc, log_odds: NDArray[np.floating]) -> NDArray[np.floating]:
        """Rule out boundaries inside forced arcs, and separate forced roots by one.

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
        is_word = np.isin(np.arange(len(doc)), words_of(doc))
        may_be_root = is_word.copy()
        may_be_root[[token for token, head in self.heads.items() if token != head]] = False
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
        """Refuse sentences that start inside a forced arc, by the Doc or by length."""
        for left, right in self._together():
            if ((starts > left) & (starts <= right)).any():
                raise ValueError(
                    f"tokens {left} ({doc[left].text!r}) and {right} ({doc[right].text!r}) are "
                    f"constrained to one tree but lie in two sentences: move the boundary, leave "
                    f"the constraint out, or raise max_sentence_length"
                )

    def _together(self) -> list[tuple[int, int]]:
        """List the first and last tokens of forced arcs."""
        return [(min(arc), max(arc)) for arc in self.heads.items()]

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
        labels = {i: self.labels[token] for token, i in place.items() if token in self.labels}
        return None if allowed.all() else SentenceConstraints(allowed, labels)


class SentenceConstraints(NamedTuple):
    """Constraints on the tree of one sentence, with words numbered from 1 and ROOT as 0.

    `allowed` marks the arcs that comply, of shape (n + 1, n + 1); `labels` are numbers of labels.
    """

    allowed: NDArray[np.bool_]
    labels: dict[int, int]


def _pairs(given: Any, name: str, convert: Callable) -> list[tuple[int, Any]]:
    try:
        return [(operator.index(token), convert(other)) for token, other in given]
    except (TypeError, ValueError):
        raise ValueError(
            f"expected {name} as pairs of a token and its head or label, received {given!r:.100}"
        ) from None


def _arcs(doc: Doc, given: Any, name: str) -> list[tuple[int, int]]:
    """Convert to arcs between words."""
    arcs = _pairs(given, name, operator.index)
    for token, head in arcs:
        for end in (token, head):
            if end not in range(len(doc)) or doc[end].is_space:
                raise ValueError(
                    f"expected {name} of words, which are tokens from 0 to {len(doc) - 1} except "
                    f"whitespace, received {token, head}: leave this one out"
                )
    return arcs


def _labels(doc: Doc, given: Any, names: Sequence[str]) -> dict[int, int]:
    """Convert labels of words to numbers."""
    pairs = _pairs(given, "labels", lambda label: label)
    _arcs(doc, [(token, token) for token, _ in pairs], "labels")
    for token, label in pairs:
        if label not in names:
            raise ValueError(
                f"token {token} ({doc[token].text!r}): expected one of the parser's labels "
                f"({', '.join(names):.400}), received {label!r}"
            )
    return {token: names.index(label) for token, label in _one_each(doc, pairs, "labels").items()}


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
