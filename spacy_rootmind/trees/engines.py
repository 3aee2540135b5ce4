"""What the kernel finds for sentences: an engine over all trees, and one over projective trees.

Nothing is kept here: see `answers`. All arrays have an axis of sentences.
"""

from collections.abc import Callable
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.kernel import query_batch as kernel
from spacy_rootmind.kernel.batch import OK
from spacy_rootmind.trees import expectations
from spacy_rootmind.trees.checks import form_trees
from spacy_rootmind.trees.conventions import MISSING
from spacy_rootmind.trees.decoding import decode
from spacy_rootmind.trees.errors import NoTreeError
from spacy_rootmind.trees.sentences import Sentences

# Marginals above this are no rounding errors of 0.
_SURELY_POSITIVE = 1e-6


class AllTrees:
    """Sums over all trees by elimination.

    Attributes
    ----------
    sentences : Sentences
    """

    __slots__ = ("sentences",)

    projective: ClassVar[bool] = False

    def __init__(self, sentences: Sentences):
        self.sentences = sentences

    def summations(self) -> list[kernel.Summation]:
        """Allocate memory for sums, once per thread."""
        own = self.sentences
        return [kernel.Summation(own.longest, self.projective) for _ in range(own.workers)]

    def queries(self) -> list[kernel.Query]:
        """Allocate memory for queries, once per thread."""
        return [kernel.Query(self.sentences.longest) for _ in range(self.sentences.workers)]

    def summarise(
        self,
        single_root: bool,
        summations: list[kernel.Summation],
        *,
        marginals: NDArray[np.float64] | None = None,
        with_entropy: bool = False,
        resume: bool = False,
        allow_no_tree: bool = False,
    ) -> NDArray[np.float64]:
        """Sum over the trees of either kind, and fill marginals, if they are given.

        Returns summaries of shape (B, CONSTANTS + N + 1). If allowed, log Z is -inf where there
        are no trees.
        """
        own = self.sentences
        summaries = np.empty((len(own), kernel.CONSTANTS + own.batch.shape[1]))
        failed = kernel.sum_batch(
            *(own.batch, own.mask, own.lengths, single_root, summations, summaries, marginals),
            *(with_entropy, resume, allow_no_tree),
        )
        if failed[0] != OK:
            own.raise_failure(failed, single_root)
        return summaries

    def log_probs(
        self, summaries: NDArray[np.float64], heads: NDArray[np.int32]
    ) -> NDArray[np.float64]:
        """Find log probabilities of the same number of marked trees for each sentence, (B, k)."""
        own = self.sentences
        trees = heads.reshape(len(own), -1 if len(own) else 0, heads.shape[1])
        found = np.empty(trees.shape[:2])
        failed = kernel.log_prob_batch(
            *(own.batch, own.mask, own.lengths, own.single_root, self.queries()),
            *(summaries, trees, found),
        )
        if failed[0] != OK:
            own.raise_failure(failed, own.single_root)
        return found

    def cross_entropies(
        self,
        summaries: NDArray[np.float64],
        marginals: NDArray[np.float64],
        queries: list[kernel.Query],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Find the cross entropy of the marginals of `queries`, as the sum of two numbers.

        Over arcs that are allowed here. The first is inf where float64 does not hold it.
        """
        own = self.sentences
        totals = np.empty((len(own), 2))
        kernel.cross_entropy_batch(
            *(own.batch, own.mask, own.lengths, own.single_root, queries),
            *(summaries, marginals, totals),
        )
        return totals[:, 0], totals[:, 1]

    def differentiate(self, functions: expectations.Functions) -> NDArray[np.float64]:
        """Find the covariances of functions with each arc, still scaled."""
        own = self.sentences
        found, failed = expectations.differentiate(
            *(functions, own.batch, own.mask, own.lengths),
            *(own.single_root, self.projective, own.num_threads),
        )
        if failed[0] != OK:
            own.raise_failure(failed, own.single_root)
        return found

    def marked(self, heads: NDArray[np.int64], words: NDArray[np.intp]) -> NDArray[np.int32]:
        """Set index 0 to -1 where heads form a tree of the wanted kind, to 0 elsewhere."""
        wanted = form_trees(heads, words, self.sentences.single_root, self.projective)
        heads[:, 0] = np.where(wanted, MISSING, 0)
        return heads.astype(np.int32, order="C")

    def lacks_trees_of(
        self, other: "AllTrees", find_marginals: Callable[[], NDArray[np.float64]]
    ) -> NDArray[np.bool_]:
        """Tell for which sentences some tree of another engine is not one of this one."""
        own, given = self.sentences, other.sentences
        if self.projective and not other.projective:
            raise ValueError(
                "expected a distribution over all trees to compare with, since this one is over "
                "all trees; received one with projective=True: make it with projective=False"
            )
        marginals = find_marginals()
        possible = given.possible_arcs()
        missing = possible & ~own.possible_arcs()
        infinite = np.zeros(len(own), dtype=np.bool_)
        if own.single_root and not given.single_root:
            infinite = other.may_have_several_roots(possible)
        for sentence in np.flatnonzero(missing.any(axis=(1, 2)) & ~infinite).tolist():
            arcs, n = missing[sentence], own.lengths[sentence]
            infinite[sentence] = (marginals[sentence][arcs] > _SURELY_POSITIVE).any() or (
                other.some_tree_has(arcs[: n + 1, : n + 1], possible[sentence])
            )
        return infinite

    def may_have_several_roots(self, possible: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Tell which sentences have a tree of possible arcs with several roots."""
        # The best tree by the number of its root arcs.
        points = np.zeros(self.sentences.batch.shape)
        points[:, :, 0] = 1.0
        heads = decode(
            points,
            lengths=self.sentences.lengths,
            allowed=possible,
            single_root=False,
            projective=self.projective,
        )
        several: NDArray[np.bool_] = (heads == 0).sum(axis=1) > 1
        return several

    def some_tree_has(self, arcs: NDArray[np.bool_], possible: NDArray[np.bool_]) -> bool:
        """Tell whether one of a sentence's arcs is in some tree; decodes once per word."""
        for dep in np.flatnonzero(arcs.any(axis=1)).tolist():
            only = possible[: len(arcs), : len(arcs)].copy()
            only[dep] = arcs[dep]
            try:
                decode(
                    np.zeros(arcs.shape),
                    allowed=only,
                    single_root=self.sentences.single_root,
                    projective=self.projective,
                )
            except NoTreeError:
                continue
            return True
        return False


class ProjectiveTrees(AllTrees):
    """The same over projective trees, by the inside-outside algorithm."""

    __slots__ = ()

    projective = True
