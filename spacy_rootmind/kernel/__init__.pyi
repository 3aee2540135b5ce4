from typing import Any

# The compiled modules: their own signatures, in cython_src, are checked at each call.
def __getattr__(name: str) -> Any: ...
