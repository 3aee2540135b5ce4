"""Patterns in the format of spaCy's DependencyMatcher, and the conditions on their tokens."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import DEP
from spacy.matcher import DependencyMatcher, Matcher
from spacy.tokens import Doc
from spacy.vocab import Vocab

# Relations of two tokens. ARC: the upper one is the head of the lower one; CHAIN: it is the head,
# its head, or so on; SIBLING: both have the same head; ORDER: only their places matter.
ARC, CHAIN, SIBLING, ORDER = "arc", "chain", "sibling", "order"
# Conditions on the place of an operator's right token minus that of its left one.
PLACES = {
    "": lambda distance: distance != 0,
    "+": lambda distance: distance == 1,
    "-": lambda distance: distance == -1,
    "++": lambda distance: distance > 0,
    "--": lambda distance: distance < 0,
}
# The relation and the place that each operator asks for.
OPERATORS = {
    **{f">{place}": (ARC, place) for place in PLACES},
    **{f"<{place}": (ARC, place) for place in PLACES},
    **{f"${place}": (SIBLING, place) for place in PLACES if place},
    ">>": (CHAIN, ""),
    "<<": (CHAIN, ""),
    ".": (ORDER, "+"),
    ".*": (ORDER, "++"),
    ";": (ORDER, "-"),
    ";*": (ORDER, "--"),
}


class Node(NamedTuple):
    """A token of a pattern: the numbers of its conditions on attributes and on the label."""

    attributes: int
    label: int


class Relation(NamedTuple):
    """The relation of a node to an earlier one, `left`; `lower` and `upper` are these two."""

    kind: str
    place: str
    left: int
    lower: int
    upper: int


class Pattern(NamedTuple):
    """A pattern; each node but the first has a relation, in the order of the nodes."""

    key: str
    nodes: tuple[Node, ...]
    relations: tuple[Relation, ...]


class Conditions:
    """Conditions on tokens as in spaCy's Matcher, numbered; number 0 always holds."""

    def __init__(self, vocab: Vocab) -> None:
        self._names = vocab.strings
        self._matcher = Matcher(vocab)
        self._numbers = {repr({}): 0}

    def number(self, condition: dict[str, Any]) -> int:
        """Return the number of a condition, which is added if it is new."""
        name = repr(condition)
        if name not in self._numbers:
            self._matcher.add(name, [[condition]])
            self._numbers[name] = len(self._numbers)
        return self._numbers[name]

    def test(self, doc: Doc) -> NDArray[np.bool_]:
        """Tell which conditions hold for which tokens, (n_conditions, n_tokens)."""
        holds = np.zeros((len(self._numbers), len(doc)), dtype=np.bool_)
        holds[0] = True
        if len(self._numbers) > 1:
            for key, token, _ in self._matcher(doc):
                holds[self._numbers[self._names[key]], token] = True
        return holds


def read_patterns(
    key: str, patterns: Any, attributes: Conditions, labels: Conditions, vocab: Vocab
) -> list[Pattern]:
    """Check patterns, number their conditions, and return them.

    Raises ValueError if they are not as DependencyMatcher describes.
    """
    try:
        DependencyMatcher(vocab, validate=True).add(key, patterns)
        for node in (node for pattern in patterns for node in pattern):
            if "OP" in node["RIGHT_ATTRS"]:
                raise ValueError(f'expected no "OP", received it in {node!r}: use "NOT_IN"')
    except (AttributeError, KeyError, TypeError, re.error) as error:
        raise ValueError(
            f"expected each pattern as a list of dicts in the format of spaCy's DependencyMatcher, "
            f"received {patterns!r:.200}: {type(error).__name__}: {error}"
        ) from error
    return [_read_pattern(key, each, attributes, labels) for each in patterns]


def _read_pattern(
    key: str, pattern: Sequence[Mapping[str, Any]], attributes: Conditions, labels: Conditions
) -> Pattern:
    numbers = {node["RIGHT_ID"]: number for number, node in enumerate(pattern)}
    relations = []
    for right, node in enumerate(pattern[1:], start=1):
        left, operator = numbers[node["LEFT_ID"]], node["REL_OP"]
        ends = (right, left) if operator.startswith(">") else (left, right)
        relations.append(Relation(*OPERATORS[operator], left, *ends))
    nodes = [_read_node(node["RIGHT_ATTRS"], attributes, labels) for node in pattern]
    return Pattern(key, tuple(nodes), tuple(relations))


def _read_node(given: Mapping[str, Any], attributes: Conditions, labels: Conditions) -> Node:
    others = dict(given)
    label = {name: others.pop(name) for name in given if name in ("DEP", "dep", DEP)}
    return Node(attributes.number(others), labels.number(label))
