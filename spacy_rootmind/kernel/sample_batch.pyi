import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.kernel.arrays import Doubles, Heads, Sizes
from spacy_rootmind.kernel.batch import ScoreBuffer, Worker

NO_STEPS: int
METHODS: tuple[str, ...]

class Sampler(Worker):
    def __new__(cls, method: str, max_words: int, single_root: bool, max_steps: int) -> Sampler: ...

def sample_batch(
    buffer: ScoreBuffer,
    samplers: list[Sampler],
    seeds: NDArray[np.uint64],
    heads: Heads,
    log_probabilities: Doubles,
    found: Sizes,
    log_remaining: Doubles | None = None,
) -> tuple[int, int]: ...
