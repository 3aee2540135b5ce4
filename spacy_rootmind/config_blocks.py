"""Functions in the config of a pipeline."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import srsly
from spacy.util import registry

# By setting: what its function is called with, and this package's functions for it.
KINDS = {
    "guidelines": (("labels",), ("ud_guidelines",)),
    "constraints": (("doc",), ("preset_heads",)),
    "alternatives": (("scores", "words"), ("kbest", "sample", "sample_without_replacement")),
    "scorer": (("examples",), ("parser_scorer",)),
}
KIND_OF = {f"spacy_rootmind.{each}.v1": kind for kind, (_, own) in KINDS.items() for each in own}


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


def require_kind(setting: str, function: Callable) -> None:
    """Refuse a function that is for another setting, or is called with other arguments.

    Raises ValueError if it is one of this package for another setting, or cannot be called with as
    many arguments.
    """
    name = function.config.get("@misc", "") if isinstance(function, RegisteredFunction) else ""
    kind, (arguments, _) = KIND_OF.get(name), KINDS[setting]
    if kind != setting and (kind is not None or not _accepts(function, arguments)):
        ours = [name for name, other in KIND_OF.items() if other == setting]
        raise ValueError(
            f"expected {setting} as {', '.join(ours)} or another function that is called with "
            f"({', '.join(arguments)}), received {getattr(function, 'config', function)!r}"
            + ("" if kind is None else f", which is for {kind}")
        )


def _accepts(function: Callable, arguments: Sequence[str]) -> bool:
    """Tell whether a function can be called with these arguments, by position."""
    if isinstance(function, RegisteredFunction):
        function = function.function
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError:
        return False
    except ValueError:
        # Some functions of C have no signature.
        return True
    return True
