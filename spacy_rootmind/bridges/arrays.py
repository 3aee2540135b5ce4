"""The decoder of parsers that pass the scores of one sentence as an array."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.trees.decoding import decode


def decode_sentence(scores: NDArray[Any]) -> NDArray[np.intp]:
    """Find the best single-root tree of a sentence.

    Parameters
    ----------
    scores : array of shape (n + 1, n + 1)
        `scores[dep, head]`, index 0 is ROOT. Not changed.

    Returns
    -------
    heads : int array of shape (n + 1,)
        0 at index 0, where `spacy_rootmind.decode` has -1.

    Raises
    ------
    NoTreeError, TypeError, ValueError
        As `spacy_rootmind.decode`.
    """
    if scores.dtype != np.float32:
        scores = scores.astype(np.float64, copy=False)
    heads = decode(scores).astype(np.intp)
    heads[0] = 0
    return heads
