"""Counts of parsed parts."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from spacy_rootmind.bulk.documents import Document

KEY = "spacy_rootmind.bulk.counts"


@dataclass
class Counts:
    """Counts of a part, or of all parts; `errors` by their kind."""

    documents: int = 0
    sentences: int = 0
    words: int = 0
    errors: dict[str, int] = field(default_factory=dict)

    def counting(self, documents: Iterable[Document]) -> Iterator[Document]:
        """Count documents that pass."""
        for document in documents:
            self.documents += 1
            yield document

    def add_batch(self, batch: pa.RecordBatch) -> None:
        """Count the rows of results."""
        sentences = batch
        if "sentences" in batch.schema.names:
            sentences = pa.RecordBatch.from_struct_array(batch.column("sentences").flatten())
        tokens = sentences.column("tokens")
        n_tokens = pc.list_value_length(tokens)
        self.sentences += pc.sum(pc.greater(n_tokens, 0)).as_py() or 0
        words = pc.invert(pc.utf8_is_space(tokens.flatten()))
        self.words += pc.sum(words).as_py() or 0
        for error in batch.column("error").drop_null().to_pylist():
            kind = error.split(":")[0]
            self.errors[kind] = self.errors.get(kind, 0) + 1

    def add(self, other: "Counts") -> None:
        """Add the counts of another part."""
        self.documents += other.documents
        self.sentences += other.sentences
        self.words += other.words
        for kind, number in other.errors.items():
            self.errors[kind] = self.errors.get(kind, 0) + number

    def to_metadata(self) -> dict[str, str]:
        """Return metadata for a file of Parquet."""
        return {KEY: json.dumps(asdict(self))}

    @classmethod
    def from_metadata(cls, metadata: dict[bytes, bytes]) -> "Counts":
        """Read the counts in the metadata of a file."""
        return cls(**json.loads(metadata[KEY.encode()]))
