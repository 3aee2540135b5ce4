import numpy as np
from numpy.typing import NDArray

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
        cls,
        fits_tag: NDArray[np.uint8],
        fits_parent: NDArray[np.uint8],
        label_sets: NDArray[np.uint8],
        tag_sets: NDArray[np.uint8],
    ) -> RuleTables: ...
    def find_broken(
        self,
        words: NDArray[np.int8],
        places: NDArray[np.intp],
        sizes: NDArray[np.intp],
        heads: NDArray[np.int32],
        labels: NDArray[np.int32],
    ) -> NDArray[np.uint16]: ...
