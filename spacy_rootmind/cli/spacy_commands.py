"""The command `python -m spacy debug root-mst`, loaded through the entry point `spacy_cli`."""

# Typer reads annotations at run time, so this file cannot use `from __future__ import annotations`.
# An error on import would break all of spaCy's commands, so the command imports what it needs when
# it runs.
import sys
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from spacy_rootmind.compat import debug_cli


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
) -> None:
    """Check training and development data for the component root_mst: trees, labels, sentences,
    and gold heads that are lost because the tokenizer merges tokens.

    Override settings of the config as usual: --paths.train corpus/train.spacy
    """  # noqa: D205
    from spacy_rootmind.cli.debug import check_corpora
    from spacy_rootmind.cli.errors import CommandError
    from spacy_rootmind.cli.messages import Messages
    from spacy_rootmind.compat import import_code, parse_config_overrides

    overrides = parse_config_overrides(ctx.args)
    import_code(code_path)
    try:
        code = check_corpora(config_path, overrides)
    except CommandError as error:
        Messages().show("fail", error.title, error.text)
        code = 1
    sys.exit(code)
