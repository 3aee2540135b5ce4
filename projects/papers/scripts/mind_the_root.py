"""How often trees without the root constraint have several roots, and what the constraint changes.

Zmigrod, Vieira & Cotterell (2020), Please Mind the Root: Decoding Arborescences for Dependency
Parsing, tables 1 and 2, figures 3 and 4. Decodes the score matrices of all treebanks twice, with
and without the constraint, and compares heads. Writes mind_the_root.md, CSV and PNG.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matrices import (
    TRAINED,
    UNTRAINED,
    Ints,
    Matrices,
    find_scores,
    padded,
    require_scores,
)
from report import COLOURS, Report, panels, plain_logarithmic, plt

from spacy_rootmind import decode

PROJECT = Path(__file__).resolve().parents[1]
# Malformed trees, %, as published for the parser of Stanza (Qi et al. 2020).
PUBLISHED = {
    "Kurmanji-MG": 23.57,
    "Livvi-KKPP": 12.26,
    "Lithuanian-HSE": 7.27,
    "Buryat-BDT": 6.61,
    "Upper_Sorbian-UFAL": 6.42,
    "Afrikaans-AfriBooms": 6.35,
    "Hungarian-Szeged": 4.23,
    "Vietnamese-VTB": 3.38,
    "Kazakh-KTB": 2.58,
    "Turkish-IMST": 2.54,
    "Irish-IDT": 2.42,
    "Marathi-UFAL": 2.13,
    "Wolof-WTB": 1.49,
    "Belarusian-HSE": 0.79,
    "Tamil-TTB": 0.0,
    "Telugu-MTG": 0.0,
}
# Below so many training sentences a treebank counts as low-resource, as in the paper.
FEW = 1000
# Treebanks that a rank correlation takes.
MANY = 5


@dataclass
class Outcome:
    """Counts over the test sentences of a treebank, over all seeds.

    Attributes
    ----------
    train_sentences, sentences, words : int
    malformed : int
        Sentences whose unconstrained tree has several roots.
    correct, exact : tuple of int
        Right heads, and sentences with all heads right: without, and with the constraint.
    repaired, broken : int
        Words of malformed sentences whose head the constraint mends, and spoils.
    """

    train_sentences: int
    sentences: int
    words: int
    malformed: int
    correct: tuple[int, int]
    exact: tuple[int, int]
    repaired: int
    broken: int

    @property
    def rate(self) -> float:
        """Malformed trees, %."""
        return 100 * self.malformed / self.sentences

    @property
    def uas(self) -> tuple[float, float]:
        """Right heads, punctuation included, %."""
        return tuple(100 * count / self.words for count in self.correct)

    @property
    def exact_match(self) -> tuple[float, float]:
        """Sentences with all heads right, %."""
        return tuple(100 * count / self.sentences for count in self.exact)


def relative(before: float, after: float) -> float:
    """Relative change, %; nan if there was nothing before."""
    return 100 * (after - before) / before if before else float("nan")


def decode_all(matrices: Matrices, single_root: bool) -> list[Ints]:
    """Decode every sentence."""
    found: list[Ints] = [np.zeros(0, dtype=np.int32)] * len(matrices.scores)
    for members, batch, lengths in padded(matrices.scores):
        heads = decode(batch, lengths, single_root=single_root)
        for member, tree, n in zip(members, heads, lengths, strict=True):
            found[member] = tree[: n + 1]
    return found


def examine(files: list[Path]) -> Outcome:
    """Count what the constraint changes, over the seeds of one treebank."""
    parts = []
    for path in files:
        matrices = Matrices.load(path)
        free, single = decode_all(matrices, False), decode_all(matrices, True)
        rows = [
            (len(gold) - 1, (a == 0).sum() > 1, a[1:] == gold[1:], b[1:] == gold[1:])
            for gold, a, b in zip(matrices.heads, free, single, strict=True)
        ]
        parts.append(rows)
    rows = [row for part in parts for row in part]
    return Outcome(
        matrices.train_sentences,
        len(rows),
        sum(n for n, *_ in rows),
        sum(bool(malformed) for _, malformed, *_ in rows),
        (sum(int(a.sum()) for *_, a, _ in rows), sum(int(b.sum()) for *_, b in rows)),
        (sum(bool(a.all()) for *_, a, _ in rows), sum(bool(b.all()) for *_, b in rows)),
        sum(int((~a & b).sum()) for *_, a, b in rows),
        sum(int((a & ~b).sum()) for *_, a, b in rows),
    )


def add_up(outcomes: list[Outcome]) -> Outcome:
    """Pool treebanks."""
    return Outcome(
        sum(each.train_sentences for each in outcomes),
        sum(each.sentences for each in outcomes),
        sum(each.words for each in outcomes),
        sum(each.malformed for each in outcomes),
        tuple(sum(each.correct[i] for each in outcomes) for i in range(2)),
        tuple(sum(each.exact[i] for each in outcomes) for i in range(2)),
        sum(each.repaired for each in outcomes),
        sum(each.broken for each in outcomes),
    )


def rank_correlation(xs: list[float], ys: list[float]) -> float:
    """Spearman's; ties share their mean rank."""
    ranks = [[sum(v < x for v in vs) + sum(v == x for v in vs) / 2 for x in vs] for vs in (xs, ys)]
    return float(np.corrcoef(ranks)[0, 1])


def examine_others(root: Path) -> dict[str, dict[str, Outcome]]:
    """Examine what was trained for other objectives, if there is any; by objective, treebank."""
    states = {path.stem.partition("-")[2] for path in (root / "scores").glob("*/*.npz")}
    return {
        state: {name: examine(files) for name, files in find_scores(root, state).items()}
        for state in sorted(states - {TRAINED, UNTRAINED})
    }


def objective_lines(
    outcomes: dict[str, Outcome], others: dict[str, dict[str, Outcome]]
) -> list[list]:
    """Compare objectives on the treebanks that all have."""
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


def row(name: str, each: Outcome) -> list:
    """Lay out a line of the main table."""
    return [
        name,
        each.train_sentences,
        each.sentences,
        each.malformed,
        each.rate,
        PUBLISHED.get(name),
        *each.uas,
        relative(*each.uas),
        *each.exact_match,
        relative(*each.exact_match),
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
    "change, %",
    "exact match, any roots",
    "exact match, one root",
    "change, %",
    "heads mended",
    "heads spoilt",
)


def group_lines(outcomes: dict[str, Outcome]) -> list[list]:
    """Average over treebanks, as the paper does, and pool their sentences."""
    groups = {
        f"fewer than {FEW:,} training sentences": [
            each for each in outcomes.values() if each.train_sentences < FEW
        ],
        f"{FEW:,} and more": [each for each in outcomes.values() if each.train_sentences >= FEW],
        "all": list(outcomes.values()),
    }
    lines = []
    for name, members in groups.items():
        if members:
            pooled = add_up(members)
            mean_rate = float(np.mean([each.rate for each in members]))
            mean_uas = float(np.mean([relative(*each.uas) for each in members]))
            lines.append(
                [
                    name,
                    len(members),
                    mean_rate,
                    pooled.rate,
                    mean_uas,
                    relative(*pooled.uas),
                    relative(*pooled.exact_match),
                ]
            )
    return lines


def draw(outcomes: dict[str, Outcome], report: Report) -> None:
    """Plot rates and changes against training size."""
    figure, (rates, changes) = panels(2, 6.2, 4.6)
    sizes = [each.train_sentences for each in outcomes.values()]
    own_rates = [each.rate for each in outcomes.values()]
    rates.scatter(sizes, own_rates, color=COLOURS[0], label="ours", zorder=3)
    known = [(each, PUBLISHED[name]) for name, each in outcomes.items() if name in PUBLISHED]
    for index, (each, rate) in enumerate(known):
        label = "published" if not index else None
        x = each.train_sentences
        rates.plot([x, x], [rate, each.rate], color="grey", linewidth=0.5)
        rates.scatter(x, rate, color=COLOURS[1], marker="x", label=label, zorder=3)
    _label_points(rates, outcomes)
    rates.set_ylabel("malformed trees, %")
    rates.set_ylim(0, 1.12 * max(own_rates, default=1.0) + 1)
    series = {
        "heads (UAS)": [relative(*each.uas) for each in outcomes.values()],
        "exact match": [relative(*each.exact_match) for each in outcomes.values()],
    }
    changes.set_yscale("symlog", linthresh=1)
    for index, (label, change) in enumerate(series.items()):
        changes.scatter(sizes, change, color=COLOURS[index], marker="ox"[index], label=label)
    changes.axhline(0, color="black", linewidth=0.6)
    ticks = (-10, -1, 0, 1, 10, 100)
    changes.set_yticks(ticks, [f"{tick:+d}" if tick else "0" for tick in ticks])
    changes.set_ylim(-12, 130)
    changes.set_ylabel("relative change by the constraint, %")
    for axis in (rates, changes):
        plain_logarithmic(axis, (10, 30, 100, 300, 1000, 3000, 10000))
        axis.set_xlabel("training sentences")
        axis.legend(frameon=False)
    report.figure(
        "size",
        figure,
        "Malformed trees without the constraint (left), and the relative change that it makes "
        "(right), against training size; one point a treebank. The published rates stand at our "
        "training sizes.",
    )


def _label_points(axis: plt.Axes, outcomes: dict[str, Outcome]) -> None:
    """Write names beside the points, each where the last ones leave room."""
    top = max(each.rate for each in outcomes.values())
    written: list[tuple[float, float]] = []
    for name, each in sorted(outcomes.items(), key=lambda item: item[1].rate):
        language, _, treebank = name.partition("-")
        x, y = np.log10(each.train_sentences), each.rate
        while any(abs(x - a) < 0.45 and abs(y - b) < 0.035 * top for a, b in written):
            y += 0.01 * top
        written.append((x, y))
        axis.annotate(
            treebank if language == "English" else language.replace("_", " "),
            (each.train_sentences, y),
            (6, -2),
            textcoords="offset points",
            fontsize=7,
        )


def remarks(outcomes: dict[str, Outcome]) -> list[str]:
    """Say what the figures show, and no more."""
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
        lines.append(
            f"Rank correlation of the rate with training size: {size:.2f}; with UAS: "
            f"{accuracy:.2f}."
        )
    both = [name for name in outcomes if name in PUBLISHED]
    if len(both) >= MANY:
        ours = [outcomes[name].rate for name in both]
        theirs = [PUBLISHED[name] for name in both]
        higher = sum(own > other for own, other in zip(ours, theirs, strict=True))
        lines.append(
            f"With the published rates: {rank_correlation(ours, theirs):.2f}, over {len(both)} "
            f"treebanks. Ours are higher on {higher} of them, {np.mean(ours):.2f} % against "
            f"{np.mean(theirs):.2f} % on average."
        )
    return lines


def main() -> None:
    """Decode, count and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=PROJECT, help="folder with scores/")
    options = parser.parse_args()
    outcomes = {name: examine(files) for name, files in require_scores(options.root).items()}
    outcomes = dict(sorted(outcomes.items(), key=lambda item: item[1].train_sentences))
    report = Report(
        options.root / "results",
        "mind_the_root",
        "Please Mind the Root (Zmigrod, Vieira & Cotterell 2020): tables 1 and 2, figures 3 and 4",
    )
    report.text(
        "The same scores, decoded without and with the root constraint. A tree with several roots "
        "counts as malformed. UAS is over all words, punctuation included; exact match is of all "
        "heads of a sentence; changes are relative. Heads mended and spoilt: those that only the "
        "constrained, or only the unconstrained tree has right."
    )
    report.table("treebanks", HEADER, [row(name, each) for name, each in outcomes.items()])
    report.text("Rates and changes averaged over treebanks, and of their sentences together:")
    report.table(
        "groups",
        (
            "treebanks",
            "how many",
            "malformed, %, average",
            "malformed, %, together",
            "UAS change, %, average",
            "UAS change, %, together",
            "exact match change, %, together",
        ),
        group_lines(outcomes),
    )
    report.text(*remarks(outcomes))
    draw(outcomes, report)
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
