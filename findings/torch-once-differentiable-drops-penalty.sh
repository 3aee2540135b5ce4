#!/usr/bin/env bash
# torch 2.13.0: `once_differentiable` marks a backward pass that cannot be differentiated, and differentiating twice
# should be an error. It is one only if the gradient that comes from above requires a gradient itself. After a plain
# `.sum()` it does not, so `autograd.grad(..., create_graph=True)` returns a constant: a gradient penalty is added to
# the loss, and adds nothing to the gradient, without an error or a warning. Call `backward` on the penalty alone, and
# there is an error, but one that does not name the function.
#
# Output seen on 2026-11-28:
#   torch 2.13.0
#   sum: gradient 6.0 requires grad: False
#   sum: derivative of loss and penalty 6.0, expected 30.0
#   weighted sum: RuntimeError: trying to differentiate twice a function that was marked with @once_differentiable
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check torch==2.13.0
cd "$work"
"$work/venv/bin/python" - <<'PYTHON'
from importlib.metadata import version

import torch
from torch.autograd.function import once_differentiable

print("torch", version("torch").partition("+")[0])


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad


x = torch.tensor([3.0], requires_grad=True)
loss = Square.apply(x).sum()
(gradient,) = torch.autograd.grad(loss, x, create_graph=True)
print("sum: gradient", gradient.item(), "requires grad:", gradient.requires_grad)
(loss + (gradient**2).sum()).backward()
# The derivative of x**2 + (2 * x)**2 is 10 * x.
print(f"sum: derivative of loss and penalty {x.grad.item()}, expected {10 * x.item()}")
assert x.grad.item() == 6.0

weight = torch.tensor([1.0], requires_grad=True)
loss = (weight * Square.apply(x)).sum()
(gradient,) = torch.autograd.grad(loss, x, create_graph=True)
try:
    (loss + (gradient**2).sum()).backward()
    raise AssertionError("the behaviour has changed")
except RuntimeError as error:
    print("weighted sum: RuntimeError:", error)
PYTHON
