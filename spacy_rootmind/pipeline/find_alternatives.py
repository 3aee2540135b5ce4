"""Alternatives of the sentences of a batch, which keep the guidelines if there are any."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.annotation.details import BROKEN, Alternatives, from_zero, number_labels
from spacy_rootmind.pipeline.alternatives import TreeMaker, log_probs_among
from spacy_rootmind.pipeline.sentence_parser import ParsedBatch, ScoredBatch
from spacy_rootmind.trees.constrained import MAX_DECODES, Rules, decode_kbest_valid
from spacy_rootmind.trees.labelled import FindLogProbs, LabelledTrees

# Decodes in the search for the k best valid trees, for each, besides those for one tree.
DECODES_EACH = 20
# Samples that are made at most for each valid one, and besides.
MADE_EACH, MADE_BESIDES = 10, 500


def find_alternatives(batch: ScoredBatch, parsed: ParsedBatch) -> list[Alternatives]:
    """Find the alternatives of each sentence that the settings ask for.

    They keep the guidelines, if there are any, unless the sentence's parse does not.
    """
    made: Any = batch.context.settings.alternatives
    maker: TreeMaker = made.function
    projective, found = batch.context.settings.projective, []
    for i, sentence in enumerate(batch.sentences):
        weights, find_log_probs = batch.log_weights_of(i), _label_scorer(batch, i)
        make = partial(maker, weights, sentence.texts(), find_log_probs, projective=projective)
        rules, is_complete = parsed.rules, True
        if rules is None or (parsed.status is not None and parsed.status[i] == BROKEN):
            trees = make()
        elif maker.is_best:
            trees, is_complete = decode_kbest_valid(
                weights,
                maker.k,
                find_log_probs,
                rules,
                i,
                projective=projective,
                max_decodes=MAX_DECODES + DECODES_EACH * maker.k,
            )
            scores = log_probs_among(trees.scores, weights, projective=projective)
            trees = trees._replace(scores=scores)
        else:
            trees = _sample_valid(make, rules, i, maker.k)
            is_complete = len(trees.heads) == maker.k
        if not is_complete:
            batch.context.on_missing(sentence.name(), len(trees.heads), maker.k)
        found.append(_as_alternatives(trees, batch.context.labels))
    return found


def _as_alternatives(trees: LabelledTrees, names: tuple[str, ...]) -> Alternatives:
    words = np.arange(1, trees.heads.shape[1])
    names, labels = number_labels(trees.labels[:, 1:], names)
    return Alternatives(names, from_zero(words, trees.heads[:, 1:]), labels, trees.scores)


def _sample_valid(
    make: Callable[..., LabelledTrees], rules: Rules, sentence: int, k: int
) -> LabelledTrees:
    """Sample trees, four times as many each time, until k of them keep the guidelines."""
    # The trees made first stay the same, without a seed as well.
    seed = int(np.random.default_rng().integers(2**63))
    count, most = k + k // 2 + 1, MADE_EACH * k + MADE_BESIDES
    while True:
        trees = make(k=count, seed=seed)
        numbers = [sentence] * count
        kept = np.flatnonzero(rules.are_valid(numbers, [*trees.heads], [*trees.labels]))[:k]
        if len(kept) == k or count >= most:
            return LabelledTrees(trees.heads[kept], trees.labels[kept], trees.scores[kept])
        count = 4 * count


def _label_scorer(batch: ScoredBatch, sentence: int) -> FindLogProbs:
    """Make the function that finds log probabilities of labels in a sentence."""
    root = int(batch.scores.layout.roots[sentence])

    def find_log_probs(deps: NDArray[np.int64], heads: NDArray[np.int64]) -> NDArray[np.float64]:
        return batch.label_log_probs(root + deps, root + heads)

    return find_log_probs
