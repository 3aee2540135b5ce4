"""Parse details of sentences, as a Doc keeps them.

A Doc keeps them in `doc.user_data` as plain arrays, under a key in spaCy's own form for extension
attributes of a span, so that they move with the sentence through serialization, `doc.copy`,
`Doc.from_docs` and `Span.as_doc(copy_user_data=True)`.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
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
    StoredTrees,
)
from spacy_rootmind.annotation.doc_trees import has_extents, write_extents
from spacy_rootmind.annotation.record_schema import FORMAT, STATUS, check_record
from spacy_rootmind.compat import EXTENSION_KEY

# Second item of the keys in `doc.user_data`; the first and last character of the sentence follow.
NAME = "rootmind"


class OutdatedDetailsError(ValueError):
    """Parse details that no longer fit: the Doc was changed after it was parsed."""


class StoredRecord(dict):
    """A packed record in `doc.user_data`, with the details read from it, so that it is read once.

    It is copied and serialized as the dict that it is, and replaced to be changed.
    """

    __slots__ = ("details",)

    def __init__(self, packed: dict[str, Any], details: ParseDetails) -> None:
        super().__init__(packed)
        self.details = details

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Pickle and copy the packed record alone."""
        return dict, (dict(self),)


def store_records(doc: Doc, details: Iterable[tuple[int, int, ParseDetails]]) -> None:
    """Store the details of sentences, (first token, end, details), and drop all earlier ones."""
    stored: dict[Any, Any] = doc.user_data
    for key in [key for key in stored if is_record_key(key)]:
        del stored[key]
    for start, end, of_sentence in details:
        span = doc[start:end]
        of_sentence = replace(of_sentence, extents=token_extents(span))
        stored[_key(span)] = StoredRecord(_pack(of_sentence), of_sentence)


def has_records(doc: Doc) -> bool:
    """Tell whether a Doc has parse details of the kinds that all sentences of a parse have."""
    return any(
        is_record_key(key) and not (isinstance(record, dict) and set(record) <= OF_SOME)
        for key, record in doc.user_data.items()
    )


def has_part(doc: Doc, part: str) -> bool:
    """Tell whether a record of a Doc has one of the parts in `KINDS`."""
    return any(
        is_record_key(key) and isinstance(record, dict) and part in record
        for key, record in doc.user_data.items()
    )


def read_record(span: Span) -> ParseDetails | None:
    """Read the details of a sentence; None if there are none and `has_records` says no.

    Raises OutdatedDetailsError if `has_records` says yes, but there are none of this span, or if
    the sentence was tokenized again since it was parsed. Raises UnreadableDetailsError if the
    record has another format or is damaged.
    """
    stored: dict[Any, Any] = span.doc.user_data
    key = _key(span)
    packed: Any = stored.get(key)
    if type(packed) is not StoredRecord:
        if key not in stored:
            _refuse_other_spans(span)
            return None
        check_record(packed, span, KINDS, DISTRIBUTIONS)
        stored[key] = packed = StoredRecord(packed, _unpack(packed))
    extents = packed.details.extents
    if len(extents) != len(span) or not has_extents(span.doc, span.start, extents):
        _refuse_other_tokens(packed.details, span)
    return packed.details


def read_token_record(token: Token) -> tuple[ParseDetails, int] | None:
    """Read the details of a token's sentence, and the token's place there; raises as `read_record`.

    The record is unpacked by the first call for a sentence. Later calls compare its tokens with
    those that were parsed, in nanoseconds each.
    """
    doc = token.doc
    if not doc.user_data:
        return None
    try:
        sentence = token.sent
    except ValueError as error:
        if not has_records(doc):
            return None
        raise OutdatedDetailsError(
            f"the Doc {doc.text[:40]!r} has parse details, but no sentences: {error}"
        ) from error
    details = read_record(sentence)
    return None if details is None else (details, token.i - sentence.start)


def _refuse_other_spans(span: Span) -> None:
    if has_records(span.doc):
        raise OutdatedDetailsError(
            f"expected one of the sentences that root_mst parsed, with the boundaries that it had "
            f"then, received the span {span.text[:40]!r}: the Doc has parse details of other spans "
            f"only; pass a whole sentence, or parse the Doc again if its boundaries were changed"
        )


def _refuse_other_tokens(details: ParseDetails, span: Span) -> NoReturn:
    raise OutdatedDetailsError(
        f"the sentence {span.text[:40]!r} was tokenized again after it was parsed, so its parse "
        f"details no longer fit: expected {len(details.tree)} tokens with the same characters, "
        f"received {len(span)}; parse the Doc again"
    )


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
    extents = np.empty((len(span), 2), dtype=np.int32)
    write_extents(span.doc, span.start, extents)
    return extents


def _key(span: Span) -> tuple[str, str, int, int]:
    return EXTENSION_KEY, NAME, span.start_char, span.end_char


# --- plain arrays, numbers and lists, which spaCy can serialize --------------------------------

# Parts of a record, each in it only if it was found; it may have several of the last.
DISTRIBUTIONS = "distributions"
KINDS = {
    "confidence": Confidence,
    "arcs": ArcTable,
    "alternatives": Alternatives,
    "trees": StoredTrees,
    DISTRIBUTIONS: StoredDistribution,
}
# Parts of the records that only some sentences of a parse have.
OF_SOME = {"format", "tree", "extents", STATUS}


def _pack(details: ParseDetails) -> dict[str, Any]:
    packed: dict[str, Any] = {"format": FORMAT, "tree": details.tree, "extents": details.extents}
    if details.guideline_status is not None:
        packed[STATUS] = details.guideline_status
    for name in KINDS:
        part = getattr(details, name)
        if name == DISTRIBUTIONS:
            part = [dict(vars(each)) for each in part]
        if part:
            packed[name] = part if name == DISTRIBUTIONS else dict(vars(part))
    return packed


def _unpack(packed: dict[str, Any]) -> ParseDetails:
    """Read a record that was checked."""
    parts: dict[str, Any] = {name: packed.get(name) for name in ("tree", "extents", STATUS)}
    for name, kind in KINDS.items():
        if name == DISTRIBUTIONS:
            parts[name] = tuple(_unpack_part(kind, part) for part in packed.get(name, ()))
        elif name in packed:
            parts[name] = _unpack_part(kind, packed[name])
    return ParseDetails(**parts)


def _unpack_part(kind: Any, packed: dict[str, Any]) -> Any:
    # spaCy has made lists of tuples.
    found = {name: tuple(x) if isinstance(x, list) else x for name, x in packed.items()}
    return kind(**found)
