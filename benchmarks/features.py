"""Attachment scores with and without predicted token attributes as inputs of the parser.

For each treebank and seed, trains a pipeline for each kind of input and scores it on the test set
from text, with spaCy's scorer:

- `none`: the parser alone, with token vectors of its own (`configs/cpu.cfg`);
- `shared`: the parser, a tagger and a morphologizer over one tok2vec, without attributes as inputs;
- `predicted`: the same, and the parser reads what the others predict (`configs/features.cfg`);
- `gold`: as an upper bound, the parser reads the treebank's attributes, also in the test set.

Each training is a line in features.jsonl, and is skipped if that is there: run again to resume, or
once with all treebanks after runs in parallel, for the whole table. All trainings take the same
number of steps; the last step is scored. Treebanks without a dev set hold out a tenth of their
training Docs for the temperatures.

    python benchmarks/features.py --ud FOLDER --treebank UD_Irish-IDT --treebank UD_Wolof-WTB
"""

import argparse
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import spacy
from lib.records import Record, Records
from lib.tables import setup_line, spread, table, write_markdown
from lib.trainings import (
    convert_treebank,
    limit_steps,
    read_gold_attributes,
    read_with_gold_attributes,
    set_corpus,
    train,
    use_numpy_blas,
)
from spacy.training import Corpus
from spacy.util import load_config
from thinc.api import Config

ROOT = Path(__file__).parent.parent
QUICKSTART = ROOT / "projects" / "quickstart" / "assets"
INPUTS = ("none", "shared", "predicted", "gold")
SCORES = {
    "UAS": "dep_uas",
    "LAS": "dep_las",
    "sents F": "sents_f",
    "TAG": "tag_acc",
    "POS": "pos_acc",
    "MORPH": "morph_acc",
}
KEY = ("treebank", "inputs", "steps", "seed")


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--ud", type=Path, help="a folder of Universal Dependencies treebanks")
    arguments.add_argument("--treebank", action="append", default=[], help="may be repeated")
    arguments.add_argument("--inputs", action="append", choices=INPUTS, help="by default, all")
    arguments.add_argument("--seeds", type=int, default=3, help="number of seeds")
    arguments.add_argument("--steps", type=int, default=2000, help="training steps")
    arguments.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    arguments.add_argument("--smoke", action="store_true", help="a tiny treebank and few steps")
    return arguments.parse_args()


def spacy_language(code: str) -> str:
    """Return the language whose tokenizer is used: "xx" where spaCy has none for the treebank's."""
    try:
        return spacy.blank(code).lang
    except ImportError:
        return "xx"


# --- training --------------------------------------------------------------------------------


def make_config(inputs: str, corpus: Path, lang: str, seed: int, steps: int) -> Config:
    """Make the config of a training."""
    path = ROOT / "configs" / ("cpu.cfg" if inputs == "none" else "features.cfg")
    config = load_config(path, overrides={"nlp.lang": lang}, interpolate=False)
    set_corpus(config, corpus, seed)
    limit_steps(config, steps, evaluations=1, warmup=steps // 20)
    if inputs == "shared":
        config["components"]["root_mst"]["model"]["features"] = None
        config["training"]["annotating_components"] = []
    if inputs == "gold":
        read_gold_attributes(config)
        # Attributes that are set stay, in training and in test.
        config["components"]["morphologizer"]["overwrite"] = False
    return config


def measure(key: tuple, corpus: Path, lang: str) -> Record:
    """Train a pipeline and score it on the test set."""
    _, inputs, steps, seed = key
    with TemporaryDirectory() as folder:
        times = train(make_config(inputs, corpus, lang, seed, steps), Path(folder))
        nlp = spacy.load(Path(folder) / "model-last")
    path = str(corpus / "test.spacy")
    reader = read_with_gold_attributes(path) if inputs == "gold" else Corpus(path)
    scores = nlp.evaluate(reader(nlp))
    return {**{name: scores.get(key) for name, key in SCORES.items()}, "seconds": times.end}


def run(folder: Path, records: Records, options: argparse.Namespace) -> list[Record]:
    """Train on one treebank with all inputs and seeds, but for results that are there already."""
    train_file = next(folder.glob("*-ud-train.conllu"))
    lang = spacy_language(train_file.name.split("_")[0])
    seeds_and_inputs = product(range(options.seeds), options.inputs or INPUTS)
    keys = [(folder.name, inputs, options.steps, seed) for seed, inputs in seeds_and_inputs]
    with TemporaryDirectory() as corpus:
        convert_treebank(train_file, Path(corpus), merge_subtokens=True)
        done = records.complete(keys, lambda key: measure(key, Path(corpus), lang))
    return list(done.values())


# --- report ----------------------------------------------------------------------------------


def report(results: Iterable[Record]) -> str:
    """Lay out mean and deviation over seeds, in percent."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for result in results:
        groups.setdefault((result["treebank"], result["inputs"]), []).append(result)
    lines = [
        [*names, str(len(group)), *(spread(known(group, score)) for score in SCORES)]
        for names, group in groups.items()
    ]
    return table(["treebank", "inputs", "seeds", *SCORES], lines)


def known(group: list[Record], score: str) -> list[float]:
    """List a score of several seeds; a pipeline without a tagger has none of tags."""
    return [result[score] for result in group if result[score] is not None]


def main() -> None:
    """Run the benchmark."""
    options = parse_arguments()
    if options.smoke:
        options.seeds, options.steps, folders = 1, 4, [QUICKSTART]
    else:
        folders = [options.ud / name for name in options.treebank]
    use_numpy_blas()
    options.out.mkdir(parents=True, exist_ok=True)
    records = Records(options.out / "features.jsonl", KEY)
    text = report(result for folder in folders for result in run(folder, records, options))
    text = f"{setup_line()} {options.steps} steps.\n\n{text}\n"
    write_markdown(options.out / "features.md", [text])


if __name__ == "__main__":
    main()
