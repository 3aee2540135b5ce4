"""The command `parse`: files through a pipeline, to files."""

import os
import sys
import warnings
from dataclasses import dataclass, field
from hashlib import blake2b
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any

import spacy
from spacy import util
from spacy.language import Language
from spacy.tokens import Doc
from thinc.api import require_gpu

from spacy_rootmind import makers
from spacy_rootmind.alternatives import register_extensions
from spacy_rootmind.cli.inputs import STDIN, InputError, Inputs
from spacy_rootmind.cli.journal import Counts, State
from spacy_rootmind.cli.messages import Bar, CommandError, Messages
from spacy_rootmind.cli.outputs import (
    DocsOutput,
    FileOutput,
    Output,
    StreamOutput,
    check_free,
)
from spacy_rootmind.cli.processes import WORKERS, Interrupted, end_workers, watched_signals
from spacy_rootmind.cli.readers import Records, input_format, read_records
from spacy_rootmind.cli.records import Failure, Record
from spacy_rootmind.cli.stream import chunks, parse_records
from spacy_rootmind.cli.writers import WRITERS
from spacy_rootmind.parser import RootMST

STDOUT = "-"
# A chunk is what memory, and work lost to a crash, are bounded by; more where processes start anew
# for each.
CHUNK_RECORDS = 1024
CHUNK_CHARS = 1_000_000
CHUNKS_A_PROCESS = 8
OUTPUT_SUFFIXES = {".conllu": "conllu", ".jsonl": "jsonl", ".ndjson": "jsonl", ".spacy": "spacy"}


@dataclass
class ParseOptions:
    """What the command is given; see its help."""

    pipeline: str
    inputs: list[str]
    output: str = STDOUT
    from_format: str | None = None
    to_format: str | None = None
    paragraphs: bool = False
    confidence: bool | None = None
    alternatives: str | None = None
    k: int = 5
    seed: int = 0
    settings: dict[str, Any] = field(default_factory=dict)
    code: Path | None = None
    gpu_id: int = -1
    batch_size: int | None = None
    n_process: int = 1
    strict: bool = False
    resume: bool = False
    force: bool = False
    progress: bool | None = None
    quiet: bool = False


def parse(options: ParseOptions) -> int:
    """Run the command; returns the exit code.

    Raises
    ------
    CommandError
        If it cannot be done, or not be finished.
    """
    messages = Messages(options.quiet)
    to_format = output_format(options)
    check_output(options, to_format)
    try:
        inputs = Inputs(options.inputs)
        for name in [] if options.from_format else inputs.names:
            input_format(name)
        nlp = load_pipeline(options)
        output = open_output(options, to_format, nlp)
        run = Run(options, nlp, inputs, output, messages)
        with watched_signals(), warnings.catch_warnings():
            # Processes that ended before their time: said here where it matters.
            warnings.filterwarnings("ignore", message=r"\[W127\]")
            return run.run()
    except Interrupted as stop:
        messages.fail(f"Interrupted after {run.counts.records} records", run.hint())
        return 128 + stop.number
    except InputError as error:
        raise CommandError(f"Cannot read the input: {error}") from error


# --- the run -----------------------------------------------------------------------------------


class Run:
    """A run of the command from where it stands."""

    def __init__(
        self,
        options: ParseOptions,
        nlp: Language,
        inputs: Inputs,
        output: Output,
        messages: Messages,
    ) -> None:
        self.options = options
        self.nlp = nlp
        self.inputs = inputs
        self.output = output
        self.messages = messages
        self.counts = Counts()

    def run(self) -> int:
        """Parse all; returns the exit code."""
        start = perf_counter()
        try:
            state = self.output.start(self.options.resume)
            records = read_records(self.inputs, self.options.from_format, self.options.paragraphs)
            if state is not None:
                self._skip(records, state)
            elif self.options.resume:
                self.messages.info("Nothing to resume: starting from the beginning")
            before = self.counts.words
            with self._progress() as progress, WORKERS.without(self.output.handles):
                complete = self._parse(records, progress)
            if complete:
                self.output.finish()
        except BrokenPipeError:
            raise
        except InputError as error:
            raise CommandError(f"Cannot read the input: {error}", self.hint()) from error
        except OSError as error:
            raise CommandError(
                f"Cannot write {self.output_name}: {error.strerror or error}", self.hint()
            ) from error
        finally:
            self.output.close()
        self._report(complete, perf_counter() - start, self.counts.words - before)
        return 0 if complete and not self.counts.failures else 1

    def _skip(self, records: Records, state: State) -> None:
        """Read again what was parsed before, and check that it is the same."""
        for _ in islice(records, state.counts.records):
            pass
        if self.inputs.digest() != state.input_digest:
            raise CommandError(
                "Cannot resume: the input is not the one that the unfinished run read",
                f"Its first {state.counts.records} records differ. Start anew with --force.",
            )
        self.counts = state.counts
        self.messages.info(f"Going on after {state.counts.records} records")

    def _parse(self, records: Records, progress: Bar) -> bool:
        """Parse chunk by chunk; returns whether that was all of the input."""
        scale = 1 if self.options.n_process == 1 else CHUNKS_A_PROCESS * n_workers(self.options)
        for chunk in chunks(records, CHUNK_RECORDS * scale, CHUNK_CHARS * scale):
            # What a chunk adds to the vocabulary goes with it.
            with self.nlp.memory_zone():
                if not self._parse_chunk(chunk, progress):
                    return False
            self.output.commit(self.counts, self.inputs.digest())
        return True

    def _parse_chunk(self, chunk: Records, progress: Bar) -> bool:
        # Held by a name, so that it is not closed before `end_workers` where this ends early.
        stream = parse_records(
            self.nlp,
            chunk,
            batch_size=self.options.batch_size,
            n_process=self.options.n_process,
        )
        try:
            for parsed in stream:
                self.counts.records += 1
                failure = parsed if isinstance(parsed, Failure) else self._write(*parsed)
                if failure is not None:
                    self.counts.failures += 1
                    self.messages.fail(str(failure))
                    if self.options.strict:
                        return False
                progress.update(self._position(progress) - progress.n)
        finally:
            # If there are any left, `nlp.pipe` would wait for them forever.
            end_workers()
            stream.close()
        return True

    def _write(self, record: Record, doc: Doc) -> Failure | None:
        try:
            prepared = self.output.prepare(doc, record, self.counts.sentences)
        except Exception as error:
            return record.failed(error)
        self.output.write(prepared)
        self.counts.docs += 1
        for sentence in doc.sents:
            n_words = sum(not token.is_space for token in sentence)
            self.counts.words += n_words
            self.counts.sentences += n_words > 0
        return None

    def _progress(self) -> Bar:
        """Make a bar over bytes if it is known how many there are, else over records."""
        shown = self.options.progress
        total = self.inputs.total_bytes
        return Bar(
            desc="Parsing",
            total=total,
            initial=self.inputs.n_bytes if total is not None else self.counts.records,
            unit="record" if total is None else "B",
            unit_scale=total is not None,
            # None: where stderr is a terminal.
            disable=self.options.quiet or (None if shown is None else not shown),
            file=sys.stderr,
        )

    def _position(self, progress: Bar) -> int:
        return self.counts.records if progress.total is None else self.inputs.n_bytes

    @property
    def output_name(self) -> str:
        """What the output is called in messages."""
        return "stdout" if self.options.output == STDOUT else self.options.output

    def hint(self) -> str:
        """Tell how to go on after an early end."""
        if not isinstance(self.output, StreamOutput):
            return "The same command with --resume goes on."
        return ""

    def _report(self, complete: bool, seconds: float, words: int) -> None:
        counts = self.counts
        if complete and not counts.records:
            self.messages.warn("There was nothing to parse in the input")
        elif complete:
            self.messages.good(
                f"Wrote {counts.docs} texts, {counts.sentences} sentences, {counts.words} words "
                f"to {self.output_name} ({words / max(seconds, 1e-9):,.0f} words a second)"
            )
        if counts.failures:
            what = "Stopped at a record that failed" if not complete else "Not all went through"
            self.messages.fail(f"{what}: {counts.failures} of {counts.records} records failed")


def n_workers(options: ParseOptions) -> int:
    """Count the processes to parse in."""
    return (os.cpu_count() or 1) if options.n_process == -1 else options.n_process


# --- the pipeline ------------------------------------------------------------------------------


def load_pipeline(options: ParseOptions) -> Language:
    """Load the pipeline, and set what its parser is asked for.

    Raises
    ------
    CommandError
        If it cannot be loaded, or has no `root_mst`.
    """
    if options.gpu_id >= 0:
        try:
            require_gpu(options.gpu_id)
        except ValueError as error:
            raise CommandError(f"Cannot use GPU {options.gpu_id}: {error}") from error
    if options.code is not None:
        import_code(options.code)
    try:
        nlp = spacy.load(options.pipeline, config=options.settings)
    except Exception as error:
        raise CommandError(f"Cannot load {options.pipeline}", str(error)) from error
    parsers = [pipe for _, pipe in nlp.pipeline if isinstance(pipe, RootMST)]
    if not parsers:
        raise CommandError(
            f"{options.pipeline} has no component root_mst",
            f"Found: {', '.join(nlp.pipe_names) or 'no components'}.",
        )
    # The last one decides.
    parser = parsers[-1]
    if options.confidence is not None:
        parser.confidence = options.confidence
    if options.alternatives is not None:
        parser.alternatives = make_maker(options)
    if parser.confidence or parser.alternatives is not None:
        register_extensions()
    return nlp


def make_maker(options: ParseOptions) -> makers.Maker:
    """Make the function that makes alternatives."""
    if options.alternatives == "kbest":
        return makers.kbest(options.k)
    if options.alternatives == "sample":
        return makers.sample(options.k, options.seed)
    return makers.sample_without_replacement(options.k, options.seed)


def import_code(path: Path) -> None:
    """Import a file that registers functions.

    Raises
    ------
    CommandError
        If that fails.
    """
    try:
        util.import_file("python_code", path)
    except Exception as error:
        raise CommandError(f"Cannot import {path}", f"{type(error).__name__}: {error}") from error


# --- the output --------------------------------------------------------------------------------


def output_format(options: ParseOptions) -> str:
    """Tell the format from the output's suffix; CoNLL-U for a stream.

    Raises
    ------
    CommandError
        If there is no telling.
    """
    if options.to_format is not None:
        return options.to_format
    if is_stream(options):
        return "conllu"
    try:
        return OUTPUT_SUFFIXES[Path(options.output).suffix.lower()]
    except KeyError:
        raise CommandError(
            f"Cannot tell the format of {options.output} from its name",
            f"Expected {', '.join(OUTPUT_SUFFIXES)}, or --to with one of conllu, jsonl, spacy.",
        ) from None


def is_stream(options: ParseOptions) -> bool:
    """Tell whether the output is no file that could be resumed: stdout, a pipe, a device."""
    path = Path(options.output)
    return options.output == STDOUT or (path.exists() and not (path.is_file() or path.is_dir()))


def check_output(options: ParseOptions, to_format: str) -> None:
    """Check what can be checked before the pipeline is loaded.

    Raises
    ------
    CommandError
        If the output cannot be written.
    """
    if is_stream(options):
        if to_format == "spacy":
            raise CommandError("Docs cannot be written to a stream", "Give --output FOLDER.")
        return
    path = Path(options.output)
    for name in options.inputs:
        if name != STDIN and path.exists() and Path(name).exists() and path.samefile(name):
            raise CommandError(f"{path} is both input and output")
    makes_folder = to_format == "spacy" and path.suffix != ".spacy"
    check_free(path, makes_folder=makes_folder, force=options.force, resume=options.resume)


def open_output(options: ParseOptions, to_format: str, nlp: Language) -> Output:
    """Make the output, to be started."""
    path = Path(options.output)
    if options.output == STDOUT:
        return StreamOutput(WRITERS[to_format], sys.stdout.buffer)
    if is_stream(options):
        return StreamOutput(WRITERS[to_format], open(path, "wb"))
    settings = identity(options, to_format, nlp)
    if to_format == "spacy":
        return DocsOutput(path, settings)
    return FileOutput(WRITERS[to_format], path, settings)


def identity(options: ParseOptions, to_format: str, nlp: Language) -> dict[str, Any]:
    """List all that the output depends on beside the input, as JSON has it."""
    alternatives = None
    if options.alternatives is not None:
        alternatives = [options.alternatives, options.k]
        if options.alternatives != "kbest":
            alternatives.append(options.seed)
    return {
        "spacy-rootmind": version("spacy-rootmind"),
        "spacy": version("spacy"),
        "pipeline": hash_files(nlp.path),
        "code": hash_files(options.code),
        "settings": options.settings,
        "from": [options.from_format or input_format(name) for name in options.inputs],
        "to": to_format,
        "paragraphs": options.paragraphs,
        "confidence": options.confidence,
        "alternatives": alternatives,
        # Batches are padded, and sums may differ in their last digits.
        "batch_size": options.batch_size,
        "n_process": options.n_process,
        "gpu_id": options.gpu_id,
    }


def hash_files(path: Path | None) -> str | None:
    """Identify a file, or a folder with all files in it, by content."""
    if path is None:
        return None
    total = blake2b(digest_size=16)
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    for file in files:
        total.update(f"{file.relative_to(path).as_posix()}\0{file.stat().st_size}\0".encode())
        with open(file, "rb") as stream:
            while block := stream.read(1 << 16):
                total.update(block)
    return total.hexdigest()
