"""Train a small parser on each treebank, and save its scores of the test set.

Takes every `*-ud-train.conllu` with a test set next to it. Converts the treebank with spaCy's
converter (one sentence per Doc, gold tokens), trains with configs/small.cfg, and writes the arc
scores of the test set with the gold heads to scores/TREEBANK/head_selection.npz; the scores by the
untrained network go to untrained.npz. Without a dev set, every tenth training sentence is held out.
Results that exist for the same number of steps are kept.
"""

import argparse
import os
import sys
import time
from pathlib import Path

# Set before NumPy is imported: with small matrices, threads mostly wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "benchmarks"))

import numpy as np
import spacy
from lib.trainings import convert_treebank, limit_steps, set_corpus, split_file, train
from matrices import LAST, TRAINED, UNTRAINED, Matrices, model_folder, score_file
from spacy.language import Language
from spacy.tokens import Doc, DocBin
from spacy.training.initialize import init_nlp
from spacy.util import load_config

from spacy_rootmind.annotation.sentences import sentences_of
from spacy_rootmind.network.architecture import ParserInput

PROJECT = Path(__file__).resolve().parents[1]
# Dev sentences scored during training.
DEV_LIMIT = 100
# Seed of networks and training.
SEED = 0


def find_treebanks(folder: str, wanted: str) -> dict[str, Path]:
    """Find training files by name of treebank, smallest first; in ROOTMIND_UD without a folder.

    The name is that of the folder without "UD_", or else the first part of the file name.
    """
    source = Path(folder or os.environ.get("ROOTMIND_UD", ""))
    if not (folder or os.environ.get("ROOTMIND_UD")) or not source.is_dir():
        raise SystemExit(
            f"expected a folder of Universal Dependencies treebanks, received {folder!r}: pass "
            f"--vars.source FOLDER to `spacy project run`, or set ROOTMIND_UD"
        )
    found = {}
    for path in sorted(source.rglob("*-ud-train.conllu"), key=lambda path: path.stat().st_size):
        folder = path.parent.name
        name = folder[3:] if folder.startswith("UD_") else path.name.split("-ud-")[0]
        if split_file(path, "test").exists():
            found[name] = path
    if wanted != "all":
        names = wanted.split(",")
        missing = sorted(set(names) - set(found))
        if missing:
            raise SystemExit(f"{source} has no {', '.join(missing)}; it has {', '.join(found)}")
        found = {name: found[name] for name in names}
    if not found:
        raise SystemExit(f"{source} has no *-ud-train.conllu with a *-ud-test.conllu next to it")
    return found


def train_parser(corpus: Path, output: Path, steps: int) -> tuple[Language, Language]:
    """Train with the config; returns the untrained pipeline and the last one.

    The last pipeline is used, not the best on the dev set: some dev sets are too small to choose
    by, and the learning rate has fallen to zero at the end.
    """
    overrides = {"corpora.dev.limit": DEV_LIMIT, "components.root_mst.objective": TRAINED}
    config = load_config(PROJECT / "configs" / "small.cfg", overrides, interpolate=False)
    set_corpus(config, corpus, SEED)
    limit_steps(config, steps, evaluations=2)
    untrained = init_nlp(config)
    train(config, output)
    return untrained, spacy.load(output / LAST)


def score_sentences(nlp: Language, file: Path) -> tuple[list, list]:
    """Score all arcs of the sentences of a .spacy file; returns matrices and gold heads."""
    gold = list(DocBin().from_disk(file).get_docs(nlp.vocab))
    return score_docs(nlp, [blank_copy(nlp, doc) for doc in gold], gold)


def score_docs(nlp: Language, docs: list[Doc], gold: list[Doc]) -> tuple[list, list]:
    """Score all arcs of Docs that other components have seen; see `score_sentences`."""
    sentences = [sentences_of(doc) for doc in docs]
    scores = []
    for start in range(0, len(docs), 64):
        part = slice(start, start + 64)
        scores += predict_arcs(nlp, docs[part], sentences[part])
    heads = [_gold_heads(doc, *words) for doc, words in zip(gold, sentences, strict=True)]
    return scores, heads


def blank_copy(nlp: Language, doc: Doc) -> Doc:
    """Copy only the tokens."""
    return Doc(nlp.vocab, [t.text for t in doc], [bool(t.whitespace_) for t in doc])


def predict_arcs(nlp: Language, docs: list[Doc], sentences: list) -> list:
    """Run the network; returns one matrix per sentence."""
    model = nlp.get_pipe("root_mst").model
    trees = model.predict(ParserInput(docs, sentences)).trees
    found = {}
    for arcs, bucket in zip(trees.arcs, trees.layout.buckets, strict=True):
        for row, (sentence, n) in enumerate(zip(bucket.sentences, bucket.lengths, strict=True)):
            found[sentence] = np.array(arcs[row, : n + 1, : n + 1], dtype=np.float32)
    return [found[i] for i in range(len(found))]


def _gold_heads(doc: Doc, words: np.ndarray) -> np.ndarray:
    """Return heads as numbered in the matrices, without whitespace tokens."""
    place = {int(token): i for i, token in enumerate(words, start=1)}
    heads = [0 if doc[i].head.i == i else place[doc[i].head.i] for i in place]
    return np.array([-1, *heads], dtype=np.int32)


def run(treebank: str, train_file: Path, steps: int, root: Path) -> None:
    """Convert, train and score for one treebank, unless it is done."""
    files = [score_file(root, treebank, state) for state in (UNTRAINED, TRAINED)]
    if all(path.exists() and Matrices.load(path).steps == steps for path in files):
        print(f"{treebank}: done before", flush=True)
        return
    start = time.perf_counter()
    corpus = root / "corpus" / treebank
    n_train = convert_treebank(train_file, corpus, sentences=1)
    pipelines = train_parser(corpus, model_folder(root, treebank), steps)
    for nlp, path in zip(pipelines, files, strict=True):
        Matrices(*score_sentences(nlp, corpus / "test.spacy"), n_train, steps).save(path)
    seconds = time.perf_counter() - start
    print(f"{treebank}: {n_train} sentences, {seconds:.0f} s", flush=True)


def main() -> None:
    """Train on the chosen treebanks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", nargs="?", default="", help="folder of treebanks ($ROOTMIND_UD)")
    parser.add_argument("--treebanks", default="all", help="names separated by commas, or all")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--root", type=Path, default=PROJECT, help="folder to write to")
    options = parser.parse_args()
    for treebank, train_file in find_treebanks(options.source, options.treebanks).items():
        run(treebank, train_file, options.steps, options.root)


if __name__ == "__main__":
    main()
