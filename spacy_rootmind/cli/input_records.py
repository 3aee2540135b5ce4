"""Input records: texts, sentences or Docs to parse, and failures."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc
from spacy.vocab import Vocab

from spacy_rootmind.cli.conllu import Sentence


@dataclass
class InputRecord:
    """A text, a sentence of CoNLL-U, or a Doc, to be parsed as one Doc.

    Attributes
    ----------
    file, line
        Where the record starts, for messages.
    text : str, optional
        Tokenized by the pipeline, unless there are words.
    pieces : list of str, optional
        The text in pieces to be tokenized one by one, if the tokenizer cannot take it as a whole.
    words : list of str, optional
        The given tokens.
    spaces : list of bool, optional
        Whether a space follows each word; None if unknown.
    starts : list of bool, optional
        Whether each word starts a sentence; None if the pipeline finds the sentences.
    fields : dict
        All fields of a JSONL record; written again to JSONL.
    sentence : Sentence, optional
        The sentence of CoNLL-U; written again to CoNLL-U.
    load_doc : callable, optional
        Loads a Doc that was saved, with its annotation. It has the given words.
    """

    file: str
    line: int
    text: str | None = None
    pieces: list[str] | None = None
    words: list[str] | None = None
    spaces: list[bool] | None = None
    starts: list[bool] | None = None
    fields: dict[str, Any] = field(default_factory=dict)
    sentence: Sentence | None = None
    load_doc: Callable[[Vocab], Doc] | None = None

    @property
    def n_chars(self) -> int:
        """Approximate size in characters."""
        return len(self.text or "") if self.words is None else sum(map(len, self.words))

    def make_doc(self, nlp: Language) -> Doc:
        """Make the Doc to parse."""
        if self.load_doc is not None:
            return self.load_doc(nlp.vocab)
        if self.words is None:
            text = self.text or ""
            # A text beyond spaCy's limit is refused as a whole.
            if self.pieces is None or len(text) > nlp.max_length:
                return nlp.make_doc(text)
            docs = [nlp.tokenizer(piece) for piece in self.pieces]
            return Doc.from_docs(docs, ensure_whitespace=False)
        starts: list[bool | int | None] | None = None
        if self.starts is not None:
            starts = list(self.starts)
        return Doc(nlp.vocab, words=self.words, spaces=self.spaces, sent_starts=starts)

    def failed(self, error: Exception) -> "Failure":
        """Return a failure of this record."""
        reason = " ".join(str(error).split()) or type(error).__name__
        return Failure(self.file, self.line, reason)


@dataclass
class Failure:
    """A record (or a whole file) that could not be read, parsed or written, and the reason."""

    file: str
    line: int | None
    reason: str

    n_chars = 0

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.reason}"
