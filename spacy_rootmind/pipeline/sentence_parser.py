"""Trees and labels of a batch of sentences whose arcs are scored."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc

from spacy_rootmind.annotation.details import BROKEN, NOT_PROVEN
from spacy_rootmind.guidelines.constraints import SentenceConstraints
from spacy_rootmind.network.architecture import ParserModel, require_finite
from spacy_rootmind.network.label_scorer import Labeller, find_best_labels, find_label_log_probs
from spacy_rootmind.network.tree_scorer import TreeScores
from spacy_rootmind.pipeline.settings import Settings
from spacy_rootmind.trees.constrained import Rules, ValidTrees, decode_valid
from spacy_rootmind.trees.decoding import decode
from spacy_rootmind.trees.errors import NoTreeError
from spacy_rootmind.trees.labelled import Rows, decode_labelled


@dataclass(frozen=True)
class PredictionContext:
    """Everything that parsing depends on besides the network's weights.

    Attributes
    ----------
    settings : Settings
    labels : tuple of str
        Names of all labels by number, the root's first.
    finds_boundaries : bool
        Whether the network has learnt sentence boundaries.
    temperature, label_temperature : float
        Divisors of arc scores and label scores.
    """

    settings: Settings
    labels: tuple[str, ...]
    finds_boundaries: bool = True
    temperature: float = 1.0
    label_temperature: float = 1.0


class Sentence(NamedTuple):
    """A sentence to parse.

    Attributes
    ----------
    doc : Doc
    words : int array of shape (n,)
        The tokens of the Doc that are its words.
    rows : int array of shape (n,)
        The rows of the words among the token vectors of a batch of Docs.
    log_odds : float array of shape (n,)
        Log-odds that each word starts a sentence, as students learn them.
    start_probs : float32 array of shape (n,) or None
        The network's probability that each word starts a sentence, NaN where the Doc states it;
        None if nothing is predicted, or without confidence.
    constraints : SentenceConstraints or None
    """

    doc: Doc
    words: NDArray[np.int64]
    rows: NDArray[np.int64]
    log_odds: NDArray[np.floating]
    start_probs: NDArray[np.float32] | None = None
    constraints: SentenceConstraints | None = None

    def name(self) -> str:
        """Name the sentence in messages."""
        text = self.doc[int(self.words[0]) : int(self.words[-1]) + 1].text
        return f"the sentence {text[:40]!r} at token {self.words[0]}"

    def texts(self) -> list[str]:
        """List the texts of the words."""
        return [self.doc[token].text for token in self.words.tolist()]


@dataclass(frozen=True, eq=False)
class ScoredBatch:
    """Sentences whose arcs are scored.

    Attributes
    ----------
    sentences : list of Sentence
        In the order of the scores.
    labeller : Labeller
    scores : TreeScores
        With the labels that constraints give to words.
    arc_scores : list of float array of shape (b, m, m)
        An array for each bucket: finite scores, -inf where constraints rule an arc out.
    context : PredictionContext
    """

    sentences: Sequence[Sentence]
    labeller: Labeller
    scores: TreeScores
    arc_scores: list[NDArray[np.floating]]
    context: PredictionContext

    @cached_property
    def squares(self) -> list[NDArray[np.floating]]:
        """Views of the arc scores of each sentence, of shape (m, m)."""
        found: list[Any] = [None] * len(self.sentences)
        for bucket, arcs in zip(self.scores.layout.buckets, self.arc_scores, strict=True):
            for number, n, own in zip(bucket.sentences, bucket.lengths.tolist(), arcs, strict=True):
                found[number] = own[: n + 1, : n + 1]
        return found

    def log_weights_of(self, sentence: int) -> NDArray[np.float64]:
        """Return the log-weights of a sentence's arcs, of shape (m, m)."""
        return self.squares[sentence].astype(np.float64) / self.context.temperature

    def label_log_probs(self, deps: Rows, heads: Rows) -> NDArray[np.float64]:
        """Find the log probabilities of all labels of arcs, given by flat rows."""
        log_probs = find_label_log_probs(
            self.labeller, self.scores, deps, heads, self.context.label_temperature
        )
        # Other labels than a given one are impossible.
        require_finite(log_probs.max(axis=1, initial=-np.inf), "label")
        return log_probs


class ParsedBatch(NamedTuple):
    """The trees of a `ScoredBatch`.

    Attributes
    ----------
    heads, labels : int array of shape (n_rows,)
        By flat rows: the place of each word's head in its sentence, and the number of its label;
        MISSING for ROOT.
    labelled : list of (deps, heads, log_probs), each of shape (n_arcs,)
        The arcs whose labels were scored, by flat rows, and the log probabilities of the labels in
        the trees; kept for the confidence alone.
    rules : Rules, optional
        The guidelines, if there are any.
    status : list of (str or None), optional
        With guidelines, the status of each sentence; None where it has none.
    """

    heads: NDArray[np.int32]
    labels: NDArray[np.int32]
    labelled: list[tuple[Rows, Rows, NDArray[np.float64]]]
    rules: Rules | None = None
    status: list[str | None] | None = None


def make_batch(
    model: ParserModel,
    scores: TreeScores,
    sentences: Sequence[Sentence],
    context: PredictionContext,
) -> ScoredBatch:
    """Check the arc scores of sentences, and apply constraints to them.

    Raises NoTreeError if no tree meets the constraints on a sentence.
    """
    labeller, arc_scores = model.get_ref("labels"), scores.arcs
    require_finite(arc_scores, "arc")
    batch = ScoredBatch(sentences, labeller, scores, arc_scores, context)
    if all(sentence.constraints is None for sentence in sentences):
        return batch
    forced_labels = np.zeros(scores.layout.n_rows, dtype=np.int64)
    for sentence, square, root in zip(sentences, batch.squares, scores.layout.roots, strict=True):
        if sentence.constraints is not None:
            _constrain(batch, square, root, sentence)
            for word, label in sentence.constraints.labels.items():
                forced_labels[root + word] = label
    if not forced_labels.any():
        return batch
    return replace(batch, scores=replace(scores, forced_labels=forced_labels))


def _constrain(
    batch: ScoredBatch, scores: NDArray[np.floating], root: int, sentence: Sentence
) -> None:
    """Set the scores of arcs that a sentence's constraints rule out to -inf, in place.

    Scores become conditional on the given labels of words, by Bayes' rule: they include how
    probable the label is on each arc. `root` is the flat row of the sentence's ROOT.
    """
    constraints: Any = sentence.constraints
    rows = root + np.arange(1, len(scores))
    for word, label in constraints.labels.items():
        log_probs = batch.label_log_probs(np.full(len(rows), root + word), rows)
        scores[word, 1:] += batch.context.temperature * log_probs[:, label - 1]
    projective = batch.context.settings.projective
    try:
        scores[~constraints.allowed] = -np.inf
        decode(scores, projective=projective)
    except NoTreeError:
        kind = "projective tree" if projective else "tree"
        raise NoTreeError(
            f"no {kind} with a single root meets the constraints on {sentence.name()}: leave some "
            f"out"
        ) from None


def find_trees(batch: ScoredBatch) -> ParsedBatch:
    """Find the best tree of each sentence, and its labels."""
    settings, labelled = batch.context.settings, []

    def find_labels(deps: Rows, heads: Rows) -> Any:
        labels, log_probs = find_best_labels(
            batch.labeller, batch.scores, deps, heads, batch.context.label_temperature
        )
        require_finite(log_probs, "label")
        if settings.confidence:
            labelled.append((deps, heads, log_probs))
        return labels, log_probs

    if settings.guidelines is not None:
        return _find_valid_trees(batch, find_labels, labelled)
    decode_again = settings.decode == "labelled_tree"
    found = decode_labelled(
        batch.squares,
        find_labels,
        temperature=batch.context.temperature if decode_again else 1.0,
        projective=settings.projective,
        decode_again=decode_again,
    )
    return ParsedBatch(found.heads, found.labels, labelled)


def _find_valid_trees(batch: ScoredBatch, find_labels: Any, labelled: list[Any]) -> ParsedBatch:
    """Find the best trees that keep guidelines, and whether they do."""
    settings = batch.context.settings
    make_rules: Any = settings.guidelines
    rules = make_rules(batch.context.labels)([(each.doc, each.words) for each in batch.sentences])
    found = decode_valid(
        batch.squares,
        find_labels,
        batch.label_log_probs,
        rules,
        temperature=batch.context.temperature,
        projective=settings.projective,
    )
    status = [
        (None if is_proven else NOT_PROVEN) if is_valid else BROKEN
        for is_valid, is_proven in zip(found.valid.tolist(), found.proven.tolist(), strict=True)
    ]
    if settings.confidence:
        labelled.append(_labels_of_searched(batch, found))
    return ParsedBatch(found.heads, found.labels, labelled, rules, status)


def _labels_of_searched(
    batch: ScoredBatch, trees: ValidTrees
) -> tuple[Rows, Rows, NDArray[np.float64]]:
    """Find the log probabilities of labels of trees that were searched."""
    layout = batch.scores.layout
    deps = np.flatnonzero((trees.heads > 0) & (trees.decodes > 0)[layout.sentence_of_row])
    heads = layout.roots[layout.sentence_of_row[deps]] + trees.heads[deps]
    log_probs = batch.label_log_probs(deps, heads)
    return deps, heads, log_probs[np.arange(len(deps)), trees.labels[deps] - 1]
