"""Parse details of sentences, as a Doc keeps them.

A Doc keeps them in `doc.user_data` as plain arrays, under a key in spaCy's own form for extension
attributes of a span, so that they move with the sentence through serialization, `doc.copy`,
`Doc.from_docs` and `Span.as_doc(copy_user_data=True)`.
"""

from collections.abc import Callable, Iterable
from typing import Any

from spacy.tokens import Doc, Span

from spacy_rootmind.annotation.details import ParseDetails
from spacy_rootmind.compat import EXTENSION_KEY

# Second item of the keys in `doc.user_data`; the first and last character of the sentence follow.
NAME = "rootmind"


# Parts of the records that only some sentences of a parse have.
OF_SOME = {"format", "tree", "is_word", "guideline_status"}


class UnreadableDetailsError(ValueError):
    """Parse details of another format, or damaged ones."""


class OutdatedDetailsError(ValueError):
    """Parse details that no longer fit: the Doc was changed after it was parsed."""


class StoredRecord(dict):
    """Plain data in `doc.user_data`, with the details read from it, so that it is read once.

    It is copied and serialized as the dict that it is, and replaced to be changed.
    """

    __slots__ = ("details",)

    def __init__(self, data: dict[str, Any], details: ParseDetails) -> None:
        super().__init__(data)
        self.details = details

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Pickle and copy the plain data alone."""
        return dict, (dict(self),)


def store_records(doc: Doc, details: Iterable[tuple[int, int, ParseDetails]]) -> None:
    """Store the details of sentences, (first token, end, details), and drop all earlier ones."""
    stored: dict[Any, Any] = doc.user_data
    for key in [key for key in stored if is_record_key(key)]:
        del stored[key]
    for start, end, of_sentence in details:
        stored[_key(doc[start:end])] = StoredRecord(of_sentence.to_dict(), of_sentence)


def has_records(doc: Doc) -> bool:
    """Tell whether a Doc has parse details of the kinds that all sentences of a parse have."""
    return any(
        is_record_key(key) and not (isinstance(record, dict) and set(record) <= OF_SOME)
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
    if key not in stored:
        if not has_records(span.doc):
            return None
        raise OutdatedDetailsError(
            f"expected one of the sentences that root_mst parsed, with the boundaries that it had "
            f"then, received the span {span.text[:40]!r}: the Doc has parse details of other spans "
            f"only; pass a whole sentence, or parse the Doc again if its boundaries were changed"
        )
    record: Any = stored[key]
    if type(record) is not StoredRecord:
        try:
            stored[key] = record = StoredRecord(record, ParseDetails.from_dict(record))
        except ValueError as error:
            raise UnreadableDetailsError(
                f"the parse details of the sentence {span.text[:40]!r} are damaged, or of another "
                f"version of spacy-rootmind, in {error}; parse the Doc again"
            ) from error
    details = record.details
    if len(details.tree) != len(span):
        raise OutdatedDetailsError(
            f"the sentence {span.text[:40]!r} was tokenized again after it was parsed, so its "
            f"parse details no longer fit: expected {len(details.tree)} tokens, received "
            f"{len(span)}; parse the Doc again"
        )
    return details


def is_record_key(key: object) -> bool:
    """Tell whether a key of `doc.user_data` belongs to a record."""
    return (
        isinstance(key, tuple)
        and len(key) == 4
        and key[:2] == (EXTENSION_KEY, NAME)
        # An attribute of the Doc itself that a user gave the same name has no characters.
        and all(isinstance(place, int) for place in key[2:])
    )


def _key(span: Span) -> tuple[str, str, int, int]:
    return EXTENSION_KEY, NAME, span.start_char, span.end_char
