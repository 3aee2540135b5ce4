"""The output of `review`: the words whose arcs are least probable, each with its sentence.

Sentences are read from what `parse` writes, CoNLL-U with probabilities and alternatives. The least
probable words are kept until all of the input is parsed.
"""

import heapq
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import cast
from urllib.parse import unquote

from spacy.tokens import Doc, Span
from spacy.vocab import Vocab

from spacy_rootmind.cli.errors import CommandError
from spacy_rootmind.cli.options import ReviewOptions
from spacy_rootmind.formats.conllu import decimals, read_sentences, write_conllu
from spacy_rootmind.formats.conllu_sentence import (
    DEPREL,
    FORM,
    HEAD,
    MISC,
    Sentence,
    format_sentence,
    read_arcs,
    set_misc,
)
from spacy_rootmind.formats.conllu_sentence import Arc as GivenArc
from spacy_rootmind.formats.drawn_tree import align, percent, printable
from spacy_rootmind.formats.lines import Line
from spacy_rootmind.formats.records import InputRecord
from spacy_rootmind.formats.registry import TEXT, Output, input_format
from spacy_rootmind.rendering.api import DEFAULTS, html_page
from spacy_rootmind.rendering.svg import sentence_svg

# Words that a table shows on each side of a word, other arcs to it, and alternatives of a picture.
CONTEXT = 5
SHOWN_ARCS, SHOWN_PROB = 3, 0.01
DRAWN_PARSES = 2
PARSE_COMMENT = re.compile(r"# parse_\d+ ")
# Shown as less than what is shown, not as zero.
TINY = 1e-6
Arc = tuple[str, str]
HEADER = ("prob", "word", "", "head and label", "or", "", "sentence")


@dataclass(frozen=True, eq=False)
class ReviewedSentence:
    """A sentence as CoNLL-U, with probabilities and alternatives, and its picture if wanted.

    Words are counted from 0; an arc is the head as numbered in CoNLL-U, and the label.
    """

    conllu: Sentence
    vocab: Vocab
    picture: str = ""

    def arc(self, word: int) -> Arc:
        """Return the arc to a word."""
        row = self.conllu.words[word]
        return row[HEAD], row[DEPREL]

    def prob(self, word: int) -> float | None:
        """Read the probability of a word's arc, or of its head if its label was changed."""
        misc = self._misc(word)
        prob = misc.get("ArcProb", misc.get("HeadProb"))
        return None if prob is None else float(prob)

    def probable_arcs(self, word: int) -> dict[Arc, float]:
        """Read the probabilities of all arcs to a word that are probable enough to be written."""
        arcs = (arc.split(":") for arc in self._misc(word).get("Arcs", "").split(",") if arc)
        # A label may have a subtype after a colon.
        return {(head, unquote(":".join(dep))): float(prob) for head, *dep, prob in arcs}

    def other_arcs(self, word: int) -> list[Arc]:
        """List the arcs to a word in alternative parses, the most probable first."""
        parses = (comment.partition("=") for comment in self.conllu.comments)
        arcs: set[Arc] = {
            cast(Arc, tuple(arcs.split()[1 + word].split(":", 1)))
            for name, _, arcs in parses
            if PARSE_COMMENT.fullmatch(name)
        } - {self.arc(word)}
        probs = self.probable_arcs(word)
        return sorted(arcs, key=lambda arc: -probs.get(arc, 0.0))

    def describe_arc(self, arc: Arc) -> str:
        """Name the head and the label."""
        head, label = arc
        return label if head == "0" else f"{self.conllu.words[int(head) - 1][FORM]} {label}"

    def put_back(self, given: Sequence[GivenArc]) -> None:
        """Give words the heads and labels of the input, and the probabilities of these."""
        for word, (row, (head, label)) in enumerate(zip(self.conllu.words, given, strict=True)):
            if head is not None and label is not None and self.prob(word) is not None:
                row[HEAD], row[DEPREL] = str(head), label
                prob = self.probable_arcs(word).get(self.arc(word), 0.0)
                row[MISC] = set_misc(row[MISC], {"HeadProb": None, "ArcProb": decimals(prob)})

    def _misc(self, word: int) -> dict[str, str]:
        parts = self.conllu.words[word][MISC].split("|")
        return {name: value for name, _, value in (part.partition("=") for part in parts)}


ReviewedWord = tuple[ReviewedSentence, int]
UncertainWord = tuple[float, ReviewedSentence, int]
"""The probability of the arc to a word of a sentence."""


class ReviewOutput(Output):
    """The sentences of the least probable words, which are known at the end."""

    verb = "Reviewed"

    def __init__(self, form: str, options: ReviewOptions) -> None:
        formats = {options.from_format or input_format(name) for name in options.inputs} or {TEXT}
        others = ", ".join(sorted(formats - {"conllu"}))
        if options.given_heads and others:
            raise CommandError(
                f"Cannot use --given-heads with files of {others}",
                "Give CoNLL-U, which has heads and labels.",
            )
        self._format = FORMATS[form]
        self._draws = form == "html"
        self._n_words = options.n_words
        self._of_given = options.given_heads
        self._n_seen = 0
        # A heap with the most probable word first, the last of those that are equally probable.
        self._words: list[tuple[float, int, ReviewedSentence, int]] = []

    def prepare(self, doc: Doc, record: InputRecord, n_before: int) -> list[UncertainWord]:
        """List the words of a Doc that may be among the least probable ones."""
        data = write_conllu(doc, record, n_before)
        lines = (Line(i, line) for i, line in enumerate(data.split(b"\n"), start=1))
        spans = [sent for sent in doc.sents if not all(token.is_space for token in sent)]
        if record.sentence is not None:
            spans = [doc[:]]
        found: list[UncertainWord] = []
        for span, conllu in zip(spans, read_sentences(record.file, lines), strict=True):
            sentence = ReviewedSentence(cast(Sentence, conllu), doc.vocab)
            if self._of_given and record.sentence is not None:
                sentence.put_back(read_arcs(record.sentence))
            found += self._uncertain_words(sentence, span)
        return found

    def _uncertain_words(self, sentence: ReviewedSentence, span: Span) -> list[UncertainWord]:
        most = -self._words[0][0] if len(self._words) == self._n_words else 1.0
        probs = [(word, sentence.prob(word)) for word in range(len(sentence.conllu.words))]
        wanted = [(word, prob) for word, prob in probs if prob is not None and prob < most]
        if wanted and self._draws:
            svg = sentence_svg(span, DEFAULTS, DRAWN_PARSES, in_page=True)
            sentence = replace(sentence, picture=svg)
        return [(prob, sentence, word) for word, prob in wanted]

    def add(self, prepared: list[UncertainWord]) -> bytes:
        """Keep the words that are less probable than those that were kept before."""
        for prob, sentence, word in prepared:
            self._n_seen += 1
            push = heapq.heappush if len(self._words) < self._n_words else heapq.heappushpop
            push(self._words, (-prob, -self._n_seen, sentence, word))
        return b""

    def end(self) -> bytes:
        """Return the words, the least probable one first."""
        words = [(sentence, word) for _, _, sentence, word in sorted(self._words, reverse=True)]
        return self._format(words).encode("utf8")


# --- formats -------------------------------------------------------------------------------------


def as_table(words: Sequence[ReviewedWord]) -> str:
    """Write a line for each word."""
    rows = [HEADER, *((*_describe(*word), _context(*word)) for word in words)]
    columns = [column for column in zip(*rows, strict=True) if any(column[1:])]
    return "".join(f"{printable(line)}\n" for line in align(list(zip(*columns, strict=True))))


def as_conllu(words: Sequence[ReviewedWord]) -> str:
    """Write the sentences, with a comment that numbers the words in question."""
    return "".join(
        format_sentence(
            [*sentence.conllu.comments, f"# review = {' '.join(str(word + 1) for word in own)}"],
            sentence.conllu.rows,
        )
        for sentence, own in _by_sentence(words).items()
    )


def as_html(words: Sequence[ReviewedWord]) -> str:
    """Write a page with the picture of each sentence, below a line for each word in question."""
    figures = []
    for sentence, own in _by_sentence(words).items():
        lines = [f"<h3>{escape(sentence.conllu.comment('sent_id') or '')}</h3>"]
        for word in own:
            prob, _, form, arc, others, status = map(escape, _describe(sentence, word))
            ends = [f"or {others}"] * bool(others) + [f"guidelines: {status}"] * bool(status)
            lines.append(f"<p>{word + 1} <b>{form}</b>: {'; '.join([f'{arc} {prob}', *ends])}</p>")
        figures.append("\n".join([*lines, sentence.picture]))
    return html_page(figures, words[0][0].vocab if words else None)


FORMATS: dict[str, Callable[[Sequence[ReviewedWord]], str]] = {
    "table": as_table,
    "conllu": as_conllu,
    "html": as_html,
}


def _by_sentence(words: Sequence[ReviewedWord]) -> dict[ReviewedSentence, list[int]]:
    found: dict[ReviewedSentence, list[int]] = {}
    for sentence, word in words:
        found.setdefault(sentence, []).append(word)
    return found


def _describe(sentence: ReviewedSentence, word: int) -> tuple[str, ...]:
    """Describe a word: probability, ID, form, arc, other arcs, and whether rules are kept."""
    probs = sentence.probable_arcs(word)
    others = [
        f"{sentence.describe_arc(arc)} {percent(probs[arc])}"
        for arc in sentence.other_arcs(word)
        if probs.get(arc, 0.0) >= SHOWN_PROB
    ]
    return (
        f"{percent(max(sentence.prob(word) or 0.0, TINY)):>7}",
        f"{sentence.conllu.comment('sent_id')}:{word + 1}",
        sentence.conllu.words[word][FORM],
        sentence.describe_arc(sentence.arc(word)),
        ", ".join(others[:SHOWN_ARCS]),
        sentence.conllu.comment("guideline_status") or "",
    )


def _context(sentence: ReviewedSentence, word: int) -> str:
    """Show a word in brackets among its neighbours."""
    forms = [row[FORM] for row in sentence.conllu.words]
    forms[word] = f"[{forms[word]}]"
    start, stop = max(0, word - CONTEXT), word + CONTEXT + 1
    return " ".join(["…"] * (start > 0) + forms[start:stop] + ["…"] * (stop < len(forms)))
