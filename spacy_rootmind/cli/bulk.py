"""The command `bulk`: parses a corpus of any size into a folder."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter

from tqdm import tqdm

from spacy_rootmind.bulk.arrow_parser import ArrowParser
from spacy_rootmind.bulk.engine import HINT, connect, run_parts
from spacy_rootmind.bulk.folder import OutputFolder
from spacy_rootmind.bulk.part import Job, read_counts
from spacy_rootmind.bulk.sources import END, Part, Source, cut_source, list_sources
from spacy_rootmind.cli.messages import Messages, amounts, progress_bar, warn_of_guidelines
from spacy_rootmind.cli.options import BulkOptions
from spacy_rootmind.formats.registry import PARQUET
from spacy_rootmind.parsing.settings import RunError
from spacy_rootmind.parsing.stream import Counts, errors_in

# Larger parts lose more work when a worker dies, smaller ones make more files. Small inputs still
# have enough parts for several workers.
MAX_PART_BYTES = 4 << 20
MIN_PART_BYTES = 64 << 10
FEW_PARTS = 64
READERS_OF_COUNTS = 16
FAILED_HINT = f"{HINT} After a change of the input, give another --output."


@dataclass
class Progress:
    """Counts of all parts, the words of this run alone, and the parts that are missing."""

    total: Counts
    words: int = 0
    start: float = field(default_factory=perf_counter)
    failed: list[tuple[Part, BaseException]] = field(default_factory=list)

    @property
    def words_a_second(self) -> float:
        """Words per second of this run."""
        return self.words / max(perf_counter() - self.start, 1e-9)


def bulk(options: BulkOptions) -> int:
    """Run the command; returns the exit code."""
    messages = Messages(options.quiet)
    form = options.to_format
    options.settings.check_output(form)
    parser = ArrowParser(
        options.settings,
        text=options.text_column,
        tokens=options.tokens_column,
        id_column=options.id_column,
    )
    sources = list_sources(options.inputs, options.from_format)
    job = Job(parser, options.output, form, parser.identity())
    folder = OutputFolder(job, sources)
    size = options.part_size or part_bytes(sources)
    parts = folder.start(partial(cut_source, part_bytes=size, parser=parser))
    done = folder.done(parts)
    if done:
        messages.show("info", f"{len(done)} of {len(parts)} parts are already finished")
    present = {part.number for part in done}
    todo = [part for part in parts if part.number not in present]
    n_bytes, n_done = (sum(part.size for part in some) for some in (parts, done))
    bar = progress_bar(n_bytes, "B", quiet=options.quiet, initial=n_done)
    progress = Progress(counts_of(folder, done))
    with bar:
        if todo:
            _run(options, job, todo, progress, bar, messages)
    if not progress.failed:
        folder.remove_temporary()
    return _report(options, messages, progress, len(parts))


def part_bytes(sources: Sequence[Source]) -> int:
    """Choose the size of parts."""
    total = sum(source.size for source in sources)
    return min(max(total // FEW_PARTS, MIN_PART_BYTES), MAX_PART_BYTES)


def counts_of(folder: OutputFolder, parts: Sequence[Part]) -> Counts:
    """Add up the counts of finished parts."""
    total = Counts()
    paths = [f"{folder.path}/{folder.job.done_name(part.number)}" for part in parts]
    with ThreadPoolExecutor(READERS_OF_COUNTS) as pool:
        for counts in pool.map(partial(read_counts, folder.fs), paths):
            total.update(counts)
    return total


def _run(
    options: BulkOptions,
    job: Job,
    parts: Sequence[Part],
    progress: Progress,
    bar: tqdm,
    messages: Messages,
) -> None:
    n_workers = options.n_workers or os.cpu_count() or 1
    try:
        with connect(options.scheduler, min(n_workers, len(parts))) as client:
            messages.show("info", f"Dashboard: {client.dashboard_link}")
            progress.start = perf_counter()
            for part, result in run_parts(client, job, parts):
                if isinstance(result, BaseException):
                    progress.failed.append((part, result))
                    continue
                progress.total.update(result)
                progress.words += result["words"]
                bar.set_postfix_str(f"{progress.words_a_second:,.0f} words/s", refresh=False)
                bar.update(part.size)
    except OSError as error:
        if options.scheduler is None:
            raise
        raise RunError(f"Cannot reach the scheduler {options.scheduler}: {error}") from error


def _report(options: BulkOptions, messages: Messages, progress: Progress, n_parts: int) -> int:
    total, failed, errors = progress.total, progress.failed, errors_in(progress.total)
    speed = f" ({progress.words_a_second:,.0f} words per second)" if progress.words else ""
    summary = (
        f"{amounts(total)} in {n_parts - len(failed)} of {n_parts} parts in {options.output}{speed}"
    )
    if errors:
        kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(errors.items()))
        place = "the column error" if options.to_format == PARQUET else "_done/*.json"
        messages.show("warn", f"Errors, in {place}: {kinds}")
    warn_of_guidelines(messages, total)
    for part, error in failed:
        place = f"{part.source.url}, {part.start} to {'its end' if part.stop == END else part.stop}"
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        messages.show("fail", f"Part {part.number} ({place}): {reason}")
    if failed:
        messages.show(
            "fail", f"{len(failed)} of {n_parts} parts are missing. {summary}", FAILED_HINT
        )
    else:
        messages.show("good", summary)
    return 1 if failed or errors else 0
