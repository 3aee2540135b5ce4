"""Level of ROOT's scores, and the effect of one constant for all root arcs on malformed trees.

Subtracting a constant from the scores of all root arcs never changes the best tree with one root.
It does reduce the number of roots of the best tree without the constraint, to one if the constant
is large. So malformed trees may be due to ROOT's scores being too high as a whole, and then a
constant chosen on the dev set avoids them; or to words that the network cannot tell from the root.
"""

from collections.abc import Callable
from dataclasses import astuple, dataclass
from pathlib import Path

import numpy as np
import spacy
from matrices import LAST, Floats, Matrices, model_folder
from numpy.typing import NDArray
from outcomes import FEW, decode_all, rank_correlation
from report import Report
from train import score_sentences

from spacy_rootmind import decode_kbest, tree_score

# Share of malformed dev trees that the sparing constant may leave, %.
LEFT = 1.0
# Precision of constants, in nats.
PRECISE = 0.01
# Number of groups of equal size into which sentences are split by the margin of their best tree.
PARTS = 4
# Least number of treebanks for a rank correlation.
MANY = 5


@dataclass(frozen=True)
class Placement:
    """Level of ROOT's scores of one parser.

    Attributes
    ----------
    expected : float
        Sum over a test sentence of the probabilities of ROOT as each word's head: 1 if they are
        right on average.
    found, wrong : float
        Root words whose best head is ROOT, %; other words whose best head is ROOT, per sentence.
    dev_sentences : int
    likeliest, sparing : float
        Constants chosen on the dev set: the one with the highest likelihood, under which the
        probabilities of ROOT sum to the number of root words; and the smallest non-negative one
        that leaves at most LEFT % of the trees malformed.
    malformed : float
        Malformed test trees, %; also after subtracting either constant.
    uas, uas_one_root : float
        UAS without and with the constraint; the former also after subtracting either constant.
    """

    expected: float
    found: float
    wrong: float
    dev_sentences: int
    malformed: float
    uas: float
    likeliest: float
    malformed_likeliest: float
    uas_likeliest: float
    sparing: float
    malformed_sparing: float
    uas_sparing: float
    uas_one_root: float


HEADER = (
    "treebank",
    "P(ROOT), sum a sentence",
    "root words found, %",
    "wrong root arcs a sentence",
    "dev sentences",
    "malformed, %",
    "UAS, any roots",
    "likeliest constant",
    "malformed, likeliest, %",
    "UAS, likeliest",
    "sparing constant",
    "malformed, sparing, %",
    "UAS, sparing",
    "UAS, one root",
)


def root_log_odds(matrices: Matrices) -> tuple[Floats, NDArray[np.bool_]]:
    """Compare the score of ROOT as a head with those of the words, for each word.

    Returns
    -------
    log_odds : float array of shape (words,)
        Log odds of ROOT against all other heads; sentences of one word are left out.
    is_root : bool array of shape (words,)
    """
    log_odds, is_root = [], []
    for square, gold in zip(matrices.scores, matrices.heads, strict=True):
        if len(square) > 2:
            scores = square.astype(float)
            np.fill_diagonal(scores, -np.inf)
            log_odds.append(scores[1:, 0] - np.logaddexp.reduce(scores[1:, 1:], axis=1))
            is_root.append(gold[1:] == 0)
    return np.concatenate(log_odds), np.concatenate(is_root)


def bisect(too_low: Callable[[float], bool], low: float, high: float) -> float:
    """Find where `too_low` becomes false, to PRECISE; `high` is raised while it is true."""
    while too_low(high):
        low, high = high, 2 * high
    while high - low > PRECISE:
        middle = (low + high) / 2
        low, high = (middle, high) if too_low(middle) else (low, middle)
    return high


def likeliest_constant(dev: Matrices) -> float:
    """Find the constant under which the probabilities of ROOT sum to the number of root words."""
    log_odds, is_root = root_log_odds(dev)
    wanted = int(is_root.sum())
    # So low that ROOT is the head of every word.
    start = -float(np.abs(log_odds).max()) - 100
    return bisect(lambda constant: probabilities(log_odds - constant).sum() > wanted, start, 1.0)


def probabilities(log_odds: Floats) -> Floats:
    """Convert log odds to probabilities; far from 0 they round to 0 and 1."""
    return np.exp(-np.logaddexp(0, -log_odds))


def sparing_constant(dev: Matrices) -> float:
    """Find the smallest non-negative constant that leaves at most LEFT % malformed."""

    def too_low(constant: float) -> bool:
        return measure_lowered(dev, constant)[0] > LEFT

    return bisect(too_low, 0.0, 1.0) if too_low(0.0) else 0.0


def measure_lowered(matrices: Matrices, constant: float) -> tuple[float, float]:
    """Return malformed trees, %, and UAS, %, of unconstrained trees with lowered root arcs."""
    trees = decode_all(matrices, False, constant)
    malformed = np.mean([(tree == 0).sum() > 1 for tree in trees])
    return 100 * float(malformed), share_right(trees, matrices)


def share_right(trees: list, matrices: Matrices) -> float:
    """Return UAS, %."""
    right = [tree[1:] == gold[1:] for tree, gold in zip(trees, matrices.heads, strict=True)]
    return 100 * float(np.concatenate(right).mean())


def place(test: Matrices, dev: Matrices) -> Placement:
    """Measure the level of ROOT's scores, with constants from the dev set."""
    log_odds, is_root = root_log_odds(test)
    sentences = sum(len(square) > 2 for square in test.scores)
    greedy = np.concatenate([best_is_root(square) for square in test.scores if len(square) > 2])
    likeliest, sparing = likeliest_constant(dev), sparing_constant(dev)
    return Placement(
        float(probabilities(log_odds).sum()) / sentences,
        100 * float(greedy[is_root].mean()),
        float(greedy[~is_root].sum()) / sentences,
        len(dev.scores),
        *measure_lowered(test, 0.0),
        likeliest,
        *measure_lowered(test, likeliest),
        sparing,
        *measure_lowered(test, sparing),
        share_right(decode_all(test, True), test),
    )


def best_is_root(square: Floats) -> NDArray[np.bool_]:
    """Tell for each word whether ROOT is its best head."""
    scores = square.astype(float)
    np.fill_diagonal(scores, -np.inf)
    return scores[1:].argmax(axis=1) == 0


def place_treebank(root: Path, treebank: str, test: Matrices) -> Placement:
    """Measure the level on a treebank; the saved model scores its dev set."""
    model = model_folder(root, treebank) / LAST
    if not model.exists():
        raise SystemExit(
            f"no {model}, which scores the dev set: run `python -m spacy project run train`"
        )
    scored = score_sentences(spacy.load(model), root / "corpus" / treebank / "dev.spacy")
    return place(test, Matrices(*scored, test.train_sentences, test.steps))


# --- margins -----------------------------------------------------------------------------------


def margins(matrices: Matrices) -> NDArray[np.float64]:
    """Measure the margin of each tree.

    Returns
    -------
    float array of shape (sentences, 4)
        Score of the best tree with one root minus that of the second best; score of the best tree
        with any number of roots minus that of the best with one; whether the former has several
        roots; whether the best tree with one root has the correct root. Sentences of one word,
        which have one tree, are left out.
    """
    rows = []
    free = decode_all(matrices, False)
    for square, gold, tree in zip(matrices.scores, matrices.heads, free, strict=True):
        if len(square) > 2:
            heads, scores = decode_kbest(square, 2)
            gain = float(tree_score(square, tree)) - scores[0]
            right = (gold[1:] == 0)[(heads[0, 1:] == 0).argmax()]
            rows.append((scores[0] - scores[1], gain, (tree == 0).sum() > 1, right))
    return np.array(rows, dtype=float).reshape(-1, 4)


def margin_lines(found: NDArray[np.float64], group: str) -> list[list]:
    """Split sentences by margin, smallest first."""
    order = np.argsort(found[:, 0], kind="stable")
    lines = []
    for members in np.array_split(order, PARTS):
        part = found[members]
        low, high = float(part[:, 0].min()), float(part[:, 0].max())
        shares = (100 * float(part[:, column].mean()) for column in (2, 3))
        lines.append([group, f"{low:.2f} to {high:.2f}", len(part), *shares])
    return lines


# --- writing -----------------------------------------------------------------------------------


def report_root_scores(root: Path, report: Report, scored: dict[str, Matrices]) -> None:
    """Report the level of ROOT's scores, and which trees are malformed."""
    report.text(
        "## Are ROOT's scores placed well?",
        "One constant subtracted from the scores of all root arcs leaves the best tree with one "
        "root as it is, but lowers the number of roots without the constraint, in the end to one. "
        "Were ROOT's scores too high as a whole, then the probabilities of ROOT as the head of "
        "each word would sum to more than 1 in a sentence, and a constant chosen on the dev set "
        "would spare malformed trees. The likeliest constant makes the sum right on the dev set; "
        f"the sparing one leaves no more than {LEFT:g} % of the dev trees malformed. In nats.",
    )
    placed = {name: place_treebank(root, name, test) for name, test in scored.items()}
    lines = [[name, *astuple(each)] for name, each in placed.items()]
    report.table("root-scores", HEADER, lines)
    sizes = {name: test.train_sentences for name, test in scored.items()}
    for group, names in size_groups(sizes).items():
        report.text(summary(group, [placed[name] for name in names]))
    if len(placed) >= MANY:
        each = placed.values()
        found = rank_correlation([one.found for one in each], [one.malformed for one in each])
        report.text(f"Rank correlation of malformed trees with root words found: {found:.2f}.")
    report_margins(report, scored, size_groups(sizes))


def size_groups(sizes: dict[str, int]) -> dict[str, list[str]]:
    """Split treebanks by number of training sentences; empty groups are left out."""
    groups = {
        f"fewer than {FEW:,}": [name for name, size in sizes.items() if size < FEW],
        f"{FEW:,} and more": [name for name, size in sizes.items() if size >= FEW],
    }
    return {group: names for group, names in groups.items() if names}


def summary(group: str, each: list[Placement]) -> str:
    """Summarize the table for a group of treebanks."""
    moved = max(abs(one.malformed_likeliest - one.malformed) for one in each)
    lost = max(abs(one.uas_sparing - one.uas_one_root) for one in each)
    return (
        f"With {group} training sentences, probabilities of ROOT sum to "
        f"{span([one.expected for one in each])} a sentence; ROOT is the best head of "
        f"{span([one.found for one in each], 0)} % of the root words, and of "
        f"{span([one.wrong for one in each])} wrong words a sentence. The likeliest constants are "
        f"{span([one.likeliest for one in each])}, and change the rate by {moved:.2f} points at "
        f"most. The sparing ones, {span([one.sparing for one in each])}, leave "
        f"{span([one.malformed_sparing for one in each])} % malformed, and UAS within {lost:.2f} "
        f"points of what it is with the constraint."
    )


def span(values: list[float], digits: int = 2) -> str:
    """Format the smallest and the largest value."""
    return f"{min(values):.{digits}f} to {max(values):.{digits}f}"


def report_margins(
    report: Report, scored: dict[str, Matrices], groups: dict[str, list[str]]
) -> None:
    """Report the margins of trees, and which of them are malformed."""
    report.text(
        "Sentences by the margin of their best tree with one root over the second best, in nats, "
        "the least sure quarter first; and how many trees without the constraint are malformed.",
    )
    rows, gains = [], []
    for group, names in groups.items():
        pooled = np.concatenate([margins(scored[name]) for name in names])
        rows += margin_lines(pooled, group)
        gain = pooled[pooled[:, 2] == 1, 1]
        if len(gain):
            gains.append(
                f"With {group} training sentences, a malformed tree outscores the best tree with "
                f"one root by {float(np.median(gain)):.2f} nats (median)."
            )
    header = ("training sentences", "margin", "sentences", "malformed, %", "root word right, %")
    report.table("margins", header, rows)
    report.text(*gains)
