"""The kernel's results as functions that torch can differentiate.

With L the log partition, its gradient is M, the arc marginals. The derivative of M in the direction
of some values of arcs is their covariance with each arc, C, which the kernel finds as well. C
has no derivatives here.

Each takes the scores of a batch on the CPU, of shape (B, N + 1, N + 1), and inference over arrays
of the same numbers, which keeps its results: one elimination does for a value and its gradient.
Results are float64, and are rounded to the dtype of the scores at the end.
"""
# ruff: noqa: D102 - torch.autograd.Function documents the methods

from __future__ import annotations  # the site has a stand-in for torch, without `|`

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd import Function

from spacy_rootmind.torch.arguments import as_array
from spacy_rootmind.trees.conventions import mark_words
from spacy_rootmind.trees.inference import Inference


class LogPartition(Function):
    """Log partition of each sentence, (B,)."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, trees: Inference) -> Tensor:
        _keep(ctx, trees, scores)
        return torch.from_numpy(trees.log_partitions())

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        (scores,) = ctx.saved_tensors
        return grad[:, None, None] * Marginals.apply(scores, ctx.trees), None


class Marginals(Function):
    """Probability of each arc, (B, N + 1, N + 1)."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, trees: Inference) -> Tensor:
        _keep(ctx, trees, scores)
        # The array that is kept, copied before a user receives it.
        return torch.from_numpy(trees.marginals())

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        (scores,) = ctx.saved_tensors
        return Covariances.apply(scores, ctx.trees, grad), None


class Covariances(Function):
    """Covariance of each arc, as 0 or 1, with the sum of a tree's values: (B, N + 1, N + 1) both.

    They are the derivatives of the marginals in the direction of the values.
    """

    @staticmethod
    def forward(ctx: Any, scores: Tensor, trees: Inference, values: Tensor) -> Tensor:
        return torch.from_numpy(_covariances(trees, as_array("values", values)))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        raise NotImplementedError(
            "expected at most two derivatives of the log partition, and so one of marginals, "
            "entropy and divergences, received one more"
        )


class Entropy(Function):
    """Entropy of each sentence, (B,)."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, trees: Inference) -> Tensor:
        _keep(ctx, trees, scores)
        return torch.from_numpy(trees.entropies())

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        (scores,) = ctx.saved_tensors
        # Entropy = log Z - sum of P * scores: what remains is the derivative of P.
        return -grad[:, None, None] * Covariances.apply(scores, ctx.trees, scores), None


class Divergence(Function):
    """Kullback-Leibler divergence of the distributions of two batches of sentences, (B,)."""

    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, trees: Inference, others: Tensor, other: Inference
    ) -> Tensor:
        _keep(ctx, trees, scores, others)
        ctx.other = other
        if ctx.needs_input_grad[2]:
            other.marginals()
        return torch.from_numpy(trees.divergences(other))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        scores, others = ctx.saved_tensors
        scale, by_scores, by_others = grad[:, None, None], None, None
        if ctx.needs_input_grad[0]:
            values = scores.double() - others.double()
            by_scores = scale * Covariances.apply(scores, ctx.trees, values)
        if ctx.needs_input_grad[2]:
            differences = Marginals.apply(others, ctx.other) - Marginals.apply(scores, ctx.trees)
            by_others = scale * differences
        return by_scores, None, by_others, None


class LogProbs(Function):
    """Log probabilities of K trees of each sentence, (B, K), of heads (B, K, N + 1)."""

    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, trees: Inference, heads: Tensor, found: NDArray[np.float64]
    ) -> Tensor:
        _keep(ctx, trees, scores, heads)
        return torch.from_numpy(found)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        scores, heads = ctx.saved_tensors
        # For each arc, the sum over the trees that have it.
        by_dep = heads.long().clamp(min=0).transpose(1, 2)
        counts = torch.zeros_like(scores, dtype=torch.float64).scatter_add(
            2, by_dep, grad[:, None, :].expand(by_dep.shape)
        )
        words = torch.from_numpy(mark_words(ctx.trees.sentences.lengths, scores.shape[1]))
        counts = torch.where(words[:, :, None], counts, 0.0)
        marginals = Marginals.apply(scores, ctx.trees)
        return counts - grad.sum(dim=1)[:, None, None] * marginals, None, None, None


def _keep(ctx: Any, trees: Inference, *tensors: Tensor) -> None:
    """Keep what derivatives are found from."""
    ctx.trees = trees
    ctx.save_for_backward(*tensors)


def _covariances(trees: Inference, values: NDArray[Any]) -> NDArray[np.float64]:
    """Find covariances in the kernel, NaN in sentences with a value that is not finite."""
    likely = trees.marginals() > 0
    wrong = (likely & ~np.isfinite(values)).any(axis=(1, 2), keepdims=True)
    finite = np.where(wrong, 0.0, values) if wrong.any() else values
    found = trees.arc_covariances(finite.reshape(trees.sentences.scores.shape))
    return np.where(wrong & likely, np.nan, found.reshape(values.shape))
