"""The commands of `python -m spacy_rootmind` and their options."""

# Typer reads annotations at run time, so this file cannot use `from __future__ import annotations`.
# Commands import what they need when they run, so that --help does not wait for spaCy.
import errno
import inspect
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from spacy_rootmind import __version__
from spacy_rootmind.formats.registry import (
    BULK,
    PARQUET,
    PARSE,
    input_formats,
    output_formats,
    suffixes_of,
)
from spacy_rootmind.parsing.settings import ALTERNATIVES, SENTENCES, ParserSettings

COMMAND = "python -m spacy_rootmind"
# Rows that `bulk` writes.
ROWS = ("sentences", "documents")
HELP = """Make a training config with root_mst, check treebanks, or parse files or corpora."""

app = typer.Typer(
    name="spacy_rootmind",
    help=HELP,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def print_version(is_wanted: bool) -> None:
    """Print the version and exit."""
    if is_wanted:
        typer.echo(f"spacy-rootmind {__version__}")
        raise typer.Exit


@app.callback()
def main_options(
    version: Annotated[
        bool,
        Option("--version", help="Print the version", callback=print_version, is_eager=True),
    ] = False,
) -> None:
    """Take the options that come before the command."""


def choice(*flags: str, of: Sequence[str], help: str) -> Any:
    """Make an option whose values are the given ones."""

    def check(value: str | None) -> str | None:
        if value is not None and value not in of:
            raise typer.BadParameter(f"{value!r} is not one of {', '.join(of)}")
        return value

    return Option(*flags, metavar=f"[{'|'.join(of)}]", callback=check, help=help)


def listed(forms: Sequence[str]) -> str:
    """List the suffixes of formats."""
    return ", ".join(suffixes_of(forms))


# The options of settings of the parser, by their names; their types and defaults are those of
# `ParserSettings`. All commands that parse have them.
PARSER_OPTIONS: dict[str, Any] = {
    "pipeline": Argument(metavar="PIPELINE", help="Pipeline with root_mst: a folder or a package"),
    "confidence": Option(
        "--confidence/--no-confidence",
        help="Write probabilities of heads and trees; by default as set in the pipeline",
    ),
    "arcs": Option(
        "--arcs",
        metavar="PROBABILITY",
        help="Write all arcs of at least this probability; by default as set in the pipeline",
    ),
    "distributions": Option(
        "--distributions",
        metavar="PROBABILITY",
        help="Keep each sentence's tree distribution in the Docs, for another parser to learn "
        "from: all arcs of at least this probability, such as 0.01",
    ),
    "alternatives": choice(
        "--alternatives",
        "-a",
        of=ALTERNATIVES,
        help="Write alternative parses; by default as set in the pipeline",
    ),
    "k": Option("-k", min=1, help="Parses per sentence, with --alternatives"),
    "seed": Option("--seed", min=0, help="Random seed, with --alternatives sample"),
    "labelled": Option(
        "--labelled",
        help="With --alternatives, count trees that differ only in labels as different parses; by "
        "default, each tree has its best labels only",
    ),
    "overrides": Option(
        "--set",
        metavar="NAME=VALUE",
        help="Change a setting of the pipeline's config, for example "
        "components.root_mst.temperature=1.5; may be repeated",
    ),
    "code": Option(
        "--code", "-c", metavar="FILE", help="Python file with registered functions to import"
    ),
    "max_word_length": Option(
        "--max-word-length",
        metavar="CHARACTERS",
        min=1,
        help="Cut longer runs of characters without whitespace into pieces before tokenizing, "
        "since spaCy's tokenizer can take minutes for them",
    ),
    "replace_tags": Option(
        "--replace-tags",
        help="Replace the lemmas, tags and features of CoNLL-U with those that the pipeline "
        "predicts; by default these only fill columns of a sentence that are empty",
    ),
    "keep_heads": Option(
        "--keep-heads",
        help="Keep the heads and labels of CoNLL-U, and find those that are missing (_); by "
        "default all are predicted",
    ),
    "sentences": choice(
        "--sentences",
        of=SENTENCES,
        help="lines: each line of a text is one sentence; by default the pipeline finds sentences",
    ),
    "batch_size": Option(
        "--batch-size", "-b", min=1, help="Texts per batch; by default the pipeline's"
    ),
    "gpu_id": Option("--gpu-id", "-g", help="GPU ID; -1 for the CPU"),
}


def parser_parameters() -> dict[str, inspect.Parameter]:
    """Make the parameters of `PARSER_OPTIONS`, as Typer reads them."""
    fields = ParserSettings.__dataclass_fields__
    found = {}
    for name, option in PARSER_OPTIONS.items():
        kind, default = fields[name].type, fields[name].default
        if name == "overrides":
            kind, default = list[str] | None, None
        if name == "pipeline":
            default = inspect.Parameter.empty
        annotation = Annotated[kind, option]  # type: ignore[valid-type]
        found[name] = inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
        )
    return found


def parser_settings(values: dict[str, Any]) -> ParserSettings:
    """Make settings of the values of their options.

    The pipeline and the code get absolute paths, since workers may run elsewhere.
    """
    values["overrides"] = read_settings(values["overrides"] or [])
    if os.path.exists(values["pipeline"]):
        values["pipeline"] = os.path.abspath(values["pipeline"])
    if values["code"] is not None:
        values["code"] = os.path.abspath(values["code"])
    return ParserSettings(**values)


def with_parser_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of the parser, and to its `parser` the settings they make."""
    shared = parser_parameters()
    own = dict(inspect.signature(command).parameters)
    del own["parser"]

    def run(**values: Any) -> None:
        check_effects(given_options(values["context"]), values)
        parser = parser_settings({name: values.pop(name) for name in shared})
        command(parser=parser, **values)

    # Typer takes arguments in this order.
    parameters = {"context": own["context"], "pipeline": shared["pipeline"], **own, **shared}
    keyword = [p.replace(kind=p.KEYWORD_ONLY) for p in parameters.values()]
    run.__signature__ = inspect.Signature(keyword)  # type: ignore[attr-defined]
    run.__annotations__ = {name: p.annotation for name, p in parameters.items()}
    run.__doc__, run.__name__ = command.__doc__, command.__name__
    return run


# Other options of both `parse` and `bulk`.
Paragraphs = Annotated[
    bool, Option("--paragraphs", "-p", help="Read one text per paragraph, not per line")
]
Progress = Annotated[
    bool | None,
    Option("--progress/--no-progress", help="Show a progress bar; by default only on a terminal"),
]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Print warnings and errors only")]


@app.command("parse", no_args_is_help=True)
@with_parser_settings
def parse_command(
    context: typer.Context,
    parser: ParserSettings,
    inputs: Annotated[
        list[str] | None,
        Argument(metavar="INPUT", help="Files to parse; - for stdin", show_default=False),
    ] = None,
    texts: Annotated[
        list[str] | None,
        Option("--text", metavar="TEXT", help="A text to parse instead of files; may be repeated"),
    ] = None,
    output: Annotated[
        str, Option("--output", "-o", help="File or folder to write; - for stdout")
    ] = "-",
    from_format: Annotated[
        str | None,
        choice(
            "--from",
            "-f",
            of=input_formats(PARSE),
            help=f"Input format; by default from the suffix ({listed(input_formats(PARSE))})",
        ),
    ] = None,
    to_format: Annotated[
        str | None,
        choice(
            "--to",
            "-t",
            of=output_formats(PARSE),
            help=f"Output format; by default from the suffix ({listed(output_formats(PARSE))}). "
            "tree, the default for --text, is drawn for reading",
        ),
    ] = None,
    paragraphs: Paragraphs = False,
    strict: Annotated[bool, Option("--strict", help="Stop at the first record that fails")] = False,
    force: Annotated[bool, Option("--force", "-F", help="Overwrite the output")] = False,
    progress: Progress = None,
    quiet: Quiet = False,
) -> None:
    """Parse texts, tokens, CoNLL-U or Docs, and write CoNLL-U, JSONL or Docs.

    This command works as a filter, in one process. To parse on all cores, and to continue after a
    fault, use `bulk`.

    Input formats: text has one text per line. jsonl has one object per line, with "text" or
    "tokens" (a list of strings, or a list of lists of strings, one per sentence); other fields are
    kept. conllu becomes one Doc per sentence; heads, labels and columns without any value are
    replaced.
    Docs keep their sentences and everything that the pipeline does not set; of a folder of Docs,
    all files are read.

    Texts given with --text are drawn as trees, with the probability of each labelled arc in per
    cent. After "or" come other arcs to the word with a probability of at least 5 %, or that given
    by --arcs.

    Docs are written to a folder, as files of bounded size, or to one file NAME.spacy, which is
    assembled in memory at the end.

    If a record cannot be read or parsed, its file and line are reported, the other records are
    still parsed, and the exit code is 1. A file is called NAME.partial until it is complete.
    """
    from spacy_rootmind.cli.parse import ParseOptions, parse

    check_input(bool(inputs), bool(texts), from_format is not None or paragraphs)
    options = ParseOptions(
        parser,
        inputs or [],
        output,
        texts=texts or [],
        from_format=from_format,
        to_format=to_format,
        paragraphs=paragraphs,
        strict=strict,
        force=force,
        progress=progress,
        quiet=quiet,
        given=given_options(context),
    )
    raise typer.Exit(parse(options))


@app.command("bulk", no_args_is_help=True)
@with_parser_settings
def bulk_command(
    context: typer.Context,
    parser: ParserSettings,
    inputs: Annotated[
        list[str], Argument(metavar="INPUT", help="Files, folders, patterns or URLs to parse")
    ],
    output: Annotated[str, Option("--output", "-o", help="Folder or URL to write")],
    from_format: Annotated[
        str | None,
        choice(
            "--from", "-f", of=input_formats(BULK), help="Input format; by default from the suffix"
        ),
    ] = None,
    to_format: Annotated[
        str, choice("--to", "-t", of=output_formats(BULK), help="Output format")
    ] = PARQUET,
    paragraphs: Paragraphs = False,
    rows: Annotated[
        str,
        choice("--rows", of=ROWS, help="One row of Parquet per sentence, or per document"),
    ] = ROWS[0],
    text_column: Annotated[str, Option(help="Column of texts in Parquet")] = "text",
    tokens_column: Annotated[str, Option(help="Column of tokens in Parquet")] = "tokens",
    id_column: Annotated[str, Option(help="Column that identifies documents in Parquet")] = "id",
    part_size: Annotated[
        int | None,
        Option(
            "--part-size",
            metavar="BYTES",
            min=1,
            help="Size of the parts that the input is cut into; when a process dies, its part is "
            "parsed again; by default up to 4 MiB",
        ),
    ] = None,
    n_workers: Annotated[
        int, Option("--n-workers", "-n", min=-1, help="Processes; -1 for one per core")
    ] = -1,
    scheduler: Annotated[
        str | None,
        Option(
            "--scheduler",
            metavar="ADDRESS",
            help="Run on the workers of this dask scheduler, such as tcp://host:8786",
        ),
    ] = None,
    progress: Progress = None,
    quiet: Quiet = False,
) -> None:
    """Parse a corpus of any size into a folder of Parquet, CoNLL-U, JSONL or Docs, with dask.

    Input is Parquet, or, as for `parse`, text, JSONL, CoNLL-U or Docs, also compressed (.gz, .zst).
    It is cut into parts by size, and each part becomes a file. After a fault, run the same command
    again: it parses only the missing parts.

    A document that cannot be read or parsed, or that kills its process each time, becomes a row
    with an error in Parquet, or is listed next to its part, and the exit code is 1.
    """
    from spacy_rootmind.cli.messages import CommandError

    given = given_options(context)
    if scheduler is not None and "n_workers" in given:
        raise typer.BadParameter(
            "expected --n-workers without --scheduler, received both; leave out --n-workers, "
            "since a scheduler has its own workers"
        )
    if n_workers == 0:
        raise CommandError("Expected --n-workers to be positive or -1, received 0")
    try:
        from spacy_rootmind.bulk.arrow_parser import ArrowParser
        from spacy_rootmind.cli.bulk import BulkOptions, bulk
    except ImportError as error:
        raise CommandError(
            f"Cannot import {error.name or 'pyarrow'}",
            "Install what `bulk` needs: python -m pip install pyarrow distributed fsspec",
        ) from error
    options = BulkOptions(
        inputs,
        output,
        ArrowParser(parser, rows=rows, text=text_column, tokens=tokens_column, id_column=id_column),
        to_format=to_format,
        from_format=from_format,
        paragraphs=paragraphs,
        part_bytes=part_size,
        n_workers=n_workers,
        scheduler=scheduler,
        progress=progress,
        quiet=quiet,
        given=given,
    )
    raise typer.Exit(bulk(options))


@app.command("check", no_args_is_help=True)
def check_command(
    files: Annotated[
        list[Path],
        Argument(metavar="FILE", help="Treebanks: .conllu or .spacy files, or folders of them"),
    ],
    max_sentence_length: Annotated[
        int | None,
        Option("--max-sentence-length", "-m", min=1, help="Report sentences with more words"),
    ] = None,
    as_json: Annotated[bool, Option("--json", "-j", help="Print the report as JSON")] = False,
) -> None:
    """Check treebanks before training: trees, labels, sentences.

    The training data is the first file with "train" in its name, or else the first file. Labels of
    the other files that do not occur in it are reported.
    The exit code is 1 if there are errors, such as cycles or several roots in a sentence.
    """
    from spacy_rootmind.cli.check import check

    raise typer.Exit(check(files, max_sentence_length=max_sentence_length, as_json=as_json))


@app.command("init-config", no_args_is_help=True)
def init_config_command(
    output: Annotated[Path, Argument(metavar="OUTPUT", help="Config to write; - for stdout")],
    lang: Annotated[str, Option("--lang", "-l", help="Code of the language in spaCy")] = "en",
    pipeline: Annotated[
        str,
        Option(
            "--pipeline",
            "-p",
            metavar="NAMES",
            help="Components, separated by commas, without tok2vec and transformer",
        ),
    ] = "root_mst",
    transformer: Annotated[
        str | None,
        Option(
            "--transformer",
            "-t",
            metavar="ENCODER",
            help="Fine-tune this encoder with spacy-transformers: a name on the Hugging Face hub, "
            "or a folder",
        ),
    ] = None,
    curated: Annotated[
        str | None,
        Option(
            "--curated",
            metavar="ENCODER",
            help="Fine-tune this encoder with spacy-curated-transformers",
        ),
    ] = None,
    vectors: Annotated[
        str | None,
        Option(
            "--vectors", metavar="NAME", help="Pipeline with word vectors: a folder or a package"
        ),
    ] = None,
    ud: Annotated[
        bool,
        Option(
            "--ud",
            help="For Universal Dependencies: make trees keep its guidelines, and parts of speech "
            "agree with the labels",
        ),
    ] = False,
    fit_tokenizer: Annotated[
        bool, Option("--fit-tokenizer", help="Fit the tokenizer to the training corpus")
    ] = False,
    force: Annotated[bool, Option("--force", "-F", help="Overwrite the output")] = False,
) -> None:
    """Write a config that trains a pipeline with root_mst, without further settings.

    Like spaCy's `init config`, but with root_mst instead of parser: all components share a tok2vec
    or a transformer, and training has the settings that root_mst was measured with.
    Without other components, root_mst has token vectors of its own.
    """
    from spacy_rootmind.cli.init_config import ConfigOptions, init_config

    names = [name.strip() for name in pipeline.split(",") if name.strip()]
    options = ConfigOptions(lang, names, transformer, curated, vectors, ud, fit_tokenizer)
    init_config(output, options, force=force)


def check_input(has_files: bool, has_texts: bool, has_file_options: bool) -> None:
    """Check that there are either files or texts to parse.

    Raises
    ------
    typer.BadParameter
        If there are both or neither, or options of files with texts.
    """
    if has_files == has_texts:
        received = "both" if has_texts else "neither"
        raise typer.BadParameter(f"expected files to parse or --text, received {received}")
    if has_texts and has_file_options:
        raise typer.BadParameter(
            "expected --from and --paragraphs with files, received them with --text; each --text "
            "is one text"
        )


def given_options(context: typer.Context) -> frozenset[str]:
    """List the options that the command line has, also those with their default values."""
    return frozenset(
        name
        for name in context.params
        if (source := context.get_parameter_source(name)) and source.name == "COMMANDLINE"
    )


def check_effects(given: frozenset[str], values: dict[str, Any]) -> None:
    """Check that the given options change something, given the others.

    Those that depend on the files are checked when their formats are known.

    Raises
    ------
    typer.BadParameter
        If one does not.
    """
    alternatives = values["alternatives"]
    for name, option in (("k", "-k"), ("labelled", "--labelled")):
        if name in given and alternatives is None:
            raise typer.BadParameter(f"expected --alternatives, such as kbest, with {option}")
    if "seed" in given and alternatives in (None, "kbest"):
        raise typer.BadParameter(
            "expected --alternatives sample or sample-without-replacement with --seed"
        )
    if values["progress"] and values["quiet"]:
        raise typer.BadParameter("expected one of --progress and --quiet, received both")


def read_settings(settings: list[str]) -> dict[str, Any]:
    """Read settings NAME=VALUE; values that are not JSON are taken as strings."""
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
        except RecursionError:
            raise CommandError(
                f"Cannot read --set {name}: expected brackets that are nested less deeply"
            ) from None
    return found


def main() -> None:
    """Run the command line; turn errors into messages and exit codes."""
    open_streams()
    for stream in (sys.stdout, sys.stderr):
        # A character that the terminal cannot show is escaped instead of raising an error.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    from spacy_rootmind.cli.messages import CommandError, Messages

    code = 1
    is_reported = False
    try:
        app(prog_name=COMMAND)
    except SystemExit as exit_:
        code = exit_.code if isinstance(exit_.code, int) else 0
    except CommandError as error:
        Messages().fail(error.title, error.text)
        is_reported = True
    except BrokenPipeError:
        # The reader of the output has closed it, as `head` does: exit without a message.
        discard_output()
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EBADF):
            raise
        Messages().fail(f"Cannot write: {error.strerror}")
        is_reported = True
    try:
        # What is left is written here: if Python cannot, when it ends, it changes the exit code.
        sys.stdout.flush()
    except OSError as error:
        if not is_reported and not isinstance(error, BrokenPipeError):
            Messages().fail(f"Cannot write stdout: {error.strerror}")
        code = code or 1
        discard_output()
    sys.exit(code)


def open_streams() -> None:
    """Open stdin, stdout and stderr where they were closed at the start, as for some daemons.

    Messages go nowhere then. Reading stdin and writing stdout are errors, as they would be with
    closed files, since both are opened in the other direction.
    """
    for name, mode, flags in (
        ("stdin", "r", os.O_WRONLY),
        ("stdout", "w", os.O_RDONLY),
        ("stderr", "w", os.O_WRONLY),
    ):
        if getattr(sys, name) is None:
            stream = os.fdopen(os.open(os.devnull, flags), mode, encoding="utf8")
            setattr(sys, name, stream)


def discard_output() -> None:
    """Send what is still to be printed nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())
