"""A corpus reader for `spacy train --code`: Docs with the treebank's own words."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import spacy
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Corpus, Example


@spacy.registry.readers("ud.GoldWords.v1")
def gold_words(
    path: Path | None,
    gold_preproc: bool = False,
    max_length: int = 0,
    limit: int = 0,
    augmenter: Callable | None = None,
) -> Callable[[Language], Iterable[Example]]:
    """Read Docs like `spacy.Corpus.v1`, with the reference's words in the predicted Docs.

    The tokenizer's words would differ from the treebank's. With `gold_preproc`, each Doc is one
    sentence of the treebank.
    """
    corpus = Corpus(
        path,
        gold_preproc=gold_preproc,
        max_length=max_length,
        limit=limit,
        augmenter=augmenter,
    )

    def read(nlp: Language) -> Iterator[Example]:
        for example in corpus(nlp):
            words = [token.text for token in example.reference]
            spaces = [bool(token.whitespace_) for token in example.reference]
            yield Example(Doc(nlp.vocab, words=words, spaces=spaces), example.reference)

    return read
