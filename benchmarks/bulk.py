"""Speed of parsing a corpus in bulk.

    python benchmarks/bulk.py MODEL --text corpus.txt

On a text with one document a line: words per second of `nlp.pipe` in one process and with
n_process=2, of `ArrowParser`, and of the engine with one and two workers, in turns; and the ratios
to `nlp.pipe` within each round. The start of the engine's processes is not counted, and all
pipelines are warmed up.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import spacy
from lib.tables import table

from spacy_rootmind.bulk import ArrowParser, engine
from spacy_rootmind.bulk.part import Job
from spacy_rootmind.bulk.sources import Part, cut_source, list_sources

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
    arguments.add_argument("--rounds", type=int, default=5, help="rounds of speed")
    arguments.add_argument("--documents", type=int, default=1000, help="documents per round")
    return arguments.parse_args()


def measure_speed(arguments: argparse.Namespace) -> Iterator[tuple[int, dict[str, float]]]:
    """Time all ways to parse, in turns; yields words, and the seconds of each way in a round."""
    with open(arguments.text, encoding="utf8") as file:
        lines = [line.strip() for line in file if line.strip()][: arguments.documents]
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder, "corpus.txt")
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
            for _ in range(arguments.rounds):
                times = {}
                for kind, call in calls.items():
                    start = time.perf_counter()
                    call()
                    times[kind] = time.perf_counter() - start
                yield n_words, times


def run_engine(client, parser: ArrowParser, corpus: Path, size: int) -> Iterator[Part]:
    """Parse the corpus into a new folder; yield each part of `size` bytes when it is done."""
    output = tempfile.mkdtemp(dir=corpus.parent)
    [source] = list_sources([str(corpus)])
    cuts = cut_source(source, size, parser)
    parts = [Part(i, source, *cut) for i, cut in enumerate(cuts)]
    job = Job(parser, output, identity=parser.identity())
    for part, result in engine.run_parts(client, job, parts):
        if isinstance(result, BaseException):
            raise result
        yield part


def main() -> None:
    """Measure and print."""
    rounds = list(measure_speed(parse_arguments()))
    rows = []
    for kind, processes in SPEED.items():
        ratios = [seconds["nlp.pipe"] / seconds[kind] for _, seconds in rounds]
        speeds = [n_words / seconds[kind] for n_words, seconds in rounds]
        shown = f"{statistics.median(speeds):,.0f}", f"{statistics.median(ratios):.2f}"
        rows.append([kind, processes, *shown, f"{min(ratios):.2f} to {max(ratios):.2f}"])
    heads = ["way", "processes", "words per second", "times nlp.pipe", "over the rounds"]
    print(table(heads, rows))


if __name__ == "__main__":
    main()
