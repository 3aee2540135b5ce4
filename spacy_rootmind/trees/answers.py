"""What has been found for the sentences of a distribution, under one lock."""

import threading
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.kernel import query_batch as kernel
from spacy_rootmind.kernel.batch import BAD_SCORE, OK
from spacy_rootmind.trees import expectations
from spacy_rootmind.trees.engines import AllTrees, ProjectiveTrees
from spacy_rootmind.trees.errors import LOST_DIGITS
from spacy_rootmind.trees.sentences import Sentences


class Results(NamedTuple):
    """What has been found for a batch; None for what has not. No array is ever changed.

    Attributes
    ----------
    summaries : float64 array of shape (B, CONSTANTS + N + 1)
        As the kernel fills them, but for the entropy, which is not always there.
    marginals : float64 array of shape (B, N + 1, N + 1)
    entropy, single_root_log_prob : float64 array of shape (B,)
    """

    summaries: NDArray[np.float64] | None = None
    marginals: NDArray[np.float64] | None = None
    entropy: NDArray[np.float64] | None = None
    single_root_log_prob: NDArray[np.float64] | None = None


class Answers:
    """Answers to all questions about the trees of some sentences; each result is found once.

    Arrays have an axis of sentences, and those that are kept must not be changed.

    Attributes
    ----------
    sentences : Sentences
    engine : AllTrees
    lock : RLock
        Of what is kept. Held only while that is read and replaced: nothing is computed and no
        other lock is taken then. Reentrant, since a signal's handler may ask for something
        meanwhile.
    """

    __slots__ = ("_results", "_summations", "engine", "lock", "sentences")

    def __init__(self, sentences: Sentences):
        self.sentences = sentences
        self.engine = (ProjectiveTrees if sentences.projective else AllTrees)(sentences)
        self.lock = threading.RLock()
        self._results = Results()
        # The elimination of a single sentence, for its marginals to go on from.
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
        """Find the marginals of the batch: those that are kept, though writable."""
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
                high, low = self.cross_entropies(self)
                results = self._publish(entropy=np.maximum(high + low, 0.0))
        return cast("NDArray[np.float64]", results.entropy)

    def single_root_log_probs(self) -> NDArray[np.float64]:
        """Find the log probability of a single root in each sentence, among all trees."""
        results = self._results
        if results.single_root_log_prob is None:
            found = np.empty(len(self.sentences))
            every = self._summaries_of(False)
            single = self._summaries_of(True, allow_no_tree=True)
            kernel.log_ratio_batch(self.sentences.lengths, single, every, found)
            results = self._publish(single_root_log_prob=found)
        return cast("NDArray[np.float64]", results.single_root_log_prob)

    def log_probs(self, heads: NDArray[np.int64], words: NDArray[np.intp]) -> NDArray[np.float64]:
        """Find log probabilities of trees, a row each, k for each sentence: (B, k)."""
        marked = self.engine.marked(heads, words)
        return self.engine.log_probs(self.summaries(), marked)

    def log_ratios(self, whole: "Answers") -> NDArray[np.float64]:
        """Find log(Z here / Z of `whole`) of the same scores, whose trees are some of the latter.

        -inf where float64 does not hold it.
        """
        found = np.empty(len(self.sentences))
        own, every = self.summaries(), whole.summaries()
        kernel.log_ratio_batch(self.sentences.lengths, own, every, found)
        return found

    def cross_entropies(self, other: "Answers") -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Find the cross entropy, as the sum of two numbers, over arcs that `other` allows."""
        summaries = other.summaries()
        return other.engine.cross_entropies(summaries, self.marginals(), self.engine.queries())

    def divergences(self, other: "Answers", *, from_own: bool) -> NDArray[np.float64]:
        """Find cross entropies, or with `from_own` what they are beyond the entropies."""
        self.sentences.check_same(other.sentences)
        infinite = other.engine.lacks_trees_of(self.engine, self.marginals)
        high, low = self.cross_entropies(other)
        if from_own:
            own_high, own_low = self.cross_entropies(self)
            high, low = high - own_high, low - own_low
        found = high + low
        lost = np.isinf(found) & ~infinite
        if lost.any():
            raise ArithmeticError(f"sentence {int(np.argmax(lost))}: {LOST_DIGITS}")
        return np.where(infinite, np.inf, np.maximum(found, 0.0))

    def means(self, values: NDArray[Any]) -> tuple[NDArray[np.float64], bool]:
        """Find the expectations of sums, of shape (B, d); tell whether d is an axis of results."""
        batch, several = self._as_values(values)
        found = np.empty(batch.shape[:2])
        marginals = self.marginals()
        for i in range(batch.shape[1]):
            means = np.empty(len(batch))
            failed = kernel.expectation_batch(
                *(batch[:, i], self.sentences.lengths, self.engine.queries(), marginals, means)
            )
            if failed[0] == BAD_SCORE:
                expectations.check_finite(batch[failed[1], i], marginals[failed[1]], failed[1])
            if failed[0] != OK:
                raise ArithmeticError(f"sentence {failed[1]}: the sum of its values overflows")
            found[:, i] = means
        return found, several

    def covariances(self, values: NDArray[Any], other: NDArray[Any] | None) -> NDArray[np.float64]:
        """Find the covariances of sums, of shape (B, d, e), without axes that are not there."""
        first = self._normalize(values)
        second = first if other is None else self._normalize(other)
        derivatives = self.engine.differentiate(first)
        return expectations.covariances(first, derivatives, second, self.sentences.lengths)

    def arc_covariances(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Find the covariances of sums with each arc of the batch, infinite where they overflow."""
        functions = self._normalize(values)
        return expectations.rescale(functions, self.engine.differentiate(functions))

    def _as_values(self, values: NDArray[Any]) -> tuple[NDArray[Any], bool]:
        """View the values of arcs as (B, d, N + 1, N + 1); tell whether d is an axis of results."""
        shape = self.sentences.scores.shape
        batch = expectations.as_values(values, shape)
        return batch, values.ndim > len(shape)

    def _normalize(self, values: NDArray[Any]) -> expectations.Functions:
        batch, several = self._as_values(values)
        own = self.sentences
        return expectations.normalize(
            *(batch, self.marginals(), own.lengths, own.single_root, several)
        )

    # What is kept

    def _eliminate(self, *, backwards: bool, with_entropy: bool = False) -> Results:
        """Sum over all trees, and go back through the elimination for marginals and entropy."""
        own = self.sentences
        marginals = np.empty(own.batch.shape) if backwards else None
        kept = self._take_summations() if backwards else None
        summations = kept or self.engine.summations()
        summaries = self.engine.summarise(
            *(own.single_root, summations),
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
        summations = self.engine.summations()
        return self.engine.summarise(single_root, summations, allow_no_tree=allow_no_tree)

    def _publish(
        self, kept: list[kernel.Summation] | None = None, **found: NDArray[np.float64] | None
    ) -> Results:
        """Add complete results to those of all threads, unless they are there; returns all."""
        with self.lock:
            before = self._results
            new = {name: array for name, array in found.items() if getattr(before, name) is None}
            self._results = results = before._replace(**new)
            self._summations = (kept or self._summations) if results.marginals is None else None
        return results

    def _take_summations(self) -> list[kernel.Summation] | None:
        """Take out the elimination that was kept, if there is one, so that no other thread does."""
        with self.lock:
            kept, self._summations = self._summations, None
        return kept
