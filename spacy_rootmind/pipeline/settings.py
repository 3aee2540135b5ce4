"""The settings of `root_mst`: their defaults, and the values that each may have."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from spacy_rootmind.pipeline.config_blocks import RegisteredFunction
from spacy_rootmind.training.losses import MARGIN, OBJECTIVES

SENTENCES = ("auto", "given", "doc")
DECODE = ("tree", "labelled_tree")

# Checks a value and returns it, or raises ValueError with the name.
Check = Callable[[str, Any], Any]


@dataclass
class Settings:
    """What a user can set on the component, checked when made and whenever assigned.

    Adding a setting means adding a field and its check here; the factory and the component take
    both from this class. `factory.make_root_mst` documents each setting.

    Raises
    ------
    ValueError
        If a value is not allowed; the message gives the setting, what is allowed and the value.
    """

    objective: str = "tree_crf"
    margin: float = MARGIN
    sentences: str = "auto"
    boundary_threshold: float = 0.5
    blank_lines: bool = True
    max_sentence_length: int = 512
    decode: str = "labelled_tree"
    constraints: Callable | None = None
    temperature: float | None = None
    confidence: bool = False
    arc_threshold: float | None = None
    alternatives: Callable | None = None
    distribution_threshold: float | None = None
    noun_chunks: str | Callable | None = "auto"
    learn_rate_factor: float = 1.0

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in CHECKS:
            raise AttributeError(
                f"root_mst has no setting {name!r}, expected one of {', '.join(CHECKS)}"
            )
        object.__setattr__(self, name, CHECKS[name](name, value))

    @property
    def finds_details(self) -> bool:
        """Whether parses come with details."""
        optional = self.arc_threshold, self.alternatives, self.distribution_threshold
        return self.confidence or any(setting is not None for setting in optional)

    def as_config(self) -> dict[str, Any]:
        """Return the settings as in a config, and functions as they are if they have no block."""
        return {
            name: value.config if isinstance(value, RegisteredFunction) else value
            for name, value in vars(self).items()
        }


def default_settings() -> dict[str, Any]:
    """Return the default of each setting, as for a config."""
    return {field.name: field.default for field in fields(Settings)}


# --- checks ------------------------------------------------------------------------------------


def _choice(*allowed: str) -> Check:
    def check(name: str, value: Any) -> Any:
        if not isinstance(value, str) or value not in allowed:
            raise ValueError(
                f"expected {name} to be one of {', '.join(allowed)}, received {value!r}"
            )
        return value

    return check


def _count(name: str, value: Any) -> Any:
    is_integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not is_integer or value < 1:
        raise ValueError(f"expected {name} as an integer of at least 1, received {value!r}")
    return int(value)


def _flag(name: str, value: Any) -> Any:
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"expected {name} to be True or False, received {value!r}")
    return bool(value)


def _positive(name: str, value: Any) -> Any:
    if not _is_number(value) or not 0 < value < math.inf:
        raise ValueError(f"expected {name} as a number above 0, received {value!r}")
    return float(value)


def _not_negative(name: str, value: Any) -> Any:
    if not _is_number(value) or not 0 <= value < math.inf:
        raise ValueError(f"expected {name} as a number of at least 0, received {value!r}")
    return float(value)


def _probability(name: str, value: Any) -> Any:
    if not _is_number(value) or not 0 < value <= 1:
        raise ValueError(
            f"expected {name} as a probability above 0 and at most 1, received {value!r}"
        )
    return float(value)


def _threshold(name: str, value: Any) -> Any:
    if not _is_number(value) or not 0 < value < 1:
        raise ValueError(f"expected {name} as a probability between 0 and 1, received {value!r}")
    return float(value)


def _function(name: str, value: Any, *, also: str = "") -> Any:
    reason = ""
    if isinstance(value, Mapping):
        try:
            return RegisteredFunction.from_config(value)
        except ValueError as error:
            reason = f": {error}"
    if not callable(value):
        raise ValueError(
            f'expected {name} as {also}a function, the block of a config such as {{"@misc": '
            f'"my_function.v1"}}, or None, received {value!r}{reason}'
        )
    return value


def _noun_chunks(name: str, value: Any) -> Any:
    is_auto = isinstance(value, str) and value == "auto"
    return value if is_auto else _function(name, value, also='"auto", ')


def _optional(check: Check) -> Check:
    def check_unless_none(name: str, value: Any) -> Any:
        return None if value is None else check(name, value)

    return check_unless_none


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


CHECKS: dict[str, Check] = {
    "objective": _choice(*OBJECTIVES),
    "margin": _not_negative,
    "sentences": _choice(*SENTENCES),
    "boundary_threshold": _threshold,
    "blank_lines": _flag,
    "max_sentence_length": _count,
    "decode": _choice(*DECODE),
    "constraints": _optional(_function),
    "temperature": _optional(_positive),
    "confidence": _flag,
    "arc_threshold": _optional(_probability),
    "alternatives": _optional(_function),
    "distribution_threshold": _optional(_probability),
    "noun_chunks": _optional(_noun_chunks),
    "learn_rate_factor": _positive,
}
