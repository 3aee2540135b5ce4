"""Losses of arc scores against gold heads, for parsers that are trained in torch."""

from __future__ import annotations  # the site has a stand-in for torch, without `|`

from collections.abc import Callable
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd import Function

from spacy_rootmind.torch.arguments import Lengths, as_array, as_options, to_cpu
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

    `spacy_rootmind.tree_crf` for tensors, with the same arguments, and `mask` as `TreeDistribution`
    has it: of shape () or (B,), in nats, never negative. If some heads of a sentence are missing
    (-1), it is the one of all trees that agree with the others.

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
        scores,
        heads,
        as_options(scores, lengths, mask, allowed),
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

    `spacy_rootmind.head_selection` for tensors, with the same arguments, and `mask` as
    `TreeDistribution` has it: of shape () or (B,), in nats. The heads need not form a tree.

    Examples
    --------
    >>> import torch
    >>> round(head_selection(torch.zeros(3, 3), torch.tensor([-1, 2, -1])).item(), 3)
    0.693
    """
    return _apply(losses.head_selection, scores, heads, as_options(scores, lengths, mask, allowed))


def _apply(
    loss: Callable[..., losses.Loss],
    scores: Tensor,
    heads: Tensor,
    options: dict[str, Any],
    **kind: Any,
) -> Tensor:
    """Find a loss of arrays, and give its gradient to the scores."""
    given = as_array("scores", to_cpu(scores))
    numbers, gradient = loss(given, as_array("heads", heads), **options, **kind)
    result: Tensor = _WithGradient.apply(scores, numbers, gradient)
    return result


class _WithGradient(Function):
    """Numbers of sentences, (B,), with the gradient of their sum by the scores."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, numbers: Any, gradient: NDArray[Any]) -> Tensor:
        ctx.save_for_backward(torch.from_numpy(gradient).to(scores))
        return torch.as_tensor(numbers).to(scores)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        if torch.is_grad_enabled():
            raise NotImplementedError(
                "expected one derivative of a loss, received create_graph=True, for a second one; "
                "use TreeDistribution.log_prob, which has both"
            )
        (gradient,) = ctx.saved_tensors
        return grad[..., None, None] * gradient, None, None
