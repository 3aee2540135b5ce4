import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.kernel.decode_batch import Decoder

class TreeDecoder(Decoder): ...

def form_trees(
    heads: NDArray[np.int32],
    lengths: NDArray[np.intp],
    single_root: bool,
    out: NDArray[np.uint8],
) -> None: ...
def are_projective(
    heads: NDArray[np.int32],
    lengths: NDArray[np.intp],
    out: NDArray[np.uint8],
) -> None: ...
