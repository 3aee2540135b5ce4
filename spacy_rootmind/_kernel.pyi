from typing import Any

import numpy as np
from numpy.typing import NDArray

OK: int
NO_TREE: int

class Workspace:
    def __new__(cls, max_words: int) -> Workspace: ...

def decode_range(
    scores: NDArray[np.floating[Any]],
    lengths: NDArray[np.intp],
    heads: NDArray[np.int32],
    start: int,
    stop: int,
    single_root: bool,
    arcmax: bool,
    workspace: Workspace,
) -> tuple[int, int]: ...
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
