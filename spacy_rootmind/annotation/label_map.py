"""Names of spaCy's English scheme (CLEAR) for the relations of Universal Dependencies.

Only labels change. Where the schemes disagree about heads (prepositions, copulas, coordinators),
the tree stays that of UD.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from spacy.tokens import Doc, Token

# Relations whose name depends on nothing else. Those without a counterpart get `dep`, except `cop`.
NAMES = {
    "root": "ROOT",
    "nsubj:pass": "nsubjpass",
    "csubj:pass": "csubjpass",
    "obj": "dobj",
    "iobj": "dative",
    "obl:agent": "pobj",
    "nmod:poss": "poss",
    "nmod:desc": "compound",
    "aux:pass": "auxpass",
    "det:predet": "predet",
    "cc:preconj": "preconj",
    "compound:prt": "prt",
    "acl:relcl": "relcl",
    "advcl:relcl": "relcl",
    "discourse": "intj",
    "vocative": "npadvmod",
    "flat": "compound",
    "clf": "dep",
    "dislocated": "dep",
    "fixed": "dep",
    "goeswith": "dep",
    "list": "dep",
    "orphan": "dep",
    "reparandum": "dep",
}
NEGATIONS = frozenset({"not", "n't", "n\u2019t", "never"})
POSSESSIVES = frozenset({"'s", "\u2019s", "'", "\u2019"})
NOUNS = frozenset({"NOUN", "PROPN", "PRON"})


@dataclass(frozen=True)
class LabelMap:
    """Name the labels of UD trees as spaCy's English parsers do.

    Labels of other schemes stay, so that mapping twice is the same as mapping once.

    Attributes
    ----------
    labels : dict from str to str
        Names that come before all others.
    english : bool
        Whether to use the names of spaCy's English scheme; otherwise only `labels`.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    english: bool = True

    def __call__(self, doc: Doc) -> list[str]:
        """Return the new label of each token; the Doc does not change."""
        return [self._name(token) for token in doc]

    def _name(self, token: Token) -> str:
        label = token.dep_
        if label in self.labels:
            return self.labels[label]
        return _english(token) if self.english else label


def _english(token: Token) -> str:
    label = token.dep_
    relation = label.partition(":")[0]
    if label in NAMES:
        return NAMES[label]
    if label in RULES or relation in RULES:
        return RULES[label if label in RULES else relation](token)
    return NAMES.get(relation, relation)


# --- names that depend on the tree -------------------------------------------------------------


def _is_above(token: Token, label: str) -> bool:
    return any(child.dep_ == label for child in token.children)


def _nominal_modifier(token: Token) -> str:
    return "pobj" if _is_above(token, "case") or _is_above(token, "prep") else "npadvmod"


def _adposition(token: Token) -> str:
    if token.text in POSSESSIVES or token.head.dep_ in ("nmod:poss", "poss"):
        return "case"
    return "agent" if token.head.dep_ == "obl:agent" else "prep"


def _marker(token: Token) -> str:
    # The "to" of infinitives.
    return "aux" if token.pos_ == "PART" else "mark"


def _adverb(token: Token) -> str:
    if token.lower_ in NEGATIONS:
        return "neg"
    return "quantmod" if token.head.pos_ == "NUM" else "advmod"


def _open_complement(token: Token) -> str:
    if token.pos_ == "ADJ":
        return "acomp"
    if token.pos_ not in NOUNS:
        return "xcomp"
    # "called him a fool", "became a teacher".
    is_of_object = _is_above(token.head, "obj") or _is_above(token.head, "dobj")
    return "oprd" if is_of_object else "attr"


RULES = {
    "obl": _nominal_modifier,
    "nmod": _nominal_modifier,
    "case": _adposition,
    "mark": _marker,
    "advmod": _adverb,
    "xcomp": _open_complement,
}
