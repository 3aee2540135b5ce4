"""Counts of parsed parts."""

from dataclasses import dataclass, field

from spacy_rootmind.formats.records import Failure


@dataclass
class Counts:
    """Counts of a part, or of all parts; `errors` by their kind."""

    documents: int = 0
    sentences: int = 0
    words: int = 0
    errors: dict[str, int] = field(default_factory=dict)

    def add_error(self, failure: Failure) -> None:
        """Count a document, or a piece of one, that has no parse."""
        self.errors[failure.kind] = self.errors.get(failure.kind, 0) + 1

    def add(self, other: "Counts") -> None:
        """Add the counts of another part."""
        self.documents += other.documents
        self.sentences += other.sentences
        self.words += other.words
        for kind, number in other.errors.items():
            self.errors[kind] = self.errors.get(kind, 0) + number
