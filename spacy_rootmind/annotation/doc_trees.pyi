from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc

def set_trees(
    doc: Doc,
    heads: NDArray[np.int32],
    deps: NDArray[np.uint64],
    sentence_starts: NDArray[np.int32],
) -> None: ...
def join_trees(
    starts: NDArray[np.int64],
    words: NDArray[np.int64],
    heads: NDArray[np.int32],
    labels: NDArray[np.int32],
    space_label: int,
) -> tuple[NDArray[np.int32], NDArray[np.int32]]: ...
def read_tokens(docs: list[Doc]) -> NDArray[np.uint64]: ...
def read_words(
    sentences: list[tuple[Doc, NDArray[np.int64]]],
    number_of_pos: NDArray[np.int8],
    known: dict[int, tuple[int, bool, bool]],
    read_feats: Callable[[str], Any],
) -> NDArray[np.int8]: ...
