"""Orders in which to correct parses: wrong heads among the sentences that come first.

A pipeline parses the gold tokens of a treebank. Its sentences are put in order by chance, by
length, and by what the parser says of them; then the wrong heads in the first N are counted, and
the words to read for them. Sentences without a word that the pipeline calls VERB or AUX are mostly
names, addresses and rows of tables; each order is also taken without them.

    python benchmarks/annotation.py en_rootmind_web_sm --corpus gold/en_ewt-ud-test.spacy
"""

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np
from lib.pipelines import load, on_gold_tokens, read_gold
from lib.tables import table
from numpy.typing import NDArray


class Sentences(NamedTuple):
    """Of each sentence: words, wrong heads, whether it has a verb, and the parser's doubts."""

    n: NDArray[np.int64]
    n_wrong: NDArray[np.int64]
    has_verb: NDArray[np.bool_]
    n_expected: NDArray[np.float64]
    least: NDArray[np.float64]
    entropy: NDArray[np.float64]


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="name or folder of a trained pipeline")
    parser.add_argument("--corpus", type=Path, required=True, help="gold Docs, a .spacy file")
    parser.add_argument("--first", type=int, default=100, help="number of sentences to correct")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    return parser.parse_args()


def measure(model: str, corpus: Path) -> Sentences:
    """Parse a treebank; compare with its heads."""
    gold = read_gold(corpus)
    rows = []
    for parsed, truth in zip(on_gold_tokens(load(model, confidence=True), gold), gold, strict=True):
        for sentence in parsed.sents:
            probs = np.array([token._.head_prob for token in sentence])
            wrong = [token.head.i != truth[token.i].head.i for token in sentence]
            has_verb = any(token.pos_ in ("VERB", "AUX") for token in sentence)
            doubts = ((1 - probs).sum(), probs.min(), sentence._.parse_entropy)
            rows.append((len(sentence), sum(wrong), has_verb, *doubts))
    return Sentences(*(np.array(column) for column in zip(*rows, strict=True)))


def main() -> None:
    """Measure, print and write."""
    options = parse_arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    found = measure(options.model, options.corpus)
    # Means over many orders by chance, so that a hundred sentences are enough.
    rng = np.random.default_rng(0)
    orders = {
        "chance": [rng.permutation(len(found.n)) for _ in range(1000)],
        "length": [np.argsort(-found.n, kind="stable")],
        "least `head_prob`": [np.argsort(found.least, kind="stable")],
        "entropy per word": [np.argsort(-found.entropy / found.n, kind="stable")],
        "entropy": [np.argsort(-found.entropy, kind="stable")],
        "expected wrong heads": [np.argsort(-found.n_expected, kind="stable")],
    }
    rows = []
    for verbs_only in (False, True) if found.has_verb.any() else (False,):
        for name, permutations in orders.items():
            kept = [own[found.has_verb[own]] if verbs_only else own for own in permutations]
            first = np.concatenate([own[: options.first] for own in kept])
            n, n_wrong = found.n[first].sum(), found.n_wrong[first].sum()
            rows.append(
                [
                    name + (", with a verb" if verbs_only else ""),
                    f"{n_wrong / len(kept):.0f}",
                    f"{n / len(kept):.0f}",
                    f"{100 * n_wrong / n:.1f}",
                    f"{100 * (found.n_wrong[first] > 0).mean():.0f}",
                    f"{100 * (~found.has_verb[first]).mean():.0f}",
                ]
            )
    header = ["order", "wrong heads", "words", "wrong, %", "with an error, %", "without a verb, %"]
    text = (
        f"{options.model}: {len(found.n)} sentences, {found.n.sum()} words, {found.n_wrong.sum()} "
        f"wrong heads, {found.n_expected.sum():.0f} expected; the first {options.first}:\n\n"
        f"{table(header, rows)}\n"
    )
    (options.out / "annotation.md").write_text(text, encoding="utf8")
    print(text)


if __name__ == "__main__":
    main()
