import numpy as np
from numpy.typing import NDArray

def use_simd(wanted: bool) -> bool: ...
def qrnn(
    gates: NDArray[np.float32],
    bias: NDArray[np.float32],
    roots: NDArray[np.intp],
    lengths: NDArray[np.intp],
) -> tuple[NDArray[np.float32], NDArray[np.float32]]: ...
def qrnn_gradient(
    gates: NDArray[np.float32],
    roots: NDArray[np.intp],
    lengths: NDArray[np.intp],
    cells: NDArray[np.float32],
    d_states: NDArray[np.float32],
) -> NDArray[np.float32]: ...
def pad(flat: NDArray[np.float32], rows: NDArray[np.intp]) -> NDArray[np.float32]: ...
def add_unpadded(
    padded: NDArray[np.float32], rows: NDArray[np.intp], out: NDArray[np.float32]
) -> None: ...
def add_distances(
    scores: NDArray[np.float32],
    by_dep: NDArray[np.float32],
    by_head: NDArray[np.float32],
    rows: NDArray[np.intp],
    buckets: NDArray[np.int32],
) -> None: ...
def softmax_heads(
    scores: NDArray[np.float32], lengths: NDArray[np.intp]
) -> NDArray[np.float32]: ...
def layer_norm(
    rows: NDArray[np.float32], G: NDArray[np.float32], b: NDArray[np.float32]
) -> NDArray[np.float32]: ...
def maxout(rows: NDArray[np.float32], bias: NDArray[np.float32]) -> NDArray[np.float32]: ...
