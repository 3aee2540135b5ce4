"""Bias of samplers that draw the root word by the weights of root arcs.

Usage: python benchmarks/papers/root_draw_bias.py [--smoke] [--checkout treesample=PATH]

Zmigrod, Vieira & Cotterell (2021), Efficient Sampling of Dependency Structure, first drew the root
word by the weights of the root arcs, and then the rest of the tree by Wilson's (1996) random walk.
Stanojevic (2022), Unbiased and Efficient Sampling of Dependency Trees, and the corrected version of
the first paper (Theorem 2) show that this is biased: it ignores the total weight of the trees of
each root word. It also changes when a constant is added to all scores of a word, which changes no
probability.

For each example sentence, a table lists the trees with their exact probability; the probability
when the root word is drawn by root weights, in closed form (softmax of the root scores times the
distribution of trees given their root word); and the frequencies in samples drawn that way and by
`wilson`, with their errors in standard errors. A second table has the total variation distances
from the exact distribution. The run ends with status 1 if `wilson` or `auto` are biased, or if
the draws by root weight do not have the expected bias.
"""

import argparse
import os
import sys
from pathlib import Path

# Set before NumPy is imported, so that it uses one thread.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from lib.decoders import Call
from lib.inputs import Batch, all_trees
from lib.options import add_options, read_checkouts
from lib.samplers import AUTO, REJECT, WILSON, Sampler, load_treesample_biased, our_samplers
from lib.tables import setup_line, table
from numpy.typing import NDArray

from spacy_rootmind import __version__, sample_trees

BIASED = "root by weight, drawn (biased)"
# Standard errors; a few dozen trees are compared.
FAR = 5.0
# Trees expected less often are not compared.
COMMON = 20
Floats = NDArray[np.float64]


def examples() -> dict[str, Floats]:
    """Make weights[dep, head] of a few small sentences; rows are dependents, column 0 is ROOT."""
    chain = np.ones((4, 4))
    chain[1:, 1:] = [[1, 0.1, 0.1], [10, 1, 0.1], [0.1, 10, 1]]
    rng = np.random.default_rng(0)
    return {
        "two words, equal root weights; 1 -> 2 weighs 9, 2 -> 1 weighs 1": np.array(
            [[1.0, 1, 1], [1, 1, 1], [1, 9, 1]]
        ),
        "three words, equal root weights; 1 -> 2 -> 3 is strong": chain,
        "three words, random weights": rng.exponential(size=(4, 4)),
    }


def tree_weights(weights: Floats, trees: NDArray[np.int32]) -> Floats:
    """Multiply the weights of each tree's arcs."""
    words = np.arange(1, len(weights))
    return weights[words, trees[:, 1:]].prod(axis=1)


def exact_law(weights: Floats, trees: NDArray[np.int32]) -> Floats:
    """Normalise the weights of trees."""
    products = tree_weights(weights, trees)
    return products / products.sum()


def biased_law(weights: Floats, trees: NDArray[np.int32]) -> Floats:
    """Draw the root word by the weight of its root arc, and the rest given the root word."""
    exact = exact_law(weights, trees)
    roots = 1 + (trees[:, 1:] == 0).argmax(axis=1)
    share = weights[1:, 0] / weights[1:, 0].sum()
    law = np.zeros_like(exact)
    for root in range(1, len(weights)):
        own = roots == root
        law[own] = share[root - 1] * exact[own] / exact[own].sum()
    return law


def draw_root_by_weight(scores: Floats, k: int, seed: int) -> NDArray[np.int32]:
    """Draw the root token by the weight of its arc, and the rest by a walk: a biased law.

    Zmigrod, Vieira & Cotterell (2021), section 3, corrected by their Theorem 2.
    """
    rng = np.random.default_rng(seed)
    shares = np.exp(scores[1:, 0] - scores[1:, 0].max())
    found = []
    for word, count in enumerate(rng.multinomial(k, shares / shares.sum()), start=1):
        allowed = np.ones(scores.shape, dtype=bool)
        allowed[:, 0] = np.arange(len(scores)) == word
        options = {"allowed": allowed, "method": "wilson", "seed": rng}
        if count > 0:
            found.append(sample_trees(scores, int(count), **options)[0])
    heads: NDArray[np.int32] = np.concatenate(found)
    return heads


def bind_root_by_weight(batch: Batch, k: int) -> Call:
    """Draw k trees of each sentence by the biased law."""
    return lambda: [draw_root_by_weight(scores, k, seed=0) for scores in batch.scores]


def frequencies(drawn: NDArray[np.integer], trees: NDArray[np.int32]) -> Floats:
    """Count how often each tree was drawn, as a share."""
    places = {tuple(tree): index for index, tree in enumerate(trees[:, 1:].tolist())}
    found = [places[tuple(tree)] for tree in drawn[:, 1:].tolist()]
    return np.bincount(found, minlength=len(trees)) / len(drawn)


def standard_errors(seen: Floats, law: Floats, total: int) -> Floats:
    """Return errors of frequencies in standard errors; 0 where too few trees are expected."""
    off = (seen - law) / np.sqrt(law * (1 - law) / total)
    return np.where(law * total >= COMMON, off, 0.0)


def variation(one: Floats, other: Floats) -> float:
    """Return the total variation distance of two distributions."""
    return float(np.abs(one - other).sum() / 2)


def report(title: str, weights: Floats, samplers: list, total: int) -> list[str]:
    """Print the tables of one example; returns errors of our samplers."""
    n = len(weights) - 1
    trees = all_trees(n, single_root=True)
    exact, biased = exact_law(weights, trees), biased_law(weights, trees)
    batch = Batch(np.log(weights)[None], np.array([n]))
    seen, errors, wrong = {}, {}, []
    for sampler in samplers:
        name = sampler.name
        # The peer's sampler is slow, and only shown.
        count = total if sampler.kind == "ours" else min(total, 20_000)
        drawn = np.asarray(sampler.bind(batch, count)()[0])
        expected = biased if "biased" in name else exact
        seen[name] = frequencies(drawn, trees)
        errors[name] = standard_errors(seen[name], expected, count)
        if sampler.kind == "ours" and np.abs(errors[name]).max() > FAR:
            wrong.append(f"{title}: {name} is off by {np.abs(errors[name]).max():.1f}")
    lines = [
        [
            " ".join(map(str, tree[1:])),
            f"{exact[index]:.4f}",
            f"{biased[index]:.4f}",
            *(f"{seen[name][index]:.4f} ({errors[name][index]:+.1f})" for name in (BIASED, WILSON)),
        ]
        for index, tree in enumerate(trees.tolist())
    ]
    header = ["heads", "exact", "root by weight", BIASED, f"`{WILSON}`"]
    print(f"### {title}\n\n{table(header, lines)}\n")
    distances = [["root by weight, closed form", f"{variation(biased, exact):.4f}", ""]]
    distances += [
        [name, f"{variation(law, exact):.4f}", f"{np.abs(errors[name]).max():.1f}"]
        for name, law in seen.items()
    ]
    header = ["law", "total variation from exact", "standard errors from what it should be"]
    print(f"{table(header, distances)}\n")
    return wrong


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_options(parser)
    parser.add_argument("--samples", type=int, help="trees to draw per sentence (1,000,000)")
    options = parser.parse_args()
    total = options.samples or (5000 if options.smoke else 1_000_000)
    samplers = [
        Sampler(BIASED, "ours", "Python", __version__, bind_root_by_weight),
        *our_samplers(WILSON, AUTO, REJECT),
    ]
    try:
        samplers.append(load_treesample_biased(read_checkouts(options, ["treesample"])))
    except (ImportError, OSError) as error:
        print(f"treesample: not here; pip install tqdm, and --checkout treesample=PATH ({error})")
    print(f"{setup_line()}\n\n{total:,} trees per sampler; standard errors in parentheses.\n")
    wrong = []
    for title, weights in examples().items():
        wrong += report(title, weights, samplers, total)
    if wrong:
        sys.exit("WRONG: " + "; ".join(wrong))


if __name__ == "__main__":
    main()
