"""A run of the command `parse`, which parses records chunk by chunk."""

import os
import sys
from itertools import islice
from time import perf_counter

from spacy.language import Language
from spacy.tokens import Doc

from spacy_rootmind.cli.input_records import Failure, InputRecord
from spacy_rootmind.cli.inputs import InputError, Inputs
from spacy_rootmind.cli.journal import Counts, State
from spacy_rootmind.cli.long_runs import cut_long_runs
from spacy_rootmind.cli.messages import Bar, CommandError, Messages
from spacy_rootmind.cli.options import ParseOptions
from spacy_rootmind.cli.outputs import DocsOutput, FileOutput, Output
from spacy_rootmind.cli.processes import WORKERS, end_workers
from spacy_rootmind.cli.readers import InputRecords, read_records
from spacy_rootmind.cli.stream import chunks, parse_records

# Chunks bound memory, and the work that a crash loses. They are larger with several processes,
# which are started again for each chunk.
CHUNK_RECORDS = 1024
CHUNK_CHARS = 1_000_000
CHUNKS_A_PROCESS = 8


class Run:
    """A run of the command, from the beginning or resumed."""

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
        """Parse all records; returns the exit code."""
        start = perf_counter()
        try:
            state = self.output.start(self.options.resume, self.options.force)
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
                f"Cannot write {self.options.output_name}: {error.strerror or error}", self.hint()
            ) from error
        finally:
            self.output.close()
        self._report(complete, perf_counter() - start, self.counts.words - before)
        return 0 if complete and not self.counts.failures else 1

    def _skip(self, records: InputRecords, state: State) -> None:
        """Read the records that were parsed before, and check that they are the same."""
        for _ in islice(records, state.counts.records):
            pass
        if self.inputs.digest() != state.input_digest:
            raise CommandError(
                "Cannot resume: the input differs from that of the unfinished run",
                f"Its first {state.counts.records} records differ. Start again with --force.",
            )
        self.counts = state.counts
        self.messages.info(f"Continuing after {state.counts.records} records")

    def _parse(self, records: InputRecords, progress: Bar) -> bool:
        """Parse chunk by chunk; returns whether all of the input was parsed."""
        limit = self.options.max_word_length
        records = cut_long_runs(records, self.nlp, limit, self.messages.warn)
        scale = 1 if self.options.n_process == 1 else CHUNKS_A_PROCESS * self.options.n_workers
        for chunk in chunks(records, CHUNK_RECORDS * scale, CHUNK_CHARS * scale):
            # Frees what the chunk adds to the vocabulary.
            with self.nlp.memory_zone():
                if not self._parse_chunk(chunk, progress):
                    return False
            self.output.commit(self.counts, self.inputs.digest())
        return True

    def _parse_chunk(self, chunk: InputRecords, progress: Bar) -> bool:
        # Keep a reference, so that an early end does not close the stream before `end_workers`.
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
            # Otherwise `nlp.pipe` would wait for workers that still run.
            end_workers()
            stream.close()
        return True

    def _write(self, record: InputRecord, doc: Doc) -> Failure | None:
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
        """Make a progress bar over bytes if their number is known, else over records."""
        shown = self.options.progress
        total = self.inputs.total_bytes
        return Bar(
            desc="Parsing",
            total=total,
            initial=self.inputs.n_bytes if total is not None else self.counts.records,
            unit="record" if total is None else "B",
            unit_scale=total is not None,
            # None shows the bar only if stderr is a terminal.
            disable=self.options.quiet or (None if shown is None else not shown),
            file=sys.stderr,
        )

    def _position(self, progress: Bar) -> int:
        return self.counts.records if progress.total is None else self.inputs.n_bytes

    def hint(self) -> str:
        """Return advice on how to resume the run, if it has left anything to resume."""
        output = self.output
        if isinstance(output, FileOutput | DocsOutput) and os.path.exists(output.partial):
            return "Run the same command with --resume to continue."
        return ""

    def _report(self, complete: bool, seconds: float, words: int) -> None:
        counts = self.counts
        if complete and not counts.records:
            self.messages.warn("The input has nothing to parse")
        elif complete:
            self.messages.good(
                f"Wrote {counts.docs} texts, {counts.sentences} sentences, {counts.words} words "
                f"to {self.options.output_name} "
                f"({words / max(seconds, 1e-9):,.0f} words per second)"
            )
        if counts.failures:
            what = "Some records failed" if complete else "Stopped at a failed record"
            self.messages.fail(
                f"{what}: {counts.failures} of {counts.records} records failed",
                "" if complete else self.hint(),
            )
