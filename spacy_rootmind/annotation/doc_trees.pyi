import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc

def set_trees(
    doc: Doc,
    heads: NDArray[np.int32],
    deps: NDArray[np.uint64],
    sentence_starts: NDArray[np.int32],
) -> None: ...
def has_extents(doc: Doc, start: int, extents: NDArray[np.int32]) -> bool: ...
def read_tokens(docs: list[Doc]) -> NDArray[np.uint64]: ...
