"""Score pipelines of several seeds on the test set, in three ways.

These are from raw text by the official scorer, with gold words and sentences, and from text. Writes
all scores of each seed, and a table of the most important ones with their mean and standard
deviation over the seeds.
"""

import argparse
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import spacy
import srsly
from convert import RAW
from official import official_scores
from pretrained import check_gpu
from report import EVALUATIONS, GOLD, OFFICIAL, TEXT, summarize, write_tables
from spacy.language import Language
from spacy.tokens import Doc, DocBin, Token
from spacy.training import Alignment, Example
from thinc.api import require_gpu
from train import BEST, read_seeds, seed_folder
from wasabi import msg

from spacy_rootmind.formats.conllu_sentence import EMPTY

# Scores of words: the component that predicts the value, and where Docs have it.
WORD_SCORES: dict[str, tuple[str | None, Callable[[Token], str]]] = {
    "words_f": (None, lambda token: "found"),
    "upos_f": ("morphologizer", lambda token: token.pos_),
    "xpos_f": ("tagger", lambda token: token.tag_),
    "feats_f": ("morphologizer", lambda token: str(token.morph) or EMPTY),
    "lemma_f": ("trainable_lemmatizer", lambda token: token.lemma_),
}

Spans = Sequence[Sequence[int]]


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


def text_examples(nlp: Language, path: Path) -> list[Example]:
    """Parse the text of the references with the pipeline's tokenizer."""
    references = list(DocBin().from_disk(path).get_docs(nlp.vocab))
    docs = nlp.pipe([doc.user_data[RAW]["text"] for doc in references])
    return [
        Example(doc, reference, alignment=align(doc, reference.user_data[RAW]["spans"]))
        for doc, reference in zip(docs, references, strict=True)
    ]


def align(doc: Doc, spans: Spans) -> Alignment:
    """Align a Doc's tokens with words by their character offsets.

    spaCy compares characters instead, which only works if words spell the text; it would align "du"
    with the first of its words "de" and "le".
    """
    x2y: list[list[int]] = [[] for _ in doc]
    y2x: list[list[int]] = []
    starts = [token.idx for token in doc]
    ends = [token.idx + len(token) for token in doc]
    for word, (start, end) in enumerate(spans):
        tokens = range(bisect_right(ends, start), bisect_left(starts, end))
        y2x.append([i for i in tokens if not doc[i].is_space])
        for i in y2x[-1]:
            x2y[i].append(word)
    return Alignment.from_indices(x2y, y2x)


def scores_of(nlp: Language, examples: list[Example]) -> dict:
    """Score parses by the components' own scorers, and words as `word_scores` does."""
    scores: dict = {}
    for _, pipe in nlp.pipeline:
        if hasattr(pipe, "score"):
            scores |= pipe.score(examples)
    return scores | word_scores(nlp, examples)


def word_scores(nlp: Language, examples: list[Example]) -> dict[str, float | None]:
    """Score the words found, and what the pipeline predicts of them.

    F1 as in CoNLL 2018, with gold words the accuracy: of words (`words_f`), and of a column (such
    as `upos_f`) over the words that have it in the treebank; None if there are none.
    """
    found = [pair for example in examples for pair in found_words(example)]
    gold = [word for example in examples for word in example.reference]
    n_tokens = sum(not token.is_space for example in examples for token in example.predicted)
    scores: dict[str, float | None] = {}
    for name, (component, value) in WORD_SCORES.items():
        if component is not None and not nlp.has_pipe(component):
            continue
        right = sum(bool(value(word)) and value(token) == value(word) for token, word in found)
        n_gold = sum(bool(value(word)) for word in gold)
        n_found = n_tokens - sum(not value(word) for _, word in found)
        scores[name] = 2 * right / (n_gold + n_found) if n_gold else None
    return scores


def found_words(example: Example) -> Iterator[tuple[Token, Token]]:
    """Yield tokens that match a word exactly, and the word."""
    alignment = example.alignment
    for word in example.reference:
        tokens = alignment.y2x[word.i]
        if len(tokens) == 1 and alignment.x2y.lengths[tokens[0]] == 1:
            yield example.predicted[int(tokens[0])], word


def sentence_score(examples: list[Example]) -> float:
    """Compute the F1 of sentences by start and end, also if their words do not spell the text."""
    n_sents = right = 0
    for example in examples:
        doc, reference = example.predicted, example.reference
        spans = reference.user_data[RAW]["spans"]
        gold = {(spans[s.start][0], spans[s.end - 1][1]) for s in reference.sents}
        found = set()
        for sentence in doc.sents:
            inside = [token for token in sentence if not token.is_space]
            if inside:
                found.add((inside[0].idx, inside[-1].idx + len(inside[-1])))
        n_sents += len(gold) + len(found)
        right += len(gold & found)
    return 2 * right / n_sents


def evaluate(pipeline: Path, corpus: Path) -> dict[str, dict]:
    """Score a pipeline on the test set in a folder that `convert.py` wrote, in all ways."""
    nlp = spacy.load(pipeline)
    gold = scores_of(nlp, gold_examples(nlp, corpus / "test.spacy"))
    examples = text_examples(nlp, corpus / "test.spacy")
    text = {**scores_of(nlp, examples), "sents_f": sentence_score(examples)}
    return {OFFICIAL: official_scores(nlp, corpus / "test.conllu"), GOLD: gold, TEXT: text}


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
