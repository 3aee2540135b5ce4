"""A pipeline with parts of speech, for other people's packages; see docs/migrating.md."""

from collections import Counter, defaultdict

import pytest
from parsers import make_nlp
from spacy.language import Language
from spacy.tokens import Doc

COMPONENT = "most_frequent_pos"


@Language.factory(COMPONENT, default_config={"tags": {}})
def make_most_frequent_pos(nlp: Language, name: str, tags: dict[str, str]):
    """Make a component that gives each word the part of speech that a table has for it."""

    def tag(doc: Doc) -> Doc:
        for token in doc:
            token.pos_ = tags.get(token.text, "NOUN")
        return doc

    return tag


@pytest.fixture
def pipeline(trained_english, quickstart_docs):
    """A pipeline of a tagger and a trained parser, which a test may change."""
    counts = defaultdict(Counter)
    for doc in quickstart_docs:
        for token in doc:
            counts[token.text][token.pos_] += 1
    tags = {word: count.most_common(1)[0][0] for word, count in counts.items()}
    nlp = make_nlp("en").from_bytes(trained_english.to_bytes())
    nlp.add_pipe(COMPONENT, config={"tags": tags}, first=True)
    return nlp
