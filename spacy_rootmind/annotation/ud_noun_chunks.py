"""Base noun phrases of trees with Universal Dependencies labels, for `doc.noun_chunks`.

spaCy's functions for English, German and Persian read other labels (`dobj`, `pobj`) and find few
chunks or none in a UD tree; for many languages spaCy has no function.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from spacy.attrs import DEP, IS_SPACE, POS
from spacy.parts_of_speech import NOUN, PRON, PROPN
from spacy.tokens import Doc, Span

from spacy_rootmind.annotation.reading import annotated_heads

# What spaCy calls a syntax iterator; yields the start, end and label of each chunk.
SyntaxIterator = Callable[[Doc | Span], Iterator[Any]]

CHUNK_LABEL = "NP"


def _names(names: str) -> frozenset[str]:
    return frozenset(names.split())


# Relations whose dependent is a nominal by definition, whatever its part of speech.
NOMINAL = _names("nsubj obj iobj obl vocative dislocated nmod appos")
# Relations of predicates and fragments, some of which are nominals.
PREDICATE = _names("root ROOT csubj ccomp xcomp advcl acl parataxis list orphan")
# Relations of the words that belong to a noun phrase, with all that depends on them.
MODIFIERS = _names("det amod nummod advmod compound flat fixed goeswith clf nmod:poss nmod:desc")
# Subtypes that head no noun phrase.
WITHIN = _names("nmod:poss nmod:desc")
# Relations inside a modifier after the noun; others lead to noun phrases and clauses.
INSIDE = MODIFIERS | {"case", "cc", "conj", "punct"}
# The relations of UD that spaCy's own schemes have as well, and all of them.
SHARED = _names(
    "ROOT acl advcl advmod amod appos aux case cc ccomp compound conj csubj dep det expl mark nmod "
    "nsubj nummod parataxis punct xcomp"
)
RELATIONS = SHARED | NOMINAL | PREDICATE | MODIFIERS | {"cop", "discourse", "reparandum"}
# Names that `ud_label_map` gives to relations, as far as noun phrases depend on them.
MAPPED = {
    **dict.fromkeys(("acomp", "attr", "oprd"), "xcomp"),
    **dict.fromkeys(("agent", "prep"), "case"),
    **dict.fromkeys(("neg", "quantmod"), "advmod"),
    **{"dative": "iobj", "dobj": "obj", "pobj": "obl", "nsubjpass": "nsubj", "relcl": "acl"},
    **{"npadvmod": "nmod:unmarked", "poss": "nmod:poss", "preconj": "cc:preconj", "predet": "det"},
}


@dataclass(frozen=True)
class ChunkRules:
    """Rules for the base noun phrases of a language.

    A relation stands for its subtypes as well. A nominal with a copula heads a noun phrase,
    whatever its relation.

    Attributes
    ----------
    heads : set of str
        Relations of the words that head a noun phrase, if they are nominals.
    with_case : set of str
        Relations of words that do so if they have a `case` dependent.
    before, after : set of str
        Relations of the words that belong to a noun phrase, before and after its head.
    expletives : set of str
        Expletives that are a noun phrase, in lower case.
    """

    heads: frozenset[str]
    with_case: frozenset[str]
    before: frozenset[str]
    after: frozenset[str]
    expletives: frozenset[str]


UNIVERSAL = ChunkRules(
    heads=NOMINAL | PREDICATE,
    with_case=frozenset(),
    before=MODIFIERS,
    after=MODIFIERS - {"advmod"},
    expletives=frozenset(),
)
# Finds what spaCy's iterator finds in a tree of spaCy's own scheme: no adverbial nominals ("last
# week"), no lists, and nothing after the head but the rest of a name.
ENGLISH = ChunkRules(
    heads=_names("nsubj obj iobj obl:agent appos root ROOT xcomp"),
    with_case=NOMINAL | PREDICATE | {"conj"},
    before=MODIFIERS | {"nmod:unmarked", "cc:preconj"},
    after=frozenset({"flat", "goeswith", "compound"}),
    expletives=frozenset({"it"}),
)
RULES: Mapping[str, ChunkRules] = {"en": ENGLISH}


@dataclass(frozen=True)
class UDNounChunks:
    """Find the base noun phrases of a Doc with Universal Dependencies labels.

    The labels may have been renamed by `ud_label_map`.

    A syntax iterator, as `doc.noun_chunks_iterator` and `vocab.get_noun_chunks` hold. The chunks
    come in order and do not overlap, also in non-projective trees: each is an unbroken run of words
    around its head.

    Heads are nouns, proper nouns and pronouns (`token.pos`). In a Doc without parts of speech, the
    relations alone tell.

    Attributes
    ----------
    lang : str
        Code of the language. English has rules that agree with spaCy's chunks; all others have
        those that follow from UD's definitions.

    Raises
    ------
    ValueError
        If the Doc is not parsed.
    """

    lang: str = ""

    def __call__(self, doclike: Doc | Span) -> Iterator[tuple[int, int, int]]:
        """Yield the start, end and label of each chunk that lies within a Doc or Span."""
        doc = doclike.doc
        if not len(doc):
            return
        if not doc.has_annotation("DEP"):
            raise ValueError(
                f"noun_chunks needs a parse, and the Doc {doc.text[:40]!r} has none: put a parser "
                f"in the pipeline"
            )
        first, last = (doclike.start, doclike.end) if isinstance(doclike, Span) else (0, len(doc))
        label = doc.vocab.strings.add(CHUNK_LABEL)
        for start, end in _Phrases(doc, RULES.get(self.lang, UNIVERSAL)).find():
            if first <= start and end <= last:
                yield start, end, label


class _Phrases:
    """The noun phrases of a Doc."""

    def __init__(self, doc: Doc, rules: ChunkRules) -> None:
        self.doc = doc
        self.rules = rules
        self.heads = annotated_heads(doc)[0].tolist()
        self.labels = [MAPPED.get(label, label) for label in _labels(doc)]
        self.is_space = doc.to_array(IS_SPACE).astype(bool).tolist()
        self.is_noun = (
            np.isin(doc.to_array(POS), (NOUN, PROPN, PRON)).tolist()
            if doc.has_annotation("POS")
            else None
        )
        self.dependents: dict[int, set[str]] = {}
        for head, label in zip(self.heads, self.labels, strict=True):
            self.dependents.setdefault(head, set()).add(label)

    def find(self) -> list[tuple[int, int]]:
        """Find the outermost phrases, in order."""
        found: list[tuple[int, int]] = []
        for i in range(len(self.doc)):
            if self._is_nominal(i) and self._heads_phrase(i):
                start, end = self._extent(i)
                while found and found[-1][0] >= start:
                    found.pop()
                if not found or found[-1][1] <= start:
                    found.append((start, end))
        return found

    def _is_nominal(self, i: int) -> bool:
        if self.is_noun is not None:
            return self.is_noun[i]
        label = self.labels[self._first_conjunct(i)]
        return _is_one(label, NOMINAL) or self._has(i, "det", "case", "nmod:poss")

    def _heads_phrase(self, i: int) -> bool:
        rules, label = self.rules, self.labels[i]
        if _is_one(label, frozenset({"expl"})):
            return self.doc[i].lower_ in rules.expletives
        if self._has(i, "cop"):
            return True
        if _is_one(label, rules.with_case) and label not in WITHIN and self._has(i, "case"):
            return True
        if _is_one(label, frozenset({"conj"})):
            first = self._first_conjunct(i)
            return first != i and self._heads_phrase(first)
        return _is_one(label, rules.heads) and label not in WITHIN

    def _first_conjunct(self, i: int) -> int:
        # The first comes before the others, so this ends on a cycle too.
        while _is_one(self.labels[i], frozenset({"conj"})) and 0 <= self.heads[i] < i:
            i = self.heads[i]
        return i

    def _has(self, i: int, *labels: str) -> bool:
        return not self.dependents.get(i, set()).isdisjoint(labels)

    # --- extent --------------------------------------------------------------------------------

    def _extent(self, head: int) -> tuple[int, int]:
        """Find the run of words around a head that belong to its phrase."""
        start = end = head
        while start > 0 and self._belongs(start - 1, head):
            start -= 1
        while end + 1 < len(self.heads) and self._belongs(end + 1, head):
            end += 1
        return self._shorten(start, end, head)

    def _shorten(self, start: int, end: int, head: int) -> tuple[int, int]:
        """Cut loose words off both ends of a run, and words that attach to others outside it.

        With crossing arcs, a word that belongs to the phrase may lie beyond one that does not.
        """
        while True:
            cut = [
                i
                for i in range(start, end + 1)
                if i != head
                and (not start <= self.heads[i] <= end or (i in (start, end) and self._is_loose(i)))
            ]
            if not cut:
                return start, end + 1
            start = max((i + 1 for i in cut if i < head), default=start)
            end = min((i - 1 for i in cut if i > head), default=end)

    def _belongs(self, i: int, head: int) -> bool:
        """Tell whether a word is a modifier of a head, or depends on one."""
        rules = self.rules
        for _ in range(len(self.heads)):
            label, above = self.labels[i], self.heads[i]
            if above == head:
                if self.is_space[i] or label == "punct":
                    return True
                if i < head:
                    # In "is not a cat" the adverb is the clause's, not the noun phrase's.
                    is_clausal = label == "advmod" and self._has(head, "cop", "nsubj")
                    return _is_one(label, rules.before) and not is_clausal
                return _is_one(label, rules.after)
            if i > head and not (self.is_space[i] or _is_one(label, INSIDE)):
                return False
            if above in (i, -1):
                return False
            i = above
        return False

    def _is_loose(self, i: int) -> bool:
        """Tell whether a word belongs to a phrase only between two others."""
        return self.is_space[i] or self.labels[i] in ("punct", "cc")


# --- labels ------------------------------------------------------------------------------------


def has_ud_labels(doc: Doc) -> bool:
    """Tell whether all labels of a Doc are Universal Dependencies relations, with any subtypes."""
    return all(_is_one(label, RELATIONS) for label in set(_labels(doc)) if label)


def has_shared_labels(doc: Doc) -> bool:
    """Tell whether all labels of a Doc are in UD and in spaCy's own schemes alike."""
    return SHARED.issuperset(filter(None, _labels(doc)))


def attaches_as_ud(doc: Doc) -> bool:
    """Tell whether function words attach as in UD, whatever the labels.

    In UD, adpositions attach to the noun after them and coordinators to the conjunct after them; in
    spaCy's English scheme it is the other way round, and copulas are heads.
    """
    labels, heads = _labels(doc), annotated_heads(doc)[0].tolist()
    return "cop" in labels or any(
        label == "case"
        or (label in ("prep", "agent") and labels[head] == "pobj")
        or (label in ("cc", "punct") and labels[head] in ("conj", "appos"))
        for i, (label, head) in enumerate(zip(labels, heads, strict=True))
        if i < head
    )


def _labels(doc: Doc) -> list[str]:
    """Read the label of each token."""
    deps = doc.to_array(DEP).reshape(len(doc)).tolist()
    names = {dep: doc.vocab.strings[dep] for dep in set(deps)}
    return [names[dep] for dep in deps]


def _is_one(label: str, relations: frozenset[str]) -> bool:
    """Tell whether a label, with or without its subtype, is among these relations."""
    return label in relations or label.partition(":")[0] in relations
