"""Inference over the trees of some sentences, by the kernel; each result is found once and kept."""

import threading
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.kernel import derivatives
from spacy_rootmind.kernel import query_batch as kernel
from spacy_rootmind.kernel.batch import BAD_SCORE, OK, ScoreBuffer
from spacy_rootmind.trees import expectations
from spacy_rootmind.trees.checks import form_trees
from spacy_rootmind.trees.conventions import MISSING
from spacy_rootmind.trees.decoding import find_best
from spacy_rootmind.trees.errors import LOST_DIGITS, NoTreeError
from spacy_rootmind.trees.sentences import Sentences

# Marginals above this are no rounding errors of 0.
_SURELY_POSITIVE = 1e-6


class Results(NamedTuple):
    """Results for a batch; None for those not found yet. No array is ever changed.

    Attributes
    ----------
    summaries : float64 array of shape (B, CONSTANTS + N + 1)
        As the kernel fills them, except for the entropy, which is not always there.
    marginals : float64 array of shape (B, N + 1, N + 1)
    entropy, single_root_log_prob : float64 array of shape (B,)
    """

    summaries: NDArray[np.float64] | None = None
    marginals: NDArray[np.float64] | None = None
    entropy: NDArray[np.float64] | None = None
    single_root_log_prob: NDArray[np.float64] | None = None


class Inference:
    """Sums over the trees of some sentences: by elimination, or over spans if projective.

    Arrays have an axis of sentences, and those that are kept must not be changed.

    Attributes
    ----------
    sentences : Sentences
    lock : RLock
        Guards the results. Held only while they are read and replaced: nothing is computed and no
        other lock is taken then. Reentrant, since the handler of a signal may query meanwhile.
    """

    __slots__ = ("_results", "_summations", "lock", "sentences")

    def __init__(self, sentences: Sentences):
        self.sentences = sentences
        self.lock = threading.RLock()
        self._results = Results()
        # The elimination of a single sentence, from which its marginals continue.
        self._summations: list[kernel.Summation] | None = None

    def summaries(self) -> NDArray[np.float64]:
        """Find the summaries of the batch, without the entropy."""
        results = self._results
        if results.summaries is None:
            results = self._eliminate(backwards=False)
        return cast("NDArray[np.float64]", results.summaries)

    def log_partitions(self) -> NDArray[np.float64]:
        """Find log Z of each sentence."""
        found: NDArray[np.float64] = self.summaries()[:, kernel.LOG_Z]
        return found

    def marginals(self) -> NDArray[np.float64]:
        """Find the marginals of the batch: the kept array itself, which is writable."""
        results = self._results
        if results.marginals is None:
            results = self._eliminate(backwards=True)
        return cast("NDArray[np.float64]", results.marginals)

    def entropies(self) -> NDArray[np.float64]:
        """Find the entropy of each sentence."""
        results = self._results
        if results.entropy is None:
            if results.marginals is None:
                results = self._eliminate(backwards=True, with_entropy=True)
            else:
                high, low = self.cross_entropies(results.marginals)
                results = self._publish(entropy=np.maximum(high + low, 0.0))
        return cast("NDArray[np.float64]", results.entropy)

    def single_root_log_probs(self) -> NDArray[np.float64]:
        """Find the log probability of a single root in each sentence, among all trees."""
        results = self._results
        if results.single_root_log_prob is None:
            every = self._summaries_of(False)
            single = self._summaries_of(True, allow_no_tree=True)
            results = self._publish(single_root_log_prob=self._log_ratios(single, every))
        return cast("NDArray[np.float64]", results.single_root_log_prob)

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
        return self._log_ratios(self.summaries(), whole.summaries())

    def log_shares(
        self, restricted: NDArray[np.floating[Any]], numbers: NDArray[np.intp]
    ) -> NDArray[np.float64]:
        """Find log(Z of other scores / Z of the sentence with this number here), of shape (m,).

        The other scores, (m, N + 1, N + 1), are nowhere higher than the sentence's own. -inf where
        they allow no tree.
        """
        own, whole = self.sentences, self.summaries()[numbers]
        words, part, found = own.lengths[numbers], np.empty_like(whole), np.empty(len(numbers))
        failed = kernel.sum_batch(
            ScoreBuffer(restricted, words),
            own.single_root,
            self._new_summations(),
            part,
            allow_no_tree=True,
        )
        if failed[0] != OK:
            own.raise_failure((failed[0], int(numbers[failed[1]])))
        kernel.log_ratio_batch(words, part, whole, found)
        return found

    def cross_entropies(
        self, marginals: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Find the cross entropy of a distribution's marginals and this one, as a sum of two terms.

        Over arcs that are allowed here. The first is inf where float64 does not hold it.
        """
        own = self.sentences
        summaries, queries, totals = self.summaries(), self._queries(), np.empty((len(own), 2))
        kernel.cross_entropy_batch(
            own.buffer(), own.single_root, queries, summaries, marginals, totals
        )
        return totals[:, 0], totals[:, 1]

    def divergences(self, other: "Inference", *, from_own: bool) -> NDArray[np.float64]:
        """Find cross entropies, or with `from_own` what they are beyond the entropies."""
        self.sentences.check_same(other.sentences)
        if other.sentences.projective and not self.sentences.projective:
            raise ValueError(
                "expected a distribution over all trees to compare with, since this one is over "
                "all trees; received one with projective=True: make it with projective=False"
            )
        marginals = self.marginals()
        infinite = self._has_trees_beyond(other)
        high, low = other.cross_entropies(marginals)
        if from_own:
            own_high, own_low = self.cross_entropies(marginals)
            high, low = high - own_high, low - own_low
        found = high + low
        lost = np.isinf(found) & ~infinite
        if lost.any():
            raise ArithmeticError(f"sentence {int(np.argmax(lost))}: {LOST_DIGITS}")
        return np.where(infinite, np.inf, np.maximum(found, 0.0))

    def means(self, values: NDArray[Any]) -> tuple[NDArray[np.float64], bool]:
        """Find the expectations of sums, (B, d), and whether d is an axis of results."""
        batch, several = self._as_values(values)
        found = np.empty(batch.shape[:2])
        marginals = self.marginals()
        for i in range(batch.shape[1]):
            means, queries = np.empty(len(batch)), self._queries()
            buffer = ScoreBuffer(batch[:, i], self.sentences.lengths)
            status, sentence = kernel.expectation_batch(buffer, queries, marginals, means)
            if status == BAD_SCORE:
                expectations.check_finite(batch[sentence, i], marginals[sentence], sentence)
            if status != OK:
                raise ArithmeticError(f"sentence {sentence}: the sum of its values overflows")
            found[:, i] = means
        return found, several

    def covariances(self, values: NDArray[Any], other: NDArray[Any] | None) -> NDArray[np.float64]:
        """Find the covariances of sums, of shape (B, d, e), without axes that are not there."""
        first = self._normalize(values)
        second = first if other is None else self._normalize(other)
        by_arcs = self._differentiate(first)
        return expectations.covariances(first, by_arcs, second, self.sentences.lengths)

    def arc_covariances(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Find the covariances of sums with each arc of the batch, infinite where they overflow."""
        functions = self._normalize(values)
        return expectations.rescale(functions, self._differentiate(functions))

    # Calls of the kernel

    def _queries(self) -> list[kernel.Query]:
        """Allocate memory for queries, once per thread."""
        return [kernel.Query(self.sentences.longest) for _ in range(self.sentences.workers)]

    def _eliminate(self, *, backwards: bool, with_entropy: bool = False) -> Results:
        """Sum over all trees, and go back through the elimination for marginals and entropy."""
        own = self.sentences
        marginals = np.empty(own.batch.shape) if backwards else None
        kept = self._pop_summations() if backwards else None
        summations = kept or self._new_summations()
        summaries = self._summarise(
            own.single_root,
            summations,
            marginals=marginals,
            with_entropy=with_entropy,
            resume=kept is not None,
        )
        return self._publish(
            summations if len(own) == 1 and not backwards else None,
            summaries=summaries,
            marginals=marginals,
            entropy=summaries[:, kernel.ENTROPY] if with_entropy else None,
        )

    def _summaries_of(
        self, single_root: bool, *, allow_no_tree: bool = False
    ) -> NDArray[np.float64]:
        """Summarise all trees of either kind; if allowed, log Z is -inf where there are none."""
        results = self._results
        if single_root == self.sentences.single_root and results.summaries is not None:
            return results.summaries
        return self._summarise(single_root, self._new_summations(), allow_no_tree=allow_no_tree)

    def _new_summations(self) -> list[kernel.Summation]:
        """Allocate memory for sums, once per thread."""
        own = self.sentences
        return [kernel.Summation(own.longest, own.projective) for _ in range(own.workers)]

    def _summarise(
        self, single_root: bool, summations: list[kernel.Summation], **settings: Any
    ) -> NDArray[np.float64]:
        """Sum over the trees of either kind, with settings of the kernel; returns summaries."""
        own = self.sentences
        summaries = np.empty((len(own), kernel.CONSTANTS + own.batch.shape[1]))
        failed = kernel.sum_batch(own.buffer(), single_root, summations, summaries, **settings)
        if failed[0] != OK:
            own.raise_failure(failed, single_root=single_root)
        return summaries

    def _log_ratios(
        self, part: NDArray[np.float64], whole: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        found = np.empty(len(self.sentences))
        kernel.log_ratio_batch(self.sentences.lengths, part, whole, found)
        return found

    def _as_values(self, values: NDArray[Any]) -> tuple[NDArray[Any], bool]:
        """View the values of arcs as (B, d, N + 1, N + 1); says whether d is an axis of results."""
        shape = self.sentences.scores.shape
        batch = expectations.as_values(values, shape)
        return batch, values.ndim > len(shape)

    def _normalize(self, values: NDArray[Any]) -> expectations.Functions:
        batch, several = self._as_values(values)
        own = self.sentences
        return expectations.normalize(
            batch, self.marginals(), own.lengths, own.single_root, several
        )

    def _differentiate(self, functions: expectations.Functions) -> NDArray[np.float64]:
        """Find the covariances of functions with each arc, over 2 ** exponents; n^3 for each."""
        own = self.sentences
        values, found = functions.values, np.zeros(functions.values.shape)
        workers = [
            derivatives.Differentiation(own.longest, own.projective) for _ in range(own.workers)
        ]
        failed = derivatives.differentiate_batch(
            own.buffer(), own.single_root, workers, values, found
        )
        if failed[0] != OK:
            own.raise_failure(failed)
        return found

    # Trees of one distribution that are impossible in another

    def _has_trees_beyond(self, other: "Inference") -> NDArray[np.bool_]:
        """Mark the sentences with a possible tree that is impossible in `other`."""
        own, theirs = self.sentences, other.sentences
        possible = own.possible_arcs()
        missing = possible & ~theirs.possible_arcs()
        infinite = np.zeros(len(own), dtype=np.bool_)
        if theirs.single_root and not own.single_root:
            infinite = self._may_have_several_roots(possible)
        marginals = self.marginals()
        for sentence in np.flatnonzero(missing.any(axis=(1, 2)) & ~infinite).tolist():
            arcs, n = missing[sentence], own.lengths[sentence]
            infinite[sentence] = (marginals[sentence][arcs] > _SURELY_POSITIVE).any() or (
                self._some_tree_has(arcs[: n + 1, : n + 1], possible[sentence])
            )
        return infinite

    def _may_have_several_roots(self, possible: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Mark the sentences with a tree of possible arcs that has several roots."""
        # The best tree by the number of its root arcs.
        points = np.zeros(self.sentences.batch.shape)
        points[:, :, 0] = 1.0
        possible_points = self.sentences.changed(
            batch=points, mask=possible.view(np.uint8), single_root=False
        )
        heads = find_best(possible_points)
        several: NDArray[np.bool_] = (heads == 0).sum(axis=1) > 1
        return several

    def _some_tree_has(self, arcs: NDArray[np.bool_], possible: NDArray[np.bool_]) -> bool:
        """Check whether one of a sentence's arcs is in some tree; decodes once per word."""
        sentence = Sentences(
            np.zeros(arcs.shape),
            single_root=self.sentences.single_root,
            projective=self.sentences.projective,
        )
        for dep in np.flatnonzero(arcs.any(axis=1)).tolist():
            only = possible[: len(arcs), : len(arcs)].copy()
            only[dep] = arcs[dep]
            try:
                find_best(sentence.changed(mask=only[None].view(np.uint8)))
            except NoTreeError:
                continue
            return True
        return False

    # Results that are kept

    def _publish(
        self, kept: list[kernel.Summation] | None = None, **found: NDArray[np.float64] | None
    ) -> Results:
        """Add complete results for all threads, unless they are there; returns all results."""
        with self.lock:
            before = self._results
            new = {name: array for name, array in found.items() if getattr(before, name) is None}
            self._results = results = before._replace(**new)
            self._summations = (kept or self._summations) if results.marginals is None else None
        return results

    def _pop_summations(self) -> list[kernel.Summation] | None:
        """Remove and return the elimination that was kept, if any, so no other thread uses it."""
        with self.lock:
            kept, self._summations = self._summations, None
        return kept
