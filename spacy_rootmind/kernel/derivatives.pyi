import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.kernel.arrays import Doubles, Sizes
from spacy_rootmind.kernel.batch import ScoreBuffer, Worker

def normalize_batch(
    given: Doubles,
    marginals: Doubles,
    lengths: Sizes,
    single_root: bool,
    values: Doubles,
    exponents: NDArray[np.intc],
) -> int: ...

class Differentiation(Worker):
    def __new__(cls, max_words: int, projective: bool = False) -> Differentiation: ...

def differentiate_batch(
    buffer: ScoreBuffer,
    single_root: bool,
    workers: list[Differentiation],
    values: Doubles,
    out: Doubles,
) -> tuple[int, int]: ...
