"""Embeddings of words by their first and last letters, `spacy_rootmind.AffixEmbed.v1`.

In many languages, these say more of a word's part of speech, features and head than the one letter
of spaCy's PREFIX and the three of its SUFFIX.
"""

from collections.abc import Callable, Sequence
from typing import Any
from zlib import crc32

import numpy as np
from thinc.api import (
    HashEmbed,
    Maxout,
    Model,
    chain,
    concatenate,
    list2ragged,
    ragged2list,
    with_array,
)

from spacy_rootmind.network.types import Docs, Floats2d

# The layer that finds the affixes.
AFFIXES = "affixes"
# The attribute whose letters are used.
LETTERS = "LOWER"


def build_affix_embed(
    embed: Model[Docs, list[Floats2d]],
    width: int,
    prefixes: Sequence[int],
    suffixes: Sequence[int],
    rows: int,
) -> Model[Docs, list[Floats2d]]:
    """Add embeddings of prefixes and suffixes to another layer's embeddings.

    Words are read in lower case. A word that is not longer than an affix stands for itself, apart
    from longer words with these letters.

    Parameters
    ----------
    embed : Model[list[Doc], list[Floats2d]]
        Such as `spacy.MultiHashEmbed.v2`.
    width : int
        Width of the layer's vectors, of each affix's, and of the result.
    prefixes, suffixes : list of int
        Numbers of characters.
    rows : int
        Rows of the table of each affix, hashed as in `spacy.MultiHashEmbed.v2`.

    Returns
    -------
    model : Model[list[Doc], list[Floats2d]]
        Vectors of tokens, of shape (n_tokens, width) for each Doc.

    Raises
    ------
    ValueError
        If a length is less than 1, or there is none.
    """
    lengths = [*prefixes, *(-length for length in suffixes)]
    if not lengths or min([*prefixes, *suffixes]) < 1:
        raise ValueError(
            f"expected numbers of characters of 1 or more for affixes, received the prefixes "
            f"{list(prefixes)} and the suffixes {list(suffixes)}"
        )
    extractor: Any = Model(AFFIXES, forward, attrs={"columns": [LETTERS], "lengths": lengths})
    tables: list[Any] = [
        HashEmbed(width, rows, column=column, seed=column, dropout=0.0)
        for column in range(len(lengths))
    ]
    affixes: Any = chain(extractor, list2ragged(), with_array(concatenate(*tables)))
    embedded: Any = chain(embed, list2ragged())
    mix: Any = Maxout(width, width * (1 + len(lengths)), nP=3, dropout=0.0, normalize=True)
    return chain(concatenate(embedded, affixes), with_array(mix), ragged2list())


def forward(model: Model[Docs, Any], docs: Docs, is_train: bool) -> tuple[list[Any], Callable]:
    """Look up the numbers of the affixes of tokens: arrays of shape (n_tokens, n_affixes)."""
    ops: Any = model.ops
    lengths: list[int] = model.attrs["lengths"]
    found = []
    for doc in docs:
        keys, places = np.unique(doc.to_array([LETTERS]).reshape(-1), return_inverse=True)
        words = [doc.vocab.strings[key] for key in keys.tolist()]
        numbers = [[number_of(word, length) for length in lengths] for word in words]
        table = np.array(numbers, dtype=np.uint64).reshape(len(words), len(lengths))
        found.append(ops.asarray2i(table[places], dtype="uint64"))
    return found, lambda d_result: []


def number_of(word: str, length: int) -> int:
    """Return the number of a prefix of some length, or for a negative length of a suffix."""
    if len(word) <= abs(length):
        return crc32(f"{word}\n".encode())
    return crc32((word[:length] if length > 0 else word[length:]).encode())
