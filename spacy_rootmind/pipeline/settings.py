"""The settings of `root_mst`, the values that each may have, and how they are changed."""

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, get_args

import numpy as np
from spacy.language import Language

from spacy_rootmind.annotation.line_starts import LineEnds
from spacy_rootmind.pipeline.config_blocks import RegisteredFunction, require_kind
from spacy_rootmind.training.losses import MARGIN

Objective = Literal["tree_crf", "head_selection", "perceptron"]
Sentences = Literal["auto", "given", "doc"]
Decode = Literal["tree", "labelled_tree"]

# Checks a value and returns it, or raises ValueError with the name.
Check = Callable[[str, Any], Any]


# --- checks ------------------------------------------------------------------------------------


def _choice(literal: Any) -> Check:
    allowed = get_args(literal)

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


def _flag(name: str, value: Any, also: str = "") -> Any:
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"expected {name} to be {also}True or False, received {value!r}")
    return bool(value)


def _line_ends(name: str, value: Any) -> Any:
    return value if isinstance(value, str) and value == "items" else _flag(name, value, '"items", ')


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
    if not _is_number(value) or not 0 <= value <= 1:
        raise ValueError(f"expected {name} as a probability from 0 to 1, received {value!r}")
    return float(value)


def _function(name: str, value: Any, *, also: str = "") -> Any:
    reason = ""
    if isinstance(value, Mapping):
        try:
            value = RegisteredFunction.from_config(value)
        except ValueError as error:
            reason = f": {error}"
    if not callable(value):
        raise ValueError(
            f'expected {name} as {also}a function, the block of a config such as {{"@misc": '
            f'"my_function.v1"}}, or None, received {value!r}{reason}'
        )
    require_kind(name, value)
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


# --- settings ----------------------------------------------------------------------------------


@dataclass
class Settings:
    """What a user can set on the component; checked when made, and not changed after that.

    `factory.make_root_mst` documents each setting, and gives the same names and types to spaCy.

    Raises
    ------
    ValueError
        If a value is not allowed; the message gives the setting, what is allowed and the value.
    AttributeError
        If a setting is assigned.
    """

    objective: Objective = field(default="tree_crf", metadata={"check": _choice(Objective)})
    margin: float = field(default=MARGIN, metadata={"check": _not_negative})
    sentences: Sentences = field(default="auto", metadata={"check": _choice(Sentences)})
    boundary_threshold: float = field(default=0.5, metadata={"check": _threshold})
    blank_lines: bool = field(default=True, metadata={"check": _flag})
    line_ends: LineEnds = field(default=False, metadata={"check": _line_ends})
    max_sentence_length: int = field(default=512, metadata={"check": _count})
    decode: Decode = field(default="labelled_tree", metadata={"check": _choice(Decode)})
    projective: bool = field(default=False, metadata={"check": _flag})
    guidelines: Callable | None = field(default=None, metadata={"check": _optional(_function)})
    constraints: Callable | None = field(default=None, metadata={"check": _optional(_function)})
    temperature: float | None = field(default=None, metadata={"check": _optional(_positive)})
    confidence: bool = field(default=False, metadata={"check": _flag})
    arc_threshold: float | None = field(default=None, metadata={"check": _optional(_probability)})
    alternatives: Callable | None = field(default=None, metadata={"check": _optional(_function)})
    distribution_threshold: float | None = field(
        default=None, metadata={"check": _optional(_probability)}
    )
    noun_chunks: str | Callable | None = field(
        default="auto", metadata={"check": _optional(_noun_chunks)}
    )
    learn_rate_factor: float = field(default=1.0, metadata={"check": _positive})

    def __setattr__(self, name: str, value: Any) -> None:
        # Only while it is made: a setting that changed here alone would not be saved.
        if name in vars(self) or name not in CHECKS:
            raise AttributeError(how_to_change(name))
        object.__setattr__(self, name, CHECKS[name](name, value))

    def __post_init__(self) -> None:
        if self.projective and self.distribution_threshold is not None:
            raise ValueError(
                "expected distribution_threshold as None where projective is true, received "
                f"{self.distribution_threshold!r}: students learn distributions over all trees"
            )

        if self.guidelines is not None and self.decode != "labelled_tree":
            raise ValueError(
                f'expected decode as "labelled_tree" where there are guidelines, received '
                f"{self.decode!r}: they are about labels too"
            )

    @property
    def finds_details(self) -> bool:
        """Whether parses come with probabilities, alternatives or distributions."""
        optional = self.arc_threshold, self.alternatives, self.distribution_threshold
        return self.confidence or any(setting is not None for setting in optional)

    @property
    def needs_attributes(self) -> bool:
        """Whether there is something for extension attributes to read."""
        return self.finds_details or self.guidelines is not None

    def as_config(self) -> dict[str, Any]:
        """Return the settings as in a config, and functions as they are if they have no block."""
        return {
            name: copy.deepcopy(value.config) if isinstance(value, RegisteredFunction) else value
            for name, value in vars(self).items()
        }


CHECKS: dict[str, Check] = {each.name: each.metadata["check"] for each in fields(Settings)}


def default_settings() -> dict[str, Any]:
    """Return the default of each setting, as for a config."""
    return {each.name: each.default for each in fields(Settings)}


def how_to_change(name: str) -> str:
    """Say how a setting is changed, or which there are."""
    if name in CHECKS:
        return (
            f"the setting {name!r} cannot be changed in place: call "
            f"`spacy_rootmind.configure(nlp, {name}=...)`, which changes the component and the "
            f"config that is saved with the pipeline; to change the component alone, assign a copy "
            f"to its `settings`, `dataclasses.replace(settings, {name}=...)`"
        )
    return f"root_mst has no setting {name!r}, expected one of {', '.join(CHECKS)}"


def find_parser(nlp: Language, name: str | None = None) -> tuple[str, Any]:
    """Find a parser among the components of a pipeline, disabled ones included.

    Parameters
    ----------
    nlp : Language
    name : str, optional
        Its name. By default it is the only `root_mst`, or else the one of that name.

    Returns
    -------
    name, parser

    Raises
    ------
    ValueError
        If there is no component of this name, it is no `root_mst`, or there are several to choose
        from.
    """
    pipes = dict(nlp.components)
    parsers = {
        other: pipe
        for other, pipe in pipes.items()
        if isinstance(getattr(pipe, "settings", None), Settings)
    }
    if name is None:
        name = next(iter(parsers)) if len(parsers) == 1 else "root_mst"
    if name not in parsers:
        found = repr(pipes[name]) if name in pipes else f"the components {nlp.component_names}"
        raise ValueError(f"expected a root_mst called {name!r}, found {found}")
    return name, parsers[name]


def configure(nlp: Language, pipe: str | None = None, **settings: Any) -> None:
    """Change settings of a parser, and the pipeline's config, so that they are saved with it.

    A parser that two pipelines share, as after `add_pipe(source=...)`, is changed for both; the
    config is that of the given one alone.

    Parameters
    ----------
    nlp : Language
    pipe : str, optional
        Name of the component; needed if there are several, none of which is called `root_mst`.
    **settings
        As in a config; see `spacy_rootmind.pipeline.factory.make_root_mst`. Functions are those of
        this package, or the block of a config that names a registered function.

    Raises
    ------
    ValueError
        If there is no `root_mst` of this name, or a setting does not exist, has a value that is not
        allowed, or a function that a config cannot name. Nothing has changed then.

    Examples
    --------
    >>> import spacy
    >>> nlp = spacy.blank("en")
    >>> parser = nlp.add_pipe("root_mst")
    >>> configure(nlp, confidence=True, decode="tree")
    >>> nlp.config["components"]["root_mst"]["confidence"]
    True
    """
    pipe, parser = find_parser(nlp, pipe)
    for name in settings:
        if name not in CHECKS:
            raise ValueError(f"[{pipe}] {how_to_change(name)}")
    try:
        after = replace(parser.settings, **settings)
    except ValueError as error:
        raise ValueError(f"[{pipe}] {error}") from error
    in_config = {name: value for name, value in after.as_config().items() if name in settings}
    for name, value in in_config.items():
        if callable(value):
            raise ValueError(
                f"[{pipe}] expected {name} as a value that a config can have, received {value!r}: "
                f"register a function that returns it, and give the block that names it, such as "
                f'{{"@misc": "my_function.v1"}}'
            )
    parser.settings = after
    parser.saved_settings.update(in_config)
    nlp.get_pipe_config(pipe).update(copy.deepcopy(in_config))
