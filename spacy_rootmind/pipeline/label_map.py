"""The component `ud_label_map`: names of spaCy's English scheme (CLEAR) for UD relations.

Only labels change. If the schemes disagree about heads (prepositions, copulas, coordinators), the
tree stays that of UD.
"""

# spaCy reads the annotations of factories at run time: no `from __future__ import annotations`.
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from spacy.language import Language
from spacy.tokens import Doc, Token

from spacy_rootmind.annotation.noun_chunks import expect_mapped_labels
from spacy_rootmind.config_blocks import RegisteredFunction, require_kind

LabelsOfDoc = Callable[[Doc], list[str]]

# Relations whose name depends on nothing else. Without a counterpart they get `dep`, except `cop`.
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
    **dict.fromkeys(
        ["clf", "dislocated", "fixed", "goeswith", "list", "orphan", "reparandum"], "dep"
    ),
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
        return [self.labels.get(token.dep_, self._other_name(token)) for token in doc]

    def _other_name(self, token: Token) -> str:
        return _english(token) if self.english else token.dep_


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


# --- the component ---------------------------------------------------------------------------


def make_label_map(labels: list[list[str]] | None = None, english: bool = True) -> LabelsOfDoc:
    """Name labels as spaCy's English parsers do, for the component `ud_label_map`.

    Registered as `spacy_rootmind.label_map.v1`.

    Parameters
    ----------
    labels : list of pairs of str, optional
        Labels with their new names, subtypes included (["obl:tmod", "npadvmod"]), which come before
        all others. Not a dict: in a config, spaCy splits keys at colons.
    english : bool
        Whether the other labels get the names of spaCy's English scheme, or stay.

    Raises
    ------
    ValueError
        If `labels` is not a list of pairs.
    """
    pairs = [] if labels is None else labels
    rows = [pair if isinstance(pair, list | tuple) else () for pair in pairs]
    if isinstance(pairs, Mapping | str) or any(
        len(row) != 2 or not all(isinstance(name, str) for name in row) for row in rows
    ):
        raise ValueError(
            f'expected labels as a list of pairs, such as [["obl:tmod", "npadvmod"]], received '
            f"{labels!r}"
        )
    block = {"@misc": "spacy_rootmind.label_map.v1", "labels": labels, "english": english}
    return RegisteredFunction(block, LabelMap(dict(pairs), english))


class UDLabelMap:
    """Rename the labels of parsed Docs. Heads, sentences and probabilities stay.

    Only `token._.arc_prob` is that of a label: it is None where the label is renamed.

    Parameters
    ----------
    label_map
        Function from a Doc to the new label of each token.
    """

    def __init__(self, label_map: LabelsOfDoc) -> None:
        self.label_map = label_map

    def __call__(self, doc: Doc) -> Doc:
        """Rename the labels of a Doc.

        Raises
        ------
        ValueError
            If the function returns anything else than a label for each token. The Doc is then
            unchanged.
        """
        labels = self.label_map(doc)
        if len(labels) != len(doc) or not all(isinstance(label, str) for label in labels):
            raise ValueError(
                f"expected label_map to return {len(doc)} labels, one a token of the Doc "
                f"{doc.text[:40]!r}, received {labels!r}"
            )
        for token, label in zip(doc, labels, strict=True):
            token.dep_ = label
        return doc


@Language.factory(
    "ud_label_map",
    requires=["token.dep", "token.head"],
    assigns=["token.dep"],
    default_config={"label_map": {"@misc": "spacy_rootmind.label_map.v1"}},
)
def make_ud_label_map(nlp: Language, name: str, label_map: Callable) -> UDLabelMap:
    """Create a component that renames the labels of an earlier parser.

    Parameters
    ----------
    label_map
        Function from a Doc to the new label of each token: `spacy_rootmind.label_map.v1`, or your
        own registered one.

    Raises
    ------
    ValueError
        If it is a function for another setting, or not called with a Doc.
    """
    require_kind("label_map", label_map)
    expect_mapped_labels(nlp.vocab)
    return UDLabelMap(label_map)
