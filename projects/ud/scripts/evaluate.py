"""Score pipelines of several seeds on the test set, from raw text and with gold words.

From raw text, the official scorer is used. Writes all scores of each seed, and a table of the most
important ones with their mean and standard deviation over the seeds.
"""

import argparse
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import spacy
import srsly
from official import official_scores
from pretrained import check_gpu
from report import EVALUATIONS, GOLD, OFFICIAL, summarize, write_tables
from spacy.language import Language
from spacy.tokens import Doc, DocBin, Token
from spacy.training import Example
from thinc.api import require_gpu
from train import BEST, read_seeds, seed_folder
from wasabi import msg

from spacy_rootmind.formats.conllu_sentence import EMPTY

# Accuracies: the component that predicts the value, and where Docs have it.
WORD_SCORES: dict[str, tuple[str, Callable[[Token], str]]] = {
    "upos_f": ("morphologizer", lambda token: token.pos_),
    "xpos_f": ("tagger", lambda token: token.tag_),
    "feats_f": ("morphologizer", lambda token: str(token.morph) or EMPTY),
    "lemma_f": ("trainable_lemmatizer", lambda token: token.lemma_),
}


def gold_examples(nlp: Language, path: Path) -> list[Example]:
    """Parse the words and sentences of the references.

    Sentences stay together in Docs, as in training: a transformer that was trained on Docs of
    several sentences does far worse on single ones.
    """
    references = list(DocBin().from_disk(path).get_docs(nlp.vocab))
    docs = []
    for reference in references:
        starts = {sentence.start for sentence in reference.sents}
        words = [token.text for token in reference]
        spaces = [bool(token.whitespace_) for token in reference]
        # Otherwise the parser would find its own sentences.
        sent_starts = [i in starts for i in range(len(reference))]
        docs.append(Doc(nlp.vocab, words=words, spaces=spaces, sent_starts=sent_starts))
    return [Example(doc, ref) for doc, ref in zip(nlp.pipe(docs), references, strict=True)]


def scores_of(nlp: Language, examples: list[Example]) -> dict:
    """Score parses by the components' own scorers, and words as `word_scores` does."""
    scores: dict = {}
    for _, pipe in nlp.pipeline:
        if hasattr(pipe, "score"):
            scores |= pipe.score(examples)
    return scores | word_scores(nlp, examples)


def word_scores(nlp: Language, examples: Iterable[Example]) -> dict[str, float | None]:
    """Score what the pipeline predicts of the words that have it in the treebank; None without."""
    pairs = [pair for eg in examples for pair in zip(eg.predicted, eg.reference, strict=True)]
    scores: dict[str, float | None] = {}
    for name, (component, value) in WORD_SCORES.items():
        if nlp.has_pipe(component):
            right = [value(token) == value(word) for token, word in pairs if value(word)]
            scores[name] = sum(right) / len(right) if right else None
    return scores


def evaluate(pipeline: Path, corpus: Path) -> dict[str, dict]:
    """Score a pipeline on the test set in a folder that `convert.py` wrote, in both ways."""
    nlp = spacy.load(pipeline)
    gold = scores_of(nlp, gold_examples(nlp, corpus / "test.spacy"))
    return {OFFICIAL: official_scores(nlp, corpus / "test.conllu"), GOLD: gold}


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, help="a folder that train.py wrote")
    parser.add_argument("corpus", type=Path, help="a folder that convert.py wrote")
    parser.add_argument("output", type=Path)
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--gpu-id", type=int, default=-1)
    args = parser.parse_args()
    try:
        seeds = read_seeds(args.seeds)
        check_gpu(args.gpu_id)
    except ValueError as error:
        sys.exit(str(error))
    missing = [s for s in seeds if not (seed_folder(args.run, s) / BEST).is_dir()]
    if missing:
        sys.exit(f"{args.run} has no pipeline of seed {missing[0]}: train with --vars.seeds first")
    if args.gpu_id >= 0:
        require_gpu(args.gpu_id)
    args.output.mkdir(parents=True, exist_ok=True)
    scores = {}
    for seed in seeds:
        scores[seed] = evaluate(seed_folder(args.run, seed) / BEST, args.corpus)
        srsly.write_json(args.output / f"seed-{seed}.json", scores[seed])
        msg.good(f"Seed {seed}: {', '.join(EVALUATIONS.values())}")
    about = srsly.read_json(args.corpus / "treebank.json")
    summary = summarize(scores, about, args.run.name)
    write_tables(summary, args.output)
    print((args.output / "summary.md").read_text("utf8"))


if __name__ == "__main__":
    main()
