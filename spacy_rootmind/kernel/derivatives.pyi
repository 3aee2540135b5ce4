from typing import Any

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.kernel.batch import Worker

def normalize_batch(
    given: NDArray[np.float64],
    marginals: NDArray[np.float64],
    lengths: NDArray[np.intp],
    single_root: bool,
    values: NDArray[np.float64],
    exponents: NDArray[np.intc],
) -> int: ...

class Differentiation(Worker):
    def __new__(cls, max_words: int, projective: bool = False) -> Differentiation: ...

def differentiate_batch(
    scores: NDArray[np.floating[Any]],
    allowed: NDArray[np.uint8] | None,
    lengths: NDArray[np.intp],
    single_root: bool,
    workers: list[Differentiation],
    values: NDArray[np.float64],
    out: NDArray[np.float64],
) -> tuple[int, int]: ...
