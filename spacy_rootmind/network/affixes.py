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

from spacy_rootmind.compat import StaticVectors
from spacy_rootmind.network.types import Docs, Floats2d

# The layer that finds the affixes.
AFFIXES = "affixes"
# The attribute whose letters are used.
LETTERS = "LOWER"


def build_affix_embed(
    width: int,
    attrs: Sequence[str],
    prefixes: Sequence[int],
    suffixes: Sequence[int],
    rows: Sequence[int],
    include_static_vectors: bool = False,
) -> Model[Docs, list[Floats2d]]:
    """Embed words by attributes, as `spacy.MultiHashEmbed.v2`, and by prefixes and suffixes.

    Affixes are read in lower case. A word that is not longer than an affix stands for itself, apart
    from longer words with these letters.

    Parameters
    ----------
    width : int
        Width of each embedding, and of the result.
    attrs : list of str
        Attributes of tokens, such as "NORM" and "SHAPE".
    prefixes, suffixes : list of int
        Numbers of characters.
    rows : list of int
        Rows of the hashed table of each attribute, prefix and suffix, in this order.
    include_static_vectors : bool
        Whether the word vectors of the vocab are mixed in.

    Returns
    -------
    model : Model[list[Doc], list[Floats2d]]
        Vectors of tokens, of shape (n_tokens, width) for each Doc.

    Raises
    ------
    ValueError
        If a length is less than 1, or there is another number of tables than of rows.
    """
    lengths = [*prefixes, *(-length for length in suffixes)]
    n_tables = len(attrs) + len(lengths)
    if min([1, *prefixes, *suffixes]) < 1 or len(rows) != n_tables or not n_tables:
        raise ValueError(
            f"expected numbers of characters of 1 or more, and the rows of as many tables as there "
            f"are attributes, prefixes and suffixes, received the attributes {list(attrs)}, the "
            f"prefixes {list(prefixes)}, the suffixes {list(suffixes)} and the rows {list(rows)}"
        )
    extractor: Any = Model(
        AFFIXES, forward, attrs={"columns": [*attrs, LETTERS], "lengths": lengths}
    )
    tables: list[Any] = [
        HashEmbed(width, n_rows, column=column, seed=column, dropout=0.0)
        for column, n_rows in enumerate(rows)
    ]
    embedded: Any = chain(extractor, list2ragged(), with_array(concatenate(*tables)))
    if include_static_vectors:
        embedded = concatenate(embedded, StaticVectors(width, dropout=0.0))
    n_inputs = n_tables + include_static_vectors
    mix: Any = Maxout(width, width * n_inputs, nP=3, dropout=0.0, normalize=True)
    return chain(embedded, with_array(mix), ragged2list())


def forward(model: Model[Docs, Any], docs: Docs, is_train: bool) -> tuple[list[Any], Callable]:
    """Look up the attributes, and the numbers of the affixes, of each Doc's tokens."""
    ops: Any = model.ops
    columns, lengths = model.attrs["columns"], model.attrs["lengths"]
    found = []
    for doc in docs:
        values = doc.to_array(columns).reshape(len(doc), len(columns))
        keys, places = np.unique(values[:, -1], return_inverse=True)
        words = [doc.vocab.strings[key] for key in keys.tolist()]
        numbers = [[number_of(word, length) for length in lengths] for word in words]
        affixes = np.array(numbers, dtype=np.uint64).reshape(len(words), len(lengths))
        found.append(ops.asarray2i(np.hstack([values[:, :-1], affixes[places]]), dtype="uint64"))
    return found, lambda d_result: []


def number_of(word: str, length: int) -> int:
    """Return the number of a prefix of some length, or for a negative length of a suffix."""
    if len(word) <= abs(length):
        return crc32(f"{word}\n".encode())
    return crc32((word[:length] if length > 0 else word[length:]).encode())
