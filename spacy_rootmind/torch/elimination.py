"""The log partition in torch operations, which torch can differentiate any number of times.

The kernel's elimination without subtraction (`spacy_rootmind.kernel.elimination`), repeated on logs
of weights: whatever the scores, nothing underflows, and derivatives are accurate to rounding of the
differences among the scores of a word.
"""

from __future__ import annotations  # the site has a stand-in for torch, without `|`

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._C import _functorch as functorch

# The log weight of an impossible arc; its exponential is 0, and no difference is NaN.
_IMPOSSIBLE = -1e30


def forward_mode(jvp: Callable[..., Any]) -> Callable[..., Any]:
    """Refuse forward mode inside forward mode, which torch would answer with wrong numbers.

    Torch runs the `jvp` of a function of one's own with forward mode off, for outer levels as well,
    and so takes derivatives of its result to be 0.
    """

    @functools.wraps(jvp)
    def checked(ctx: Any, *tangents: Any) -> Any:
        # Torch has no public way to ask.
        levels = functorch.get_interpreter_stack() or []
        if sum(level.key() == functorch.TransformType.Jvp for level in levels) > 1:
            raise NotImplementedError(
                "expected at most one level of forward mode (jvp, jacfwd), received more: torch "
                "cannot nest it for custom functions; use reverse mode for the other levels, as "
                "torch.func.hessian does: jacfwd(jacrev(...))"
            )
        return jvp(ctx, *tangents)

    return checked


class _LogAddExp(torch.autograd.Function):
    """log(exp(a) + exp(b)), with derivatives of any order, also where a and b are far apart."""

    generate_vmap_rule = True

    @staticmethod
    def forward(a: Tensor, b: Tensor) -> Tensor:
        return torch.logaddexp(a, b)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        a, b = ctx.saved_tensors
        return grad * torch.sigmoid(a - b), grad * torch.sigmoid(b - a)

    @staticmethod
    @forward_mode
    def jvp(ctx: Any, by_a: Tensor, by_b: Tensor) -> Tensor:
        a, b = ctx.saved_tensors
        return by_a * torch.sigmoid(a - b) + by_b * torch.sigmoid(b - a)


def third_derivatives(
    scores: Tensor, possible: Tensor, single_root: bool, values: Tensor, others: Tensor
) -> Tensor:
    """Find the third derivatives of the log partition in pairs of directions.

    Parameters
    ----------
    scores, possible, single_root
        As for `eliminate`.
    values, others : float64 tensors of shape (B, K, N + 1, N + 1)
        Two directions, K times for each sentence.

    Returns
    -------
    derivatives : float64 tensor of shape (B, K, N + 1, N + 1)
        By the scores and both directions. They can be differentiated again.
    """
    shape = values.shape
    repeated, possible = scores[:, None].expand(shape), possible[:, None].expand(shape)
    repeated, possible, first, second = (
        tensor.flatten(0, 1) for tensor in (repeated, possible, values, others)
    )

    def log_partition(own: Tensor) -> Tensor:
        return eliminate(own, possible, single_root).sum()

    if not functorch.get_interpreter_stack():
        return _differentiate(log_partition, repeated, first, second).reshape(shape)

    def second_derivative(own: Tensor) -> Tensor:
        pull = torch.func.vjp(torch.func.grad(log_partition), own)[1]
        return (pull(first)[0] * second).sum()

    found: Tensor = torch.func.grad(second_derivative)(repeated)
    return found.reshape(shape)


def _differentiate(
    function: Callable[[Tensor], Tensor], at: Tensor, first: Tensor, second: Tensor
) -> Tensor:
    """Differentiate a function three times; outside of torch.func, twice as fast as by it."""
    is_wanted = torch.is_grad_enabled()
    with torch.enable_grad():
        own = at if is_wanted and at.requires_grad else at.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(function(own), own, create_graph=True)
        (product,) = torch.autograd.grad(gradient, own, first, create_graph=True)
        (found,) = torch.autograd.grad(product, own, second, create_graph=is_wanted)
    return found


def eliminate(scores: Tensor, possible: Tensor, single_root: bool) -> Tensor:
    """Sum the weights of all trees, as logs, up to a constant of each sentence.

    Parameters
    ----------
    scores : float64 tensor of shape (B, N + 1, N + 1)
        With N of at least 1, on the CPU, with a tree in each sentence.
    possible : bool tensor of the shape of `scores`
        False outside of sentences and where an arc is forbidden. Rows outside of
        sentences are all False.
    single_root : bool
        Whether the trees have exactly one word below ROOT.

    Returns
    -------
    log_partition : float64 tensor of shape (B,)

    Notes
    -----
    O(n^3) time, and as much memory until derivatives have been found.
    """
    logs = _weigh(scores, possible, single_root)
    total = scores.new_zeros(len(scores))
    # Whether ROOT counts among the heads that remain; with a single root, once its dependent, whose
    # other heads have all gone, has taken its place.
    has_root = torch.full((len(scores),), not single_root)
    for word in range(scores.shape[1] - 1, 0, -1):
        heads, dependents = logs[:, -1, :-1], logs[:, :-1, -1]
        root = torch.where(has_root, heads[:, 0], _IMPOSSIBLE)
        log_sum = torch.logsumexp(torch.cat([root[:, None], heads[:, 1:]], dim=1), dim=1)
        becomes_root = ~has_root & (log_sum < _IMPOSSIBLE / 2)
        log_sum = torch.where(becomes_root, heads[:, 0], log_sum)
        total = total + log_sum
        if word == 1:
            break
        through = dependents[:, :, None] + (heads - log_sum[:, None])[:, None, :]
        left = _LogAddExp.apply(logs[:, :-1, :-1], through)
        column = torch.where(becomes_root[:, None], dependents, left[:, :, 0])
        logs = torch.cat([column[:, :, None], left[:, :, 1:]], dim=2)
        has_root = has_root | becomes_root
    return total


def _weigh(scores: Tensor, possible: Tensor, single_root: bool) -> Tensor:
    """Take the rows of words from the log weights, each minus its maximum.

    A word outside of its sentence gets word 1 as its only head, or ROOT if it is the first.
    """
    logs = torch.where(possible, scores, _IMPOSSIBLE)[:, 1:]
    inside = possible[:, 1:].any(dim=2)
    # Constants, which change neither derivatives of the result nor those of these.
    given = logs.detach()
    shift = given[:, :, single_root:].amax(dim=2)
    shift = torch.where(shift < _IMPOSSIBLE / 2, given[:, :, 0], shift)
    logs = logs - torch.where(inside, shift, 0.0)[:, :, None]
    if single_root:
        # Root scores are never added to others before the end.
        root_shift = torch.where(inside, logs.detach()[:, :, 0], _IMPOSSIBLE).amax(dim=1)
        root = logs[:, :, 0] - root_shift.clamp(min=_IMPOSSIBLE / 2)[:, None]
        logs = torch.cat([root[:, :, None], logs[:, :, 1:]], dim=2)
    alone = torch.full_like(logs, _IMPOSSIBLE)
    alone[:, 1:, 1] = 0.0
    alone[:, 0, 0] = 0.0
    return torch.where(inside[:, :, None], logs.clamp(min=_IMPOSSIBLE), alone)
