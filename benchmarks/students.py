"""Accuracy over speed of parsers that learn from a teacher, of several sizes.

Trains students with distillation.cfg, static word vectors, and other widths and depths; the
parser of cpu.cfg without teacher and vectors; and spaCy's `parser` with the settings of its
quickstart. All take the same number of steps and have a tokenizer that is fitted to the treebank,
as the teacher's is. Scores them on the test set from text, with spaCy's scorer, and times them on
the same texts, in turns and by processor time, on one core with tokenization.

    python benchmarks/students.py --corpus CORPUS --taught TAUGHT --vectors VECTORS

CORPUS is a folder with train.spacy, dev.spacy and test.spacy; TAUGHT is what the teacher has parsed
with `python -m spacy_rootmind bulk --to spacy --distributions 0.01`; VECTORS is what
projects/web/scripts/make_vectors.py wrote. Each finished training is a line
in students.jsonl: repeat the command to continue. Writes students.md and students.png.
"""

import argparse
import os
import statistics
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

# Set before NumPy is imported: all figures are of one thread.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
import spacy
from lib.options import make_parser
from lib.pipelines import read_gold, score_text, words_per_second
from lib.plots import ORANGE, TEAL, panels, save
from lib.records import Record, Records
from lib.tables import setup_line, spread, table, write_markdown
from lib.trainings import convert_treebank, limit_steps, set_corpus, train
from spacy.cli.init_config import init_config
from spacy.tokens import Doc, DocBin
from spacy.util import load_config
from thinc.api import Config

from spacy_rootmind.pipeline.vectors import HalfPrecisionVectors

ROOT = Path(__file__).resolve().parents[1]
QUICKSTART = ROOT / "projects" / "quickstart" / "assets"
MODEL = "components.root_mst.model"
EMBED = f"{MODEL}.tok2vec.embed"
ENCODER = f"{MODEL}.tok2vec.encode"
KEY = ("student", "steps", "seed")
SCORES = {"UAS": "dep_uas", "LAS": "dep_las", "sents F": "sents_f"}
# Evaluations on the dev set, besides the one at step 0.
EVALUATIONS = 7


@dataclass(frozen=True)
class Student:
    """A parser to train: what it has other than distillation.cfg.

    If it is taught, it learns from the teacher's Docs, with static word vectors.
    """

    settings: dict[str, float] = field(default_factory=dict)
    is_taught: bool = True
    is_spacys: bool = False


QRNN = f"{MODEL}.qrnn_width"
ARCS, LABELS = f"{MODEL}.arc_width", f"{MODEL}.label_width"
SLIM = {f"{ENCODER}.depth": 2, f"{ENCODER}.maxout_pieces": 2, LABELS: 32}
STUDENTS = {
    "spaCy's parser": Student(is_taught=False, is_spacys=True),
    "gold only": Student(is_taught=False),
    "wide": Student({f"{ENCODER}.width": 128, QRNN: 288, ARCS: 192}),
    "slim": Student({**SLIM, QRNN: 144, ARCS: 96}),
    "tiny": Student(
        {
            **SLIM,
            f"{ENCODER}.width": 64,
            QRNN: 96,
            ARCS: 64,
            f"{MODEL}.refinements": 0,
        }
    ),
}


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = make_parser(__doc__)
    parser.add_argument("--corpus", type=Path, help="a folder with train, dev and test.spacy")
    parser.add_argument("--taught", type=Path, help="Docs with a teacher's distributions")
    parser.add_argument("--vectors", type=Path, help="a pipeline with word vectors")
    parser.add_argument("--students", nargs="+", choices=STUDENTS, default=list(STUDENTS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0], help="seeds (0)")
    parser.add_argument("--steps", type=int, default=7000, help="steps of each training (7000)")
    parser.add_argument("--rounds", type=int, default=5, help="times that texts are parsed (5)")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--smoke", action="store_true", help="two students, a tiny treebank")
    options = parser.parse_args()
    if options.smoke:
        options.students, options.steps, options.rounds = ["gold only", "tiny"], 2, 1
    elif None in (options.corpus, options.taught, options.vectors):
        parser.error("expected --corpus, --taught and --vectors, or --smoke")
    return options


# --- training ----------------------------------------------------------------------------------


def make_config(student: Student, options: argparse.Namespace, seed: int) -> Config:
    """Make the config of a training."""
    if student.is_spacys:
        config = init_config(lang="en", pipeline=["parser"], optimize="efficiency", gpu=False)
        config["nlp"]["after_pipeline_creation"] = {"@callbacks": "spacy_rootmind.fast_cpu.v1"}
        set_corpus(config, options.corpus, seed)
        fit_tokenizer(config)
        config["training"]["patience"] = 0
        config["training"]["max_steps"] = options.steps
        config["training"]["eval_frequency"] = max(1, options.steps // EVALUATIONS)
        return config
    overrides: dict[str, Any] = {}
    if student.is_taught:
        overrides["paths.taught"] = str(options.taught)
        overrides["paths.vectors"] = str(options.vectors)
        overrides["nlp.vectors.@vectors"] = "spacy_rootmind.HalfPrecisionVectors.v1"
        overrides[f"{EMBED}.include_static_vectors"] = True
    name = "distillation.cfg" if student.is_taught else "cpu.cfg"
    config = load_config(
        ROOT / "spacy_rootmind" / "configs" / name, overrides=overrides, interpolate=False
    )
    set_corpus(config, options.corpus, seed)
    fit_tokenizer(config)
    limit_steps(config, options.steps, EVALUATIONS)
    return Config().from_str(config.to_str(), overrides=student.settings, interpolate=False)


def fit_tokenizer(config: Config) -> None:
    """Let all have the tokenizer of the teacher."""
    fit = {"@callbacks": "spacy_rootmind.fit_tokenizer.v1", "path": "${paths.train}"}
    config["initialize"]["before_init"] = fit


def train_and_score(key: tuple, options: argparse.Namespace, output: Path) -> Record:
    """Train a student, keep its last pipeline, and score it on the test set."""
    name, _, seed = key
    seconds = train(make_config(STUDENTS[name], options, seed), output)
    nlp = spacy.load(output / "model-last")
    scores = score_text(nlp, read_gold(options.corpus / "test.spacy"))
    return {
        "seconds": seconds,
        **{key: scores[key] for key in SCORES.values()},
    }


# --- report ------------------------------------------------------------------------------------


def pareto_front(points: dict[str, tuple[float, float]]) -> list[str]:
    """List those that no other one is better than in both figures, the fastest last."""
    front = [
        name
        for name, (speed, score) in points.items()
        if not any(s >= speed and t >= score for s, t in set(points.values()) - {(speed, score)})
    ]
    return sorted(front, key=lambda name: points[name][0])


def report(runs: dict[str, list[Record]], speeds: dict[str, float]) -> list[str]:
    """Lay out the table."""
    rows = []
    for name, records in runs.items():
        scores = [spread([record[key] for record in records]) for key in SCORES.values()]
        minutes = statistics.mean(record["seconds"] for record in records) / 60
        rows.append([name, *scores, f"{speeds[name]:,.0f}", f"{minutes:.0f}"])
    steps = next(iter(runs.values()))[0]["steps"]
    return [
        f"Trained for {steps} steps, scored on the test set from text, timed on one core.",
        table(["", *SCORES, "words per second", "training, CPU min"], rows),
        setup_line(),
    ]


def plot(points: dict[str, tuple[float, float]], path: Path) -> None:
    """Draw LAS over speed, with the Pareto front."""
    figure, (axes,) = panels(width=6.4, height=4.8)
    front = [points[name] for name in pareto_front(points)]
    axes.plot(*zip(*front, strict=True), color="0.7", zorder=0)
    for name, point in points.items():
        axes.scatter(*point, s=24, color=TEAL if STUDENTS[name].is_taught else ORANGE)
        axes.annotate(name, point, (0, 6), textcoords="offset points", ha="center")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel("words per second, one core")
    axes.set_ylabel("LAS from text, %")
    axes.margins(0.15)
    save(figure, path)


# --- the command -------------------------------------------------------------------------------


def make_smoke_corpus(options: argparse.Namespace, folder: Path) -> None:
    """Write the quickstart's treebank, random vectors, and Docs that a tiny training has taught."""
    convert_treebank(QUICKSTART / "en_quick-ud-train.conllu", folder)
    docs = read_gold(folder / "test.spacy")
    options.corpus, options.out = folder, folder / "results"
    options.taught, options.vectors = folder / "taught.spacy", folder / "vectors"
    nlp = spacy.blank("en")
    words = sorted({token.text for doc in docs for token in doc})
    data = np.random.default_rng(0).normal(size=(len(words), 16)).astype("float32")
    nlp.vocab.vectors = HalfPrecisionVectors(strings=nlp.vocab.strings, data=data, keys=words)
    nlp.to_disk(options.vectors)
    train(make_config(STUDENTS["gold only"], options, 0), folder / "teacher")
    settings = {"components.root_mst.distribution_threshold": 0.01}
    teacher = spacy.load(folder / "teacher" / "model-last", config=settings)
    taught: list[Doc] = list(teacher.pipe(doc.text for doc in docs))
    DocBin(docs=taught, store_user_data=True).to_disk(options.taught)


def run(options: argparse.Namespace) -> None:
    """Train the students without a record, time all, and write table and plot."""
    options.out.mkdir(parents=True, exist_ok=True)
    records = Records(options.out / "students.jsonl", KEY)

    def folder(name: str, steps: int, seed: int) -> Path:
        return options.out / "students" / f"{name}, {steps} steps, seed {seed}"

    keys = product(options.students, [options.steps], options.seeds)
    done = records.complete(keys, lambda key: train_and_score(key, options, folder(*key)))
    first = options.seeds[0]
    folders = {name: folder(name, options.steps, first) / "model-last" for name in options.students}
    runs = {
        name: [done[name, options.steps, seed] for seed in options.seeds]
        for name in options.students
    }
    texts = [doc.text for doc in read_gold(options.corpus / "test.spacy")]
    speeds = words_per_second(folders, texts, options.rounds)
    points = {
        name: (speeds[name], 100 * statistics.mean(record["dep_las"] for record in own))
        for name, own in runs.items()
    }
    write_markdown(options.out / "students.md", report(runs, speeds))
    plot(points, options.out / "students.png")


def main() -> None:
    """Run the command."""
    options = parse_arguments()
    if options.smoke:
        with TemporaryDirectory() as folder:
            make_smoke_corpus(options, Path(folder))
            run(options)
    else:
        run(options)


if __name__ == "__main__":
    main()
