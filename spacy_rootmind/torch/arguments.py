"""Arguments of the functions of tensors: their checks, and their conversion for the kernel."""

from __future__ import annotations  # the site has a stand-in for torch, without `|`

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spacy_rootmind.trees.conventions import as_flag, as_lengths, as_num_threads
from spacy_rootmind.trees.distribution import TreeDistribution

Lengths: TypeAlias = "Tensor | NDArray[np.integer[Any]] | Sequence[int] | int | None"

_HALF = (torch.float16, torch.bfloat16)
_DTYPES = (*_HALF, torch.float32, torch.float64)


class NoDataError(RuntimeError):
    """A tensor's numbers are out of reach, as inside a transform of torch.func."""


class Sentences:
    """The scores, lengths and allowed arcs of a batch, as the functions of the kernel take them.

    Parameters
    ----------
    scores, lengths, allowed, single_root, num_threads
        As for `spacy_rootmind.torch.log_partition`.

    Attributes
    ----------
    inputs : tuple
        What each class of `queries` takes: scores (float32 or float64), lengths (int64 or None)
        and allowed arcs (bool or None), all on the CPU with one axis of sentences, and an
        `Eliminations`.
    shape : torch.Size
        Of the batch, without its last two axes.
    given : Tensor
        The scores as they came.
    """

    def __init__(
        self,
        scores: Tensor,
        lengths: Lengths = None,
        *,
        allowed: Tensor | None = None,
        single_root: bool = True,
        num_threads: int = 1,
    ):
        _check_scores(scores)
        _check_allowed(allowed, scores)
        self.shape = scores.shape[:-2]
        self.given = scores
        square = scores.shape[-2:]
        dtype = torch.float32 if scores.dtype in _HALF else scores.dtype
        batch = scores.to("cpu", dtype)
        if batch.ndim != 3:
            batch = batch.reshape(self.shape.numel(), *square)
        words = _as_lengths(lengths, self.shape, square[0] - 1)
        mask = None if allowed is None else allowed.detach().cpu().reshape(batch.shape)
        kind = as_flag("single_root", single_root), as_num_threads(num_threads)
        trees = Eliminations(*kind, scores.dtype)
        self.inputs = batch, words, mask, trees

    @property
    def scores(self) -> Tensor:
        """The scores of all sentences, on the CPU."""
        return self.inputs[0]

    def over_arrays(self) -> TreeDistribution:
        """Make the distribution over arrays, or take the one that an earlier query has made."""
        scores, lengths, allowed, trees = self.inputs
        return trees.over(scores, lengths, allowed)

    def shaped(self, found: Tensor) -> Tensor:
        """Copy results to the shape, the dtype and the device of the given scores."""
        if len(self.shape) != 1:
            found = found.reshape(self.shape + found.shape[1:])
        return found.to(self.given.device, self.given.dtype, copy=True)


class Eliminations:
    """The distribution over arrays of some sentences, for all the functions that ask it.

    One elimination does for a value and its gradient, which torch asks for one by one.
    """

    def __init__(self, single_root: bool, num_threads: int, dtype: torch.dtype):
        self.single_root = single_root
        self.num_threads = num_threads
        self.dtype = dtype
        # What identifies some arrays, their distribution, and the arrays, whose addresses nothing
        # else can have while they are here. One tuple, as several threads may ask.
        self._kept: tuple[list[Any], TreeDistribution, list[Any]] | None = None
        self._folded: Eliminations | None = None

    def over(
        self, scores: Tensor, lengths: Tensor | None, allowed: Tensor | None
    ) -> TreeDistribution:
        """Make the distribution over these arrays, unless they are those of the last call."""
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
        """Make room for the same sentences with more axes, those of torch.func.vmap."""
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
        raise NoDataError(
            "expected a tensor whose numbers can be read, received a placeholder: inside "
            "torch.func transforms such as vmap, `sample`, `k_best`, `support` and "
            "`enumerate_support` are not available; instead of gradients with "
            "is_grads_batched=True or vectorize=True, use torch.func.jacrev, jacfwd or hessian"
        ) from error


def _identify(tensor: Tensor) -> tuple[Any, ...]:
    """Tell a tensor and its state from those that exist at the same time."""
    try:
        address = tensor.data_ptr()
    except RuntimeError:
        # It has none; `as_array` says so.
        return (object(),)
    version = None if tensor.is_inference() else tensor._version
    return address, version, tensor.shape, tensor.stride()


def _check_scores(scores: Tensor) -> None:
    if not isinstance(scores, Tensor):
        raise TypeError(
            f"expected scores as a torch tensor, received {type(scores).__name__}; convert them "
            f"with torch.as_tensor"
        )
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


def _check_allowed(allowed: Tensor | None, scores: Tensor) -> None:
    if allowed is None:
        return
    if not isinstance(allowed, Tensor):
        raise TypeError(
            f"expected allowed as a torch tensor, received {type(allowed).__name__}; convert it "
            f"with torch.as_tensor"
        )
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


def _as_lengths(lengths: Lengths, shape: torch.Size, longest: int) -> Tensor | None:
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
