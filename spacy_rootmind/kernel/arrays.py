"""Types of arrays in the kernel's stubs."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Keys = NDArray[np.uint32]
Heads = NDArray[np.int32]
Sizes = NDArray[np.intp]
Singles = NDArray[np.float32]
Doubles = NDArray[np.float64]
Scores = NDArray[np.floating[Any]]
