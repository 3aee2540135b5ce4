"""Scores of several seeds as one table: JSON and Markdown."""

from pathlib import Path
from statistics import mean, stdev

import srsly
from official import NEEDED

OFFICIAL, GOLD = "official", "gold"
EVALUATIONS = {
    OFFICIAL: "raw text, official scorer",
    GOLD: "gold words and sentences",
}
# Scores to show for each evaluation, with their names.
ATTACHMENT = {
    "dep_uas_all": "UAS",
    "dep_las_all": "LAS",
    "dep_las_conll18": "LAS, CoNLL 2018",
    "dep_uas": "UAS without punctuation",
    "dep_las": "LAS without punctuation",
}
WORDS = {"upos_f": "UPOS", "xpos_f": "XPOS", "feats_f": "FEATS", "lemma_f": "LEMMA"}
SHOWN = {
    OFFICIAL: {name: name for name in NEEDED},
    GOLD: {
        **ATTACHMENT,
        **WORDS,
        "dep_ls": "labels without punctuation",
        "root_acc": "correct roots",
        "dep_uem": "sentences with all heads correct",
        "dep_lem": "sentences with all arcs correct",
        "root_violations": "sentences without exactly one root",
    },
}


def summarize(scores: dict[int, dict[str, dict]], about: dict, run: str) -> dict:
    """Compute mean and sample standard deviation of each score, by seed and evaluation, over seeds.

    `about` is the description of the treebank by `convert.py`. Scores are shares. The deviation is
    None with one seed; both are None if a score is None or, because a component is not trained,
    missing.
    """
    seeds = list(scores)
    evaluations = {}
    for name, shown in SHOWN.items():
        evaluations[name] = {
            key: statistics([scores[seed][name].get(key) for seed in seeds]) for key in shown
        }
    keys = ("treebank", "words", "lang", "counts", "remarks")
    return {"run": run, **{key: about[key] for key in keys}, "seeds": seeds, **evaluations}


def statistics(values: list[float | None]) -> dict:
    """Return values, mean and deviation of one score."""
    numbers = [value for value in values if value is not None]
    complete = bool(numbers) and len(numbers) == len(values)
    return {
        "mean": mean(numbers) if complete else None,
        "deviation": stdev(numbers) if complete and len(numbers) > 1 else None,
        "values": values,
    }


def rows(summary: dict) -> list[list[str]]:
    """List evaluation, score, the values of the seeds, mean and deviation, in percent.

    Scores that no seed has are left out.
    """
    found = []
    for evaluation, shown in SHOWN.items():
        for key, name in shown.items():
            score = summary[evaluation][key]
            if all(value is None for value in score["values"]):
                continue
            values = [*score["values"], score["mean"], score["deviation"]]
            found.append([EVALUATIONS[evaluation], name, *(percent(value) for value in values)])
    return found


def percent(value: float | None) -> str:
    """Format a share in percent; empty for None."""
    return "" if value is None else f"{100 * value:.2f}"


def write_tables(summary: dict, folder: Path) -> None:
    """Write summary.json and summary.md."""
    srsly.write_json(folder / "summary.json", summary)
    (folder / "summary.md").write_text(markdown(summary), encoding="utf8")


def markdown(summary: dict) -> str:
    """Format the table, with a description of the treebank and the run."""
    header = ["test set", "score in %", *(f"seed {seed}" for seed in summary["seeds"])]
    header += ["mean", "deviation"]
    counts = summary["counts"]
    sizes = ", ".join(f"{counts[split]['sentences']} {split}" for split in counts)
    lines = [
        f"{summary['treebank']} ({summary['run']}): words are {summary['words']}; sentences: "
        f"{sizes}. {' '.join(f'{remark}.' for remark in summary['remarks'])}",
        "",
        f"| {' | '.join(header)} |",
        "|" + "---|" * 2 + "---:|" * (len(header) - 2),
        *(f"| {' | '.join(row)} |" for row in rows(summary)),
    ]
    return "\n".join(lines) + "\n"
