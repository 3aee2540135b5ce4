"""Where the time of a pipeline with root_mst goes, and how many words a second it parses.

For trained pipelines and a treebank as a .spacy file, whose raw text is parsed: words a second of
each pipeline, tokenization included, in turns; and for those with a root_mst, the share of each
stage in the component's time, also with confidence, arcs and alternatives asked for.

    python benchmarks/component.py training/model-best other/model-best --corpus test.spacy
"""

import argparse
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import spacy
from lib.tables import table
from spacy.language import Language
from spacy.tokens import DocBin

from spacy_rootmind.pipeline import prediction, root_mst
from spacy_rootmind.trees import labelled


def ten(maker: str) -> dict[str, Any]:
    """Ask for ten alternatives."""
    return {"alternatives": {"@misc": f"spacy_rootmind.{maker}.v1", "k": 10}}


ASKED: dict[str, dict[str, Any]] = {
    "nothing": {},
    "confidence": {"confidence": True},
    "arcs of 0.01 and more": {"arc_threshold": 0.01},
    "10 best": ten("kbest"),
    "10 samples": ten("sample"),
    "10 different samples": ten("sample_without_replacement"),
}
# What is timed inside another of these counts for itself alone.
STAGES = (
    ("labels", prediction, "_find_trees"),
    ("decode", prediction, "decode"),
    ("decode", labelled, "decode"),
    ("marginals, entropy", prediction, "distribution"),
    ("arcs and their labels", prediction, "label_arcs"),
    ("alternatives", prediction, "make_alternatives"),
    ("labels of alternatives", prediction, "label_alternatives"),
    ("into the Doc", root_mst, "annotate"),
)
LAYERS = {"token vectors": "tok2vec", "boundaries": "boundaries", "arc scores": "trees"}


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("models", nargs="+", help="names or folders of trained pipelines")
    arguments.add_argument("--corpus", type=Path, required=True, help="a .spacy file")
    arguments.add_argument("--limit", type=int, help="use so many Docs")
    arguments.add_argument("--rounds", type=int, default=5)
    return arguments.parse_args()


def time_texts(nlp: Language, texts: list[str]) -> float:
    """Parse texts once; words a second of processor time."""
    start = time.process_time()
    n_words = sum(len(doc) for doc in nlp.pipe(texts))
    return n_words / (time.process_time() - start)


class Stopwatch:
    """Processor time by stage; that of a stage within another counts for the inner one alone."""

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
def watched(pipe: root_mst.RootMST) -> Iterator[Stopwatch]:
    """Time the stages of a component while in the block."""
    watch = Stopwatch()
    with ExitStack() as stack:
        for stage, module, name in STAGES:
            timed = watch.around(stage, getattr(module, name))
            stack.enter_context(mock.patch.object(module, name, timed))
        for stage, name in LAYERS.items():
            layer = pipe.model.get_ref(name)
            forward = layer._func
            stack.callback(setattr, layer, "_func", forward)
            layer._func = watch.around(stage, forward)
        yield watch


def profile(nlp: Language, name: str, texts: list[str]) -> tuple[float, dict[str, float]]:
    """Parse texts once; words a second of the component, and the share of each stage."""
    pipe = nlp.get_pipe(name)
    docs = [nlp.make_doc(text) for text in texts]
    for before, component in nlp.pipeline:
        if before == name:
            break
        docs = list(component.pipe(docs))
    with watched(pipe) as watch:
        start = time.process_time()
        n_words = sum(len(doc) for doc in pipe.pipe(docs))
        total = time.process_time() - start
    shares = {stage: seconds / total for stage, seconds in watch.seconds.items()}
    shares["all else"] = 1.0 - sum(shares.values())
    return n_words / total, shares


def main() -> None:
    """Measure and print."""
    options = parse_arguments()
    gold = DocBin().from_disk(options.corpus).get_docs(spacy.blank("en").vocab)
    texts = [doc.text for doc in gold][: options.limit]
    pipelines = {model: spacy.load(model) for model in options.models}
    speeds: dict[str, list[float]] = {model: [] for model in pipelines}
    for _ in range(options.rounds):
        for model, nlp in pipelines.items():
            speeds[model].append(time_texts(nlp, texts))
    rows = [[model, f"{statistics.median(own):,.0f}"] for model, own in speeds.items()]
    print(table(["pipeline", "words a second"], rows), end="\n\n")
    for model, nlp in pipelines.items():
        for name, pipe in nlp.pipeline:
            if isinstance(pipe, root_mst.RootMST):
                print(f"{name} of {model}: share of the component's time, %", end="\n\n")
                print(_profiles(model, name, texts), end="\n\n")


def _profiles(model: str, name: str, texts: list[str]) -> str:
    columns = {}
    for title, settings in ASKED.items():
        config = {f"components.{name}.{key}": value for key, value in settings.items()}
        words, shares = profile(spacy.load(model, config=config), name, texts)
        columns[title] = {stage: f"{100 * share:.1f}" for stage, share in shares.items()}
        columns[title]["words a second"] = f"{words:,.0f}"
    stages = [*LAYERS, *dict.fromkeys(s for s, *_ in STAGES), "all else", "words a second"]
    rows = [[stage, *(own.get(stage, "") for own in columns.values())] for stage in stages]
    return table(["", *columns], rows)


if __name__ == "__main__":
    main()
