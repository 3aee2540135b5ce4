from typing import Any

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.kernel.batch import Worker

LOG_Z: int
ENTROPY: int
CONSTANTS: int

class Summation(Worker):
    def __new__(cls, max_words: int, projective: bool = False) -> Summation: ...

class Query(Worker):
    def __new__(cls, max_words: int) -> Query: ...

def sum_batch(
    scores: NDArray[np.floating[Any]],
    allowed: NDArray[np.uint8] | None,
    lengths: NDArray[np.intp],
    single_root: bool,
    summations: list[Summation],
    summaries: NDArray[np.float64],
    marginals: NDArray[np.float64] | None = None,
    with_entropy: bool = False,
    resume: bool = False,
    allow_no_tree: bool = False,
) -> tuple[int, int]: ...
def log_prob_batch(
    scores: NDArray[np.floating[Any]],
    allowed: NDArray[np.uint8] | None,
    lengths: NDArray[np.intp],
    single_root: bool,
    queries: list[Query],
    summaries: NDArray[np.float64],
    heads: NDArray[np.int32],
    out: NDArray[np.float64],
) -> tuple[int, int]: ...
def cross_entropy_batch(
    scores: NDArray[np.floating[Any]],
    allowed: NDArray[np.uint8] | None,
    lengths: NDArray[np.intp],
    single_root: bool,
    queries: list[Query],
    summaries: NDArray[np.float64],
    marginals: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None: ...
def expectation_batch(
    values: NDArray[np.floating[Any]],
    lengths: NDArray[np.intp],
    queries: list[Query],
    marginals: NDArray[np.float64],
    out: NDArray[np.float64],
) -> tuple[int, int]: ...
def log_ratio_batch(
    lengths: NDArray[np.intp],
    part: NDArray[np.float64],
    whole: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None: ...
