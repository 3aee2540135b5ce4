import numpy as np
from numpy.typing import NDArray

class SearchSpace:
    def __new__(
        cls,
        arcs: NDArray[np.float64],
        weights: NDArray[np.float64],
        labels: NDArray[np.int32],
        mask: NDArray[np.uint8],
    ) -> SearchSpace: ...
    def add_labels(
        self, deps: NDArray[np.intp], heads: NDArray[np.intp], log_probs: NDArray[np.float64]
    ) -> None: ...
    def highest(self, word: int, left: NDArray[np.uint8] | None) -> float: ...
    def split(
        self,
        word: int,
        left: NDArray[np.uint8] | None,
        heads: NDArray[np.uint8],
        labels: NDArray[np.uint8],
        holds: bool,
    ) -> tuple[NDArray[np.uint8], NDArray[np.uint8], float]: ...
    def rivals(self, word: int, left: NDArray[np.uint8] | None, count: int) -> list[int]: ...
    def decode(
        self, left: dict[int, NDArray[np.uint8]], single_root: bool, projective: bool
    ) -> tuple[int, NDArray[np.int32], NDArray[np.int32], float, float, list[int]]: ...
