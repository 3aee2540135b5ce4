"""Words found in the text of test sets, by the tokenizer of a language and by the fitted one.

Usage: python benchmarks/tokenization.py --ud DIR [TREEBANK ...]

Without names, all treebanks in the folder are measured. The tokenizer is fitted to the training
set, and the official scorer gives the F1 of words. Two more columns have the share of words in
multiword tokens, and the share that the fitted tokenizer does not find there.
"""

import argparse
import sys
from itertools import pairwise
from pathlib import Path
from time import process_time

import spacy
from spacy.language import Language
from spacy.tokens import Doc

sys.path.insert(0, str(Path(__file__).parents[1] / "projects" / "ud" / "scripts"))

from convert import ANY, AUTO, choose_language, fit, split_places
from official import paragraphs, score
from treebank import Sentence, TreebankError, find_files, read_sentences, space_ends

HEADER = ["treebank", "training words", "in multiword tokens", "lost there"]
HEADER += ["words F", "fitted", "rules", "seconds"]


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("treebanks", nargs="*", help="such as English-EWT; default: all")
    parser.add_argument("--ud", type=Path, required=True, help="a folder of treebanks")
    return parser.parse_args()


def words_f(nlp: Language, test: Path) -> float:
    """Score the words that a tokenizer finds in a test set's text, in percent."""
    docs = (flat(nlp.make_doc(text)) for text in paragraphs(test, nlp.max_length))
    return 100 * score(docs, test)["Words"]


def flat(doc: Doc) -> Doc:
    """Put all words of a Doc below the first: the scorer reads trees."""
    words = [token for token in doc if not token.is_space]
    return Doc(
        doc.vocab,
        words=[token.text for token in words],
        heads=[0] * len(words),
        deps=["ROOT", *["dep"] * (len(words) - 1)],
    )


def multiword_shares(nlp: Language, test: list[Sentence]) -> tuple[float, float]:
    """Return the shares of words in multiword tokens, and of those that are not found."""
    words = inside = lost = 0
    for sentence in test:
        found = {(token.idx, token.idx + len(token)) for token in nlp.make_doc(sentence.text)}
        words += len(sentence.words)
        for token, start in zip(sentence.tokens, sentence.starts, strict=True):
            n_words = token.stop - token.first
            if n_words > 1:
                places = split_places(token, sentence) or []
                bounds = [start + place for place in [*places, len(token.form)]]
                inside += n_words
                lost += n_words - len(found.intersection(pairwise(bounds)))
    return 100 * inside / words, 100 * lost / words


def measure(folder: Path) -> list[str]:
    """Fit a tokenizer to a treebank; returns the cells of its row."""
    code, files = find_files(folder)
    splits = space_ends({split: read_sentences(files[split]) for split in ("train", "test")})
    try:
        nlp, _ = choose_language(AUTO, code)
    except TreebankError:
        # As the error advises where a language's tokenizer needs another package.
        nlp = spacy.blank(ANY)
    [test] = files["test"]
    before = words_f(nlp, test)
    start = process_time()
    n_rules = len(fit(nlp, splits["train"]).rules)
    seconds = process_time() - start
    shares = [f"{share:.1f} %" for share in multiword_shares(nlp, splits["test"])]
    name = folder.name.removeprefix("UD_") + (f" (`{ANY}`)" if nlp.lang == ANY else "")
    n_words = sum(len(sentence.words) for sentence in splits["train"])
    scores = [f"{before:.2f}", f"{words_f(nlp, test):.2f}"]
    return [name, f"{n_words:,}", *shares, *scores, str(n_rules), f"{seconds:.1f}"]


def main() -> None:
    """Measure, and print a table."""
    options = parse_arguments()
    names = [f"UD_{name.removeprefix('UD_')}" for name in options.treebanks]
    folders = [options.ud / name for name in names] or sorted(options.ud.glob("UD_*"))
    # Some treebanks have no training set.
    folders = [folder for folder in folders if any(folder.glob("*-train*.conllu"))]
    print(f"| {' | '.join(HEADER)} |", "|---" * len(HEADER) + "|", sep="\n")
    for folder in folders:
        print(f"| {' | '.join(measure(folder))} |", flush=True)


if __name__ == "__main__":
    main()
