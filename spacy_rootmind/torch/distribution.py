"""The distribution over trees of torch tensors, and its queries as functions."""

from __future__ import annotations  # the site has a stand-in for torch, without `|`

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function

from spacy_rootmind.torch import queries
from spacy_rootmind.torch.arguments import (
    Lengths,
    as_array,
    as_batch,
    check_heads,
    check_rounding,
)
from spacy_rootmind.trees import distribution
from spacy_rootmind.trees.conventions import TreeList, as_count, count_trees
from spacy_rootmind.trees.probabilities import with_arguments_of

__all__ = ["TreeDistribution", "arc_marginals", "entropy", "kl_divergence", "log_partition"]


class TreeDistribution:
    """The distribution over the trees of each sentence, proportional to exp(score).

    `spacy_rootmind.TreeDistribution` for tensors: the same queries, with the same names and axes.

    Parameters
    ----------
    scores : float tensor of shape (n + 1, n + 1) or (B, N + 1, N + 1)
        Arc scores (log-weights), `scores[dep, head]`, on any device: float64, float32, bfloat16 or
        float16. Do not change them while this object is in use. A batch may have any number of
        axes, instead of the one that is called B here.
    lengths : int tensor of shape (B,), optional
        Words in each sentence, 0 to N. All sentences have N words by default. For a single
        sentence, an int.
    mask : bool tensor of shape (B, N + 1), optional
        In place of lengths: True for the words, which follow index 0. Index 0 is ignored.
    allowed : bool tensor of the shape of `scores`, optional
        False forbids an arc, whatever its score. Row 0, the diagonal and the padding are ignored.
    single_root, projective, num_threads
        As for `spacy_rootmind.decode`.

    Raises
    ------
    TypeError, ValueError
        If the input is not as described.

    Notes
    -----
    The first query checks the values of scores, and raises as the class over arrays. Results have
    the dtype and the device of the scores: ArithmeticError also if a number is beyond that dtype.

    All but `mode` and the heads of `sample` and `k_best` have gradients, which are found in the
    same elimination: n^3 multiplications for a log partition with its gradient, n^3 / 3 without;
    some 3 n^3 for gradients of marginals, entropy and divergences, and for each direction of a
    Hessian of `log_partition`. There are no derivatives beyond these: NotImplementedError.

    `torch.autograd` differentiates these queries, its `functional.hessian` too; `torch.func`, which
    maps and nests functions, does not. `torch.compile` leaves the queries out of its graph.

    Examples
    --------
    >>> import torch
    >>> scores = torch.tensor([[0.0, 0, 0], [3, 0, 1], [3, 2, 0]])
    >>> trees = TreeDistribution(scores)
    >>> trees.mode.tolist()
    [-1, 0, 1]
    >>> round(trees.log_prob(trees.mode).exp().item(), 3)
    0.731
    >>> heads, log_probs = trees.sample(5)
    >>> heads.shape
    torch.Size([5, 3])
    """

    def __init__(
        self,
        scores: Tensor,
        *,
        lengths: Lengths = None,
        mask: Tensor | None = None,
        allowed: Tensor | None = None,
        single_root: bool = True,
        projective: bool = False,
        num_threads: int = 1,
    ):
        # As the classes of `queries` take them.
        self._batch, options = as_batch(scores, lengths, mask, allowed)
        self._given = scores
        self._shape = scores.shape[:-2]
        self._trees = distribution.TreeDistribution(
            as_array(self._batch),
            **options,
            single_root=single_root,
            projective=projective,
            num_threads=num_threads,
        )

    @property
    def scores(self) -> Tensor:
        """The scores, as they were given."""
        return self._given

    @property
    def lengths(self) -> Tensor:
        """Words in each sentence: int64 tensor of shape (B,), or () for a single sentence."""
        lengths = torch.from_numpy(self._trees.lengths)
        return lengths.reshape(self._shape).to(self._given.device)

    @property
    def single_root(self) -> bool:
        """Whether the trees have exactly one word below ROOT, or at least one."""
        return self._trees.single_root

    @property
    def projective(self) -> bool:
        """Whether the trees are only those without crossing arcs."""
        return self._trees.projective

    # Queries

    @property
    def log_partition(self) -> Tensor:
        """Log of the summed weights of all trees, log Z, in nats, of shape () or (B,).

        Its gradient is `marginals`.

        Examples
        --------
        >>> import torch
        >>> scores = torch.tensor([[0.0, 0, 0], [3, 0, 1], [3, 2, 0]], requires_grad=True)
        >>> trees = TreeDistribution(scores)
        >>> trees.log_partition.backward()
        >>> scores.grad[1].tolist() == trees.marginals[1].tolist()
        True
        """
        return self._find(queries.LogPartition)

    @property
    def marginals(self) -> Tensor:
        """Probability of each arc, `marginals[dep, head]`, of the shape of the scores.

        Examples
        --------
        The gradient of the probability of an arc:

        >>> import torch
        >>> scores = torch.tensor([[0.0, 0, 0], [3, 0, 1], [3, 2, 0]], requires_grad=True)
        >>> TreeDistribution(scores).marginals[1, 0].backward()
        >>> round(scores.grad[1, 0].item(), 3), round(scores.grad[1, 2].item(), 3)
        (0.197, -0.197)
        """
        return self._find(queries.Marginals)

    @property
    def mode(self) -> Tensor:
        """The most probable tree of each sentence, int64 of shape (n + 1,) or (B, N + 1)."""
        heads = torch.from_numpy(self._trees.mode).reshape(self._given.shape[:-1])
        return heads.to(self._given.device, torch.int64)

    def entropy(self) -> Tensor:
        """Find the entropy of the distribution, in nats, of shape () or (B,)."""
        return self._find(queries.Entropy)

    def log_prob(self, heads: Tensor) -> Tensor:
        """Find the log probability of given trees, -inf where heads form none or are all -1.

        Parameters
        ----------
        heads : int tensor of shape (n + 1,) or (B, N + 1)
            A head for each word. Index 0 and the padding are ignored. For k trees of each sentence,
            of shape (k, n + 1) or (B, k, N + 1).

        Returns
        -------
        log_prob : tensor of shape (), (B,), (k,) or (B, k)

        Raises
        ------
        TypeError, ValueError
            If heads are not as described, or some of a row are outside of their sentence.
        """
        check_heads(heads, tuple(self._given.shape[:-1]), several=True)
        k = 1 if heads.ndim == self._given.ndim - 1 else heads.shape[-2]
        rows = heads.detach().cpu().reshape(len(self._batch), k, heads.shape[-1])
        return self._find(queries.LogProbs, rows).reshape(heads.shape[:-1])

    def log_prob_of_arcs(self, heads: Tensor) -> Tensor:
        """Find the log probability that a tree has given arcs, all of them; -inf where none has.

        Parameters, results and errors are as for `log_prob`, with -1 for the words whose head may
        be any. The gradient is the difference of the marginals with and without this condition.
        """
        check_heads(heads, tuple(self._given.shape[:-1]), several=True)
        k = 1 if heads.ndim == self._given.ndim - 1 else heads.shape[-2]
        rows = heads.detach().cpu().reshape(len(self._batch), k, heads.shape[-1])
        exists = torch.from_numpy(self._trees.log_prob_of_arcs(as_array(rows)) > -np.inf)
        # An impossible condition is left out, and has no gradient.
        kept = torch.where(exists[..., None], rows, -1)[..., None]
        allowed = (kept == -1) | (kept == torch.arange(heads.shape[-1]))
        mask = self._trees.sentences.allowed
        of_all = None if mask is None else torch.from_numpy(mask)
        if of_all is not None:
            allowed &= of_all[:, None]
        # The differences of float32 numbers would lose digits.
        scores = self._batch.double()[:, None].expand(allowed.shape)
        lengths = torch.from_numpy(self._trees.lengths)
        kind: Any = {"single_root": self.single_root, "projective": self.projective}
        every = TreeDistribution(self._batch.double(), lengths=lengths, allowed=of_all, **kind)
        restricted = TreeDistribution(
            scores.flatten(0, 1),
            lengths=lengths.repeat_interleave(k),
            allowed=allowed.flatten(0, 1),
            **kind,
        )
        found = restricted.log_partition.reshape(-1, k) - every.log_partition[:, None]
        found = torch.where(exists, found, -torch.inf).reshape(heads.shape[:-1])
        return found.to(self._given.device, self._given.dtype)

    def sample(
        self, k: int, *, replace: bool = True, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Draw k trees of each sentence exactly, with their log probabilities.

        Parameters
        ----------
        k : int
            Number of trees, at least 1.
        replace : bool
            Whether a tree may be drawn again.
        generator : torch.Generator, optional
            Where the seed is drawn from; torch's default generator without one.

        Returns
        -------
        heads : int64 tensor of shape (k', n + 1) or (B, k, N + 1)
            -1 in rows behind a sentence's last tree.
        log_probs : tensor of shape (k',) or (B, k)
            With gradients; -inf in rows without a tree.
        """
        if generator is not None and not isinstance(generator, torch.Generator):
            raise TypeError(
                f"expected generator as a torch.Generator, received {type(generator).__name__}"
            )
        device = "cpu" if generator is None else generator.device
        seed = int(torch.randint(2**63 - 1, (), generator=generator, device=device))
        return self._with_log_probs(self._trees.sample(k, replace=replace, seed=seed))

    def k_best(self, k: int) -> tuple[Tensor, Tensor]:
        """Find the k most probable trees of each sentence, best first; returns as `sample`."""
        if not self._shape:
            k = min(as_count("k", k), count_trees(int(self._trees.lengths[0]), self.single_root))
        return self._with_log_probs(self._trees.k_best(k))

    def kl_divergence(self, other: TreeDistribution) -> Tensor:
        """Find the Kullback-Leibler divergence to `other`, in nats.

        Never negative, and exactly 0 for equal scores. inf where a tree that is possible here is
        impossible in `other`; gradients are then NaN. The gradient with respect to the scores of
        `other` is the difference of the marginals.

        Parameters
        ----------
        other : TreeDistribution
            Over the same sentences.
        """
        if not isinstance(other, TreeDistribution):
            raise TypeError(f"expected a TreeDistribution, received {type(other).__name__}")
        given, received = self._given.shape, other._given.shape
        if given != received:
            raise ValueError(
                f"expected two distributions with scores of one shape, received {tuple(given)} and "
                f"{tuple(received)}"
            )
        return self._find(queries.Divergence, other._batch, other._trees)

    def __repr__(self) -> str:
        kind = f"single_root={self.single_root}" + ", projective=True" * self.projective
        return f"TreeDistribution(scores of shape {tuple(self._given.shape)}, {kind})"

    def _find(self, query: type[Function], *further: Any) -> Tensor:
        """Answer a query, with the axes, the dtype and the device of the given scores."""
        found = query.apply(self._batch, self._trees, *further)
        check_rounding(as_array(found), self._given.dtype)
        shaped = found.reshape(self._shape + found.shape[1:])
        return shaped.to(self._given.device, self._given.dtype, copy=True)

    def _with_log_probs(self, found: TreeList) -> tuple[Tensor, Tensor]:
        """Convert the k trees of each sentence, with log probabilities that have gradients."""
        exists = found.scores > -np.inf
        if not self._shape:
            exists = exists[:, : int(exists.sum())]
        k = exists.shape[1]
        shape, device = (*self._shape, k, self._given.shape[-1]), self._given.device
        heads = torch.tensor(found.heads[:, :k], dtype=torch.int64, device=device).reshape(shape)
        there = torch.tensor(exists, device=device).reshape(shape[:-1])
        # Every sentence has a first tree.
        log_probs = self.log_prob(torch.where(there[..., None], heads, heads[..., :1, :]))
        return heads, torch.where(there, log_probs, -torch.inf)


@with_arguments_of(TreeDistribution)
def log_partition(trees: TreeDistribution) -> Tensor:
    """Sum the weights of all trees of each sentence, as a log: log Z, of shape () or (B,).

    Its gradient is `arc_marginals`. Arguments, errors and cost are as for `TreeDistribution`.

    Examples
    --------
    >>> import torch
    >>> scores = torch.tensor([[0.0, 0, 0], [3, 0, 1], [3, 2, 0]], requires_grad=True)
    >>> log_z = log_partition(scores)
    >>> log_z.backward()
    >>> scores.grad[1].tolist() == arc_marginals(scores)[1].tolist()
    True
    """
    return trees.log_partition


@with_arguments_of(TreeDistribution)
def arc_marginals(trees: TreeDistribution) -> Tensor:
    """Find the probability of each arc, `marginals[dep, head]`, of the shape of the scores.

    They have gradients. Arguments, errors and cost are as for `TreeDistribution`.
    """
    return trees.marginals


@with_arguments_of(TreeDistribution)
def entropy(trees: TreeDistribution) -> Tensor:
    """Find the entropy of the distribution over the trees of each sentence, of shape () or (B,).

    In nats. Arguments, errors and cost are as for `TreeDistribution`.
    """
    return trees.entropy()


def kl_divergence(scores: Tensor, others: Tensor, **options: Any) -> Tensor:
    """Find the Kullback-Leibler divergence from one distribution to another, of shape () or (B,).

    As `TreeDistribution.kl_divergence`, with the same lengths, allowed arcs and kind of trees.

    Parameters
    ----------
    scores, others : float tensor
        The scores of either distribution, of the same shape.
    options
        The keywords of `TreeDistribution`.

    Examples
    --------
    >>> import torch
    >>> even = torch.zeros(3, 3)
    >>> kl_divergence(even, even).item()
    0.0
    """
    return TreeDistribution(scores, **options).kl_divergence(TreeDistribution(others, **options))
