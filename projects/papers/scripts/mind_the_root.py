"""Malformed trees without the root constraint, and the effect of the constraint.

Zmigrod, Vieira & Cotterell (2020), Please Mind the Root: Decoding Arborescences for Dependency
Parsing, tables 1 and 2, figures 3 and 4. Decodes the score matrices of all treebanks twice, with
and without the constraint, and compares heads. Figure 1 is a malformed tree. Writes
mind_the_root.md, CSV and PNG.
"""

import argparse
import csv
from dataclasses import dataclass
from math import inf
from pathlib import Path

import numpy as np
from examples import report_examples
from matplotlib.transforms import Bbox
from matrices import TRAINED, UNTRAINED, Matrices, find_scores, require_scores
from outcomes import (
    FEW,
    Outcome,
    add_up,
    examine,
    finite_mean,
    rank_correlation,
    relative,
)
from report import BLUE, RED, Report, panels, plain_logarithmic, plt
from root_scores import report_root_scores

PROJECT = Path(__file__).resolve().parents[1]
# Table 2 of the paper, for the parsers of Stanza (Qi et al. 2020); `treebank` is the name here.
PUBLISHED_TABLE = Path(__file__).parent / "zmigrod2020_table2.csv"
# Groups of table 1: from this many training sentences to fewer than that many.
GROUPS = {"high": (10_000, inf), "medium": (FEW, 10_000), "low": (0, FEW)}
# Places of a label next to its point: offset in points, and the edges that are aligned.
LABEL_PLACES = (
    (6, 0, "left", "center"),
    (-6, 0, "right", "center"),
    (0, 6, "center", "bottom"),
    (0, -6, "center", "top"),
    (5, 5, "left", "bottom"),
    (-5, 5, "right", "bottom"),
)
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


def examine_others(root: Path) -> dict[str, dict[str, Outcome]]:
    """Examine parsers trained with other objectives, if any, by objective and treebank."""
    states = {path.stem for path in (root / "scores").glob("*/*.npz")}
    return {
        state: {
            name: examine(Matrices.load(path)) for name, path in find_scores(root, state).items()
        }
        for state in sorted(states - {TRAINED, UNTRAINED})
    }


def objective_lines(
    outcomes: dict[str, Outcome], others: dict[str, dict[str, Outcome]]
) -> list[list]:
    """Compare objectives on the treebanks that all of them have."""
    names = [name for name in outcomes if all(name in own for own in others.values())]
    lines = []
    for name in names:
        lines.append([name])
        for own in (outcomes, *others.values()):
            lines[-1] += [own[name].rate, own[name].uas[0], relative(*own[name].uas)]
    if len(names) > 1:
        columns = list(zip(*(line[1:] for line in lines), strict=True))
        lines.append(["average", *(float(np.mean(column)) for column in columns)])
    return lines


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


def draw(outcomes: dict[str, Outcome], published: dict[str, Published], report: Report) -> None:
    """Plot rates and changes against training size."""
    figure, (axis,) = panels(1, 6.6, 4.4)
    sizes = [each.train_sentences for each in outcomes.values()]
    own_rates = [each.rate for each in outcomes.values()]
    axis.scatter(sizes, own_rates, color=RED, label="ours", zorder=3)
    rates = {name: published[name].malformed for name in outcomes if name in published}
    for index, (name, rate) in enumerate(rates.items()):
        each = outcomes[name]
        label = "published" if not index else None
        x = each.train_sentences
        axis.plot([x, x], [rate, each.rate], color="grey", linewidth=0.5)
        axis.scatter(x, rate, color=BLUE, marker="x", label=label, zorder=3)
    axis.set_ylabel("malformed trees, %")
    axis.set_ylim(0, 1.12 * max(own_rates, default=1.0) + 1)
    _training_sizes(axis)
    _label_points(axis, outcomes, rates)
    report.figure(
        "figures-3-4-malformed",
        figure,
        "Malformed trees without the constraint against training size, one point a treebank. The "
        "published rates stand at our training sizes.",
    )


def _training_sizes(axis: plt.Axes) -> None:
    plain_logarithmic(axis, (10, 30, 100, 300, 1000, 3000, 10000))
    axis.set_xlabel("training sentences")
    axis.legend(frameon=False)


def _label_points(axis: plt.Axes, outcomes: dict[str, Outcome], rates: dict[str, float]) -> None:
    """Label the points on the side where the label hides the least."""
    axis.figure.canvas.draw()
    taken = []
    for name, each in outcomes.items():
        ends = (each.rate, rates.get(name, each.rate))
        low, high = (axis.transData.transform((each.train_sentences, f(ends))) for f in (min, max))
        taken.append(Bbox([low - 5, high + 5]))
    for name, each in outcomes.items():
        language, _, treebank = name.partition("-")
        label = axis.annotate(
            treebank if language == "English" else language.replace("_", " "),
            (each.train_sentences, each.rate),
            xytext=(0, 0),
            textcoords="offset points",
            fontsize=7,
        )
        hidden = {}
        for place in LABEL_PLACES:
            _put(label, place)
            box = label.get_window_extent()
            hidden[place] = sum(_common(box, other) for other in taken) + _outside(box, axis.bbox)
        _put(label, min(hidden, key=hidden.__getitem__))
        taken.append(label.get_window_extent())


def _put(label: plt.Annotation, place: tuple[int, int, str, str]) -> None:
    *offset, across, up = place
    label.set(position=offset, ha=across, va=up)


def _common(one: Bbox, other: Bbox) -> float:
    both = Bbox.intersection(one, other)
    return both.width * both.height if both else 0.0


def _outside(box: Bbox, frame: Bbox) -> float:
    return box.width * box.height - _common(box, frame)


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
        size = rank_correlation([one.train_sentences for one in each], rates)
        accuracy = rank_correlation([one.uas[0] for one in each], rates)
        theirs = rank_correlation([one.train for one in table], [one.malformed for one in table])
        lines.append(
            f"Rank correlation of the rate with training size: {size:.2f} (published, over "
            f"{len(table)} treebanks: {theirs:.2f}); with UAS: {accuracy:.2f}."
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
    report.text("## Figures 3 and 4: against training size")
    draw(outcomes, published, report)
    report_examples(options.root, report, found)
    report_root_scores(options.root, report, found)
    others = examine_others(options.root)
    if others:
        report.text(
            "## Other objectives",
            "The same network and steps, trained for what the column says (`head_selection` "
            "above): malformed trees without the constraint, UAS without it, and the relative "
            "change of UAS that it makes.",
        )
        header = ["treebank"]
        for name in (TRAINED, *others):
            header += [f"malformed, `{name}`, %", f"UAS, `{name}`", f"change, `{name}`, %"]
        report.table("objectives", header, objective_lines(outcomes, others))
    report.write()


if __name__ == "__main__":
    main()
