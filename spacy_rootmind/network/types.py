"""Type names for the network's arrays, by rank and content, and for Docs.

Arrays are NumPy's or CuPy's. No type covers both, and Thinc's protocols leave out much of what
either can do (indexing by arrays, `keepdims`), so these names say nothing to a type checker. Docs
are only handed on to the token vectors.
"""

from typing import Any, TypeAlias

Floats1d: TypeAlias = Any
Floats2d: TypeAlias = Any
Floats3d: TypeAlias = Any
Ints1d: TypeAlias = Any
Ints2d: TypeAlias = Any
Docs: TypeAlias = Any
