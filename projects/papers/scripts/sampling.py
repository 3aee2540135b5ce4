"""Sampling of trees from real score matrices: tries, bias of the naive root draw, duplicates.

Zmigrod, Vieira & Cotterell (2021), Efficient Sampling of Dependency Structure, and the correction
of its root draw (their corrected Theorem 2; Stanojevic 2022). Writes sampling.md.
"""

import argparse
import os
from pathlib import Path

# Set before NumPy is imported, so that it uses one thread.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from matrices import STATE_TITLES, Floats, load_states
from report import Report
from train import PROJECT

from spacy_rootmind import TreeDistribution, sample_trees

# Samples by which `colbourn` is tried.
SAMPLES = 20
# Steps of the walk for one tree after which it counts as trapped.
MAX_STEPS = 1_000_000
KS = (5, 20, 100)
# Range of sentence lengths: shorter ones have few trees, longer ones take long.
SHORTEST, LONGEST = 3, 40


def normalised(scores: Floats) -> Floats:
    """Subtract log-sum-exp from the scores of each word, which changes no probability."""
    scores = scores.astype(float)
    np.fill_diagonal(scores, -np.inf)
    highest = scores.max(axis=1, keepdims=True)
    scores -= highest + np.log(np.exp(scores - highest).sum(axis=1, keepdims=True))
    np.fill_diagonal(scores, 0.0)
    return scores


def choose(pooled: list[Floats], count: int, low: int, high: int) -> list[Floats]:
    """Choose sentences of low to high - 1 words at random, with a fixed seed."""
    lengths = np.array([len(square) - 1 for square in pooled])
    members = np.flatnonzero((lengths >= low) & (lengths < high))
    members = np.random.default_rng(0).permutation(members)[:count]
    return [pooled[member].astype(float) for member in members]


# --- tries -------------------------------------------------------------------------------------


def loses_digits(scores: Floats) -> bool:
    """Tell whether `colbourn` loses its digits on a sentence, which raises an error."""
    try:
        sample_trees(scores, SAMPLES, method="colbourn", seed=0)
    except ArithmeticError:
        return True
    return False


def measure_tries(scores: list[Floats]) -> list[float]:
    """Calculate how many walks to ROOT one single-root tree takes: 1 / P(a single root).

    Returns the mean, median and largest over sentences, and the share of those above three, %.
    """
    every = [TreeDistribution(square.astype(float), single_root=False) for square in scores]
    tries = np.exp([TreeDistribution(one.scores).kl_divergence(one) for one in every])
    return [*map(float, (tries.mean(), np.median(tries), tries.max())), 100 * (tries > 3).mean()]


# --- bias --------------------------------------------------------------------------------------


def variation(one: np.ndarray, other: np.ndarray) -> float:
    """Return the total variation distance of two distributions."""
    return float(np.abs(one - other).sum() / 2)


def root_law(scores: Floats) -> np.ndarray:
    """Return the exact probability of each word to be the root."""
    return TreeDistribution(scores).marginals[1:, 0]


def naive_law(scores: Floats) -> np.ndarray:
    """Return the probability of each word to be drawn by the weight of its root arc."""
    weights = np.exp(scores[1:, 0] - scores[1:, 0].max())
    return weights / weights.sum()


def drawn_roots(scores: Floats, method: str, k: int, seed: int) -> np.ndarray | None:
    """Return the share of k drawn trees with each word as root; None if a walk was trapped."""
    steps = None if method == "auto" else MAX_STEPS
    try:
        heads, _ = sample_trees(scores, k, method=method, seed=seed, max_steps=steps)
    except RuntimeError:
        return None
    return (heads[:, 1:] == 0).mean(axis=0)


def measure_bias(chosen: list[Floats], k: int) -> list[list]:
    """Compare how often each word is the root with its exact probability.

    Returns lines of the table; the naive draw is also there in closed form, with scores as they are
    and normalised.
    """
    rng = np.random.default_rng(0)
    # Distances from the exact distribution, and from the distribution of the method.
    rows: dict[str, list[tuple[float, float]]] = {}
    for seed, scores in enumerate(chosen):
        exact = root_law(scores)
        noise = rng.multinomial(k, exact / exact.sum()) / k
        rows.setdefault("exact law, simulated", []).append((variation(noise, exact),) * 2)
        for method in ("auto", "wilson"):
            found = drawn_roots(scores, method, k, seed)
            if found is not None:
                rows.setdefault(f"`{method}`", []).append((variation(found, exact),) * 2)
        for way, own in (("as scored", scores), ("normalised", normalised(scores))):
            law = naive_law(own)
            name = f"naive draw in closed form, scores {way}"
            rows.setdefault(name, []).append((variation(law, exact), float("nan")))
            found = np.random.default_rng(seed).multinomial(k, law) / k
            distance = (variation(found, exact), variation(found, law))
            rows.setdefault(f"naive draw, scores {way}", []).append(distance)
    lines = []
    for name, pairs in rows.items():
        own, wanted = np.array(pairs).T
        lines.append([name, len(own), *map(float, (own.mean(), np.median(own), own.max()))])
        lines[-1].append(float(wanted.mean()))
    return lines


# --- duplicates --------------------------------------------------------------------------------


def measure_duplicates(chosen: list[Floats], k: int) -> list[float]:
    """Draw k trees with and without replacement.

    Returns the share of draws that repeat an earlier one and the probability of the distinct trees
    drawn, each with and without replacement, and the share of sentences with fewer than k trees, %.
    """
    repeated: tuple[list, list] = ([], [])
    covered: tuple[list, list] = ([], [])
    few = 0
    for seed, scores in enumerate(chosen):
        for index, replace in enumerate((True, False)):
            heads, log_probs = sample_trees(scores, k, replace=replace, seed=seed)
            _, first = np.unique(heads, axis=0, return_index=True)
            repeated[index].append(1 - len(first) / len(heads))
            covered[index].append(np.exp(log_probs[first]).sum())
        few += len(heads) < k
    values = [np.mean(part) for part in (*repeated, *covered)]
    return [100 * float(value) for value in (*values, few / len(chosen))]


# --- writing -----------------------------------------------------------------------------------


def report_tries(report: Report, states: dict[str, dict[str, list[Floats]]]) -> None:
    """Report the tries of `wilson_reject`, and where `colbourn` loses its digits."""
    names = {state: STATE_TITLES[state] for state in states}
    rows = [
        [
            treebank,
            names[state],
            len(scores),
            *measure_tries(scores),
            sum(loses_digits(square.astype(float)) for square in scores),
        ]
        for state, own in states.items()
        for treebank, scores in own.items()
    ]
    report.text(
        "## Footnote 5: tries of `wilson_reject`, and digits that `colbourn` loses",
        "Expected number of walks to ROOT until a tree has a single root, 1 / P(a single root), "
        "and the number of sentences on which `colbourn` raises an error.",
    )
    header = ("treebank", "network", "sentences", "mean", "median", "largest", "more than 3, %")
    header += ("`colbourn` fails",)
    report.table(header, rows)


def report_bias(
    report: Report, pooled: dict[str, list[Floats]], options: argparse.Namespace
) -> None:
    """Report the bias of the naive draw."""
    report.text(
        "## Theorem 2: bias of the naive draw of a root",
        f"Distance in total variation between how often each word is the root and its exact "
        f"probability, {options.samples:,} samples a sentence: mean, median and largest over "
        f"sentences of {SHORTEST} to {LONGEST} words; and the mean distance from the law that the "
        f"method should follow, which has to be noise alone. The naive draw "
        f"picks the root by the weights of root arcs; what it gives is known in closed form. It "
        f"also depends on constants added to all scores of a word, which change no probability: "
        f"below, both for scores as the network has them, and normalised over heads. Exact draws "
        f"are off by noise alone, as the first line is. Sentences where a walk is trapped are left "
        f"out of a line.",
    )
    for state, scores in pooled.items():
        chosen = choose(scores, options.sentences, SHORTEST, LONGEST + 1)
        lines = measure_bias(chosen, options.samples)
        title = STATE_TITLES[state]
        report.text(f"### {title[0].upper()}{title[1:]}")
        header = ("draw", "sentences", "mean", "median", "largest", "from its own law, mean")
        report.table(header, lines)


def report_duplicates(
    report: Report, pooled: dict[str, list[Floats]], options: argparse.Namespace
) -> None:
    """Report duplicates with and without replacement."""
    rows = []
    for state, scores in pooled.items():
        chosen = choose(scores, options.sentences, SHORTEST, LONGEST + 1)
        for k in KS:
            rows.append([STATE_TITLES[state], k, len(chosen), *measure_duplicates(chosen, k)])
    report.text(
        "## Section 5: duplicates with and without replacement",
        f"Share of k draws that repeat an earlier tree of the same sentence, and probability that "
        f"the distinct trees drawn have together, averages over sentences of {SHORTEST} to "
        f"{LONGEST} words.",
    )
    header = (
        "scores",
        "k",
        "sentences",
        "duplicates, %",
        "duplicates without replacement, %",
        "probability covered, %",
        "covered without replacement, %",
        "sentences with fewer than k trees, %",
    )
    report.table(header, rows)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=PROJECT, help="folder with scores/")
    parser.add_argument("--sentences", type=int, default=300, help="for bias and duplicates")
    parser.add_argument("--samples", type=int, default=2000, help="per sentence, for the bias")
    options = parser.parse_args()
    report = Report(
        options.root / "results",
        "sampling",
        "Measured for Efficient Sampling of Dependency Structure",
    )
    states = load_states(options.root)
    pooled = {
        state: [square for scores in own.values() for square in scores]
        for state, own in states.items()
    }
    report_tries(report, states)
    report_bias(report, pooled, options)
    report_duplicates(report, pooled, options)
    report.write()


if __name__ == "__main__":
    main()
