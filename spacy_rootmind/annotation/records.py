"""Parse details of sentences, as a Doc keeps them.

A Doc keeps them in `doc.user_data` as plain arrays, under a key in spaCy's own form for extension
attributes of a span, so that they move with the sentence through serialization, `doc.copy`,
`Doc.from_docs` and `Span.as_doc(copy_user_data=True)`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

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
from spacy_rootmind.annotation.record_schema import FORMAT, SCHEMA, check_record
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
    """

    tree: NDArray[np.int32]
    details: ParseDetails


def store_records(doc: Doc, records: Iterable[tuple[int, int, SentenceRecord]]) -> None:
    """Store the records of sentences, (first token, end, record), and drop all earlier ones."""
    stored: dict[Any, Any] = doc.user_data
    for key in [key for key in stored if is_record_key(key)]:
        del stored[key]
    for start, end, record in records:
        span = doc[start:end]
        stored[_key(span)] = {**_pack(record), "ends": token_ends(span)}


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
    stored: dict[Any, Any] = span.doc.user_data
    if _key(span) not in stored:
        if has_records(span.doc):
            raise OutdatedDetailsError(
                f"expected one of the sentences that root_mst parsed, with the boundaries that it "
                f"had then, received the span {span.text[:40]!r}: the Doc has parse details of "
                f"other spans only"
            )
        return None
    packed = stored[_key(span)]
    check_record(packed, span)
    if not np.array_equal(packed["ends"], token_ends(span)):
        raise OutdatedDetailsError(
            f"the sentence {span.text[:40]!r} was tokenized again after it was parsed, so its "
            f"parse details no longer fit: expected {len(packed['ends'])} tokens with the same "
            f"ends, received {len(span)}; parse the Doc again"
        )
    return _unpack(packed)


@dataclass(frozen=True, eq=False)
class ParsedToken:
    """A token in the record of the sentence that it was parsed in.

    Attributes
    ----------
    place : int
        The token's place among those of the record.
    record : SentenceRecord
    tokens : list of Token or None
        The Doc's present token for each token of the record; None if it was merged or split.
    """

    place: int
    record: SentenceRecord
    tokens: list[Token | None]


def find_parsed_token(token: Token, part: str) -> ParsedToken | None:
    """Find a token in the records of its Doc, by its characters, and read a part of its record.

    Neither the present boundaries of its sentence nor the other tokens need to be those that were
    parsed. None if the token itself was merged or split, or is in none of the records.

    Raises
    ------
    UnreadableDetailsError
        If the record has another format or is damaged.
    """
    doc = token.doc
    stored: dict[Any, Any] = doc.user_data
    for key in _keys_to_search(token):
        # `Span.as_doc` keeps the records of sentences that it cuts: they may end outside the Doc.
        start, end = max(key[2], 0), min(key[3], _end(doc[-1]))
        if start <= token.idx and _end(token) <= end:
            packed = stored[key]
            span: Any = doc.char_span(start, end, alignment_mode="expand")
            check_record(packed, span, [part])
            # Tokens with the same ends, and after the same ends, have the same text.
            ends = [max(end + key[2], start) for end in packed["ends"].tolist()]
            parsed = list(pairwise([start, *ends]))
            before = _end(doc[span.start - 1]) if span.start else 0
            present = list(pairwise([max(before, start), *map(_end, span)]))
            own = present[token.i - span.start]
            if own not in parsed:
                return None
            token_at = dict(zip(present, span, strict=True))
            tokens = [token_at.get(extent) for extent in parsed]
            return ParsedToken(parsed.index(own), _unpack(packed, [part]), tokens)
    return None


def _keys_to_search(token: Token) -> Iterable[tuple[str, str, int, int]]:
    """List the keys of the records that may be about a token: its sentence's, or else all."""
    stored: dict[Any, Any] = token.doc.user_data
    if token.doc.has_annotation("SENT_START") and _key(token.sent) in stored:
        return [_key(token.sent)]
    return filter(is_record_key, stored)


def _end(token: Token) -> int:
    return token.idx + len(token)


def is_record_key(key: object) -> bool:
    """Tell whether a key of `doc.user_data` is that of a record."""
    return (
        isinstance(key, tuple)
        and len(key) == 4
        and key[:2] == (EXTENSION_KEY, NAME)
        # An attribute of the Doc itself that a user gave the same name has no characters.
        and all(isinstance(place, int) for place in key[2:])
    )


def token_ends(span: Span) -> NDArray[np.int32]:
    """List the end of each token, in characters from the start of the span."""
    return np.array([t.idx + len(t) - span.start_char for t in span], dtype=np.int32)


def _key(span: Span) -> tuple[str, str, int, int]:
    return EXTENSION_KEY, NAME, span.start_char, span.end_char


def _pack(record: SentenceRecord) -> dict[str, Any]:
    """Convert to plain arrays, numbers and lists, which spaCy can serialize."""
    packed: dict[str, Any] = {"format": FORMAT, "tree": record.tree}
    details = record.details
    for name in KINDS:
        part = getattr(details, name)
        if part is not None:
            packed[name] = _pack_part(part)
    if details.distributions:
        packed["distributions"] = [_pack_part(one) for one in details.distributions]
    return packed


def _pack_part(part: Any) -> dict[str, Any]:
    packed = dict(vars(part))
    if "label_names" in packed:
        packed["label_names"] = list(part.label_names)
    return packed


# Parts of a record that it has at most one of.
KINDS = {"confidence": Confidence, "arcs": ArcTable, "alternatives": Alternatives}


def _unpack(packed: dict[str, Any], names: Iterable[str] = tuple(SCHEMA)) -> SentenceRecord:
    """Read some parts of a record that was checked."""
    parts: dict[str, Any] = {}
    for name in names:
        if name in KINDS and name in packed:
            parts[name] = _unpack_part(KINDS[name], packed[name])
        elif name in packed:
            parts[name] = tuple(_unpack_part(StoredDistribution, one) for one in packed[name])
    return SentenceRecord(packed["tree"], ParseDetails(**parts))


def _unpack_part(kind: Any, packed: dict[str, Any]) -> Any:
    fields = dict(packed)
    if "label_names" in fields:
        fields["label_names"] = tuple(fields["label_names"])
    return kind(**fields)
