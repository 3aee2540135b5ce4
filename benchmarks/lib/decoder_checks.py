"""Checks that decoders reach the best score, made before anything is timed."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lib.decoders import ANY_ROOTS, ARGMAX, ONE_ROOT, Decoder, padded_heads
from lib.inputs import Batch, soft_masks
from spacy_rootmind import decode, is_tree, tree_score


@dataclass(frozen=True)
class Verdict:
    """Number of wrong sentences among all, and what is wrong with the first."""

    wrong: int
    total: int
    reason: str = ""

    def __str__(self) -> str:
        """Format the verdict for the table."""
        return f"wrong on {self.wrong} of {self.total}: {self.reason}" if self.wrong else ""


class Judge:
    """Checks decoders against the best scores of a batch.

    The best scores come from our default algorithms. As every other algorithm and peer is
    compared with them, a mistake in them would show too.
    """

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        one_root = decode(batch.scores, lengths=batch.lengths)
        any_roots = decode(batch.scores, lengths=batch.lengths, single_root=False)
        self.best = {
            ONE_ROOT: tree_score(batch.scores, one_root, lengths=batch.lengths),
            ANY_ROOTS: tree_score(batch.scores, any_roots, lengths=batch.lengths),
        }

    def verdict(self, decoder: Decoder, result: object, count: int) -> Verdict:
        """Judge the heads of the first `count` sentences."""
        if decoder.task == ARGMAX:
            return Verdict(0, count)
        part = self.batch.take(count)
        heads = padded_heads(result, part)
        trees = np.atleast_1d(
            is_tree(heads, lengths=part.lengths, single_root=decoder.task != ANY_ROOTS)
        )
        if not trees.all():
            wanted = "a tree" if decoder.task == ANY_ROOTS else "a single-root tree"
            return Verdict(int((~trees).sum()), count, f"not {wanted}")
        reached = tree_score(part.scores, heads, lengths=part.lengths)
        slack = rounding(part, decoder.precision)
        wrong = np.abs(reached - self.best[decoder.task][:count]) > slack
        return Verdict(int(wrong.sum()), count, "another score" if wrong.any() else "")


def rounding(batch: Batch, precision: type[np.floating]) -> NDArray[np.float64]:
    """Bound the difference from the best score that rounding may cause, for each sentence."""
    largest = np.array([np.abs(scores[1:]).max(initial=0) for scores in batch.sentences()])
    return 64 * float(np.finfo(precision).eps) * batch.lengths * largest.astype(np.float64)


def settled_by_arcmax(sentences: Sequence[NDArray[np.floating]]) -> float:
    """Return the share of sentences whose best heads already form a single-root tree."""
    settled = []
    for scores in sentences:
        masked = scores.astype(np.float64)
        np.fill_diagonal(masked, -np.inf)
        heads = masked.argmax(axis=1)
        heads[0] = -1
        settled.append(is_tree(heads))
    return float(np.mean(settled))


def soft_mask_verdicts(decoders: list[Decoder], count: int) -> list[tuple[Decoder, str, Verdict]]:
    """Judge decoders where forbidden arcs are large finite numbers, against enumeration."""
    verdicts = []
    for dtype in (np.float64, np.float32):
        batch, best = soft_masks(count, dtype)
        for decoder in decoders:
            if decoder.task != ARGMAX:
                verdict = _soft_mask_verdict(decoder, batch, best[decoder.task == ONE_ROOT])
                verdicts.append((decoder, np.dtype(dtype).name, verdict))
    return verdicts


def _soft_mask_verdict(decoder: Decoder, batch: Batch, best: NDArray[np.float64]) -> Verdict:
    """Judge one decoder sentence by sentence, since some of them stop with an error."""
    wrong, reason = 0, ""
    for index in range(len(batch)):
        one = batch.part(index)
        try:
            heads = padded_heads(decoder.bind(one)(), one)
        except Exception as error:  # an error of a peer counts as a wrong tree
            wrong, reason = wrong + 1, type(error).__name__
            continue
        single = decoder.task == ONE_ROOT
        if not is_tree(heads, lengths=one.lengths, single_root=single).all():
            wrong, reason = wrong + 1, reason or "not a tree with the right number of roots"
        # The best trees have no masked arcs, so the scores to compare are small integers.
        elif tree_score(one.scores, heads, lengths=one.lengths)[0] != best[index]:
            wrong, reason = wrong + 1, reason or "another score"
    return Verdict(wrong, len(batch), reason)
