"""Parse details of sentences, as a Doc keeps them.

A Doc keeps them in `doc.user_data` as plain arrays, under a key in spaCy's own form for extension
attributes of a span, so that they move with the sentence through serialization, `doc.copy`,
`Doc.from_docs` and `Span.as_doc(copy_user_data=True)`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc, Span, Token

from spacy_rootmind.annotation.details import (
    Alternatives,
    ArcTable,
    Confidence,
    ParseDetails,
    StoredDistribution,
)
from spacy_rootmind.annotation.record_schema import FORMAT, check_record
from spacy_rootmind.compat import EXTENSION_KEY

# Second item of the keys in `doc.user_data`; the first and last character of the sentence follow.
NAME = "rootmind"


class OutdatedDetailsError(ValueError):
    """Parse details that no longer fit: the Doc was changed after it was parsed."""


@dataclass(frozen=True, eq=False)
class SentenceRecord:
    """Parse details of a sentence as a Doc keeps them, over its tokens.

    Attributes
    ----------
    tree : int array of shape (n,)
        Head of each token when the sentence was parsed; `details.confidence` is about these.
    details : ParseDetails
    extents : int array of shape (n, 2) or None
        First character of each token and its end, from the start of the sentence; None until the
        record is stored.
    """

    tree: NDArray[np.int32]
    details: ParseDetails
    extents: NDArray[np.int32] | None = None

    @cached_property
    def first_characters(self) -> list[int]:
        """List the first character of each token, from the start of the sentence."""
        extents: Any = self.extents
        return extents[:, 0].tolist()

    @cached_property
    def heads(self) -> list[int]:
        """List the head of each token when the sentence was parsed."""
        return self.tree.tolist()

    @cached_property
    def head_probs(self) -> list[float] | None:
        """List the probability of each token's head; None without confidence."""
        confidence = self.details.confidence
        return None if confidence is None else confidence.head_probs.tolist()


class StoredRecord(dict):
    """A packed record in `doc.user_data`, with what was read from it, so that it is read once.

    It is copied and serialized as the dict that it is, and replaced to be changed.
    """

    __slots__ = ("record",)

    def __init__(self, packed: dict[str, Any], record: SentenceRecord) -> None:
        super().__init__(packed)
        self.record = record

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Pickle and copy the packed record alone."""
        return dict, (dict(self),)


def store_records(doc: Doc, records: Iterable[tuple[int, int, SentenceRecord]]) -> None:
    """Store the records of sentences, (first token, end, record), and drop all earlier ones."""
    stored: dict[Any, Any] = doc.user_data
    for key in [key for key in stored if is_record_key(key)]:
        del stored[key]
    for start, end, record in records:
        span = doc[start:end]
        record = replace(record, extents=token_extents(span))
        stored[_key(span)] = StoredRecord(_pack(record), record)


def has_records(doc: Doc) -> bool:
    """Tell whether a Doc has any parse details."""
    return any(is_record_key(key) for key in doc.user_data)


def read_record(span: Span) -> SentenceRecord | None:
    """Read the record of a sentence; None if the Doc has no records at all.

    Raises
    ------
    OutdatedDetailsError
        If the Doc has records, but none of this span, or if the sentence was tokenized again since
        it was parsed.
    UnreadableDetailsError
        If the record has another format or is damaged.
    """
    record = _find_record(span)
    if record is not None:
        extents: Any = record.extents
        if not np.array_equal(extents, token_extents(span)):
            _refuse_other_tokens(record, span)
    return record


def read_token_record(token: Token) -> tuple[SentenceRecord, int] | None:
    """Read the record of a token's sentence, and the token's place there; raises as `read_record`.

    The record is unpacked by the first call for a sentence. Later calls compare where its tokens
    start, which costs a fraction of what spaCy needs to call a getter.
    """
    doc = token.doc
    stored: dict[Any, Any] = doc.user_data
    if not stored:
        return None
    try:
        sentence = token.sent
    except ValueError as error:
        if not has_records(doc):
            return None
        raise OutdatedDetailsError(
            f"the Doc {doc.text[:40]!r} has parse details, but no sentences: {error}"
        ) from error
    # Written out, since a loop over all tokens should cost next to nothing.
    first = sentence.start_char
    packed = stored.get((EXTENSION_KEY, NAME, first, sentence.end_char))
    record = packed.record if type(packed) is StoredRecord else _find_record(sentence)
    if record is None:
        return None
    # The sentence has the same characters, so tokens that start at the same ones are the same.
    if [one.idx - first for one in sentence] != record.first_characters:
        _refuse_other_tokens(record, sentence)
    return record, token.i - sentence.start


def _find_record(span: Span) -> SentenceRecord | None:
    """Read the record under the characters of a span; raises as `read_record`."""
    stored: dict[Any, Any] = span.doc.user_data
    key = _key(span)
    packed: Any = stored.get(key)
    if type(packed) is StoredRecord:
        return packed.record
    if key not in stored:
        if has_records(span.doc):
            raise OutdatedDetailsError(
                f"expected one of the sentences that root_mst parsed, with the boundaries that it "
                f"had then, received the span {span.text[:40]!r}: the Doc has parse details of "
                f"other spans only"
            )
        return None
    check_record(packed, span, KINDS, DISTRIBUTIONS)
    record = _unpack(packed)
    stored[key] = StoredRecord(packed, record)
    return record


def _refuse_other_tokens(record: SentenceRecord, span: Span) -> NoReturn:
    raise OutdatedDetailsError(
        f"the sentence {span.text[:40]!r} was tokenized again after it was parsed, so its parse "
        f"details no longer fit: expected {len(record.tree)} tokens with the same characters, "
        f"received {len(span)}; parse the Doc again"
    )


def _extent(token: Token, first: int) -> list[int]:
    start = token.idx - first
    return [start, start + len(token)]


def is_record_key(key: object) -> bool:
    """Tell whether a key of `doc.user_data` is that of a record."""
    return (
        isinstance(key, tuple)
        and len(key) == 4
        and key[:2] == (EXTENSION_KEY, NAME)
        # An attribute of the Doc itself that a user gave the same name has no characters.
        and all(isinstance(place, int) for place in key[2:])
    )


def token_extents(span: Span) -> NDArray[np.int32]:
    """List the first character of each token and its end, from the start of the span."""
    first = span.start_char
    return np.array([_extent(token, first) for token in span], dtype=np.int32).reshape((-1, 2))


def _key(span: Span) -> tuple[str, str, int, int]:
    return EXTENSION_KEY, NAME, span.start_char, span.end_char


# --- plain arrays, numbers and lists, which spaCy can serialize --------------------------------

# Parts of a record; it has several of the last.
DISTRIBUTIONS = "distributions"
KINDS = {
    "confidence": Confidence,
    "arcs": ArcTable,
    "alternatives": Alternatives,
    DISTRIBUTIONS: StoredDistribution,
}


def _pack(record: SentenceRecord) -> dict[str, Any]:
    packed: dict[str, Any] = {"format": FORMAT, "tree": record.tree, "extents": record.extents}
    for name in KINDS:
        part = getattr(record.details, name)
        if name == DISTRIBUTIONS:
            if part:
                packed[name] = [_pack_part(one) for one in part]
        elif part is not None:
            packed[name] = _pack_part(part)
    return packed


def _pack_part(part: Any) -> dict[str, Any]:
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in vars(part).items()
    }


def _unpack(packed: dict[str, Any]) -> SentenceRecord:
    """Read a record that was checked."""
    parts: dict[str, Any] = {}
    for name, kind in KINDS.items():
        if name == DISTRIBUTIONS:
            parts[name] = tuple(_unpack_part(kind, one) for one in packed.get(name, ()))
        elif name in packed:
            parts[name] = _unpack_part(kind, packed[name])
    return SentenceRecord(packed["tree"], ParseDetails(**parts), packed["extents"])


def _unpack_part(kind: Any, packed: dict[str, Any]) -> Any:
    return kind(
        **{
            name: tuple(value) if isinstance(value, list) else value
            for name, value in packed.items()
        }
    )
