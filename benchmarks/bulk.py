"""Speed and memory of parsing a corpus in bulk.

    python benchmarks/bulk.py MODEL --text corpus.txt

Repeat the command to continue a run that was interrupted. Three measurements, on a text with one
document per line:

- speed: words per second of `nlp.pipe` in one process and with n_process=2, of `ArrowParser`, and
  of the engine with one and two workers, in turns; the ratios to `nlp.pipe` within each round. The
  start of the engine's processes is not counted, the loading of pipelines in them is warmed up.
- memory: that of a worker that parses the text again and again, after each part of 1 MiB.
- scheduler: memory of the process with the scheduler while parts are run that do nothing.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from unittest import mock

import pyarrow as pa
import spacy
from lib.records import Records
from lib.tables import table

from spacy_rootmind.bulk import ArrowParser, engine
from spacy_rootmind.bulk.part import Job, identity_of
from spacy_rootmind.bulk.sources import Part, cut_source, list_sources
from spacy_rootmind.parsing.stream import Counts

PAGE = os.sysconf("SC_PAGE_SIZE")
# More parts than workers, so that both end at about the same time.
PARTS_A_WORKER = 16
SPEED = {
    "nlp.pipe": "one process",
    "n_process=2": "nlp.pipe, two processes",
    "ArrowParser": "one process",
    "bulk, 1": "one worker",
    "bulk, 2": "two workers",
}


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("model", help="folder or package of a pipeline")
    arguments.add_argument("--text", type=Path, required=True, help="one document per line")
    arguments.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    arguments.add_argument("--rounds", type=int, default=5, help="rounds of speed")
    arguments.add_argument("--documents", type=int, default=1000, help="documents per round")
    arguments.add_argument("--megabytes", type=int, default=30, help="for memory")
    arguments.add_argument("--parts", type=int, default=1_000_000, help="for the scheduler")
    arguments.add_argument("--only", choices=["speed", "memory", "scheduler"])
    return arguments.parse_args()


# --- speed -------------------------------------------------------------------------------------


def measure_speed(arguments: argparse.Namespace, records: Records) -> None:
    """Time all ways to parse, in turns, as many rounds as are missing."""
    done = records.read()
    missing = [i for i in range(arguments.rounds) if ("speed", i) not in done]
    if not missing:
        return
    with open(arguments.text, encoding="utf8") as file:
        lines = [line.strip() for line in file if line.strip()][: arguments.documents]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        corpus = folder / "corpus.txt"
        corpus.write_text("\n".join(lines) + "\n", encoding="utf8")
        size = max(2, corpus.stat().st_size // PARTS_A_WORKER)
        nlp = spacy.load(arguments.model)
        data = pa.table({"id": [str(i) for i in range(len(lines))], "text": lines})
        parser = ArrowParser(arguments.model)
        with engine.connect(None, 1) as one, engine.connect(None, 2) as two:
            calls: dict[str, Callable[[], object]] = {
                "nlp.pipe": lambda: sum(1 for _ in nlp.pipe(lines)),
                "n_process=2": lambda: sum(1 for _ in nlp.pipe(lines, n_process=2)),
                "ArrowParser": lambda: parser(data),
                "bulk, 1": lambda: sum(1 for _ in run_engine(one, parser, corpus, size)),
                "bulk, 2": lambda: sum(1 for _ in run_engine(two, parser, corpus, size // 2)),
            }
            for call in calls.values():
                call()
            n_words = sum(len(doc) for doc in nlp.pipe(lines))
            for i in missing:
                times = {}
                for kind, call in calls.items():
                    start = time.perf_counter()
                    call()
                    times[kind] = time.perf_counter() - start
                records.add({"kind": "speed", "number": i, "words": n_words, "seconds": times})


def run_engine(client, parser: ArrowParser, corpus: Path, size: int) -> Iterator[Part]:
    """Parse the corpus into a new folder; yield each part of `size` bytes when it is done."""
    output = tempfile.mkdtemp(dir=corpus.parent)
    [source] = list_sources([str(corpus)])
    cuts = cut_source(source, size, parser)
    parts = [Part(i, source, *cut) for i, cut in enumerate(cuts)]
    job = Job(parser, output, identity=identity_of(parser))
    for part, result in engine.run_parts(client, job, parts):
        if isinstance(result, BaseException):
            raise result
        yield part


# --- memory ------------------------------------------------------------------------------------


def measure_memory(arguments: argparse.Namespace, records: Records) -> None:
    """Parse the text again and again in a worker, with other words each time."""
    if ("memory", arguments.megabytes) in records.read():
        return
    parser = ArrowParser(arguments.model)
    with tempfile.TemporaryDirectory() as folder, engine.connect(None, 1) as client:
        corpus = Path(folder, "corpus.txt")
        write_corpus(arguments.text, corpus, arguments.megabytes << 20)
        for number, _ in enumerate(run_engine(client, parser, corpus, 1 << 20), start=1):
            [n_bytes] = client.run(resident).values()
            records.add({"kind": "memory", "number": number, "MiB": number, "mib": n_bytes / 2**20})


def write_corpus(text: Path, path: Path, size: int) -> None:
    """Write at least `size` bytes of documents, in each of which some words are new."""
    with open(path, "w", encoding="utf8") as file:
        for number, line in enumerate(cycle(text.read_text(encoding="utf8").splitlines())):
            if file.tell() >= size:
                return
            words = [f"{w}x{number}" if i % 30 == 29 else w for i, w in enumerate(line.split(" "))]
            file.write(" ".join(words) + "\n")


def resident() -> int:
    """Return the memory of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


# --- scheduler ---------------------------------------------------------------------------------


def do_nothing(job: Job, part: Part, killers: frozenset[int] = frozenset()) -> Counts:
    """Stand for the parsing of a part."""
    return Counts(documents=1)


def measure_scheduler(arguments: argparse.Namespace, records: Records) -> None:
    """Run parts that do nothing, and follow the memory of this process and their rate."""
    n_parts = arguments.parts
    if ("scheduler", n_parts) in records.read():
        return
    [source] = list_sources([str(arguments.text)])
    parts = [Part(i, source, i, i + 1, 1) for i in range(n_parts)]
    job = Job(ArrowParser(arguments.model), "nowhere")
    start = time.perf_counter()
    with mock.patch.object(engine, "parse_part", do_nothing), engine.connect(None, 2) as client:
        for finished, _ in enumerate(engine.run_parts(client, job, parts), start=1):
            if finished % max(1, n_parts // 20) == 0:
                records.add(
                    {
                        "kind": "scheduler",
                        "number": n_parts if finished == n_parts else -finished,
                        "parts": finished,
                        "mib": resident() / 2**20,
                        "parts_a_second": finished / (time.perf_counter() - start),
                    }
                )


# --- report ------------------------------------------------------------------------------------


def print_report(records: Records) -> None:
    """Print what was measured so far."""
    found = list(records.read().values())
    rounds = [record for record in found if record["kind"] == "speed"]
    if rounds:
        rows = []
        for kind, processes in SPEED.items():
            ratios = [r["seconds"]["nlp.pipe"] / r["seconds"][kind] for r in rounds]
            speeds = [r["words"] / r["seconds"][kind] for r in rounds]
            rows.append(
                [
                    kind,
                    processes,
                    f"{statistics.median(speeds):,.0f}",
                    f"{statistics.median(ratios):.2f}",
                    f"{min(ratios):.2f} to {max(ratios):.2f}",
                ]
            )
        heads = ["way", "processes", "words per second", "times nlp.pipe", "over the rounds"]
        print(table(heads, rows))
    for kind, unit, rate in (
        ("memory", "MiB", None),
        ("scheduler", "parts", "parts_a_second"),
    ):
        own = sorted((r for r in found if r["kind"] == kind), key=lambda record: record[unit])
        if own:
            heads = [unit, "MiB of memory", *(["per second"] if rate else [])]
            rows = [
                [f"{record[unit]:,}", f"{record['mib']:.0f}"]
                + ([f"{record[rate]:.0f}"] if rate else [])
                for record in own
            ]
            print(f"\n{kind}\n" + table(heads, rows))


def main() -> None:
    """Measure what is missing, and print all of it."""
    arguments = parse_arguments()
    arguments.out.mkdir(parents=True, exist_ok=True)
    records = Records(arguments.out / "bulk.jsonl", ("kind", "number"))
    records.repair()
    measurements = {
        "speed": measure_speed,
        "memory": measure_memory,
        "scheduler": measure_scheduler,
    }
    for name, measure in measurements.items():
        if arguments.only in (None, name):
            measure(arguments, records)
    print_report(records)


if __name__ == "__main__":
    main()
