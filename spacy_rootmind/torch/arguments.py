"""Arguments of the functions of tensors: their checks, and their conversion from and to arrays."""

from __future__ import annotations  # the site has a stand-in for torch, without `|`

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spacy_rootmind.trees.conventions import mark_words

Lengths: TypeAlias = "Tensor | NDArray[np.integer[Any]] | Sequence[int] | int | None"

_HALF = (torch.float16, torch.bfloat16)
_DTYPES = (*_HALF, torch.float32, torch.float64)


def as_batch(
    scores: Tensor, lengths: Lengths, mask: Tensor | None, allowed: Tensor | None
) -> tuple[Tensor, dict[str, Any]]:
    """Check sentences, and make of them what functions of arrays take.

    Returns
    -------
    batch : float32 or float64 tensor of shape (b, N + 1, N + 1)
        The scores on the CPU, with one axis of sentences.
    options : dict
        `lengths` and `allowed`, for this batch.
    """
    _check_scores(scores)
    _check_allowed(allowed, scores)
    batch = scores.to("cpu", torch.float32 if scores.dtype in _HALF else scores.dtype)
    if batch.ndim != 3:
        batch = batch.reshape(scores.shape[:-2].numel(), *scores.shape[-2:])
    if mask is None:
        words = _as_lengths(lengths, scores.shape)
    elif lengths is None:
        words = _count_words(mask, scores.shape)
    else:
        raise ValueError("expected lengths or a mask, received both; leave out one")
    arcs = None if allowed is None else as_array(allowed.cpu().reshape(batch.shape))
    return batch, {"lengths": words, "allowed": arcs}


def as_array(tensor: Tensor) -> NDArray[Any]:
    """View a tensor as an array."""
    try:
        return tensor.detach().numpy()
    except RuntimeError as error:
        raise RuntimeError(
            "expected a tensor whose numbers can be read, received a placeholder: transforms of "
            "torch.func, and gradients with is_grads_batched=True or vectorize=True, are not "
            "available; use torch.autograd.grad, or jacobian and hessian of "
            "torch.autograd.functional"
        ) from error


def check_rounding(numbers: NDArray[np.float64], dtype: torch.dtype) -> None:
    """Raise where a dtype does not have the numbers of some sentences."""
    if dtype == torch.float64:
        return
    beyond = np.abs(numbers) > torch.finfo(dtype).max
    beyond &= np.isfinite(numbers)
    if beyond.any():
        sentence = int(np.argwhere(beyond)[0, 0])
        raise ArithmeticError(
            f"sentence {sentence}: {numbers[beyond][0]:g} is beyond {dtype}; convert the scores "
            f"with scores.double()"
        )


def _check_type(name: str, given: object) -> None:
    if not isinstance(given, Tensor):
        raise TypeError(
            f"expected {name} as a torch tensor, received {type(given).__name__}; convert it with "
            f"torch.as_tensor"
        )


def _check_scores(scores: Tensor) -> None:
    """Check type, dtype and shape."""
    _check_type("scores", scores)
    if scores.dtype not in _DTYPES:
        known = ", ".join(str(dtype).removeprefix("torch.") for dtype in _DTYPES)
        raise TypeError(
            f"expected scores of dtype {known}, received {scores.dtype}; convert them with "
            f"scores.float()"
        )
    if scores.layout != torch.strided:
        raise TypeError(
            f"expected dense scores, received {scores.layout}; convert them with scores.to_dense()"
        )
    if scores.is_meta:
        raise TypeError("expected scores with numbers, received a tensor on the device 'meta'")
    if scores.ndim < 2 or scores.shape[-1] != scores.shape[-2] or scores.shape[-1] == 0:
        raise ValueError(
            f"expected scores of shape (n + 1, n + 1) or (*, N + 1, N + 1), received "
            f"{tuple(scores.shape)}"
        )


def _check_bool(name: str, given: Tensor) -> None:
    """Check type and dtype of a tensor of truth values."""
    _check_type(name, given)
    if given.dtype != torch.bool:
        raise TypeError(
            f"expected {name} of dtype torch.bool, received {given.dtype}; convert it with "
            f"{name}.bool()"
        )


def _check_allowed(allowed: Tensor | None, scores: Tensor) -> None:
    """Check type, dtype and shape against the scores."""
    if allowed is None:
        return
    _check_bool("allowed", allowed)
    if allowed.shape != scores.shape:
        raise ValueError(
            f"expected allowed of the shape of scores, {tuple(scores.shape)}, received "
            f"{tuple(allowed.shape)}"
        )


def _as_lengths(lengths: Lengths, shape: torch.Size) -> NDArray[np.integer[Any]] | None:
    """Give lengths of sentences with scores of a shape one axis; their values are checked later."""
    if lengths is None:
        return None
    array = lengths.cpu().numpy() if isinstance(lengths, Tensor) else np.asanyarray(lengths)
    # A single sentence may have a number.
    wanted, received = tuple(shape[:-2]), array.shape
    if received != wanted and (wanted or received != (1,)):
        raise ValueError(
            f"expected lengths of shape {wanted}, one per sentence, received {received}; give a "
            f"mask of words as `mask`"
        )
    return array.reshape(-1)


def _count_words(mask: Tensor, shape: torch.Size) -> NDArray[np.intp]:
    """Check a mask of the words of sentences with scores of a shape, and count these."""
    _check_bool("mask", mask)
    if mask.shape != shape[:-1]:
        raise ValueError(
            f"expected a mask of shape {tuple(shape[:-1])}, with index 0, received "
            f"{tuple(mask.shape)}; torch.nn.functional.pad(mask, (1, 0)) adds index 0"
        )
    words = mask.cpu().numpy().reshape(-1, shape[-1])[:, 1:]
    counts: NDArray[np.intp] = words.sum(axis=1, dtype=np.intp)
    wrong = (words != mark_words(counts, shape[-1])[:, 1:]).any(axis=1)
    if wrong.any():
        raise ValueError(
            f"sentence {int(np.argmax(wrong))}: expected a mask whose words follow index 0 without "
            f"a gap, received one with a gap; move the padding behind the words"
        )
    return counts


def check_heads(heads: Tensor, shape: tuple[int, ...], *, several: bool) -> None:
    """Check that heads are a tensor of a shape or, if allowed, of one with k trees a sentence."""
    _check_type("heads", heads)
    received = tuple(heads.shape)
    if received == shape or (several and received[:-2] + received[-1:] == shape):
        return
    wanted = str(shape)
    if several:
        wanted += f" or ({', '.join(map(str, (*shape[:-1], 'k', shape[-1])))})"
    raise ValueError(f"expected heads of shape {wanted} for these scores, received {received}")
