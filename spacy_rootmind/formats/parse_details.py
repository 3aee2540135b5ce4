"""The parse details of a sentence that still hold, read once for all writers."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from spacy.tokens import Span, Token

from spacy_rootmind.annotation.extensions import (
    Arc,
    Parse,
    get_arcs,
    get_entropy,
    get_guideline_status,
    get_log_prob,
    get_parses,
    read_arc_prob,
    read_head_prob,
    read_if_current,
)

# Decimals of the numbers that are written.
PROB_DIGITS = 6


class SentenceDetails(NamedTuple):
    """Parse details that still hold; None for those that were not found, or no longer hold.

    Attributes
    ----------
    head_probs, arc_probs : list of float or None
        As `token._.head_prob` and `token._.arc_prob`, of each token.
    guideline_status, log_prob, entropy, arcs, parses
        As the sentence's attributes.
    """

    head_probs: Sequence[float | None] | None = None
    arc_probs: Sequence[float | None] | None = None
    guideline_status: str | None = None
    log_prob: float | None = None
    entropy: float | None = None
    arcs: Sequence[Arc] | None = None
    parses: Sequence[Parse] | None = None

    def arc_numbers(self, n_tokens: int, form: Callable[[float], str]) -> list[str]:
        """Format the probability of each token's head and label together, or else that of its head.

        Nothing is known of a label that was changed, and Parquet has probabilities of heads alone.
        """
        unknown = [None] * n_tokens
        pairs = zip(self.head_probs or unknown, self.arc_probs or unknown, strict=True)
        return [
            form(arc) if arc is not None else "" if head is None else f"{form(head)} (head)"
            for head, arc in pairs
        ]


def sentence_details(sentence: Span, tokens: Sequence[Token]) -> SentenceDetails:
    """List the parse details of a sentence, with the probabilities of these of its tokens.

    Raises
    ------
    ValueError
        If they have another format or are damaged.
    """
    details = read_if_current(sentence)
    if details is None:
        return SentenceDetails()
    head_probs = arc_probs = None
    places = [(token, token.i - sentence.start) for token in tokens]
    if details.confidence is not None:
        head_probs = [read_head_prob(token, details, place) for token, place in places]
    if details.label_confidence is not None:
        arc_probs = [read_arc_prob(token, details, place) for token, place in places]
    return SentenceDetails(
        head_probs,
        arc_probs,
        get_guideline_status(sentence),
        get_log_prob(sentence),
        get_entropy(sentence),
        get_arcs(sentence),
        get_parses(sentence),
    )


def rounded(value: float) -> float:
    """Round to the digits that are written, without a minus sign for zero."""
    return round(float(value), PROB_DIGITS) + 0.0
