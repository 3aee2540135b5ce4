"""Input records: texts, sentences or Docs to parse, and failures."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import Any

from spacy.language import Language
from spacy.tokenizer import Tokenizer
from spacy.tokens import Doc
from spacy.vocab import Vocab

from spacy_rootmind.annotation.words import Expansion
from spacy_rootmind.formats.conllu_sentence import FEATS, LEMMA, UPOS, XPOS, Arc, Sentence

LINE_FEED = re.compile("\n")
# spaCy's tokenizer takes punctuation off a run character by character and searches the rest each
# time: minutes for a text of nothing but brackets. Runs of more than 1,000 characters are tokenized
# in pieces of 50, which nearly no word has; the time is then linear.
LONG_RUN, PIECE = re.compile(r"(?<!\S)\S{1001,}"), 50
# Kinds of failures.
KINDS = INPUT, PIPELINE, KILLED = "input", "pipeline", "killed"
# The fields of the words of multiword tokens for columns of CoNLL-U.
WORD_FIELDS = {LEMMA: "lemma", UPOS: "pos", XPOS: "tag", FEATS: "morph"}


@dataclass
class InputRecord:
    """A text, a sentence of CoNLL-U, or a Doc, to be parsed as one Doc."""

    # The start of the record; no file for the row of a table in memory.
    file: str
    line: int
    # Tokenized by the pipeline, unless there are words.
    text: str | None = None
    # Whitespace around the text in its file. Between two texts, it is after the first.
    before: str = ""
    after: str = ""
    # The file's own line ends, in place of the line feeds of the text; empty if they are the same.
    line_ends: list[str] = field(default_factory=list)
    # The start and end of each run of characters that is tokenized in pieces.
    long_runs: list[tuple[int, int]] = field(default_factory=list)
    # The given tokens; whether a space follows each, if that is known; and whether each starts a
    # sentence, unless the pipeline finds the sentences.
    words: list[str] | None = None
    spaces: list[bool] | None = None
    starts: list[bool] | None = None
    # All fields of a JSONL record, and the sentence of CoNLL-U; written again to the same format.
    fields: dict[str, Any] = field(default_factory=dict)
    sentence: Sentence | None = None
    # The words of its multiword tokens that are one token of the Doc, by the token's place.
    expansions: dict[int, Expansion] = field(default_factory=dict)
    # Heads and labels of the sentence that parses have to have.
    arcs: list[Arc] | None = None
    # Loads a Doc that was saved, with its annotation. It has the given words.
    load_doc: Callable[[Vocab], Doc] | None = None
    # Short name of the file in made-up ids; by default `file`.
    file_name: str | None = None
    # Whether the record is the first of its file in the output.
    starts_file: bool = False

    @property
    def id(self) -> str | None:
        """The field `id`, the `sent_id` of CoNLL-U, or else where the record starts."""
        name = self.fields.get("id", self.fields.get("sent_id"))
        if isinstance(name, (str, int, float)) and not isinstance(name, bool) and str(name).strip():
            return str(name)
        return f"{self.file_name or self.file}:{self.line}" if self.file else None

    def with_line_ends(self, parts: Iterable[str]) -> list[str]:
        """Return all parts of the text, in order, with the line ends of the file."""
        if not self.line_ends:
            return list(parts)
        ends = iter(self.line_ends)
        return [LINE_FEED.sub(lambda _: next(ends, "\n"), part) for part in parts]

    @property
    def n_chars(self) -> int:
        """Approximate size in characters."""
        return len(self.text or "") if self.words is None else sum(map(len, self.words))

    def make_doc(self, nlp: Language) -> Doc:
        """Make the Doc to parse."""
        if self.load_doc is not None:
            return self.load_doc(nlp.vocab)
        if self.words is None:
            return self._tokenize(nlp)
        starts: Any = self.starts
        return Doc(nlp.vocab, words=self.words, spaces=self.spaces, sent_starts=starts)

    def _tokenize(self, nlp: Language) -> Doc:
        text = self.text or ""
        # Languages without spaces between words have other tokenizers, which take any run. A text
        # beyond spaCy's limit is refused as a whole.
        if isinstance(nlp.tokenizer, Tokenizer) and len(text) <= nlp.max_length:
            self.long_runs = [run.span() for run in LONG_RUN.finditer(text)]
        if not self.long_runs:
            return nlp.make_doc(text)
        cuts = chain.from_iterable(range(i + PIECE, j, PIECE) for i, j in self.long_runs)
        pieces = pairwise([0, *cuts, len(text)])
        docs = [nlp.tokenizer(text[start:end]) for start, end in pieces]
        return Doc.from_docs(docs, ensure_whitespace=False)

    def failed(self, error: Exception) -> "Failure":
        """Return a failure of this record."""
        reason = " ".join(str(error).split()) or type(error).__name__
        return Failure(self.file, self.line, reason, PIPELINE, self.id)


@dataclass
class Failure:
    """A record that could not be read, parsed or written, and the reason.

    `kind` is one of `KINDS`; `name` is the record's id, if it is known.
    """

    file: str
    line: int
    reason: str
    kind: str = field(default=INPUT, compare=False)
    name: str | None = field(default=None, compare=False)

    n_chars = 0

    @property
    def id(self) -> str | None:
        """The record's id, or else its place."""
        return self.name or (f"{self.file}:{self.line}" if self.file else None)

    @property
    def error(self) -> str:
        """The failure as `KIND: REASON`."""
        return f"{self.kind}: {self.reason}"

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}"


InputRecords = Iterator[InputRecord | Failure]


def check_unchanged(doc: Doc, record: InputRecord) -> None:
    """Check that a Doc still has the given tokens and sentences."""
    starts = None if record.starts is None else [bool(token.is_sent_start) for token in doc]
    for what, given, found, change in (
        ("tokens", record.words, [token.text for token in doc], "merges or splits tokens"),
        ("sentences", record.starts, starts, "sets boundaries"),
    ):
        if record.words is not None and given is not None and found != given:
            raise ValueError(
                f"the pipeline has changed the {what} that were given: disable the component that "
                f"{change}, or raise the parser's max_sentence_length"
            )
