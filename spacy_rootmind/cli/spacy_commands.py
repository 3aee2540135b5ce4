"""Commands of `python -m spacy`, loaded through spaCy's entry point `spacy_cli`."""

# Typer reads annotations at run time, so this file cannot use `from __future__ import annotations`.
# An error on import would break all of spaCy's commands, so the command imports what it needs when
# it runs.
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from spacy_rootmind.cli.app import init_config_command
from spacy_rootmind.compat import debug_cli, init_cli


@contextmanager
def errors_as_messages() -> Iterator[None]:
    """Print an error as a message, and exit."""
    from spacy_rootmind.cli.errors import CommandError
    from spacy_rootmind.cli.messages import Messages

    try:
        yield
    except CommandError as error:
        Messages().fail(error.title, error.text)
        sys.exit(1)


@init_cli.command("root-mst-config")
@wraps(init_config_command)
def init_root_mst_config(*args: Any, **options: Any) -> None:  # noqa: D103
    with errors_as_messages():
        init_config_command(*args, **options)


@debug_cli.command(
    "root-mst", context_settings={"allow_extra_args": True, "ignore_unknown_options": True}
)
def debug_root_mst(
    ctx: typer.Context,
    config_path: Annotated[Path, Argument(help="Path to config file", exists=True)],
    code_path: Annotated[
        Path | None,
        Option(
            "--code",
            "-c",
            help="Path to Python file with additional code (registered functions) to be imported",
        ),
    ] = None,
    limit: Annotated[
        int, Option("--limit", "-l", min=0, help="Examples to read from each corpus; 0 for all")
    ] = 0,
    as_json: Annotated[bool, Option("--json", "-j", help="Print the report as JSON")] = False,
) -> None:
    """Check training and development data for the component root_mst: trees, labels, sentences,
    and gold heads that are lost because the tokenizer merges tokens.

    Override settings of the config as usual: --paths.train corpus/train.spacy
    """  # noqa: D205
    from spacy_rootmind.cli.check import debug
    from spacy_rootmind.compat import import_code, parse_config_overrides

    overrides = parse_config_overrides(ctx.args)
    import_code(code_path)
    with errors_as_messages():
        code = debug(config_path, overrides, limit=limit, as_json=as_json)
    sys.exit(code)
