import numpy as np
from numpy.typing import NDArray

from spacy_rootmind.kernel.arrays import Bytes, Heads, Sizes

LABEL_SETS: tuple[str, ...]
TAG_SETS: tuple[str, ...]

TAG: int
FIXED_UNDER_NAME: int
LEFTWARD: int
CHILD: int
SUBJECTS: int
OBJECTS: int
GAP_IN_WORD: int
UNSPACED_PART: int
CROSSED_PUNCTUATION: int
OBL_OF_NOMINAL: int

class RuleTables:
    def __new__(
        cls, fits_tag: Bytes, fits_parent: Bytes, label_sets: Bytes, tag_sets: Bytes
    ) -> RuleTables: ...
    def find_broken(
        self, words: NDArray[np.int8], places: Sizes, sizes: Sizes, heads: Heads, labels: Heads
    ) -> NDArray[np.uint16]: ...
