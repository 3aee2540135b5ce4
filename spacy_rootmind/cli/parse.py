"""The command `parse`: parses files with a pipeline, and writes files."""

import sys
import warnings
from collections.abc import Sequence, Set
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from spacy.language import Language

from spacy_rootmind.cli.inputs import STDIN, InputError, Inputs
from spacy_rootmind.cli.messages import CommandError, Messages
from spacy_rootmind.cli.options import ParseOptions
from spacy_rootmind.cli.outputs import (
    DocsOutput,
    FileOutput,
    Output,
    StreamOutput,
    check_free,
)
from spacy_rootmind.cli.pipelines import hash_files, load_pipeline
from spacy_rootmind.cli.processes import Interrupted, watched_signals
from spacy_rootmind.cli.readers import input_format
from spacy_rootmind.cli.run import Run
from spacy_rootmind.cli.writers import WRITERS

OUTPUT_SUFFIXES = {".conllu": "conllu", ".jsonl": "jsonl", ".ndjson": "jsonl", ".spacy": "spacy"}
# Drawn trees show other heads from this probability on.
DRAWN_ARCS = 0.05


def parse(options: ParseOptions) -> int:
    """Run the command; returns the exit code.

    Raises
    ------
    CommandError
        If it cannot start, or has to stop.
    """
    try:
        to_format = output_format(options)
        check_output(options, to_format)
    except OSError as error:
        raise CommandError(f"Cannot write {options.output_name}: {error.strerror}") from error
    if options.distributions is not None and to_format != "spacy":
        raise CommandError(
            f"Cannot write tree distributions as {to_format}",
            "Only Docs keep them: give --output FOLDER --to spacy.",
        )
    if options.progress and options.texts and options.is_stdout:
        raise CommandError("Cannot use --progress with --text", "Texts are drawn without a report.")
    options = with_defaults(options, to_format)
    messages = Messages(options.quiet)
    try:
        inputs = Inputs(options.inputs, options.texts)
        formats = {options.from_format or input_format(name) for name in inputs.names}
        check_effects(options.given, formats or {"text"})
        nlp = load_pipeline(options)
        output = open_output(options, to_format, nlp, inputs.names)
        run = Run(options, nlp, inputs, output, messages)
        with watched_signals(), warnings.catch_warnings():
            # spaCy's warning about workers that ended early; failed records are reported here.
            warnings.filterwarnings("ignore", message=r"\[W127\]")
            return run.run()
    except Interrupted as stop:
        messages.fail(f"Interrupted after {run.counts.records} records", run.hint())
        return 128 + stop.number
    except InputError as error:
        raise CommandError(f"Cannot read the input: {error}") from error


def with_defaults(options: ParseOptions, to_format: str) -> ParseOptions:
    """Fill in what is left open: drawn trees have probabilities, and texts need no report."""
    if to_format == "tree":
        confidence = True if options.confidence is None else options.confidence
        arcs = DRAWN_ARCS if options.arcs is None and confidence else options.arcs
        options = replace(options, confidence=confidence, arcs=arcs)
    return replace(options, quiet=options.quiet or bool(options.texts and options.is_stdout))


def output_format(options: ParseOptions) -> str:
    """Find the format from the suffix of the output; for a stream, trees of texts, else CoNLL-U.

    Raises
    ------
    CommandError
        If the suffix is not known.
    """
    if options.to_format is not None:
        return options.to_format
    if is_stream(options):
        return "tree" if options.texts else "conllu"
    try:
        return OUTPUT_SUFFIXES[Path(options.output).suffix.lower()]
    except KeyError:
        raise CommandError(
            f"Cannot tell the format of {options.output} from its suffix",
            f"Expected {', '.join(OUTPUT_SUFFIXES)}, or --to with one of conllu, jsonl, spacy, "
            f"tree.",
        ) from None


def is_stream(options: ParseOptions) -> bool:
    """Tell whether the output is a stream, which cannot be resumed: stdout, a pipe, a device."""
    path = Path(options.output)
    return options.is_stdout or (path.exists() and not (path.is_file() or path.is_dir()))


def check_output(options: ParseOptions, to_format: str) -> None:
    """Check the output before the pipeline is loaded.

    Raises
    ------
    CommandError
        If the output cannot be written.
    """
    if is_stream(options):
        if to_format == "spacy":
            raise CommandError("Cannot write Docs to a stream", "Give --output FOLDER.")
        for is_given, option in ((options.resume, "--resume"), (options.force, "--force")):
            if is_given:
                raise CommandError(f"Cannot use {option} with a stream", "Give --output FILE.")
        return
    path = Path(options.output)
    for name in options.inputs:
        if name != STDIN and path.exists() and Path(name).exists() and path.samefile(name):
            raise CommandError(f"{path} is both input and output")
    makes_folder = to_format == "spacy" and path.suffix != ".spacy"
    check_free(path, makes_folder=makes_folder, force=options.force, resume=options.resume)


def check_effects(given: Set[str], formats: Set[str]) -> None:
    """Check that options about texts were given with files that have texts.

    Raises
    ------
    CommandError
        If they were not.
    """
    for name, option, expected in (
        ("paragraphs", "--paragraphs", {"text"}),
        ("max_word_length", "--max-word-length", {"text", "jsonl"}),
    ):
        if name in given and not expected & formats:
            raise CommandError(
                f"Cannot use {option} with files of {' and '.join(sorted(formats))}",
                f"It changes how {' and '.join(sorted(expected))} are read: leave it out.",
            )


def open_output(
    options: ParseOptions, to_format: str, nlp: Language, names: Sequence[str]
) -> Output:
    """Make the output; its `start` opens it. `names` are those of the input files."""
    path = Path(options.output)
    if options.is_stdout:
        return StreamOutput(WRITERS[to_format], sys.stdout.buffer)
    if is_stream(options):
        try:
            return StreamOutput(WRITERS[to_format], open(path, "wb"))
        except OSError as error:
            raise CommandError(f"Cannot write {path}: {error.strerror}") from error
    settings = identity(options, to_format, nlp, names)
    if to_format == "spacy":
        return DocsOutput(path, settings)
    return FileOutput(WRITERS[to_format], path, settings)


def identity(
    options: ParseOptions, to_format: str, nlp: Language, names: Sequence[str]
) -> dict[str, Any]:
    """Return everything that the output depends on, except the input, as JSON values.

    `names` are those of the input files.

    The number of processes changes where chunks and so batches end, which at most changes the last
    digits of sums: a run may be resumed with another.
    """
    alternatives = None
    if options.alternatives is not None:
        alternatives = [options.alternatives, options.k]
        if options.alternatives != "kbest":
            alternatives.append(options.seed)
        if options.labelled:
            alternatives.append("labelled")
    return {
        "spacy-rootmind": version("spacy-rootmind"),
        "spacy": version("spacy"),
        "pipeline": hash_files(nlp.path),
        "code": hash_files(options.code),
        "settings": options.settings,
        "from": [options.from_format or input_format(name) for name in names],
        "to": to_format,
        "paragraphs": options.paragraphs,
        "max_word_length": options.max_word_length,
        "confidence": options.confidence,
        "arcs": options.arcs,
        "distributions": options.distributions,
        "alternatives": alternatives,
        # Batches are padded, so batch sizes may change the last digits of sums.
        "batch_size": options.batch_size,
        "gpu_id": options.gpu_id,
    }
