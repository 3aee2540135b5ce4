"""Malformed trees without the root constraint, and the effect of the constraint.

Zmigrod, Vieira & Cotterell (2020), Please Mind the Root: Decoding Arborescences for Dependency
Parsing, tables 1 and 2, figures 3 and 4. Trains the network of configs/tags.cfg on each treebank
for the same number of epochs, keeps the checkpoint that is best on the dev set, and decodes its
scores of the test set with and without the constraint, for each kind of input:

- `words`: the words alone;
- `predicted`: also the tags, parts of speech and features that a tagger and a morphologizer,
  trained with the parser, predict;
- `gold`: the treebank's own instead, as an upper bound.

Small treebanks have small batches, so that each training takes at least LEAST_STEPS steps. A
training adds a line with its counts to rates.jsonl, and is left out if that has one for the same
number of epochs. Writes malformed_rates.md.
"""

import argparse
import os
import sys
from dataclasses import asdict
from itertools import product
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory

# Set before NumPy is imported: with small matrices, threads mostly wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "benchmarks"))

import spacy
from lib.records import Records
from lib.trainings import (
    convert_treebank,
    copy_attributes,
    limit_steps,
    read_gold_attributes,
    set_corpus,
    train,
    use_numpy_blas,
)
from matrices import Matrices
from outcomes import Outcome, examine
from rates_report import INPUTS, KEY, write_report
from spacy.language import Language
from spacy.tokens import DocBin
from spacy.training import Example
from spacy.training.batchers import minibatch_by_words
from spacy.util import load_config
from thinc.api import Config
from train import PROJECT, blank_copy, find_treebanks, score_docs

TAGGERS = ("tagger", "morphologizer")
# Words in a batch, at most; and the least number of steps of a training, by smaller batches.
BATCH_WORDS = 1000
LEAST_STEPS = 600
# Times that a training is scored on the dev set, and its best checkpoint chosen from.
CHECKPOINTS = 10
# --- training ----------------------------------------------------------------------------------


def batch_words(n_words: int, epochs: int) -> int:
    """Choose the words of a batch."""
    return max(1, min(BATCH_WORDS, n_words * epochs // LEAST_STEPS))


def make_config(corpus: Path, inputs: str, epochs: int, seed: int) -> Config:
    """Make the config of a training."""
    docs = list(DocBin().from_disk(corpus / "train.spacy").get_docs(spacy.blank("xx").vocab))
    size = batch_words(sum(len(doc) for doc in docs), epochs)
    batches = minibatch_by_words(docs, size, tolerance=0.2, discard_oversize=False, get_length=len)
    steps = epochs * sum(1 for _ in batches)
    config = load_config(PROJECT / "configs" / "tags.cfg", interpolate=False)
    set_corpus(config, corpus, seed)
    limit_steps(config, steps, warmup=steps // 20)
    training = config["training"]
    training["eval_frequency"] = ceil(steps / CHECKPOINTS)
    training["batcher"]["size"] = size
    # Batches differ from epoch to epoch, and so does their number.
    training["max_epochs"], training["max_steps"] = epochs, 0
    if inputs == "words":
        config["components"]["root_mst"]["model"]["features"] = None
    if inputs != "predicted":
        config["training"]["annotating_components"] = []
        config["nlp"]["pipeline"] = ["tok2vec", "root_mst"]
        for name in TAGGERS:
            del config["components"][name]
    if inputs == "gold":
        read_gold_attributes(config, gold_preproc=True)
    return config


def count(nlp: Language, file: Path, inputs: str, n_train: int, epochs: int) -> Outcome:
    """Parse the sentences of a .spacy file with and without the constraint, and count."""
    gold = list(DocBin().from_disk(file).get_docs(nlp.vocab))
    docs = [blank_copy(nlp, doc) for doc in gold]
    if inputs == "gold":
        for doc, own in zip(docs, gold, strict=True):
            copy_attributes(Example(doc, own))
    with nlp.select_pipes(disable="root_mst"):
        docs = list(nlp.pipe(docs))
    scores, heads = score_docs(nlp, docs, gold)
    return examine(Matrices(scores, heads, n_train, epochs))


def measure(key: tuple, train_file: Path) -> dict:
    """Train and count for one treebank, kind of input and seed."""
    treebank, inputs, seed, epochs = key
    with TemporaryDirectory() as folder:
        corpus = Path(folder) / "corpus"
        n_train = convert_treebank(train_file, corpus, sentences=1)
        seconds = train(make_config(corpus, inputs, epochs, seed), Path(folder))
        nlp = spacy.load(Path(folder) / "model-best")
        found = count(nlp, corpus / "test.spacy", inputs, n_train, epochs)
    name = f"{treebank}, {inputs}, seed {seed}"
    print(f"{name}: {found.rate:.2f} % malformed, {seconds:.0f} s", flush=True)
    return asdict(found)


def main() -> None:
    """Train the parsers without counts, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", nargs="?", default="", help="folder of treebanks ($ROOTMIND_UD)")
    parser.add_argument("--treebanks", default="all", help="names separated by commas, or all")
    parser.add_argument("--inputs", default=",".join(INPUTS), help="separated by commas")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2], help="seeds (0 1 2)")
    parser.add_argument("--root", type=Path, default=PROJECT, help="folder to write to")
    options = parser.parse_args()
    chosen = options.inputs.split(",")
    if not set(chosen) <= set(INPUTS):
        raise SystemExit(f"expected inputs among {', '.join(INPUTS)}, received {options.inputs!r}")
    if options.epochs < 1:
        raise SystemExit(f"expected --epochs of 1 or more, received {options.epochs}")
    use_numpy_blas()
    treebanks = find_treebanks(options.source, options.treebanks)
    options.root.mkdir(parents=True, exist_ok=True)
    records = Records(options.root / "rates.jsonl", KEY)
    keys = [
        (treebank, inputs, seed, options.epochs)
        for seed, inputs, treebank in product(options.seeds, chosen, treebanks)
    ]
    records.complete(keys, lambda key: measure(key, treebanks[key[0]]))
    training = (
        f"{options.epochs} epochs on each treebank, of at least {LEAST_STEPS} steps in all; the "
        f"best of {CHECKPOINTS} checkpoints on the dev set"
    )
    write_report(options.root, records, options.epochs, training)


if __name__ == "__main__":
    main()
