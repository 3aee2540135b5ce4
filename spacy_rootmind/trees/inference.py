"""Inference over the trees of some sentences, by the kernel; each result is found once and kept."""

from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.kernel import derivatives
from spacy_rootmind.kernel import query_batch as kernel
from spacy_rootmind.kernel.batch import BAD_SCORE, OK, ScoreBuffer
from spacy_rootmind.trees.checks import form_trees
from spacy_rootmind.trees.conventions import MISSING, ROOT, as_arc_values
from spacy_rootmind.trees.decoding import find_best
from spacy_rootmind.trees.errors import LOST_DIGITS
from spacy_rootmind.trees.sentences import Sentences


class Inference:
    """Sums over the trees of some sentences: by elimination, or over spans if projective.

    Results have an axis of sentences, are kept, and must not be changed. Each is kept once it is
    complete; threads that need one at the same time find it twice, with the same numbers.
    """

    def __init__(self, sentences: Sentences):
        self.sentences = sentences
        self._summaries: NDArray[np.float64] | None = None
        self._marginals: NDArray[np.float64] | None = None
        self._entropies: NDArray[np.float64] | None = None

    def summaries(self) -> NDArray[np.float64]:
        """Find the summaries of the batch, (B, CONSTANTS + N + 1), as the kernel fills them."""
        if self._summaries is None:
            self._summaries = self._summarise()
        return self._summaries

    def log_partitions(self) -> NDArray[np.float64]:
        """Find log Z of each sentence."""
        return self.summaries()[:, kernel.LOG_Z]

    def marginals(self) -> NDArray[np.float64]:
        """Find the marginals of the batch: the kept array itself, which is writable."""
        if self._marginals is None:
            marginals = np.zeros(self.sentences.batch.shape)
            self._summaries = self._summarise(marginals)
            self._marginals = marginals
        return self._marginals

    def entropies(self) -> NDArray[np.float64]:
        """Find the entropy of each sentence."""
        if self._entropies is None:
            self._entropies = np.maximum(np.add(*self.cross_entropies(self.marginals())), 0.0)
        return self._entropies

    def log_probs(self, heads: NDArray[np.int64], words: NDArray[np.intp]) -> NDArray[np.float64]:
        """Find log probabilities of trees, a row each, k for each sentence: (B, k)."""
        own = self.sentences
        # The kernel knows trees of the wanted kind by their index 0.
        wanted = form_trees(heads, words, own.single_root, own.projective)
        heads[:, 0] = np.where(wanted, MISSING, 0)
        summaries = self.summaries()
        trees = heads.astype(np.int32, order="C")
        trees = trees.reshape(len(own), -1 if len(own) else 0, trees.shape[1])
        found = np.empty(trees.shape[:2])
        queries = self._queries()
        failed = kernel.log_prob_batch(
            own.buffer(), own.single_root, queries, summaries, trees, found
        )
        if failed[0] != OK:
            own.raise_failure(failed)
        return found

    def log_ratios(self, whole: "Inference") -> NDArray[np.float64]:
        """Find log(Z here / Z of `whole`) of the same scores, whose trees are some of the latter.

        -inf where float64 does not hold it.
        """
        found = np.empty(len(self.sentences))
        words = self.sentences.lengths
        kernel.log_ratio_batch(words, self.summaries(), whole.summaries(), found)
        return found

    def log_shares(self, restricted: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """Find log(Z of other scores / Z of the only sentence here), of shape (m,).

        The other scores, (m, n + 1, n + 1), are nowhere higher than the sentence's own. -inf where
        they allow no tree.
        """
        own, m = self.sentences, len(restricted)
        whole, words = self.summaries().repeat(m, axis=0), own.lengths.repeat(m)
        part, found = np.empty_like(whole), np.empty(m)
        failed = kernel.sum_batch(
            ScoreBuffer(restricted, words),
            own.single_root,
            self._new_summations(),
            part,
            allow_no_tree=True,
        )
        if failed[0] != OK:
            own.raise_failure((failed[0], 0))
        kernel.log_ratio_batch(words, part, whole, found)
        return found

    def cross_entropies(
        self, marginals: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Find the cross entropy of a distribution's marginals and this one, as a sum of two terms.

        Over arcs that are possible here. The first is inf where float64 does not hold it.
        """
        own = self.sentences
        summaries, queries, totals = self.summaries(), self._queries(), np.empty((len(own), 2))
        kernel.cross_entropy_batch(
            own.buffer(), own.single_root, queries, summaries, marginals, totals
        )
        return totals[:, 0], totals[:, 1]

    def divergences(self, other: "Inference") -> NDArray[np.float64]:
        """Find Kullback-Leibler divergences to other distributions."""
        self.sentences.check_same(other.sentences)
        if other.sentences.projective and not self.sentences.projective:
            raise ValueError(
                "expected a distribution over all trees to compare with, since this one is over "
                "all trees; received one with projective=True: make it with projective=False"
            )
        marginals = self.marginals()
        infinite = self._has_trees_beyond(other)
        # Subtracted with their digits beyond float64.
        high, low = other.cross_entropies(marginals)
        own_high, own_low = self.cross_entropies(marginals)
        found = high - own_high + (low - own_low)
        lost = np.isinf(found) & ~infinite
        if lost.any():
            raise ArithmeticError(f"sentence {int(np.argmax(lost))}: {LOST_DIGITS}")
        return np.where(infinite, np.inf, np.maximum(found, 0.0))

    def arc_covariances(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Find the covariances of a sum over the arcs of a tree with each arc of the batch.

        Each tree has one arc of each word, and one from ROOT if roots are single. So a constant
        shared by all of these arcs changes no covariance, and is subtracted. The rest is brought to
        the same size in all sentences, so that covariances neither overflow nor lose digits.
        """
        own = self.sentences
        batch = as_arc_values("values", values, own.scores.shape)
        with np.errstate(over="ignore"):
            given = np.require(batch, np.float64, ["C", "ALIGNED"])
        found = np.zeros(batch.shape)
        workers = [
            derivatives.Differentiation(own.longest, own.projective) for _ in range(own.workers)
        ]
        failed = derivatives.differentiate_batch(
            own.buffer(), own.single_root, workers, given, self.marginals(), found
        )
        if failed[0] == BAD_SCORE:
            self._refuse_values(given[failed[1]], failed[1])
        if failed[0] != OK:
            own.raise_failure(failed)
        if not np.isfinite(found).all():
            sentence = int(np.argwhere(~np.isfinite(found))[0, 0])
            raise ArithmeticError(
                f"sentence {sentence}: products of its values overflow; scale them"
            )
        return found

    def _refuse_values(self, values: NDArray[np.float64], sentence: int) -> NoReturn:
        """Name a value of a sentence that is not finite though its arc is possible."""
        marginals = self.marginals()[sentence]
        dep, head = np.argwhere((marginals > 0) & ~np.isfinite(values))[0].tolist()
        raise ValueError(
            f"sentence {sentence}: the value of dep {dep}, head {head} is {values[dep, head]}; "
            f"expected a finite number, since the arc has probability {marginals[dep, head]:.2g}"
        )

    # Calls of the kernel

    def _queries(self) -> list[kernel.Query]:
        """Allocate memory for queries, once per thread."""
        return [kernel.Query(self.sentences.longest) for _ in range(self.sentences.workers)]

    def _new_summations(self) -> list[kernel.Summation]:
        """Allocate memory for sums, once per thread."""
        own = self.sentences
        return [kernel.Summation(own.longest, own.projective) for _ in range(own.workers)]

    def _summarise(self, marginals: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """Sum over the trees, and fill marginals if given; returns summaries."""
        own = self.sentences
        summaries = np.empty((len(own), kernel.CONSTANTS + own.batch.shape[1]))
        failed = kernel.sum_batch(
            own.buffer(), own.single_root, self._new_summations(), summaries, marginals=marginals
        )
        if failed[0] != OK:
            own.raise_failure(failed)
        return summaries

    # Trees of one distribution that are impossible in another

    def _has_trees_beyond(self, other: "Inference") -> NDArray[np.bool_]:
        """Mark the sentences with a possible tree that is impossible in `other`."""
        own, theirs = self.sentences, other.sentences
        possible = own.possible_arcs()
        missing = possible & ~theirs.possible_arcs()
        infinite = np.zeros(len(own), dtype=np.bool_)
        if missing.any():
            infinite |= self._count_most(missing, possible) > 0
        if theirs.single_root and not own.single_root:
            from_root = possible & (np.arange(possible.shape[2]) == ROOT)
            infinite |= self._count_most(from_root, possible) > 1
        return infinite

    def _count_most(self, arcs: NDArray[np.bool_], possible: NDArray[np.bool_]) -> NDArray[np.intp]:
        """Count how many of some arcs a tree of possible arcs has at most; O(n^2)."""
        points = self.sentences.changed(batch=np.where(possible, arcs.astype(np.float64), -np.inf))
        heads = np.maximum(find_best(points), ROOT)
        return np.take_along_axis(arcs, heads[:, :, None], axis=2).sum((1, 2))
