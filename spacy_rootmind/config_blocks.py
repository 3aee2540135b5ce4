"""Functions in the config of a pipeline."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import srsly
from spacy.util import registry


@dataclass(frozen=True)
class RegisteredFunction:
    """A function's result, with the block of a config that names the function.

    Attributes
    ----------
    config : dict
        The block: `{"@misc": "spacy_rootmind.kbest.v1", "k": 3}`.
    function : callable
    """

    config: dict[str, Any]
    function: Callable = field(repr=False)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self.function(*args, **kwargs)

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "RegisteredFunction":
        """Make the function that a block asks for.

        Raises ValueError if the block is not that of a registered function that returns a function.
        """
        block = dict(config)
        names = [value for key, value in block.items() if str(key).startswith("@")]
        if len(names) != 1 or not isinstance(names[0], str):
            raise ValueError(
                'a block must have exactly one key that starts with "@", such as "@misc", and its '
                "value must be the name of a registered function"
            )
        if not srsly.is_json_serializable(block):
            raise ValueError("the values of a block must be ones that JSON can hold")
        function = registry.resolve({"function": block})["function"]
        if isinstance(function, cls):
            return function
        if not callable(function):
            raise ValueError(f"the registered function returns {function!r}")
        return cls(block, function)
