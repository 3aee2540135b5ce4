"""Reading and writing of single sentences in CoNLL-U.

Whitespace is written in UDPipe's way: `SpaceAfter=No` where no space follows, `SpacesAfter=` and
`SpacesBefore=` with escapes where it is not a single space, and `SpacesInToken=` for a word with
whitespace inside.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from spacy_rootmind.annotation.gold import on_cycles
from spacy_rootmind.formats.lines import Line

ID, FORM, LEMMA, UPOS, XPOS, FEATS, HEAD, DEPREL, DEPS, MISC = range(10)
N_COLUMNS = 10
EMPTY = "_"

# At most nine digits, so that the numbers fit into 32 bits.
WORD_ID = re.compile(r"[1-9]\d{0,8}", re.ASCII)
RANGE_ID = re.compile(r"([1-9]\d{0,8})-([1-9]\d{0,8})", re.ASCII)
EMPTY_NODE_ID = re.compile(r"(\d{1,9})\.([1-9]\d{0,8})", re.ASCII)

# Characters that some tool takes as the end of a column or a line, and runs of whitespace; a single
# no-break space may stay.
BREAKS = re.compile(r"\s{2,}|[ \t\n\r\x0b\x0c\x1c-\x1f\x85\u2028\u2029]")
ESCAPES = {" ": r"\s", "\t": r"\t", "\r": r"\r", "\n": r"\n", "|": r"\p", "\\": r"\\"}


class ConlluError(ValueError):
    """An invalid line; `line` is its number in the file."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line


@dataclass
class Sentence:
    """A sentence as it is in a file, from a line on, counted from 1.

    The rows of ten columns are words, multiword tokens and empty nodes, in order; `word_rows` are
    the places of the words among them.
    """

    line: int
    comments: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    word_rows: list[int] = field(default_factory=list)

    @property
    def words(self) -> list[list[str]]:
        """Rows of the words, without multiword tokens and empty nodes."""
        return [self.rows[i] for i in self.word_rows]

    @property
    def given_columns(self) -> list[int]:
        """Columns of lemmas, tags and features that have a value for some word."""
        columns = (LEMMA, UPOS, XPOS, FEATS)
        return [column for column in columns if any(row[column] != EMPTY for row in self.words)]

    def line_of(self, word: int) -> int:
        """Return the line number of a word; words are counted from 0."""
        return self.line + len(self.comments) + self.word_rows[word]

    def comment(self, key: str) -> str | None:
        """Find the value of a comment `# key = value`."""
        for comment in self.comments:
            name, equals, value = comment[1:].partition("=")
            if equals and name.strip() == key:
                return value.strip()
        return None


def read_sentence(first: int, lines: Iterable[Line]) -> Sentence:
    """Read the lines of a sentence, none of which is empty; heads and labels are not checked.

    Raises ConlluError at the first invalid line.
    """
    sentence = Sentence(first)
    range_end = 0
    for line in lines:
        try:
            text = line.decode()
        except ValueError as error:
            raise ConlluError(line.number, str(error)) from error
        if not text.startswith("#"):
            range_end = max(range_end, _add_row(sentence, line.number, text.split("\t"), range_end))
        elif sentence.rows:
            raise ConlluError(
                line.number,
                "found a comment inside a sentence; is the empty line before it missing?",
            )
        else:
            sentence.comments.append(text)
    if not sentence.word_rows:
        raise ConlluError(first, "expected a sentence with words, found none")
    if range_end > len(sentence.word_rows):
        raise ConlluError(
            first,
            f"expected multiword tokens to end at word {len(sentence.word_rows)} or before, found "
            f"one that ends at {range_end}",
        )
    return sentence


def _add_row(sentence: Sentence, line: int, row: list[str], range_end: int) -> int:
    """Add a row; returns the last word of a multiword token, 0 for other rows."""
    if len(row) != N_COLUMNS:
        raise ConlluError(line, f"expected {N_COLUMNS} columns separated by tabs, found {len(row)}")
    if not row[FORM]:
        raise ConlluError(line, "expected a form, found an empty column FORM")
    found, following, last = row[ID], len(sentence.word_rows) + 1, 0
    if WORD_ID.fullmatch(found):
        if int(found) != following:
            raise ConlluError(line, f"expected ID {following}, found {found}")
        sentence.word_rows.append(len(sentence.rows))
    elif match := RANGE_ID.fullmatch(found):
        start, last = map(int, match.groups())
        if start != following or last < start or start <= range_end:
            raise ConlluError(
                line,
                f"expected a multiword token to start at {following}, and at or before its end, "
                f"and not to overlap with another one, found {found}",
            )
    elif not EMPTY_NODE_ID.fullmatch(found):
        raise ConlluError(line, f"expected an ID like 1, 1-2 or 1.1, found {found[:40]!r}")
    sentence.rows.append(row)
    return last


class Arc(NamedTuple):
    """The given head (0 for the root) and label of a word, None where there is none."""

    head: int | None
    label: str | None


def read_arcs(sentence: Sentence) -> list[Arc]:
    """Read the heads and labels of words; the label "root" and the head 0 imply each other.

    Raises ConlluError if a head is no word of the sentence, the root has another label or "root"
    another head, there are several roots, or heads make a cycle.
    """
    arcs: list[Arc] = []
    for word, row in enumerate(sentence.words):
        try:
            arcs.append(_read_arc(row, len(sentence.word_rows)))
        except ValueError as error:
            raise ConlluError(sentence.line_of(word), str(error)) from None
    roots = [word for word, arc in enumerate(arcs) if arc.head == 0]
    if len(roots) > 1:
        words = f"{roots[0] + 1} and {roots[1] + 1}"
        raise ConlluError(sentence.line_of(roots[1]), f"expected one root, found the words {words}")
    cycle = on_cycles(np.array([0, *(arc.head or 0 for arc in arcs)]))
    if cycle:
        words = ", ".join(str(word) for word in cycle)
        raise ConlluError(sentence.line_of(cycle[0] - 1), f"expected no cycle, found {words}")
    return arcs


def _read_arc(row: Sequence[str], n_words: int) -> Arc:
    head, label = (None if row[column] in ("", EMPTY) else row[column] for column in (HEAD, DEPREL))
    if label is not None and label.lower() == "root":
        head, label = head or "0", "root"
    if head == "0" and label in (None, "root"):
        return Arc(0, "root")
    if head is None or (WORD_ID.fullmatch(head) and int(head) <= n_words and label != "root"):
        return Arc(None if head is None else int(head), label)
    raise ValueError(
        f"expected a head from 1 to {n_words}, or the head 0 and the label root, found {head} and "
        f"{label or EMPTY}"
    )


class Token(NamedTuple):
    """A token of the text: one or several words, from `first` up to but not including `stop`."""

    form: str
    spaced: bool
    first: int
    stop: int


def tokens_of(rows: Sequence[Sequence[str]]) -> Iterator[Token]:
    """List the tokens of the text, which cover all words; empty nodes are not in the text."""
    place = 0
    for row in rows:
        first_id, _, last_id = row[ID].partition("-")
        if last_id or (first_id.isdecimal() and int(first_id) > place):
            first, place = place, int(last_id or first_id)
            yield Token(row[FORM], "SpaceAfter=No" not in row[MISC].split("|"), first, place)


def words_and_spaces(sentence: Sentence) -> tuple[list[str], list[bool]]:
    """List the words and whether a space follows each; there is none inside a multiword token."""
    spaces: list[bool] = []
    for token in tokens_of(sentence.rows):
        spaces += [*[False] * (token.stop - token.first - 1), token.spaced]
    return [row[FORM] for row in sentence.words], spaces


def surface_text(rows: Sequence[Sequence[str]]) -> str:
    """Return the text of a sentence, as in the comment `# text = `."""
    tokens = tokens_of(rows)
    return "".join(token.form + " " * token.spaced for token in tokens).rstrip(" ")


def format_sentence(comments: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format a sentence, with the empty line after it."""
    lines = [*comments, *("\t".join(row) for row in rows)]
    return "\n".join(lines) + "\n\n"


def as_column(value: str) -> str:
    """Fit a value into a column: whitespace becomes single spaces, an empty value becomes "_"."""
    return normalized(collapsed(value)) or EMPTY


def normalized(value: str) -> str:
    """Convert to Unicode's normal form C, which UD wants."""
    return unicodedata.normalize("NFC", value)


def collapsed(value: str) -> str:
    """Replace whitespace that a column cannot hold by single spaces."""
    return BREAKS.sub(" ", value).strip()


def sort_features(features: str) -> str:
    """Sort features and their values in UD's order, in which "Number" precedes "NumForm".

    spaCy sorts by the characters' codes.
    """
    if not features:
        return ""
    pairs = []
    for feature in sorted(features.split("|"), key=str.lower):
        name, equals, values = feature.partition("=")
        pairs.append(name + equals + ",".join(sorted(values.split(","), key=str.lower)))
    return "|".join(pairs)


def set_misc(misc: str, values: dict[str, str | None]) -> str:
    """Set attributes in the column MISC, or remove those that are None; keep the others."""
    parts = [] if misc == EMPTY else misc.split("|")
    parts = [part for part in parts if part.partition("=")[0] not in values]
    parts += [f"{key}={value}" for key, value in values.items() if value is not None]
    return "|".join(parts) or EMPTY


def escape_spaces(spaces: str) -> str:
    r"""Escape whitespace for the column MISC; a no-break space is \u00A0, as in treebanks."""
    return "".join(
        ESCAPES.get(char) or (f"\\u{ord(char):04X}" if char.isspace() else char) for char in spaces
    )
