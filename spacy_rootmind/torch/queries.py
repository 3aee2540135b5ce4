"""The kernel's results as functions that torch can differentiate.

With L the log partition, its gradient is M, the arc marginals. The derivative of M in the direction
of some values of arcs is their covariance with each arc, C, which the kernel finds as well. C
can be differentiated by the values alone.

Each takes the `inputs` of a `TreeDistribution`, on the CPU, with one axis of sentences, and
returns float64, which is rounded to the dtype of the scores at the end. `setup_context`, `jvp` and
`vmap` are what torch.func needs.
"""
# ruff: noqa: D102 - torch.autograd.Function documents the methods

from __future__ import annotations  # the site has a stand-in for torch, without `|`

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch._C import _functorch as functorch
from torch.autograd import Function

from spacy_rootmind.torch.arguments import Eliminations, as_array
from spacy_rootmind.trees.distribution import TreeDistribution

# Scores, lengths, allowed arcs and eliminations of some sentences.
N_INPUTS = 4
_THIRD_DERIVATIVE = (
    "expected at most two derivatives of the log partition, and so one of marginals, entropy and "
    "divergences, received one more"
)


def refuse_nested_forward_mode() -> None:
    """Refuse forward mode inside forward mode, which torch would answer with wrong numbers.

    Torch runs the `jvp` of a function of one's own with forward mode off, for outer levels as well,
    and so takes derivatives of its result to be 0.
    """
    # Torch has no public way to ask.
    levels = functorch.get_interpreter_stack() or []
    if sum(level.key() == functorch.TransformType.Jvp for level in levels) > 1:
        raise NotImplementedError(
            "expected at most one level of forward mode (jvp, jacfwd), received more: torch cannot "
            "nest it for custom functions; use reverse mode for the other levels, as "
            "torch.func.hessian does: jacfwd(jacrev(...))"
        )


def add_vmap(function: type[Function], *, has_items: bool = False) -> None:
    """Let torch.func.vmap add sentences to the batch.

    With `has_items`, arguments after the sentences have an axis of items behind that of sentences.
    If only these are mapped, they become more items of the same sentences.
    """

    def vmap(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> tuple[Tensor, int]:
        size = info.batch_size
        if has_items and all(dim is None for dim in in_dims[:N_INPUTS]):
            items = [
                value if dim is None else value.movedim(dim, 1).flatten(1, 2)
                for value, dim in zip(inputs[N_INPUTS:], in_dims[N_INPUTS:], strict=True)
            ]
            n_items = next(
                value.movedim(dim, 0).shape[2]
                for value, dim in zip(inputs, in_dims, strict=True)
                if dim is not None
            )
            found = function.apply(*inputs[:N_INPUTS], *items)
            return found.unflatten(1, (size, n_items)), 1
        pairs = zip(inputs, in_dims, strict=True)
        found = function.apply(*(_fold(value, dim, size) for value, dim in pairs))
        scores, dim = inputs[0], in_dims[0]
        n_sentences = len(scores) if dim is None else scores.movedim(dim, 0).shape[1]
        return found.reshape(size, n_sentences, *found.shape[1:]), 0

    function.vmap = staticmethod(vmap)  # type: ignore[method-assign]
    # `apply` asks for it in each call, and finding it takes longer than a sentence does.
    function.forward.__signature__ = inspect.signature(function.forward)  # type: ignore[attr-defined]


def _fold(value: Any, dim: int | None, size: int) -> Any:
    """Merge the axis that vmap adds with that of sentences."""
    if isinstance(value, Eliminations):
        return value.folded()
    if not isinstance(value, Tensor):
        return value
    if dim is None:
        return value.expand(size, *value.shape).flatten(0, 1)
    return value.movedim(dim, 0).flatten(0, 1)


def _over_arrays(sentences: Sequence[Any]) -> TreeDistribution:
    """Make the distribution over arrays, or take that of an earlier query."""
    scores, lengths, allowed, trees = sentences
    found: TreeDistribution = trees.over(scores, lengths, allowed)
    return found


def _to_tensor(sentences: Sequence[Any], found: Any) -> Tensor:
    """Convert numbers of sentences that the dtype of their scores has to have."""
    numbers: Tensor = sentences[-1].to_tensor(found)
    return numbers


def _saved(ctx: Any) -> tuple[tuple[Any, ...], list[Tensor]]:
    """Read back the sentences, and the further tensors."""
    scores, lengths, allowed, *rest = ctx.saved_tensors
    return (scores, lengths, allowed, ctx.trees), rest


def _along(gradient: Tensor, tangent: Tensor) -> Tensor:
    """Find the derivative of a number per sentence in a direction, which may hold NaN elsewhere."""
    return torch.where(gradient != 0.0, gradient * tangent, 0.0).sum(dim=(1, 2))


class _Query(Function):
    """A function of sentences, and of further tensors, which are all kept for derivatives."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.trees = inputs[N_INPUTS - 1]
        further = [value for value in inputs[N_INPUTS:] if isinstance(value, Tensor)]
        tensors = [*inputs[: N_INPUTS - 1], *further]
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)


class _Number(_Query):
    """A number per sentence, (B,), with its `gradient` by the scores, (B, N + 1, N + 1)."""

    @staticmethod
    def gradient(*inputs: Any) -> Tensor:
        raise NotImplementedError

    @classmethod
    def backward(cls, ctx: Any, grad: Tensor) -> Any:
        inputs, _ = _saved(ctx)
        others = [None] * (len(ctx.needs_input_grad) - 1)
        return grad[:, None, None] * cls.gradient(*inputs), *others

    @classmethod
    def jvp(cls, ctx: Any, tangent: Tensor, *_: None) -> Tensor:
        refuse_nested_forward_mode()
        inputs, _rest = _saved(ctx)
        return _along(cls.gradient(*inputs), tangent)


class LogPartition(_Number):
    """Log partition of each sentence, (B,); the last input tells whether marginals follow."""

    @staticmethod
    def forward(*inputs: Any) -> Tensor:
        *sentences, with_marginals = inputs
        own = _over_arrays(sentences)
        if with_marginals:
            # In a batch, these have to come first for one elimination to do for both.
            own.marginals  # noqa: B018
        return _to_tensor(sentences, own.log_partition)

    @staticmethod
    def gradient(*inputs: Any) -> Tensor:
        found: Tensor = Marginals.apply(*inputs)
        return found


class Marginals(_Query):
    """Probability of each arc, (B, N + 1, N + 1)."""

    @staticmethod
    def forward(*inputs: Any) -> Tensor:
        # The array that the distribution keeps, copied before a user receives it.
        return torch.from_numpy(_over_arrays(inputs).inference.marginals())

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        inputs, _ = _saved(ctx)
        return Covariances.apply(*inputs, grad[:, None])[:, 0], None, None, None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *_: None) -> Tensor:
        refuse_nested_forward_mode()
        inputs, _rest = _saved(ctx)
        found: Tensor = Covariances.apply(*inputs, tangent[:, None])[:, 0]
        return found


class Covariances(_Query):
    """Covariance of each arc, as 0 or 1, with sums of a tree's values: (B, K, N + 1, N + 1) both.

    They are the derivatives of the marginals in the directions of the values.
    """

    @staticmethod
    def forward(*inputs: Any) -> Tensor:
        *sentences, values = inputs
        if values.numel() == 0 or values.shape[-1] == 1:
            return torch.zeros(values.shape, dtype=torch.float64)
        return torch.from_numpy(_covariances(_over_arrays(sentences), as_array(values)))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        if ctx.needs_input_grad[0]:
            raise NotImplementedError(_THIRD_DERIVATIVE)
        inputs, _ = _saved(ctx)
        return None, None, None, None, Covariances.apply(*inputs, grad)

    @staticmethod
    def jvp(ctx: Any, *_: Any) -> Tensor:
        raise NotImplementedError(_THIRD_DERIVATIVE)


class Entropy(_Number):
    """Entropy of each sentence, (B,)."""

    @staticmethod
    def forward(*inputs: Any) -> Tensor:
        return _to_tensor(inputs, _over_arrays(inputs).entropy())

    @staticmethod
    def gradient(*inputs: Any) -> Tensor:
        # Entropy = log Z - sum of P * scores: what remains is the derivative of P.
        found: Tensor = -Covariances.apply(*inputs, inputs[0][:, None])[:, 0]
        return found


class Divergence(Function):
    """Kullback-Leibler divergence of the distributions of two batches of sentences, (B,)."""

    @staticmethod
    def forward(*inputs: Any) -> Tensor:
        *both, with_marginals = inputs
        own, other = _over_arrays(both[:N_INPUTS]), _over_arrays(both[N_INPUTS:])
        if with_marginals:
            other.marginals  # noqa: B018
        return _to_tensor(both[:N_INPUTS], own.kl_divergence(other))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.trees, ctx.other_trees = inputs[N_INPUTS - 1], inputs[2 * N_INPUTS - 1]
        tensors = [*inputs[: N_INPUTS - 1], *inputs[N_INPUTS : 2 * N_INPUTS - 1]]
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        by_scores, by_others = _divergence_gradients(
            ctx, ctx.needs_input_grad[0], ctx.needs_input_grad[N_INPUTS]
        )
        scale = grad[:, None, None]
        rest = None, None, None
        by_scores = None if by_scores is None else scale * by_scores
        by_others = None if by_others is None else scale * by_others
        return by_scores, *rest, by_others, *rest, None

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Tensor:
        refuse_nested_forward_mode()
        by_scores, by_others = _divergence_gradients(ctx, True, True)
        assert by_scores is not None
        assert by_others is not None
        return _along(by_scores, tangents[0]) + _along(by_others, tangents[N_INPUTS])


def _divergence_gradients(
    ctx: Any, for_scores: bool, for_others: bool
) -> tuple[Tensor | None, Tensor | None]:
    inputs, rest = _saved(ctx)
    others = (*rest, ctx.other_trees)
    by_scores = by_others = None
    if for_scores:
        values = (inputs[0].double() - others[0].double())[:, None]
        by_scores = Covariances.apply(*inputs, values)[:, 0]
    if for_others:
        by_others = Marginals.apply(*others) - Marginals.apply(*inputs)
    return by_scores, by_others


class LogProbs(_Query):
    """Log probabilities of K trees of each sentence, (B, K).

    Inputs after the sentences are heads, (B, K, N + 1), and whether marginals follow.
    """

    @staticmethod
    def forward(*inputs: Any) -> Tensor:
        *sentences, heads, with_marginals = inputs
        own = _over_arrays(sentences)
        if with_marginals:
            own.marginals  # noqa: B018
        return _to_tensor(sentences, own.log_prob(as_array(heads)))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        inputs, (heads,) = _saved(ctx)
        # For each arc, the sum over the trees that have it.
        by_dep = heads.long().clamp(min=0).transpose(1, 2)
        counts = torch.zeros_like(inputs[0], dtype=torch.float64).scatter_add(
            2, by_dep, grad[:, None, :].expand(by_dep.shape)
        )
        counts = torch.where(_words(inputs)[:, :, None], counts, 0.0)
        marginals = Marginals.apply(*inputs)
        by_scores = counts - grad.sum(dim=1)[:, None, None] * marginals
        return by_scores, None, None, None, None, None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *_: Any) -> Tensor:
        refuse_nested_forward_mode()
        inputs, (heads,) = _saved(ctx)
        by_dep = heads.long().clamp(min=0).transpose(1, 2)
        arcs = torch.where(_words(inputs)[:, :, None], tangent.double().gather(2, by_dep), 0.0)
        return arcs.sum(dim=1) - _along(Marginals.apply(*inputs), tangent)[:, None]


class Mode(Function):
    """Heads of the most probable tree of each sentence, int64 (B, N + 1)."""

    @staticmethod
    def forward(*inputs: Any) -> Tensor:
        return torch.tensor(_over_arrays(inputs).mode, dtype=torch.int64)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.mark_non_differentiable(output)

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        return None, None, None, None

    @staticmethod
    def jvp(ctx: Any, *_: Any) -> None:
        return None


_function: type[Function]
for _function in (LogPartition, Marginals, Entropy, Divergence, Mode):
    add_vmap(_function)
for _function in (Covariances, LogProbs):
    add_vmap(_function, has_items=True)


def _words(inputs: tuple[Any, ...]) -> Tensor:
    """Mark the words of each sentence, (B, N + 1): neither index 0 nor the padding."""
    scores, lengths, *_ = inputs
    index = torch.arange(scores.shape[1])
    inside = (index > 0).expand(len(scores), -1)
    return inside if lengths is None else inside & (index <= lengths[:, None])


def _covariances(trees: TreeDistribution, values: NDArray[Any]) -> NDArray[np.float64]:
    """Find covariances in the kernel, NaN in sentences with a value that is not finite."""
    wrong = ~np.isfinite(values)
    if not wrong.any():
        return trees.inference.arc_covariances(values)
    likely = trees.inference.marginals()[:, None] > 0
    wrong = (wrong & likely).any(axis=(2, 3), keepdims=True)
    found = trees.inference.arc_covariances(np.where(wrong, 0.0, values))
    return np.where(wrong & likely, np.nan, found)
