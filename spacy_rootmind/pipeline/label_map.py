"""The component `ud_label_map`: names of spaCy's English scheme (CLEAR) for UD relations.

Only labels change. If the schemes disagree about heads (prepositions, copulas, coordinators), the
tree stays that of UD.
"""

from collections.abc import Callable

from spacy.language import Language
from spacy.tokens import Doc, Token

from spacy_rootmind.annotation.noun_chunks import set_noun_chunks

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


def english_label(token: Token) -> str:
    """Name the label of a token as spaCy's English parsers do; one of another scheme stays."""
    label = token.dep_
    relation = label.partition(":")[0]
    if label in NAMES:
        return NAMES[label]
    if label in RULES or relation in RULES:
        return RULES[label if label in RULES else relation](token)
    return NAMES.get(relation, relation)


def map_labels(doc: Doc) -> Doc:
    """Rename the labels of a parsed Doc. Heads, sentences and probabilities stay.

    Only `token._.arc_prob` is that of a label: it is None where the label is renamed. Mapping twice
    is the same as mapping once.
    """
    labels = [english_label(token) for token in doc]
    for token, label in zip(doc, labels, strict=True):
        token.dep_ = label
    return doc


@Language.factory("ud_label_map", requires=["token.dep", "token.head"], assigns=["token.dep"])
def make_ud_label_map(nlp: Language, name: str) -> Callable[[Doc], Doc]:
    """Create a component that renames the labels of an earlier parser."""
    set_noun_chunks(nlp.vocab, mapped=True)
    return map_labels


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
