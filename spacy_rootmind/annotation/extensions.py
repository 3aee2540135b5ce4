"""Extension attributes that read the parse details of a Doc; the only way to read them.

- `token._.head_prob`: probability of the token's head,
- `span._.parse_log_prob`, `span._.parse_entropy`: log probability of a sentence's tree, and entropy
  of the distribution over its trees, in nats,
- `span._.parses`: alternative parses, each a `Parse`,
- `span._.arcs`, `token._.arcs`: probable arcs of a sentence, or to a token, each an `Arc`.

Spans must be sentences as they were parsed.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc, Span, Token

from spacy_rootmind.annotation import doc_trees
from spacy_rootmind.annotation.records import (
    ArcTable,
    Confidence,
    SentenceRecord,
    read_record,
)


@dataclass(frozen=True, eq=False)
class Parse:
    """A tree of a sentence. Compared by identity; `heads` and `deps` can be compared.

    Attributes
    ----------
    heads : int array of shape (n,)
        Head of each token, counted within the sentence; the root is its own head.
    deps : list of str
        Label of each token.
    log_prob : float
        Log probability of the tree, labels aside, in nats.
    span : Span
        The sentence.
    """

    heads: NDArray[np.int32]
    deps: list[str]
    log_prob: float
    span: Span

    def to_doc(self) -> Doc:
        """Copy the sentence to a Doc with this tree and all its other annotation."""
        doc = self.span.as_doc()
        hashes = np.array([doc.vocab.strings.add(dep) for dep in self.deps], dtype=np.uint64)
        doc_trees.set_trees(doc, self.heads, hashes, np.array([0, len(doc)], dtype=np.int32))
        return doc


@dataclass(frozen=True)
class Arc:
    """A labelled arc that a sentence's tree may have.

    Attributes
    ----------
    token : Token
        The dependent.
    head : Token
        Its head; the token itself for an arc from ROOT, as in spaCy.
    dep : str
        The label.
    prob : float
        Probability of the labelled arc among all trees of the sentence: the arc's exact marginal
        times the probability of the label on it.
    """

    token: Token
    head: Token
    dep: str
    prob: float


# --- confidence --------------------------------------------------------------------------------


def get_head_prob(token: Token) -> float | None:
    """Read the probability of the token's head; 1 for whitespace, None without confidence.

    Raises
    ------
    ValueError
        If the token got another head after it was parsed, or as for `records.read_record`.
    """
    sentence = token.sent
    confidence = _read_confidence(sentence, [token])
    return None if confidence is None else float(confidence.head_probs[token.i - sentence.start])


def get_head_probs(span: Span) -> list[float] | None:
    """Read the probability of each token's head in a sentence; None without confidence.

    Raises
    ------
    ValueError
        As for `get_head_prob`.
    """
    confidence = _read_confidence(span, span)
    return None if confidence is None else confidence.head_probs.tolist()


def get_log_prob(span: Span) -> float | None:
    """Read the log probability of the sentence's tree, in nats; None without confidence.

    Raises
    ------
    ValueError
        As for `get_head_prob`.
    """
    confidence = _read_confidence(span, span)
    return None if confidence is None else confidence.log_prob


def get_entropy(span: Span) -> float | None:
    """Read the entropy of the distribution over the sentence's trees, in nats.

    None without confidence.

    Raises
    ------
    ValueError
        As for `records.read_record`.
    """
    record = read_record(span)
    if record is None or record.details.confidence is None:
        return None
    return record.details.confidence.entropy


def _read_confidence(sentence: Span, tokens: Iterable[Token]) -> Confidence | None:
    """Read the confidence of a sentence, if these tokens still have the heads it is about."""
    record = read_record(sentence)
    if record is None or record.details.confidence is None:
        return None
    _refuse_other_heads(record, sentence, tokens)
    return record.details.confidence


def _refuse_other_heads(record: SentenceRecord, sentence: Span, tokens: Iterable[Token]) -> None:
    """Refuse tokens that got other heads after the sentence was parsed."""
    for token in tokens:
        parsed = int(record.tree[token.i - sentence.start])
        if token.head.i - sentence.start != parsed:
            raise ValueError(
                f"the head of {token.text!r} was changed after it was parsed, and the probability "
                f"of the new one is unknown: expected {sentence[parsed].text!r}, found "
                f"{token.head.text!r}; parse the Doc again, with spacy_rootmind.preset_heads.v1 to "
                f"keep the head"
            )


# --- alternatives and arcs ---------------------------------------------------------------------


def get_parses(span: Span) -> list[Parse] | None:
    """List the alternatives of a sentence in the order they were made; None without any.

    Raises
    ------
    ValueError
        As for `records.read_record`.
    """
    record = read_record(span)
    if record is None or record.details.alternatives is None:
        return None
    found = record.details.alternatives
    return [
        Parse(heads, [found.label_names[i] for i in labels.tolist()], log_prob, span)
        for heads, labels, log_prob in zip(
            found.heads, found.labels, found.log_probs.tolist(), strict=True
        )
    ]


def get_arcs(span: Span) -> list[Arc] | None:
    """List the probable arcs of a sentence, word by word and the most probable first.

    None without any.

    Raises
    ------
    ValueError
        As for `records.read_record`.
    """
    record = read_record(span)
    if record is None or record.details.arcs is None:
        return None
    return _make_arcs(span, record.details.arcs, slice(None))


def get_token_arcs(token: Token) -> list[Arc] | None:
    """List the probable arcs to a token, the most probable first; None without any.

    Raises
    ------
    ValueError
        As for `records.read_record`.
    """
    sentence = token.sent
    record = read_record(sentence)
    if record is None or record.details.arcs is None:
        return None
    arcs = record.details.arcs
    return _make_arcs(sentence, arcs, arcs.dependents == token.i - sentence.start)


def _make_arcs(sentence: Span, arcs: ArcTable, chosen: slice | NDArray[np.bool_]) -> list[Arc]:
    """Make objects of the chosen arcs only: a sentence may have very many."""
    columns = (
        column[chosen].tolist() for column in (arcs.dependents, arcs.heads, arcs.labels, arcs.probs)
    )
    return [
        Arc(sentence[dep], sentence[head], arcs.label_names[label], prob)
        for dep, head, label, prob in zip(*columns, strict=True)
    ]


# --- registration ------------------------------------------------------------------------------

ATTRIBUTES: tuple[tuple[type[Token] | type[Span], str, Callable[[Any], Any]], ...] = (
    (Token, "head_prob", get_head_prob),
    (Span, "parse_log_prob", get_log_prob),
    (Span, "parse_entropy", get_entropy),
    (Span, "parses", get_parses),
    (Span, "arcs", get_arcs),
    (Token, "arcs", get_token_arcs),
)


def register_extensions() -> None:
    """Register the attributes with spaCy; repeated calls are harmless.

    The component does so when a setting needs them. Call this yourself to read Docs that were
    parsed elsewhere.

    Raises
    ------
    ValueError
        If there is another attribute of the same name.
    """
    for owner, name, getter in ATTRIBUTES:
        if owner.has_extension(name) and owner.get_extension(name)[2] is not getter:
            raise ValueError(
                f"expected the name {owner.__name__}._.{name} to be free, found an extension "
                f"attribute of your own: remove it with "
                f"{owner.__name__}.remove_extension({name!r}), or rename it"
            )
    for owner, name, getter in ATTRIBUTES:
        if not owner.has_extension(name):
            owner.set_extension(name, getter=getter)
