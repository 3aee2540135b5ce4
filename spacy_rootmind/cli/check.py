"""The command `check`: problems and statistics of treebanks."""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from wasabi import Printer

from spacy_rootmind.cli.checks import ERROR, Findings, Problem, check_treebank
from spacy_rootmind.cli.messages import CommandError
from spacy_rootmind.cli.treebanks import read_treebank
from spacy_rootmind.compat import walk_directory
from spacy_rootmind.formats.lines import InputError

SUFFIXES = (".conllu", ".spacy")
# How many of the most frequent labels are shown.
N_LABELS = 60


def check(paths: Sequence[Path], *, max_sentence_length: int | None, as_json: bool) -> int:
    """Run the command; returns the exit code.

    Raises
    ------
    CommandError
        If a file cannot be read.
    """
    found = []
    for path in treebank_paths(paths):
        try:
            docs = read_treebank(path)
            found.append(check_treebank(str(path), docs, max_sentence_length))
        except InputError as error:
            raise CommandError(f"Cannot check {path}: {error}") from error
    compare(found)
    return report(found, as_json=as_json)


def compare(found: Sequence[Findings]) -> None:
    """Check the training data for rare labels, and the other treebanks for labels it lacks.

    The training data is the first treebank with "train" in its name, or else the first.
    """
    training = next((one for one in found if "train" in Path(one.name).name), found[0])
    training.check_training()
    for other in found:
        if other is not training:
            other.compare(training)


def treebank_paths(paths: Iterable[Path]) -> list[Path]:
    """List the given files, and the treebanks in the given folders.

    Raises
    ------
    CommandError
        If a path does not exist, or is not a treebank.
    """
    files: list[Path] = []
    for path in paths:
        try:
            exists = path.exists()
        except OSError as error:
            raise CommandError(f"Cannot check {path}: {error.strerror}") from error
        if not exists:
            raise CommandError(f"File not found: {path}")
        inside = [file for suffix in SUFFIXES for file in walk_directory(path, suffix)]
        files += inside if path.is_dir() else [path]
        if not inside or not all(file.suffix in SUFFIXES for file in files):
            raise CommandError(
                f"{path} is not a treebank",
                f"Expected {' or '.join(SUFFIXES)}, or a folder of them.",
            )
    return files


def report(found: Sequence[Findings], *, as_json: bool, more: dict[str, Any] | None = None) -> int:
    """Print findings; returns the exit code.

    Parameters
    ----------
    found : list of Findings
        One for each treebank.
    as_json : bool
        Whether to print JSON.
    more : dict, optional
        Further fields of the JSON.
    """
    n_errors = sum(len(findings.errors) for findings in found)
    if as_json:
        treebanks = [findings.summary() for findings in found]
        print(json.dumps({"treebanks": treebanks, **(more or {})}, indent=2, ensure_ascii=False))
        return 1 if n_errors else 0
    printer = Printer(pretty=sys.stdout.isatty())
    for findings in found:
        show(printer, findings)
    return 1 if n_errors else 0


def show(printer: Printer, findings: Findings) -> None:
    """Print findings as text."""
    printer.divider(findings.name)
    printer.table([(key, value) for key, value in counts(findings) if value])
    printer.text(f"Labels: {label_counts(findings.labels)}")
    printer.text(f"Labels of roots: {label_counts(findings.root_labels)}", spaced=False)
    problems = sorted(findings.problems.values(), key=lambda problem: problem.severity)
    for problem in problems:
        show_problem(printer, problem)
    if not problems:
        printer.good("No problems found")


def counts(findings: Findings) -> list[tuple[str, str]]:
    """List names and values of the statistics; a value is empty where there is nothing to show."""
    lengths = ", ".join(
        f"{name} {value:g}" for name, value in findings.summary()["sentence_length"].items()
    )
    return [
        ("Docs", count(findings.n_docs)),
        ("  with several sentences", count(findings.n_docs_of_several)),
        ("Sentences", count(findings.n_sentences)),
        ("  length in words", lengths),
        ("  longest", findings.longest),
        ("Words", count(findings.n_words)),
        ("Whitespace tokens", count(findings.n_spaces)),
        ("Multiword tokens", count(findings.n_multiword)),
        ("Empty nodes", count(findings.n_empty_nodes)),
        ("Complete trees", count(findings.n_trees)),
        ("  non-projective", count(findings.n_non_projective, findings.n_trees)),
        ("Words without a head", count(findings.n_without_head, findings.n_words)),
        ("Words without a label", count(findings.n_without_label, findings.n_words)),
        ("Sentences with heads missing", count(findings.n_partial, findings.n_sentences)),
    ]


def count(number: int, total: int | None = None) -> str:
    """Format a number and its share of the total; empty for 0."""
    if not number:
        return ""
    share = f" ({100 * number / total:.1f} %)" if total else ""
    return f"{number:,}{share}"


def label_counts(labels: Counter[str]) -> str:
    """Format labels with their counts, most frequent first."""
    shown = [f"{label} {number}" for label, number in labels.most_common(N_LABELS)]
    rest = len(labels) - len(shown)
    return ", ".join(shown) + (f", and {rest} others" if rest > 0 else "") or "none"


def show_problem(printer: Printer, problem: Problem) -> None:
    """Print a problem and its places."""
    say(printer, problem.severity, f"{capitalized(problem.meaning)}: {problem.count:,}")
    # Not wrapped, so that terminals recognize it as a link.
    for place in problem.places:
        print(f"  {place}")
    if problem.count > len(problem.places):
        print("  ...")


def say(printer: Printer, severity: str, title: str) -> None:
    """Print an error or a warning; without colours, name its severity."""
    if not printer.pretty:
        title = f"{capitalized(severity)}: {title}"
    if severity == ERROR:
        printer.fail(title)
    else:
        printer.warn(title)


def capitalized(text: str) -> str:
    """Make the first letter a capital."""
    return text[:1].upper() + text[1:]
