"""Details of parsed sentences: probabilities, arcs, alternatives and tree distributions.

All of them refer to the words of a sentence, as in `annotation.details`.
"""

import itertools
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.annotation.details import (
    BROKEN,
    Alternatives,
    ArcTable,
    Confidence,
    ParseDetails,
    StoredDistribution,
    StoredTrees,
)
from spacy_rootmind.network.architecture import ParserModel
from spacy_rootmind.network.label_scorer import find_best_labels, find_probable_labels
from spacy_rootmind.network.structure import weights_digest
from spacy_rootmind.pipeline.alternatives import (
    LabelledMaker,
    Trees,
    best_labelled,
    log_probs_among,
    own_maker,
)
from spacy_rootmind.pipeline.sentence_parser import ParsedBatch, ScoredBatch
from spacy_rootmind.trees.checks import is_tree
from spacy_rootmind.trees.constrained import MAX_DECODES, Rules, decode_kbest_valid, mark_valid
from spacy_rootmind.trees.conventions import MISSING, ROOT, ROOT_LABEL, BoolArray
from spacy_rootmind.trees.distribution import TreeDistribution
from spacy_rootmind.trees.labelled import LabelledTrees

# Alternatives that are made at most for each valid one, of the k best labelled trees, before these
# are searched for with some decodes each; of others, for each and besides.
BEST_MADE, DECODES_EACH = 16, 20
MADE_EACH, MADE_BESIDES = 10, 500

# The least probability of the labelled arcs that are kept with a sentence's trees.
LEAST_TO_KEEP = 1e-3


def find_details(batch: ScoredBatch, parsed: ParsedBatch) -> list[ParseDetails]:
    """Find the details that the settings ask for, per sentence."""
    settings = batch.context.settings
    parts: dict[str, Sequence[Any]] = {}
    if parsed.status is not None:
        parts["guideline_status"] = parsed.status
    if settings.finds_details:
        # These compute nothing until queried.
        trees = [
            TreeDistribution(weights, lengths=bucket.lengths, projective=settings.projective)
            for weights, bucket in zip(batch.log_weights, batch.scores.layout.buckets, strict=True)
        ]
        if settings.confidence:
            parts["confidence"] = _find_confidence(batch, parsed, trees)
        if settings.arc_threshold is not None:
            arcs = _find_arcs(batch, trees, settings.arc_threshold)
            parts["arcs"] = _label_arcs(batch, arcs, settings.arc_threshold)
        if settings.alternatives is not None:
            parts["alternatives"] = _find_alternatives(batch, parsed)
        if settings.keep_trees:
            parts["trees"] = _find_stored_trees(batch, trees)
        if settings.distribution_threshold is not None:
            threshold = settings.distribution_threshold
            # With the arcs of the parse, at least one tree is kept.
            arcs = _find_arcs(batch, trees, threshold, parsed.heads)
            parts["distributions"] = _find_distributions(batch, arcs, threshold)
    if not parts:
        return [ParseDetails()] * len(batch.sentences)
    return [
        ParseDetails(**dict(zip(parts, own, strict=True)))
        for own in zip(*parts.values(), strict=True)
    ]


# --- probabilities of the tree -----------------------------------------------------------------


def _find_confidence(
    batch: ScoredBatch, parsed: ParsedBatch, trees: Sequence[TreeDistribution]
) -> list[Confidence]:
    """Find the probabilities of each sentence's heads, labels and starts, and of its tree."""
    layout = batch.scores.layout
    # The root's label is certain.
    label_probs = np.ones(layout.n_rows)
    for deps, heads, log_probs in parsed.labelled:
        own = parsed.heads[deps] == heads - layout.roots[layout.sentence_of_row[deps]]
        label_probs[deps[own]] = np.exp(log_probs[own])
    padded_heads = layout.pad(parsed.heads, MISSING)
    found: list[Any] = [None] * len(batch.sentences)
    for bucket, own_trees, heads in zip(layout.buckets, trees, padded_heads, strict=True):
        # Marginals first: the others then need no elimination of their own.
        chosen = np.take_along_axis(own_trees.marginals, np.maximum(heads, 0)[..., None], axis=2)
        log_probs, entropies = np.atleast_1d(own_trees.log_prob(heads), own_trees.entropy())
        for i, number in enumerate(bucket.sentences):
            words = bucket.rows[i, 1 : bucket.lengths[i] + 1]
            probs = chosen[i, 1 : len(words) + 1, 0].astype(np.float32)
            found[number] = Confidence(
                probs,
                float(log_probs[i]),
                float(entropies[i]),
                parsed.labels[words],
                (probs * label_probs[words]).astype(np.float32),
                batch.context.labels,
                batch.sentences[number].start_probs,
            )
    return found


# --- probable arcs and distributions -----------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Arcs:
    """Probable arcs of the sentences of a batch, one sentence after another.

    Attributes
    ----------
    sentences : int array of shape (n_arcs,)
        Number of each arc's sentence.
    deps, heads : int array of shape (n_arcs,)
        Words of the sentence, numbered from 1, with ROOT as 0.
    probs, log_weights : float array of shape (n_arcs,)
    bounds : list of int
        Sentence i has the arcs from `bounds[i]` up to `bounds[i + 1]`.
    """

    sentences: NDArray[np.int64]
    deps: NDArray[np.int64]
    heads: NDArray[np.int64]
    probs: NDArray[np.float64]
    log_weights: NDArray[np.float64]
    bounds: list[int]

    def flat_rows(
        self, arcs: NDArray[np.int64], roots: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Convert the ends of some arcs to flat rows of the batch: dependents, heads.

        `roots` are the rows of the sentences' ROOTs.
        """
        first = roots[self.sentences[arcs]]
        return self.deps[arcs] + first, self.heads[arcs] + first


def _find_arcs(
    batch: ScoredBatch,
    trees: Sequence[TreeDistribution],
    threshold: float,
    parses: NDArray[np.int32] | None = None,
) -> Arcs:
    """Find the arcs with a probability of at least `threshold`, and all heads of the parses."""
    layout = batch.scores.layout
    found: list[Any] = [None] * len(batch.sentences)
    for bucket, own in zip(layout.buckets, trees, strict=True):
        for i, number in enumerate(bucket.sentences):
            m, root = bucket.lengths[i] + 1, layout.roots[number]
            probs = own.marginals[i, :m, :m]
            listed = probs >= threshold
            if parses is not None:
                listed[np.arange(1, m), parses[root + 1 : root + m]] = True
            deps, heads = listed.nonzero()
            found[number] = deps, heads, probs[deps, heads], own.scores[i][deps, heads]
    columns = list(zip(*found, strict=True))
    sizes = list(map(len, columns[0]))
    deps, heads, probs, log_weights = map(np.concatenate, columns)
    return Arcs(
        np.repeat(np.arange(len(sizes)), sizes),
        deps,
        heads,
        probs,
        log_weights,
        [0, *itertools.accumulate(sizes)],
    )


def _label_arcs(batch: ScoredBatch, arcs: Arcs, threshold: float) -> list[ArcTable]:
    """List the labelled arcs of each sentence with a probability of at least `threshold`.

    An arc has a row for each of its labels that is probable enough; the label of an arc from ROOT
    is certain. The rows of a word are sorted by decreasing probability.
    """
    inner, outer = np.flatnonzero(arcs.heads != ROOT), np.flatnonzero(arcs.heads == ROOT)
    rows, labels, joint = find_probable_labels(
        batch.labeller,
        batch.scores,
        *arcs.flat_rows(inner, batch.scores.layout.roots),
        arcs.probs[inner],
        threshold,
        batch.context.label_temperature,
    )
    rows = np.concatenate([outer, inner[rows]])
    labels = np.concatenate([np.full(len(outer), ROOT_LABEL), labels])
    joint = np.concatenate([arcs.probs[outer], joint])
    order = np.lexsort((-joint, arcs.deps[rows], arcs.sentences[rows]))
    rows, labels, joint = rows[order], labels[order], joint[order]
    ends = np.searchsorted(arcs.sentences[rows], np.arange(len(arcs.bounds)))
    return [
        ArcTable(
            arcs.deps[rows[own]],
            arcs.heads[rows[own]],
            labels[own],
            joint[own],
            batch.context.labels,
        )
        for own in (slice(*pair) for pair in itertools.pairwise(ends))
    ]


def _find_distributions(
    batch: ScoredBatch, arcs: Arcs, threshold: float
) -> list[tuple[StoredDistribution]]:
    """Join the arcs of each sentence, their log-weights, and the probabilities of their labels.

    A label is kept if the probability of arc and label together is at least `threshold`, and the
    best one of each arc always.
    """
    context = batch.context
    inner = np.flatnonzero(arcs.heads != ROOT)
    entries, labels, label_probs = _labels_to_store(batch, arcs, inner, threshold)
    stored = []
    for sentence, bounds in zip(batch.sentences, itertools.pairwise(arcs.bounds), strict=True):
        own, own_entries = slice(*bounds), slice(*np.searchsorted(entries, bounds))
        stored.append(
            StoredDistribution(
                arcs.deps[own].astype(np.int32),
                arcs.heads[own].astype(np.int32),
                arcs.log_weights[own].astype(np.float32),
                (entries[own_entries] - bounds[0]).astype(np.int32),
                labels[own_entries].astype(np.int32),
                label_probs[own_entries].astype(np.float32),
                context.labels,
                sigmoid(sentence.log_odds) if context.finds_boundaries else None,
                context.teacher,
            )
        )
    return [(distribution,) for distribution in stored]


def _find_stored_trees(batch: ScoredBatch, trees: Sequence[TreeDistribution]) -> list[StoredTrees]:
    """Join the weights of all arcs of each sentence and its probable labelled arcs."""
    tables = _label_arcs(batch, _find_arcs(batch, trees, LEAST_TO_KEEP), LEAST_TO_KEEP)
    temperature, is_projective = batch.context.temperature, batch.context.settings.projective
    return [
        StoredTrees(
            **vars(replace(table, probs=table.probs.astype(np.float32))),
            log_weights=_weights_to_store(
                own.astype(np.float64) / temperature, len(sentence.words)
            ),
            projective=is_projective,
        )
        for table, own, sentence in zip(tables, batch.squares, batch.sentences, strict=True)
    ]


def _weights_to_store(log_weights: NDArray[np.float64], n: int) -> NDArray[np.float32]:
    """Move the weights of root arcs to the diagonal, and lower each row, so that float32 will do.

    Probabilities of trees depend on the differences among the arcs of each word alone.
    """
    kept = log_weights[1 : n + 1, 1 : n + 1].copy()
    np.fill_diagonal(kept, log_weights[1 : n + 1, 0])
    return (kept - kept.max(axis=1, keepdims=True, initial=-np.inf)).astype(np.float32)


def _labels_to_store(
    batch: ScoredBatch, arcs: Arcs, inner: NDArray[np.int64], threshold: float
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Find the labels to keep: the number of the arc, the label and its probability on the arc."""
    deps, heads = arcs.flat_rows(inner, batch.scores.layout.roots)
    probs, temperature = arcs.probs[inner], batch.context.label_temperature
    found, labels, joint = find_probable_labels(
        batch.labeller, batch.scores, deps, heads, probs, threshold, temperature
    )
    others = np.setdiff1d(np.arange(len(deps)), found)
    best, log_probs = find_best_labels(
        batch.labeller, batch.scores, deps[others], heads[others], temperature
    )
    all_arcs = np.concatenate([found, others])
    order = np.argsort(all_arcs, kind="stable")
    label_probs = np.concatenate([joint / probs[found], np.exp(log_probs)])
    return inner[all_arcs[order]], np.concatenate([labels, best])[order], label_probs[order]


def sigmoid(log_odds: NDArray[np.floating]) -> NDArray[np.float32]:
    """Convert log-odds to probabilities, without overflow."""
    return (0.5 * (1.0 + np.tanh(0.5 * log_odds))).astype(np.float32)


def teacher_name(model: ParserModel, labels: Sequence[str]) -> str:
    """Name a parser by its labels and the weights above its token vectors.

    A parser that parses a Doc again is known for the same teacher, from whichever file it was
    loaded, and one that was trained further for another.
    """
    upper = [layer for layer in model.layers if layer is not model.get_ref("tok2vec")]
    return weights_digest(upper, repr(tuple(labels)))


# --- alternatives ------------------------------------------------------------------------------


def _find_alternatives(batch: ScoredBatch, parsed: ParsedBatch) -> list[Alternatives]:
    if parsed.rules is None:
        return _make_alternatives(batch, range(len(batch.sentences)), {})
    return _find_valid_alternatives(batch, parsed)


def _make_alternatives(
    batch: ScoredBatch,
    sentences: Sequence[int],
    changed: Mapping[int, dict[str, int]],
    masks: Mapping[int, BoolArray] | None = None,
) -> list[Alternatives]:
    """Call the maker for some sentences, with changed settings for each.

    With guidelines, `masks` has the labelled arcs to choose the best from.
    """
    settings, names = batch.context.settings, batch.context.labels
    make: Any = settings.alternatives
    maker = own_maker(make)
    is_labelled = isinstance(maker, LabelledMaker)
    # Makers of the user's own need not accept `projective` unless it matters.
    kind = {"projective": True} if settings.projective else {}
    found: list[Any] = []
    for i in sentences:
        log_weights = batch.squares[i].astype(np.float64) / batch.context.temperature
        given: list[Any] = [log_weights, batch.sentences[i].texts()]
        if is_labelled:
            given.append(_label_scorer(batch, i, None if masks is None else masks.get(i)))
        found.append(make(*given, **kind, **changed.get(i, {})))
        if masks is not None and maker is None:
            # Rules are about trees, and a maker of the user's own may have made anything.
            is_formed = np.atleast_1d(is_tree(found[-1][0]))
            found[-1] = tuple(column[is_formed] for column in found[-1])
    if not is_labelled:
        return _label_alternatives(batch, sentences, found, masks)
    return [_as_alternatives(trees, names) for trees in found]


def _as_alternatives(trees: LabelledTrees, names: tuple[str, ...]) -> Alternatives:
    return Alternatives(trees.heads[:, 1:], trees.labels[:, 1:], trees.scores, names)


def _find_valid_alternatives(batch: ScoredBatch, parsed: ParsedBatch) -> list[Alternatives]:
    """Make alternatives, twice as many each time, until k of them keep the guidelines.

    A maker of the user's own is called once. All are kept of a sentence whose parse does not keep
    the guidelines.
    """
    maker, left = own_maker(batch.context.settings.alternatives), list(range(len(batch.sentences)))
    settings = {"k": sys.maxsize} if maker is None else maker.keywords
    is_best, k = maker is not None and maker.func is best_labelled, settings["k"]
    most = BEST_MADE * k if is_best else MADE_EACH * k + MADE_BESIDES
    # The trees made first stay the same.
    seeds = np.random.default_rng().integers(2**63, size=len(left)).tolist()
    fixed = settings.get("seed", 0) is None
    masks = {} if isinstance(maker, LabelledMaker) and not is_best else _masks(parsed)
    found: dict[int, Alternatives] = {}
    count = k + k // 2 + 1
    while left:
        changed = {i: {"k": count, **({"seed": seeds[i]} if fixed else {})} for i in left if maker}
        made = _make_alternatives(batch, left, changed, masks)
        if not isinstance(maker, LabelledMaker):
            _label_as_parses(batch, parsed, left, made)
        again = []
        for i, own, valid in zip(left, made, _mark_valid(parsed, left, made), strict=True):
            found[i] = own.chosen(np.flatnonzero(valid)[:k])
            if len(found[i].heads) < k and len(own.heads) == count:
                again.append(i)
        left, is_last, count = again, count >= most, 2 * count
        if is_last:
            break
    for i in left:
        if not (is_best and _search_best(batch, parsed, i, k, found)):
            batch.context.on_missing(batch.sentences[i].name(), len(found[i].heads), k)
    return [found[i] for i in range(len(batch.sentences))]


def _masks(parsed: ParsedBatch) -> dict[int, BoolArray]:
    """Find the labelled arcs that valid trees of sentences may have: `Rules.mask`."""
    rules, status = cast(Rules, parsed.rules), parsed.status or ()
    return {i: rules.mask(i) for i, own in enumerate(status) if own != BROKEN}


def _search_best(
    batch: ScoredBatch, parsed: ParsedBatch, i: int, k: int, found: dict[int, Alternatives]
) -> bool:
    """Search for the k best labelled trees of a sentence; returns whether there are no others."""
    projective = batch.context.settings.projective
    weights = batch.squares[i].astype(np.float64) / batch.context.temperature
    trees, is_complete = decode_kbest_valid(
        weights,
        k,
        _label_scorer(batch, i),
        cast(Rules, parsed.rules),
        i,
        projective=projective,
        max_decodes=MAX_DECODES + DECODES_EACH * k,
    )
    if len(trees.heads) >= len(found[i].heads):
        scores = log_probs_among(trees.scores, weights, projective=projective)
        found[i] = _as_alternatives(trees._replace(scores=scores), batch.context.labels)
    return is_complete


def _label_as_parses(
    batch: ScoredBatch, parsed: ParsedBatch, sentences: Sequence[int], made: Sequence[Alternatives]
) -> None:
    """Give alternatives with the heads of the parse its labels, which may not be the best ones."""
    roots = batch.scores.layout.roots
    for i, own in zip(sentences, made, strict=True):
        words = slice(roots[i] + 1, roots[i] + 1 + own.heads.shape[1])
        own.labels[(own.heads == parsed.heads[words]).all(axis=1)] = parsed.labels[words]


def _mark_valid(
    parsed: ParsedBatch, sentences: Sequence[int], made: Sequence[Alternatives]
) -> list[NDArray[np.bool_]]:
    """Mark the alternatives of sentences that are valid."""
    rules, status = cast(Rules, parsed.rules), np.array(parsed.status)
    counts = [len(own.heads) for own in made]
    numbers = np.repeat(np.array(sentences), counts)
    heads = [tree for own in made for tree in _with_root(own.heads)]
    labels = [tree for own in made for tree in _with_root(own.labels)]
    valid = mark_valid(rules, numbers.tolist(), heads, labels) | (status[numbers] == BROKEN)
    return np.split(valid, np.cumsum(counts)[:-1])


def _with_root(columns: NDArray[np.int32]) -> NDArray[np.int32]:
    return np.insert(columns, 0, MISSING, axis=1)


def _label_scorer(
    batch: ScoredBatch, sentence: int, mask: BoolArray | None = None
) -> Callable[..., Any]:
    """Make the function that finds log probabilities of labels in a sentence; -inf by a mask."""
    root = int(batch.scores.layout.roots[sentence])

    def find_log_probs(deps: NDArray[np.int64], heads: NDArray[np.int64]) -> NDArray[np.float64]:
        log_probs = batch.label_log_probs(root + deps, root + heads)
        return log_probs if mask is None else np.where(mask[deps, heads, 1:], log_probs, -np.inf)

    return find_log_probs


def _label_alternatives(
    batch: ScoredBatch,
    sentences: Sequence[int],
    alternatives: Sequence[Trees],
    masks: Mapping[int, BoolArray] | None,
) -> list[Alternatives]:
    """Label the alternatives of sentences; an arc that several trees have is scored once."""
    n_rows, roots = batch.scores.layout.n_rows, batch.scores.layout.roots[list(sentences)]
    arcs = []
    for root, (trees, _) in zip(roots.tolist(), alternatives, strict=True):
        heads = trees[:, 1:].astype(np.int64)
        deps = np.arange(1, trees.shape[1]) + root
        arcs.append(np.where(heads == ROOT, MISSING, deps * n_rows + heads + root))
    flat = np.concatenate([own.ravel() for own in arcs])
    unique, numbers = np.unique(flat, return_inverse=True)
    labels = np.full(len(unique), ROOT_LABEL, dtype=np.int32)
    between_words = unique != MISSING
    deps, heads = np.divmod(unique[between_words], n_rows)
    if masks:
        labels[between_words] = _best_allowed(batch, deps, heads, masks)
    else:
        labels[between_words], _ = find_best_labels(batch.labeller, batch.scores, deps, heads)
    parts = np.split(labels[numbers], np.cumsum([own.size for own in arcs])[:-1])
    return [
        Alternatives(trees[:, 1:], part.reshape(own.shape), log_probs, batch.context.labels)
        for (trees, log_probs), own, part in zip(alternatives, arcs, parts, strict=True)
    ]


def _best_allowed(
    batch: ScoredBatch,
    deps: NDArray[np.int64],
    heads: NDArray[np.int64],
    masks: Mapping[int, BoolArray],
) -> NDArray[np.int64]:
    """Find the best labels of arcs, given by flat rows, that the masks of sentences allow."""
    layout, log_probs = batch.scores.layout, batch.label_log_probs(deps, heads)
    sentences = layout.sentence_of_row[deps]
    for i in np.unique(sentences).tolist():
        own, root = sentences == i, layout.roots[i]
        if i in masks:
            allowed = masks[i][deps[own] - root, heads[own] - root, 1:]
            log_probs[own] = np.where(allowed, log_probs[own], -np.inf)
    best: NDArray[np.int64] = log_probs.argmax(axis=1) + 1
    return best
