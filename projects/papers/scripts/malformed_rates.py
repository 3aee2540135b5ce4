"""Malformed trees of parsers that are trained to their end, with the inputs of the paper's parsers.

Zmigrod, Vieira & Cotterell (2020), Please Mind the Root: Decoding Arborescences for Dependency
Parsing, table 2 and figure 3. Trains the network of configs/tags.cfg on each treebank for the same
number of epochs, keeps the checkpoint that is best on the dev set, and counts malformed trees of
the test set, for each kind of input:

- `words`: the words alone;
- `predicted`: also the tags, parts of speech and features that a tagger and a morphologizer,
  trained with the parser, predict;
- `gold`: those of the treebank instead, as an upper bound.

Small treebanks have small batches, so that each training takes at least LEAST_STEPS steps. A
training adds a line with its counts to rates.jsonl, and is left out if that has one for the same
number of epochs. Writes malformed_rates.md, CSV and PNG.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from itertools import product
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory

# Set before NumPy is imported: with small matrices, threads mostly wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "benchmarks"))

import numpy as np
import spacy
from lib.plots import BLUE, ORANGE, RED, TEAL, logarithmic, panels
from lib.records import Records
from lib.tables import spread
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
from mind_the_root import GROUPS, Published, read_published
from outcomes import Outcome, examine, rank_correlation
from report import Report
from spacy.language import Language
from spacy.tokens import DocBin
from spacy.training import Example
from spacy.training.batchers import minibatch_by_words
from spacy.util import load_config
from thinc.api import Config
from train import PROJECT, blank_copy, find_treebanks, score_docs

INPUTS = ("words", "predicted", "gold")
COLOURS = dict(zip(INPUTS, (RED, TEAL, ORANGE), strict=True))
TAGGERS = ("tagger", "morphologizer")
# Words in a batch, at most; and the least number of steps of a training, by smaller batches.
BATCH_WORDS = 1000
LEAST_STEPS = 600
# Times that a training is scored on the dev set, and its best checkpoint chosen from.
CHECKPOINTS = 10


KEY = ("treebank", "inputs", "seed", "epochs")


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
        times = train(make_config(corpus, inputs, epochs, seed), Path(folder))
        nlp = spacy.load(Path(folder) / "model-best")
        found = count(nlp, corpus / "test.spacy", inputs, n_train, epochs)
    name = f"{treebank}, {inputs}, seed {seed}"
    print(f"{name}: {found.rate:.2f} % malformed, {times.end:.0f} s", flush=True)
    return asdict(found)


# --- report ------------------------------------------------------------------------------------

Results = dict[str, dict[str, list[Outcome]]]


def results_of(records: Records, epochs: int) -> Results:
    """Group the counts by treebank and inputs, one per seed; smallest treebank first."""
    found: Results = {}
    for (treebank, inputs, _, own_epochs), record in records.read().items():
        if own_epochs == epochs:
            counts = Outcome(**{name: record[name] for name in record if name not in KEY})
            found.setdefault(treebank, {}).setdefault(inputs, []).append(counts)
    return dict(sorted(found.items(), key=lambda item: training_size(item[1])))


def training_size(own: dict[str, list[Outcome]]) -> int:
    """Return the number of training sentences of a treebank."""
    return next(iter(own.values()))[0].train_sentences


def mean_rate(outcomes: list[Outcome]) -> float:
    """Average the share of malformed trees over seeds, %."""
    return float(np.mean([each.rate for each in outcomes]))


def rate_lines(results: Results, published: dict[str, Published]) -> list[list]:
    """Lay out a line per treebank: published rate; seeds, rate and UAS for each kind of input."""
    lines = []
    for name, own in results.items():
        rate = published[name].malformed if name in published else None
        line = [name, training_size(own), rate]
        for inputs in INPUTS:
            outcomes = own.get(inputs, [])
            if outcomes:
                line += [len(outcomes), spread([each.rate for each in outcomes], 1)]
                line.append(spread([each.uas[0] for each in outcomes], 1))
            else:
                line += [0, "", ""]
        lines.append(line)
    return lines


def group_lines(results: Results, published: dict[str, Published]) -> list[list]:
    """Average over the treebanks that have all kinds of input and a published rate, by size."""
    complete = {
        name: own
        for name, own in results.items()
        if name in published and all(inputs in own for inputs in INPUTS)
    }
    lines = []
    for group, (low, high) in {**GROUPS, "all": (0, float("inf"))}.items():
        members = {n: own for n, own in complete.items() if low <= training_size(own) < high}
        if members:
            rates = [[mean_rate(own[inputs]) for own in members.values()] for inputs in INPUTS]
            theirs = [published[name].malformed for name in members]
            averages = [float(np.mean(column)) for column in (theirs, *rates)]
            lines.append([group, len(members), *averages])
    return lines


def remarks(results: Results, table: list[Published], published: dict[str, Published]) -> list[str]:
    """Correlate rates with training size, and with the published rates."""

    def theirs(rows: Sequence[Published]) -> float:
        return rank_correlation([row.train for row in rows], [row.malformed for row in rows])

    lines = [f"Published, over {len(table)} treebanks: {theirs(table):.2f}."]
    shared = [published[name] for name in results if name in published]
    if len(shared) > 1:
        lines = [f"{lines[0][:-1]}; over the {len(shared)} that are ours: {theirs(shared):.2f}."]
    for inputs in INPUTS:
        own = {name: each[inputs] for name, each in results.items() if inputs in each}
        rates = {name: mean_rate(outcomes) for name, outcomes in own.items()}
        both = [name for name in own if name in published]
        if len(both) < 2:
            continue
        sizes = [outcomes[0].train_sentences for outcomes in own.values()]
        size = rank_correlation(sizes, list(rates.values()))
        same = rank_correlation(
            [rates[name] for name in both], [published[name].malformed for name in both]
        )
        lines.append(
            f"`{inputs}`, over {len(own)}: {size:.2f}; with the published rates of "
            f"{len(both)}: {same:.2f}."
        )
    return lines


def draw(results: Results, published: dict[str, Published], report: Report) -> None:
    """Plot rates against training size."""
    figure, (axis,) = panels(width=6.6, height=4.4)
    for inputs in INPUTS:
        own = [each[inputs] for each in results.values() if inputs in each]
        sizes = [outcomes[0].train_sentences for outcomes in own]
        axis.scatter(sizes, [mean_rate(each) for each in own], color=COLOURS[inputs], label=inputs)
    known = {name: own for name, own in results.items() if name in published}
    axis.scatter(
        [training_size(own) for own in known.values()],
        [published[name].malformed for name in known],
        color=BLUE,
        marker="x",
        label="published",
    )
    logarithmic(axis, (10, 100, 1000, 10_000))
    axis.set_xlabel("training sentences")
    axis.set_ylabel("malformed trees, %")
    axis.legend(frameon=False)
    report.figure(
        "figure-3",
        figure,
        "Malformed trees without the constraint against training size after equal epochs, one "
        "point a treebank. The published rates stand at our training sizes.",
    )


def write_report(root: Path, records: Records, epochs: int) -> None:
    """Write tables and a plot of what was counted so far."""
    results = results_of(records, epochs)
    table, published = read_published()
    report = Report(
        root / "results", "malformed_rates", "Malformed trees of parsers trained to their end"
    )
    report.text(
        "The network of `configs/cpu.cfg`, which scores the head of each word by itself "
        f"(`head_selection`); {epochs} epochs on each treebank, of at least {LEAST_STEPS} steps in "
        f"all; the best of {CHECKPOINTS} checkpoints on the dev set. Inputs: `words`, the words "
        "alone; `predicted`, also the tags, parts of speech and features that a tagger and a "
        "morphologizer predict, trained with the parser; `gold`, those of the treebank. No "
        "pretrained vectors. Rates and UAS without the constraint, in percent, mean and deviation "
        "over seeds; UAS with punctuation."
    )
    header = ["treebank", "training sentences", "published"]
    for inputs in INPUTS:
        header += [f"`{inputs}`: seeds", "malformed", "UAS"]
    report.table("treebanks", header, rate_lines(results, published))
    report.text(
        "Averages over the treebanks with all kinds of input and a published rate, by training "
        "sentences: high, 10,000 and more; medium, 1,000 and more; low, fewer."
    )
    report.table(
        "groups",
        ("training sentences", "treebanks", "published", *(f"`{inputs}`" for inputs in INPUTS)),
        group_lines(results, published),
    )
    report.text(
        "Rank correlation of the rate with the number of training sentences. "
        + " ".join(remarks(results, table, published))
    )
    draw(results, published, report)
    report.write()


def main() -> None:
    """Train what is missing, and write the report."""
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
    write_report(options.root, records, options.epochs)


if __name__ == "__main__":
    main()
