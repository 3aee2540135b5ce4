"""Parse details of a sentence, and their form in a Doc.

They are its confidence, probable arcs, alternatives, and the distribution over its trees.

The parser makes these records over the words of a sentence, numbered from 1 with ROOT as 0.
`over_tokens` converts them to the sentence's tokens, numbered from 0 and whitespace included, with
the root as its own head. Only these are stored.

A Doc keeps them in `doc.user_data` as plain arrays, under a key in spaCy's own form for extension
attributes of a span, so that they move with the sentence through serialization, `doc.copy`,
`Doc.from_docs` and `Span.as_doc(copy_user_data=True)`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc, Span, Token

from spacy_rootmind.annotation.record_schema import FORMAT, SCHEMA, check_record
from spacy_rootmind.annotation.sentences import SPACE_LABEL, attach_spaces
from spacy_rootmind.compat import EXTENSION_KEY
from spacy_rootmind.trees.conventions import MISSING, ROOT, ROOT_LABEL

# Second item of the keys in `doc.user_data`; the first and last character of the sentence follow.
NAME = "rootmind"


class OutdatedDetailsError(ValueError):
    """Parse details that no longer fit: the Doc was changed after it was parsed."""


@dataclass(frozen=True, eq=False)
class Confidence:
    """Probabilities of the sentence's tree.

    Attributes
    ----------
    head_probs : float32 array of shape (n,)
        Probability of the head of each word or token.
    log_prob : float
        Log probability of the tree, in nats.
    entropy : float
        Entropy of the distribution over all trees of the sentence, in nats.
    """

    head_probs: NDArray[np.float32]
    log_prob: float
    entropy: float

    def over_tokens(self, words: NDArray[np.int64], n_tokens: int) -> "Confidence":
        """Convert to tokens; `words` are the places of the words among them."""
        probs = np.ones(n_tokens, dtype=np.float32)
        probs[words] = self.head_probs
        return Confidence(probs, self.log_prob, self.entropy)


@dataclass(frozen=True, eq=False)
class ArcTable:
    """Labelled arcs of a sentence with their probabilities, one row per arc and label.

    Attributes
    ----------
    dependents, heads : int array of shape (n_arcs,)
    labels : int array of shape (n_arcs,)
        Index in `label_names`.
    probs : float array of shape (n_arcs,)
        Probability of the labelled arc among all trees of the sentence.
    label_names : tuple of str
    """

    dependents: NDArray[np.int32]
    heads: NDArray[np.int32]
    labels: NDArray[np.int32]
    probs: NDArray[np.float64]
    label_names: tuple[str, ...]

    def over_tokens(self, words: NDArray[np.int64], n_tokens: int) -> "ArcTable":
        """Convert to tokens; `words` are the places of the words among them."""
        dependents = words[self.dependents - 1]
        heads = np.where(self.heads == ROOT, dependents, words[np.maximum(self.heads, 1) - 1])
        labels, names = _renumber(self.labels, self.label_names)
        return ArcTable(
            dependents.astype(np.int32), heads.astype(np.int32), labels, self.probs, names
        )


@dataclass(frozen=True, eq=False)
class Alternatives:
    """Alternative parses of a sentence.

    Attributes
    ----------
    heads : int array of shape (k, n)
    labels : int array of shape (k, n)
        Index in `label_names`.
    log_probs : float array of shape (k,)
        Log probabilities of the trees, labels aside, in nats.
    label_names : tuple of str
    """

    heads: NDArray[np.int32]
    labels: NDArray[np.int32]
    log_probs: NDArray[np.float64]
    label_names: tuple[str, ...]

    def over_tokens(self, words: NDArray[np.int64], n_tokens: int) -> "Alternatives":
        """Convert to tokens; `words` are the places of the words among them.

        Whitespace tokens get the label of spaCy's unspecified relation; the first token of a
        sentence without words gets the root's.
        """
        k = len(self.heads)
        spaces = np.full(n_tokens, MISSING, dtype=np.int32)
        spaces[words] = words
        attach_spaces(spaces, 0)
        heads = np.tile(spaces, (k, 1))
        labels = np.full((k, n_tokens), len(self.label_names), dtype=np.int32)
        if len(words):
            own = words[np.maximum(self.heads, 1) - 1]
            heads[:, words] = np.where(self.heads == ROOT, words, own)
            labels[:, words] = self.labels
        else:
            labels[:, 0] = ROOT_LABEL
        labels, names = _renumber(labels, (*self.label_names, SPACE_LABEL))
        return Alternatives(heads, labels, self.log_probs, names)


@dataclass(frozen=True, eq=False)
class StoredDistribution:
    """A distribution over the trees of a sentence, by the weights of its probable arcs.

    Trees with other arcs have probability zero. `annotation.distributions` computes with it.

    Attributes
    ----------
    dependents, heads : int array of shape (n_arcs,)
    log_weights : float32 array of shape (n_arcs,)
        Arc scores, with the temperature divided out.
    label_arcs : int array of shape (n_entries,)
        Index of an arc between words, once per label that is probable for it.
    labels : int array of shape (n_entries,)
        Index in `label_names`.
    label_probs : float32 array of shape (n_entries,)
        Probability of the label, given the arc.
    label_names : tuple of str
    start_probs : float32 array of shape (n,) or None
        Probability that each word or token starts a sentence, whatever boundaries the Doc had; None
        if the parser finds no boundaries.
    """

    dependents: NDArray[np.int32]
    heads: NDArray[np.int32]
    log_weights: NDArray[np.float32]
    label_arcs: NDArray[np.int32]
    labels: NDArray[np.int32]
    label_probs: NDArray[np.float32]
    label_names: tuple[str, ...]
    start_probs: NDArray[np.float32] | None = None

    def over_tokens(self, words: NDArray[np.int64], n_tokens: int) -> "StoredDistribution":
        """Convert to tokens; `words` are the places of the words among them."""
        dependents = words[self.dependents - 1]
        heads = np.where(self.heads == ROOT, dependents, words[np.maximum(self.heads, 1) - 1])
        labels, names = _renumber(self.labels, self.label_names)
        starts = None
        if self.start_probs is not None:
            starts = np.zeros(n_tokens, dtype=np.float32)
            starts[words] = self.start_probs
        return replace(
            self,
            dependents=dependents.astype(np.int32),
            heads=heads.astype(np.int32),
            labels=labels,
            label_names=names,
            start_probs=starts,
        )

    def over_words(self, words: NDArray[np.int64]) -> "StoredDistribution":
        """Convert from tokens to words, numbered from 1 with ROOT as 0.

        Raises
        ------
        ValueError
            If some arc is not between words.
        """
        if not (np.isin(self.dependents, words).all() and np.isin(self.heads, words).all()):
            raise ValueError(
                "expected tree distributions as root_mst stores them, found one with arcs of "
                "whitespace: the Doc was damaged or edited; parse it again with the teacher"
            )
        dependents = np.searchsorted(words, self.dependents) + 1
        heads = np.searchsorted(words, self.heads) + 1
        heads[self.heads == self.dependents] = ROOT
        starts = None if self.start_probs is None else self.start_probs[words]
        return replace(
            self,
            dependents=dependents.astype(np.int32),
            heads=heads.astype(np.int32),
            start_probs=starts,
        )


@dataclass(frozen=True, eq=False)
class ParseDetails:
    """What the parser was asked to find besides a sentence's tree; None or empty for the rest.

    `distributions` are those of several teachers, where Docs of several were joined.
    """

    confidence: Confidence | None = None
    arcs: ArcTable | None = None
    alternatives: Alternatives | None = None
    distributions: tuple[StoredDistribution, ...] = ()

    def over_tokens(self, words: NDArray[np.int64], n_tokens: int) -> "ParseDetails":
        """Convert to tokens; `words` are the places of the words among them."""
        at = words, n_tokens
        return ParseDetails(
            None if self.confidence is None else self.confidence.over_tokens(*at),
            None if self.arcs is None else self.arcs.over_tokens(*at),
            None if self.alternatives is None else self.alternatives.over_tokens(*at),
            tuple(one.over_tokens(*at) for one in self.distributions),
        )

    @property
    def is_empty(self) -> bool:
        """Whether nothing was found."""
        found = self.confidence, self.arcs, self.alternatives
        return not self.distributions and all(part is None for part in found)


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


def _renumber(
    numbers: NDArray[np.integer], names: Sequence[str]
) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """Drop the names that do not occur, and number the labels by those that are left."""
    used, own = np.unique(numbers, return_inverse=True)
    return own.reshape(numbers.shape).astype(np.int32), tuple(names[i] for i in used.tolist())


# --- in a Doc ----------------------------------------------------------------------------------


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
