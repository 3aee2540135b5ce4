"""Speed, start-up and memory of trained pipelines on the raw text of a treebank, on one core.

Each round runs each pipeline in a process of its own, in turns. Times are processor times, with
tokenization: seconds from the start of Python to a loaded pipeline, and to its first parse; words
per second in batches; milliseconds for one sentence. Memory is the most that the process held.
`NAME-COMPONENT` is a pipeline without a component, and a file of the suffix .udpipe is UDPipe 1's.

    python benchmarks/component.py en_rootmind_web_sm en_core_web_sm-ner --corpus test.spacy
"""

import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

from lib.options import make_parser

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
COLUMNS = {
    "load": ("load, s", "{:.2f}"),
    "first": ("to the first parse, s", "{:.2f}"),
    "speed": ("words per second", "{:,.0f}"),
    "one": ("one sentence, ms", "{:.2f}"),
    "memory": ("memory, MB", "{:.0f}"),
}
# Sentences that are parsed one by one, after some that are not timed.
SINGLE, WARM = 300, 20

# The first column of a word in CoNLL-U.
WORD = re.compile(r"^\d+\t", re.MULTILINE)

Pipe = Callable[[list[str]], Iterable[int]]
"""Parses texts, and yields the number of words of each."""


def load(name: str) -> Pipe:
    """Load a pipeline; modules are imported here, as this is timed."""
    if name.endswith(".udpipe"):
        import ufal.udpipe as udpipe

        default, error = udpipe.Pipeline.DEFAULT, udpipe.ProcessingError()
        model = udpipe.Model.load(name)
        pipeline = udpipe.Pipeline(model, "tokenize", default, default, "conllu")
        # UDPipe's objects do not keep each other alive.
        parse = partial(_process, pipeline.process, error, keep=(model, pipeline))
        return lambda texts: map(parse, texts)
    import spacy

    package, *excluded = name.split("-") if not Path(name).exists() else [name]
    nlp = spacy.load(package, exclude=excluded)
    return lambda texts: (len(doc) for doc in nlp.pipe(texts))


def _process(process: Callable[..., str], error: Any, text: str, keep: Any) -> int:
    return len(WORD.findall(process(text, error)))


def measure(name: str, texts: list[str], sentences: list[str]) -> dict[str, float]:
    """Measure one pipeline, in this process."""
    pipe = load(name)
    found = {"load": process_time()}
    list(pipe(sentences[:1]))
    found["first"] = process_time()
    times = []
    for text in sentences[: SINGLE + WARM]:
        start = process_time()
        list(pipe([text]))
        times.append(process_time() - start)
    found["one"] = 1000 * sum(times[WARM:]) / len(times[WARM:])
    start = process_time()
    n_words = sum(pipe(texts))
    found["speed"] = n_words / (process_time() - start)
    found["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return found


def main() -> None:
    """Measure and print."""
    parser = make_parser(__doc__)
    parser.add_argument("models", nargs="+", help="names, folders, or UDPipe's models")
    parser.add_argument("--corpus", type=Path, help="gold Docs, a .spacy file")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    if options.corpus is None:
        print(json.dumps(measure(*options.models, **json.load(sys.stdin))))
        return
    from lib.pipelines import read_gold
    from lib.tables import table

    docs = read_gold(options.corpus)
    texts = {
        "texts": [doc.text for doc in docs],
        "sentences": [sent.text for doc in docs for sent in doc.sents],
    }
    found: dict[str, list[dict[str, float]]] = {name: [] for name in options.models}
    for _ in range(options.rounds):
        for name, own in found.items():
            result = subprocess.run(
                [sys.executable, __file__, name],
                input=json.dumps(texts),
                stdout=subprocess.PIPE,
                text=True,
                check=True,
                env={**os.environ, **ONE_THREAD},
            )
            own.append(json.loads(result.stdout))
    rows = [
        [
            name,
            *(form.format(median(each[key] for each in own)) for key, (_, form) in COLUMNS.items()),
        ]
        for name, own in found.items()
    ]
    print(table(["pipeline", *(name for name, _ in COLUMNS.values())], rows))


if __name__ == "__main__":
    main()
