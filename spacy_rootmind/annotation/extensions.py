"""How sure a parse is and what else it could be: kept with the Doc, read through `._.`.

What is known of a sentence lies in `doc.user_data` as plain arrays, under a key in spaCy's own form
for extension attributes of a span, so that it moves with the sentence through serialization,
`doc.copy`, `Doc.from_docs` and `Span.as_doc(copy_user_data=True)`. The attributes are getters on
that:

- `token._.head_prob`: probability of the token's head,
- `span._.parse_log_prob`, `span._.parse_entropy`: of a sentence's tree, and of the distribution
  over its trees, in nats,
- `span._.parses`: the alternatives, each a `Parse`,
- `span._.arcs`, `token._.arcs`: arcs of a sentence or to a token that are probable, each an `Arc`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc, Span, Token

from spacy_rootmind.annotation import doc_trees

# In the keys of doc.user_data: (EXTENSION, RECORD, first character, last character).
EXTENSION = "._."
RECORD = "rootmind"


@dataclass(frozen=True, eq=False)
class Parse:
    """A tree of a sentence. Each is equal to itself only; `heads` and `deps` can be compared.

    Attributes
    ----------
    heads : int array of shape (n,)
        Head of each token, counted within the sentence; the root's is its own index.
    deps : list of str
        Label of each token.
    log_prob : float
        Log probability of the tree, in nats, labels aside.
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
    """An arc that a sentence's tree may have, with its label.

    Attributes
    ----------
    token : Token
        The dependent.
    head : Token
        Its head; the token itself where the arc comes from ROOT, as in spaCy.
    dep : str
        The label.
    prob : float
        Probability of the labelled arc over all trees of the sentence: that of the arc, an exact
        marginal, times that of the label on it.
    """

    token: Token
    head: Token
    dep: str
    prob: float


# --- records -----------------------------------------------------------------------------------


def token_ends(span: Span) -> NDArray[np.int32]:
    """List where each token ends, in characters from the start of the span."""
    return np.array([t.idx + len(t) - span.start_char for t in span], dtype=np.int32)


def keep(doc: Doc, records: Sequence[tuple[int, int, dict[str, Any]]]) -> None:
    """Store what is known of sentences, (first token, end, record), in place of what there was."""
    known: dict[Any, Any] = doc.user_data
    for key in [key for key in known if is_ours(key)]:
        del known[key]
    for start, end, record in records:
        span = doc[start:end]
        key = (EXTENSION, RECORD, span.start_char, span.end_char)
        known[key] = {**record, "ends": token_ends(span)}


def is_ours(key: object) -> bool:
    """Tell whether a key of `doc.user_data` is that of a record."""
    return isinstance(key, tuple) and len(key) == 4 and key[:2] == (EXTENSION, RECORD)


def record_of(span: Span) -> dict[str, Any] | None:
    """Find what is known of a sentence; None if nothing is.

    Raises
    ------
    ValueError
        If the span is no sentence as it was parsed, or its tokens are others by now.
    """
    known: dict[Any, Any] = span.doc.user_data
    record = known.get((EXTENSION, RECORD, span.start_char, span.end_char))
    if record is None:
        if any(is_ours(key) for key in known):
            raise ValueError(
                f"nothing is known of {span.text[:40]!r}, though it is of other parts of the Doc: "
                f"expected one of doc.sents that root_mst has parsed with such settings, with the "
                f"boundaries that it had then"
            )
        return None
    if not np.array_equal(record["ends"], token_ends(span)):
        raise ValueError(
            f"the sentence {span.text[:40]!r} was tokenized anew after it was parsed, and what is "
            f"known of its parse no longer fits: expected {len(record['ends'])} tokens that end "
            f"where they did, received {len(span)}; parse the Doc again"
        )
    return record


# --- attributes --------------------------------------------------------------------------------


def get_head_prob(token: Token) -> float | None:
    """Find the probability of the token's head; 1 for whitespace, None without confidence."""
    sentence = token.sent
    record = record_of(sentence)
    if record is None or "head_probs" not in record:
        return None
    _refuse_other_heads(record, sentence, [token])
    return float(record["head_probs"][token.i - sentence.start])


def get_head_probs(span: Span) -> list[float] | None:
    """List the probability of each token's head; None without confidence.

    Raises
    ------
    ValueError
        If a head was changed since the sentence was parsed.
    """
    record = record_of(span)
    if record is None or "head_probs" not in record:
        return None
    _refuse_other_heads(record, span, span)
    return record["head_probs"].tolist()


def get_log_prob(span: Span) -> float | None:
    """Find the log probability of the sentence's tree; None without confidence."""
    record = record_of(span)
    if record is None or "log_prob" not in record:
        return None
    _refuse_other_heads(record, span, span)
    return record["log_prob"]


def _refuse_other_heads(record: dict[str, Any], sentence: Span, tokens: Iterable[Token]) -> None:
    """See to it that tokens have the heads that they were given when the sentence was parsed."""
    for token in tokens:
        parsed = int(record["tree"][token.i - sentence.start])
        if token.head.i - sentence.start != parsed:
            raise ValueError(
                f"{token.text!r} was given another head after it was parsed: expected "
                f"{sentence[parsed].text!r}, found {token.head.text!r}, whose probability is not "
                f"known; parse the Doc again, with spacy_rootmind.preset_heads.v1 to keep the head"
            )


def get_entropy(span: Span) -> float | None:
    """Find the entropy of the distribution over the sentence's trees; None without confidence."""
    record = record_of(span)
    return None if record is None else record.get("entropy")


def get_parses(span: Span) -> list[Parse] | None:
    """List the sentence's alternatives in the order they were made; None without."""
    record = record_of(span)
    if record is None or "heads" not in record:
        return None
    names = list(record["labels"])
    return [
        Parse(heads, [names[i] for i in deps.tolist()], log_prob, span)
        for heads, deps, log_prob in zip(
            record["heads"], record["deps"], record["log_probs"].tolist(), strict=True
        )
    ]


def get_arcs(span: Span) -> list[Arc] | None:
    """List a sentence's probable arcs, word by word, by falling probability; None without."""
    record = record_of(span)
    if record is None or "arc_heads" not in record:
        return None
    return _chosen_arcs(span, record, slice(None))


def get_token_arcs(token: Token) -> list[Arc] | None:
    """List the probable arcs to a token, by falling probability; None without."""
    sentence = token.sent
    record = record_of(sentence)
    if record is None or "arc_heads" not in record:
        return None
    return _chosen_arcs(sentence, record, record["arc_dependents"] == token.i - sentence.start)


def _chosen_arcs(
    sentence: Span, record: dict[str, Any], chosen: slice | NDArray[np.bool_]
) -> list[Arc]:
    """Make those of a sentence's arcs that are asked for: it may have very many."""
    names = record["arc_label_names"]
    columns = (
        record[key][chosen].tolist()
        for key in ("arc_dependents", "arc_heads", "arc_labels", "arc_probs")
    )
    return [
        Arc(sentence[dep], sentence[head], names[label], prob)
        for dep, head, label, prob in zip(*columns, strict=True)
    ]


ATTRIBUTES: tuple[tuple[type[Token] | type[Span], str, Callable[[Any], Any]], ...] = (
    (Token, "head_prob", get_head_prob),
    (Span, "parse_log_prob", get_log_prob),
    (Span, "parse_entropy", get_entropy),
    (Span, "parses", get_parses),
    (Span, "arcs", get_arcs),
    (Token, "arcs", get_token_arcs),
)


def register_extensions() -> None:
    """Make the attributes known to spaCy; once is enough, and more does no harm.

    The component does so if it has a use for them. To read Docs that were parsed elsewhere, call it
    yourself.

    Raises
    ------
    ValueError
        If an attribute of one of the names is there already, and is another.
    """
    for owner, name, getter in ATTRIBUTES:
        if owner.has_extension(name) and owner.get_extension(name)[2] is not getter:
            raise ValueError(
                f"{owner.__name__}._.{name} is an extension attribute of your own already: "
                f"expected the name to be free; remove it with "
                f"{owner.__name__}.remove_extension({name!r}), or give it another name"
            )
    for owner, name, getter in ATTRIBUTES:
        if not owner.has_extension(name):
            owner.set_extension(name, getter=getter)
