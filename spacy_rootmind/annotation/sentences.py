"""Which tokens of a Doc form a sentence, and which of them the parser scores.

Whitespace tokens belong to a sentence but are never scored and never a head. In what follows a
`Sentences` lists, for each sentence in order, the Doc's indices of its scored tokens; a sentence of
nothing but whitespace has none.
"""

from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import IS_SPACE, SENT_START
from spacy.tokens import Doc

Sentences = list[NDArray[np.int64]]
Starts = NDArray[np.int64]

# A boundary that must be there, in log-odds, or that a Doc rules out. Both are overruled where a
# sentence would become longer than is allowed.
CERTAIN = 1e6
# One that must not be there, whatever becomes of the sentence's length.
NEVER = -1e12


def sentence_starts(doc: Doc) -> Starts:
    """First tokens of the sentences that a Doc has, and its length; ascending from 0.

    Without boundaries on it, the Doc counts as one sentence.
    """
    starts = np.zeros(0, dtype="i8")
    if len(doc) and doc.has_annotation("SENT_START"):
        starts = (doc.to_array(SENT_START).astype("i8") == 1).nonzero()[0]
    return bounds(starts, len(doc))


def bounds(starts: Sequence[int] | NDArray[np.int64], n_tokens: int) -> Starts:
    """Complete sentence starts by the Doc's own two ends; [0] for an empty Doc."""
    return np.unique(np.concatenate(([0], starts, [n_tokens])).astype("i8"))


def scored_tokens(doc: Doc, starts: Starts) -> Sentences:
    """List the tokens to score in each sentence, all but whitespace."""
    if len(starts) < 2:
        return []
    return np.split(words_of(doc), np.searchsorted(words_of(doc), starts[1:-1]))


def words_of(doc: Doc) -> NDArray[np.int64]:
    """List the tokens that are not whitespace."""
    return (doc.to_array(IS_SPACE) == 0).nonzero()[0]


def sentences_of(doc: Doc) -> Sentences:
    """List the tokens to score in each of the sentences that a Doc has."""
    return scored_tokens(doc, sentence_starts(doc))


# --- finding boundaries ------------------------------------------------------------------------


def choose_starts(doc: Doc, log_odds: NDArray[np.floating], max_words: int) -> tuple[Starts, int]:
    """Choose the most likely boundaries that leave no sentence with more than `max_words` words.

    Each boundary is judged by its own log-odds, so the most likely choice is that with the largest
    sum of log-odds.

    Parameters
    ----------
    doc
        Its words are counted; whitespace is not.
    log_odds : float array of shape (len(doc),)
        That each token starts a sentence; 0 and less count as no. See `CERTAIN` and `NEVER`.
    max_words
        At least 1.

    Returns
    -------
    starts : int array
        As of `sentence_starts`.
    n_split : int
        Sentences that were split because of their length alone.
    """
    if not len(doc):
        return bounds([], 0), 0
    starts = bounds(np.flatnonzero(log_odds > 0), len(doc))
    words = words_of(doc)
    first = np.searchsorted(words, starts)
    too_long = np.flatnonzero(np.diff(first) > max_words)
    added = [
        words[first[i] + _best_cuts(log_odds[words[first[i] : first[i + 1]]], max_words)]
        for i in too_long.tolist()
    ]
    return bounds(np.concatenate([starts, *added]), len(doc)), len(too_long)


def _best_cuts(gains: NDArray[np.floating], longest: int) -> NDArray[np.int64]:
    """Cut a row of words into pieces of at most `longest`, with the largest sum of gains.

    `gains[i]` is that of a cut before word i. O(n): the best totals within reach are kept in a
    monotone queue.
    """
    n = len(gains)
    totals = [0.0] * (n + 1)
    before = [0] * (n + 1)
    window: deque[int] = deque([0])
    for end, gain in enumerate([*gains[1:].tolist(), 0.0], start=1):
        if window[0] < end - longest:
            window.popleft()
        before[end] = window[0]
        totals[end] = totals[window[0]] + gain
        while window and totals[window[-1]] < totals[end]:
            window.pop()
        window.append(end)
    cuts = []
    end = before[n]
    while end > 0:
        cuts.append(end)
        end = before[end]
    return np.array(cuts[::-1], dtype=np.int64)
