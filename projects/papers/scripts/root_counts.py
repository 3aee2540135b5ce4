"""Number of roots of the best tree without the root constraint, under independent scores.

Usage: python scripts/root_counts.py [--smoke]

Stanojevic & Cohen (2021), A Root of a Problem: Optimizing Single-Root Dependency Parsing, equation
2: among all trees over ROOT and n words, all equally probable, a share of

    P(r; n) = C(n, r) r n^(n - r - 1) / (n + 1)^(n - 1)

has r root arcs. C(n, r) r n^(n - r - 1) is the number of forests of r rooted trees over n labelled
words (Cayley), and (n + 1)^(n - 1) that of all trees. Since C(n, r) r / n = C(n - 1, r - 1), it is
r - 1 ~ Binomial(n - 1, 1 / (n + 1)): 2 n / (n + 1) roots are expected, and the share of single-root
trees, (n / (n + 1))^(n - 1), falls towards 1 / e. So equation 1, the expected number of runs of
the root preselection algorithm, E[r] + 1 - P(r = 1), rises towards 3 - 1 / e.

The formula is first checked by enumeration, n <= 5. Two more tables have the paper's bounds on the
number of roots (section 3), and the best trees under independent random scores (figure 2 has
uniform ones), to which the formula does not apply, since they are not equally probable.
"""

import os
import sys
from fractions import Fraction
from math import comb, exp, factorial
from pathlib import Path

# Set before NumPy is imported, so that it uses one thread.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "benchmarks"))

import numpy as np
from lib.inputs import all_trees
from lib.options import add_options, make_parser
from lib.tables import setup_line, table
from numpy.typing import NDArray

from spacy_rootmind import decode

# The paper: P(more than r roots) is less than this for any n (section 3).
BOUNDS = {4: Fraction(2, 100), 5: Fraction(4, 1000), 6: Fraction(5, 10_000)}
BOUND_SIZES = (10, 50, 100, 150)
# Largest n for which bounds are checked one by one.
BOUND_LAST = 1000
# Distributions of the scores of the best trees, and their sizes.
FAMILIES = ("uniform", "gaussian")
BEST_SIZES = (5, 10, 20, 40, 80, 150)
# Scores per batch of sentences to decode.
CHUNK = 2_000_000


def share(r: int, n: int) -> Fraction:
    """Calculate P(r; n) exactly."""
    return Fraction(comb(n - 1, r - 1) * n ** max(0, n - r), (n + 1) ** (n - 1))


def check_formula(largest: int) -> list[list[str]]:
    """Compare the formula with enumeration; returns lines of a table."""
    lines = []
    for n in range(1, largest + 1):
        trees = all_trees(n, single_root=False)
        counted = np.bincount((trees == 0).sum(axis=1), minlength=n + 1)
        for r in range(1, n + 1):
            if Fraction(int(counted[r]), len(trees)) != share(r, n):
                sys.exit(f"WRONG: {counted[r]} of {len(trees)} trees of {n} words have {r} roots")
        counts = " ".join(map(str, counted[1:]))
        lines.append([str(n), str(len(trees)), counts, "yes"])
    return lines


def more_than(r: int, n: int) -> Fraction:
    """Calculate the probability of more than r roots exactly."""
    return 1 - sum((share(each, n) for each in range(1, min(r, n) + 1)), Fraction(0))


def bound_lines() -> list[list[str]]:
    """Compare the paper's bounds with the formula; returns lines of a table."""
    lines = []
    for r, bound in BOUNDS.items():
        # r - 1 tends to a Poisson distribution of mean 1.
        limit = 1 - sum(exp(-1) / factorial(each) for each in range(r))
        sizes = range(1, BOUND_LAST + 1)
        broken = next((n for n in sizes if more_than(r, n) >= bound), None)
        holds = f"up to n = {broken - 1}" if broken else f"for all n up to {BOUND_LAST:,}"
        cells = [f"{float(more_than(r, n)):.5f}" for n in BOUND_SIZES]
        lines.append([f"P(r > {r})", f"{float(bound):g}", *cells, f"{limit:.5f}", holds])
    return lines


def runs(mean: float, single: float) -> float:
    """Calculate equation 1 from the mean number of roots and the share of single-root trees."""
    return mean + 1 - single


def best_lines(sizes: tuple[int, ...], total: int) -> list[list[str]]:
    """Count the roots of best trees under independent scores; returns lines of a table."""
    lines = []
    for n in sizes:
        mean = 2 * n / (n + 1)
        cells = [f"{mean:.3f}", f"{runs(mean, float(share(1, n))):.3f}"]
        for family in FAMILIES:
            counts = best_counts(n, total, family)
            mean = float((counts * np.arange(n + 1)).sum() / total)
            cells += [f"{mean:.3f}", f"{runs(mean, counts[1] / total):.3f}"]
        lines.append([str(n), *cells])
    return lines


def best_counts(n: int, total: int, family: str) -> NDArray[np.int64]:
    """Count the best trees under random scores by number of roots."""
    rng = np.random.default_rng(n)
    draw = {"uniform": rng.random, "gaussian": rng.standard_normal}[family]
    counts = np.zeros(n + 1, dtype=np.int64)
    size = max(1, CHUNK // (n + 1) ** 2)
    while total:
        scores = draw((min(size, total), n + 1, n + 1), dtype=np.float32)
        heads = decode(scores, single_root=False)
        counts += np.bincount((heads == 0).sum(axis=1), minlength=n + 1)
        total -= len(scores)
    return counts


def main() -> None:
    """Measure and print."""
    parser = make_parser(__doc__)
    add_options(parser)
    parser.add_argument("--matrices", type=int, help="matrices to decode for each n (20,000)")
    options = parser.parse_args()
    trees = options.matrices or (300 if options.smoke else 20_000)
    sizes = (2, 5, 20) if options.smoke else BEST_SIZES
    print(setup_line(), end="\n\n")
    print("P(r; n) = C(n, r) r n^(n - r - 1) / (n + 1)^(n - 1), by enumeration:", end="\n\n")
    header = ("n", "trees", "of them with 1, 2, ... roots", "as the formula says")
    print(table(header, check_formula(4 if options.smoke else 5)))
    print("\nThe paper's bounds on the number of roots:", end="\n\n")
    header = ("", "less than", *(f"n = {n}" for n in BOUND_SIZES), "limit", "holds")
    print(table(header, bound_lines()))
    print(f"\nBest trees of {trees:,} matrices of independent scores for each n:", end="\n\n")
    header = ["n", "roots by equation 2", "runs by equation 1"]
    for family in FAMILIES:
        header += [f"roots, {family} scores", f"runs, {family} scores"]
    print(table(header, best_lines(sizes, trees)))


if __name__ == "__main__":
    main()
