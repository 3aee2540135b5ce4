"""What the distribution over trees buys whoever extracts relations from parses.

For a trained pipeline and a treebank as a .spacy file, on gold tokens:

- extraction: words and their heads that stand in some relations (subjects, say), taken from the
  best parse, and taken wherever the probability of the labelled arc is at least a threshold.
  Precision, recall and F of each against the treebank, and a plot;
- how many there are: the gold number, that in the best parse, and the sum of the probabilities;
- expectations from a few parses: how far the weight of those of k parses that have an arc is from
  its exact probability, over the arcs that a parser may doubt.

    python benchmarks/alternatives.py training/model-best --corpus test.spacy --out results
"""

import argparse
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from lib.pipelines import load, on_gold_tokens, read_gold
from lib.tables import table
from numpy.typing import NDArray
from spacy.tokens import Doc, Span

THRESHOLDS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)
SHOWN = (0.05, 0.2, 0.5, 0.8, 0.95)
# Less probable labelled arcs than this are left out of sums; out of expectations, than that.
LEAST = 0.001
NEGLIGIBLE = 1e-6
# An arc is in doubt with a probability in here.
DOUBT = (0.05, 0.95)
COUNTS = (5, 20, 100, 1000)

Pair = tuple[int, int, int]
"""Number of the Doc, dependent, head."""


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="name or folder of a trained pipeline")
    parser.add_argument("--corpus", type=Path, required=True, help="gold Docs, a .spacy file")
    parser.add_argument("--limit", type=int, help="use so many Docs")
    parser.add_argument("--sample-limit", type=int, default=300, help="Docs for expectations")
    parser.add_argument(
        "--relations", nargs="+", default=["nsubj", "obj"], help="labels, subtypes included"
    )
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    return parser.parse_args()


# --- extraction --------------------------------------------------------------------------------


def is_wanted(dep: str, relations: Sequence[str]) -> bool:
    """Tell whether a label is one of the relations, or a subtype such as nsubj:pass."""
    return dep.partition(":")[0] in relations


def pairs_in_trees(docs: Sequence[Doc], relations: Sequence[str]) -> set[Pair]:
    """Find the pairs that the trees of Docs have."""
    return {
        (number, token.i, token.head.i)
        for number, doc in enumerate(docs)
        for token in doc
        if is_wanted(token.dep_, relations)
    }


def pair_probs(docs: Sequence[Doc], relations: Sequence[str]) -> Counter[Pair]:
    """Sum up the probabilities of labelled arcs for each pair."""
    probs: Counter[Pair] = Counter()
    for number, doc in enumerate(docs):
        for sentence in doc.sents:
            for arc in sentence._.arcs:
                if is_wanted(arc.dep, relations):
                    probs[number, arc.token.i, arc.head.i] += arc.prob
    return probs


def agreement(found: set[Pair], gold: set[Pair]) -> tuple[float, float, float]:
    """Find precision, recall and F, in percent."""
    right = len(found & gold)
    precision, recall = right / max(len(found), 1), right / max(len(gold), 1)
    f = 2 * precision * recall / max(precision + recall, 1e-9)
    return 100 * precision, 100 * recall, 100 * f


# --- expectations ------------------------------------------------------------------------------


def exact_probs(sentence: Span) -> dict[tuple[int, int], float]:
    """Find the probability of each arc of a sentence, labels aside, that is in doubt."""
    probs: Counter[tuple[int, int]] = Counter()
    for arc in sentence._.arcs:
        probs[arc.token.i - sentence.start, arc.head.i - sentence.start] += arc.prob
    return {arc: prob for arc, prob in probs.items() if DOUBT[0] < prob < DOUBT[1]}


def alike(log_probs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weigh all parses alike."""
    return np.full(len(log_probs), 1 / len(log_probs))


def by_probability(log_probs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weigh parses by their probability over that of all that are there."""
    weights = np.exp(log_probs - log_probs.max())
    return weights / weights.sum()


def draw_by_draw(log_probs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weigh parses that were drawn without replacement so that means over them have no bias.

    After each draw there is an estimate: earlier parses count by their probability, and the one
    just drawn stands for all the others. The mean of these is Des Raj's estimate (1956, Some
    Estimators in Sampling with Varying Probabilities without Replacement).
    """
    probs = np.exp(log_probs)
    rest = 1 - (np.cumsum(probs) - probs)
    draws_after = np.arange(len(probs))[::-1]
    return (rest + probs * draws_after) / len(probs)


WAYS: dict[str, tuple[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]]] = {
    "samples": ("spacy_rootmind.sample.v1", alike),
    "different samples, draw by draw": (
        "spacy_rootmind.sample_without_replacement.v1",
        draw_by_draw,
    ),
    "different samples, by probability": (
        "spacy_rootmind.sample_without_replacement.v1",
        by_probability,
    ),
    "k best, by probability": ("spacy_rootmind.kbest.v1", by_probability),
}


def expectation_errors(model: str, way: str, gold: Sequence[Doc]) -> dict[int, float]:
    """Find the root of the mean squared error of arcs' weights in k parses, for each k."""
    maker, weigh = WAYS[way]
    errors = {}
    for k in COUNTS:
        nlp = load(model, arc_threshold=NEGLIGIBLE, alternatives={"@misc": maker, "k": k})
        squares = []
        for doc in on_gold_tokens(nlp, gold):
            for sentence in doc.sents:
                parses = sentence._.parses
                weights = weigh(np.array([parse.log_prob for parse in parses]))
                heads = np.array([parse.heads for parse in parses])
                for (dep, head), prob in exact_probs(sentence).items():
                    squares.append((weights[heads[:, dep] == head].sum() - prob) ** 2)
        errors[k] = float(np.sqrt(np.mean(squares)))
    return errors


# --- report ------------------------------------------------------------------------------------


def draw(
    curve: list[tuple[float, float, float]], best: tuple[float, float, float], path: Path
) -> None:
    """Plot precision over recall, with the best parse as a point."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axis = plt.subplots(figsize=(4.6, 3.6), layout="constrained")
    precision, recall, _ = zip(*curve, strict=True)
    axis.plot(recall, precision, marker="o", markersize=3, label="arcs above a threshold")
    for threshold, (p, r, _) in zip(THRESHOLDS, curve, strict=True):
        if threshold in SHOWN:
            axis.annotate(f"{threshold:g}", (r, p), (4, 4), textcoords="offset points", fontsize=8)
    axis.plot(best[1], best[0], marker="s", color="C3", linestyle="none", label="best parse")
    axis.set(xlabel="recall, %", ylabel="precision, %")
    axis.margins(x=0.08)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, loc="lower left")
    figure.savefig(path, dpi=120)


def main() -> None:
    """Measure, print and write."""
    options = parse_arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    docs = read_gold(options.corpus, options.limit)
    gold = pairs_in_trees(docs, options.relations)
    parsed = on_gold_tokens(load(options.model, arc_threshold=LEAST), docs)
    best_pairs = pairs_in_trees(parsed, options.relations)
    probs = pair_probs(parsed, options.relations)
    best = agreement(best_pairs, gold)
    curve = [agreement({p for p, x in probs.items() if x >= t}, gold) for t in THRESHOLDS]
    draw(curve, best, options.out / "extraction.png")
    rows = [["best parse", *(f"{x:.2f}" for x in best)]]
    rows += [
        [f"probability of {t:g} and more", *(f"{x:.2f}" for x in scores)]
        for t, scores in zip(THRESHOLDS, curve, strict=True)
    ]
    parts = [
        f"{options.model}, {', '.join(options.relations)}: {len(gold)} in the treebank, "
        f"{len(best_pairs)} in the best parses, {sum(probs.values()):.1f} expected.",
        table(["taken", "precision, %", "recall, %", "F, %"], rows),
        "Error of expectations from k parses, arcs of a probability between "
        f"{DOUBT[0]:g} and {DOUBT[1]:g}:",
    ]
    few = docs[: options.sample_limit]
    rows = [
        [way, *(f"{error:.3f}" for error in expectation_errors(options.model, way, few).values())]
        for way in WAYS
    ]
    parts.append(table(["", *(f"k = {k}" for k in COUNTS)], rows))
    text = "\n\n".join(parts) + "\n"
    (options.out / "alternatives.md").write_text(text, encoding="utf8")
    print(text)


if __name__ == "__main__":
    main()
