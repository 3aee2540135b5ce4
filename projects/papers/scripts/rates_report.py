"""Malformed trees next to the rates of Zmigrod, Vieira & Cotterell (2020)."""

import csv
from dataclasses import dataclass
from math import inf
from pathlib import Path

import numpy as np
from lib.records import Records
from lib.tables import spread
from outcomes import Outcome, rank_correlation, relative
from report import Report

INPUTS = ("words", "predicted", "gold")
# Least number of treebanks for a rank correlation of changes.
MANY = 5
# Changes by the constraint, and their columns in the paper's table.
CHANGES = {"UAS": "uas_change", "exact match": "exact_match_change"}
# Inputs as the paper's parsers have.
LIKE_PUBLISHED = "predicted"
# Table 2 of the paper, for the parsers of Stanza (Qi et al. 2020); `treebank` is the name here.
PUBLISHED_TABLE = Path(__file__).parent / "zmigrod2020_table2.csv"
# Groups of table 1: from this many training sentences to fewer than that many.
GROUPS = {"high": (10_000, inf), "medium": (1000, 10_000), "low": (0, 1000), "all": (0, inf)}
KEY = ("treebank", "inputs", "seed", "epochs")


@dataclass(frozen=True)
class Published:
    """A row of the paper's table 2: sentences, malformed trees, %, and relative changes, %."""

    train: int
    test: int
    malformed: float
    uas_change: float
    exact_match_change: float


def read_published() -> tuple[list[Published], dict[str, Published]]:
    """Read the paper's table 2: all rows, and the rows of treebanks with a known name, by name."""
    rows, named = [], {}
    with PUBLISHED_TABLE.open(encoding="utf8", newline="") as file:
        for line in csv.DictReader(file):
            shares = (float(line[key]) for key in ("malformed", "uas_change", "exact_match_change"))
            rows.append(Published(int(line["train"]), int(line["test"]), *shares))
            if line["treebank"]:
                named[line["treebank"]] = rows[-1]
    return rows, named


Results = dict[str, dict[str, list[Outcome]]]


def results_of(records: Records, epochs: int) -> Results:
    """Group the counts by treebank and inputs, one per seed; smallest treebank first."""
    found: Results = {}
    for (treebank, inputs, _, own_epochs), record in records.read().items():
        if own_epochs == epochs:
            counts = Outcome(**{name: record[name] for name in record if name not in KEY})
            found.setdefault(treebank, {}).setdefault(inputs, []).append(counts)
    return dict(sorted(found.items(), key=lambda item: training_size(item[1])))


def training_size(own: dict[str, list[Outcome]]) -> int:
    """Return the number of training sentences of a treebank."""
    return next(iter(own.values()))[0].train_sentences


def mean_rate(outcomes: list[Outcome]) -> float:
    """Average the share of malformed trees over seeds, %."""
    return float(np.mean([each.rate for each in outcomes]))


def mean_changes(outcomes: list[Outcome]) -> tuple[float, float]:
    """Average the relative changes of UAS and exact match over seeds, %; nan without any match."""
    pairs = [(relative(*each.uas), relative(*each.exact_match)) for each in outcomes]
    uas, exact = np.array(pairs).T
    return float(uas.mean()), float(exact.mean())


def rate_lines(results: Results, published: dict[str, Published]) -> list[list]:
    """Lay out a line per treebank: published rate; seeds, rate and UAS for each kind of input."""
    lines = []
    for name, own in results.items():
        lines.append(
            [name, training_size(own), published[name].malformed if name in published else None]
        )
        for outcomes in (own.get(inputs, []) for inputs in INPUTS):
            columns = [each.rate for each in outcomes], [each.uas[1] for each in outcomes]
            lines[-1] += [len(outcomes), *(spread(column, 1) for column in columns)]
    return lines


def by_group(results: Results) -> dict[str, Results]:
    """Split treebanks by training size; empty groups are left out."""
    groups = {
        group: {name: own for name, own in results.items() if low <= training_size(own) < high}
        for group, (low, high) in GROUPS.items()
    }
    return {group: members for group, members in groups.items() if members}


def group_lines(results: Results, published: dict[str, Published]) -> list[list]:
    """Average over the treebanks that have all kinds of input and a published rate, by size."""
    complete = {
        name: own for name, own in results.items() if name in published and {*INPUTS} <= {*own}
    }
    lines = []
    for group, members in by_group(complete).items():
        columns = [[published[name].malformed for name in members]]
        columns += [[mean_rate(own[inputs]) for own in members.values()] for inputs in INPUTS]
        lines.append([group, len(members), *(float(np.mean(column)) for column in columns)])
    return lines


def change_lines(changes: Results, table: list[Published]) -> list[list]:
    """Average relative changes over treebanks by size, as table 1 does; nan is left out."""
    lines = []
    for group, members in by_group(changes).items():
        low, high = GROUPS[group]
        theirs = [row for row in table if low <= row.train < high]
        own = np.array([mean_changes(each[LIKE_PUBLISHED]) for each in members.values()])
        lines.append([group, len(members)])
        for place, name in enumerate(CHANGES.values()):
            finite = own[np.isfinite(own[:, place]), place]
            mean = float(finite.mean()) if len(finite) else float("nan")
            lines[-1] += [mean, float(np.mean([getattr(row, name) for row in theirs]))]
    return lines


def remarks(results: Results, table: list[Published], published: dict[str, Published]) -> list[str]:
    """Correlate rates with training size, and with the published rates."""
    shared = [published[name] for name in results if name in published]
    parts = []
    for where, rows in (
        (f"over {len(table)} treebanks", table),
        (f"over the {len(shared)} that are ours", shared),
    ):
        if len(rows) > 1:
            columns = [row.train for row in rows], [row.malformed for row in rows]
            parts.append(f"{where}: {rank_correlation(*columns):.2f}")
    lines = [f"Published, {'; '.join(parts)}."]
    for inputs in INPUTS:
        own = {name: each for name, each in results.items() if inputs in each and name in published}
        if len(own) > 1:
            rates = [mean_rate(each[inputs]) for each in own.values()]
            size = rank_correlation([training_size(each) for each in own.values()], rates)
            same = rank_correlation(rates, [published[name].malformed for name in own])
            lines.append(
                f"`{inputs}`, over {len(own)}: {size:.2f}; with the published rates of "
                f"{len(own)}: {same:.2f}."
            )
    return lines


def change_remarks(changes: Results, table: list[Published]) -> list[str]:
    """Count changes by their sign, and correlate them with training size."""
    found = np.array([mean_changes(own[LIKE_PUBLISHED]) for own in changes.values()])
    sizes = [training_size(own) for own in changes.values()], [row.train for row in table]
    lines = []
    for place, (title, name) in enumerate(CHANGES.items()):
        columns = found[:, place], np.array([getattr(row, name) for row in table])
        counts = [
            ", ".join(str(int((np.sign(values) == sign).sum())) for sign in (-1, 0, 1))
            for values in columns
        ]
        lines.append(
            f"Treebanks on which {title} is lower, the same and higher with the constraint: "
            f"{counts[0]} (published: {counts[1]})."
        )
        if len(changes) >= MANY:
            own, published = map(rank_correlation, sizes, columns)
            lines[-1] += (
                f" Rank correlation of its change with training size: {own:.2f} (published: "
                f"{published:.2f})."
            )
    mended, spoilt = (
        sum(getattr(each, name) for own in changes.values() for each in own[LIKE_PUBLISHED])
        for name in ("repaired", "broken")
    )
    return [*lines, f"Over all seeds, {mended:,} heads are mended and {spoilt:,} spoilt."]


def write_report(root: Path, records: Records, epochs: int, training: str) -> None:
    """Write tables of what was counted so far."""
    results = results_of(records, epochs)
    table, published = read_published()
    report = Report(root / "results", "malformed_rates", "Measured for Please Mind the Root")
    report.text(
        "The network of `cpu.cfg`, which scores the head of each word by itself "
        f"(`head_selection`); {training}. Inputs: `words`, the words alone; `predicted`, also the "
        "tags, parts of speech and features that a tagger and a morphologizer predict, trained "
        "with the parser; `gold`, the treebank's own. No pretrained vectors. Rates of trees "
        "with several roots without the constraint, and UAS with it, in percent, mean and "
        "deviation over seeds; UAS with punctuation."
    )
    header = ["treebank", "training sentences", "published"]
    for inputs in INPUTS:
        header += [f"`{inputs}`: seeds", "malformed", "UAS"]
    report.table(header, rate_lines(results, published))
    report.text(
        "## Table 1: averages by training size",
        "High, 10,000 training sentences and more; medium, 1,000 and more; low, fewer. Malformed "
        "trees, %, of the treebanks with all kinds of input and a published rate:",
    )
    report.table(
        ("training sentences", "treebanks", "published", *(f"`{inputs}`" for inputs in INPUTS)),
        group_lines(results, published),
    )
    report.text(
        "Rank correlation of the rate with the number of training sentences. "
        + " ".join(remarks(results, table, published))
    )
    changes = {name: own for name, own in results.items() if LIKE_PUBLISHED in own}
    if changes:
        report.text(
            f"Relative changes by the constraint, %, with the inputs `{LIKE_PUBLISHED}`; the "
            f"published averages are over all rows of table 2."
        )
        header = ["training sentences", "treebanks"]
        header += [column for title in CHANGES for column in (title, "published")]
        report.table(header, change_lines(changes, table))
        report.text(*change_remarks(changes, table))
    report.write()
