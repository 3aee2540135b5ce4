"""The commands of `python -m spacy_rootmind` and their options."""

# Typer reads annotations at run time, so this file cannot use `from __future__ import annotations`.
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer
from typer import Argument

from spacy_rootmind.cli.init_config import init_config
from spacy_rootmind.cli.messages import Messages
from spacy_rootmind.cli.options import (
    BulkOptions,
    ConfigOptions,
    Force,
    Overrides,
    ParseOptions,
    Pipeline,
    make_options,
    with_options,
)
from spacy_rootmind.cli.parse import parse
from spacy_rootmind.formats.lines import InputError
from spacy_rootmind.parsing.settings import ParserSettings, RunError

COMMAND = "python -m spacy_rootmind"

app = typer.Typer(
    name="spacy_rootmind",
    help="Make a training config with root_mst, or parse files.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.command("parse", no_args_is_help=True)
@with_options(ParseOptions, ParserSettings)
def parse_command(pipeline: Pipeline, overrides: Overrides = None, **values: Any) -> None:
    """Parse texts, tokens, CoNLL-U or Docs, and write CoNLL-U, JSONL or Docs.

    This command works as a filter, in one process. To parse on all cores, and to continue after a
    fault, use `bulk`.

    Input formats: text has one text per line, paragraphs one per paragraph. jsonl has one object
    per line, with "text" or "tokens" (a list of strings, or a list of lists of strings, one per
    sentence); other fields are kept. conllu becomes one Doc per sentence; heads, labels and columns
    without any value are replaced. Docs keep their sentences and everything that the pipeline does
    not set.

    Texts given with --text are drawn as trees, with the probability of each labelled arc in per
    cent. After "or" come other arcs to the word with a probability of at least 5 %, or that given
    by --arcs.

    Docs are kept in memory until all records are parsed; for more than that holds, use `bulk`.

    If a record cannot be read or parsed, its file and line are reported, the other records are
    still parsed, and the exit code is 1. A file is called NAME.partial until it is complete.
    """
    raise typer.Exit(parse(make_options(ParseOptions, overrides, pipeline=pipeline, **values)))


@app.command("bulk", no_args_is_help=True)
@with_options(BulkOptions, ParserSettings)
def bulk_command(pipeline: Pipeline, overrides: Overrides = None, **values: Any) -> None:
    """Parse a corpus of any size into a folder of Parquet, CoNLL-U, JSONL or Docs, with dask.

    Input is Parquet, or, as for `parse`, text, JSONL, CoNLL-U or Docs, also compressed (.gz, .zst).
    It is cut into parts by size, and each part becomes a file. After a fault, run the same command
    again: it parses only the missing parts.

    A document that cannot be read or parsed, or that kills its process each time, becomes a row
    with an error in Parquet, or is listed next to its part, and the exit code is 1.
    """
    options = make_options(BulkOptions, overrides, pipeline=pipeline, **values)
    try:
        from spacy_rootmind.cli.bulk import bulk
    except ImportError as error:
        raise RunError(
            f"Cannot import {error.name}",
            "Install what `bulk` needs: python -m pip install pyarrow distributed fsspec",
        ) from error
    raise typer.Exit(bulk(options))


@app.command("init-config", no_args_is_help=True)
@with_options(ConfigOptions)
def init_config_command(
    output: Annotated[Path, Argument(metavar="OUTPUT", help="Config to write; - for stdout")],
    force: Force = False,
    **values: Any,
) -> None:
    """Write a config that trains a pipeline with root_mst, without further settings.

    Like spaCy's `init config`, but with root_mst instead of parser: all components share a tok2vec
    or a transformer, and training has the settings that root_mst was measured with.
    Without other components, root_mst has token vectors of its own.
    """
    init_config(output, ConfigOptions(**values), force=force)


class Interrupted(BaseException):
    """A signal to stop. A `BaseException`, so that no component handles it as an error."""


def stop(number: int, frame: FrameType | None) -> NoReturn:
    """Handle a signal to stop: files that are not complete are removed on the way out."""
    raise Interrupted(number)


def main() -> None:
    """Run the command line; turn errors into messages and exit codes."""
    for stream in (sys.stdout, sys.stderr):
        # A character that the terminal cannot show is escaped instead of raising an error.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, stop) for number in signals]
    try:
        app(prog_name=COMMAND)
    except Interrupted as error:
        fail("Interrupted: run the same command again")
        sys.exit(128 + error.args[0])
    except RunError as error:
        fail(error.title, error.text)
    except InputError as error:
        fail(f"Cannot read the input: {error}")
    except BrokenPipeError:
        # The reader of the output has closed it, as `head` does: exit without a message.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            os.dup2(nowhere, stream.fileno())
    except OSError as error:
        fail(f"Cannot read or write: {error}")
    finally:
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)
    # Otherwise, Typer has ended the program.
    sys.exit(1)


def fail(title: str, text: str = "") -> None:
    """Report an error."""
    Messages().show("fail", title, text)
