"""The command `parse`: parses files with a pipeline, in one process, and writes files."""

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any, BinaryIO

from spacy.language import Language
from spacy.tokens import Doc

from spacy_rootmind.cli.messages import Messages, amounts, progress_bar, warn_of_guidelines
from spacy_rootmind.cli.options import ParseOptions
from spacy_rootmind.formats.lines import STDIN, check_inputs
from spacy_rootmind.formats.records import Failure, InputRecord
from spacy_rootmind.formats.registry import (
    CONLLU,
    OUTPUT_SUFFIXES,
    PARSE_OUTPUTS,
    TREE,
    input_format,
    make_output,
    read_records,
)
from spacy_rootmind.parsing.settings import RunError
from spacy_rootmind.parsing.stream import Counts, convert_records, errors_in

# Drawn trees show other heads from this probability on.
DRAWN_ARCS = 0.05


def parse(options: ParseOptions) -> int:
    """Run the command; returns the exit code."""
    try:
        form = output_format(options)
        options.settings.check_output(form)
        check_inputs(options.inputs)
        if options.from_format is None:
            for name in options.inputs:
                input_format(name)
        options = with_defaults(options, form)
        return ParseRun(options, options.settings.load(), form).run()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise RunError(f"Cannot write {options.output_name}: {error.strerror or error}") from error


def with_defaults(options: ParseOptions, to_format: str) -> ParseOptions:
    """Fill in defaults: drawn trees have probabilities, and texts need no report."""
    settings = options.settings
    if to_format == TREE:
        confidence = True if settings.confidence is None else settings.confidence
        arcs = DRAWN_ARCS if settings.arcs is None and confidence else settings.arcs
        settings = replace(settings, confidence=confidence, arcs=arcs)
    quiet = options.quiet or bool(options.texts and options.is_stdout)
    return replace(options, settings=settings, quiet=quiet)


def output_format(options: ParseOptions) -> str:
    """Find the format from the suffix of the output; for a stream, trees of texts, else CoNLL-U."""
    if options.to_format is not None:
        return options.to_format
    if options.is_stdout:
        return TREE if options.texts else CONLLU
    form = OUTPUT_SUFFIXES.get(Path(options.output).suffix.lower())
    if form is None:
        raise RunError(
            f"Cannot tell the format of {options.output} from its suffix",
            f"Expected {', '.join(OUTPUT_SUFFIXES)}, or --to with one of "
            f"{', '.join(PARSE_OUTPUTS)}.",
        )
    return form


def open_output(options: ParseOptions) -> AbstractContextManager[BinaryIO]:
    """Open the output, which may not be an input as well."""
    if options.is_stdout:
        return nullcontext(sys.stdout.buffer)
    path = Path(options.output)
    for own in (path, partial_path(path)):
        for name in options.inputs:
            if name != STDIN and own.exists() and Path(name).exists() and own.samefile(name):
                raise RunError(f"{own} is both input and output")
    return new_file(path, force=options.force)


@contextmanager
def new_file(path: Path, *, force: bool) -> Iterator[BinaryIO]:
    """Write a file, which is called `NAME.partial` until the end, and removed after an error.

    Without --force, no file is overwritten, also none that another run has completed meanwhile.
    """
    partial = partial_path(path)
    if path.exists() and not path.is_file():
        raise RunError(f"{path} is a folder or a device", "Give a file as --output.")
    if path.exists() and not force:
        raise RunError(f"{path} already exists", "It is complete; overwrite it with --force.")
    path.parent.mkdir(parents=True, exist_ok=True)
    if force:
        partial.unlink(missing_ok=True)
    try:
        stream = open(partial, "xb")  # noqa: SIM115
    except FileExistsError as error:
        raise RunError(
            f"{partial} exists, from a run that did not finish or is still running",
            "If none is running, start again with --force. For large corpora, use `bulk`, which "
            "continues where it stopped.",
        ) from error
    try:
        with stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        if path.exists() and not force:
            raise RunError(
                f"Another run has completed {path} in the meantime",
                "Run again with another --output, or with --force to overwrite it.",
            )
        os.replace(partial, path)
    except BaseException:
        with suppress(OSError):
            partial.unlink()
        raise


def partial_path(path: Path) -> Path:
    """Return the path of an unfinished output."""
    return Path(f"{path}.partial")


class ParseRun:
    """One run of the command, from the inputs to the report."""

    def __init__(self, options: ParseOptions, nlp: Language, form: str) -> None:
        self.options = options
        self.nlp = nlp
        self.output = make_output(form)
        self.messages = Messages(options.quiet)
        self.counts = Counts()
        # The file of the last record that was written.
        self._file: str | None = None

    def run(self) -> int:
        """Parse all records; returns the exit code."""
        start = perf_counter()
        with open_output(self.options) as stream:
            self._write(stream)
        self._report(perf_counter() - start)
        return 1 if errors_in(self.counts) else 0

    def _write(self, stream: BinaryIO) -> None:
        options = self.options
        records = read_records(options.inputs, options.from_format, options.texts)
        results = convert_records(self.nlp, records, options.settings, self._prepare, self.counts)
        with progress_bar(None, "record", quiet=options.quiet) as progress:
            for found in results:
                if isinstance(found, Failure):
                    self.messages.show("fail", str(found))
                else:
                    record, prepared = found
                    stream.write(self.output.add(prepared))
                    self._warn_of_long_runs(record)
                if options.is_stdout:
                    # Programs that read the output need not wait until a buffer is full.
                    stream.flush()
                progress.update()
        n_errors, n_records = sum(errors_in(self.counts).values()), self.counts["documents"]
        if n_errors == n_records > 0:
            raise RunError(f"Nothing was written: {n_errors} of {n_records} records failed")
        stream.write(self.output.end())
        stream.flush()

    def _report(self, seconds: float) -> None:
        counts = self.counts
        speed = counts["words"] / max(seconds, 1e-9)
        written = f"Wrote {amounts(counts)} to {self.options.output_name}"
        style = "good" if counts["documents"] else "warn"
        self.messages.show(style, f"{written} ({speed:,.0f} words per second)")
        warn_of_guidelines(self.messages, counts)
        n_errors = sum(errors_in(counts).values())
        if n_errors:
            self.messages.show("fail", f"{n_errors} of {counts['documents']} records failed")

    def _prepare(self, doc: Doc, record: InputRecord) -> Any:
        # Comments of a single treebank stay as they are.
        starts = record.file != self._file
        record.starts_file = starts and (record.sentence is None or self._file is not None)
        prepared = self.output.prepare(doc, record)
        # CoNLL-U has nothing for texts without words.
        self._file = record.file if prepared else self._file
        return prepared

    def _warn_of_long_runs(self, record: InputRecord) -> None:
        if record.long_runs:
            n_chars = sum(end - start for start, end in record.long_runs)
            what = f"tokenized {n_chars} characters without whitespace in pieces"
            self.messages.show("warn", f"{record.file}:{record.line}: {what}")
