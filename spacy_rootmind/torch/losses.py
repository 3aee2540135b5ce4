"""Losses of arc scores against gold heads, for parsers that are trained in torch."""

from __future__ import annotations  # the site has a stand-in for torch, without `|`

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd import Function

from spacy_rootmind.torch.arguments import (
    Lengths,
    as_array,
    as_batch,
    check_heads,
    check_rounding,
)
from spacy_rootmind.trees import losses

__all__ = ["head_selection", "tree_crf"]


def tree_crf(
    scores: Tensor,
    heads: Tensor,
    *,
    lengths: Lengths = None,
    mask: Tensor | None = None,
    allowed: Tensor | None = None,
    single_root: bool = True,
    projective: bool = False,
    num_threads: int = 1,
) -> Tensor:
    """Find the negative log probability of gold trees.

    `spacy_rootmind.tree_crf` for tensors, with the same errors. If some heads of a sentence are
    missing, it is the one of all trees that agree with the others.

    Parameters
    ----------
    scores, lengths, mask, allowed, single_root, projective, num_threads
        As for `TreeDistribution`.
    heads : int tensor of shape (n + 1,) or (B, N + 1)
        Gold heads, 0 for the root token, -1 where a word's head is unknown. Index 0 and the padding
        are ignored.

    Returns
    -------
    loss : tensor of shape () or (B,)
        Of each sentence, in nats, never negative. 0 if no head is known.

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
    return _apply(
        losses.tree_crf,
        heads,
        (scores, lengths, mask, allowed),
        single_root=single_root,
        projective=projective,
        num_threads=num_threads,
    )


def head_selection(
    scores: Tensor,
    heads: Tensor,
    *,
    lengths: Lengths = None,
    mask: Tensor | None = None,
    allowed: Tensor | None = None,
) -> Tensor:
    """Find the cross entropy of gold heads under the softmax over each word's heads.

    `spacy_rootmind.head_selection` for tensors, with the same errors.

    Parameters
    ----------
    scores, heads, lengths, mask, allowed
        As for `tree_crf`. The heads need not form a tree.

    Returns
    -------
    loss : tensor of shape () or (B,)
        Of each sentence, summed over its words with a gold head, in nats.

    Examples
    --------
    >>> import torch
    >>> round(head_selection(torch.zeros(3, 3), torch.tensor([-1, 2, -1])).item(), 3)
    0.693
    """
    return _apply(losses.head_selection, heads, (scores, lengths, mask, allowed))


def _apply(
    loss: Callable[..., losses.Loss],
    heads: Tensor,
    sentences: tuple[Tensor, Lengths, Tensor | None, Tensor | None],
    **kind: Any,
) -> Tensor:
    """Find a loss of arrays, and give its gradient to the scores."""
    scores, *_ = sentences
    batch, options = as_batch(*sentences)
    check_heads(heads, tuple(scores.shape[:-1]), several=False)
    gold = as_array(heads.cpu()).reshape(batch.shape[:-1])
    numbers, gradient = loss(as_array(batch), gold, **options, **kind)
    check_rounding(np.asarray(numbers), scores.dtype)
    found = np.reshape(numbers, heads.shape[:-1]), gradient.reshape(scores.shape)
    result: Tensor = _WithGradient.apply(scores, found)
    return result


class _WithGradient(Function):
    """Numbers of sentences, (B,), with the gradient of their sum by the scores."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, found: tuple[NDArray[Any], NDArray[Any]]) -> Tensor:
        numbers, gradient = (torch.from_numpy(array).to(scores) for array in found)
        ctx.save_for_backward(gradient)
        return numbers

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        if torch.is_grad_enabled():
            raise NotImplementedError(
                "expected one derivative of a loss, received create_graph=True, for a second one; "
                "use TreeDistribution.log_prob, which has both"
            )
        (gradient,) = ctx.saved_tensors
        return grad[..., None, None] * gradient, None
