"""Lines that begin with marks, numbers and labels, and the sentences that start there."""

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc
from strategies import rng_for

from spacy_rootmind.annotation.line_starts import LINE, share_starts
from spacy_rootmind.annotation.sentences import CERTAIN, TokenRow, choose_starts

VOCAB = spacy.blank("xx").vocab
# Second lines of a text. A bar is where the network is the surest of a start.
ITEMS = """
- |Avoid an undefined value.
* |Fix the build on Windows
+ |add a test
• |Milk and two eggs
◦ | Nested, with another space
\u2013 |Montag bis Freitag
— |Привет, как дела?
‣ |买牛奶
> |I think that this is good.
>>> |import this
> > - |Quoted twice, and an item
>| no space after the mark
# |Installation
#### |A heading of the fourth level
## 2. |Usage
| |cell of a table
- [ ] |Write the docs
- [x] |Release it
* **|Note** that this is bold
[!|NOTE]
> [!TIP] |Read this first.
1. |Install it.
2) |Run it.
3 |Scope of the agreement
1.2 |Scope of the agreement
4.10.3. |The tenant shall pay.
(a) |The party of the first part
(iv) |The buyer
(12) |Any other matter
b) |Zwei Eier
C. |Results
§ 3 |Der Mieter zahlt.
7. (b) |Nested numbers
[10:03] |anna: are you there?
[10:03 PM] <|bob> yes
10:03 |anna: are you there?
[2024-05-01 10:03:22] [INFO] |Server started
2024-05-01: |Fixed a leak
00:00:01,000 --> |00:00:04,000
[3] |See the appendix.
"|He came," she said.
«|Bonjour», dit-elle.
¿|Quién es?
\u0661. |اكتب اسمك
१) |अपना नाम लिखें
$ |pip install it
// |A comment in code
#|include <stdio.h>
"""
# The marks do not belong to the word at the bar, which starts the sentence itself.
NO_ITEMS = """
) |She came.
." |She came.
... |She came.
------------ |She came.
======== |She came.
in 3. |She came.
1998. |She came.
(#27196). |She came.
1.5). |She came.
[12]\u2013[15]. |She came.
(see the appendix) |She came.
me. |She came.
3 4. |She came.
"""


CASES = [(line, line in ITEMS) for line in (ITEMS + NO_ITEMS).splitlines() if line]


def start_after(text, offset):
    """The start of the last sentence, if the network is sure of the word at an offset alone."""
    doc = spacy.blank("xx")(text)
    late = doc.char_span(offset, offset + 1, alignment_mode="expand")[0]
    log_odds = np.where(np.arange(len(doc)) == late.i, 1.0, -6.0).astype("f4")
    starts, _ = choose_starts(TokenRow([doc]), share_starts(doc, log_odds, np.zeros(len(doc))), 512)
    assert len(starts) <= 3
    return doc[int(starts[-2])].idx, late.idx


@pytest.mark.parametrize("before", ["so that the macro is usable\n", "He came:\n \n\t"])
@pytest.mark.parametrize(("line", "is_item"), CASES)
def test_marks_and_the_word_after_them_share_a_start(line, is_item, before):
    marks, _, word = line.rpartition("|")
    offset = len(before + marks) + word.startswith(" ")
    start, late = start_after(f"{before}{marks}{word}\nShe met Tom", offset)
    assert start == (len(before) if is_item else late)


@pytest.mark.parametrize(("rest", "expected"), [("\nand more", 0), (" and more", 8)])
def test_the_first_line_counts_in_a_text_of_several(rest, expected):
    assert start_after(f"[10:03] anna: hi{rest}", 8)[0] == expected


def test_probabilities_of_a_shared_start_add_up():
    """Random log-odds, up to where the sum is 1; all other tokens keep theirs."""
    words = ["Go", "\n", "-", "[", "x", "]", "*", "stop", "*", "\n\n", ">", "2", ".", "\n", "***"]
    doc = Doc(VOCAB, words=words, spaces=[word in ("-", "]", ">") for word in words])
    rng = rng_for("shared starts")
    for scale in (0.1, 3.0, 1000.0):
        before = (scale * rng.normal(size=len(doc)) - 3.0).astype("f4")
        after = share_starts(doc, before, np.zeros(len(doc)))
        expected, found = (0.5 + 0.5 * np.tanh(0.5 * odds.astype("f8")) for odds in (before, after))
        for run in (slice(2, 8), slice(10, 13)):
            total = min(expected[run].sum(), 1.0)
            expected[run] = 0.0
            expected[run.start] = total
        assert found == pytest.approx(expected, abs=2e-6)


@pytest.mark.parametrize(
    ("stated", "is_shared"),
    [({}, True), ({2: 1}, True), ({3: -1}, True), ({2: -1}, True), ({3: 1}, False)],
)
def test_starts_that_a_doc_states_are_not_moved(stated, is_shared):
    doc = Doc(VOCAB, words=["Go", "\n", "-", "stop", "it"])
    before, known = np.zeros(len(doc)), np.zeros(len(doc))
    known[list(stated)] = [CERTAIN * value for value in stated.values()]
    assert (share_starts(doc, before, known) != before).any() == is_shared


@pytest.mark.parametrize(
    "words", [[], ["\n"], ["-"], ["\n", "-"], ["-\n-", "a"], ["a\n-", "b", " "]]
)
def test_odd_docs_have_nothing_to_share(words):
    doc = Doc(VOCAB, words=words)
    before = np.zeros(len(doc))
    assert (share_starts(doc, before, before) == before).all()


@pytest.mark.parametrize(
    "part", ["= ", " ", "\n", "> ", "1.", "1:", "[", "[a ", "(a) ", "-", "- \n", "\n1"]
)
def test_lines_are_read_in_linear_time(part):
    """A pattern that tried all ways to cut a line would take hours."""
    text = "\n" + part * 200_000
    n_lines = sum(1 for _ in LINE.finditer(text))
    assert n_lines == sum(not line.isspace() for line in text.split("\n") if line)


@pytest.mark.parametrize("before", ["so that the macro is usable\n", "It is so.\n\n"])
def test_the_english_pipeline_starts_no_sentence_after_the_marks_of_a_line(web_pipeline, before):
    nlp = spacy.load(web_pipeline)
    lines = [line.rpartition("|") for line in ITEMS.splitlines() if line]
    texts = [f"{before}{marks}{word} and more" for marks, _, word in lines]
    for doc, (marks, _, _) in zip(nlp.pipe(texts), lines, strict=True):
        starts = [sentence[0].idx - len(before) for sentence in doc.sents]
        assert not any(0 < start <= len(marks) for start in starts), (marks, starts)
