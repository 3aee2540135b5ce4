"""The kernel's results as functions that torch can differentiate.

With L the log partition, its gradient is M, the arc marginals. The derivative of M in the direction
of some values of arcs is their covariance with each arc, C, which the kernel finds as well. C
has no derivatives here.

Each takes the scores of a batch on the CPU, of shape (B, N + 1, N + 1), and inference over arrays
of the same numbers, which keeps its results: one elimination does for a value and its gradient.
Results are float64, and are rounded to the dtype of the scores at the end.
"""

from __future__ import annotations  # the site has a stand-in for torch, without `|`

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd import Function

from spacy_rootmind.trees.conventions import mark_words
from spacy_rootmind.trees.inference import Inference

Lengths: TypeAlias = "Tensor | NDArray[np.integer[Any]] | Sequence[int] | int | None"


def to_cpu(scores: Tensor) -> Tensor:
    """Copy scores to the CPU if necessary, half precision as float32."""
    is_half = scores.dtype in (torch.float16, torch.bfloat16)
    return scores.to("cpu", torch.float32 if is_half else scores.dtype)


def as_array(given: Tensor) -> NDArray[Any]:
    """View a tensor as an array; one on another device is copied."""
    return given.detach().cpu().numpy()


def as_lengths(lengths: Lengths) -> Any:
    """View lengths as an array if they are a tensor."""
    return as_array(lengths) if isinstance(lengths, Tensor) else lengths


def log_partitions(scores: Tensor, trees: Inference) -> Tensor:
    """Find the log partition of each sentence, (B,)."""

    def differentiate(scores: Tensor, grad: Tensor) -> Tensor:
        return grad[:, None, None] * marginals(scores, trees)

    return Query.apply(scores, trees.log_partitions(), differentiate)


def marginals(scores: Tensor, trees: Inference) -> Tensor:
    """Find the probability of each arc, (B, N + 1, N + 1).

    This is the array that is kept, and copied before a user receives it.
    """

    def differentiate(scores: Tensor, grad: Tensor) -> Tensor:
        return _Covariances.apply(scores, trees, grad)

    return Query.apply(scores, trees.marginals(), differentiate)


def entropies(scores: Tensor, trees: Inference) -> Tensor:
    """Find the entropy of each sentence, (B,)."""

    def differentiate(scores: Tensor, grad: Tensor) -> Tensor:
        # Entropy = log Z - sum of P * scores: what remains is the derivative of P.
        return -grad[:, None, None] * _Covariances.apply(scores, trees, scores)

    return Query.apply(scores, trees.entropies(), differentiate)


def divergences(scores: Tensor, trees: Inference, others: Tensor, other: Inference) -> Tensor:
    """Find the Kullback-Leibler divergence of the distributions of two batches, (B,)."""

    def by_scores(scores: Tensor, grad: Tensor) -> Tensor:
        values = scores.double() - others.double()
        return grad[:, None, None] * _Covariances.apply(scores, trees, values)

    def by_others(others: Tensor, grad: Tensor) -> Tensor:
        return grad[:, None, None] * (marginals(others, other) - marginals(scores, trees))

    if others.requires_grad:
        other.marginals()
    found = trees.divergences(other)
    # The second has the gradient by the others alone.
    own: Tensor = Query.apply(scores, found, by_scores)
    return own + Query.apply(others, np.zeros_like(found), by_others)


def log_probs(
    scores: Tensor, trees: Inference, heads: Tensor, found: NDArray[np.float64]
) -> Tensor:
    """Differentiate the log probabilities of K trees of each sentence, (B, K).

    The heads are of shape (B, K, N + 1).
    """

    def differentiate(scores: Tensor, grad: Tensor) -> Tensor:
        # For each arc, the sum over the trees that have it.
        by_dep = heads.long().clamp(min=0).transpose(1, 2)
        counts = torch.zeros_like(scores, dtype=torch.float64).scatter_add(
            2, by_dep, grad[:, None, :].expand(by_dep.shape)
        )
        words = torch.from_numpy(mark_words(trees.sentences.lengths, scores.shape[1]))
        counts = torch.where(words[:, :, None], counts, 0.0)
        return counts - grad.sum(dim=1)[:, None, None] * marginals(scores, trees)

    return Query.apply(scores, found, differentiate)


class Query(Function):
    """Results of the kernel, with a function that finds the gradient by the scores."""

    @staticmethod
    def forward(
        ctx: Any,
        scores: Tensor,
        found: NDArray[np.float64],
        differentiate: Callable[..., Tensor],
        needs_scores: bool = True,
    ) -> Tensor:
        """Keep what the gradient needs."""
        ctx.differentiate = differentiate
        ctx.save_for_backward(*[scores] * needs_scores)
        return torch.from_numpy(found)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        """Find the gradient by the scores."""
        return ctx.differentiate(*ctx.saved_tensors, grad), None, None, None


class _Covariances(Function):
    """Covariance of each arc, as 0 or 1, with the sum of a tree's values: (B, N + 1, N + 1) both.

    They are the derivatives of the marginals in the direction of the values; NaN in sentences with
    a value that is not finite.
    """

    @staticmethod
    def forward(ctx: Any, scores: Tensor, trees: Inference, values: Tensor) -> Tensor:
        given, likely = as_array(values), trees.marginals() > 0
        wrong = (likely & ~np.isfinite(given)).any(axis=(1, 2), keepdims=True)
        finite = np.where(wrong, 0.0, given) if wrong.any() else given
        found = trees.arc_covariances(finite.reshape(trees.sentences.scores.shape))
        return torch.from_numpy(np.where(wrong & likely, np.nan, found.reshape(given.shape)))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        raise NotImplementedError(
            "expected at most two derivatives of the log partition, and so one of marginals, "
            "entropy and divergences, received one more"
        )
