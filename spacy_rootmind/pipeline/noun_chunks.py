"""Which function finds the noun chunks of a Doc: the setting `noun_chunks`.

`doc.noun_chunks` calls the function that the Doc took from its vocab when it was made. It is set on
the vocab, so that Docs that spaCy makes from bytes (`nlp.pipe(n_process=2)`, `DocBin`) have it too.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from spacy.tokens import Doc, Span
from spacy.vocab import Vocab

from spacy_rootmind.annotation.ud_noun_chunks import (
    SyntaxIterator,
    UDNounChunks,
    attaches_as_ud,
    has_shared_labels,
    has_ud_labels,
)
from spacy_rootmind.config_blocks import RegisteredFunction

AUTO = "auto"
# Modules of spaCy's functions that read the labels of other schemes.
OTHER_SCHEMES = tuple(f"spacy.lang.{lang}.syntax_iterators" for lang in ("en", "de", "fa"))


def ud_noun_chunks(lang: str = "") -> SyntaxIterator:
    """Find noun chunks by Universal Dependencies labels, whatever spaCy has for the language.

    Registered as `spacy_rootmind.ud_noun_chunks.v1`, for the setting `noun_chunks`. The result can
    also be assigned to `nlp.vocab.get_noun_chunks`, for a pipeline without `root_mst`.

    Parameters
    ----------
    lang : str
        "en" for the chunks that spaCy's English parsers have; other languages follow UD alone.
    """
    block = {"@misc": "spacy_rootmind.ud_noun_chunks.v1", "lang": lang}
    return RegisteredFunction(block, UDNounChunks(lang))


@dataclass(frozen=True)
class ChunksByLabels:
    """Find noun chunks by UD's rules in Docs with UD labels, otherwise as without this package.

    The Docs of a pipeline share its vocab and this function, and may be parsed by several parsers;
    each Doc tells by its labels which rules it needs.

    Attributes
    ----------
    own : syntax iterator or None
        The one that the vocab had; None if spaCy has none for the language.
    lang : str
        Code of the language.
    chosen : syntax iterator or None
        One that the user chose for all Docs.
    mapped : bool
        Whether UD trees may have labels of spaCy's English scheme, from `ud_label_map`.
    """

    own: SyntaxIterator | None
    lang: str
    chosen: SyntaxIterator | None = None
    mapped: bool = False

    def __call__(self, doclike: Doc | Span) -> Iterator[Any]:
        """Yield the start, end and label of each chunk that lies within a Doc or Span."""
        if self.chosen is not None:
            return self.chosen(doclike)
        if self._has_ud_tree(doclike.doc):
            return UDNounChunks(self.lang)(doclike)
        if self.own is None:
            raise NotImplementedError(
                f"spaCy has no noun_chunks for the language {self.lang!r}, and root_mst finds them "
                f"by Universal Dependencies labels, which the Doc {doclike.doc.text[:40]!r} does "
                f"not have; set noun_chunks to a function of your own"
            )
        return self.own(doclike)

    def _has_ud_tree(self, doc: Doc) -> bool:
        if has_ud_labels(doc):
            # In trees that could be of either scheme, both functions find the same chunks.
            return self.own is None or not has_shared_labels(doc) or attaches_as_ud(doc)
        return self.mapped and attaches_as_ud(doc)


def set_noun_chunks(vocab: Vocab, setting: str | SyntaxIterator | None) -> None:
    """Set the function that a vocab gives its Docs, for a value of the setting.

    "auto" chooses by labels, if the vocab has no function or one of spaCy's that reads other
    labels; None restores what was there before.
    """
    current: Any = vocab.get_noun_chunks
    ours = current if isinstance(current, ChunksByLabels) else ChunksByLabels(current, vocab.lang)
    if setting is None:
        vocab.get_noun_chunks = ours.own
    elif callable(setting):
        vocab.get_noun_chunks = replace(ours, chosen=setting)
    elif ours is current or _reads_other_labels(ours.own):
        vocab.get_noun_chunks = replace(ours, chosen=None)


def _reads_other_labels(iterator: SyntaxIterator | None) -> bool:
    return iterator is None or getattr(iterator, "__module__", None) in OTHER_SCHEMES


def expect_mapped_labels(vocab: Vocab) -> None:
    """Let a vocab's function find the noun chunks of UD trees after `ud_label_map`."""
    if not isinstance(vocab.get_noun_chunks, ChunksByLabels):
        set_noun_chunks(vocab, AUTO)
    ours: Any = vocab.get_noun_chunks
    if isinstance(ours, ChunksByLabels):
        vocab.get_noun_chunks = replace(ours, mapped=True)


def adopt_noun_chunks(doc: Doc, setting: str | SyntaxIterator | None) -> None:
    """Set the function of a Doc that was made before that of its vocab was set, or with another.

    One that the user has set on the Doc or its vocab stays.
    """
    if setting is None:
        return
    if not isinstance(doc.vocab.get_noun_chunks, ChunksByLabels):
        set_noun_chunks(doc.vocab, setting)
    ours: Any = doc.vocab.get_noun_chunks
    annotated: Any = doc
    if isinstance(ours, ChunksByLabels) and annotated.noun_chunks_iterator is ours.own:
        annotated.noun_chunks_iterator = ours
