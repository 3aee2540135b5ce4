"""Trainings: treebanks as corpora, configs with their steps, and the trainings themselves."""

import time
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path

import spacy
from spacy.language import Language
from spacy.tokens import Doc, DocBin
from spacy.training import Corpus, Example
from spacy.training.converters import conllu_to_docs
from spacy.training.initialize import init_nlp
from spacy.training.loop import train as train_nlp
from thinc.api import Config, NumpyOps, set_current_ops

GOLD_READER = "benchmarks.gold_attributes.v1"
SPLITS = ("train", "dev", "test")
# Without a dev set, one of this many training Docs is held out.
HELD_OUT = 10
# Evaluations of root_mst on the dev set, besides the one at step 0.
EVALUATIONS = 5
# At most one of this many steps is for warm-up.
WARMUP = 10


# --- treebanks ---------------------------------------------------------------------------------


def convert_treebank(train_file: Path, folder: Path, sentences: int = 10, **options: bool) -> int:
    """Write train.spacy, dev.spacy and test.spacy; returns the number of training Docs.

    The files of the other sets are in the folder of the training set, `*-ud-train.conllu`. A Doc
    has `sentences` sentences; `options` go to spaCy's converter.
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


# --- trainings ---------------------------------------------------------------------------------


def use_numpy_blas() -> None:
    """Multiply matrices with NumPy's BLAS: Thinc's BLIS is slower on 512-bit vectors."""
    set_current_ops(NumpyOps(use_blis=False))


def train(config: Config, output: Path) -> float:
    """Train to the end, saving model-best and model-last; returns seconds of CPU time."""
    start = time.process_time()
    nlp = init_nlp(config)
    output.mkdir(parents=True, exist_ok=True)
    train_nlp(nlp, output, stdout=StringIO(), stderr=StringIO())
    return time.process_time() - start
