"""Compare `root_mst` with spaCy's `parser` on many treebanks, trained for the same CPU time.

Usage: python benchmarks/breadth.py [--smoke] [--ud DIR] [--treebanks NAME ...] [--seeds N ...]
           [--budget SECONDS] [--plain] [--workers N] [--out DIR]

Each treebank of Universal Dependencies is converted by projects/ud to Docs of ten sentences. Every
tenth training sentence is held out if there is no dev set; a treebank without a training set is
an error. Both systems have spaCy's tokenizer for the language (or for any language, xx), fitted to
the training set.

For each seed, `root_mst` is trained with cpu.cfg, and with the guidelines of Universal
Dependencies. With `--plain`, there are no guidelines, and the tokenizer is not fitted. From the
pace of a short training before, its number of steps is chosen such that the training takes about
`--budget` seconds of CPU time; it is the same for all seeds, and the learning rate falls to zero
over it. Then `parser` is trained with the settings of spaCy's quickstart (`spacy init config
--pipeline parser --optimize efficiency`) until it has taken as much CPU time as `root_mst` with the
same seed: instead of `max_steps` and `patience`, time ends its training, which is possible at any
step, since its learning rate is constant. CPU time includes initialization, evaluations on the dev
set and saving. Scored on the test set is the better of the best and the last
pipeline on the dev set, from its raw text by the official scorer.

Among the settings of the quickstart, `min_action_freq = 30` leaves out rare labels, which costs LAS
on small treebanks.

Both systems use one thread and multiply matrices with NumPy's BLAS, by the callback
`spacy_rootmind.fast_cpu.v1`: `root_mst` does so anyway, and `parser` trains faster with it.

Each finished run is a line in breadth.jsonl: a run that was interrupted continues when the same
command is repeated. Writes breadth.md.
"""

import argparse
import hashlib
import multiprocessing
import multiprocessing.pool
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean

# Set before NumPy is imported: CPU time is that of one thread.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import srsly
from lib.options import make_parser
from lib.records import Record, Records
from lib.tables import setup_line, spread, table, write_markdown
from lib.trainings import (
    PARSER,
    ROOT_MST,
    SYSTEMS,
    Pace,
    limit_nothing,
    limit_steps,
    load_best,
    measure_pace,
    set_corpus,
    system_config,
    train,
)
from thinc.api import Config

ROOT = Path(__file__).resolve().parents[1]
CONVERT = ROOT / "projects" / "ud" / "scripts" / "convert.py"
sys.path.insert(0, str(CONVERT.parent))
from official import official_scores  # noqa: E402

# A treebank that comes with the package, for --smoke.
BUNDLED = {"quickstart": ROOT / "projects" / "quickstart" / "assets"}
# Several families, scripts and sizes, with all three sets and a tokenizer that needs no package.
TREEBANKS = (
    "Afrikaans-AfriBooms",
    "Belarusian-HSE",
    "English-EWT",
    "Hungarian-Szeged",
    "Irish-IDT",
    "Lithuanian-HSE",
    "Marathi-UFAL",
    "Tamil-TTB",
    "Telugu-MTG",
    "Turkish-IMST",
    "Wolof-WTB",
)
OFFICIAL = ("Words", "Sentences", "UAS", "LAS")
FITTED = {"@callbacks": "spacy_rootmind.fit_tokenizer.v1", "path": "${paths.train}"}
KEY = ("treebank", "settings", "budget", "seed", "system")


@dataclass(frozen=True)
class Treebank:
    """A treebank and the folder of its corpora; `plain` is the command's option."""

    name: str
    source: Path
    corpus: Path
    plain: bool

    @property
    def lang(self) -> str:
        """The language of the tokenizer."""
        return srsly.read_json(self.corpus / "treebank.json")["lang"]

    def config(self, system: str, seed: int) -> Config:
        """Make a system's config for this treebank."""
        config = self._system(system)
        set_corpus(config, self.corpus, seed)
        return config

    def settings(self) -> str:
        """Identify the settings of both systems, so that runs with others do not count."""
        text = "".join(self._system(system).to_str() for system in SYSTEMS)
        return hashlib.sha256(text.encode("utf8")).hexdigest()[:12]

    def _system(self, system: str) -> Config:
        config = system_config(system, self.lang, guidelines=not self.plain)
        if not self.plain:
            config["initialize"]["before_init"] = FITTED
        return config


@dataclass(frozen=True)
class Job:
    """The runs of a treebank with a seed."""

    treebank: Treebank
    settings: str
    pace: Pace
    budget: float
    seed: int
    out: Path

    def key(self, system: str) -> tuple:
        """Return the key of a run's record."""
        return (self.treebank.name, self.settings, self.budget, self.seed, system)


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = make_parser(__doc__)
    parser.add_argument("--smoke", action="store_true", help="one tiny treebank, in seconds")
    parser.add_argument(
        "--ud",
        type=Path,
        default=os.environ.get("ROOTMIND_UD"),
        help="a folder of treebanks such as UD_English-EWT ($ROOTMIND_UD)",
    )
    parser.add_argument(
        "--treebanks", nargs="+", default=TREEBANKS, help=f"names ({' '.join(TREEBANKS)})"
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2], help="seeds (0 1 2)")
    parser.add_argument(
        "--budget", type=float, default=360.0, help="CPU seconds of each training (360)"
    )
    parser.add_argument(
        "--plain", action="store_true", help="tokenizers that are not fitted, and no guidelines"
    )
    parser.add_argument("--workers", type=int, default=1, help="trainings at the same time (1)")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    if options.smoke:
        options.seeds, options.budget = [0], 1.0
    return options


def find_treebanks(options: argparse.Namespace) -> list[Treebank]:
    """Find the folders of the chosen treebanks."""
    if options.smoke:
        sources = BUNDLED
    elif options.ud is None or not options.ud.is_dir():
        sys.exit("Expected a folder of treebanks: pass --ud DIR, or set ROOTMIND_UD")
    else:
        names = [name.removeprefix("UD_") for name in options.treebanks]
        sources = {name: options.ud / f"UD_{name}" for name in names}
        missing = [name for name, folder in sources.items() if not folder.is_dir()]
        if missing:
            sys.exit(f"{options.ud} has no UD_{missing[0]}")
    corpora = options.out / ("breadth_plain" if options.plain else "breadth")
    return [
        Treebank(name, source, corpora / name, options.plain) for name, source in sources.items()
    ]


def convert(treebank: Treebank) -> None:
    """Convert a treebank to corpora, unless it is done."""
    # Written last.
    if not (treebank.corpus / "treebank.json").exists():
        command = [sys.executable, CONVERT, treebank.source, treebank.corpus]
        if subprocess.run([*command, *["--tokenizer", "spacy"] * treebank.plain]).returncode:
            sys.exit(f"{treebank.name} cannot be converted, see above")


def find_pace(job: tuple[Treebank, str]) -> Record:
    """Measure the pace of root_mst on a treebank."""
    treebank, settings = job
    with tempfile.TemporaryDirectory() as folder:
        pace = measure_pace(treebank.config(ROOT_MST, seed=0), Path(folder))
    return {"treebank": treebank.name, "settings": settings, **asdict(pace)}


def run(job: Job) -> str:
    """Train and score both systems unless they are done; returns the error, if any."""
    records = Records(job.out / "breadth.jsonl", KEY)
    try:
        for system in SYSTEMS:
            done = records.read()
            if job.key(system) not in done:
                config = job.treebank.config(system, job.seed)
                limit = limit_training(job, config, system, done)
                record = dict(zip(KEY, job.key(system), strict=True))
                records.add({**record, **train_and_score(job.treebank, config, limit)})
    except Exception:
        return f"{job.treebank.name}, seed {job.seed}: {traceback.format_exc()}"
    return ""


def limit_training(job: Job, config: Config, system: str, done: dict[tuple, Record]) -> float:
    """Set a system's number of steps; returns the CPU time after which its training is to end."""
    if system == ROOT_MST:
        limit_steps(config, job.pace.steps_within(job.budget))
        return float("inf")
    limit_nothing(config)
    return done[job.key(ROOT_MST)]["seconds"]


def train_and_score(treebank: Treebank, config: Config, limit: float) -> Record:
    """Train a pipeline, and score it on the test set."""
    with tempfile.TemporaryDirectory() as folder:
        times = train(config, Path(folder), limit)
        nlp = load_best(Path(folder), treebank.corpus / "dev.spacy")
    return {
        "lang": treebank.lang,
        "steps": len(times.steps),
        "seconds": times.end,
        "official": official_scores(nlp, treebank.corpus / "test.conllu"),
    }


# --- tables ------------------------------------------------------------------------------------


def score_rows(runs: dict[str, dict[str, list[Record]]]) -> Iterator[list[str]]:
    """List the scores of each treebank and system."""
    for name, systems in runs.items():
        for system, records in systems.items():
            scores = [spread([record["official"][key] for record in records]) for key in OFFICIAL]
            yield [name, f"`{system}`", *scores]


def training_rows(
    treebanks: Sequence[Treebank], runs: dict[str, dict[str, list[Record]]]
) -> Iterator[list[str]]:
    """List sizes, trainings and the difference of LAS from raw text."""
    for treebank in treebanks:
        counts = srsly.read_json(treebank.corpus / "treebank.json")["counts"]
        systems = runs[treebank.name]
        row = [treebank.name, treebank.lang]
        row += [str(counts[split]["words"]) for split in ("train", "test")]
        for records in systems.values():
            row += [
                f"{mean(record['steps'] for record in records):.0f}",
                f"{mean(record['seconds'] for record in records):.0f}",
            ]
        yield [*row, spread(differences(systems))]


def differences(systems: dict[str, list[Record]]) -> list[float]:
    """Return how much higher the LAS of root_mst is from raw text, with each seed."""
    pairs = zip(systems[ROOT_MST], systems[PARSER], strict=True)
    return [a["official"]["LAS"] - b["official"]["LAS"] for a, b in pairs]


def report(treebanks: Sequence[Treebank], runs: dict[str, dict[str, list[Record]]]) -> str:
    """Lay out all tables."""
    gains = [mean(differences(systems)) for systems in runs.values()]
    seeds = len(next(iter(runs.values()))[ROOT_MST])
    sizes = ["treebank", "lang", "words, train", "test"]
    trainings = [f"{system}: {what}" for system in SYSTEMS for what in ("steps", "CPU s")]
    return "\n\n".join(
        [
            f"Mean ± standard deviation of {seeds} seeds, in percent. `root_mst` has a higher LAS "
            f"from raw text than `parser` on {sum(gain > 0 for gain in gains)} of {len(gains)} "
            f"treebanks, in the mean by {100 * mean(gains):.2f}.",
            "From raw text with paragraphs, by the official scorer:",
            table(["treebank", "", *OFFICIAL], score_rows(runs)),
            "Trainings, and by how much the LAS of `root_mst` from raw text is higher:",
            table([*sizes, *trainings, "LAS"], training_rows(treebanks, runs)),
            setup_line(),
        ]
    )


# --- the command -------------------------------------------------------------------------------


def plan(
    treebanks: Sequence[Treebank], options: argparse.Namespace, pool: multiprocessing.pool.Pool
) -> list[Job]:
    """Measure the pace on each treebank, unless it is known, and list the runs."""
    paces = Records(options.out / "breadth_pace.jsonl", ("treebank", "settings"))
    paces.repair()
    settings = {treebank: treebank.settings() for treebank in treebanks}
    known = paces.read()
    new = [item for item in settings.items() if (item[0].name, item[1]) not in known]
    for record in pool.imap_unordered(find_pace, new):
        paces.add(record)
    known = paces.read()
    names = ("start", "step", "checkpoint")
    return [
        Job(
            treebank,
            own,
            Pace(*(known[treebank.name, own][name] for name in names)),
            options.budget,
            seed,
            options.out,
        )
        for treebank, own in settings.items()
        for seed in options.seeds
    ]


def main() -> None:
    """Convert, train, score and write the tables."""
    options = parse_arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    treebanks = find_treebanks(options)
    for treebank in treebanks:
        convert(treebank)
    records = Records(options.out / "breadth.jsonl", KEY)
    records.repair()
    failures = []
    # A process per job, so that none inherits memory of others.
    spawning = multiprocessing.get_context("spawn")
    with spawning.Pool(options.workers, maxtasksperchild=1) as pool:
        jobs = plan(treebanks, options, pool)
        for i, failure in enumerate(pool.imap_unordered(run, jobs), start=1):
            print(failure or f"{i} of {len(jobs)} pairs of runs", file=sys.stderr, flush=True)
            failures += [failure] * bool(failure)
    if failures:
        sys.exit(f"{len(failures)} failed, see above")
    done = records.read()
    runs = {
        treebank.name: {
            system: [done[job.key(system)] for job in jobs if job.treebank == treebank]
            for system in SYSTEMS
        }
        for treebank in treebanks
    }
    text = report(treebanks, runs)
    write_markdown(options.out / "breadth.md", [text])


if __name__ == "__main__":
    main()
