"""From Docs to their parses: sentences, trees, labels, and what is asked for beside them.

Token vectors and boundaries are found for a batch of Docs; its sentences are then parsed so many at
a time that memory stays bounded, however long a Doc is.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc

from spacy_rootmind.annotation.reading import known_starts
from spacy_rootmind.annotation.sentences import (
    CERTAIN,
    Sentences,
    Starts,
    choose_starts,
    scored_tokens,
    words_of,
)
from spacy_rootmind.annotation.writing import DocParse, SentenceParse, doc_parse
from spacy_rootmind.network.architecture import ParserModel, require_finite
from spacy_rootmind.network.boundaries import BoundaryInput
from spacy_rootmind.network.layout import Bucket
from spacy_rootmind.network.listeners import listeners_in, token_vectors
from spacy_rootmind.network.tree_scorer import TreeInput, TreeScores
from spacy_rootmind.network.types import Floats2d
from spacy_rootmind.pipeline.alternatives import Maker
from spacy_rootmind.pipeline.confidence import (
    Record,
    find_arcs,
    find_confidence,
    label_alternatives,
    label_arcs,
    make_alternatives,
)
from spacy_rootmind.pipeline.constraints import Constrain, DocConstraints, SentenceConstraints
from spacy_rootmind.trees.conventions import MISSING
from spacy_rootmind.trees.decoding import decode
from spacy_rootmind.trees.distribution import distribution
from spacy_rootmind.trees.errors import NoTreeError
from spacy_rootmind.trees.labelled import PaddedArcs, decode_labelled, label_trees

SENTENCES = ("auto", "given", "doc")
DECODE = ("tree", "labelled_tree")
# Docs are looked at together up to so many tokens; a longer one in slices of so many ...
MAX_TOKENS = 4096
# ... that see so many tokens to either side. More than spaCy's convolutions reach.
CONTEXT = 128
# Sentences are parsed together up to so many arc scores; a longer one alone. A word counts for so
# many scores at least, as its rows in all layers take memory too.
MAX_SCORES = 1 << 20
MIN_SCORES = 256


@dataclass(frozen=True)
class Settings:
    """What a component asks for; see `spacy_rootmind.pipeline.root_mst.make_root_mst`."""

    root_label: str
    labels: Sequence[str]
    sentences: str = "auto"
    finds_boundaries: bool = True
    max_sentence_length: int = 512
    decode: str = "tree"
    constraints: Constrain | None = None
    temperature: float = 1.0
    label_temperature: float = 1.0
    confidence: bool = False
    arc_threshold: float | None = None
    alternatives: Maker | None = None
    on_split: Callable[[Doc, int], None] = lambda doc, n_split: None


@dataclass
class Plan:
    """A Doc's sentences before they are parsed.

    Attributes
    ----------
    doc : Doc
    starts : int array
        As of `sentences.sentence_starts`.
    sentences : list of int array
        Scored tokens of each sentence.
    constraints : list of SentenceConstraints or None
        Of each sentence.
    """

    doc: Doc
    starts: Starts
    sentences: Sentences
    constraints: list[SentenceConstraints | None]


def parse_docs(model: ParserModel, docs: Sequence[Doc], settings: Settings) -> list[DocParse]:
    """Parse Docs without changing them."""
    parses: list[DocParse] = []
    for batch in _batches(docs, [len(doc) for doc in docs], MAX_TOKENS):
        parses += _parse_batch(model, batch, settings)
    return parses


def _parse_batch(model: ParserModel, docs: list[Doc], settings: Settings) -> list[DocParse]:
    vectors, log_odds = _look(model, docs)
    stops = np.cumsum([len(doc) for doc in docs])[:-1]
    plans = [
        plan_sentences(doc, own, settings)
        for doc, own in zip(docs, np.split(log_odds, stops), strict=True)
    ]
    found = _parse_sentences(model, vectors, plans, settings)
    return [
        doc_parse(plan.doc, plan.starts, plan.sentences, found, settings.root_label)
        for plan in plans
    ]


def _look(model: ParserModel, docs: list[Doc]) -> tuple[list[Floats2d], NDArray[np.floating]]:
    """Find the vectors of all tokens, and their log-odds of starting a sentence.

    Thinc keeps what every layer made until the last is done, so a long Doc is looked at in slices.
    """
    n = sum(map(len, docs))
    if not n:
        return [], np.zeros(0)
    if n <= MAX_TOKENS:
        vectors = _vectors(model, docs)
        return vectors, _boundary_scores(model, vectors, list(map(words_of, docs)))
    [doc] = docs
    vectors, words = _long_vectors(model, doc), words_of(doc)
    log_odds = []
    for start, stop, first, last in _slices(n):
        own = words[(first <= words) & (words < last)] - first
        odds = _boundary_scores(model, [vectors[first:last]], [own])
        log_odds.append(odds[start - first : stop - first].copy())
    return [vectors], np.concatenate(log_odds)


def _long_vectors(model: ParserModel, doc: Doc) -> Floats2d:
    """Find the vectors of a long Doc's tokens, slice by slice.

    Not where they come from another component, which a listener stands for: all are there already.
    """
    if listeners_in(model.get_ref("tok2vec")):
        return _vectors(model, [doc])[0]
    parts = []
    for start, stop, first, last in _slices(len(doc)):
        [seen] = _vectors(model, [doc[first:last].as_doc(copy_user_data=True)])
        parts.append(seen[start - first : stop - first].copy())
    return model.ops.xp.concatenate(parts)


def _vectors(model: ParserModel, docs: list[Doc]) -> list[Floats2d]:
    width = model.get_dim("nI")
    return token_vectors(model.get_ref("tok2vec"), docs, width, model.ops, is_train=False)[0]


def _slices(n: int) -> Iterator[tuple[int, int, int, int]]:
    """Cut n tokens in slices: where each starts and stops, and what is seen with it."""
    for start in range(0, n, MAX_TOKENS):
        stop = min(start + MAX_TOKENS, n)
        yield start, stop, max(start - CONTEXT, 0), min(stop + CONTEXT, n)


def _boundary_scores(
    model: ParserModel, vectors: list[Floats2d], words: list[NDArray[np.int64]]
) -> NDArray[np.floating]:
    scores = model.get_ref("boundaries").predict(BoundaryInput(vectors, words))
    scores = model.ops.to_numpy(scores)
    require_finite(np, scores, "boundary")
    return scores


def _batches(items: Sequence[Any], costs: Sequence[int], most: int) -> Iterator[list[Any]]:
    """Group neighbours up to a total cost; one that costs more comes alone."""
    batch: list[Any] = []
    total = 0
    for item, cost in zip(items, costs, strict=True):
        if batch and total + cost > most:
            yield batch
            batch, total = [], 0
        batch.append(item)
        total += cost
    if batch:
        yield batch


# --- sentences ---------------------------------------------------------------------------------


def plan_sentences(doc: Doc, log_odds: NDArray[np.floating], settings: Settings) -> Plan:
    """Settle a Doc's sentences; `log_odds` are the network's, that each token starts one.

    Raises
    ------
    ValueError
        If boundaries must be given and are not, or constraints cannot be respected.
    """
    bound = _bound_log_odds(doc, log_odds, settings)
    constraints = None
    if settings.constraints is not None:
        constraints = DocConstraints.check(doc, settings.constraints(doc))
        bound = constraints.bind(doc, bound)
    starts, n_split = choose_starts(doc, bound, settings.max_sentence_length)
    if n_split:
        settings.on_split(doc, n_split)
    sentences = scored_tokens(doc, starts)
    if constraints is None:
        return Plan(doc, starts, sentences, [None] * len(sentences))
    constraints.check_starts(doc, starts)
    return Plan(doc, starts, sentences, [constraints.of_sentence(words) for words in sentences])


def _bound_log_odds(
    doc: Doc, log_odds: NDArray[np.floating], settings: Settings
) -> NDArray[np.floating]:
    """Combine what the network says with what is known of a Doc's boundaries already."""
    bound = log_odds.astype(np.float64)
    if not settings.finds_boundaries:
        bound[:] = -1.0
    if settings.sentences == "doc":
        return bound - CERTAIN
    known = known_starts(doc, settings.root_label)
    if settings.sentences == "given":
        if len(doc) > 1 and not doc.has_annotation("SENT_START"):
            raise ValueError(
                f"the Doc {doc.text[:40]!r} has no sentence boundaries, and the parser is set to "
                f'sentences = "given": put a component that finds them before it (`senter`, '
                f'`sentencizer`), or set sentences = "auto"'
            )
        known[known == 0] = -1
    return bound + CERTAIN * known


# --- trees -------------------------------------------------------------------------------------


def _parse_sentences(
    model: ParserModel, vectors: list[Floats2d], plans: list[Plan], settings: Settings
) -> Iterator[SentenceParse]:
    """Parse the sentences of all plans, in order."""
    if not vectors:
        return
    flat = vectors[0] if len(vectors) == 1 else model.ops.xp.concatenate(vectors)
    first = 0
    tasks = []
    for plan in plans:
        for words, constraints in zip(plan.sentences, plan.constraints, strict=True):
            tasks.append(Task(plan.doc, words, first, constraints))
        first += len(plan.doc)
    positions = [len(task.words) + 1 for task in tasks]
    costs = [m * max(m, MIN_SCORES) for m in positions]
    for batch in _batches(tasks, costs, MAX_SCORES):
        rows = [task.words + task.first for task in batch]
        scores = model.get_ref("trees").predict(TreeInput([flat], [rows]))
        yield from _decode(scores, batch, settings)


@dataclass(frozen=True)
class Task:
    """A sentence to parse: its Doc, its words there, the Doc's first row, its constraints."""

    doc: Doc
    words: NDArray[np.int64]
    first: int
    constraints: SentenceConstraints | None

    def name(self) -> str:
        """Say which sentence it is, for messages."""
        text = self.doc[int(self.words[0]) : int(self.words[-1]) + 1].text
        return f"the sentence {text[:40]!r} at token {self.words[0]}"


def _decode(scores: TreeScores, tasks: Sequence[Task], settings: Settings) -> list[SentenceParse]:
    """Find the best tree of each sentence, its labels, and what is asked for beside it."""
    buckets = scores.layout.buckets
    squares = [
        _constrained(scores.labeller.ops.to_numpy(arcs), bucket, tasks)
        for bucket, arcs in zip(buckets, scores.arcs, strict=True)
    ]
    found = _find_trees(scores, squares, settings)
    names = np.array([*settings.labels, settings.root_label], dtype=object)
    parses = [SentenceParse(np.full(1, MISSING, np.int32), [], {}) for _ in tasks]
    for bucket, square, heads, labels in zip(buckets, squares, *found, strict=True):
        records = _believe(square, bucket, heads, tasks, settings)
        for i, sentence in enumerate(bucket.sentences):
            m = bucket.lengths[i] + 1
            # The root has no label among the network's, but the last of the names.
            deps = names[labels[i, 1:m]].tolist()
            parses[sentence] = SentenceParse(heads[i, :m], deps, records[i])
    _label_records(scores, [parse.record for parse in parses], settings)
    return parses


def _find_trees(
    scores: TreeScores, squares: list[NDArray[np.floating]], settings: Settings
) -> tuple[list[NDArray[np.int32]], list[NDArray[np.int32]]]:
    """Find the best trees, a padded array a bucket, and the numbers of their labels."""
    buckets = scores.layout.buckets
    lengths = [bucket.lengths for bucket in buckets]
    rows = [scores.labeller.ops.to_numpy(bucket.rows) for bucket in buckets]

    def find_labels(arcs: PaddedArcs) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        ends = np.empty((2, len(arcs.batch)), dtype=np.int64)
        for i, own_rows in enumerate(rows):
            own = arcs.batch == i
            ends[:, own] = own_rows[arcs.sentence[own], (arcs.dep[own], arcs.head[own])]
        labels, log_probs = scores.best_labels(ends[0], ends[1], settings.label_temperature)
        require_finite(np, log_probs, "label")
        return labels, log_probs

    if settings.decode == "labelled_tree":
        cooled = [square.astype(np.float64) / settings.temperature for square in squares]
        return decode_labelled(cooled, lengths, find_labels)
    heads = [decode(*batch) for batch in zip(squares, lengths, strict=True)]
    return heads, label_trees(heads, find_labels)


def _constrained(
    square: NDArray[np.floating], bucket: Bucket, tasks: Sequence[Task]
) -> NDArray[np.floating]:
    """Check arc scores, and forbid by -inf the arcs that constraints rule out."""
    require_finite(np, square, "arc")
    for i, sentence in enumerate(bucket.sentences):
        constraints = tasks[sentence].constraints
        if constraints is not None:
            m = bucket.lengths[i] + 1
            try:
                square[i, :m, :m] = constraints.apply(square[i, :m, :m])
            except NoTreeError:
                raise NoTreeError(
                    f"no tree with a single root respects the constraints on "
                    f"{tasks[sentence].name()}: leave some out"
                ) from None
    return square


def _believe(
    square: NDArray[np.floating],
    bucket: Bucket,
    heads: NDArray[np.int32],
    tasks: Sequence[Task],
    settings: Settings,
) -> list[Record]:
    """Find what is asked for beside the best tree, for each sentence of a bucket."""
    records: list[Record] = [{} for _ in bucket.sentences]
    threshold, alternatives = settings.arc_threshold, settings.alternatives
    if not settings.confidence and threshold is None and alternatives is None:
        return records
    cooled = square.astype(np.float64) / settings.temperature
    if settings.confidence or threshold is not None:
        trees = distribution(cooled, bucket.lengths, heads=heads)
        if settings.confidence:
            _add(records, find_confidence(trees, bucket.lengths, heads))
        if threshold is not None:
            _add(records, find_arcs(trees, bucket.lengths, threshold))
    if alternatives is not None:
        for i, sentence in enumerate(bucket.sentences):
            task, m = tasks[sentence], bucket.lengths[i] + 1
            words = [task.doc[token].text for token in task.words.tolist()]
            records[i].update(make_alternatives(cooled[i, :m, :m], alternatives, words))
    return records


def _add(records: list[Record], found: list[Record]) -> None:
    for record, more in zip(records, found, strict=True):
        record.update(more)


def _label_records(scores: TreeScores, records: list[Record], settings: Settings) -> None:
    """Label the arcs of alternatives, and those that are probable."""
    roots = scores.labeller.ops.to_numpy(scores.layout.roots)
    if settings.alternatives is not None:
        label_alternatives(scores, records, roots)
    if settings.arc_threshold is not None:
        label_arcs(scores, records, roots, settings.arc_threshold, settings.label_temperature)
    if settings.alternatives is not None or settings.arc_threshold is not None:
        for record in records:
            record["labels"] = [*settings.labels, settings.root_label]
