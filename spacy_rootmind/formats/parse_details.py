"""Parse details of a sentence as lists, for all writers."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from spacy.tokens import Span

from spacy_rootmind.annotation.extensions import get_arc_prob, get_head_prob, warn_of_outdated
from spacy_rootmind.annotation.records import OutdatedDetailsError, read_record

# Of numbers that are written.
PROB_DIGITS = 6


class ListedArc(NamedTuple):
    """A labelled arc with its probability."""

    token: int
    head: int
    dep: str
    prob: float


class ListedParse(NamedTuple):
    """An alternative parse."""

    log_prob: float
    heads: list[int]
    deps: list[str]


class ListedDetails(NamedTuple):
    """Parse details that still hold; None for those that were not found, or no longer hold.

    Attributes
    ----------
    head_probs : list of float or None
        Probability of each token's head; None for a token with another head than was parsed.
    arc_probs : list of float or None
        Probability of each token's head and label together; None for a token with others.
    guideline_status : str or None
    log_prob, entropy : float
        Log probability of the tree, and entropy of the distribution over trees, in nats.
    arcs, parses : list
        Tokens and heads are counted from 0 within the sentence, and the root is its own head;
        after `over_words`, from 1, and the root's head is 0.
    """

    head_probs: Sequence[float | None] | None = None
    arc_probs: Sequence[float | None] | None = None
    guideline_status: str | None = None
    log_prob: float | None = None
    entropy: float | None = None
    arcs: Sequence[ListedArc] | None = None
    parses: Sequence[ListedParse] | None = None

    def over_words(self, words: Sequence[int]) -> "ListedDetails":
        """Leave out whitespace, and number words and heads as CoNLL-U does.

        `words` are the places of the words among the tokens.
        """
        number = {place: i for i, place in enumerate(words, start=1)}

        def head(token: int, head: int) -> int:
            return 0 if head == token else number[head]

        return self._replace(
            head_probs=self.head_probs and [self.head_probs[i] for i in words],
            arc_probs=self.arc_probs and [self.arc_probs[i] for i in words],
            arcs=self.arcs
            and [
                arc._replace(token=number[arc.token], head=head(arc.token, arc.head))
                for arc in self.arcs
            ],
            parses=self.parses
            and [
                ListedParse(
                    parse.log_prob,
                    [head(i, parse.heads[i]) for i in words],
                    [parse.deps[i] for i in words],
                )
                for parse in self.parses
            ],
        )

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


def list_details(sentence: Span) -> ListedDetails:
    """List the parse details of a sentence; warn of those that no longer hold.

    Raises
    ------
    ValueError
        If they have another format or are damaged.
    """
    try:
        record = read_record(sentence)
    except OutdatedDetailsError as error:
        warn_of_outdated(error)
        return ListedDetails()
    if record is None:
        return ListedDetails()
    status = record.guideline_status
    found = ListedDetails(guideline_status=None if status is None else status.status)
    if (confidence := record.confidence) is not None:
        probs: list[float | None] = list(confidence.head_probs.tolist())
        tokens = list(sentence)
        heads = [token.head.i - sentence.start for token in tokens]
        changed = {i for i, parsed in enumerate(record.heads) if heads[i] != parsed}
        for place in changed:
            # None, with a warning.
            probs[place] = get_head_prob(tokens[place])
        of_labels = zip(tokens, record.labels or (), record.arc_probs or (), strict=False)
        arc_probs = [
            prob if i not in changed and token.dep_ == label else get_arc_prob(token)
            for i, (token, label, prob) in enumerate(of_labels)
        ]
        found = found._replace(
            head_probs=probs,
            arc_probs=arc_probs or None,
            log_prob=None if changed else float(confidence.log_prob),
            entropy=float(confidence.entropy),
        )
    if (arcs := record.arcs) is not None:
        columns = (c.tolist() for c in (arcs.dependents, arcs.heads, arcs.labels, arcs.probs))
        found = found._replace(
            arcs=[
                ListedArc(token, head, arcs.label_names[label], prob)
                for token, head, label, prob in zip(*columns, strict=True)
            ]
        )
    if (alternatives := record.alternatives) is not None:
        columns = (c.tolist() for c in (alternatives.log_probs, alternatives.heads))
        names = ([alternatives.label_names[i] for i in row] for row in alternatives.labels.tolist())
        found = found._replace(
            parses=[ListedParse(*parse) for parse in zip(*columns, names, strict=True)]
        )
    return found


def rounded(value: float) -> float:
    """Round to the digits that are written, without a minus sign for zero."""
    return round(float(value), PROB_DIGITS) + 0.0
