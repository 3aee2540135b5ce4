"""Counts of parsed parts."""

from dataclasses import dataclass, field

from spacy_rootmind.formats.records import Failure
from spacy_rootmind.parsing.stream import DocCounts


@dataclass
class Counts:
    """Counts of a part, or of all parts.

    Attributes
    ----------
    documents, sentences, words : int
    not_proven, broken : int
        Sentences with this `span._.guideline_status`.
    errors : dict
        Numbers of documents without a parse, by the kind of failure.
    """

    documents: int = 0
    sentences: int = 0
    words: int = 0
    not_proven: int = 0
    broken: int = 0
    errors: dict[str, int] = field(default_factory=dict)

    def add_error(self, failure: Failure) -> None:
        """Count a document, or a piece of one, that has no parse."""
        self.errors[failure.kind] = self.errors.get(failure.kind, 0) + 1

    def add_doc(self, doc: DocCounts) -> None:
        """Add the counts of a Doc, which is a document or a piece of one."""
        self.sentences += doc.sentences
        self.words += doc.words
        self.not_proven += doc.not_proven
        self.broken += doc.broken

    def add(self, other: "Counts") -> None:
        """Add the counts of another part."""
        self.documents += other.documents
        self.sentences += other.sentences
        self.words += other.words
        self.not_proven += other.not_proven
        self.broken += other.broken
        for kind, number in other.errors.items():
            self.errors[kind] = self.errors.get(kind, 0) + number
