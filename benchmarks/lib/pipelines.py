"""Loading of pipelines and treebanks, and parsing of gold tokens."""

from collections.abc import Iterable
from pathlib import Path

import spacy
from spacy.language import Language
from spacy.tokens import Doc, DocBin


def load(model: str, **settings: object) -> Language:
    """Load a pipeline with settings of its root_mst."""
    config = {f"components.root_mst.{name}": value for name, value in settings.items()}
    return spacy.load(model, config=config)


def read_gold(corpus: Path, limit: int | None = None) -> list[Doc]:
    """Read the first Docs of a .spacy file."""
    return list(DocBin().from_disk(corpus).get_docs(spacy.blank("en").vocab))[:limit]


def on_gold_tokens(nlp: Language, docs: Iterable[Doc]) -> list[Doc]:
    """Parse the gold tokens and sentences of Docs."""
    fresh = [
        Doc(
            nlp.vocab,
            words=[token.text for token in doc],
            spaces=[bool(token.whitespace_) for token in doc],
            sent_starts=[token.is_sent_start for token in doc],
        )
        for doc in docs
    ]
    return list(nlp.pipe(fresh))
