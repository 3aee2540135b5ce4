"""The sentences of Docs, and the tokens that the parser scores in each.

Whitespace tokens belong to a sentence but are never scored and never a head. `Sentences` lists, for
each sentence in order, the indices of its scored tokens; a sentence of nothing but whitespace has
none. Sentences are planned over the tokens of several Docs in a row, in which each Doc starts one.
"""

from collections import deque
from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc

from spacy_rootmind.annotation.doc_trees import read_tokens

Sentences = list[NDArray[np.int64]]
Starts = NDArray[np.int64]

# Log-odds of a boundary that the Doc has, or, negative, that it rules out. The limit on the length
# of a sentence overrules both.
CERTAIN = 1e6
# Log-odds of a boundary where a line ends, which constraints overrule.
AT_LINE_END = CERTAIN / 4
# Log-odds, as the network predicts them, of a boundary that may leave a sentence without a word.
SURE = 2.2
# Log-odds of a boundary between what is joined.
JOINED = -CERTAIN / 8
# Log-odds of a boundary that must not be there, however long the sentence becomes.
NEVER = -1e12

# Marks that make a line across the page, and how many of them at least: fewer are an item's mark, a
# dash or a signature's.
RULERS = frozenset("-_*=~#+\u2013\u2014\u2500\u2550")
MIN_RULER = 4

# Characters of references between their brackets; "2][3" is one token.
REFERENCE = "0123456789,][-\u2013"

# Label of whitespace tokens, which have no relation of their own; spaCy's for "some relation".
SPACE_LABEL = "dep"


class TokenRow:
    """The tokens of Docs, one Doc after another.

    Attributes
    ----------
    docs : list of Doc
    n_tokens : int
    bounds : int array of shape (n_docs + 1,)
        The first token of each Doc, and the number of all tokens.
    has_label, is_space, is_alpha : bool array of shape (n_tokens,)
    needs_mark : bool array of shape (n_tokens,)
        Whitespace and the first word of each Doc, which start a sentence only if they are marked.
    marks : int8 array of shape (n_tokens,)
        Marks of sentence starts: 1 yes, -1 no, 0 unknown.
    words : int array of shape (n_words,)
        The tokens that are not whitespace.
    """

    def __init__(self, docs: Sequence[Doc]) -> None:
        self.docs = list(docs)
        self.bounds = np.array([0, *accumulate(map(len, self.docs))], dtype=np.int64)
        self.n_tokens = int(self.bounds[-1])
        _, flags = read_tokens(self.docs)
        self.has_label, self.is_space, self.is_alpha, self.needs_mark = flags[:4].view(np.bool_)
        self.marks = flags[4]
        self.words = (~self.is_space).nonzero()[0]

    def complete_marks(self, marks: NDArray[np.int8]) -> NDArray[np.int8]:
        """Rule out unknown starts that would make a sentence of whitespace; each Doc starts one.

        Changes the marks in place, and returns them.
        """
        marks[self.needs_mark & (marks == 0)] = -1
        marks[self.bounds[self.bounds < self.n_tokens]] = 1
        return marks

    def place(self, number: int) -> slice:
        """Return the place of a Doc among all tokens."""
        return slice(*self.bounds[number : number + 2].tolist())

    def docs_with(self, tokens: NDArray[np.bool_]) -> list[tuple[Doc, slice]]:
        """List the Docs that have some of the tokens, each with its place."""
        if not tokens.any():
            return []
        numbers = sorted(set(self.numbers_at(np.flatnonzero(tokens))))
        return [(self.docs[number], self.place(number)) for number in numbers]

    def numbers_at(self, tokens: NDArray[np.int64]) -> list[int]:
        """List the numbers of the Docs that have some tokens."""
        return (self.bounds.searchsorted(tokens, side="right") - 1).tolist()

    def words_of_docs(self) -> Sentences:
        """List the words of each Doc, counted from its first token."""
        stops = self.words.searchsorted(self.bounds).tolist()
        places = zip(stops, stops[1:], self.bounds.tolist(), strict=False)
        return [self.words[start:stop] - first for start, stop, first in places]


def sentence_starts(doc: Doc) -> Starts:
    """List the first token of each of a Doc's sentences, ascending from 0, and the Doc's length.

    A Doc without boundaries counts as one sentence.
    """
    row = TokenRow([doc])
    return row_starts(row, row.marks)


def bounds(starts: Sequence[int] | NDArray[np.int64], n_tokens: int) -> Starts:
    """Add the Doc's two ends to its sentence starts; [0] for an empty Doc."""
    is_bound = np.zeros(n_tokens + 1, dtype=np.bool_)
    is_bound[[0, n_tokens]] = True
    is_bound[np.asarray(starts, dtype=np.int64)] = True
    return is_bound.nonzero()[0]


def scored_tokens(row: TokenRow, starts: Starts) -> Sentences:
    """List the tokens to score in each sentence: all but whitespace."""
    stops = row.words.searchsorted(starts).tolist()
    return [row.words[start:stop] for start, stop in pairwise(stops)]


def words_of(doc: Doc) -> NDArray[np.int64]:
    """List the tokens that are not whitespace."""
    return TokenRow([doc]).words


def count_line_ends(doc: Doc, before: int, after: int) -> int:
    """Count the line ends in the whitespace between two words."""
    return sum(space.text.count("\n") for space in doc[before + 1 : after])


def sentences_of(doc: Doc) -> Sentences:
    """List the tokens to score in each of a Doc's sentences."""
    return scored_tokens(TokenRow([doc]), sentence_starts(doc))


# --- finding boundaries ------------------------------------------------------------------------


def row_starts(row: TokenRow, log_odds: NDArray[np.floating]) -> Starts:
    """List the tokens with positive log-odds or marks, and the bounds of Docs."""
    is_bound = np.empty(row.n_tokens + 1, dtype=np.bool_)
    np.greater(log_odds, 0, out=is_bound[:-1])
    is_bound[row.bounds] = True
    return is_bound.nonzero()[0]


def choose_starts(
    row: TokenRow, log_odds: NDArray[np.floating], max_words: int
) -> tuple[Starts, NDArray[np.int64]]:
    """Choose the most likely boundaries that leave no sentence with more than `max_words` words.

    Boundaries are independent, so the most likely choice has the largest sum of log-odds, of shape
    (n_tokens,); see `CERTAIN` and `NEVER`. Whitespace does not count towards the length. Also
    returns the first tokens of the sentences that were split because of it.
    """
    starts, words = row_starts(row, log_odds), row.words
    if len(words) <= max_words:
        return starts, starts[:0]
    first = np.searchsorted(words, starts)
    too_long = np.flatnonzero(np.diff(first) > max_words)
    added = [
        words[first[i] + _best_cuts(log_odds[words[first[i] : first[i + 1]]], max_words)]
        for i in too_long.tolist()
    ]
    return np.unique(np.concatenate([starts, *added])) if added else starts, starts[too_long]


def move_past_references(row: TokenRow, log_odds: NDArray[np.floating]) -> None:
    """Move starts from references such as "[17]" to the word after them, in place.

    A reference within a line belongs to the sentence before it.
    """
    for start in ((log_odds > 0) & ~row.is_alpha).nonzero()[0]:
        [number] = row.numbers_at(start[None])
        doc, token = row.docs[number], int(start - row.bounds[number])
        end = token
        while token and len(doc) > end + 2 and doc[end].text == "[" and doc[end + 2].text == "]":
            if doc[end + 1].text.strip(REFERENCE) or "\n" in doc[end - 1].text:
                break
            end += 3
        if end > token:
            odds, log_odds[start] = log_odds[start], JOINED
            if end < len(doc) and not doc[end].is_space:
                after = row.bounds[number] + end
                log_odds[after] = max(log_odds[after], odds)


def join_wordless(
    row: TokenRow, log_odds: NDArray[np.floating], is_sure: NDArray[np.bool_]
) -> NDArray[np.floating]:
    """Change log-odds so that each sentence has a letter or digit, if a neighbour can take it.

    Boundaries that the Doc or the constraints state are kept, and so is a line across the page. If
    both boundaries of a sentence may go, the one with less whitespace goes; at equal whitespace,
    the less likely one. If the network `is_sure` of that one, of shape (n_tokens,), both stay.
    """
    if not row.n_tokens:
        return log_odds
    starts = row_starts(row, log_odds)
    # Nearly all sentences have a word of letters alone: the others are looked at more closely.
    has_alphabetic = np.logical_or.reduceat(row.is_alpha, starts[:-1])
    if has_alphabetic.all():
        return log_odds
    # Infinite where a boundary has to stay, or is gone already.
    gone, odds = [], np.append(log_odds, np.inf)[starts]
    odds[np.searchsorted(starts, row.bounds)] = np.inf
    for i in np.flatnonzero(~has_alphabetic).tolist():
        [number] = row.numbers_at(starts[i : i + 1])
        doc, ends = row.docs[number], (starts[i : i + 2] - row.bounds[number]).tolist()
        text = doc[ends[0] : ends[1]].text
        if any(map(str.isalnum, text)) or _is_ruler(text):
            continue
        places = zip((i, i + 1), ends, strict=True)
        free = [(_gap_before(doc, end), odds[j], j) for j, end in places if odds[j] < CERTAIN / 2]
        if free and not is_sure[starts[chosen := min(free)[-1]]]:
            gone.append(starts[chosen])
            odds[chosen] = np.inf
    if not gone:
        return log_odds
    joined = log_odds.copy()
    joined[gone] = JOINED
    # Sentences that were joined to each other may still have no word.
    return join_wordless(row, joined, is_sure)


def _is_ruler(text: str) -> bool:
    """Tell whether a text is a line across the page, which treebanks have as a sentence."""
    marks = "".join(text.split())
    return len(marks) >= MIN_RULER and marks[0] in RULERS and len(set(marks)) == 1


def _gap_before(doc: Doc, token: int) -> int:
    """Rank the whitespace before a token: none, on the same line, a line end, a blank line."""
    before = token - 1
    while before > 0 and doc[before].is_space:
        before -= 1
    is_apart = before < token - 1 or bool(doc[before].whitespace_)
    return is_apart + min(count_line_ends(doc, before, token), 2)


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
