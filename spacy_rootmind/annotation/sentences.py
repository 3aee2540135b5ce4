"""The sentences of a Doc, and the tokens that the parser scores in each.

Whitespace tokens belong to a sentence but are never scored and never a head. `Sentences` lists, for
each sentence in order, the indices of its scored tokens in the Doc; a sentence of nothing but
whitespace has none.
"""

import unicodedata
from collections import deque
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import IS_ALPHA, IS_SPACE, SENT_START
from spacy.tokens import Doc, Span

from spacy_rootmind.trees.conventions import MISSING

Sentences = list[NDArray[np.int64]]
Starts = NDArray[np.int64]

# Log-odds of a boundary that the Doc has, or, negative, that it rules out. The limit on the length
# of a sentence overrules both.
CERTAIN = 1e6
# Log-odds of a boundary where a line ends, which constraints overrule.
AT_LINE_END = CERTAIN / 4
# Log-odds of a boundary between what is joined; without the sign, of one in its place.
JOINED = -CERTAIN / 8
# Log-odds of a boundary that must not be there, however long the sentence becomes.
NEVER = -1e12

# Sides of a mark without letters: which of the sentences around it it belongs to.
OPENING, CLOSING, NEUTRAL = "opening", "closing", "neutral"
# Besides closing brackets.
CLOSING_MARKS = frozenset(".,;:!?\u2026\u3002\uff01\uff1f\u3001\uff0c\u0964\u06d4\u061f\u060c")
# Marks of items, headings and quotations, alone or repeated; besides opening brackets.
BULLETS = frozenset("-*+#>\u2022\u2023\u25e6\u25aa\u25ab\u25cf\u25cb\u25a0\u25a1\u25ba\u2605")

# Marks that make a line across the page, and how many of them at least: fewer are an item's mark, a
# dash or a signature's.
RULERS = frozenset("-_*=~#+\u2013\u2014\u2500\u2550")
MIN_RULER = 4

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
    is_bound = np.zeros(n_tokens + 1, dtype=np.bool_)
    is_bound[[0, n_tokens]] = True
    is_bound[np.asarray(starts, dtype=np.int64)] = True
    return is_bound.nonzero()[0]


def scored_tokens(doc: Doc, starts: Starts) -> Sentences:
    """List the tokens to score in each sentence: all but whitespace."""
    if len(starts) < 2:
        return []
    words = words_of(doc)
    return np.split(words, np.searchsorted(words, starts[1:-1]))


def words_of(doc: Doc) -> NDArray[np.int64]:
    """List the tokens that are not whitespace."""
    return (doc.to_array(IS_SPACE) == 0).nonzero()[0]


def count_line_ends(doc: Doc, before: int, after: int) -> int:
    """Count the line ends in the whitespace between two words."""
    return sum(space.text.count("\n") for space in doc[before + 1 : after])


def sentences_of(doc: Doc) -> Sentences:
    """List the tokens to score in each of a Doc's sentences."""
    return scored_tokens(doc, sentence_starts(doc))


def attach_spaces(heads: NDArray[np.int32], start: int) -> None:
    """Attach a sentence's whitespace tokens, in place: to the word before, or else to the first.

    `heads` belong to a sentence that starts at token `start`, and are MISSING for whitespace.
    Without any word, the first token becomes the root.
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

    Boundaries are independent, so the most likely choice has the largest sum of log-odds, of shape
    (len(doc),); see `CERTAIN` and `NEVER`. Whitespace does not count towards the length. Also
    returns how many sentences were split because of it.
    """
    if not len(doc):
        return bounds([], 0), 0
    starts = bounds(np.flatnonzero(log_odds > 0), len(doc))
    if len(doc) <= max_words:
        return starts, 0
    words = words_of(doc)
    first = np.searchsorted(words, starts)
    too_long = np.flatnonzero(np.diff(first) > max_words)
    added = [
        words[first[i] + _best_cuts(log_odds[words[first[i] : first[i + 1]]], max_words)]
        for i in too_long.tolist()
    ]
    return bounds(np.concatenate([starts, *added]), len(doc)), len(too_long)


def join_wordless(doc: Doc, log_odds: NDArray[np.floating]) -> NDArray[np.floating]:
    """Change log-odds so that each sentence has a letter or digit, if a neighbour can take it.

    Boundaries that the Doc or the constraints state are kept, and so is a line across the page. The
    marks between two sentences with words are divided at the most plausible boundary: where most
    whitespace is, then where the fewest marks are on the wrong side, then where it is most likely.
    """
    if not len(doc):
        return log_odds
    starts = bounds(np.flatnonzero(log_odds > 0), len(doc)).tolist()
    is_fixed = [True, *(log_odds[starts[1:-1]] >= CERTAIN / 2).tolist(), True]
    joined = log_odds.copy()
    for first, last in _wordless_runs(doc, starts, is_fixed):
        joined[starts[first + 1 : last]] = JOINED
        if _is_ruler(doc[starts[first] : starts[last]].text):
            continue
        joined[[starts[i] for i in (first, last) if not is_fixed[i]]] = JOINED
        if not is_fixed[first] and not is_fixed[last]:
            best = _boundary_among_marks(doc, starts[first], starts[last], log_odds)
            joined[best] = max(log_odds[best], -JOINED)
    return joined


def _wordless_runs(
    doc: Doc, starts: Sequence[int], is_fixed: Sequence[bool]
) -> Iterator[tuple[int, int]]:
    """List the runs of sentences without a word, as first and end; a fixed boundary ends a run."""
    # Nearly all sentences have a word of letters alone: the others are looked at more closely.
    n_alphabetic = np.add.reduceat(doc.to_array(IS_ALPHA), starts[:-1])
    end = 0
    for first in np.flatnonzero(n_alphabetic == 0).tolist():
        if first < end:
            continue
        end = first
        while end < len(starts) - 1 and (end == first or not is_fixed[end]):
            if n_alphabetic[end] or _has_word(doc[starts[end] : starts[end + 1]]):
                break
            end += 1
        if end > first:
            yield first, end


def _has_word(span: Span) -> bool:
    return any(map(str.isalnum, span.text))


def _is_ruler(text: str) -> bool:
    """Tell whether a text is a line across the page, which treebanks have as a sentence."""
    marks = "".join(text.split())
    return len(marks) >= MIN_RULER and marks[0] in RULERS and len(set(marks)) == 1


def _boundary_among_marks(doc: Doc, first: int, end: int, log_odds: NDArray[np.floating]) -> int:
    """Choose where the second of two sentences starts that share the marks from `first` to `end`.

    Both ends are possible, and so is each mark between them that no constraint rules out.
    """
    marks = [i for i in range(first, end) if not doc[i].is_space]
    sides = [_side(doc[i].text) for i in marks]
    # On the wrong side: closing marks after the boundary, opening ones before it.
    wrong = sides.count(CLOSING)
    best, best_key = first, (-1, 0, 0.0)
    for i, side in zip([*marks, end], [*sides, NEUTRAL], strict=True):
        key = (_gap_before(doc, i), -wrong, float(log_odds[i]))
        if log_odds[i] > -CERTAIN / 2 and key >= best_key:
            best, best_key = i, key
        wrong += (side == OPENING) - (side == CLOSING)
    return best


def _gap_before(doc: Doc, token: int) -> int:
    """Rank the whitespace before a token: none, on the same line, a line end, a blank line."""
    before = token - 1
    while before > 0 and doc[before].is_space:
        before -= 1
    is_apart = before < token - 1 or bool(doc[before].whitespace_)
    return is_apart + min(count_line_ends(doc, before, token), 2)


def _side(mark: str) -> str:
    """Tell whether a mark belongs to what is before it or to what follows."""
    if all(char in CLOSING_MARKS or unicodedata.category(char) == "Pe" for char in mark):
        return CLOSING
    if all(char in BULLETS or unicodedata.category(char) == "Ps" for char in mark):
        return OPENING
    return NEUTRAL


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
