"""Build a package of a trained pipeline, with weights in half precision and the scores that it has.

Token vectors and parser take half the space. Its README has the scores of the pipeline as it is
stored: on the test set, from raw text, by the official scorer.
"""

import argparse
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import spacy
import srsly
from official import official_scores
from pretrained import check_gpu
from spacy.language import Language
from spacy.util import load_config, walk_dict
from thinc.api import require_gpu

from spacy_rootmind.network.half_precision import HalfPrecision, build_half_precision
from spacy_rootmind.pipeline.root_mst import RootMST
from spacy_rootmind.pipeline.serialization import save_folder

HALF = "spacy_rootmind.HalfPrecision.v1"


class PackageError(ValueError):
    """The pipeline cannot be packaged; the message says why and what to do."""


def store(nlp: Language, folder: Path) -> Language:
    """Store a pipeline in little space, and return it as it is stored."""
    if nlp.has_pipe("tok2vec"):
        tok2vec = nlp.get_pipe("tok2vec")
        if not isinstance(tok2vec.model, HalfPrecision):
            tok2vec.model = build_half_precision(tok2vec.model)
    nlp.to_disk(folder)
    for name, pipe in nlp.pipeline:
        if isinstance(pipe, RootMST):
            save_folder(pipe, folder / name, ["vocab"], half_precision=True)
    clean_config(folder / "config.cfg")
    return spacy.load(folder)


def clean_config(path: Path) -> None:
    """Remove paths and callbacks of the training; say how token vectors are stored."""
    config = load_config(path, interpolate=False)
    encoder = config["paths"].get("encoder")
    config["paths"] = dict.fromkeys(config["paths"])
    if encoder is not None:
        # The network has to have a name, which is not looked up.
        config["paths"]["encoder"] = Path(encoder).name
    # Only the training needs it; users of the package do not have its code.
    config["initialize"]["after_init"] = None
    config = config.interpolate()
    for place, value in walk_dict(config):
        if isinstance(value, str) and Path(value).is_absolute():
            raise PackageError(
                f"expected a config without paths of this machine, found {'.'.join(place)} = "
                f"{value!r}: train with a config that has it in [paths]"
            )
    tok2vec = config["components"].get("tok2vec")
    if tok2vec is not None and tok2vec["model"]["@architectures"] != HALF:
        tok2vec["model"] = {"@architectures": HALF, "model": tok2vec["model"]}
    config.to_disk(path)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trained", type=Path, help="folder of the trained pipeline")
    parser.add_argument("corpus", type=Path, help="a folder that convert.py wrote")
    parser.add_argument("output", type=Path)
    parser.add_argument("--name", required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--build", default="wheel", help="wheel, sdist or none")
    parser.add_argument("--gpu-id", type=int, default=-1)
    args = parser.parse_args()
    try:
        check_gpu(args.gpu_id)
        if args.gpu_id >= 0:
            require_gpu(args.gpu_id)
        with TemporaryDirectory() as temporary:
            folder = Path(temporary) / "pipeline"
            nlp = store(spacy.load(args.trained), folder)
            scores = official_scores(nlp, args.corpus / "test.conllu")
            about = srsly.read_json(args.corpus / "treebank.json")
            meta = srsly.read_json(folder / "meta.json")
            meta["performance"] = {name: round(score, 4) for name, score in scores.items()}
            meta["notes"] = (
                f"F1 on the test set of {about['treebank']}, from raw text, by the official scorer "
                f"of the CoNLL 2018 shared task."
            )
            srsly.write_json(folder / "meta.json", meta)
            args.output.mkdir(parents=True, exist_ok=True)
            command = [sys.executable, "-m", "spacy", "package", folder, args.output, "--force"]
            command += ["--name", args.name, "--version", args.version, "--build", args.build]
            code = subprocess.run(command).returncode
    except ValueError as error:
        sys.exit(str(error))
    sys.exit(code)


if __name__ == "__main__":
    main()
