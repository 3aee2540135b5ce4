"""The loss of arc scores against gold heads, for parsers that are trained in torch."""

from __future__ import annotations  # the site has a stand-in for torch, without `|`

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd import Function

from spacy_rootmind.torch.arguments import Lengths, as_array, as_lengths, to_cpu
from spacy_rootmind.trees import losses

__all__ = ["tree_crf"]


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
    loss, gradient = losses.tree_crf(
        as_array("scores", to_cpu(scores)),
        as_array("heads", heads),
        lengths=as_lengths(lengths),
        single_root=single_root,
        projective=projective,
        num_threads=num_threads,
    )
    result: Tensor = _WithGradient.apply(scores, loss, gradient)
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
