"""The lines of a Doc's text, and sentences that start with them."""

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc

from spacy_rootmind.annotation.sentences import JOINED, count_line_ends, words_of

# Besides closing brackets.
CLOSING_MARKS = ".,;:!?\u2026\u3002\uff01\uff1f\u3001\uff0c\u0964\u06d4\u061f\u060c"
# Marks of items, headings and quotations, alone or repeated.
BULLETS = "-*+#>\u2022\u2023\u25e6\u25aa\u25ab\u25cf\u25cb\u25a0\u25a1\u25ba\u2605"

# A line that is not blank. Before its first word, it may have marks of quotation, a bullet, other
# marks and a label such as a number. These are not looked for in a line that begins with a closing
# mark, which belongs to the line before, or with a line across the page.
LINE = re.compile(
    r"^[^\S\n]*(?P<text>(?=\S)(?:"
    rf"(?![{re.escape(CLOSING_MARKS)})\]}}]|([-_*=~+\u2013\u2014\u2500\u2550])\2{{3}})"
    r"(?:>[> ]{0,20})?"
    rf"(?:[{re.escape(BULLETS)}]{{1,20}}(?:[^\S\n]|(?<=[^ -~])))?"
    r"""(?x:[^\w\n(\[]{0,20}
    (?P<label>
      (?: (?: \d{1,3}(?:\.\d{1,3})*[.)]?                # 1  1.  2)  1.2.3
            | \d+(?:[:/-]\d+)+(?:[.,]\d+)?              # 10:03  2024-05-01  00:01:02,500
            | [^\W\d_][.)] ) (?=:?\s) )?                # a)  B.
      (?: [^\w\n(\[]{0,3}
          (?: \((?:\w|\d{2,4}|[ivx]{2,5})\)             # (a)  (iv)  (12)
            | \[[^\s()[\]]{0,20}[ ]?[^\s()[\]]{0,20}\]  # [10:03]  [x]  [ ]  [!NOTE]
          ) (?=:?\s) ){0,2}
    )
    [^\w\n]{0,20})"""
    r")?(?P<word>\S*).*)",
    re.MULTILINE,
)
# Log-probability of a start that is as good as certain.
MOST_LOG_PROB = -1e-6


def sentence_gaps(doc: Doc, blank_lines: bool, line_ends: bool) -> list[tuple[int, int]]:
    """List the words before and after each gap in which a line end ends a sentence."""
    words = words_of(doc)
    gaps = (np.diff(words) > 1).nonzero()[0]
    least = 1 if line_ends else 2 if blank_lines else np.inf
    return [
        (before, after)
        for before, after in zip(words[gaps].tolist(), words[gaps + 1].tolist(), strict=True)
        if count_line_ends(doc, before, after) >= least
    ]


def share_starts(
    doc: Doc, log_odds: NDArray[np.floating], stated: NDArray[np.floating]
) -> NDArray[np.floating]:
    """Give the marks that a line begins with one boundary with the word after them.

    At most one of them starts a sentence, so their probabilities add up. The first one gets the
    sum, and the others start none. A text without line breaks stays as it is, and so does a line in
    which the Doc states that a token after the first mark is a start.

    `log_odds` and `stated`, both (len(doc),), are the log-odds that each token starts a sentence,
    and those that the Doc states, 0 where it does not.
    """
    text = doc.text
    if "\n" not in text:
        return log_odds
    shared = log_odds.copy()
    for line in LINE.finditer(text):
        tokens = _item_and_word(doc, line)
        if len(tokens) < 2 or (stated[tokens[1:]] > 0).any():
            continue
        log_prob = np.logaddexp.reduce(-np.logaddexp(0.0, -log_odds[tokens].astype(np.float64)))
        log_prob = min(log_prob, MOST_LOG_PROB)
        shared[tokens] = JOINED
        shared[tokens[0]] = log_prob - np.log(-np.expm1(log_prob))
    return shared


def _item_and_word(doc: Doc, line: re.Match[str]) -> list[int]:
    """List the tokens of a line from its first mark to its first word or, without one, label."""
    start, word = line.start("text"), line.start("word")
    if start == word or not (line["word"] or line["label"]):
        return []
    end = word + 1 if line["word"] else word
    span: Any = doc.char_span(start, end, alignment_mode="expand")
    return [token.i for token in span if not token.is_space] if span.start_char == start else []
