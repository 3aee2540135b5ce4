"""Trees, labels and details of a batch of sentences whose arcs are scored."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc

from spacy_rootmind.annotation.details import (
    BROKEN,
    NOT_PROVEN,
    Alternatives,
    Confidence,
    GuidelineStatus,
    LabelConfidence,
    ParseDetails,
    StartConfidence,
    StoredDistribution,
)
from spacy_rootmind.annotation.writing import SentenceParse
from spacy_rootmind.guidelines.constraints import SentenceConstraints
from spacy_rootmind.guidelines.ud import Guidelines
from spacy_rootmind.network.architecture import ParserModel, require_finite
from spacy_rootmind.network.label_scorer import find_best_labels, find_label_log_probs
from spacy_rootmind.network.layout import Bucket
from spacy_rootmind.network.tree_scorer import TreeScores
from spacy_rootmind.pipeline.alternatives import labelled_maker
from spacy_rootmind.pipeline.confidence import (
    find_confidence,
    label_alternatives,
    label_arcs,
)
from spacy_rootmind.pipeline.probable_arcs import find_arcs
from spacy_rootmind.pipeline.settings import Settings
from spacy_rootmind.pipeline.stored_distributions import (
    sigmoid,
    store_distributions,
)
from spacy_rootmind.trees.constrained import ValidTrees, decode_valid
from spacy_rootmind.trees.decoding import decode
from spacy_rootmind.trees.distribution import TreeDistribution
from spacy_rootmind.trees.errors import NoTreeError
from spacy_rootmind.trees.labelled import PaddedArcs, decode_labelled, label_trees


@dataclass(frozen=True)
class PredictionContext:
    """What parsing depends on besides the network's weights.

    Attributes
    ----------
    settings : Settings
    labels : tuple of str
        Names of all labels by number, the root's first.
    finds_boundaries : bool
        Whether the network has learnt sentence boundaries.
    temperature, label_temperature : float
        Divisors of arc scores and label scores.
    teacher : str
        Name of the parser in the distributions that it stores: `stored_distributions.teacher_name`.
    on_split : callable
        Called with a Doc that has sentences above the maximum length, and their number.
    """

    settings: Settings
    labels: tuple[str, ...]
    finds_boundaries: bool = True
    temperature: float = 1.0
    label_temperature: float = 1.0
    teacher: str = ""
    on_split: Callable[[Doc, int], None] = lambda doc, n_split: None


@dataclass(frozen=True)
class Task:
    """A sentence to parse.

    Attributes
    ----------
    doc : Doc
    words : int array of shape (n,)
        The tokens of the Doc that are its words.
    first : int
        First row of the Doc.
    constraints : SentenceConstraints or None
    log_odds : float array of shape (n,)
        That each word starts a sentence, as students learn it.
    start_probs : float32 array of shape (n,) or None
        The network's probability that each word starts a sentence; see `SentencePlan`.
    """

    doc: Doc
    words: NDArray[np.int64]
    first: int
    constraints: SentenceConstraints | None
    log_odds: NDArray[np.floating]
    start_probs: NDArray[np.float32] | None = None

    def name(self) -> str:
        """Name the sentence in messages."""
        text = self.doc[int(self.words[0]) : int(self.words[-1]) + 1].text
        return f"the sentence {text[:40]!r} at token {self.words[0]}"

    def texts(self) -> list[str]:
        """List the texts of the words."""
        return [self.doc[token].text for token in self.words.tolist()]


class SentenceParser:
    """Parses a batch of sentences whose arcs are scored.

    Parameters
    ----------
    model
        The network, for the labels.
    scores : TreeScores
    tasks : list of Task
        The sentences in the order of the scores.
    context : PredictionContext
    """

    def __init__(
        self,
        model: ParserModel,
        scores: TreeScores,
        tasks: Sequence[Task],
        context: PredictionContext,
    ) -> None:
        self.labeller = model.get_ref("labels")
        self.free_scores = scores
        self.tasks = tasks
        self.context = context
        self.projective = context.settings.projective
        self.buckets: list[Bucket] = scores.layout.buckets
        # The rows of all buckets, one after the other.
        self.bucket_rows = np.concatenate([bucket.rows.ravel() for bucket in self.buckets])
        self.bucket_widths = np.array([bucket.rows.shape[1] for bucket in self.buckets])
        sizes = np.array([bucket.rows.size for bucket in self.buckets])
        self.bucket_starts = np.cumsum(sizes) - sizes
        # Of the arcs that were labelled for the parse: the arcs, and their best labels' log
        # probabilities. Only kept for the confidence.
        self.labelled_arcs: list[tuple[PaddedArcs, NDArray[np.float64]]] = []
        self.scores = replace(scores, forced_labels=self._find_forced_labels())
        self.lengths = [bucket.lengths for bucket in self.buckets]
        # Of each sentence: the number of its bucket, its place there, and its number of words.
        places = {
            sentence: (b, i, bucket.lengths[i])
            for b, bucket in enumerate(self.buckets)
            for i, sentence in enumerate(bucket.sentences)
        }
        self.places = [places[sentence] for sentence in range(len(tasks))]
        # Of sentences whose tree is not known to be the best one that keeps the guidelines.
        self.guideline_status: dict[int, str] = {}
        self.arc_scores = [
            self._constrain(arcs, bucket)
            for bucket, arcs in zip(self.buckets, scores.arcs_on_host, strict=True)
        ]

    def parse(self) -> list[SentenceParse]:
        """Find the best tree of each sentence, its labels, and the details asked for."""
        heads, labels = self._find_trees()
        details = self._find_details(heads, labels)
        for sentence, status in self.guideline_status.items():
            details[sentence] = replace(details[sentence], guideline_status=GuidelineStatus(status))
        return [
            SentenceParse(heads[b][i, : n + 1], labels[b][i, 1 : n + 1], details[sentence])
            for sentence, (b, i, n) in enumerate(self.places)
        ]

    def _constrain(self, scores: NDArray[np.floating], bucket: Bucket) -> NDArray[np.floating]:
        """Check the arc scores of a bucket; set those that constraints rule out to -inf."""
        require_finite(np, scores, "arc")
        for i, sentence in enumerate(bucket.sentences):
            constraints = self.tasks[sentence].constraints
            if constraints is not None:
                m = bucket.lengths[i] + 1
                sentence_scores = scores[i, :m, :m]
                self._weigh_labels(sentence_scores, bucket.rows[i], constraints)
                try:
                    scores[i, :m, :m] = constraints.apply(
                        sentence_scores, projective=self.projective
                    )
                except NoTreeError:
                    kind = "projective tree" if self.projective else "tree"
                    raise NoTreeError(
                        f"no {kind} with a single root meets the constraints on "
                        f"{self.tasks[sentence].name()}: leave some out"
                    ) from None
        return scores

    def _find_forced_labels(self) -> NDArray[np.int64] | None:
        """Look up the labels that constraints give to words, by flat row; None without any."""
        given = [task.constraints.labels if task.constraints else {} for task in self.tasks]
        if not any(given):
            return None
        fixed = np.zeros(self.free_scores.layout.n_rows, dtype=np.int64)
        for bucket in self.buckets:
            rows = bucket.rows
            for i, sentence in enumerate(bucket.sentences):
                for word, label in given[sentence].items():
                    fixed[rows[i, word]] = label
        return fixed

    def _weigh_labels(
        self,
        scores: NDArray[np.floating],
        rows: NDArray[np.int64],
        constraints: SentenceConstraints,
    ) -> None:
        """Add how probable a word's given label is on each arc; changes `scores` in place.

        Arc scores are then those of trees given the label, by Bayes' rule.
        """
        places = np.arange(1, len(scores))
        for word, label in constraints.labels.items():
            log_probs = find_label_log_probs(
                self.labeller,
                self.free_scores,
                np.full(len(places), rows[word]),
                rows[places],
                self.context.label_temperature,
            )[:, label - 1]
            require_finite(np, log_probs, "label")
            scores[word, 1:] += self.context.temperature * log_probs

    def _find_trees(self) -> tuple[list[NDArray[np.int32]], list[NDArray[np.int32]]]:
        """Find the best trees and the numbers of their labels, a padded array per bucket."""
        if self.context.settings.guidelines is not None:
            return self._find_valid_trees(self.context.settings.guidelines)
        if self.context.settings.decode == "labelled_tree":
            found = decode_labelled(
                self._log_weights(), self.lengths, self._find_labels, projective=self.projective
            )
            return found.heads, found.labels
        batches = zip(self.arc_scores, self.lengths, strict=True)
        heads = [
            decode(scores, lengths=lengths, projective=self.projective)
            for scores, lengths in batches
        ]
        return heads, label_trees(heads, self.lengths, self._find_labels)

    def _find_valid_trees(
        self, guidelines: Guidelines
    ) -> tuple[list[NDArray[np.int32]], list[NDArray[np.int32]]]:
        """Find the best trees that keep guidelines, and note whether they do."""
        numbers = [np.array(bucket.sentences, dtype=np.intp) for bucket in self.buckets]
        rules = guidelines(self.context.labels)([(task.doc, task.words) for task in self.tasks])
        found = decode_valid(
            self._log_weights(),
            self.lengths,
            numbers,
            self._find_labels,
            self._find_all_log_probs,
            rules,
            projective=self.projective,
        )
        for own, valid, proven in zip(numbers, found.valid, found.proven, strict=True):
            for sentence in own[~proven].tolist():
                self.guideline_status[sentence] = NOT_PROVEN
            for sentence in own[~valid].tolist():
                self.guideline_status[sentence] = BROKEN
        if self.context.settings.confidence:
            self._note_labels(found)
        return found.heads, found.labels

    def _note_labels(self, trees: ValidTrees) -> None:
        """Keep the log probabilities of labels of trees that were searched, for the confidence."""
        parts = []
        for i, (heads, decodes) in enumerate(zip(trees.heads, trees.decodes, strict=True)):
            sentence, dep = np.nonzero((heads > 0) & (decodes > 0)[:, None])
            head = heads[sentence, dep].astype(np.int64)
            parts.append(
                (np.full(len(dep), i), sentence, dep, head, trees.labels[i][sentence, dep])
            )
        *columns, labels = (np.concatenate(column) for column in zip(*parts, strict=True))
        arcs = PaddedArcs(*columns)
        log_probs = self._find_all_log_probs(arcs)
        self.labelled_arcs.append((arcs, log_probs[np.arange(len(labels)), labels - 1]))

    def _find_all_log_probs(self, arcs: PaddedArcs) -> NDArray[np.float64]:
        log_probs = find_label_log_probs(
            self.labeller, self.scores, *self._rows_of(arcs), self.context.label_temperature
        )
        require_finite(np, log_probs.max(axis=1, initial=-np.inf), "label")
        return log_probs

    def _find_labels(self, arcs: PaddedArcs) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        labels, log_probs = find_best_labels(
            self.labeller, self.scores, *self._rows_of(arcs), self.context.label_temperature
        )
        require_finite(np, log_probs, "label")
        if self.context.settings.confidence:
            self.labelled_arcs.append((arcs, log_probs))
        return labels, log_probs

    def _rows_of(self, arcs: PaddedArcs) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Look up the flat rows of dependents and of heads."""
        starts = self.bucket_starts[arcs.batch] + arcs.sentence * self.bucket_widths[arcs.batch]
        return self.bucket_rows[starts + arcs.dep], self.bucket_rows[starts + arcs.head]

    def _log_weights(self) -> list[NDArray[np.float64]]:
        return [scores.astype(np.float64) / self.context.temperature for scores in self.arc_scores]

    def _find_details(
        self, heads: list[NDArray[np.int32]], labels: list[NDArray[np.int32]]
    ) -> list[ParseDetails]:
        """Find the details that the settings ask for, per sentence."""
        settings, n = self.context.settings, len(self.tasks)
        if not settings.finds_details:
            return [ParseDetails()] * n
        weights = self._log_weights()
        confidence: list[Any] = [None] * n
        arcs: list[Any] = [None] * n
        alternatives: list[Any] = [None] * n
        distributions: list[Any] = [()] * n
        label_confidence: list[Any] = [None] * n
        # Which eliminate nothing before they are asked.
        trees = [
            TreeDistribution(bucket_weights, lengths=lengths, projective=self.projective)
            for bucket_weights, lengths in zip(weights, self.lengths, strict=True)
        ]
        if settings.confidence or settings.arc_threshold is not None:
            confidence, arcs = self._find_probabilities(trees, heads)
        if settings.confidence:
            label_confidence = self._find_label_confidence(confidence, heads, labels)
        if settings.alternatives is not None:
            alternatives = self._find_alternatives(weights)
        if settings.distribution_threshold is not None:
            distributions = [
                (distribution,) for distribution in self._find_distributions(trees, heads)
            ]
        starts = [
            None if task.start_probs is None else StartConfidence(task.start_probs)
            for task in self.tasks
        ]
        parts = zip(
            confidence, arcs, alternatives, distributions, label_confidence, starts, strict=True
        )
        return [ParseDetails(*part) for part in parts]

    def _find_probabilities(
        self, trees: list[TreeDistribution], heads: list[NDArray[np.int32]]
    ) -> tuple[list[Any], list[Any]]:
        """Find the confidence and the probable arcs of each sentence; None where not asked for."""
        settings = self.context.settings
        confidence: list[Any] = [None] * len(self.tasks)
        arcs: list[Any] = [None] * len(self.tasks)
        for bucket, bucket_trees, best in zip(self.buckets, trees, heads, strict=True):
            if settings.confidence:
                found = find_confidence(bucket_trees, bucket.lengths, best)
                for sentence, part in zip(bucket.sentences, found, strict=True):
                    confidence[sentence] = part
            if settings.arc_threshold is not None:
                probable = find_arcs(bucket_trees.marginals, bucket.lengths, settings.arc_threshold)
                for sentence, table in zip(bucket.sentences, probable, strict=True):
                    arcs[sentence] = table
        if settings.arc_threshold is not None:
            arcs = label_arcs(
                self.labeller,
                self.scores,
                arcs,
                self.context.labels,
                settings.arc_threshold,
                self.context.label_temperature,
            )
        return confidence, arcs

    def _find_label_confidence(
        self,
        confidence: list[Confidence],
        heads: list[NDArray[np.int32]],
        labels: list[NDArray[np.int32]],
    ) -> list[LabelConfidence]:
        """Multiply the probabilities of each sentence's heads by those of its labels."""
        # The root's label is certain.
        label_probs = [np.ones(trees.shape) for trees in heads]
        for arcs, log_probs in self.labelled_arcs:
            for i, trees in enumerate(heads):
                own = np.flatnonzero(arcs.batch == i)
                own = own[trees[arcs.sentence[own], arcs.dep[own]] == arcs.head[own]]
                label_probs[i][arcs.sentence[own], arcs.dep[own]] = np.exp(log_probs[own])
        found = []
        for sentence, (b, i, n) in zip(confidence, self.places, strict=True):
            probs = (sentence.head_probs * label_probs[b][i, 1 : n + 1]).astype(np.float32)
            found.append(LabelConfidence(labels[b][i, 1 : n + 1], probs, self.context.labels))
        return found

    def _find_distributions(
        self, trees: list[TreeDistribution], heads: list[NDArray[np.int32]]
    ) -> list[StoredDistribution]:
        context = self.context
        threshold: Any = context.settings.distribution_threshold
        arcs: list[Any] = [None] * len(self.tasks)
        log_weights: list[Any] = [None] * len(self.tasks)
        for bucket, bucket_trees, parses in zip(self.buckets, trees, heads, strict=True):
            # With the arcs of the parse, what is kept makes at least one tree.
            found = find_arcs(bucket_trees.marginals, bucket.lengths, threshold, parses)
            for i, sentence in enumerate(bucket.sentences):
                arcs[sentence] = found[i]
                log_weights[sentence] = bucket_trees.scores[i][found[i].deps, found[i].heads]
        starts: list[Any] = [None] * len(self.tasks)
        if context.finds_boundaries:
            starts = [sigmoid(task.log_odds) for task in self.tasks]
        return store_distributions(
            self.labeller,
            self.scores,
            arcs,
            log_weights,
            starts,
            context.labels,
            threshold,
            context.label_temperature,
            context.teacher,
        )

    def _kind(self) -> dict[str, Any]:
        # Not given to makers of the user's own that know nothing of it, unless it matters.
        return {"projective": True} if self.projective else {}

    def _find_alternatives(self, weights: list[NDArray[np.float64]]) -> list[Alternatives]:
        make: Any = self.context.settings.alternatives
        labelled = labelled_maker(make)
        found: list[Any] = []
        for task, (b, i, n) in zip(self.tasks, self.places, strict=True):
            given: list[Any] = [weights[b][i, : n + 1, : n + 1], task.texts()]
            if labelled is not None:
                given.append(partial(self._find_log_probs, self.buckets[b].rows[i]))
            found.append((labelled or make)(*given, **self._kind()))
        if labelled is None:
            return label_alternatives(self.labeller, self.scores, found, self.context.labels)
        return [
            Alternatives(own.heads[:, 1:], own.labels[:, 1:], own.scores, self.context.labels)
            for own in found
        ]

    def _find_log_probs(
        self, rows: NDArray[np.int64], deps: NDArray[np.int64], heads: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Find the log probabilities of labels of arcs in a sentence with these flat rows."""
        log_probs = find_label_log_probs(
            self.labeller, self.scores, rows[deps], rows[heads], self.context.label_temperature
        )
        # Of a word whose label is given, others are impossible.
        require_finite(np, log_probs.max(axis=1), "label")
        return log_probs
