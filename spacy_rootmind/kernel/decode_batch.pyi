from typing import Any

import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.kernel.batch import Worker

class Decoder(Worker):
    def __new__(
        cls, max_words: int, single_root: bool, arcmax: bool, arcmax_inside: bool, *args: Any
    ) -> Decoder: ...

def decode_batch(
    scores: NDArray[np.floating[Any]],
    allowed: NDArray[np.uint8] | None,
    lengths: NDArray[np.intp],
    heads: NDArray[np.int32],
    decoders: list[Decoder],
) -> tuple[int, int]: ...
