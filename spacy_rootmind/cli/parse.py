"""The command `parse`: parses files with a pipeline, in one process, and writes files."""

import sys
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any, BinaryIO

from spacy.language import Language
from spacy.tokens import Doc

from spacy_rootmind.cli.messages import (
    Bar,
    Messages,
    numbered,
    progress_bar,
    warn_of_guidelines,
)
from spacy_rootmind.cli.options import ParseOptions
from spacy_rootmind.cli.outputs import check_free, new_file, partial_path
from spacy_rootmind.cli.signals import Interrupted, stop_signals
from spacy_rootmind.formats.lines import STDIN, check_inputs
from spacy_rootmind.formats.records import Failure, InputRecord, InputRecords
from spacy_rootmind.formats.registry import (
    DOCS,
    PARSE,
    Output,
    input_format,
    make_output,
    output_formats,
    read_records,
    suffixes_of,
)
from spacy_rootmind.parsing.given import as_set
from spacy_rootmind.parsing.settings import RunError
from spacy_rootmind.parsing.stream import Counts, chunks, convert_records

# Drawn trees show other heads from this probability on.
DRAWN_ARCS = 0.05
# Chunks bound memory.
CHUNK_RECORDS = 1024
CHUNK_CHARS = 1_000_000


def parse(options: ParseOptions) -> int:
    """Run the command; returns the exit code.

    Raises RunError, InputError if it cannot start, or has to stop.
    """
    try:
        to_format = output_format(options)
        options.settings.check_output(to_format)
        options = with_defaults(options, to_format)
        check_inputs(options.inputs)
        if options.from_format is None:
            for name in options.inputs:
                input_format(name)
        check_output(options, to_format)
        nlp = options.settings.load()
        run = ParseRun(options, nlp, make_output(to_format))
        with stop_signals():
            return run.run()
    except Interrupted as stop:
        return run.interrupted(stop)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise RunError(f"Cannot write {options.output_name}: {error.strerror or error}") from error


def with_defaults(options: ParseOptions, to_format: str) -> ParseOptions:
    """Fill in defaults: drawn trees have probabilities, and texts need no report."""
    settings = options.settings
    if to_format == "tree":
        confidence = True if settings.confidence is None else settings.confidence
        arcs = DRAWN_ARCS if settings.arcs is None and confidence else settings.arcs
        settings = replace(settings, confidence=confidence, arcs=arcs)
    quiet = options.quiet or bool(options.texts and options.is_stdout)
    return replace(options, settings=settings, quiet=quiet)


def output_format(options: ParseOptions) -> str:
    """Find the format from the suffix of the output; for a stream, trees of texts, else CoNLL-U.

    Raises RunError if the suffix is not known.
    """
    if options.to_format is not None:
        return options.to_format
    if options.is_stdout:
        return "tree" if options.texts else "conllu"
    forms = output_formats(PARSE)
    known = suffixes_of(forms)
    form = known.get(Path(options.output).suffix.lower())
    if form is None:
        raise RunError(
            f"Cannot tell the format of {options.output} from its suffix",
            f"Expected {', '.join(known)}, or --to with one of {', '.join(forms)}.",
        )
    return form


def check_output(options: ParseOptions, to_format: str) -> None:
    """Check the output before the pipeline is loaded."""
    path = Path(options.output)
    if not options.is_stdout:
        for own in (path, partial_path(path)):
            for name in options.inputs:
                if name != STDIN and own.exists() and Path(name).exists() and own.samefile(name):
                    raise RunError(f"{own} is both input and output")
        check_free(path, force=options.force)
    elif to_format == DOCS:
        raise RunError("Cannot write Docs to stdout", "Give --output FILE.")


class AllFailedError(Exception):
    """All records have failed, so that there is no output."""


class ParseRun:
    """One run of the command, from the inputs to the report."""

    def __init__(self, options: ParseOptions, nlp: Language, output: Output) -> None:
        self.options = options
        self.nlp = nlp
        self.output = output
        self.messages = Messages(options.quiet)
        self.counts = Counts()
        # The file of the last record that was written.
        self._file: str | None = None

    def run(self) -> int:
        """Parse all records; returns the exit code."""
        start = perf_counter()
        options = self.options
        opened: AbstractContextManager[BinaryIO] = nullcontext(sys.stdout.buffer)
        if not options.is_stdout:
            opened = new_file(Path(options.output), force=options.force)
        with suppress(AllFailedError), opened as self._stream:
            records = read_records(options.inputs, options.from_format, options.texts)
            with progress_bar(None, "record", quiet=options.quiet) as progress:
                self._parse(records, progress)
            if self.counts.documents and not self.counts.parsed:
                raise AllFailedError
            self._stream.write(self.output.end())
            self._stream.flush()
        self._report(perf_counter() - start)
        return 1 if self.counts.errors else 0

    def interrupted(self, stop: Interrupted) -> int:
        """Report a signal; returns the exit code."""
        Messages().show("fail", f"Interrupted after {self.counts.documents} records")
        return 128 + stop.number

    def _parse(self, records: InputRecords, progress: Bar) -> None:
        """Parse chunk by chunk."""
        records = as_set(records, self.options.settings)
        for chunk in chunks(records, CHUNK_RECORDS, CHUNK_CHARS):
            for found in convert_records(self.nlp, chunk, self._prepare, self.counts):
                if isinstance(found, Failure):
                    self.messages.show("fail", str(found))
                else:
                    self._write(*found)
                progress.update()

    def _prepare(self, doc: Doc, record: InputRecord) -> Any:
        # Comments of a single treebank stay as they are.
        starts = record.file != self._file
        record.starts_file = starts and (record.sentence is None or self._file is not None)
        prepared = self.output.prepare(doc, record)
        # CoNLL-U has nothing for texts without words.
        self._file = record.file if prepared else self._file
        return prepared

    def _write(self, record: InputRecord, prepared: Any) -> None:
        self._stream.write(self.output.add(prepared))
        if self.options.is_stdout:
            # For programs that read the output as it is written.
            self._stream.flush()
        self._warn_of_long_runs(record)

    def _warn_of_long_runs(self, record: InputRecord) -> None:
        if record.long_runs:
            start, end = max(record.long_runs, key=lambda run: run[1] - run[0])
            others = f" and {len(record.long_runs) - 1} more" if len(record.long_runs) > 1 else ""
            self.messages.show(
                "warn",
                f"{record.file}:{record.line}: tokenized {end - start} characters without "
                f"whitespace, from character {start + 1} on{others}, in pieces",
            )

    def _report(self, seconds: float) -> None:
        counts = self.counts
        n_failures = counts.documents - counts.parsed
        if not counts.documents:
            self.messages.show("warn", "The input has nothing to parse")
        elif counts.parsed:
            self.messages.show(
                "good",
                f"Wrote {numbered(counts.parsed, 'text')}, "
                f"{numbered(counts.sentences, 'sentence')}, {numbered(counts.words, 'word')} "
                f"to {self.options.output_name} "
                f"({counts.words / max(seconds, 1e-9):,.0f} words per second)",
            )
        warn_of_guidelines(self.messages, counts)
        if n_failures:
            some = "Some" if counts.parsed else "Nothing was written, since all"
            self.messages.show(
                "fail",
                f"{some} records failed: {n_failures} of {counts.documents} records failed",
            )
