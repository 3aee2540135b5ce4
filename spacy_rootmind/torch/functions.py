"""Log partition, arc marginals, entropy and divergence of torch tensors, with gradients.

The kernel finds values, their gradients, and those of marginals: covariances of the arcs of a tree
with a sum over them. Where these have to be differentiated again, an elimination in torch takes
over.
"""

from __future__ import annotations  # the site has a stand-in for torch, without `|`

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spacy_rootmind.torch.elimination import eliminate
from spacy_rootmind.trees.distribution import TreeDistribution

__all__ = ["arc_marginals", "entropy", "kl_divergence", "log_partition"]

Lengths: TypeAlias = "Tensor | NDArray[np.integer[Any]] | Sequence[int] | int | None"


# --- the functions -----------------------------------------------------------------------------


def log_partition(
    scores: Tensor,
    lengths: Lengths = None,
    *,
    allowed: Tensor | None = None,
    single_root: bool = True,
    num_threads: int = 1,
) -> Tensor:
    """Sum the weights of all trees of each sentence, as a log: log Z.

    Parameters
    ----------
    scores : float32 or float64 tensor of shape (n + 1, n + 1) or (B, N + 1, N + 1)
        Arc scores (log-weights), `scores[dep, head]`, on any device. They are copied to the CPU;
        computation is in float64.
    lengths : int tensor of shape (B,), optional
        Words in each sentence, 0 to N. All sentences have N words by default. For a single
        sentence, an int.
    allowed : bool tensor of the shape of `scores`, optional
        False forbids an arc, whatever its score. Row 0, the diagonal and the padding are ignored.
    single_root : bool
        Whether the trees are those with exactly one word below ROOT, or with at least one.
    num_threads : int
        Threads that share the sentences of a batch, 256 at most. The result does not depend on it.

    Returns
    -------
    log_z : tensor of shape () or (B,)
        Of the dtype and on the device of the scores. Its gradient is `arc_marginals`, which are
        found in the same elimination.

    Raises
    ------
    NoTreeError, ArithmeticError, TypeError, ValueError
        As the function on arrays.

    Notes
    -----
    n^3 multiplications with the gradient, n^3 / 3 without; some 3 n^3 for a gradient of the
    gradient. Higher derivatives take O(n^3) memory per sentence and much longer, by an elimination
    in torch operations.

    Examples
    --------
    >>> import torch
    >>> scores = torch.tensor([[0.0, 0, 0], [3, 0, 1], [3, 2, 0]], requires_grad=True)
    >>> log_z = log_partition(scores)
    >>> log_z.backward()
    >>> scores.grad[1].tolist() == arc_marginals(scores)[1].tolist()
    True
    """
    batch, trees = bind(scores, lengths, allowed, single_root, num_threads)
    return _LogPartition.apply(batch, trees).reshape(scores.shape[:-2])


def arc_marginals(
    scores: Tensor,
    lengths: Lengths = None,
    *,
    allowed: Tensor | None = None,
    single_root: bool = True,
    num_threads: int = 1,
) -> Tensor:
    """Find the probability of each arc: the share of the trees that have it, by weight.

    Parameters
    ----------
    scores, lengths, allowed, single_root, num_threads
        As for `log_partition`.

    Returns
    -------
    marginals : tensor of the shape of `scores`
        `marginals[dep, head]`. 0 where no arc can be: in row 0, on the diagonal, in the padding,
        where forbidden.

    Raises
    ------
    NoTreeError, ArithmeticError, TypeError, ValueError
        As for `log_partition`.

    Notes
    -----
    n^3 multiplications. Gradients cost as much as those of the gradient of
    `log_partition`.

    Examples
    --------
    The gradient of the probability of an arc:

    >>> import torch
    >>> scores = torch.tensor([[0.0, 0, 0], [3, 0, 1], [3, 2, 0]], requires_grad=True)
    >>> arc_marginals(scores)[1, 0].backward()
    >>> round(scores.grad[1, 0].item(), 3), round(scores.grad[1, 2].item(), 3)
    (0.197, -0.197)
    """
    batch, trees = bind(scores, lengths, allowed, single_root, num_threads)
    return _ArcMarginals.apply(batch, trees).reshape(scores.shape)


def entropy(
    scores: Tensor,
    lengths: Lengths = None,
    *,
    allowed: Tensor | None = None,
    single_root: bool = True,
    num_threads: int = 1,
) -> Tensor:
    """Find the entropy of the distribution over the trees of each sentence.

    Parameters
    ----------
    scores, lengths, allowed, single_root, num_threads
        As for `log_partition`.

    Returns
    -------
    entropy : tensor of shape () or (B,)
        In nats; 0 where there is only one tree, log of their number where all are equally good.

    Raises
    ------
    NoTreeError, ArithmeticError, TypeError, ValueError
        As for `log_partition`.

    Notes
    -----
    n^3 multiplications. Gradients cost as much as those of `arc_marginals`.

    Examples
    --------
    >>> import math
    >>> import torch
    >>> math.isclose(entropy(torch.zeros(4, 4, dtype=torch.float64)).item(), math.log(9))
    True
    """
    batch, trees = bind(scores, lengths, allowed, single_root, num_threads)
    return _Entropy.apply(batch, trees).reshape(scores.shape[:-2])


def kl_divergence(
    scores: Tensor,
    others: Tensor,
    lengths: Lengths = None,
    *,
    allowed: Tensor | None = None,
    single_root: bool = True,
    num_threads: int = 1,
) -> Tensor:
    """Find the Kullback-Leibler divergence from one distribution to another.

    Parameters
    ----------
    scores, lengths, allowed, single_root, num_threads
        As for `log_partition`.
    others : tensor of the shape and dtype of `scores`
        The scores of the other distribution, with the same lengths, allowed arcs and kind of trees.
        Where these differ, make a `TreeDistribution` of each.

    Returns
    -------
    kl_divergence : tensor of shape () or (B,)
        In nats, never negative, and exactly 0 for equal scores. inf where a tree that has a score
        here has none in `others`; gradients are then NaN.

    Raises
    ------
    NoTreeError, ArithmeticError, TypeError, ValueError
        As for `log_partition`.

    Notes
    -----
    n^3 multiplications for the one and n^3 / 3 for the other, n^3 if it needs a gradient. The
    gradient with respect to `others` is the difference of the marginals; that with respect to
    `scores` costs as much as those of `arc_marginals`.

    Examples
    --------
    >>> import torch
    >>> even = torch.zeros(3, 3)
    >>> kl_divergence(even, even).item()
    0.0
    """
    batch, trees = bind(scores, lengths, allowed, single_root, num_threads)
    other_batch, other_trees = bind(others, lengths, allowed, single_root, num_threads)
    return divergence(batch, trees, other_batch, other_trees).reshape(scores.shape[:-2])


# --- arguments and results ---------------------------------------------------------------------


def bind(
    scores: Tensor,
    lengths: Lengths,
    allowed: Tensor | None,
    single_root: bool,
    num_threads: int,
) -> tuple[Tensor, TreeDistribution]:
    """Check the arguments; returns the scores as a batch, and its distribution over arrays."""
    if not isinstance(scores, Tensor):
        raise TypeError(f"expected scores as a torch tensor, received {type(scores).__name__}")
    if scores.dtype not in (torch.float32, torch.float64):
        raise TypeError(
            f"expected scores of dtype torch.float32 or torch.float64, received {scores.dtype}; "
            f"convert them with scores.float()"
        )
    if allowed is not None and not isinstance(allowed, Tensor):
        raise TypeError(f"expected allowed as a torch tensor, received {type(allowed).__name__}")
    if isinstance(lengths, Tensor):
        lengths = lengths.detach().cpu().numpy()
    one = scores.ndim == 2
    batch = scores[None] if one else scores
    mask = None if allowed is None else (allowed[None] if one else allowed).detach().cpu().numpy()
    trees = TreeDistribution(
        batch.detach().cpu().numpy(),
        None if lengths is None else np.reshape(lengths, -1) if one else np.asarray(lengths),
        allowed=mask,
        single_root=single_root,
        num_threads=num_threads,
    )
    return batch, trees


def divergence(
    scores: Tensor, trees: TreeDistribution, others: Tensor, other_trees: TreeDistribution
) -> Tensor:
    """Find the Kullback-Leibler divergence of each sentence of two batches."""
    found: Tensor = _Divergence.apply(scores, others, trees, other_trees)
    return found


def log_probs(scores: Tensor, trees: TreeDistribution, heads: Tensor) -> Tensor:
    """Find the log probabilities of k trees of each sentence, (B, k, N + 1), as (B, k)."""
    found: Tensor = _LogProb.apply(scores, trees, heads)
    return found


def _like(scores: Tensor, found: NDArray[np.float64] | np.float64) -> Tensor:
    """Copy a result to where the scores are."""
    return torch.tensor(found, dtype=scores.dtype, device=scores.device)


# --- gradients ---------------------------------------------------------------------------------


class _LogPartition(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, trees: TreeDistribution) -> Tensor:
        ctx.save_for_backward(scores)
        ctx.trees = trees
        if ctx.needs_input_grad[0]:
            # In a batch, these have to come first for one elimination to do for both.
            trees.marginals  # noqa: B018
        return _like(scores, trees.log_partition)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (scores,) = ctx.saved_tensors
        return grad[:, None, None] * _ArcMarginals.apply(scores, ctx.trees), None


class _ArcMarginals(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, trees: TreeDistribution) -> Tensor:
        ctx.save_for_backward(scores)
        ctx.trees = trees
        return _like(scores, trees.marginals)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (scores,) = ctx.saved_tensors
        return _covariance(scores, ctx.trees, grad), None


class _Entropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, trees: TreeDistribution) -> Tensor:
        ctx.save_for_backward(scores)
        ctx.trees = trees
        return _like(scores, trees.entropy)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        # Entropy = log Z - sum of P * scores: what remains is the derivative of P.
        (scores,) = ctx.saved_tensors
        values = scores.to("cpu", torch.float64)
        return -grad[:, None, None] * _covariance(scores, ctx.trees, values), None


class _Divergence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        scores: Tensor,
        others: Tensor,
        trees: TreeDistribution,
        other_trees: TreeDistribution,
    ) -> Tensor:
        ctx.save_for_backward(scores, others)
        ctx.trees, ctx.other_trees = trees, other_trees
        if ctx.needs_input_grad[1]:
            other_trees.marginals  # noqa: B018
        return _like(scores, trees.kl_divergence(other_trees))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        scores, others = ctx.saved_tensors
        by_scores = by_others = None
        if ctx.needs_input_grad[0]:
            values = scores.to("cpu", torch.float64) - others.to("cpu", torch.float64)
            by_scores = grad[:, None, None] * _covariance(scores, ctx.trees, values)
        if ctx.needs_input_grad[1]:
            own = _ArcMarginals.apply(scores, ctx.trees)
            other = _ArcMarginals.apply(others, ctx.other_trees)
            by_others = grad.to(others)[:, None, None] * (other - own.to(other))
        return by_scores, by_others, None, None


class _LogProb(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, trees: TreeDistribution, heads: Tensor) -> Tensor:
        ctx.save_for_backward(scores, heads)
        ctx.trees = trees
        if ctx.needs_input_grad[0]:
            trees.marginals  # noqa: B018
        return _like(scores, trees.log_prob(heads.cpu().numpy()))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        scores, heads = ctx.saved_tensors
        # Of each arc, the sum over the trees that have it.
        by_dep = heads.long().clamp(min=0).transpose(1, 2)
        arcs = torch.zeros_like(scores).scatter_add(
            2, by_dep, grad[:, None, :].expand(by_dep.shape)
        )
        inside = torch.as_tensor(ctx.trees._possible_arcs().any(axis=2), device=scores.device)
        arcs = torch.where(inside[:, :, None], arcs, 0.0)
        marginals = _ArcMarginals.apply(scores, ctx.trees)
        return arcs - grad.sum(dim=1)[:, None, None] * marginals, None, None


def _covariance(scores: Tensor, trees: TreeDistribution, values: Tensor) -> Tensor:
    """Find the covariance of each arc, as 0 or 1, with the sum of the values of a tree's arcs.

    It is the derivative of the marginals in the direction of `values`, and is itself differentiable
    where a graph is being made.
    """
    if scores.shape[1] == 1:
        return torch.zeros_like(scores)
    wide = values.to("cpu", torch.float64)
    if torch.is_grad_enabled():
        return _differentiate(scores.to("cpu", torch.float64), trees, wide).to(scores)
    return torch.from_numpy(_covariance_in_kernel(trees, wide.detach().numpy())).to(scores)


def _covariance_in_kernel(trees: TreeDistribution, values: NDArray[Any]) -> NDArray[np.float64]:
    """Find these covariances, NaN in sentences with a value that is not finite."""
    wrong = ~np.isfinite(values)
    if not wrong.any():
        return trees._arc_covariances(values)
    likely = trees._find_marginals() > 0
    wrong = (wrong & likely).any(axis=(1, 2), keepdims=True)
    found = trees._arc_covariances(np.where(wrong, 0.0, values))
    return np.where(wrong & likely, np.nan, found)


def _differentiate(scores: Tensor, trees: TreeDistribution, values: Tensor) -> Tensor:
    """Find these covariances by an elimination in torch, so that they may be differentiated."""
    possible = torch.from_numpy(trees._possible_arcs())
    total = eliminate(scores, possible, trees._single_root).sum()
    (marginals,) = torch.autograd.grad(total, scores, create_graph=True)
    (found,) = torch.autograd.grad(marginals, scores, _centred(values, trees), create_graph=True)
    return found


def _centred(values: Tensor, trees: TreeDistribution) -> Tensor:
    """Subtract from values of arcs a constant per word, and drop those of impossible arcs.

    The constants add up to the same in all trees, so they change no covariance but its rounding.
    """
    likely = torch.from_numpy(trees._find_marginals() > 0)
    highest = torch.where(likely, values.detach(), -torch.inf).amax(dim=2, keepdim=True)
    highest = torch.where(likely.any(dim=2, keepdim=True), highest, 0.0)
    return torch.where(likely, values - highest, 0.0)
