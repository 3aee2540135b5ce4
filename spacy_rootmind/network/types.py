"""Names for the network's arrays, which say their rank and what they hold.

They are NumPy's or CuPy's. No one type covers both, and Thinc's own protocols leave out much of
what either can do (indexing by arrays, `keepdims`), so a type checker is told nothing more here.
"""

from typing import Any, TypeAlias

Floats1d: TypeAlias = Any
Floats2d: TypeAlias = Any
Floats3d: TypeAlias = Any
Ints1d: TypeAlias = Any
Ints2d: TypeAlias = Any
