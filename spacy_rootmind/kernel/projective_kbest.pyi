import numpy as np
from numpy.typing import NDArray

def decode_kbest(
    scores: NDArray[np.float64], k: int, single_root: bool
) -> tuple[int, NDArray[np.int32] | None]: ...
