"""Relation extraction with arc probabilities, and errors of expectations from k parses.

For a trained pipeline and a treebank as a .spacy file, on gold tokens:

- extraction: pairs of a word and its head in some relations (such as subjects), from the best
  parse, and from all labelled arcs whose probability is at least a threshold. Precision, recall and
  F of each against the treebank, and a plot;
- counts: the number of pairs in the treebank, in the best parse, and the sum of the probabilities;
- expectations from k parses: the difference between the weight of the parses that have an arc and
  the exact probability of the arc, over arcs with a probability that is not close to 0 or 1.

    python benchmarks/alternatives.py training/model-best --corpus test.spacy --out results
"""

import argparse
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from lib.pipelines import load, on_gold_tokens, read_gold
from lib.plots import panels, save
from lib.tables import table, write_markdown
from numpy.typing import NDArray
from spacy.tokens import Doc, Span

THRESHOLDS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)
SHOWN = (0.05, 0.2, 0.5, 0.8, 0.95)
# Thresholds of labelled arcs that count: for sums over pairs, and for expectations.
LEAST = 0.001
NEGLIGIBLE = 1e-6
# Range of probabilities of the arcs that expectations are compared on.
UNCERTAIN = (0.05, 0.95)
COUNTS = (5, 20, 100, 1000)

Pair = tuple[int, int, int]
"""Number of the Doc, dependent, head."""


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="name or folder of a trained pipeline")
    parser.add_argument("--corpus", type=Path, required=True, help="gold Docs, a .spacy file")
    parser.add_argument("--limit", type=int, help="number of Docs to use")
    parser.add_argument(
        "--sample-limit", type=int, default=300, help="number of Docs for expectations"
    )
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


# --- expectations ------------------------------------------------------------------------------


def exact_probs(sentence: Span) -> dict[tuple[int, int], float]:
    """Return the probabilities of a sentence's uncertain arcs, summed over labels."""
    probs: Counter[tuple[int, int]] = Counter()
    for arc in sentence._.arcs:
        probs[arc.token.i - sentence.start, arc.head.i - sentence.start] += arc.prob
    return {arc: prob for arc, prob in probs.items() if UNCERTAIN[0] < prob < UNCERTAIN[1]}


def equal_weights(log_probs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Give all parses the same weight."""
    return np.full(len(log_probs), 1 / len(log_probs))


def by_probability(log_probs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weight parses by their probability, normalized over the given parses."""
    weights = np.exp(log_probs - log_probs.max())
    return weights / weights.sum()


def draw_by_draw(log_probs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weight parses that were drawn without replacement, so that weighted means have no bias.

    Each draw gives an estimate: earlier parses have their probability as weight, and the parse just
    drawn has the remaining probability. The mean of the estimates is that of Des Raj (1956, Some
    Estimators in Sampling with Varying Probabilities without Replacement).
    """
    probs = np.exp(log_probs)
    rest = 1 - (np.cumsum(probs) - probs)
    draws_after = np.arange(len(probs))[::-1]
    return (rest + probs * draws_after) / len(probs)


ESTIMATORS: dict[str, tuple[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]]] = {
    "samples": ("spacy_rootmind.sample.v1", equal_weights),
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


def expectation_errors(model: str, estimator: str, gold: Sequence[Doc]) -> dict[int, float]:
    """Compute the root mean squared error of arc probabilities estimated from k parses."""
    method, weights_of = ESTIMATORS[estimator]
    errors = {}
    for k in COUNTS:
        nlp = load(model, arc_threshold=NEGLIGIBLE, alternatives={"@misc": method, "k": k})
        squares = []
        for doc in on_gold_tokens(nlp, gold):
            for sentence in doc.sents:
                parses = sentence._.parses
                weights = weights_of(np.array([parse.log_prob for parse in parses]))
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
    figure, (axis,) = panels(width=4.6, height=3.6)
    precision, recall, _ = zip(*curve, strict=True)
    axis.plot(recall, precision, marker="o", markersize=3, label="arcs above a threshold")
    for threshold, (p, r, _) in zip(THRESHOLDS, curve, strict=True):
        if threshold in SHOWN:
            axis.annotate(f"{threshold:g}", (r, p), (4, 4), textcoords="offset points", fontsize=8)
    axis.plot(best[1], best[0], marker="s", color="C3", linestyle="none", label="best parse")
    axis.set(xlabel="recall, %", ylabel="precision, %")
    axis.margins(x=0.08)
    axis.legend(frameon=False, loc="lower left")
    save(figure, path)


def main() -> None:
    """Measure, print and write."""
    options = parse_arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    docs = read_gold(options.corpus, options.limit)
    gold = pairs_in_trees(docs, options.relations)
    parsed = on_gold_tokens(load(options.model, arc_threshold=LEAST), docs)
    best_pairs = pairs_in_trees(parsed, options.relations)
    probs = pair_probs(parsed, options.relations)
    best = precision_recall_f(best_pairs, gold)
    above = [{pair for pair, prob in probs.items() if prob >= t} for t in THRESHOLDS]
    curve = [precision_recall_f(pairs, gold) for pairs in above]
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
        f"{UNCERTAIN[0]:g} and {UNCERTAIN[1]:g}:",
    ]
    few = docs[: options.sample_limit]
    rows = [
        [name, *(f"{error:.3f}" for error in expectation_errors(options.model, name, few).values())]
        for name in ESTIMATORS
    ]
    parts.append(table(["", *(f"k = {k}" for k in COUNTS)], rows))
    write_markdown(options.out / "alternatives.md", parts)


if __name__ == "__main__":
    main()
