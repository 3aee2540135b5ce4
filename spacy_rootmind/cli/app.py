"""The commands of `python -m spacy_rootmind` and their options."""

# Typer reads annotations at run time, so this file cannot use `from __future__ import annotations`.
# Commands import what they need when they run, so that --help does not wait for spaCy.
import json
import os
import sys
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from spacy_rootmind.cli.options import MAX_WORD_LENGTH

COMMAND = "python -m spacy_rootmind"
HELP = """Make a training config with root_mst, check treebanks, or parse files or corpora."""

app = typer.Typer(
    name="spacy_rootmind",
    help=HELP,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


class InputFormat(str, Enum):
    """Input formats of `parse`."""

    text = "text"
    jsonl = "jsonl"
    conllu = "conllu"
    spacy = "spacy"


class OutputFormat(str, Enum):
    """Output formats of `parse`."""

    conllu = "conllu"
    jsonl = "jsonl"
    spacy = "spacy"
    tree = "tree"


class BulkFormat(str, Enum):
    """Input formats of `bulk`."""

    text = "text"
    jsonl = "jsonl"
    conllu = "conllu"
    parquet = "parquet"


class Rows(str, Enum):
    """Rows that `bulk` writes."""

    sentences = "sentences"
    documents = "documents"


class Alternatives(str, Enum):
    """Methods that find alternative parses."""

    kbest = "kbest"
    sample = "sample"
    sample_without_replacement = "sample-without-replacement"


# Options of both `parse` and `bulk`.
PipelineName = Annotated[
    str, Argument(metavar="PIPELINE", help="Pipeline with root_mst: a folder or a package")
]
Paragraphs = Annotated[
    bool, Option("--paragraphs", "-p", help="Read one text per paragraph, not per line")
]
MaxWordLength = Annotated[
    int,
    Option(
        "--max-word-length",
        metavar="CHARACTERS",
        min=1,
        help="Tokenize more characters without whitespace than this in pieces, since spaCy's "
        "tokenizer can take minutes for them",
    ),
]
Confidence = Annotated[
    bool | None,
    Option(
        "--confidence/--no-confidence",
        help="Write probabilities of heads and trees; by default as set in the pipeline",
    ),
]
Arcs = Annotated[
    float | None,
    Option(
        "--arcs",
        metavar="PROBABILITY",
        help="Write all arcs of at least this probability; by default as set in the pipeline",
    ),
]
Method = Annotated[
    Alternatives | None,
    Option(
        "--alternatives",
        "-a",
        help="Write alternative parses; by default as set in the pipeline",
    ),
]
NumberOfParses = Annotated[
    int, Option("-k", min=1, help="Parses per sentence, with --alternatives")
]
Seed = Annotated[int, Option(min=0, help="Random seed, with --alternatives sample")]
Labelled = Annotated[
    bool,
    Option(
        "--labelled",
        help="Count trees with other labels as other parses, with --alternatives; by default each "
        "tree has its best labels",
    ),
]
Settings = Annotated[
    list[str] | None,
    Option(
        "--set",
        metavar="NAME=VALUE",
        help="Change a setting of the pipeline's config, for example "
        "components.root_mst.temperature=1.5; may be repeated",
    ),
]
Code = Annotated[
    Path | None,
    Option("--code", "-c", help="Python file with registered functions to import"),
]
Progress = Annotated[
    bool | None,
    Option("--progress/--no-progress", help="Show a progress bar; by default only on a terminal"),
]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Print warnings and errors only")]


@app.command("parse", no_args_is_help=True)
def parse_command(
    context: typer.Context,
    pipeline: PipelineName,
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
        InputFormat | None,
        Option(
            "--from",
            "-f",
            help="Input format; by default from the suffix (.txt, .jsonl, .conllu, .spacy)",
        ),
    ] = None,
    to_format: Annotated[
        OutputFormat | None,
        Option(
            "--to",
            "-t",
            help="Output format; by default from the suffix (.conllu, .jsonl, .spacy). tree, the "
            "default for --text, is drawn for reading",
        ),
    ] = None,
    paragraphs: Paragraphs = False,
    max_word_length: MaxWordLength = MAX_WORD_LENGTH,
    confidence: Confidence = None,
    arcs: Arcs = None,
    distributions: Annotated[
        float | None,
        Option(
            "--distributions",
            metavar="PROBABILITY",
            help="Keep each sentence's tree distribution in the Docs, for another parser to learn "
            "from: all arcs of at least this probability, such as 0.01",
        ),
    ] = None,
    alternatives: Method = None,
    k: NumberOfParses = 5,
    seed: Seed = 0,
    labelled: Labelled = False,
    settings: Settings = None,
    code: Code = None,
    gpu_id: Annotated[int, Option("--gpu-id", "-g", help="GPU ID; -1 for the CPU")] = -1,
    batch_size: Annotated[
        int | None,
        Option("--batch-size", "-b", min=1, help="Texts per batch; by default the pipeline's"),
    ] = None,
    n_process: Annotated[
        int,
        Option("--n-process", "-n", min=-1, help="Processes; -1 for one per core"),
    ] = 1,
    strict: Annotated[bool, Option("--strict", help="Stop at the first record that fails")] = False,
    resume: Annotated[
        bool,
        Option(
            "--resume",
            help="Continue an unfinished run, if there is one; with --force, one that overwrites "
            "the output",
        ),
    ] = False,
    force: Annotated[bool, Option("--force", "-F", help="Overwrite the output")] = False,
    progress: Progress = None,
    quiet: Quiet = False,
) -> None:
    """Parse texts, tokens, CoNLL-U or Docs, and write CoNLL-U, JSONL or Docs.

    Input formats: text has one text per line. jsonl has one object per line, with "text" or
    "tokens" (a list of strings, or a list of lists of strings, one per sentence); other fields are
    kept. conllu becomes one Doc per sentence; only heads, labels and empty columns are replaced.
    Docs keep their sentences and everything that the pipeline does not set; a folder of Docs counts
    as its files.

    Texts given with --text are drawn as trees, with the probability of each head in per cent, and
    after "or" other heads with a probability of at least 5 %, or what --arcs says.

    Docs are written to a folder, as files of bounded size, or to one file NAME.spacy, which is put
    together in memory at the end.

    If a record cannot be read or parsed, its file and line are reported, the other records are
    still parsed, and the exit code is 1. A file is called NAME.partial until it is complete.
    """
    from spacy_rootmind.cli.messages import CommandError
    from spacy_rootmind.cli.options import ParseOptions
    from spacy_rootmind.cli.parse import parse

    check_input(bool(inputs), bool(texts), from_format is not None or paragraphs)
    given = given_options(context)
    check_effects(given, alternatives, is_quiet=quiet, shows_progress=progress)
    if n_process == 0:
        raise CommandError("Expected --n-process to be positive or -1, received 0")
    options = ParseOptions(
        pipeline=pipeline,
        inputs=inputs or [],
        texts=texts or [],
        output=output,
        from_format=from_format and from_format.value,
        to_format=to_format and to_format.value,
        paragraphs=paragraphs,
        max_word_length=max_word_length,
        confidence=confidence,
        arcs=arcs,
        distributions=distributions,
        alternatives=alternatives and alternatives.value,
        k=k,
        seed=seed,
        labelled=labelled,
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
        given=given,
    )
    raise typer.Exit(parse(options))


@app.command("bulk", no_args_is_help=True)
def bulk_command(
    context: typer.Context,
    pipeline: PipelineName,
    inputs: Annotated[
        list[str], Argument(metavar="INPUT", help="Files, folders, patterns or URLs to parse")
    ],
    output: Annotated[str, Option("--output", "-o", help="Folder or URL to write")],
    from_format: Annotated[
        BulkFormat | None,
        Option("--from", "-f", help="Input format; by default from the suffix"),
    ] = None,
    paragraphs: Paragraphs = False,
    rows: Annotated[Rows, Option(help="One row per sentence, or per document")] = Rows.sentences,
    text_column: Annotated[str, Option(help="Column of texts in Parquet")] = "text",
    tokens_column: Annotated[str, Option(help="Column of tokens in Parquet")] = "tokens",
    id_column: Annotated[str, Option(help="Column that identifies documents in Parquet")] = "id",
    max_word_length: MaxWordLength = MAX_WORD_LENGTH,
    confidence: Confidence = None,
    arcs: Arcs = None,
    alternatives: Method = None,
    k: NumberOfParses = 5,
    seed: Seed = 0,
    labelled: Labelled = False,
    settings: Settings = None,
    code: Code = None,
    part_size: Annotated[
        int | None,
        Option(
            "--part-size",
            metavar="BYTES",
            min=1,
            help="Input per part, the work that is lost when a process dies; by default up to "
            "4 MiB",
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
    """Parse a corpus of any size into a folder of Parquet files, with dask.

    Input is Parquet, or, as for `parse`, text, JSONL or CoNLL-U, also compressed (.gz, .zst). It is
    cut into parts by size, and each part becomes a file. After a fault, run the same command again:
    it parses only the missing parts.

    A document that cannot be read or parsed, or that kills its process each time, becomes a row
    with an error, and the exit code is 1.
    """
    from spacy_rootmind.cli.messages import CommandError

    given = given_options(context)
    check_effects(given, alternatives, is_quiet=quiet, shows_progress=progress)
    if scheduler is not None and "n_workers" in given:
        raise typer.BadParameter(
            "expected --n-workers without --scheduler, which has workers of its own"
        )
    try:
        from spacy_rootmind.bulk.command import BulkOptions, absolute, bulk
        from spacy_rootmind.bulk.parser import ArrowParser
    except ImportError as error:
        raise CommandError(
            f"Cannot import {error.name or 'pyarrow'}",
            "`bulk` needs the extra [bulk]: pyarrow, distributed and fsspec.",
        ) from error
    if n_workers == 0:
        raise CommandError("Expected --n-workers to be positive or -1, received 0")
    parser = ArrowParser(
        absolute(pipeline),
        rows=rows.value,
        text=text_column,
        tokens=tokens_column,
        id_column=id_column,
        confidence=confidence,
        arcs=arcs,
        alternatives=alternatives and alternatives.value,
        k=k,
        seed=seed,
        labelled=labelled,
        settings=read_settings(settings or []),
        code=code and code.resolve(),
        max_word_length=max_word_length,
    )
    options = BulkOptions(
        inputs,
        output,
        parser,
        from_format=from_format and from_format.value,
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
    force: Annotated[bool, Option("--force", "-F", help="Overwrite the output")] = False,
) -> None:
    """Write a config that trains a pipeline with root_mst, without further settings.

    As spaCy's `init config`, but with root_mst instead of parser: all components share a tok2vec or
    a transformer, and the settings of training are those that root_mst has been measured with.
    Without other components, root_mst has token vectors of its own.
    """
    from spacy_rootmind.cli.init_config import ConfigOptions, init_config

    names = [name.strip() for name in pipeline.split(",") if name.strip()]
    options = ConfigOptions(lang, names, transformer, curated, vectors)
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


def check_effects(
    given: frozenset[str],
    alternatives: Alternatives | None,
    *,
    is_quiet: bool,
    shows_progress: bool | None,
) -> None:
    """Check that the given options change something, given the others.

    Those that depend on the files are checked when their formats are known.

    Raises
    ------
    typer.BadParameter
        If one does not.
    """
    for name, option in (("k", "-k"), ("labelled", "--labelled")):
        if name in given and alternatives is None:
            raise typer.BadParameter(f"expected --alternatives, such as kbest, with {option}")
    if "seed" in given and alternatives in (None, Alternatives.kbest):
        raise typer.BadParameter(
            "expected --alternatives sample or sample-without-replacement with --seed"
        )
    if shows_progress and is_quiet:
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
            raise CommandError(f"Cannot read --set {name}: its brackets are too deep") from None
    return found


def main() -> None:
    """Run the command line; turn errors into messages and exit codes."""
    for stream in (sys.stdout, sys.stderr):
        # A character that the terminal cannot show is escaped instead of raising an error.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    from spacy_rootmind.cli.messages import CommandError, Messages
    from spacy_rootmind.cli.processes import exit_process

    code = 1
    try:
        app(prog_name=COMMAND)
    except SystemExit as exit_:
        code = exit_.code if isinstance(exit_.code, int) else 0
    except CommandError as error:
        Messages().fail(error.title, error.text)
    except BrokenPipeError:
        # The reader of the output has closed it, as `head` does: exit without a message.
        silence = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            os.dup2(silence, stream.fileno())
    exit_process(code)
