"""Arguments of the functions of tensors: their checks, and their conversion for the kernel."""

from __future__ import annotations  # the site has a stand-in for torch, without `|`

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spacy_rootmind.trees.conventions import as_lengths
from spacy_rootmind.trees.distribution import TreeDistribution

Lengths: TypeAlias = "Tensor | NDArray[np.integer[Any]] | Sequence[int] | int | None"

HALF = (torch.float16, torch.bfloat16)
_DTYPES = (*HALF, torch.float32, torch.float64)


class Eliminations:
    """The distribution over arrays of some sentences, shared by all queries.

    So one elimination serves a value and its gradient, which torch computes one after the other.
    """

    def __init__(self, single_root: bool, num_threads: int, dtype: torch.dtype):
        self.single_root = single_root
        self.num_threads = num_threads
        self.dtype = dtype
        # The identity of some arrays, their distribution, and the arrays, whose addresses nothing
        # else can have while they are here. One tuple, as several threads may ask.
        self._kept: tuple[list[Any], TreeDistribution, list[Any]] | None = None
        self._folded: Eliminations | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy without results: a copy's arrays lie elsewhere."""
        return Eliminations, (self.single_root, self.num_threads, self.dtype)

    def over(
        self, scores: Tensor, lengths: Tensor | None, allowed: Tensor | None
    ) -> TreeDistribution:
        """Make the distribution over these arrays, unless the last call had the same ones."""
        given = scores, lengths, allowed
        key = [None if tensor is None else _identify(tensor) for tensor in given]
        kept = self._kept
        if kept is not None and kept[0] == key:
            return kept[1]
        arrays = [None if tensor is None else as_array(tensor) for tensor in given]
        found = TreeDistribution(
            arrays[0],  # type: ignore[arg-type]
            lengths=arrays[1],
            allowed=arrays[2],
            single_root=self.single_root,
            num_threads=self.num_threads,
        )
        tensors = [None if tensor is None else tensor.detach() for tensor in given]
        self._kept = key, found, tensors
        return found

    def folded(self) -> Eliminations:
        """Make room for the same sentences with the further axes of torch.func.vmap."""
        if self._folded is None:
            self._folded = Eliminations(self.single_root, self.num_threads, self.dtype)
        return self._folded

    def to_tensor(self, found: Any) -> Tensor:
        """Convert numbers of sentences; raise where the dtype of the scores has no such numbers."""
        numbers: NDArray[np.float64] = np.asarray(found)
        if self.dtype != torch.float64:
            limit = torch.finfo(self.dtype).max
            beyond = ~(np.abs(numbers) <= limit) & np.isfinite(numbers)
            if beyond.any():
                sentence = int(np.argwhere(beyond)[0, 0])
                raise ArithmeticError(
                    f"sentence {sentence}: {numbers[beyond][0]:g} is beyond {self.dtype}; convert "
                    f"the scores with scores.double()"
                )
        return torch.from_numpy(numbers)


def as_array(tensor: Tensor) -> NDArray[Any]:
    """View a tensor as an array."""
    try:
        return tensor.detach().numpy()
    except RuntimeError as error:
        raise RuntimeError(
            "expected a tensor whose numbers can be read, received a placeholder: inside "
            "torch.func transforms such as vmap, `sample` and `k_best` are not available; instead "
            "of gradients with is_grads_batched=True or vectorize=True, use torch.func.jacrev, "
            "jacfwd or hessian"
        ) from error


def _identify(tensor: Tensor) -> tuple[Any, ...]:
    """Distinguish a tensor and its state from others that exist at the same time."""
    try:
        address = tensor.data_ptr()
    except RuntimeError:
        # It has none; `as_array` says so.
        return (object(),)
    version = None if tensor.is_inference() else tensor._version
    return address, version, tensor.shape, tensor.stride()


def _check_type(name: str, given: object) -> None:
    if not isinstance(given, Tensor):
        raise TypeError(
            f"expected {name} as a torch tensor, received {type(given).__name__}; convert it with "
            f"torch.as_tensor"
        )


def check_scores(scores: Tensor) -> None:
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


def check_allowed(allowed: Tensor | None, scores: Tensor) -> None:
    """Check type, dtype and shape against the scores."""
    if allowed is None:
        return
    _check_type("allowed", allowed)
    if allowed.dtype != torch.bool:
        raise TypeError(
            f"expected allowed of dtype torch.bool, received {allowed.dtype}; convert it with "
            f"allowed.bool()"
        )
    if allowed.shape != scores.shape:
        raise ValueError(
            f"expected allowed of the shape of scores, {tuple(scores.shape)}, received "
            f"{tuple(allowed.shape)}"
        )


def lengths_as_tensor(lengths: Lengths, shape: torch.Size, longest: int) -> Tensor | None:
    """Check lengths, and give them one axis. A tensor's numbers are checked with the scores."""
    if lengths is None:
        return None
    received = tuple(lengths.shape if isinstance(lengths, Tensor) else np.shape(lengths))
    # A single sentence may have a number.
    if received != tuple(shape) and (shape or received != (1,)):
        raise ValueError(
            f"expected lengths of shape {tuple(shape)}, one per sentence, received {received}"
        )
    if not isinstance(lengths, Tensor):
        flat = lengths if isinstance(lengths, np.ma.MaskedArray) else np.reshape(lengths, -1)
        return torch.from_numpy(as_lengths(flat, shape.numel(), longest, single=False))
    if lengths.dtype.is_floating_point or lengths.dtype.is_complex or lengths.dtype == torch.bool:
        raise TypeError(f"expected lengths as integers, received dtype {lengths.dtype}")
    return lengths.detach().to("cpu", torch.int64).reshape(-1)


def check_heads(heads: Tensor, shape: tuple[int, ...]) -> None:
    """Check that heads are a tensor of a shape, or of that shape with k trees of each sentence."""
    _check_type("heads", heads)
    received = tuple(heads.shape)
    if received != shape and received[:-2] + received[-1:] != shape:
        several = ", ".join(map(str, (*shape[:-1], "k", shape[-1])))
        raise ValueError(
            f"expected heads of shape {shape} or ({several}) for this distribution, received "
            f"{received}"
        )
