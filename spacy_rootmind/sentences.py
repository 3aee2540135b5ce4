"""Which tokens of a Doc form a sentence, and which of them the parser scores.

Whitespace tokens belong to a sentence but are never scored and never a head. In what follows a
`Sentences` lists, for each sentence in order, the Doc's indices of its scored tokens; a sentence of
nothing but whitespace has none.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import IS_SPACE, SENT_START
from spacy.tokens import Doc

Sentences = list[NDArray[np.int64]]


def sentence_starts(doc: Doc) -> NDArray[np.int64]:
    """First tokens of the sentences that a Doc has, and its length; ascending from 0.

    Without boundaries on it, the Doc counts as one sentence.
    """
    starts = np.zeros(0, dtype="i8")
    if len(doc) and doc.has_annotation("SENT_START"):
        starts = (doc.to_array(SENT_START).astype("i8") == 1).nonzero()[0]
    return bounds(starts, len(doc))


def bounds(starts: Sequence[int] | NDArray[np.int64], n_tokens: int) -> NDArray[np.int64]:
    """Complete sentence starts by the Doc's own two ends; [0] for an empty Doc."""
    return np.unique(np.concatenate(([0], starts, [n_tokens])).astype("i8"))


def scored_tokens(doc: Doc, starts: NDArray[np.int64]) -> Sentences:
    """List the tokens to score in each sentence, all but whitespace."""
    if len(starts) < 2:
        return []
    words = (doc.to_array(IS_SPACE) == 0).nonzero()[0]
    return np.split(words, np.searchsorted(words, starts[1:-1]))


def sentences_of(doc: Doc) -> Sentences:
    """List the tokens to score in each of the sentences that a Doc has."""
    return scored_tokens(doc, sentence_starts(doc))
