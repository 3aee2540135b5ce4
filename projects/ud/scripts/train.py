"""Train a pipeline with several seeds, and copy the best one on the dev set.

Its config is what the command `init-config` writes, with another training corpus for a small
treebank. A seed that is done is kept; one that was interrupted, or whose settings or corpus have
changed, is trained again.
"""

import argparse
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import srsly
from convert import SYNTACTIC
from pretrained import AUTO, CPU, ENCODERS, check, check_encoder, choose
from thinc.api import Config
from wasabi import msg

from spacy_rootmind.cli.init_config import ConfigOptions, make_config

PARSER = "root_mst"
# Trained where training has multiword tokens.
EXPANDER = "mwt_expander"
# Components that can be trained with the parser, and the column that each of them learns.
COMPONENTS = {"tagger": "XPOS", "morphologizer": "UPOS", "trainable_lemmatizer": "LEMMA"}
NO_COMPONENTS = "none"
# Written before a training.
CONFIG = "config.cfg"
# Written when a training is complete.
RECORD = "trained.json"
BEST = "model-best"
READER = "ud.GoldWords.v1"
NONCE_READER = "spacy_rootmind.NonceCorpus.v1"
LEARN_RATE = "training.optimizer.learn_rate"
# At most one of this many steps is for warm-up, unless the config's steps are kept.
WARMUP = 10


class Size(NamedTuple):
    """Settings for treebanks with fewer training words than `words`."""

    words: int
    steps: int
    dropout: float


# Without a pretrained encoder; larger treebanks have the config's settings.
SIZES = (Size(10_000, 2000, 0.4), Size(30_000, 2000, 0.35), Size(100_000, 4000, 0.25))
BY_SIZE = {"training.batcher.size": "500", f"{LEARN_RATE}.initial_rate": "0.004"}


class TrainingError(RuntimeError):
    """A training was not completed; the message says why and what comes next."""


def seed_folder(run: Path, seed: int) -> Path:
    """Return the folder of one seed."""
    return run / f"seed-{seed}"


def read_seeds(text: str) -> list[int]:
    """Read seeds separated by spaces or commas."""
    names = text.replace(",", " ").split()
    seeds = [int(name) for name in names if name.isdigit()]
    if not seeds or len(seeds) != len(names) or len(set(seeds)) != len(seeds):
        raise ValueError(f"expected seeds such as '0 1 2', each once, received {text!r}")
    return seeds


def choose_components(text: str, annotated: dict[str, float]) -> tuple[list[str], list[str]]:
    """Choose the components to train with the parser, and remark on the others.

    These are the named ones whose column annotates at least half of the words.
    """
    names = [] if text == NO_COMPONENTS else text.replace(",", " ").split()
    if not set(names) <= set(COMPONENTS) or (not names and text != NO_COMPONENTS):
        raise ValueError(
            f"expected --vars.components {NO_COMPONENTS!r}, or some of {' '.join(COMPONENTS)!r}, "
            f"received {text!r}"
        )
    chosen, remarks = [], []
    for name, column in COMPONENTS.items():
        if name in names and annotated[column] < 0.5:
            share = f"{100 * annotated[column]:.0f} %"
            remarks.append(f"No {name}: {share} of the training words have {column}")
        elif name in names:
            chosen.append(name)
    if "morphologizer" in chosen and not annotated["FEATS"]:
        remarks.append("The treebank has no FEATS: the morphologizer only learns UPOS")
    return chosen, remarks


def size_of(n_words: int) -> Size | None:
    """Find the settings for a number of training words; None for the config's."""
    return next((size for size in SIZES if n_words < size.words), None)


def set_corpora(config: Config, words: str, size: Size | None) -> None:
    """Set how the corpora are read, in place."""
    corpora = config["corpora"]
    if words == SYNTACTIC:
        for part in ("train", "dev"):
            corpora[part]["@readers"] = READER
    if size is not None:
        # An epoch also has a copy of each sentence with other words, a new one each time.
        corpora["train"] = {"@readers": NONCE_READER, "corpus": corpora["train"]}
        config["training"]["max_epochs"] = -1


def overrides_of(
    config: Config, corpus: Path, steps: int, text: str, size: Size | None
) -> dict[str, str]:
    """Collect the settings of the config to change.

    `steps` replaces the number of steps, unless it is 0. The learning rate falls over these steps,
    after a warm-up of at most a tenth of them, and the dev set is scored five times. `text` has
    more settings, such as "training.dropout=0.3 training.batcher.size=500".
    """
    settings = {
        "paths.train": str(corpus / "train.spacy"),
        "paths.dev": str(corpus / "dev.spacy"),
    }
    if size is not None:
        settings |= {**BY_SIZE, "training.dropout": str(size.dropout)}
        steps = steps or size.steps
    if steps:
        warmup = config["training"]["optimizer"]["learn_rate"]["warmup_steps"]
        settings["training.max_steps"] = str(steps)
        settings[f"{LEARN_RATE}.total_steps"] = str(steps)
        settings[f"{LEARN_RATE}.warmup_steps"] = str(min(warmup, steps // WARMUP))
        settings["training.eval_frequency"] = str(max(1, steps // 5))
    for setting in text.split():
        name, equals, value = setting.partition("=")
        if not equals or "." not in name:
            raise ValueError(
                f"expected settings such as training.dropout=0.3, received {setting!r}"
            )
        settings[name.lstrip("-")] = value
    return settings


def record_of(config: Path, corpus: Path, settings: dict[str, str], seed: int) -> dict:
    """Describe a training run, to compare it with later ones."""
    files = [config, corpus / "train.spacy", corpus / "dev.spacy"]
    digests = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    return {"seed": seed, "settings": settings, "files": digests}


def train_seed(
    config: Path, corpus: Path, folder: Path, settings: dict[str, str], seed: int, gpu: int
) -> None:
    """Train with one seed, unless it is done."""
    record = record_of(config, corpus, settings, seed)
    if (folder / RECORD).is_file():
        if srsly.read_json(folder / RECORD) == record:
            msg.info(f"Seed {seed} is done: {folder}")
            return
        msg.warn(f"Seed {seed}: settings or corpus have changed, training again")
    elif folder.exists():
        msg.warn(f"Seed {seed} was not finished: {folder} is replaced, training from the start")
    shutil.rmtree(folder, ignore_errors=True)
    msg.divider(f"seed {seed}")
    code = Path(__file__).parent / "gold_words.py"
    command = [sys.executable, "-m", "spacy", "train", str(config), "--output", str(folder)]
    command += ["--gpu-id", str(gpu), "--code", str(code), "--system.seed", str(seed)]
    for name, value in settings.items():
        command += [f"--{name}", value]
    code = run_training(command)
    if code:
        reason = f"failed (exit code {code})" if code > 0 else f"ended by signal {-code}"
        raise TrainingError(
            f"training with seed {seed} {reason}, see above. The same command trains it again from "
            f"the start, so that all seeds are trained alike; seeds that are done stay"
        )
    srsly.write_json(folder / RECORD, record)


def run_training(command: list[str]) -> int:
    """Run `spacy train`; returns its exit code."""
    return subprocess.run(command).returncode


def sources_of(about: dict, encoder: str | None) -> list[dict[str, str]]:
    """Name the treebank and the encoder, if there is one, as sources in a pipeline's meta.json."""
    url = f"https://universaldependencies.org/treebanks/{about['code']}/index.html"
    sources = [{"name": about["treebank"], "url": url}]
    if about["license"]:
        sources[0]["license"] = about["license"]
    if encoder is not None and Path(encoder).is_dir():
        # Only the name, since the path is of no use on other machines.
        sources.append({"name": Path(encoder).resolve().name})
    elif encoder is not None:
        sources.append({"name": encoder, "url": f"https://huggingface.co/{encoder}"})
    return sources


def keep_best(run: Path, seeds: list[int], corpus: Path, encoder: str | None) -> int:
    """Copy the pipeline with the best LAS on the dev set, and add its sources to meta.json.

    Returns its seed, the first one among equals.
    """

    def dev_score(seed: int) -> float:
        meta = srsly.read_json(seed_folder(run, seed) / BEST / "meta.json")
        return meta["performance"]["dep_las"] or 0.0

    best = max(seeds, key=dev_score)
    shutil.rmtree(run / BEST, ignore_errors=True)
    shutil.copytree(seed_folder(run, best) / BEST, run / BEST)
    about = srsly.read_json(corpus / "treebank.json")
    meta = srsly.read_json(run / BEST / "meta.json")
    meta["description"] = f"{', '.join(meta['pipeline'])} trained on {about['treebank']}"
    meta["sources"] = sources_of(about, encoder)
    if about["license"]:
        # The licence of a treebank may restrict the use of models trained on it.
        meta["license"] = about["license"]
    srsly.write_json(run / BEST / "meta.json", meta)
    return best


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path, help="a folder that convert.py wrote")
    parser.add_argument("output", type=Path)
    parser.add_argument("--encoder", choices=ENCODERS, default=CPU)
    parser.add_argument(
        "--components",
        default=" ".join(COMPONENTS),
        help="what to train with the parser; none: the parser alone",
    )
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--steps", type=int, default=0, help="0: by the treebank's size")
    parser.add_argument("--overrides", default="", help="such as 'training.dropout=0.3'")
    parser.add_argument("--pretrained", default=AUTO, help="name or folder of an encoder")
    parser.add_argument("--gpu-id", type=int, default=-1)
    args = parser.parse_args()
    about = srsly.read_json(args.corpus / "treebank.json")
    try:
        seeds = read_seeds(args.seeds)
        check(args.encoder, args.pretrained, args.gpu_id)
        components, remarks = choose_components(args.components, about["annotated"])
        encoder, reason = choose(args.encoder, args.pretrained, about["code"])
        if encoder is not None:
            check_encoder(encoder)
        expander = [EXPANDER] if about["counts"]["train"]["merged"] else []
        names = [*components, PARSER, *expander]
        options = ConfigOptions(
            about["lang"],
            ",".join(names),
            ud=True,
            fit_tokenizer=about["is_fitted"],
            transformer=encoder,
        )
        config = make_config(options)
        size = size_of(about["counts"]["train"]["words"]) if encoder is None else None
        set_corpora(config, about["words"], size)
        settings = overrides_of(config, args.corpus, args.steps, args.overrides, size)
    except ValueError as error:
        sys.exit(str(error))
    msg.info(reason)
    for remark in remarks:
        msg.warn(remark)
    args.output.mkdir(parents=True, exist_ok=True)
    path = args.output / CONFIG
    config.to_disk(path, interpolate=False)
    for seed in seeds:
        folder = seed_folder(args.output, seed)
        try:
            train_seed(path, args.corpus, folder, settings, seed, args.gpu_id)
        except TrainingError as error:
            sys.exit(str(error))
    best = keep_best(args.output, seeds, args.corpus, encoder)
    msg.good(f"Best on the dev set: seed {best}, copied to {args.output / BEST}")


if __name__ == "__main__":
    main()
