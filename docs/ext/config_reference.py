"""Settings and registered functions, from the objects that read them from a config."""

import inspect
import re
from collections.abc import Iterator
from dataclasses import Field, fields
from importlib.metadata import EntryPoint, distribution

import spacy
from markdown import block, code, table
from thinc.api import Config

from spacy_rootmind.network.architecture import build_biaffine_parser
from spacy_rootmind.pipeline.settings import Settings, describe

# The registries of the entry points, as configs name them, and their headings.
REGISTRIES = {
    "spacy_misc": "misc",
    "spacy_readers": "readers",
    "spacy_callbacks": "callbacks",
    "spacy_scorers": "scorers",
    "thinc_optimizers": "optimizers",
    "spacy_architectures": "architectures",
    "spacy_factories": "factory",
}
# Described by the other parts.
ELSEWHERE = {"root_mst", "spacy_rootmind.BiaffineParser.v1"}


def describe_settings() -> str:
    """List what each setting of the component accepts, and its block with all defaults."""
    nlp = spacy.blank("en")
    nlp.add_pipe("root_mst")
    settings = {"factory": "root_mst", **nlp.get_pipe_config("root_mst")}
    # Set when the network is initialized.
    del settings["model"]["nO"]
    config = Config({"components": {"root_mst": settings}}).to_str()
    rows = [(code(each.name), accepted(each)) for each in fields(Settings)]
    config = config.removeprefix("[components]").strip()
    return table(("setting", "accepted"), rows) + "\nAll defaults:\n\n" + block("ini", config)


def accepted(setting: Field) -> str:
    """Return what a setting accepts, as the error says that refuses another value."""
    return re.sub(r"\{.*?\}", lambda match: code(match[0]), describe(setting))


def describe_network() -> str:
    """List types and defaults of the network's settings."""
    parameters = inspect.signature(build_biaffine_parser).parameters.values()
    rows = [
        (
            code(parameter.name),
            code(inspect.formatannotation(parameter.annotation)),
            "" if parameter.default is parameter.empty else code(parameter.default),
        )
        for parameter in parameters
    ]
    return table(("setting", "type", "default"), rows)


def describe_registered() -> str:
    """Describe all other functions that the package registers."""
    return "\n".join(
        f"({name})=\n## {code(name)}\n\nIn a config, `{line}`.\n\n"
        f"```{{eval-rst}}\n.. autofunction:: {target}\n```\n"
        for name, line, target in registered()
    )


def registered() -> Iterator[tuple[str, str, str]]:
    """Yield the name of each function, its line in a config and its path."""
    found = distribution("spacy-rootmind").entry_points
    for group, registry in REGISTRIES.items():
        points: list[EntryPoint] = [point for point in found if point.group == group]
        for point in sorted(points):
            if point.name not in ELSEWHERE:
                at = "" if registry == "factory" else "@"
                yield point.name, f'{at}{registry} = "{point.name}"', point.value.replace(":", ".")
