"""Attachment scores with and without predicted token attributes as inputs of the parser.

For each treebank and seed, trains a pipeline for each kind of input and scores it on the test set
from text, with spaCy's scorer:

- `none`: the parser alone, with token vectors of its own (`configs/cpu.cfg`);
- `shared`: the parser, a tagger and a morphologizer over one tok2vec, without attributes as inputs;
- `predicted`: the same, and the parser reads what the others predict (`configs/features.cfg`);
- `gold`: as an upper bound, the parser reads the treebank's attributes, also in the test set.

Each training writes a file of results, and is skipped if that exists: run again to resume, or once
with all treebanks after runs in parallel, for the whole table. All trainings take the same number
of steps; the last step is scored. Treebanks without a dev set hold out a tenth of their training
Docs for the temperatures.

    python benchmarks/features.py --ud FOLDER --treebank UD_Irish-IDT --treebank UD_Wolof-WTB
"""

import argparse
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from pathlib import Path
from statistics import mean, stdev
from tempfile import TemporaryDirectory
from typing import Any

import spacy
import srsly
from lib.tables import setup_line, table
from spacy.language import Language
from spacy.tokens import Doc, DocBin
from spacy.training import Corpus, Example
from spacy.training.converters import conllu_to_docs
from spacy.training.initialize import init_nlp
from spacy.training.loop import train
from spacy.util import load_config, registry
from thinc.api import Config, NumpyOps, set_current_ops

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
GOLD_READER = "spacy_rootmind.benchmark_gold_attributes"


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--ud", type=Path, help="a folder of Universal Dependencies treebanks")
    arguments.add_argument("--treebank", action="append", default=[], help="may be repeated")
    arguments.add_argument("--inputs", action="append", choices=INPUTS, help="by default, all")
    arguments.add_argument("--seeds", type=int, default=3, help="number of seeds")
    arguments.add_argument("--steps", type=int, default=2000, help="training steps")
    arguments.add_argument("--out", type=Path, default=Path(__file__).parent / "results/features")
    arguments.add_argument("--smoke", action="store_true", help="a tiny treebank and few steps")
    return arguments.parse_args()


# --- treebanks -------------------------------------------------------------------------------


def convert(folder: Path, target: Path) -> str:
    """Write a treebank as train, dev and test.spacy, ten sentences per Doc; returns its language.

    As `spacy convert -n 10 --merge-subtokens`.
    """
    files = {path.stem.rsplit("-", 1)[1]: path for path in sorted(folder.glob("*.conllu"))}
    docs = {
        part: list(conllu_to_docs(path.read_text("utf8"), 10, merge_subtokens=True, no_print=True))
        for part, path in files.items()
    }
    if "dev" not in docs:
        docs["dev"] = docs["train"][::10]
        docs["train"] = [doc for i, doc in enumerate(docs["train"]) if i % 10]
    for part, own in docs.items():
        DocBin(docs=own).to_disk(target / f"{part}.spacy")
    return files["train"].stem.split("_")[0]


def spacy_language(code: str) -> str:
    """Return the language whose tokenizer is used: "xx" where spaCy has none for the treebank's."""
    try:
        return spacy.blank(code).lang
    except ImportError:
        return "xx"


@registry.readers(GOLD_READER)
def read_with_gold_attributes(path: str) -> Callable[[Language], Iterator[Example]]:
    """Make a corpus reader that copies tags, parts of speech and features to the predicted Docs."""

    def read(nlp: Language) -> Iterator[Example]:
        for example in Corpus(path)(nlp):
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


# --- training --------------------------------------------------------------------------------


def make_config(inputs: str, corpus: Path, lang: str, seed: int, steps: int) -> Config:
    """Make the config of a training."""
    path = ROOT / "configs" / ("cpu.cfg" if inputs == "none" else "features.cfg")
    config = load_config(
        path,
        overrides={
            "paths.train": str(corpus / "train.spacy"),
            "paths.dev": str(corpus / "dev.spacy"),
            "nlp.lang": lang,
            "system.seed": seed,
            "training.max_steps": steps,
            "training.eval_frequency": steps,
            "training.optimizer.learn_rate.total_steps": steps,
            "training.optimizer.learn_rate.warmup_steps": steps // 20,
        },
        interpolate=False,
    )
    if inputs == "shared":
        config["components"]["root_mst"]["model"]["features"] = None
        config["training"]["annotating_components"] = []
    if inputs == "gold":
        config["training"]["annotating_components"] = []
        # Attributes that are set stay, in training and in test.
        config["components"]["morphologizer"]["overwrite"] = False
        for part in ("train", "dev"):
            config["corpora"][part] = {"@readers": GOLD_READER, "path": f"${{paths.{part}}}"}
    return config


def measure(inputs: str, corpus: Path, lang: str, seed: int, steps: int) -> dict[str, Any]:
    """Train a pipeline and score it on the test set."""
    start = time.perf_counter()
    with TemporaryDirectory() as folder:
        train(init_nlp(make_config(inputs, corpus, lang, seed, steps)), Path(folder))
        nlp = spacy.load(Path(folder) / "model-last")
    path = str(corpus / "test.spacy")
    reader = read_with_gold_attributes(path) if inputs == "gold" else Corpus(path)
    scores = nlp.evaluate(reader(nlp))
    return {
        **{name: scores.get(key) for name, key in SCORES.items()},
        "seconds": round(time.perf_counter() - start),
    }


def run(folder: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Train on one treebank with all inputs and seeds, but for results that are there already."""
    results = []
    with TemporaryDirectory() as corpus:
        lang = spacy_language(convert(folder, Path(corpus)))
        for seed, inputs in product(range(options.seeds), options.inputs or INPUTS):
            path = options.out / f"{folder.name}-{inputs}-{options.steps}-{seed}.json"
            if not path.exists():
                names = {"treebank": folder.name, "inputs": inputs, "seed": seed}
                found = measure(inputs, Path(corpus), lang, seed, options.steps)
                write(path, {**names, "steps": options.steps, **found})
            results.append(srsly.read_json(path))
    return results


def write(path: Path, result: dict[str, Any]) -> None:
    """Write a file of results, as a whole or not at all."""
    part = path.with_suffix(".part")
    srsly.write_json(part, result)
    part.replace(path)


# --- report ----------------------------------------------------------------------------------


def report(results: Iterable[dict[str, Any]]) -> str:
    """Lay out mean and deviation over seeds, in percent."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for result in results:
        groups.setdefault((result["treebank"], result["inputs"]), []).append(result)
    lines = [
        [*names, str(len(group)), *(spread(group, score) for score in SCORES)]
        for names, group in groups.items()
    ]
    return table(["treebank", "inputs", "seeds", *SCORES], lines)


def spread(group: list[dict[str, Any]], score: str) -> str:
    """Format the mean of a score, and its standard deviation if there are several seeds."""
    values = [100 * result[score] for result in group if result[score] is not None]
    if len(values) < 2:
        return "".join(f"{value:.2f}" for value in values)
    return f"{mean(values):.2f} ± {stdev(values):.2f}"


def main() -> None:
    """Run the benchmark."""
    options = parse_arguments()
    if options.smoke:
        options.seeds, options.steps, folders = 1, 4, [QUICKSTART]
    else:
        folders = [options.ud / name for name in options.treebank]
    # Thinc's BLIS is several times slower than NumPy's BLAS on processors with 512-bit vectors.
    set_current_ops(NumpyOps(use_blis=False))
    options.out.mkdir(parents=True, exist_ok=True)
    text = report(result for folder in folders for result in run(folder, options))
    text = f"{setup_line()} {options.steps} steps.\n\n{text}\n"
    (options.out / "features.md").write_text(text, encoding="utf8")
    print(text)


if __name__ == "__main__":
    main()
