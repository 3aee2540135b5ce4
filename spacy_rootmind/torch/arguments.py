"""Arguments of the functions of tensors, as the functions of arrays take and check them."""

from __future__ import annotations  # the site has a stand-in for torch, without `|`

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Lengths: TypeAlias = "Tensor | NDArray[np.integer[Any]] | Sequence[int] | int | None"

_HALF = (torch.float16, torch.bfloat16)
_DTYPES = (*_HALF, torch.float32, torch.float64)


def to_cpu(scores: Tensor) -> Tensor:
    """Check the dtype of scores, and copy them to the CPU if necessary, as float32 or float64."""
    _check_type("scores", scores)
    if scores.dtype not in _DTYPES:
        known = ", ".join(str(dtype).removeprefix("torch.") for dtype in _DTYPES)
        raise TypeError(
            f"expected scores of dtype {known}, received {scores.dtype}; convert them with "
            f"scores.float()"
        )
    return scores.to("cpu", torch.float32 if scores.dtype in _HALF else scores.dtype)


def as_array(name: str, given: Tensor) -> NDArray[Any]:
    """View a tensor as an array; one on another device is copied."""
    _check_type(name, given)
    try:
        return given.detach().cpu().numpy()
    except RuntimeError as error:
        raise RuntimeError(
            "expected a tensor whose numbers can be read, received a placeholder: transforms of "
            "torch.func, and gradients with is_grads_batched=True or vectorize=True, are not "
            "available; use torch.autograd.grad, or jacobian and hessian of "
            "torch.autograd.functional"
        ) from error


def as_lengths(lengths: Lengths) -> Any:
    """View lengths as an array if they are a tensor."""
    return as_array("lengths", lengths) if isinstance(lengths, Tensor) else lengths


def _check_type(name: str, given: object) -> None:
    if not isinstance(given, Tensor):
        raise TypeError(
            f"expected {name} as a torch tensor, received {type(given).__name__}; convert it with "
            f"torch.as_tensor"
        )
