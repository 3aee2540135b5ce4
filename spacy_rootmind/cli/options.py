"""The options of the commands, and what is made of them."""

# Typer reads annotations at run time, so this file cannot use `from __future__ import annotations`.
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, TypeVar

import typer
from typer import Argument, Option

from spacy_rootmind.formats.registry import (
    BULK_INPUTS,
    BULK_OUTPUTS,
    PARQUET,
    PARSE_INPUTS,
    PARSE_OUTPUTS,
)
from spacy_rootmind.parameters import descriptions, with_fields
from spacy_rootmind.parsing.settings import ParserSettings, RunError, choice

STDOUT = "-"


Pipeline = Annotated[
    str, Argument(metavar="PIPELINE", help="Pipeline with root_mst: a folder or a package")
]
Overrides = Annotated[
    list[str] | None,
    Option(
        "--set",
        metavar="NAME=VALUE",
        help="Change a setting of the pipeline's config, for example "
        "components.root_mst.temperature=1.5; may be repeated",
    ),
]
Force = Annotated[bool, Option("--force", "-F", help="Overwrite the output")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Print warnings and errors only")]


@dataclass(frozen=True)
class ParseOptions:
    """Options of `parse`."""

    settings: ParserSettings
    inputs: Annotated[list[str], Argument(metavar="INPUT")] = field(default_factory=list)
    """Files to parse; - for stdin."""
    texts: Annotated[list[str], Option("--text", metavar="TEXT")] = field(default_factory=list)
    """A text to parse instead of files; may be repeated."""
    output: Annotated[str, Option("--output", "-o")] = STDOUT
    """File to write; - for stdout."""
    from_format: Annotated[str | None, choice("--from", "-f", of=PARSE_INPUTS)] = None
    """Input format; by default from the suffix."""
    to_format: Annotated[str | None, choice("--to", "-t", of=PARSE_OUTPUTS)] = None
    """Output format; by default from the suffix; tree, the default for --text, is drawn for
    reading.
    """
    force: Force = False
    quiet: Quiet = False

    def __post_init__(self) -> None:
        if bool(self.inputs) == bool(self.texts):
            received = "both" if self.texts else "neither"
            raise ValueError(f"expected files to parse or --text, received {received}")

    @property
    def is_stdout(self) -> bool:
        """Whether the output is printed."""
        return self.output == STDOUT

    @property
    def output_name(self) -> str:
        """Name of the output in messages."""
        return "stdout" if self.is_stdout else self.output


@dataclass(frozen=True)
class BulkOptions:
    """Options of `bulk`."""

    settings: ParserSettings
    inputs: Annotated[list[str], Argument(metavar="INPUT")]
    """Files, folders, patterns or URLs to parse."""
    output: Annotated[str, Option("--output", "-o")]
    """Folder or URL to write."""
    from_format: Annotated[str | None, choice("--from", "-f", of=BULK_INPUTS)] = None
    """Input format; by default from the suffix."""
    to_format: Annotated[str, choice("--to", "-t", of=BULK_OUTPUTS)] = PARQUET
    """Output format."""
    text_column: Annotated[str, Option()] = "text"
    """Column of texts in Parquet."""
    tokens_column: Annotated[str, Option()] = "tokens"
    """Column of tokens in Parquet."""
    id_column: Annotated[str, Option()] = "id"
    """Column that identifies documents in Parquet."""
    part_size: Annotated[int | None, Option("--part-size", metavar="BYTES", min=1)] = None
    """Size of the parts that the input is cut into; when a process dies, its part is parsed again;
    by default up to 4 MiB.
    """
    n_workers: Annotated[int | None, Option("--n-workers", "-n", min=1)] = None
    """Processes, without --scheduler; by default one per core."""
    scheduler: Annotated[str | None, Option("--scheduler", metavar="ADDRESS")] = None
    """Run on the workers of this dask scheduler, such as tcp://host:8786."""
    quiet: Quiet = False


@dataclass(frozen=True)
class ConfigOptions:
    """Options of `init-config`."""

    lang: Annotated[str, Option("--lang", "-l")] = "en"
    """Code of the language in spaCy."""
    pipeline: Annotated[str, Option("--pipeline", "-p", metavar="NAMES")] = "root_mst"
    """Components, separated by commas, without tok2vec and transformer."""
    transformer: Annotated[str | None, Option("--transformer", "-t", metavar="ENCODER")] = None
    """Fine-tune this encoder with spacy-transformers: a name on Hugging Face's hub, or a folder."""
    curated: Annotated[str | None, Option("--curated", metavar="ENCODER")] = None
    """Fine-tune this encoder with spacy-curated-transformers."""
    vectors: Annotated[str | None, Option("--vectors", metavar="NAME")] = None
    """Pipeline with word vectors: a folder or a package."""
    ud: Annotated[bool, Option("--ud")] = False
    """For Universal Dependencies: make trees keep its guidelines, and parts of speech agree with
    the labels.
    """
    fit_tokenizer: Annotated[bool, Option("--fit-tokenizer")] = False
    """Fit the tokenizer to the training corpus."""

    @property
    def names(self) -> list[str]:
        """The components."""
        return [name.strip() for name in self.pipeline.split(",") if name.strip()]

    @property
    def encoder(self) -> str | None:
        """The kind of transformer, if there is one."""
        kinds = ("transformer", "curated")
        return next((kind for kind in kinds if getattr(self, kind) is not None), None)


Command = TypeVar("Command", bound=Callable[..., Any])
Options = TypeVar("Options", ParseOptions, BulkOptions)


def with_options(*classes: type) -> Callable[[Command], Command]:
    """Give a command the fields of dataclasses as options, with the texts below them as help."""
    for cls in classes:
        texts = descriptions(cls)
        for each in fields(cls):
            for option in getattr(each.type, "__metadata__", ()):
                option.help = option.help or texts.get(each.name, "").rstrip(".")
    return with_fields(*classes)


def make_options(kind: type[Options], overrides: list[str] | None, **values: Any) -> Options:
    """Make the options of a command from the values of its parameters.

    The pipeline and the code get absolute paths, since workers may run elsewhere.
    """
    names = ParserSettings.__dataclass_fields__
    settings = {name: values.pop(name) for name in list(values) if name in names}
    if os.path.exists(settings["pipeline"]):
        settings["pipeline"] = os.path.abspath(settings["pipeline"])
    if settings["code"] is not None:
        settings["code"] = os.path.abspath(settings["code"])
    settings["overrides"] = read_settings(overrides or [])
    try:
        return kind(ParserSettings(**settings), **values)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def read_settings(settings: list[str]) -> dict[str, Any]:
    """Read settings NAME=VALUE; values that are not JSON are taken as strings."""
    found = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or "." not in name:
            raise RunError(
                f"Expected --set NAME=VALUE with a name like components.root_mst.confidence, "
                f"received {setting!r}"
            )
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found
