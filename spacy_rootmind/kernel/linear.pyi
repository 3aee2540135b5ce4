from typing import Any

import numpy as np
from numpy.typing import NDArray

def score_arcs(
    weights: NDArray[np.floating[Any]],
    keys: NDArray[np.uint32],
    between: NDArray[np.uint32],
    previous: NDArray[np.int32],
    bucket_keys: NDArray[np.uint32],
    buckets: NDArray[np.int32],
    roots: NDArray[np.intp],
    lengths: NDArray[np.intp],
    scores: NDArray[np.floating[Any]],
) -> None: ...
def backprop_arcs(
    d_weights: NDArray[np.floating[Any]],
    keys: NDArray[np.uint32],
    between: NDArray[np.uint32],
    previous: NDArray[np.int32],
    bucket_keys: NDArray[np.uint32],
    buckets: NDArray[np.int32],
    roots: NDArray[np.intp],
    lengths: NDArray[np.intp],
    d_scores: NDArray[np.floating[Any]],
) -> None: ...
