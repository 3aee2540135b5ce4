"""Train pipelines, UDPipe 1 and spaCy on many treebanks, and score all from raw text.

Usage: python benchmarks/breadth.py --ud DIR [--treebanks NAME ...] [--systems NAME ...] [--out DIR]

projects/ud trains pipelines with its defaults and one seed, and UDPipe 1 is trained on the same
files with its own defaults (`udpipe.py`), as is the pipeline that spaCy's `init config` writes. A
treebank without a training set is trained on its dev set. Scores are F1 by the official scorer,
from raw text with paragraphs. Each training is a process of one thread; its CPU time includes
reading, evaluations on the dev set, and saving.

Needs the packages udtools and ufal.udpipe. Each finished training is a line in breadth.jsonl: a run
that was interrupted continues when the same command is repeated. Writes breadth.md.
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from statistics import mean

import spacy
import srsly
from lib.options import RESULTS, make_parser
from lib.records import Record, Records
from lib.tables import setup_line, table, write_markdown

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = ROOT / "projects" / "ud" / "scripts"
sys.path.insert(0, str(SCRIPTS))
from official import official_scores, score_conllu  # noqa: E402
from train import COMPONENTS, choose_components  # noqa: E402

# A treebank that comes with the package, for --smoke.
BUNDLED = ROOT / "projects" / "quickstart" / "assets"
PIPELINE, UDPIPE, SPACY = SYSTEMS = ("pipeline", "udpipe", "spacy")
# Several families, scripts and sizes; spaCy's tokenizer for Vietnamese needs another package.
LANGUAGES = {"Vietnamese-VTB": "xx"}
TREEBANKS = (
    "Afrikaans-AfriBooms",
    "Belarusian-HSE",
    "Coptic-Scriptorium",
    "English-EWT",
    "French-Sequoia",
    "Galician-TreeGal",
    "German-GSD",
    "Hebrew-IAHLTwiki",
    "Hungarian-Szeged",
    "Irish-IDT",
    "Lithuanian-HSE",
    "Marathi-UFAL",
    "Portuguese-Bosque",
    "Tamil-TTB",
    "Telugu-MTG",
    "Turkish-IMST",
    "Vietnamese-VTB",
    "Wolof-WTB",
)
SCORES = ("Words", "Sentences", "UPOS", "UFeats", "Lemmas", "UAS", "LAS", "CLAS")
HEADER = ["treebank", "training words", *SCORES, "CPU seconds"]


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = make_parser(__doc__)
    parser.add_argument("--smoke", action="store_true", help="a few steps on a tiny treebank")
    parser.add_argument(
        "--ud",
        type=Path,
        default=os.environ.get("ROOTMIND_UD"),
        help="a folder of treebanks such as UD_English-EWT ($ROOTMIND_UD)",
    )
    parser.add_argument("--treebanks", nargs="+", default=TREEBANKS)
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=SYSTEMS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    options.names = [name.removeprefix("UD_") for name in options.treebanks]
    if options.smoke:
        options.names, options.systems = ["quickstart"], [PIPELINE]
    elif options.ud is None or not options.ud.is_dir():
        sys.exit("Expected a folder of treebanks: pass --ud DIR, or set ROOTMIND_UD")
    return options


def measure(key: tuple, options: argparse.Namespace) -> Record:
    """Train a system on a treebank, and score it on the test set."""
    name, system = key
    folder = options.out.resolve() / "breadth" / name
    source = copy_treebank(BUNDLED if options.smoke else options.ud / f"UD_{name}", folder)
    corpus, run, metrics = folder / "corpus", folder / "run", folder / "metrics"
    if not (corpus / "treebank.json").exists():
        language = LANGUAGES.get(name, "auto")
        run_script(SCRIPTS / "convert.py", source, corpus, "--language", language)
    if system == UDPIPE:
        run_script(ROOT / "benchmarks" / "udpipe.py", source, folder / system)
        seconds = srsly.read_json(folder / f"{system}.json")["train"]
        parsed = (folder / f"{system}.conllu").read_text("utf8")
        scores = score_conllu(parsed, corpus / "test.conllu")
    elif system == SPACY:
        seconds = train_spacy(corpus, folder / system)
        scores = official_scores(spacy.load(folder / system / "model-best"), corpus / "test.conllu")
    else:
        steps = 5 if options.smoke else 0
        seconds = run_script(SCRIPTS / "train.py", corpus, run, "--steps", steps)
        run_script(SCRIPTS / "evaluate.py", run, corpus, metrics)
        scores = srsly.read_json(metrics / "seed-0.json")["official"]
    words = srsly.read_json(corpus / "treebank.json")["counts"]["train"]["words"]
    return {"words": words, "seconds": seconds, "official": scores}


def train_spacy(corpus: Path, output: Path) -> float:
    """Train the pipeline of spaCy's `init config`; returns the CPU seconds of the training."""
    about, config = srsly.read_json(corpus / "treebank.json"), output.with_suffix(".cfg")
    names, _ = choose_components(" ".join(COMPONENTS), about["annotated"])
    options = ["--force", "--lang", about["lang"], "--pipeline", ",".join([*names, "parser"])]
    run_script("-m", "spacy", "init", "config", config, *options)
    changes = [f"--paths.{part}={corpus / part}.spacy" for part in ("train", "dev")]
    # Otherwise, training fails if "!" is itself a tag, as in Irish and Vietnamese.
    changes += ["--components.tagger.neg_prefix="] * ("tagger" in names)
    return run_script("-m", "spacy", "train", config, "--output", output, *changes)


def copy_treebank(source: Path, folder: Path) -> Path:
    """Copy the files of a treebank; the dev set is the training set if there is no other."""
    target = folder / source.name
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    if not any(target.glob("*-train*.conllu")):
        for path in target.glob("*-dev*.conllu"):
            path.rename(path.with_name(path.name.replace("-dev", "-train")))
    return target


def run_script(*arguments: object) -> float:
    """Run Python with one thread; returns the CPU seconds of it and its own processes."""
    command = [sys.executable, *map(str, arguments)]
    before = children_seconds()
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    # As in the project; in the sources, Python would find the package without its modules.
    done = subprocess.run(command, env=environment, cwd=SCRIPTS.parent, stdout=sys.stderr)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed, see above. Repeat the command to continue")
    return children_seconds() - before


def children_seconds() -> float:
    """Return the CPU time of all processes that this one has started, and that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


# --- the table ---------------------------------------------------------------------------------


def lines(names: list[str], done: dict[tuple, Record]) -> Iterator[list[str]]:
    """List the scores of each treebank, and their means over those that all systems have."""
    pairs, systems = [], [own for own in SYSTEMS if any(own == key[1] for key in done)]
    for name in sorted(names):
        records = [done[name, system] for system in systems if (name, system) in done]
        if records:
            pairs += [records] * (len(records) == len(systems))
            seconds = [f"{record['seconds']:,.0f}" for record in records]
            yield [name, f"{records[0]['words']:,}", *scores(records), " / ".join(seconds)]
    if pairs:
        yield [f"mean of {len(pairs)}", "", *scores(mean_scores(pairs)), ""]


def mean_scores(pairs: list[list[Record]]) -> list[Record]:
    """Average the scores of each system, if all have them on all treebanks."""
    official = [[record["official"] for record in pair] for pair in pairs]
    shared = [key for key in SCORES if all(key in own for pair in official for own in pair)]
    return [
        {"official": {key: mean(own[key] for own in each) for key in shared}}
        for each in zip(*official, strict=True)
    ]


def scores(records: Iterable[Record]) -> list[str]:
    """Format the scores of the systems, in percent; a dash where one has none."""
    official = [record["official"] for record in records]
    cells = [[own.get(key) for own in official] for key in SCORES]
    texts = [["-" if value is None else f"{100 * value:.2f}" for value in own] for own in cells]
    return [" / ".join(own) for own in texts]


def main() -> None:
    """Train, score and write the table."""
    options = parse_arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    records = Records(options.out / "breadth.jsonl", ("treebank", "system"))
    keys = [(name, system) for name in options.names for system in options.systems]
    records.complete(keys, partial(measure, options=options))
    text = table(HEADER, lines(options.names, records.read()))
    write_markdown(options.out / "breadth.md", [text, setup_line()])


if __name__ == "__main__":
    main()
