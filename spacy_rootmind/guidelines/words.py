"""The properties of words that UD's rules read: parts of speech, three features, and spaces.

An int8 array of shape (5, n_places) has a column for ROOT before the words of each sentence, and
the rows TAG, EXTERNAL, NEGATIVE, POSSESSIVE and SPACE_AFTER.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray
from spacy.parts_of_speech import IDS
from spacy.tokens import Doc

from spacy_rootmind.annotation import doc_trees

Words = NDArray[np.int8]
WordsOfDoc = tuple[Doc, NDArray[np.int64]]
"""A Doc, and its tokens that are the words of a sentence."""

# The part of speech, as a place in TAGS; the same, or that of ExtPos where a word has it; whether
# it is a particle or adverb with Polarity=Neg; whether it has Poss=Yes; whether whitespace follows.
TAG, EXTERNAL, NEGATIVE, POSSESSIVE, SPACE_AFTER = range(5)
# A number for each part of speech; 0 for words without one, of which rules ask none.
TAGS = (
    *("", "ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM", "PART", "PRON"),
    *("PROPN", "PUNCT", "SCONJ", "SYM", "VERB", "X"),
)
NUMBER_OF_TAG = {tag: number for number, tag in enumerate(TAGS)}
PROPN, PUNCT = NUMBER_OF_TAG["PROPN"], NUMBER_OF_TAG["PUNCT"]
NUMBER_OF_POS = np.zeros(max(IDS.values()) + 1, dtype=np.int8)
for _name, _pos in IDS.items():
    NUMBER_OF_POS[_pos] = NUMBER_OF_TAG.get(_name, 0)


def make_words(tags: Sequence[int] | NDArray[np.integer], feats: Sequence[str]) -> Words:
    """Make all but the last row, without ROOT, of places in TAGS and features as in CoNLL-U."""
    found = np.array([_read_feats(each) for each in feats], dtype=np.int8).reshape(-1, 3)
    external, negative, possessive = found.T
    tags = np.asarray(tags, dtype=np.int8)
    may_negate = (tags == NUMBER_OF_TAG["PART"]) | (tags == NUMBER_OF_TAG["ADV"])
    external = np.where(external >= 0, external, tags)
    return np.stack([tags, external, may_negate & (negative > 0), possessive]).astype(np.int8)


@lru_cache(maxsize=4096)
def _read_feats(feats: str) -> tuple[int, bool, bool]:
    """Read ExtPos, by the first of its values (-1 without one), Polarity=Neg and Poss=Yes."""
    found = dict(each.split("=", 1) for each in feats.split("|") if "=" in each)
    name = found["ExtPos"].partition(",")[0] if "ExtPos" in found else None
    external = -1 if name is None else NUMBER_OF_TAG.get(name, NUMBER_OF_TAG["X"])
    return external, found.get("Polarity") == "Neg", found.get("Poss") == "Yes"


read_words: Callable[[list[WordsOfDoc]], Words] = partial(
    doc_trees.read_words, number_of_pos=NUMBER_OF_POS, known={}, read_feats=_read_feats
)
"""Reads what rules need of the words of sentences; features are kept by their hash."""
