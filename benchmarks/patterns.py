"""Scores of patterns over all trees, and in the parse alone, on a treebank.

For trained pipelines, a treebank as a .spacy file, on gold tokens, and patterns with their keys as
JSONL. The matches of spaCy's DependencyMatcher in the treebank are right. For each pattern:

- precision, recall and F of the matches in the parse;
- average precision: the mean, over all right matches, of the precision down to each; of the matches
  in the parse alone, and of those over all trees, both ranked by their probability;
- the best F of all thresholds on the probability;
- the expected calibration error of the probability;
- for each wanted precision, the threshold that has it with the highest recall.

    python benchmarks/patterns.py en_rootmind_web_sm --corpus dev.spacy --patterns patterns.jsonl
"""

from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np
import srsly
from lib.confidence import reliability
from lib.options import add_pipelines, make_parser
from lib.pipelines import load, on_gold_tokens, read_gold
from lib.tables import table, write_markdown
from numpy.typing import NDArray
from spacy.matcher import DependencyMatcher
from spacy.tokens import Doc

from spacy_rootmind import TreeMatcher

PATTERNS = Path(__file__).parent / "patterns.jsonl"
WANTED = (0.5, 0.7, 0.8, 0.9, 0.95)

Match = tuple[int, str, tuple[int, ...]]
"""Number of the Doc, key, tokens."""


class Ranking(NamedTuple):
    """Matches of a key, most probable first: which are right, and how many there should be."""

    probs: NDArray[np.float64]
    right: NDArray[np.bool_]
    n_gold: int

    @property
    def precision(self) -> NDArray[np.float64]:
        """Precision of the matches down to each one."""
        return self.right.cumsum() / np.arange(1, len(self.right) + 1)

    @property
    def recall(self) -> NDArray[np.float64]:
        """Recall of the matches down to each one."""
        return self.right.cumsum() / max(self.n_gold, 1)

    @property
    def average_precision(self) -> float:
        """Mean precision over the right matches; 0 at those that were not found."""
        return float((self.precision * self.right).sum() / max(self.n_gold, 1))

    @property
    def f(self) -> NDArray[np.float64]:
        """F of the matches down to each one."""
        return 2 * self.right.cumsum() / (np.arange(1, len(self.right) + 1) + self.n_gold)


def rank(probs: dict[Match, float], gold: set[Match]) -> Ranking:
    """Rank matches by their probabilities."""
    ranked = sorted(probs.items(), key=lambda item: -item[1])
    right = np.array([match in gold for match, _ in ranked], dtype=bool)
    return Ranking(np.array([prob for _, prob in ranked]), right, len(gold))


def find_in_trees(docs: Sequence[Doc], patterns: Sequence[tuple]) -> set[Match]:
    """Find the matches in the trees of Docs."""
    matcher = DependencyMatcher(docs[0].vocab)
    for key, pattern in patterns:
        matcher.add(key, [pattern])
    return {
        (number, doc.vocab.strings[key], tuple(tokens))
        for number, doc in enumerate(docs)
        for key, tokens in matcher(doc)
    }


def find_over_all_trees(
    docs: Sequence[Doc], patterns: Sequence[tuple], threshold: float
) -> dict[Match, float]:
    """Find matches over all trees, with their probabilities."""
    matcher = TreeMatcher(docs[0].vocab)
    for key, pattern in patterns:
        matcher.add(key, [pattern])
    return {
        (number, match.key, tuple(token.i for token in match.tokens)): match.prob
        for number, doc in enumerate(docs)
        for match in matcher(doc, threshold)
    }


def describe(key: str, in_parse: Ranking, over_all: Ranking) -> list[str]:
    """Make a row of scores."""
    found = in_parse.right.sum(), len(in_parse.right), in_parse.n_gold
    precision, recall = found[0] / max(found[1], 1), found[0] / max(found[2], 1)
    error, _ = reliability(over_all.probs, over_all.right)
    numbers = (
        *(precision, recall, 2 * found[0] / max(found[1] + found[2], 1)),
        *(over_all.f.max(initial=0), in_parse.average_precision, over_all.average_precision, error),
    )
    return [key, str(in_parse.n_gold), *(f"{number:.3f}" for number in numbers)]


def thresholds(key: str, ranking: Ranking) -> list[str]:
    """Make a row of the thresholds, with their recalls, for the wanted precisions."""
    cells = []
    for wanted in WANTED:
        # A threshold takes all matches of the same probability.
        enough = np.flatnonzero(ranking.precision >= wanted)
        last = enough[-1] if len(enough) else None
        cells.append(
            "" if last is None else f"{ranking.probs[last]:.2f} ({ranking.recall[last]:.3f})"
        )
    return [key, *cells]


def curve(ranking: Ranking) -> list[list[str]]:
    """Make a row for each bin of probabilities: their mean, the share that is right, matches."""
    _, rows = reliability(ranking.probs, ranking.right)
    return [[f"{mean:.2f}", f"{share:.2f}", str(n)] for mean, share, n in rows]


def report(
    model: str, docs: Sequence[Doc], patterns: Sequence[tuple], threshold: float
) -> list[str]:
    """Measure a pipeline; returns the parts of its report."""
    gold = find_in_trees(docs, patterns)
    parsed = on_gold_tokens(load(model, keep_trees=True), docs)
    start = perf_counter()
    probs = find_over_all_trees(parsed, patterns, threshold)
    seconds = perf_counter() - start
    parses = {match: probs.get(match, 0.0) for match in find_in_trees(parsed, patterns)}
    scores, wanted = [], []
    for key in dict.fromkeys(key for key, _ in patterns):
        right = {match for match in gold if match[1] == key}
        in_parse, over_all = (
            rank({match: prob for match, prob in found.items() if match[1] == key}, right)
            for found in (parses, probs)
        )
        scores.append(describe(key, in_parse, over_all))
        wanted.append(thresholds(key, over_all))
    n_sentences = sum(1 for doc in docs for _ in doc.sents)
    header = ["pattern", "matches", "parse: precision", "recall", "F"]
    header += ["all trees: best F", "parse: AP", "all trees: AP", "calibration error"]
    return [
        f"{model}, matches of at least {threshold:g}, found in {1e3 * seconds / n_sentences:.2f} "
        f"ms a sentence; AP is average precision.",
        table(header, scores),
        "The lowest threshold with this precision (its recall):",
        table(["pattern", *(f"{each:g}" for each in WANTED)], wanted),
        "All patterns, by the probability of their matches:",
        table(["mean probability", "share right", "matches"], curve(rank(probs, gold))),
    ]


def main() -> None:
    """Measure, print and write."""
    parser = make_parser(__doc__)
    add_pipelines(parser)
    parser.add_argument("--patterns", type=Path, default=PATTERNS, help="JSONL; by default, ours")
    parser.add_argument("--threshold", type=float, default=0.01, help="least probability")
    options = parser.parse_args()
    docs = read_gold(options.corpus, options.limit)
    patterns = [(row["key"], row["pattern"]) for row in srsly.read_jsonl(options.patterns)]
    parts = [
        part
        for model in options.models
        for part in report(model, docs, patterns, options.threshold)
    ]
    write_markdown(options.out / "patterns.md", parts)


if __name__ == "__main__":
    main()
