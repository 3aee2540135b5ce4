"""The sentences of a Doc, and the tokens that the parser scores in each.

Whitespace tokens belong to a sentence but are never scored and never a head. `Sentences` lists, for
each sentence in order, the indices of its scored tokens in the Doc; a sentence of nothing but
whitespace has none.
"""

from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import IS_SPACE, SENT_START
from spacy.tokens import Doc

from spacy_rootmind.trees.conventions import MISSING

Sentences = list[NDArray[np.int64]]
Starts = NDArray[np.int64]

# Log-odds of a boundary that the Doc has, or, negative, that it rules out. The limit on the length
# of a sentence overrules both.
CERTAIN = 1e6
# Log-odds of a boundary at a blank line, which constraints overrule.
AT_BLANK_LINE = CERTAIN / 4
# Log-odds of a boundary that must not be there, however long the sentence becomes.
NEVER = -1e12

# Name among `doc.user_hooks` of a function that computes `doc.sents`.
SENTS_HOOK = "sents"

# Label of whitespace tokens, which have no relation of their own; spaCy's for "some relation".
SPACE_LABEL = "dep"


def has_boundaries(doc: Doc) -> bool:
    """Tell whether a Doc has sentence boundaries, as annotation or by its hook for `doc.sents`."""
    return SENTS_HOOK in doc.user_hooks or doc.has_annotation("SENT_START")


def start_marks(doc: Doc) -> NDArray[np.int8]:
    """Read the marks of sentence starts: 1 yes, -1 no, 0 unknown.

    The annotation does not know of a Doc's hook for `doc.sents`, which decides where there is one.
    """
    if SENTS_HOOK not in doc.user_hooks:
        return doc.to_array(SENT_START).astype("i8").astype("i1").reshape(len(doc))
    marks = np.full(len(doc), -1, dtype="i1")
    marks[[sentence.start for sentence in doc.sents]] = 1
    return marks


def sentence_starts(doc: Doc) -> Starts:
    """List the first token of each of a Doc's sentences, ascending from 0, and the Doc's length.

    A Doc without boundaries counts as one sentence.
    """
    starts = np.zeros(0, dtype="i8")
    if len(doc) and has_boundaries(doc):
        starts = (start_marks(doc) == 1).nonzero()[0]
    return bounds(starts, len(doc))


def bounds(starts: Sequence[int] | NDArray[np.int64], n_tokens: int) -> Starts:
    """Add the Doc's two ends to its sentence starts; [0] for an empty Doc."""
    return np.unique(np.concatenate(([0], starts, [n_tokens])).astype("i8"))


def scored_tokens(doc: Doc, starts: Starts) -> Sentences:
    """List the tokens to score in each sentence: all but whitespace."""
    if len(starts) < 2:
        return []
    return np.split(words_of(doc), np.searchsorted(words_of(doc), starts[1:-1]))


def words_of(doc: Doc) -> NDArray[np.int64]:
    """List the tokens that are not whitespace."""
    return (doc.to_array(IS_SPACE) == 0).nonzero()[0]


def blank_line_gaps(doc: Doc) -> list[tuple[int, int]]:
    """List the words before and after each gap with a blank line."""
    words = words_of(doc)
    gaps = (np.diff(words) > 1).nonzero()[0]
    pairs = zip(words[gaps].tolist(), words[gaps + 1].tolist(), strict=True)
    return [
        (before, after)
        for before, after in pairs
        if sum(space.text.count("\n") for space in doc[before + 1 : after]) > 1
    ]


def sentences_of(doc: Doc) -> Sentences:
    """List the tokens to score in each of a Doc's sentences."""
    return scored_tokens(doc, sentence_starts(doc))


def attach_spaces(heads: NDArray[np.int32], start: int) -> None:
    """Attach a sentence's whitespace tokens, in place: to the word before, or else to the first.

    `heads` are those of a sentence that starts at token `start`, MISSING for whitespace. Without
    any word, the first token becomes the root.
    """
    words = (heads != MISSING).nonzero()[0]
    spaces = (heads == MISSING).nonzero()[0]
    if len(words):
        before = np.searchsorted(words, spaces) - 1
        heads[spaces] = start + words[np.maximum(before, 0)]
    else:
        heads[:] = start


# --- finding boundaries ------------------------------------------------------------------------


def choose_starts(doc: Doc, log_odds: NDArray[np.floating], max_words: int) -> tuple[Starts, int]:
    """Choose the most likely boundaries that leave no sentence with more than `max_words` words.

    Boundaries are independent, so the most likely choice has the largest sum of log-odds.

    Parameters
    ----------
    doc
        Its words count towards the length; whitespace does not.
    log_odds : float array of shape (len(doc),)
        Log-odds that each token starts a sentence; see `CERTAIN` and `NEVER`.
    max_words
        At least 1.

    Returns
    -------
    starts : int array
        As returned by `sentence_starts`.
    n_split : int
        Number of sentences that were split because of their length.
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

    `gains[i]` is the gain of a cut before word i. O(n), with a monotone queue of the best totals
    within reach.
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
