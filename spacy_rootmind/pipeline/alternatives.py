"""Alternative parses of the sentences of a batch, which keep the guidelines if there are any."""

import zlib
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.annotation.details import BROKEN, Alternatives, from_zero, number_labels
from spacy_rootmind.annotation.warn_once import WarnOnce
from spacy_rootmind.pipeline.sentence_parser import ParsedBatch, ScoredBatch
from spacy_rootmind.trees.constrained import MAX_DECODES, Rules, decode_kbest_valid
from spacy_rootmind.trees.conventions import BoolArray
from spacy_rootmind.trees.distribution import TreeDistribution
from spacy_rootmind.trees.labelled import (
    ArcLabels,
    FindLogProbs,
    LabelledTrees,
    decode_kbest_labelled,
    sample_labelled,
)

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
    settings, found = batch.context.settings, []
    find = find_best if settings.alternatives == "kbest" else find_samples
    for i, sentence in enumerate(batch.sentences):
        is_broken = parsed.status is not None and parsed.status[i] == BROKEN
        trees, is_complete = find(batch, i, None if is_broken else parsed.rules)
        if not is_complete:
            warn_of_missing(len(trees.heads), settings.n_alternatives, sentence.name())
        found.append(_as_alternatives(trees, batch.context.labels))
    return found


def _as_alternatives(trees: LabelledTrees, names: tuple[str, ...]) -> Alternatives:
    words = np.arange(1, trees.heads.shape[1])
    names, labels = number_labels(trees.labels[:, 1:], names)
    return Alternatives(names, from_zero(words, trees.heads[:, 1:]), labels, trees.scores)


def find_best(batch: ScoredBatch, sentence: int, rules: Rules | None) -> tuple[LabelledTrees, bool]:
    """Find the k most probable labelled trees of a sentence, best first.

    Also returns whether these are k trees, or every such tree.
    """
    k, projective = batch.context.settings.n_alternatives, batch.context.settings.projective
    weights = batch.log_weights_of(sentence)
    log_partition = TreeDistribution(weights, projective=projective).log_partition

    def with_log_probs(trees: LabelledTrees) -> LabelledTrees:
        # Rounding may not make a probability above 1.
        return trees._replace(scores=np.minimum(trees.scores - log_partition, 0.0))

    if rules is None:
        scorer = label_scorer(batch, sentence)
        best = decode_kbest_labelled(weights, k, scorer, projective=projective)
        return with_log_probs(best), True
    # Only labels that may be valid are listed; labels of earlier rounds are known.
    masked = ArcLabels(len(weights) - 1, label_scorer(batch, sentence, rules.mask(sentence)))
    make = partial(decode_kbest_labelled, weights, find_log_probs=masked, projective=projective)
    trees, is_complete = _make_valid(make, k, BEST_MADE * k, rules, sentence)
    if not is_complete:
        searched, is_complete = decode_kbest_valid(
            weights,
            k,
            label_scorer(batch, sentence),
            rules,
            sentence,
            projective=projective,
            max_decodes=MAX_DECODES + DECODES_EACH * k,
        )
        if len(searched.heads) >= len(trees.heads):
            trees = searched
    return with_log_probs(trees), is_complete


def find_samples(
    batch: ScoredBatch, sentence: int, rules: Rules | None
) -> tuple[LabelledTrees, bool]:
    """Draw k independent samples of a sentence's labelled trees.

    Random numbers depend on the words, if there is a seed. Also returns whether there are k.
    """
    settings = batch.context.settings
    k, weights = settings.n_alternatives, batch.log_weights_of(sentence)
    words = zlib.crc32("\0".join(batch.sentences[sentence].texts()).encode("utf8"))
    seed = settings.sample_seed
    seeds = [int(np.random.default_rng().integers(2**63)) if seed is None else seed, words]
    scorer = label_scorer(batch, sentence)

    def make(count: int) -> LabelledTrees:
        # The samples drawn first stay the same.
        rng = np.random.default_rng(seeds)
        return sample_labelled(weights, count, scorer, rng, projective=settings.projective)

    if rules is None:
        return make(k), True
    return _make_valid(make, k, MADE_EACH * k + MADE_BESIDES, rules, sentence)


def _make_valid(
    make: Callable[[int], LabelledTrees], k: int, most: int, rules: Rules, sentence: int
) -> tuple[LabelledTrees, bool]:
    """Make trees, four times as many each time, until k of them keep the guidelines.

    Also returns whether these are k trees, or every such tree.
    """
    count = k + k // 2 + 1
    while True:
        trees = make(count)
        numbers = [sentence] * len(trees.heads)
        kept = np.flatnonzero(rules.are_valid(numbers, [*trees.heads], [*trees.labels]))[:k]
        is_complete = len(kept) == k or len(trees.heads) < count
        if is_complete or count >= most:
            valid = LabelledTrees(trees.heads[kept], trees.labels[kept], trees.scores[kept])
            return valid, is_complete
        count = min(4 * count, most)


def label_scorer(batch: ScoredBatch, sentence: int, mask: BoolArray | None = None) -> FindLogProbs:
    """Make the function that finds log probabilities of labels in a sentence; -inf by a mask."""
    root = int(batch.scores.layout.roots[sentence])

    def find_log_probs(deps: NDArray[np.int64], heads: NDArray[np.int64]) -> NDArray[np.float64]:
        log_probs = batch.label_log_probs(root + deps, root + heads)
        return log_probs if mask is None else np.where(mask[deps, heads, 1:], log_probs, -np.inf)

    return find_log_probs
