"""The distribution over trees of torch tensors, and the loss of gold heads."""

from __future__ import annotations  # the site has a stand-in for torch, without `|`

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from spacy_rootmind.torch import queries
from spacy_rootmind.torch.queries import Lengths, Query, as_array, as_lengths, to_cpu
from spacy_rootmind.trees import distribution, losses
from spacy_rootmind.trees.conventions import TreeList

__all__ = ["TreeDistribution", "tree_crf"]


class TreeDistribution:
    """The distribution over the trees of each sentence, proportional to exp(score).

    `spacy_rootmind.TreeDistribution` for tensors: the same arguments, queries, axes and errors;
    other arrays raise AttributeError.

    Parameters
    ----------
    scores : float tensor of shape (n + 1, n + 1) or (B, N + 1, N + 1)
        Arc scores (log-weights), `scores[dep, head]`, on any device: float64, float32, bfloat16 or
        float16. Do not change them while this object is in use.
    lengths : int tensor, array or list of shape (B,), or int, optional
        Words in each sentence; for a single sentence, an int.
    single_root, projective, num_threads
        As for `spacy_rootmind.decode`.

    Notes
    -----
    Results have the dtype and the device of the scores, and are infinite beyond that dtype.

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
        single_root: bool = True,
        projective: bool = False,
        num_threads: int = 1,
    ):
        given = to_cpu(scores)
        self.scores = scores
        self._trees = distribution.TreeDistribution(
            as_array(given),
            lengths=as_lengths(lengths),
            single_root=single_root,
            projective=projective,
            num_threads=num_threads,
        )
        own = self._trees.sentences
        self.single_root, self.projective = own.single_root, own.projective
        # As `queries` take them: always with an axis of sentences.
        self._batch = given if given.ndim == 3 else given[None]

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
        return self._find(queries.log_partitions)

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
        return self._find(queries.marginals)

    @property
    def mode(self) -> Tensor:
        """The most probable tree of each sentence, int64 of shape (n + 1,) or (B, N + 1)."""
        return torch.from_numpy(self._trees.mode).to(self.scores.device, torch.int64)

    def entropy(self) -> Tensor:
        """Find the entropy of the distribution, in nats, of shape () or (B,)."""
        return self._find(queries.entropies)

    def log_prob(self, heads: Tensor) -> Tensor:
        """Find the log probability of given trees, -inf where heads form none or are all -1.

        For heads of shape (n + 1,) or (B, N + 1), or (k, n + 1) or (B, k, N + 1) for k trees of
        each sentence; of shape (), (B,), (k,) or (B, k).
        """
        self._prepare_gradient()
        found = np.asarray(self._trees.log_prob(as_array(heads)))
        rows = self._rows(heads)
        log_probs = self._find(queries.log_probs, rows, found.reshape(rows.shape[:2]))
        return log_probs.reshape(heads.shape[:-1])

    def sample(
        self, k: int, *, replace: bool = True, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Draw k trees of each sentence exactly, with their log probabilities.

        Parameters
        ----------
        k, replace
            As for `spacy_rootmind.sample_trees`.
        generator : torch.Generator, optional
            Where the seed is drawn from; torch's default generator without one.

        Returns
        -------
        heads : int64 tensor of shape (k', n + 1) or (B, k, N + 1)
        log_probs : tensor of shape (k',) or (B, k)
            With gradients; -inf in rows without a tree.
        """
        device = "cpu" if generator is None else generator.device
        seed = int(torch.randint(2**63 - 1, (), generator=generator, device=device))
        return self._with_log_probs(self._trees.sample(k, replace=replace, seed=seed))

    def k_best(self, k: int) -> tuple[Tensor, Tensor]:
        """Find the k most probable trees of each sentence, best first; returns as `sample`."""
        return self._with_log_probs(self._trees.k_best(k))

    def kl_divergence(self, other: TreeDistribution) -> Tensor:
        """Find the Kullback-Leibler divergence to `other`, in nats, of shape () or (B,).

        As over arrays. The gradient with respect to the scores of `other` is the difference of the
        marginals; where the divergence is infinite, gradients are NaN.
        """
        if not isinstance(other, TreeDistribution):
            raise TypeError(f"expected a TreeDistribution, received {type(other).__name__}")
        return self._find(queries.divergences, other._batch, other._trees.inference)

    def __repr__(self) -> str:
        kind = f"single_root={self.single_root}" + ", projective=True" * self.projective
        return f"TreeDistribution(scores of shape {tuple(self.scores.shape)}, {kind})"

    def _find(self, query: Callable[..., Tensor], *further: Any) -> Tensor:
        """Answer a query, with the axes, the dtype and the device of the given scores."""
        self._prepare_gradient()
        found = query(self._batch, self._trees.inference, *further)
        shaped = found.reshape(self.scores.shape[:-2] + found.shape[1:])
        return shaped.to(self.scores.device, self.scores.dtype, copy=True)

    def _rows(self, heads: Tensor) -> Tensor:
        """View heads as k trees of each sentence, (B, k, N + 1)."""
        k = heads.shape[-2] if heads.ndim == self.scores.ndim else 1
        return heads.detach().cpu().reshape(len(self._batch), k, heads.shape[-1])

    def _prepare_gradient(self) -> None:
        """Find marginals first if a gradient may follow: they give the log partition as well."""
        if self._batch.requires_grad and torch.is_grad_enabled():
            self._trees.inference.marginals()

    def _with_log_probs(self, found: TreeList) -> tuple[Tensor, Tensor]:
        """Convert the k trees of each sentence, with log probabilities that have gradients."""
        heads = torch.from_numpy(found.heads).to(self.scores.device, torch.int64)
        exists = torch.from_numpy(found.scores > -np.inf).to(self.scores.device)
        return heads, torch.where(exists, self.log_prob(heads), -torch.inf)


def tree_crf(
    scores: Tensor,
    heads: Tensor,
    *,
    lengths: Lengths = None,
    single_root: bool = True,
    projective: bool = False,
    num_threads: int = 1,
) -> Tensor:
    """Find the negative log probability of gold trees.

    `spacy_rootmind.tree_crf` for tensors, with the same arguments: of shape () or (B,), in nats,
    never negative. If some heads of a sentence are missing (-1), it is the one of all trees that
    agree with the others.

    Notes
    -----
    Loss and gradient are found together, n^3 multiplications per sentence, about twice that where
    heads are missing. For second derivatives, use `TreeDistribution.log_prob`.

    Examples
    --------
    >>> import torch
    >>> scores = torch.tensor([[0.0, 0, 0], [3, 0, 1], [3, 2, 0]], requires_grad=True)
    >>> loss = tree_crf(scores, torch.tensor([-1, 0, 1]))
    >>> loss.backward()
    >>> round(loss.item(), 3), round(scores.grad[1, 0].item(), 3)
    (0.313, -0.269)
    """
    given = to_cpu(scores)
    loss, gradient = losses.tree_crf(
        as_array(given),
        as_array(heads),
        lengths=as_lengths(lengths),
        single_root=single_root,
        projective=projective,
        num_threads=num_threads,
    )

    def differentiate(grad: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            raise NotImplementedError(
                "expected one derivative of a loss, received create_graph=True, for a second one; "
                "use TreeDistribution.log_prob, which has both"
            )
        return grad[..., None, None] * torch.from_numpy(gradient)

    found: Tensor = Query.apply(given, np.asarray(loss), differentiate, False)
    return found.to(scores)
