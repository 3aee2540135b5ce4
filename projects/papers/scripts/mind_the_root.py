"""Malformed trees without the root constraint, and the effect of the constraint.

Zmigrod, Vieira & Cotterell (2020), Please Mind the Root: Decoding Arborescences for Dependency
Parsing, tables 1 and 2. Decodes the score matrices of all treebanks twice, with and without the
constraint, and compares heads. Figure 1 is a malformed tree. Writes mind_the_root.md and CSV.
"""

import argparse
import csv
from dataclasses import dataclass
from math import inf
from pathlib import Path

import numpy as np
from examples import report_examples
from matrices import Matrices, require_scores
from outcomes import (
    FEW,
    Outcome,
    add_up,
    examine,
    finite_mean,
    rank_correlation,
    relative,
)
from report import Report

PROJECT = Path(__file__).resolve().parents[1]
# Table 2 of the paper, for the parsers of Stanza (Qi et al. 2020); `treebank` is the name here.
PUBLISHED_TABLE = Path(__file__).parent / "zmigrod2020_table2.csv"
# Groups of table 1: from this many training sentences to fewer than that many.
GROUPS = {"high": (10_000, inf), "medium": (FEW, 10_000), "low": (0, FEW)}
# Least number of treebanks for a rank correlation.
MANY = 5


@dataclass(frozen=True)
class Published:
    """A row of the paper's table 2.

    Attributes
    ----------
    train, test : int
        Sentences.
    malformed, uas_change, exact_match_change : float
        Malformed trees, and relative changes by the constraint, %.
    """

    train: int
    test: int
    malformed: float
    uas_change: float
    exact_match_change: float


def read_published() -> tuple[list[Published], dict[str, Published]]:
    """Read the paper's table 2: all rows, and those of treebanks with a known name, by name."""
    rows, named = [], {}
    with PUBLISHED_TABLE.open(encoding="utf8", newline="") as file:
        for line in csv.DictReader(file):
            shares = (float(line[key]) for key in ("malformed", "uas_change", "exact_match_change"))
            rows.append(Published(int(line["train"]), int(line["test"]), *shares))
            if line["treebank"]:
                named[line["treebank"]] = rows[-1]
    return rows, named


def row(name: str, each: Outcome, published: Published | None) -> list:
    """Lay out a line of the main table."""
    return [
        name,
        each.train_sentences,
        each.sentences,
        each.malformed,
        each.rate,
        published and published.malformed,
        *each.uas,
        relative(*each.uas),
        published and published.uas_change,
        *each.exact_match,
        relative(*each.exact_match),
        published and published.exact_match_change,
        each.repaired,
        each.broken,
    ]


HEADER = (
    "treebank",
    "training sentences",
    "test sentences",
    "malformed",
    "malformed, %",
    "published, %",
    "UAS, any roots",
    "UAS, one root",
    "UAS change, %",
    "published, %",
    "exact match, any roots",
    "exact match, one root",
    "exact match change, %",
    "published, %",
    "heads mended",
    "heads spoilt",
)


GROUP_HEADER = (
    "training sentences",
    "treebanks",
    "published",
    "malformed, %",
    "published, %",
    "published, the same treebanks, %",
    "UAS change, %",
    "published, %",
    "exact match change, %",
    "published, %",
)


def group_lines(
    outcomes: dict[str, Outcome], table: list[Published], published: dict[str, Published]
) -> list[list]:
    """Average over treebanks by training size, as table 1 does; nan is left out."""
    groups = {name: (low, high) for name, (low, high) in GROUPS.items()} | {"all": (0, inf)}
    lines = []
    for name, (low, high) in groups.items():
        members = {
            treebank: each
            for treebank, each in outcomes.items()
            if low <= each.train_sentences < high
        }
        if not members:
            continue
        theirs = [row for row in table if low <= row.train < high]
        same = [published[treebank].malformed for treebank in members if treebank in published]
        lines.append(
            [
                name,
                len(members),
                len(theirs),
                finite_mean([each.rate for each in members.values()]),
                finite_mean([row.malformed for row in theirs]),
                finite_mean(same),
                finite_mean([relative(*each.uas) for each in members.values()]),
                finite_mean([row.uas_change for row in theirs]),
                finite_mean([relative(*each.exact_match) for each in members.values()]),
                finite_mean([row.exact_match_change for row in theirs]),
            ]
        )
    return lines


def remarks(
    outcomes: dict[str, Outcome], table: list[Published], published: dict[str, Published]
) -> list[str]:
    """Summarize the figures."""
    pooled = add_up(list(outcomes.values()))
    lines = [
        f"In all, {pooled.malformed:,} of {pooled.sentences:,} trees are malformed; the constraint "
        f"mends {pooled.repaired:,} heads and spoils {pooled.broken:,}."
    ]
    if len(outcomes) >= MANY:
        each = list(outcomes.values())
        rates = [one.rate for one in each]
        sizes = [one.train_sentences for one in each]
        size = rank_correlation(sizes, rates)
        accuracy = rank_correlation([one.uas[0] for one in each], rates)
        theirs = rank_correlation([one.train for one in table], [one.malformed for one in table])
        lines.append(
            f"Rank correlation of the rate with training size: {size:.2f} (published, over "
            f"{len(table)} treebanks: {theirs:.2f}); with UAS: {accuracy:.2f}."
        )
        uas = rank_correlation(sizes, [relative(*one.uas) for one in each])
        exact = rank_correlation(sizes, [relative(*one.exact_match) for one in each])
        lines.append(
            f"Figure 4, rank correlation with training size: of the change of UAS {uas:.2f}, of "
            f"that of exact match {exact:.2f}."
        )
    both = [name for name in outcomes if name in published]
    if len(both) >= MANY:
        ours = [outcomes[name].rate for name in both]
        theirs = [published[name].malformed for name in both]
        higher = sum(own > other for own, other in zip(ours, theirs, strict=True))
        lines.append(
            f"With the published rates: {rank_correlation(ours, theirs):.2f}, over {len(both)} "
            f"treebanks. Ours are higher on {higher} of them, {np.mean(ours):.2f} % against "
            f"{np.mean(theirs):.2f} % on average."
        )
    return lines


def training_line(found: dict[str, Matrices]) -> str:
    """Describe the trained parsers."""
    steps = sorted({matrices.steps for matrices in found.values()})
    return f"{len(found)} treebanks; training steps: {', '.join(f'{n:,}' for n in steps)}."


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=PROJECT, help="folder with scores/")
    options = parser.parse_args()
    files = require_scores(options.root)
    found = {name: Matrices.load(path) for name, path in files.items()}
    found = dict(sorted(found.items(), key=lambda item: item[1].train_sentences))
    outcomes = {name: examine(matrices) for name, matrices in found.items()}
    table, published = read_published()
    report = Report(
        options.root / "results",
        "mind_the_root",
        "Measured for Please Mind the Root",
    )
    report.text(
        "The same scores, decoded without and with the root constraint. A tree with several roots "
        "counts as malformed. UAS is over all words, punctuation included; exact match is of all "
        "heads of a sentence; changes are relative. Heads mended and spoilt: those that only the "
        "constrained, or only the unconstrained tree has right.",
        training_line(found),
        "## Table 1: averages by training size",
        f"Averages over treebanks: high, {GROUPS['high'][0]:,} training sentences and more; "
        f"medium, {FEW:,} and more; low, fewer. The published averages are those of the rows of "
        "table 2, by the paper's own training sizes.",
    )
    report.table("groups", GROUP_HEADER, group_lines(outcomes, table, published))
    report.text(*remarks(outcomes, table, published), "## Table 2: treebanks")
    report.table(
        "treebanks",
        HEADER,
        [row(name, each, published.get(name)) for name, each in outcomes.items()],
    )
    report_examples(options.root, report, found)
    report.write()


if __name__ == "__main__":
    main()
