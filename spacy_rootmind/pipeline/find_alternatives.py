"""Alternatives of the sentences of a batch, which keep the guidelines if there are any."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.annotation.details import BROKEN, Alternatives
from spacy_rootmind.pipeline.alternatives import TreeMaker, log_probs_among
from spacy_rootmind.pipeline.sentence_parser import ParsedBatch, ScoredBatch
from spacy_rootmind.trees.constrained import MAX_DECODES, Rules, decode_kbest_valid
from spacy_rootmind.trees.conventions import MISSING, BoolArray
from spacy_rootmind.trees.labelled import ArcLabels, FindLogProbs, LabelledTrees

# Alternatives that are made at most for each valid one, of the k best, before these are searched
# for with some decodes each; of samples, for each and besides.
BEST_MADE, DECODES_EACH = 16, 20
MADE_EACH, MADE_BESIDES = 10, 500


def find_alternatives(batch: ScoredBatch, parsed: ParsedBatch) -> list[Alternatives]:
    """Find the alternatives of each sentence that the settings ask for."""
    if parsed.rules is None:
        return _make_alternatives(batch, range(len(batch.sentences)), {})
    return _find_valid_alternatives(batch, parsed)


def _make_alternatives(
    batch: ScoredBatch,
    sentences: Sequence[int],
    changed: Mapping[int, dict[str, int]],
    scorers: Mapping[int, FindLogProbs] = MappingProxyType({}),
) -> list[Alternatives]:
    """Call the maker for some sentences, with changed settings and scorers of labels for each."""
    make = _maker(batch)
    found = [
        make(
            batch.log_weights_of(i),
            batch.sentences[i].texts(),
            scorers.get(i) or _label_scorer(batch, i),
            projective=batch.context.settings.projective,
            **changed.get(i, {}),
        )
        for i in sentences
    ]
    return [_as_alternatives(trees, batch.context.labels) for trees in found]


def _maker(batch: ScoredBatch) -> TreeMaker:
    made: Any = batch.context.settings.alternatives
    return made.function


def _as_alternatives(trees: LabelledTrees, names: tuple[str, ...]) -> Alternatives:
    return Alternatives(trees.heads[:, 1:], trees.labels[:, 1:], trees.scores, names)


def _find_valid_alternatives(batch: ScoredBatch, parsed: ParsedBatch) -> list[Alternatives]:
    """Make alternatives, four times as many each time, until k of them keep the guidelines.

    All are kept of a sentence whose parse does not keep the guidelines.
    """
    maker, left = _maker(batch), list(range(len(batch.sentences)))
    k = maker.k
    most = BEST_MADE * k if maker.is_best else MADE_EACH * k + MADE_BESIDES
    # The trees made first stay the same, without a seed as well.
    seeds = np.random.default_rng().integers(2**63, size=len(left)).tolist()
    scorers: dict[int, FindLogProbs] = {}
    if maker.is_best:
        # Only trees of arcs that may be valid are listed; labels of earlier rounds are known.
        masks = _masks(parsed)
        scorers = {
            i: ArcLabels(len(batch.squares[i]) - 1, _label_scorer(batch, i, masks.get(i)))
            for i in left
        }
    found: dict[int, Alternatives] = {}
    count = last = k + k // 2 + 1
    while last < most:
        last *= 2
    while left:
        changed = {i: {"k": count, "seed": seeds[i]} for i in left}
        made = _make_alternatives(batch, left, changed, scorers)
        again = []
        for i, own, valid in zip(left, made, _mark_valid(parsed, left, made), strict=True):
            found[i] = own.chosen(np.flatnonzero(valid)[:k])
            if len(found[i].heads) < k and len(own.heads) == count:
                again.append(i)
        left = again
        if count == last:
            break
        count = min(4 * count, last)
    for i in left:
        if not (maker.is_best and _search_best(batch, parsed, i, k, found)):
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
    weights = batch.log_weights_of(i)
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


def _mark_valid(
    parsed: ParsedBatch, sentences: Sequence[int], made: Sequence[Alternatives]
) -> list[NDArray[np.bool_]]:
    """Mark the alternatives of sentences that are valid."""
    rules, status = cast(Rules, parsed.rules), np.array(parsed.status)
    counts = [len(own.heads) for own in made]
    numbers = np.repeat(np.array(sentences), counts)
    heads = [tree for own in made for tree in _with_root(own.heads)]
    labels = [tree for own in made for tree in _with_root(own.labels)]
    valid = rules.are_valid(numbers.tolist(), heads, labels) | (status[numbers] == BROKEN)
    return np.split(valid, np.cumsum(counts)[:-1])


def _with_root(columns: NDArray[np.int32]) -> NDArray[np.int32]:
    return np.insert(columns, 0, MISSING, axis=1)


def _label_scorer(batch: ScoredBatch, sentence: int, mask: BoolArray | None = None) -> FindLogProbs:
    """Make the function that finds log probabilities of labels in a sentence; -inf by a mask."""
    root = int(batch.scores.layout.roots[sentence])

    def find_log_probs(deps: NDArray[np.int64], heads: NDArray[np.int64]) -> NDArray[np.float64]:
        log_probs = batch.label_log_probs(root + deps, root + heads)
        return log_probs if mask is None else np.where(mask[deps, heads, 1:], log_probs, -np.inf)

    return find_log_probs
