from typing import Any

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.kernel.batch import Worker

def use_simd(wanted: bool) -> bool: ...

class CovarianceWorker(Worker):
    def __new__(cls, max_words: int) -> CovarianceWorker: ...

def covariance_batch(
    scores: NDArray[np.floating[Any]],
    allowed: NDArray[np.uint8] | None,
    lengths: NDArray[np.intp],
    single_root: bool,
    workers: list[CovarianceWorker],
    values: NDArray[np.float64],
    out: NDArray[np.float64],
    settled: NDArray[np.uint8],
) -> tuple[int, int]: ...
