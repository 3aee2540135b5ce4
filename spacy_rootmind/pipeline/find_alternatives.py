"""Alternatives of the sentences of a batch, which keep the guidelines if there are any."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.annotation.details import BROKEN, Alternatives, from_zero, number_labels
from spacy_rootmind.annotation.warn_once import WarnOnce
from spacy_rootmind.pipeline.alternatives import TreeMaker, log_probs_among
from spacy_rootmind.pipeline.sentence_parser import ParsedBatch, ScoredBatch
from spacy_rootmind.trees.constrained import MAX_DECODES, Rules, decode_kbest_valid
from spacy_rootmind.trees.conventions import BoolArray
from spacy_rootmind.trees.labelled import ArcLabels, FindLogProbs, LabelledTrees

# Trees that are made at most for each valid one, of the k best, before these are searched for with
# some decodes each; of samples, for each and besides.
BEST_MADE, DECODES_EACH = 16, 20
MADE_EACH, MADE_BESIDES = 10, 500

warn_of_missing = WarnOnce(
    "Found %d of %d alternatives of %s: too few of its trees keep the guidelines to find more. For "
    "trees that need not keep them, set guidelines to null."
)


def find_alternatives(batch: ScoredBatch, parsed: ParsedBatch) -> list[Alternatives]:
    """Find the alternatives of each sentence that the settings ask for.

    They keep the guidelines, if there are any, unless the sentence's parse does not.
    """
    made: Any = batch.context.settings.alternatives
    maker: TreeMaker = made.function
    projective, found = batch.context.settings.projective, []
    for i, sentence in enumerate(batch.sentences):
        weights, rules = batch.log_weights_of(i), parsed.rules
        if parsed.status is not None and parsed.status[i] == BROKEN:
            rules = None
        find_log_probs = _label_scorer(batch, i)
        if rules is not None and maker.is_best:
            # Only labels that may be valid are listed; labels of earlier rounds are known.
            masked = _label_scorer(batch, i, rules.mask(i))
            find_log_probs = ArcLabels(len(weights) - 1, masked)
        make = partial(maker, weights, sentence.texts(), find_log_probs, projective=projective)
        trees, is_complete = (make(), True) if rules is None else _make_valid(make, maker, rules, i)
        if rules is not None and maker.is_best and not is_complete:
            searched, is_complete = decode_kbest_valid(
                weights,
                maker.k,
                _label_scorer(batch, i),
                rules,
                i,
                projective=projective,
                max_decodes=MAX_DECODES + DECODES_EACH * maker.k,
            )
            if len(searched.heads) >= len(trees.heads):
                scores = log_probs_among(searched.scores, weights, projective=projective)
                trees = searched._replace(scores=scores)
        if not is_complete:
            warn_of_missing(len(trees.heads), maker.k, sentence.name())
        found.append(_as_alternatives(trees, batch.context.labels))
    return found


def _as_alternatives(trees: LabelledTrees, names: tuple[str, ...]) -> Alternatives:
    words = np.arange(1, trees.heads.shape[1])
    names, labels = number_labels(trees.labels[:, 1:], names)
    return Alternatives(names, from_zero(words, trees.heads[:, 1:]), labels, trees.scores)


def _make_valid(
    make: Callable[..., LabelledTrees], maker: TreeMaker, rules: Rules, sentence: int
) -> tuple[LabelledTrees, bool]:
    """Make trees, four times as many each time, until k of them keep the guidelines.

    Returns also whether these are k or all such trees.
    """
    # The trees made first stay the same, without a seed as well.
    seed, k = int(np.random.default_rng().integers(2**63)), maker.k
    most = BEST_MADE * k if maker.is_best else MADE_EACH * k + MADE_BESIDES
    count = k + k // 2 + 1
    while True:
        trees = make(k=count, seed=seed)
        numbers = [sentence] * len(trees.heads)
        kept = np.flatnonzero(rules.are_valid(numbers, [*trees.heads], [*trees.labels]))[:k]
        is_complete = len(kept) == k or len(trees.heads) < count
        if is_complete or count >= most:
            valid = LabelledTrees(trees.heads[kept], trees.labels[kept], trees.scores[kept])
            return valid, is_complete
        count = min(4 * count, most)


def _label_scorer(batch: ScoredBatch, sentence: int, mask: BoolArray | None = None) -> FindLogProbs:
    """Make the function that finds log probabilities of labels in a sentence; -inf by a mask."""
    root = int(batch.scores.layout.roots[sentence])

    def find_log_probs(deps: NDArray[np.int64], heads: NDArray[np.int64]) -> NDArray[np.float64]:
        log_probs = batch.label_log_probs(root + deps, root + heads)
        return log_probs if mask is None else np.where(mask[deps, heads, 1:], log_probs, -np.inf)

    return find_log_probs
