"""Token attributes that the network reads, and that components before the parser set."""

from collections.abc import Iterable, Sequence

from spacy.attrs import IDS, intify_attr
from spacy.language import Language
from spacy.tokens import Doc

from spacy_rootmind.annotation.sentences import words_of
from spacy_rootmind.compat import ATTRIBUTE_EXTRACTOR
from spacy_rootmind.network.listeners import Tok2Vec

# Attributes that no token has until a component sets them, and a component that does. Every token
# has the others, such as NORM, from the vocab.
SETTERS = {
    "TAG": "tagger",
    "POS": "morphologizer",
    "MORPH": "morphologizer",
    "LEMMA": "trainable_lemmatizer",
}
# The attribute that factories of components assign if they set sentence boundaries.
SENTENCE_STARTS = "token.is_sent_start"


def attributes_read(layers: Iterable[Tok2Vec]) -> list[str]:
    """List the attributes in `SETTERS` that layers read, in the order there."""
    columns = {
        intify_attr(column)
        for layer in layers
        for node in layer.walk()
        if node.name == ATTRIBUTE_EXTRACTOR
        for column in node.attrs["columns"]
    }
    return [name for name in SETTERS if IDS[name] in columns]


def require_attributes(docs: Iterable[Doc], attributes: Sequence[str]) -> None:
    """Refuse Docs with words none of whose tokens has one of these attributes.

    The network takes a token without the attribute, among others that have it, for one with a value
    of its own, "unset". A Doc without it was not seen by the component that sets it.

    Raises ValueError if there is such a Doc.
    """
    if not attributes:
        return
    for doc in docs:
        for name in attributes:
            if not doc.has_annotation(name) and len(words_of(doc)):
                raise ValueError(
                    f"expected {name} on the tokens of each Doc, which the network reads, found "
                    f"none in {doc.text[:40]!r}: put a component that sets it, such as "
                    f"`{SETTERS[name]}`, before the parser; to train, list this component, and the "
                    f"tok2vec or transformer that it listens to, in training.annotating_components "
                    f"(or the argument `annotates` of `nlp.update`)"
                )


def listed_in_training(nlp: Language, setting: str) -> list[str]:
    """List the components that a setting of `[training]` names, such as `frozen_components`."""
    return nlp.config.interpolate().get("training", {}).get(setting, [])
