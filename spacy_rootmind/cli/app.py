"""The commands of `python -m spacy_rootmind` and their options."""

# Typer reads the annotations of commands at run time: no `from __future__ import annotations`. What
# a command needs is imported when it runs, so that --help does not wait for spaCy.
import json
import os
import sys
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

COMMAND = "python -m spacy_rootmind"
HELP = """Parse with pipelines that have the component root_mst, and check treebanks for it."""

app = typer.Typer(
    name="spacy_rootmind",
    help=HELP,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


class InputFormat(str, Enum):
    """What `parse` reads."""

    text = "text"
    jsonl = "jsonl"
    conllu = "conllu"


class OutputFormat(str, Enum):
    """What `parse` writes."""

    conllu = "conllu"
    jsonl = "jsonl"
    spacy = "spacy"


class Alternatives(str, Enum):
    """Where alternative parses come from."""

    kbest = "kbest"
    sample = "sample"
    sample_without_replacement = "sample-without-replacement"


@app.command("parse", no_args_is_help=True)
def parse_command(
    pipeline: Annotated[
        str, Argument(metavar="PIPELINE", help="Folder or package of a pipeline with root_mst")
    ],
    inputs: Annotated[list[str], Argument(metavar="INPUT", help="Files to parse, or - for stdin")],
    output: Annotated[
        str, Option("--output", "-o", help="File or folder to write, or - for stdout")
    ] = "-",
    from_format: Annotated[
        InputFormat | None,
        Option("--from", "-f", help="Input format; by default told from .txt, .jsonl, .conllu"),
    ] = None,
    to_format: Annotated[
        OutputFormat | None,
        Option("--to", "-t", help="Output format; by default told from .conllu, .jsonl, .spacy"),
    ] = None,
    paragraphs: Annotated[
        bool, Option("--paragraphs", "-p", help="Texts are blocks between empty lines, not lines")
    ] = False,
    confidence: Annotated[
        bool | None,
        Option(
            "--confidence/--no-confidence",
            help="Write how sure the parser is; by default as the pipeline has it",
        ),
    ] = None,
    arcs: Annotated[
        float | None,
        Option(
            "--arcs",
            metavar="PROBABILITY",
            help="Write all arcs of at least this probability; by default as the pipeline has it",
        ),
    ] = None,
    alternatives: Annotated[
        Alternatives | None,
        Option("--alternatives", "-a", help="Write other parses as well; by default as above"),
    ] = None,
    k: Annotated[
        int, Option("-k", min=1, help="How many parses of a sentence, with --alternatives")
    ] = 5,
    seed: Annotated[int, Option(min=0, help="For samples, with --alternatives")] = 0,
    settings: Annotated[
        list[str] | None,
        Option(
            "--set",
            metavar="NAME=VALUE",
            help="Change a setting of the pipeline's config, such as "
            "components.root_mst.temperature=1.5; may be repeated",
        ),
    ] = None,
    code: Annotated[
        Path | None,
        Option("--code", "-c", help="Python file to import, with functions that it registers"),
    ] = None,
    gpu_id: Annotated[int, Option("--gpu-id", "-g", help="GPU, or -1 for the CPU")] = -1,
    batch_size: Annotated[
        int | None,
        Option("--batch-size", "-b", min=1, help="Texts at a time; by default the pipeline's"),
    ] = None,
    n_process: Annotated[
        int,
        Option("--n-process", "-n", min=-1, help="Processes; -1 for as many as there are cores"),
    ] = 1,
    strict: Annotated[bool, Option("--strict", help="Stop at the first record that fails")] = False,
    resume: Annotated[
        bool, Option("--resume", help="Go on with a run that did not finish, if there is one")
    ] = False,
    force: Annotated[bool, Option("--force", "-F", help="Overwrite the output")] = False,
    progress: Annotated[
        bool | None,
        Option("--progress/--no-progress", help="Show a bar; by default on a terminal"),
    ] = None,
    quiet: Annotated[bool, Option("--quiet", "-q", help="Only say what went wrong")] = False,
) -> None:
    """Parse texts, tokens or CoNLL-U, and write CoNLL-U, JSONL or Docs.

    text: one text a line. jsonl: objects with "text", or "tokens" (a list of strings, or of lists
    of strings for sentences); other fields are kept. conllu: one Doc a sentence; all but heads,
    labels and empty columns is kept.

    Docs are written as files of bounded size in a folder, or as one file, NAME.spacy, which takes
    memory for all of them at the end.

    A record that cannot be read or parsed is reported with its file and line, and the others go on;
    the exit code is then 1. Files are written as NAME.partial until they are complete.
    """
    from spacy_rootmind.cli.messages import CommandError
    from spacy_rootmind.cli.options import ParseOptions
    from spacy_rootmind.cli.parse import parse

    if n_process == 0:
        raise CommandError("Expected --n-process to be positive or -1, received 0")
    options = ParseOptions(
        pipeline=pipeline,
        inputs=inputs,
        output=output,
        from_format=from_format and from_format.value,
        to_format=to_format and to_format.value,
        paragraphs=paragraphs,
        confidence=confidence,
        arcs=arcs,
        alternatives=alternatives and alternatives.value,
        k=k,
        seed=seed,
        settings=read_settings(settings or []),
        code=code,
        gpu_id=gpu_id,
        batch_size=batch_size,
        n_process=n_process,
        strict=strict,
        resume=resume,
        force=force,
        progress=progress,
        quiet=quiet,
    )
    raise typer.Exit(parse(options))


@app.command("check", no_args_is_help=True)
def check_command(
    files: Annotated[
        list[Path],
        Argument(metavar="FILE", help="Treebanks: .conllu or .spacy, or folders of them"),
    ],
    max_sentence_length: Annotated[
        int | None, Option("--max-sentence-length", "-m", min=1, help="Report longer sentences")
    ] = None,
    as_json: Annotated[bool, Option("--json", "-j", help="Print the report as JSON")] = False,
) -> None:
    """Check treebanks before training: trees, labels, sentences.

    The first file with "train" in its name, or else the first, is taken for the training data:
    labels of the others that it lacks are reported.
    The exit code is 1 if there are errors, such as cycles, or several roots in a sentence.
    """
    from spacy_rootmind.cli.check import check

    raise typer.Exit(check(files, max_sentence_length=max_sentence_length, as_json=as_json))


def read_settings(settings: list[str]) -> dict[str, Any]:
    """Read NAME=VALUE, where a value is JSON, or else a string."""
    from spacy_rootmind.cli.messages import CommandError

    found = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or "." not in name:
            raise CommandError(
                f"Expected --set NAME=VALUE with a name like components.root_mst.confidence, "
                f"received {setting!r}"
            )
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


def main() -> None:
    """Run the command line; errors become messages and exit codes."""
    for stream in (sys.stdout, sys.stderr):
        # Where a terminal cannot show a letter, it is not worth an error.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    from spacy_rootmind.cli.messages import CommandError, Messages
    from spacy_rootmind.cli.processes import leave

    code = 1
    try:
        app(prog_name=COMMAND)
    except SystemExit as exit_:
        code = exit_.code if isinstance(exit_.code, int) else 0
    except CommandError as error:
        Messages().fail(error.title, error.text)
    except BrokenPipeError:
        # Whoever read along has gone, as `head` does. Nothing more can be said, and nobody asked.
        silence = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            os.dup2(silence, stream.fileno())
    leave(code)
