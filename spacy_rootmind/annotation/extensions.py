"""Extension attributes that read the parse details of a Doc; the only way to read them.

The details of a sentence hold while its tokens and boundaries are those that were parsed, and a
head's probability while the token has this head, an arc's while it has this head and label.
Otherwise an attribute is None, and a warning is logged once. Without the setting that finds it, an
attribute is None as well. All raise a ValueError if the details of the sentence have another format
or are damaged.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc, Span, Token

from spacy_rootmind.annotation import doc_trees
from spacy_rootmind.annotation.details import ParseDetails
from spacy_rootmind.annotation.records import OutdatedDetailsError, read_record
from spacy_rootmind.annotation.sentence_trees import SentenceTrees
from spacy_rootmind.annotation.warn_once import WarnOnce
from spacy_rootmind.annotation.words import get_words


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
        Log probability of the tree together with its labels, in nats.
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


# Place of whitespace among the words.
NO_WORD = -1

warn_of_outdated = WarnOnce("Parse details are None where they no longer hold: %s.")


@dataclass
class SentenceDetails:
    """Parse details of a sentence and its tokens that still hold; None for the others."""

    span: Span
    # Tokens of the sentence whose probabilities are listed.
    tokens: Sequence[Token] = ()
    # None without any, or if the sentence has other tokens or boundaries than were parsed.
    details: ParseDetails | None = None

    @classmethod
    def read(cls, span: Span, tokens: Sequence[Token] = ()) -> "SentenceDetails":
        """Read what still holds; a ValueError if it has another format or is damaged."""
        try:
            return cls(span, tokens, read_record(span))
        except OutdatedDetailsError as error:
            warn_of_outdated(error)
            return cls(span, tokens)

    @classmethod
    def of_token(cls, token: Token) -> "SentenceDetails":
        """Read what still holds of a token's sentence, as `read`."""
        doc = token.doc
        if doc.user_data and doc.has_annotation("SENT_START"):
            return cls.read(token.sent)
        return cls(doc[token.i : token.i + 1])

    def _part(self, name: str) -> Any:
        return None if self.details is None else getattr(self.details, name)

    # --- of tokens -----------------------------------------------------------------------------

    def head_prob(self, token: Token) -> float | None:
        """Probability of a token's head; 1 for whitespace.

        None without confidence, and if the token has another head than was parsed.
        """
        confidence = self._part("confidence")
        if confidence is None or not self._keeps_head(token):
            return None
        place = self._place(token)
        return 1.0 if place == NO_WORD else float(confidence.head_probs[place])

    @cached_property
    def _places(self) -> list[int]:
        """The place of each token among the sentence's words; NO_WORD for whitespace."""
        is_word = self._part("is_word")
        return np.where(is_word, np.cumsum(is_word) - 1, NO_WORD).tolist()

    def _place(self, token: Token) -> int:
        return self._places[token.i - self.span.start]

    def _keeps_head(self, token: Token) -> bool:
        """Tell whether a token has the head that it was parsed with; warn if not."""
        start = self.span.start
        keeps_head = bool(token.head.i - start == self._part("tree")[token.i - start])
        if not keeps_head:
            warn_of_outdated(f"the head of {token.text!r} was changed after it was parsed")
        return keeps_head

    def arc_prob(self, token: Token) -> float | None:
        """Probability of a token's head and label together; 1 for whitespace.

        It is the probability of the head, exact over all trees, times the probability of the label
        on this arc, each after its temperature. It is `head_prob` where the label is certain: for
        the root, and where a constraint gives the label, since probabilities are then over trees
        with it.

        None where `head_prob` is, and if the token has another label than was parsed.
        """
        prob = self.head_prob(token)
        if prob is None or (place := self._place(token)) == NO_WORD:
            return prob
        confidence = self._part("confidence")
        if token.dep_ == confidence.label_names[confidence.labels[place]]:
            return float(confidence.arc_probs[place])
        warn_of_outdated(f"the label of {token.text!r} was changed after it was parsed")
        return None

    def sent_start_prob(self, token: Token) -> float | None:
        """Probability that a token starts a sentence, as the network predicts it.

        It is the probability before boundaries are decided: by `boundary_threshold`, blank lines,
        line ends, references, constraints, the limit on the length of sentences, and the joining of
        sentences without a letter or digit. No temperature is applied. If a line begins with marks,
        the first one has the sum of the probabilities of all of them and of the word after them;
        the others have 0.

        None where the parser predicts nothing: where the Doc states whether the token starts a
        sentence (a user, the tokenizer or an earlier component has set it), for the first word of a
        Doc and for whitespace, with `sentences` other than "auto", and if the parser has not learnt
        boundaries. None as well without confidence.
        """
        confidence = self._part("confidence")
        if confidence is None or confidence.start_probs is None:
            return None
        place = self._place(token)
        prob = math.nan if place == NO_WORD else float(confidence.start_probs[place])
        return None if math.isnan(prob) else prob

    def arcs_of(self, token: Token) -> list[Arc] | None:
        """List the probable arcs to a token, the most probable first."""
        if (arcs := self._part("arcs")) is None:
            return None
        return self._make_arcs(arcs.dependents == self._place(token))

    def _make_arcs(self, chosen: slice | NDArray[np.bool_]) -> list[Arc]:
        """Make objects of the chosen arcs only: a sentence may have very many."""
        arcs = self._part("arcs")
        words = [token for token in self.span if self._place(token) != NO_WORD]
        columns = (arcs.dependents, arcs.heads, arcs.labels, arcs.probs)
        return [
            Arc(words[dep], words[head], arcs.label_names[label], prob)
            for dep, head, label, prob in zip(
                *(column[chosen].tolist() for column in columns), strict=True
            )
        ]

    def _of_tokens(self, read: Callable) -> list[float | None] | None:
        return None if self._part("confidence") is None else list(map(read, self.tokens))

    @cached_property
    def head_probs(self) -> list[float | None] | None:
        """`token._.head_prob` of each token; None without confidence."""
        return self._of_tokens(self.head_prob)

    @cached_property
    def arc_probs(self) -> list[float | None] | None:
        """`token._.arc_prob` of each token; None without confidence."""
        return self._of_tokens(self.arc_prob)

    def arc_numbers(self, form: Callable[[float], str]) -> list[str]:
        """Format the probability of each token's head and label together; "" if not known."""
        probs = self.arc_probs or [None] * len(self.tokens)
        return ["" if prob is None else form(prob) for prob in probs]

    # --- of the sentence -----------------------------------------------------------------------

    @cached_property
    def log_prob(self) -> float | None:
        """Log probability of the sentence's tree, in nats; None with other heads."""
        confidence = self._part("confidence")
        if confidence is None or not all(map(self._keeps_head, self.span)):
            return None
        return float(confidence.log_prob)

    @property
    def entropy(self) -> float | None:
        """Entropy of the distribution over the sentence's trees, in nats."""
        confidence = self._part("confidence")
        return None if confidence is None else float(confidence.entropy)

    @property
    def guideline_status(self) -> str | None:
        """Whether the tree breaks the guidelines, or may not be the best that keeps them.

        "not proven" if it keeps them, but the search ended before it was known to be the most
        probable labelled tree that does; "broken" if it does not keep them, as none was found under
        the constraints that does. None otherwise, and without guidelines.
        """
        return self._part("guideline_status")

    @cached_property
    def parses(self) -> list[Parse] | None:
        """The alternatives in the order they were made."""
        if (found := self._part("alternatives")) is None:
            return None
        words = cast(ParseDetails, self.details).words
        # Whitespace has the same head and label in all of them.
        heads = np.tile(self._part("tree"), (len(found.heads), 1))
        heads[:, words] = words[found.heads]
        deps = [[token.dep_ for token in self.span] for _ in heads]
        for own, labels in zip(deps, found.labels.tolist(), strict=True):
            for word, label in zip(words.tolist(), labels, strict=True):
                own[word] = found.label_names[label]
        columns = heads, deps, found.log_probs.tolist()
        return [Parse(*parse, self.span) for parse in zip(*columns, strict=True)]

    @cached_property
    def arcs(self) -> list[Arc] | None:
        """The probable arcs, word by word and the most probable first."""
        return None if self._part("arcs") is None else self._make_arcs(slice(None))

    @property
    def trees(self) -> SentenceTrees | None:
        """The distribution over all trees."""
        has_trees = self._part("trees") is not None
        return SentenceTrees(self.span, cast(ParseDetails, self.details)) if has_trees else None


# --- registration ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Getter:
    """Reads an attribute: a property of `SentenceDetails`, or a method of a token."""

    name: str

    def __call__(self, item: Any) -> Any:
        """Read the attribute of a token or sentence."""
        if isinstance(item, Token):
            return getattr(SentenceDetails.of_token(item), self.name)(item)
        return getattr(SentenceDetails.read(item), self.name)


Attribute = tuple[type[Token] | type[Span], str, Callable[[Any], Any]]

ATTRIBUTES: tuple[Attribute, ...] = (
    (Token, "head_prob", Getter("head_prob")),
    (Token, "arc_prob", Getter("arc_prob")),
    (Token, "sent_start_prob", Getter("sent_start_prob")),
    (Token, "arcs", Getter("arcs_of")),
    (Span, "parse_log_prob", Getter("log_prob")),
    (Span, "parse_entropy", Getter("entropy")),
    (Span, "parses", Getter("parses")),
    (Span, "arcs", Getter("arcs")),
    (Span, "trees", Getter("trees")),
    (Span, "guideline_status", Getter("guideline_status")),
    (Token, "words", get_words),
)


def register_extensions() -> None:
    """Register the attributes with spaCy; repeated calls are harmless.

    The components do so when they need them. Call this yourself to read Docs that were parsed
    elsewhere.

    Raises
    ------
    ValueError
        If there is another attribute of the same name. Nothing is registered then.
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
