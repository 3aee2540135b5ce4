from typing import Any

import numpy as np
from numpy.typing import NDArray

OK: int
NO_TREE: int
NO_MEMORY: int
LOST_DIGITS: int
MOST_THREADS: int
REDUCTIONS: dict[str, int]

class Decoder: ...

class TreeDecoder(Decoder):
    def __new__(cls, max_words: int, single_root: bool, arcmax: bool) -> TreeDecoder: ...

class ReductionDecoder(Decoder):
    def __new__(
        cls, max_words: int, reduction: str, textbook: bool, arcmax: bool, arcmax_inside: bool
    ) -> ReductionDecoder: ...

class ProjectiveDecoder(Decoder):
    def __new__(cls, max_words: int, single_root: bool, arcmax: bool) -> ProjectiveDecoder: ...

def decode_batch(
    scores: NDArray[np.floating[Any]],
    allowed: NDArray[np.uint8] | None,
    lengths: NDArray[np.intp],
    heads: NDArray[np.int32],
    decoders: list[Decoder],
) -> tuple[int, int]: ...
def decode_kbest(
    scores: NDArray[np.float64], k: int, single_root: bool
) -> tuple[int, NDArray[np.int32] | None]: ...
def form_trees(
    heads: NDArray[np.int32],
    lengths: NDArray[np.intp],
    single_root: bool,
    out: NDArray[np.uint8],
) -> None: ...
def are_projective(
    heads: NDArray[np.int32],
    lengths: NDArray[np.intp],
    out: NDArray[np.uint8],
) -> None: ...
