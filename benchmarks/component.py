"""Speed of pipelines with root_mst, and the share of each stage in the component's time.

For trained pipelines and the raw text of a treebank (a .spacy file): words per second of each
pipeline, tokenization included, timed in turns; and for pipelines with root_mst, the share of each
stage in the component's time, also with confidence, arcs and alternatives.

    python benchmarks/component.py training/model-best other/model-best --corpus test.spacy
"""

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import spacy
from lib.pipelines import read_gold, words_per_second
from lib.tables import table
from spacy.language import Language
from spacy.tokens import Doc

from spacy_rootmind.pipeline import root_mst, sentence_parser
from spacy_rootmind.pipeline.sentence_parser import SentenceParser
from spacy_rootmind.trees import labelled


def ten_alternatives(method: str) -> dict[str, Any]:
    """Return settings for ten alternatives."""
    return {"alternatives": {"@misc": f"spacy_rootmind.{method}.v1", "k": 10}}


SETTINGS: dict[str, dict[str, Any]] = {
    "trees only": {},
    "confidence": {"confidence": True},
    "arcs of probability 0.01": {"arc_threshold": 0.01},
    "10 best": ten_alternatives("kbest"),
    "10 samples": ten_alternatives("sample"),
    "10 different samples": ten_alternatives("sample_without_replacement"),
}
# A stage within another one only counts for the inner one.
STAGES = (
    ("labels", SentenceParser, "_find_trees"),
    ("decode", sentence_parser, "decode"),
    ("decode", labelled, "decode"),
    ("marginals, entropy", SentenceParser, "_find_probabilities"),
    ("arcs and their labels", sentence_parser, "label_arcs"),
    ("alternatives", SentenceParser, "_find_alternatives"),
    ("labels of alternatives", sentence_parser, "label_alternatives"),
    ("into the Doc", root_mst, "annotate"),
)
# Time after the component, as a share of the component's.
READING = "and to read each token's head_prob"
LAYERS = {"token vectors": "tok2vec", "boundaries": "boundaries", "arc scores": "trees"}


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("models", nargs="+", help="names or folders of trained pipelines")
    arguments.add_argument("--corpus", type=Path, required=True, help="a .spacy file")
    arguments.add_argument("--limit", type=int, help="number of Docs to use")
    arguments.add_argument("--rounds", type=int, default=5)
    return arguments.parse_args()


class Stopwatch:
    """Processor time by stage; a stage within another one only counts for the inner one."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._inner = [0.0]

    def around(self, stage: str, function: Callable) -> Callable:
        """Time every call of a function."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            self._inner.append(0.0)
            start = time.process_time()
            try:
                return function(*args, **kwargs)
            finally:
                elapsed = time.process_time() - start
                self.seconds[stage] += elapsed - self._inner.pop()
                self._inner[-1] += elapsed

        return timed


@contextmanager
def timed_stages(pipe: root_mst.RootMST) -> Iterator[Stopwatch]:
    """Time the stages of a component within the context."""
    watch = Stopwatch()
    with ExitStack() as stack:
        for stage, owner, name in STAGES:
            timed = watch.around(stage, getattr(owner, name))
            stack.enter_context(mock.patch.object(owner, name, timed))
        for stage, name in LAYERS.items():
            layer = pipe.model.get_ref(name)
            forward = layer._func
            stack.callback(setattr, layer, "_func", forward)
            layer._func = watch.around(stage, forward)
        yield watch


def profile(nlp: Language, name: str, texts: list[str]) -> tuple[float, dict[str, float]]:
    """Parse texts once; returns words per second of the component, and shares of its stages."""
    pipe = nlp.get_pipe(name)
    docs = [nlp.make_doc(text) for text in texts]
    for before, component in nlp.pipeline:
        if before == name:
            break
        docs = list(component.pipe(docs))
    with timed_stages(pipe) as watch:
        start = time.process_time()
        docs = list(pipe.pipe(docs))
        total = time.process_time() - start
    shares = {stage: seconds / total for stage, seconds in watch.seconds.items()}
    shares["other"] = 1.0 - sum(shares.values())
    if pipe.settings.confidence:
        shares[READING] = time_reading(docs) / total
    return sum(map(len, docs)) / total, shares


def time_reading(docs: list[Doc]) -> float:
    """Read the probability of each token's head; returns seconds of processor time."""
    start = time.process_time()
    for doc in docs:
        for token in doc:
            _ = token._.head_prob
    return time.process_time() - start


def main() -> None:
    """Measure and print."""
    options = parse_arguments()
    texts = [doc.text for doc in read_gold(options.corpus, options.limit)]
    speeds = words_per_second({name: name for name in options.models}, texts, options.rounds)
    rows = [[model, f"{speed:,.0f}"] for model, speed in speeds.items()]
    print(table(["pipeline", "words per second"], rows), end="\n\n")
    for model in options.models:
        for name, pipe in spacy.load(model).pipeline:
            if isinstance(pipe, root_mst.RootMST):
                print(f"{name} of {model}: share of the component's time, %", end="\n\n")
                print(_profiles(model, name, texts), end="\n\n")


def _profiles(model: str, name: str, texts: list[str]) -> str:
    columns = {}
    for title, settings in SETTINGS.items():
        config = {f"components.{name}.{key}": value for key, value in settings.items()}
        words, shares = profile(spacy.load(model, config=config), name, texts)
        columns[title] = {stage: f"{100 * share:.1f}" for stage, share in shares.items()}
        columns[title]["words per second"] = f"{words:,.0f}"
    stages = [*LAYERS, *dict.fromkeys(s for s, *_ in STAGES), "other", READING, "words per second"]
    rows = [[stage, *(own.get(stage, "") for own in columns.values())] for stage in stages]
    return table(["", *columns], rows)


if __name__ == "__main__":
    main()
