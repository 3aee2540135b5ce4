from typing import Any

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.kernel.batch import Worker

NO_STEPS: int
METHODS: dict[str, int]

class Sampler(Worker):
    def __new__(cls, method: str, max_words: int, single_root: bool, max_steps: int) -> Sampler: ...

def sample_batch(
    scores: NDArray[np.floating[Any]],
    allowed: NDArray[np.uint8] | None,
    lengths: NDArray[np.intp],
    samplers: list[Sampler],
    seeds: NDArray[np.uint64],
    heads: NDArray[np.int32],
    log_probabilities: NDArray[np.float64],
    found: NDArray[np.intp],
    log_remaining: NDArray[np.float64] | None = None,
) -> tuple[int, int]: ...
