"""Relation extraction with arc probabilities.

For a trained pipeline and a treebank as a .spacy file, on gold tokens: pairs of a word and its head
in some relations (such as subjects), from the best parse, and from all labelled arcs whose
probability is at least a threshold. Precision, recall and F of each against the treebank.

    python benchmarks/alternatives.py training/model-best --corpus test.spacy --out results
"""

from collections import Counter
from collections.abc import Sequence

from lib.options import add_pipelines, make_parser
from lib.pipelines import load, on_gold_tokens, read_gold
from lib.tables import table, write_markdown
from spacy.tokens import Doc

THRESHOLDS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)
# The least probability of arcs that count in the sum over pairs.
LEAST = 0.001

Pair = tuple[int, int, int]
"""Number of the Doc, dependent, head."""


def is_wanted(dep: str, relations: Sequence[str]) -> bool:
    """Tell whether a label is one of the relations, or a subtype such as nsubj:pass."""
    return dep.partition(":")[0] in relations


def pairs_in_trees(docs: Sequence[Doc], relations: Sequence[str]) -> set[Pair]:
    """Collect the pairs in the trees of Docs."""
    return {
        (number, token.i, token.head.i)
        for number, doc in enumerate(docs)
        for token in doc
        if is_wanted(token.dep_, relations)
    }


def pair_probs(docs: Sequence[Doc], relations: Sequence[str]) -> Counter[Pair]:
    """Sum the probabilities of labelled arcs for each pair."""
    probs: Counter[Pair] = Counter()
    for number, doc in enumerate(docs):
        for sentence in doc.sents:
            for arc in sentence._.arcs:
                if is_wanted(arc.dep, relations):
                    probs[number, arc.token.i, arc.head.i] += arc.prob
    return probs


def precision_recall_f(found: set[Pair], gold: set[Pair]) -> tuple[float, float, float]:
    """Compute precision, recall and F, in percent."""
    right = len(found & gold)
    precision, recall = right / max(len(found), 1), right / max(len(gold), 1)
    f = 2 * precision * recall / max(precision + recall, 1e-9)
    return 100 * precision, 100 * recall, 100 * f


def report(model: str, docs: Sequence[Doc], relations: Sequence[str]) -> list[str]:
    """Measure a pipeline; returns the parts of its report."""
    gold = pairs_in_trees(docs, relations)
    parsed = on_gold_tokens(load(model, arc_threshold=LEAST), docs)
    best_pairs = pairs_in_trees(parsed, relations)
    probs = pair_probs(parsed, relations)
    rows = [["best parse", *(f"{x:.2f}" for x in precision_recall_f(best_pairs, gold))]]
    for threshold in THRESHOLDS:
        found = {pair for pair, prob in probs.items() if prob >= threshold}
        scores = precision_recall_f(found, gold)
        rows.append([f"probability of {threshold:g} and more", *(f"{x:.2f}" for x in scores)])
    return [
        f"{model}, {', '.join(relations)}: {len(gold)} in the treebank, "
        f"{len(best_pairs)} in the best parses, {sum(probs.values()):.1f} expected.",
        table(["taken", "precision, %", "recall, %", "F, %"], rows),
    ]


def main() -> None:
    """Measure, print and write."""
    parser = make_parser(__doc__)
    add_pipelines(parser)
    parser.add_argument(
        "--relations", nargs="+", default=["nsubj", "obj"], help="labels, subtypes included"
    )
    options = parser.parse_args()
    docs = read_gold(options.corpus, options.limit)
    parts = [part for model in options.models for part in report(model, docs, options.relations)]
    write_markdown(options.out / "alternatives.md", parts)


if __name__ == "__main__":
    main()
