"""Extension attributes that read the parse details of a Doc; the only way to read them.

- `token._.head_prob`: probability of the token's head,
- `token._.arc_prob`: probability of the token's head and label together,
- `token._.sent_start_prob`: probability that the token starts a sentence,
- `span._.parse_log_prob`, `span._.parse_entropy`: log probability of a sentence's tree, and entropy
  of the distribution over its trees, in nats,
- `span._.guideline_status`: that a sentence's tree is perhaps not the best that keeps guidelines,
- `span._.parses`: alternative parses, each a `Parse`,
- `span._.arcs`, `token._.arcs`: probable arcs of a sentence, or to a token, each an `Arc`.

The details of a sentence hold while its tokens and boundaries are those that were parsed, and a
head's probability while the token has this head, an arc's while it has this head and label.
Otherwise an attribute is None, and a warning is logged once; `check_details` raises instead.
Without the setting that finds it, an attribute is None as well, and a warning names the setting.
All raise a ValueError if the details of the sentence have another format or are damaged.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc, Span, Token

from spacy_rootmind.annotation import doc_trees
from spacy_rootmind.annotation.details import ArcTable, ParseDetails
from spacy_rootmind.annotation.records import (
    OutdatedDetailsError,
    has_part,
    is_record_key,
    read_record,
    read_token_record,
)
from spacy_rootmind.annotation.warn_once import WarnOnce


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
        Log probability in nats: of the tree, or of the tree with its labels if the alternatives are
        `labelled`.
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


# --- details that no longer hold ---------------------------------------------------------------

warn_of_outdated = WarnOnce(
    "Parse details are None where they no longer hold: %s. Call "
    "`spacy_rootmind.annotation.extensions.check_details` to raise an error instead."
)


def check_details(item: Doc | Span) -> None:
    """Check that the parse details of a Doc or a sentence still hold, all of them.

    Nothing is raised if there are no details.

    Raises
    ------
    ValueError
        If tokens, sentences, heads or labels were changed after they were parsed, or if the details
        have another format or are damaged. The message says which sentence or token.
    """
    sentences = [item] if isinstance(item, Span) else item.sents if _has_any(item) else ()
    for sentence in sentences:
        details = read_record(sentence)
        if details is not None and details.confidence is not None:
            _refuse_other_heads(details, sentence)
            _refuse_other_labels(details, sentence)


def _has_any(doc: Doc) -> bool:
    return any(map(is_record_key, doc.user_data))


def is_outdated(sentence: Span) -> bool:
    """Tell whether a sentence has other tokens or boundaries than were parsed."""
    try:
        read_record(sentence)
    except OutdatedDetailsError:
        return True
    return False


def _refuse_other_heads(details: ParseDetails, sentence: Span) -> None:
    """Refuse a sentence with other heads than those that its confidence is about."""
    for place in np.flatnonzero(~_has_parsed_head(details, sentence)).tolist():
        token, parsed = sentence[place], sentence[int(details.tree[place])]
        raise OutdatedDetailsError(
            f"the head of {token.text!r} was changed after it was parsed, and the probability "
            f"of the new one is unknown: expected {parsed.text!r}, found "
            f"{token.head.text!r}; parse the Doc again, with spacy_rootmind.preset_heads.v1 to "
            f"keep the head"
        )


def _refuse_other_labels(details: ParseDetails, sentence: Span) -> None:
    """Refuse a sentence with other labels than those whose probability is stored."""
    for token, parsed in zip(sentence, details.labels or (), strict=False):
        if token.dep_ != parsed:
            raise OutdatedDetailsError(
                f"the label of {token.text!r} was changed after it was parsed, and the probability "
                f"of the new one is unknown: expected {parsed!r}, found {token.dep_!r}; read the "
                f"details before labels are changed, or parse the Doc again"
            )


def _has_parsed_head(details: ParseDetails, sentence: Span) -> NDArray[np.bool_]:
    """Tell which tokens still have the head that they were parsed with."""
    return np.array([token.head.i - sentence.start for token in sentence]) == details.tree


def read_if_current(sentence: Span) -> ParseDetails | None:
    """Read a sentence's details; None, with a warning, if they no longer fit."""
    try:
        return read_record(sentence)
    except OutdatedDetailsError as error:
        warn_of_outdated(error)
        return None


def _read_token(token: Token) -> tuple[ParseDetails, int] | None:
    """Read the details of a token's sentence, and its place there, as `read_if_current`."""
    try:
        return read_token_record(token)
    except OutdatedDetailsError as error:
        warn_of_outdated(error)
        return None


# --- confidence --------------------------------------------------------------------------------


def get_head_prob(token: Token) -> float | None:
    """Read the probability of the token's head; 1 for whitespace.

    None without confidence, if the token's sentence has other tokens or boundaries than were
    parsed, or the token another head.
    """
    found = _read_token(token)
    return None if found is None else read_head_prob(token, *found)


def read_head_prob(token: Token, details: ParseDetails, place: int) -> float | None:
    """Read the probability of the head of the token at a place of its sentence."""
    if details.head_probs is None or not _keeps_head(token, details, place):
        return None
    return details.head_probs[place]


def get_arc_prob(token: Token) -> float | None:
    """Read the probability of the token's head and label together; 1 for whitespace.

    It is the probability of the head, exact over all trees, times that of the label on this arc,
    each after its temperature. It is `get_head_prob` where the label is certain: for the root, and
    where a constraint gives the label, since probabilities are then over trees with this label.

    None where `get_head_prob` is, if the token has another label than was parsed, and in Docs that
    were read from Parquet.
    """
    found = _read_token(token)
    return None if found is None else read_arc_prob(token, *found)


def read_arc_prob(token: Token, details: ParseDetails, place: int) -> float | None:
    """Read the probability of the head and label of the token at a place of its sentence."""
    if details.arc_probs is None or details.labels is None:
        return None
    if not _keeps_head(token, details, place):
        return None
    if token.dep_ != details.labels[place]:
        warn_of_outdated(f"the label of {token.text!r} was changed after it was parsed")
        return None
    return details.arc_probs[place]


def _keeps_head(token: Token, details: ParseDetails, place: int) -> bool:
    """Tell whether a token has the head that it was parsed with; warn if not."""
    if token.head.i - token.i == details.heads[place] - place:
        return True
    warn_of_outdated(f"the head of {token.text!r} was changed after it was parsed")
    return False


def get_log_prob(span: Span) -> float | None:
    """Read the log probability of the sentence's tree, in nats.

    None without confidence, or if the sentence has other tokens or heads than were parsed.
    """
    details = read_if_current(span)
    if details is None or details.confidence is None:
        return None
    try:
        _refuse_other_heads(details, span)
    except OutdatedDetailsError as error:
        warn_of_outdated(error)
        return None
    return float(details.confidence.log_prob)


def get_entropy(span: Span) -> float | None:
    """Read the entropy of the distribution over the sentence's trees, in nats.

    None without confidence, or if the sentence has other tokens than were parsed.
    """
    details = read_if_current(span)
    if details is None or details.confidence is None:
        return None
    return float(details.confidence.entropy)


def get_sent_start_prob(token: Token) -> float | None:
    """Read the network's probability that the token starts a sentence.

    It is the probability before boundaries are decided: by `boundary_threshold`, blank lines, line
    ends, constraints, the limit on the length of sentences, and the joining of sentences without a
    letter or digit. No temperature is applied. If a line begins with marks, the first one has the
    sum of the probabilities of all of them and of the word after them; the others have 0.

    None where the parser predicts nothing: where the Doc states whether the token starts a sentence
    (a user, the tokenizer or an earlier component has set it), for the first word of a Doc and for
    whitespace, with `sentences` other than "auto", and if the parser has not learnt boundaries.
    None as well without confidence, or if the token's sentence has other tokens or boundaries than
    were parsed.
    """
    found = _read_token(token)
    if found is None:
        return None
    details, place = found
    return None if details.start_probs is None else details.start_probs[place]


# --- guidelines --------------------------------------------------------------------------------


def get_guideline_status(span: Span) -> str | None:
    """Read whether a sentence's tree breaks the guidelines, or may not be the best that keeps them.

    "not proven" if it keeps them, but the search ended before it was known to be the most probable
    labelled tree that does; "broken" if it does not keep them, as none was found under the
    constraints that does. None otherwise, without guidelines too, and if the sentence has other
    tokens or boundaries than were parsed.
    """
    details = read_if_current(span)
    if details is None or details.guideline_status is None:
        return None
    return details.guideline_status.status


# --- alternatives and arcs ---------------------------------------------------------------------


def get_parses(span: Span) -> list[Parse] | None:
    """List the alternatives of a sentence in the order they were made.

    None without any, or if the sentence has other tokens than were parsed.
    """
    details = read_if_current(span)
    if details is None or details.alternatives is None:
        return None
    found = details.alternatives
    return [
        Parse(heads, [found.label_names[i] for i in labels.tolist()], log_prob, span)
        for heads, labels, log_prob in zip(
            found.heads, found.labels, found.log_probs.tolist(), strict=True
        )
    ]


def get_arcs(span: Span) -> list[Arc] | None:
    """List the probable arcs of a sentence, word by word and the most probable first.

    None without any, or if the sentence has other tokens than were parsed.
    """
    details = read_if_current(span)
    if details is None or details.arcs is None:
        return None
    return _make_arcs(list(span), details.arcs, slice(None))


def get_token_arcs(token: Token) -> list[Arc] | None:
    """List the probable arcs to a token, the most probable first.

    None without any, or if the token's sentence has other tokens than were parsed.
    """
    found = _read_token(token)
    if found is None or found[0].arcs is None:
        return None
    arcs, place = found[0].arcs, found[1]
    return _make_arcs(list(token.sent), arcs, arcs.dependents == place)


def _make_arcs(
    tokens: Sequence[Any], arcs: ArcTable, chosen: slice | NDArray[np.bool_]
) -> list[Arc]:
    """Make objects of the chosen arcs only: a sentence may have very many."""
    columns = (
        column[chosen].tolist() for column in (arcs.dependents, arcs.heads, arcs.labels, arcs.probs)
    )
    return [
        Arc(tokens[dep], tokens[head], arcs.label_names[label], prob)
        for dep, head, label, prob in zip(*columns, strict=True)
    ]


# --- registration ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Getter:
    """Reads an attribute, and warns once where it is None for want of a setting.

    Attributes
    ----------
    read : callable
    part : str
        What the setting adds to the records of a Doc.
    warn : WarnOnce
        Tells which setting that is.
    """

    read: Callable[[Any], Any]
    part: str
    warn: WarnOnce = field(compare=False)

    def __call__(self, item: Any) -> Any:
        """Read the attribute of a token or sentence."""
        value = self.read(item)
        if value is None and not self.warn.has_warned and not has_part(item.doc, self.part):
            self.warn()
        return value


Attribute = tuple[type[Token] | type[Span], str, Callable[[Any], Any]]

# The setting that adds a part to the records of a Doc.
SETTING_OF = {
    "confidence": "confidence=True",
    "arcs": "arc_threshold=0.05",
    "alternatives": "alternatives=kbest(k=3)",
}


def _found_by_setting(
    owner: type[Token] | type[Span], name: str, read: Callable[[Any], Any], part: str
) -> Attribute:
    warn = WarnOnce(
        f"{owner.__name__.lower()}._.{name} is None, since the Doc was not parsed with the setting "
        f"that finds it: call `spacy_rootmind.configure(nlp, {SETTING_OF[part]})` first."
    )
    return owner, name, Getter(read, part, warn)


ATTRIBUTES: tuple[Attribute, ...] = (
    _found_by_setting(Token, "head_prob", get_head_prob, "confidence"),
    _found_by_setting(Token, "arc_prob", get_arc_prob, "confidence"),
    _found_by_setting(Token, "sent_start_prob", get_sent_start_prob, "confidence"),
    _found_by_setting(Span, "parse_log_prob", get_log_prob, "confidence"),
    _found_by_setting(Span, "parse_entropy", get_entropy, "confidence"),
    _found_by_setting(Span, "parses", get_parses, "alternatives"),
    _found_by_setting(Span, "arcs", get_arcs, "arcs"),
    _found_by_setting(Token, "arcs", get_token_arcs, "arcs"),
    # None without the setting as well as where there is nothing to say.
    (Span, "guideline_status", get_guideline_status),
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
        if owner.has_extension(name) and owner.get_extension(name)[2] != getter:
            raise ValueError(
                f"expected the name {owner.__name__}._.{name} to be free, found an extension "
                f"attribute of your own: remove it with "
                f"{owner.__name__}.remove_extension({name!r}), or rename it"
            )
    for owner, name, getter in ATTRIBUTES:
        if not owner.has_extension(name):
            owner.set_extension(name, getter=getter)
