"""Functions whose parameters are the fields of dataclasses, so that each is spelled once.

spaCy reads the parameters of a factory, and Typer the parameters of a command: names, types
and defaults.
"""

import ast
import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from inspect import Parameter
from itertools import pairwise
from typing import Annotated, Any, TypeVar, get_origin

Function = TypeVar("Function", bound=Callable[..., Any])


def with_fields(*classes: type) -> Callable[[Function], Function]:
    """Give a function that has `**values` a keyword parameter for each field of dataclasses.

    Fields are those with an `Annotated` type. They come before the function's own parameters that
    have a default.
    """

    def replace_parameters(function: Function) -> Function:
        signature = inspect.signature(function)
        own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
        listed = {
            each.name: _parameter(each)
            for cls in classes
            for each in fields(cls)
            if get_origin(each.type) is Annotated
        }
        required = [each for each in own if each.default is each.empty]
        optional = [each.replace(kind=each.KEYWORD_ONLY) for each in own if each not in required]
        signature = signature.replace(parameters=[*required, *listed.values(), *optional])
        function.__signature__ = signature  # type: ignore[attr-defined]
        function.__annotations__ |= {name: each.annotation for name, each in listed.items()}
        return function

    return replace_parameters


def _parameter(field: Field) -> Parameter:
    default = Parameter.empty if field.default is MISSING else field.default
    if field.default_factory is not MISSING:
        default = field.default_factory()
    return Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=field.type)


def descriptions(cls: type) -> dict[str, str]:
    """Read the text below each field of a dataclass, as one line, from its source, if installed."""
    try:
        made: Any = ast.parse(inspect.getsource(cls)).body[0]
    except OSError:
        return {}
    return {
        ast.unparse(field.target): " ".join(ast.literal_eval(text.value).split())
        for field, text in pairwise(made.body)
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr)
    }
