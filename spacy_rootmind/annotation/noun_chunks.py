"""Base noun phrases of trees with Universal Dependencies labels, for `doc.noun_chunks`.

spaCy's functions for English, German and Persian read other labels (`dobj`, `pobj`) and find few
chunks or none in a UD tree, that for Turkish fails on some trees, and for many languages spaCy has
none. `doc.noun_chunks` calls the function that the Doc took from its vocab when it was made. It is
set on the vocab, so that Docs that spaCy makes from bytes (`nlp.pipe(n_process=2)`, `DocBin`) have
it too.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from spacy.tokens import Doc, Span
from spacy.vocab import Vocab

from spacy_rootmind.annotation.reading import annotated_heads

# A syntax iterator, in spaCy's words: yields the start, end and label of each chunk.
SyntaxIterator = Callable[[Doc | Span], Iterator[Any]]

# Modules of spaCy's functions that read the labels of other schemes, or fail on trees of UD.
REPLACED = tuple(f"spacy.lang.{lang}.syntax_iterators" for lang in ("en", "de", "fa", "tr"))


def _names(names: str) -> frozenset[str]:
    return frozenset(names.split())


NOMINAL_TAGS = _names("NOUN PROPN PRON")
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
# All relations.
RELATIONS = _names(
    "acl advcl advmod amod aux case cc ccomp clf conj cop csubj dep det discourse expl mark nummod "
    "punct reparandum"
)
RELATIONS |= NOMINAL | PREDICATE | MODIFIERS


class ChunkRules(NamedTuple):
    """Rules for the base noun phrases of a language.

    A relation stands for its subtypes as well. A noun phrase is headed by a nominal with a copula,
    with one of the relations `heads`, or with one of `with_case` and a `case` dependent; or by an
    expletive of this lower-case form. To it belong the words with the relations `before` and
    `after`, on this side of the head.
    """

    heads: frozenset[str]
    with_case: frozenset[str]
    before: frozenset[str]
    after: frozenset[str]
    expletives: frozenset[str]


UNIVERSAL = ChunkRules(
    heads=NOMINAL | PREDICATE,
    with_case=_names(""),
    before=MODIFIERS,
    after=MODIFIERS - {"advmod"},
    expletives=_names(""),
)
# Agrees with spaCy's iterator in a tree of spaCy's own scheme: no adverbial nominals ("last week"),
# no lists, and nothing after the head except the rest of a name.
ENGLISH = ChunkRules(
    heads=_names("nsubj obj iobj obl:agent appos root ROOT xcomp"),
    with_case=NOMINAL | PREDICATE | {"conj"},
    before=MODIFIERS | {"nmod:unmarked", "cc:preconj"},
    after=_names("flat goeswith compound"),
    expletives=_names("it"),
)


@dataclass(frozen=True)
class NounChunks:
    """Find noun chunks by UD's rules in Docs with UD labels, otherwise as without this package.

    A syntax iterator, as `doc.noun_chunks_iterator` and `vocab.get_noun_chunks` hold. The Docs of a
    pipeline share its vocab and this function, and may be parsed by several parsers; the labels of
    each Doc decide which rules it needs.

    By UD's rules, chunks come in order and do not overlap, also in non-projective trees: each is an
    unbroken run of words around its head, a noun, proper noun or pronoun (`token.pos`). English has
    rules that agree with spaCy's chunks; all others have those that follow from UD's definitions.

    Attributes
    ----------
    lang : str
        Code of the language.
    own : callable, optional
        The function that the vocab had, if spaCy has one for the language.
    """

    lang: str = ""
    own: SyntaxIterator | None = None

    def __call__(self, doclike: Doc | Span) -> Iterator[Any]:
        """Yield the start, end and label of each chunk that lies within a Doc or Span."""
        doc = doclike.doc
        if len(doc) and not doc.has_annotation("DEP"):
            raise ValueError(
                f"noun_chunks needs a parse, and the Doc {doc.text[:40]!r} has none: put a parser "
                f"in the pipeline"
            )
        if all(_is_one(label, RELATIONS) for label in {token.dep_ for token in doc} - {""}):
            return self._find(doc, doclike)
        if self.own is None:
            raise NotImplementedError(
                f"spaCy has no noun_chunks for the language {self.lang!r}, and root_mst finds them "
                f"by Universal Dependencies labels, which the Doc {doc.text[:40]!r} does not have; "
                f"set `nlp.vocab.get_noun_chunks` to a function of your own"
            )
        return self.own(doclike)

    def _find(self, doc: Doc, doclike: Doc | Span) -> Iterator[tuple[int, int, int]]:
        first, last = (doclike.start, doclike.end) if isinstance(doclike, Span) else (0, len(doc))
        label = doc.vocab.strings.add("NP")
        for start, end in _Phrases(doc, ENGLISH if self.lang == "en" else UNIVERSAL).find():
            if first <= start and end <= last:
                yield start, end, label


class _Phrases:
    """The noun phrases of a Doc."""

    def __init__(self, doc: Doc, rules: ChunkRules) -> None:
        self.doc, self.rules = doc, rules
        self.heads = annotated_heads(doc)[0].tolist()
        self.labels = [token.dep_ for token in doc]
        self.is_space = [token.is_space for token in doc]
        self.dependents: dict[int, set[str]] = {}
        for head, label in zip(self.heads, self.labels, strict=True):
            self.dependents.setdefault(head, set()).add(label)

    def find(self) -> list[tuple[int, int]]:
        """Find the outermost phrases, in order."""
        found: list[tuple[int, int]] = []
        for i in range(len(self.doc)):
            if self.doc[i].pos_ in NOMINAL_TAGS and self._heads_phrase(i):
                start, end = self._extent(i)
                while found and found[-1][0] >= start:
                    found.pop()
                if not found or found[-1][1] <= start:
                    found.append((start, end))
        return found

    def _heads_phrase(self, i: int) -> bool:
        rules, label = self.rules, self.labels[i]
        if label.partition(":")[0] == "expl":
            return self.doc[i].lower_ in rules.expletives
        if self._has(i, "cop"):
            return True
        if _is_one(label, rules.with_case) and label not in WITHIN and self._has(i, "case"):
            return True
        if label.partition(":")[0] == "conj":
            first = self._first_conjunct(i)
            return first != i and self._heads_phrase(first)
        return _is_one(label, rules.heads) and label not in WITHIN

    def _first_conjunct(self, i: int) -> int:
        # The first comes before the others, so this ends on a cycle too.
        while self.labels[i].partition(":")[0] == "conj" and 0 <= self.heads[i] < i:
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


# --- of a vocab --------------------------------------------------------------------------------


def set_noun_chunks(vocab: Vocab) -> None:
    """Set the function that a vocab gives its Docs, unless it has one that reads UD's labels.

    One that the user has set stays.
    """
    current: Any = vocab.get_noun_chunks
    if current is None or getattr(current, "__module__", None) in REPLACED:
        vocab.get_noun_chunks = NounChunks(vocab.lang, current)


def adopt_noun_chunks(doc: Doc) -> None:
    """Set the function of a Doc that was made before that of its vocab was set, or with another.

    One that the user has set on the Doc or its vocab stays.
    """
    set_noun_chunks(doc.vocab)
    ours: Any = doc.vocab.get_noun_chunks
    annotated: Any = doc
    if isinstance(ours, NounChunks) and annotated.noun_chunks_iterator is ours.own:
        annotated.noun_chunks_iterator = ours


def _is_one(label: str, relations: frozenset[str]) -> bool:
    """Tell whether a label, with or without its subtype, is among these relations."""
    return label in relations or label.partition(":")[0] in relations
