"""Settings in the config of a pipeline: the blocks of functions, and the blocks of components."""

import gc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import srsly
from spacy.language import Language
from spacy.pipeline import Pipe
from spacy.util import registry


@dataclass(frozen=True)
class RegisteredFunction:
    """What a registered function returns, with the block of a config that asks for it.

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

        Raises
        ------
        ValueError
            If the block is not that of a registered function that returns a function.
        """
        block = dict(config)
        names = [value for key, value in block.items() if str(key).startswith("@")]
        if len(names) != 1 or not isinstance(names[0], str):
            raise ValueError("a block has one name of a registered function")
        if not srsly.is_json_serializable(block):
            raise ValueError("a config cannot have these values")
        function = registry.resolve({"function": block})["function"]
        if isinstance(function, cls):
            return function
        if not callable(function):
            raise ValueError(f"the registered function returns {function!r}")
        return cls(block, function)


def component_blocks(component: Pipe) -> Iterator[dict[str, Any]]:
    """Find the block of a component in the config of each pipeline that has it.

    spaCy does not tell a component where it is: `add_pipe(source=...)` puts it into a second
    pipeline, and unpickling makes a new one. So all pipelines there are have to be looked at, which
    takes tens of milliseconds.
    """
    for nlp in gc.get_objects():
        # `isinstance` would ask proxies of other packages for their class. A pipeline that another
        # thread is making has no components yet.
        if issubclass(type(nlp), Language) and hasattr(nlp, "components"):
            for name, pipe in nlp.components:
                if pipe is component:
                    yield nlp.get_pipe_config(name)
