"""Trainings: treebanks as corpora, configs with their steps, and the trainings themselves.

Trainings may take a given CPU time, which is that of the process: of initialization, of
all steps, and of what happens every few steps, evaluation on the dev set and saving. Other work on
the machine hardly affects it.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from io import StringIO
from itertools import pairwise
from pathlib import Path
from statistics import mean

import spacy
from spacy.language import Language
from spacy.tokens import Doc, DocBin
from spacy.training import Corpus, Example
from spacy.training.converters import conllu_to_docs
from spacy.training.initialize import init_nlp
from spacy.training.loop import train as train_nlp
from thinc.api import Config, NumpyOps, set_current_ops

from spacy_rootmind.cli.init_config import ConfigOptions, make_config
from spacy_rootmind.compat import init_config

ROOT_MST, PARSER = SYSTEMS = ("root_mst", "parser")
CLOCK = "benchmarks.clock.v1"
GOLD_READER = "benchmarks.gold_attributes.v1"
SPLITS = ("train", "dev", "test")
# Without a dev set, one of this many training Docs is held out.
HELD_OUT = 10
# Evaluations of root_mst on the dev set, after that of step 0.
EVALUATIONS = 5
# At most one of this many steps is for warm-up.
WARMUP = 10
# Steps in which the pace is measured.
PILOT_STEPS = 20


# --- treebanks ---------------------------------------------------------------------------------


def convert_treebank(train_file: Path, folder: Path, sentences: int = 10, **options: bool) -> int:
    """Write train.spacy, dev.spacy and test.spacy; returns the number of training Docs.

    The files of the other sets are next to that of the training set, `*-ud-train.conllu`. A Doc has
    `sentences` sentences; `options` go to spaCy's converter.
    """
    files = {split: split_file(train_file, split) for split in SPLITS}
    docs = {
        split: list(conllu_to_docs(path.read_text("utf8"), sentences, no_print=True, **options))
        for split, path in files.items()
        if path.exists()
    }
    if "dev" not in docs:
        docs["dev"] = docs["train"][::HELD_OUT]
        docs["train"] = [doc for i, doc in enumerate(docs["train"]) if i % HELD_OUT]
    folder.mkdir(parents=True, exist_ok=True)
    for split, own in docs.items():
        DocBin(docs=own).to_disk(folder / f"{split}.spacy")
    return len(docs["train"])


def split_file(train_file: Path, split: str) -> Path:
    """Name the file of another set of a treebank."""
    return train_file.with_name(train_file.name.replace("-ud-train.", f"-ud-{split}."))


@spacy.registry.readers(GOLD_READER)
def read_with_gold_attributes(
    path: str, gold_preproc: bool = False
) -> Callable[[Language], Iterator[Example]]:
    """Make a corpus reader that copies tags, parts of speech and features to the predicted Docs."""

    def read(nlp: Language) -> Iterator[Example]:
        for example in Corpus(path, gold_preproc=gold_preproc)(nlp):
            copy_attributes(example)
            yield example

    return read


def copy_attributes(example: Example) -> None:
    """Set the attributes of predicted tokens that match a gold token; components keep them."""
    doc: Doc = example.predicted
    columns = (example.get_aligned(name, as_string=True) for name in ("TAG", "POS", "MORPH"))
    for token, tag, pos, morph in zip(doc, *columns, strict=True):
        if tag is not None:
            token.tag_, token.pos_ = tag, pos
            token.set_morph(morph)


# --- configs -----------------------------------------------------------------------------------


class TimeIsUpError(Exception):
    """A training has taken its CPU time."""


@dataclass(frozen=True)
class Times:
    """CPU time of a training before each step and at its end, in seconds since its start."""

    steps: Sequence[float]
    end: float


@dataclass(frozen=True)
class Pace:
    """CPU seconds of initialization, of a step, and of an evaluation on the dev set with saving."""

    start: float
    step: float
    checkpoint: float

    def steps_within(self, budget: float) -> int:
        """Return how many steps take this time with everything else: at least one per evaluation.

        The number is a multiple of that of evaluations, so that the last step is evaluated.
        """
        # All checkpoints after step 0, and the last one.
        checkpoints = (EVALUATIONS + 2) * self.checkpoint
        steps = math.floor((budget - self.start - checkpoints) / self.step)
        return max(EVALUATIONS, steps - steps % EVALUATIONS)


def system_config(system: str, lang: str, *, guidelines: bool = False) -> Config:
    """Make a system's config, without paths, seed and steps.

    That of root_mst is cpu.cfg for the language, with the guidelines of Universal
    Dependencies if `guidelines` is set; that of spaCy's parser is what `spacy init config
    --pipeline parser --optimize efficiency` writes. Both use NumPy's BLAS.
    """
    if system == ROOT_MST:
        config = make_config(ConfigOptions(lang, ROOT_MST, ud=guidelines))
    else:
        config = init_config(lang=lang, pipeline=[PARSER], optimize="efficiency", gpu=False)
    config["nlp"]["after_pipeline_creation"] = {"@callbacks": "spacy_rootmind.fast_cpu.v1"}
    return config


def measure_pace(config: Config, output: Path) -> Pace:
    """Measure the pace of a training of root_mst in its first steps."""
    limit_steps(config, PILOT_STEPS)
    config["training"]["eval_frequency"] = PILOT_STEPS + 1
    times = train(config, output)
    first, *others = (after - before for before, after in pairwise(times.steps))
    return Pace(times.steps[0], mean(others), first - mean(others))


def set_corpus(config: Config, corpus: Path, seed: int) -> None:
    """Set the folder that train.spacy and dev.spacy are read from, and the seed."""
    for split in ("train", "dev"):
        config["paths"][split] = str(corpus / f"{split}.spacy")
    config["system"]["seed"] = seed


def read_gold_attributes(config: Config, **options: bool) -> None:
    """Let the components read the treebank's attributes, in training and on the dev set."""
    config["training"]["annotating_components"] = []
    for part in ("train", "dev"):
        config["corpora"][part] = {"@readers": GOLD_READER, "path": f"${{paths.{part}}}", **options}


def limit_steps(
    config: Config, steps: int, evaluations: int = EVALUATIONS, warmup: int | None = None
) -> None:
    """Set the number of steps of root_mst, and with it the schedule of its learning rate.

    Without `warmup`, that is the config's, but at most one of WARMUP steps.
    """
    training = config["training"]
    schedule = training["optimizer"]["learn_rate"]
    training["max_steps"] = schedule["total_steps"] = steps
    longest = min(schedule["warmup_steps"], steps // WARMUP)
    schedule["warmup_steps"] = longest if warmup is None else warmup
    training["eval_frequency"] = max(1, steps // evaluations)


def limit_nothing(config: Config) -> None:
    """Let spaCy's parser train until its time is up.

    Its learning rate does not depend on the number of steps.
    """
    config["training"]["max_steps"] = config["training"]["patience"] = 0


# --- trainings ---------------------------------------------------------------------------------


def use_numpy_blas() -> None:
    """Multiply matrices with NumPy's BLAS: Thinc's BLIS is slower on 512-bit vectors."""
    set_current_ops(NumpyOps(use_blis=False))


def train(config: Config, output: Path, limit: float = math.inf) -> Times:
    """Train to the end, or for `limit` seconds of CPU time; saves model-best and model-last."""
    start = time.process_time()
    steps: list[float] = []

    def look(_nlp: Language, _step: dict) -> None:
        steps.append(time.process_time() - start)
        if steps[-1] >= limit:
            raise TimeIsUpError

    spacy.registry.callbacks.register(CLOCK, func=lambda: look)
    config["training"]["before_update"] = {"@callbacks": CLOCK}
    nlp = init_nlp(config)
    output.mkdir(parents=True, exist_ok=True)
    try:
        train_nlp(nlp, output, stdout=StringIO(), stderr=StringIO())
    except TimeIsUpError:
        # spaCy has saved the last pipeline.
        del steps[-1]
    return Times(steps, time.process_time() - start)


def load_best(output: Path, dev: Path) -> Language:
    """Load the better of model-best and model-last on the dev set.

    The last is not evaluated if time was up between two evaluations.
    """
    pipelines = [spacy.load(output / name) for name in ("model-best", "model-last")]
    return max(pipelines, key=lambda nlp: _dev_score(nlp, dev))


def _dev_score(nlp: Language, dev: Path) -> float:
    """Score a pipeline as both configs do in training."""
    scores = nlp.evaluate(list(Corpus(dev)(nlp)))
    return (scores["dep_uas"] + scores["dep_las"]) / 2
