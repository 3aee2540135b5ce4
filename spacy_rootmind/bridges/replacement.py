"""Replacement of a function in all modules of another package."""

import importlib
import sys
from collections.abc import Callable
from typing import Any


class Replacement:
    """A function of another package, and the one of ours that replaces it.

    Parameters
    ----------
    module : str
        Where the package defines its function.
    name : str
        The function's name there.
    function : callable
        The replacement.
    """

    def __init__(self, module: str, name: str, function: Callable[..., Any]):
        self.module = module
        self.name = name
        self.function = function
        self._original: Callable[..., Any] | None = None

    def install(self) -> None:
        """Replace the function, also in modules that have imported it; may be called repeatedly.

        Raises
        ------
        ImportError
            If the package is not installed, or has no such function.
        """
        original = getattr(importlib.import_module(self.module), self.name, None)
        if original is None:
            raise ImportError(
                f"expected a function {self.name} in {self.module}; the installed version of this "
                f"package has none, so its decoder cannot be replaced"
            )
        if original is not self.function:
            self._original = original
            self._swap(original, self.function)

    def uninstall(self) -> None:
        """Restore the package's own function; may be called repeatedly."""
        if self._original is not None:
            self._swap(self.function, self._original)
            self._original = None

    def _swap(self, old: Callable[..., Any], new: Callable[..., Any]) -> None:
        package = self.module.partition(".")[0]
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] == package:
                for attribute, value in list(vars(module).items()):
                    if value is old:
                        setattr(module, attribute, new)
