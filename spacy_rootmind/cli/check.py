"""The commands `check` and `debug root-mst`: what a parser cannot learn from treebanks or corpora.

`udvalidate` checks treebanks against the guidelines of Universal Dependencies.
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import spacy
from numpy.typing import NDArray
from spacy.language import Language
from spacy.tokens import Doc, DocBin
from spacy.training import Example
from spacy.util import load_config, registry
from thinc.api import ConfigValidationError
from wasabi import Printer

from spacy_rootmind.annotation.alignment import aligned_heads, gold_counterparts
from spacy_rootmind.annotation.gold import on_cycles
from spacy_rootmind.annotation.reading import annotated_heads, choose_root_label
from spacy_rootmind.annotation.sentences import sentence_starts, words_of
from spacy_rootmind.cli.errors import CommandError
from spacy_rootmind.compat import (
    ConfigSchemaTraining,
    gc_unchanged,
    load_model_from_config,
    resolve_dot_names,
    show_validation_error,
    walk_directory,
)
from spacy_rootmind.formats import conllu_sentence as conllu
from spacy_rootmind.formats.conllu import read_sentences
from spacy_rootmind.formats.lines import InputError, Inputs
from spacy_rootmind.formats.records import Failure
from spacy_rootmind.trees.checks import is_projective
from spacy_rootmind.trees.conventions import MISSING, ROOT

SUFFIXES = (".conllu", ".spacy")
# How many of the most frequent labels are shown, and how many places of each kind of problem.
N_LABELS = 60
N_PLACES = 5
# Share of gold heads lost to tokenization above which there is a warning.
MANY_LOST = 0.05
# An invalid head, next to ROOT, words and MISSING.
OUTSIDE = -2

ERROR, WARNING = "error", "warning"
# Severity and description of each kind of problem.
KINDS = {
    "unreadable": (ERROR, "records that cannot be read"),
    "no_heads": (ERROR, "treebanks without heads"),
    "head_outside": (ERROR, "heads that are no word of their sentence"),
    "cycle": (ERROR, "sentences with heads in a cycle"),
    "several_roots": (ERROR, "sentences with several roots"),
    "root_label_inside": (ERROR, "arcs between words with the root's label"),
    "root_with_other_label": (
        WARNING,
        "roots, or tokens that are their own head, without the root's label; training treats their "
        "heads as missing",
    ),
    "long_sentence": (WARNING, "sentences longer than the maximum, which will be split"),
    "rare_label": (WARNING, "labels that occur only once"),
    "new_label": (WARNING, "labels that do not occur in the training data"),
    "single_sentences": (
        WARNING,
        "Docs of one sentence each, from which no parser learns where sentences start; convert "
        "with several sentences per Doc (`spacy convert -n 10`), and leave gold_preproc off",
    ),
    "lost_heads": (
        WARNING,
        "Docs with gold heads that are lost, because the tokenizer merges what the treebank "
        "splits, as in multiword tokens; consider gold_preproc, or `spacy convert "
        "--merge-subtokens`",
    ),
}


@dataclass
class GoldSentence:
    """The words of a sentence, without whitespace tokens, and their heads, which may be no tree.

    Heads are ROOT, or 1 to n for a word; MISSING for none or a whitespace token, and OUTSIDE for
    anything else. A missing label is empty. In messages, a word is at `source` and its number, of a
    line or token.
    """

    heads: NDArray[np.int64]
    labels: list[str]
    source: str
    numbers: list[int]

    def place(self, word: int) -> str:
        """Return where a word is, counted from 0, for messages."""
        return f"{self.source}{self.numbers[word]}"


# A Doc: its sentences that have words.
GoldDoc = list[GoldSentence]


# --- reading -----------------------------------------------------------------------------------


def read_treebank(path: Path) -> Iterator[GoldDoc | Failure]:
    """Read a treebank; a sentence of CoNLL-U counts as a Doc, as with `spacy convert -n 1`.

    Raises InputError if the file cannot be read at all.
    """
    if path.suffix == ".spacy":
        yield from read_docs(path)
    else:
        for found in read_sentences(str(path), Inputs([str(path)]).lines(str(path))):
            yield found if isinstance(found, Failure) else [_gold_sentence(str(path), found)]


def _gold_sentence(file: str, source: conllu.Sentence) -> GoldSentence:
    words = source.words
    return GoldSentence(
        np.array([_head(row[conllu.HEAD], len(words)) for row in words], dtype=np.int64),
        ["" if row[conllu.DEPREL] == conllu.EMPTY else row[conllu.DEPREL] for row in words],
        f"{file}:",
        [source.line_of(word) for word in range(len(words))],
    )


def _head(column: str, n_words: int) -> int:
    if column in ("", conllu.EMPTY):
        return MISSING
    # A number of ten digits is not a word of the sentence.
    is_number = column.isascii() and column.isdigit() and len(column) < 10
    return int(column) if is_number and int(column) <= n_words else OUTSIDE


def read_docs(path: Path) -> Iterator[GoldDoc | Failure]:
    """Read a file of Docs as training does."""
    try:
        with gc_unchanged():
            docs = DocBin().from_disk(path).get_docs(spacy.blank("xx").vocab)
            found = [gold_doc(f"{path}, Doc {i}", doc) for i, doc in enumerate(docs, start=1)]
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    # A damaged file may raise almost any error.
    except Exception as error:
        reason = " ".join(str(error).split())
        yield Failure(str(path), None, f"not a file of Docs, or damaged: {reason}")
    else:
        yield from found


def gold_doc(name: str, doc: Doc) -> GoldDoc:
    """Convert the trees of a Doc, sentence by sentence."""
    starts, words, (heads, _) = sentence_starts(doc), words_of(doc), annotated_heads(doc)
    sentence = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    stops = np.searchsorted(words, starts)
    number = np.full(len(doc), MISSING)
    number[words] = np.arange(1, len(words) + 1) - stops[sentence[words]]
    local = np.where(sentence[heads] == sentence, number[heads], OUTSIDE)
    local[heads == np.arange(len(doc))] = ROOT
    local[heads == MISSING] = MISSING
    return [
        GoldSentence(
            local[tokens],
            [doc[i].dep_ for i in tokens.tolist()],
            f"{name}, token ",
            (tokens + 1).tolist(),
        )
        for tokens in (words[first:stop] for first, stop in pairwise(stops.tolist()))
        if len(tokens)
    ]


# --- checks ------------------------------------------------------------------------------------


@dataclass
class Findings:
    """Counts and problems of a treebank, whose words are tokens other than whitespace.

    The root's label is that which training chooses, `n_docs` counts Docs that have words, `n_trees`
    sentences with one root in which each word has a head. `problems` are the places of each kind.
    """

    name: str
    root_label: str
    n_docs: int = 0
    n_sentences: int = 0
    n_words: int = 0
    n_without_head: int = 0
    n_trees: int = 0
    n_non_projective: int = 0
    labels: Counter[str] = field(default_factory=Counter)
    problems: dict[str, list[str]] = field(default_factory=dict)

    def add(self, kind: str, place: str) -> None:
        """Keep the place of a problem."""
        self.problems.setdefault(kind, []).append(place)

    @property
    def has_errors(self) -> bool:
        """Whether something has to be mended before training."""
        return any(KINDS[kind][0] == ERROR for kind in self.problems)

    def add_sentence(self, sentence: GoldSentence, max_length: int | None) -> None:
        """Check a sentence."""
        n_words = len(sentence.heads)
        self.n_sentences += 1
        self.n_words += n_words
        self.labels.update(filter(None, sentence.labels))
        if max_length is not None and n_words > max_length:
            self.add("long_sentence", f"{sentence.place(0)}: {n_words} words")
        self._check_labels(sentence)
        self._check_heads(sentence)

    def _check_labels(self, sentence: GoldSentence) -> None:
        """Find labels that contradict heads; also sets heads as training reads them."""
        root_labels = (self.root_label.lower(), "root")
        for i, label in enumerate(sentence.labels):
            if label and sentence.heads[i] == ROOT and label.lower() not in root_labels:
                self.add("root_with_other_label", f"{sentence.place(i)}: {label}")
                sentence.heads[i] = MISSING
            elif label == self.root_label and sentence.heads[i] > ROOT:
                self.add("root_label_inside", sentence.place(i))

    def _check_heads(self, sentence: GoldSentence) -> None:
        heads, place = sentence.heads, sentence.place
        for i in np.flatnonzero(heads == OUTSIDE).tolist():
            self.add("head_outside", place(i))
        self.n_without_head += int((heads == MISSING).sum())
        with_root = np.concatenate(([MISSING], heads))
        roots, cycles = np.flatnonzero(heads == ROOT).tolist(), on_cycles(with_root)
        if cycles:
            self.add("cycle", place(cycles[0] - 1))
        if len(roots) > 1:
            self.add("several_roots", place(roots[1]))
        if len(roots) == 1 and not cycles and (heads >= ROOT).all():
            self.n_trees += 1
            self.n_non_projective += not is_projective(with_root)


def check_treebank(
    name: str,
    docs: Iterable[GoldDoc | Failure],
    max_sentence_length: int | None = None,
    root_label: str | None = None,
) -> Findings:
    """Check a treebank; the root's label is by default the one that training would choose."""
    docs = list(docs)
    failures = [doc for doc in docs if isinstance(doc, Failure)]
    read = [doc for doc in docs if not isinstance(doc, Failure)]
    sentences = [sentence for doc in read for sentence in doc]
    roots = Counter(
        label
        for sentence in sentences
        for head, label in zip(sentence.heads.tolist(), sentence.labels, strict=True)
        if head == ROOT and label
    )
    findings = Findings(name, root_label or choose_root_label(roots), sum(map(bool, read)))
    for failure in failures:
        findings.add("unreadable", str(failure))
    for sentence in sentences:
        findings.add_sentence(sentence, max_sentence_length)
    if findings.n_without_head == findings.n_words:
        findings.add("no_heads", name)
    return findings


def compare(found: Sequence[Findings], *, boundaries: bool | None = None) -> None:
    """Check what the training data teaches: labels, and boundaries of sentences.

    The training data is the first treebank with "train" in its name, or else the first. Its
    boundaries are to be learnt if it is a file of Docs, by default.
    """
    training = next((one for one in found if "train" in Path(one.name).name), found[0])
    for label in sorted(label for label, number in training.labels.items() if number == 1):
        training.add("rare_label", label)
    for other in found:
        for label in sorted(other.labels.keys() - training.labels.keys()):
            other.add("new_label", f"{label}: {other.labels[label]}")
    learns = training.name.endswith(".spacy") if boundaries is None else boundaries
    if learns and training.n_docs == training.n_sentences > 1:
        training.add("single_sentences", training.name)


# --- the command `check` -------------------------------------------------------------------------


def check(paths: Sequence[Path], *, max_sentence_length: int | None, as_json: bool) -> int:
    """Run the command; returns the exit code.

    Raises CommandError or InputError if a file cannot be read.
    """
    found = [
        check_treebank(str(path), read_treebank(path), max_sentence_length)
        for path in treebank_paths(paths)
    ]
    compare(found)
    return report(found, as_json=as_json)


def treebank_paths(paths: Iterable[Path]) -> list[Path]:
    """List the given files, and the treebanks in the given folders."""
    files: list[Path] = []
    for path in paths:
        if not os.path.exists(path):
            raise CommandError(f"File not found: {path}")
        found = [file for suffix in SUFFIXES for file in walk_directory(path, suffix)]
        found = [file for file in found if file.suffix in SUFFIXES]
        if not found:
            raise CommandError(
                f"{path} is not a treebank",
                f"Expected {' or '.join(SUFFIXES)}, or a folder of them.",
            )
        files += found if path.is_dir() else [path]
    return files


# --- the command `debug root-mst` ----------------------------------------------------------------


def debug(config_path: Path, overrides: dict[str, Any], *, limit: int, as_json: bool) -> int:
    """Run the command; returns the exit code.

    Raises CommandError if the pipeline has no `root_mst`, or a corpus cannot be read.
    """
    with show_validation_error(config_path):
        config = load_config(config_path, overrides=overrides)
        nlp = load_model_from_config(config)
        interpolated = nlp.config.interpolate()
        training = registry.resolve(interpolated["training"], schema=ConfigSchemaTraining)
        names = [name for name in nlp.pipe_names if nlp.get_pipe_meta(name).factory == "root_mst"]
        if not names:
            raise CommandError(
                f"The pipeline of {config_path} has no component root_mst",
                f"Found: {', '.join(nlp.pipe_names) or 'no components'}.",
            )
        corpora = _read_corpora(interpolated, training, nlp, limit)
    settings = [interpolated["components"][name] for name in names]
    longest = min(one["max_sentence_length"] for one in settings)
    found: list[Findings] = []
    for name, examples in zip(("train", "dev"), corpora, strict=True):
        gold = (gold_doc(f"{name}, example {i}", eg.reference) for i, eg in enumerate(examples, 1))
        # The root's label is learnt from the training corpus, also where dev has other labels.
        root_label = found[0].root_label if found else None
        found.append(check_treebank(name, gold, longest, root_label))
        add_lost_heads(found[-1], examples)
    compare(found, boundaries=any(one["sentences"] == "auto" for one in settings))
    return report(found, as_json=as_json)


def _read_corpora(
    config: dict[str, Any], training: dict[str, Any], nlp: Language, limit: int
) -> list[list[Example]]:
    """Read the corpora of a config, or their first examples; 0 for all."""
    names = [training["train_corpus"], training["dev_corpus"]]
    try:
        readers = resolve_dot_names(config, names)
        return [list(islice(reader(nlp), limit or None)) for reader in readers]
    except ConfigValidationError:
        raise
    except Exception as error:
        raise CommandError(
            f"Cannot read the corpora {' and '.join(names)}", f"{type(error).__name__}: {error}"
        ) from error


def add_lost_heads(findings: Findings, examples: Iterable[Example]) -> None:
    """Warn of gold heads that are lost to tokenization, if there are many."""
    lost = [lost_heads(example, findings.root_label) for example in examples]
    if sum(lost) > MANY_LOST * (findings.n_words - findings.n_without_head):
        for i, n_lost in enumerate(lost, start=1):
            if n_lost:
                findings.add("lost_heads", f"{findings.name}, example {i}: {n_lost}")


def lost_heads(example: Example, root_label: str) -> int:
    """Count the gold heads that no predicted token learns.

    These are within merged tokens, of tokens without a counterpart, or such tokens themselves.
    """
    gold_heads, _ = annotated_heads(example.reference, root_label)
    n_gold = int((gold_heads[words_of(example.reference)] != MISSING).sum())
    words = words_of(example.predicted)
    learnt = words[aligned_heads(example, root_label)[0][words] != MISSING]
    n_learnt = len(np.unique(gold_counterparts(example, gold_heads)[learnt]))
    return max(n_gold - n_learnt, 0)


# --- the report ----------------------------------------------------------------------------------


def report(found: Sequence[Findings], *, as_json: bool) -> int:
    """Print findings; returns the exit code."""
    if as_json:
        treebanks = [{**vars(one), "problems": _listed(one)} for one in found]
        print(json.dumps({"treebanks": treebanks}, indent=2, ensure_ascii=False))
    else:
        printer = Printer(pretty=sys.stdout.isatty())
        for findings in found:
            _show(printer, findings)
    return int(any(findings.has_errors for findings in found))


def _listed(findings: Findings) -> list[dict[str, Any]]:
    """List problems, errors first, with the first few places of each."""
    names = ("kind", "severity", "meaning", "count", "places")
    problems = [
        dict(zip(names, (kind, *KINDS[kind], len(places), places[:N_PLACES]), strict=True))
        for kind, places in findings.problems.items()
    ]
    return sorted(problems, key=lambda problem: problem["severity"])


def _show(printer: Printer, findings: Findings) -> None:
    """Print findings as text; without colours, problems with their severity."""
    printer.divider(findings.name)
    rows = [
        ("Docs", _count(findings.n_docs)),
        ("Sentences", _count(findings.n_sentences)),
        ("Words", _count(findings.n_words)),
        ("  without a head", _count(findings.n_without_head, findings.n_words)),
        ("Complete trees", _count(findings.n_trees)),
        ("  non-projective", _count(findings.n_non_projective, findings.n_trees)),
    ]
    printer.table([row for row in rows if row[1]])
    labels = [f"{label} {number}" for label, number in findings.labels.most_common()]
    shown = labels[:N_LABELS]
    if len(labels) > N_LABELS:
        shown.append(f"and {len(labels) - N_LABELS} others")
    printer.text(f"Labels: {', '.join(shown) or 'none'}")
    for problem in _listed(findings):
        title = f"{problem['meaning'][0].upper()}{problem['meaning'][1:]}: {problem['count']:,}"
        if not printer.pretty:
            title = f"{problem['severity'].capitalize()}: {title}"
        printer.fail(title) if problem["severity"] == ERROR else printer.warn(title)
        for place in problem["places"]:
            # Not wrapped, so that terminals recognize it as a link.
            print(f"  {place}")
        if problem["count"] > N_PLACES:
            print("  ...")
    if not findings.problems:
        printer.good("No problems found")


def _count(number: int, total: int | None = None) -> str:
    """Format a number and its share of the total; empty for 0."""
    share = f" ({100 * number / total:.1f} %)" if total else ""
    return f"{number:,}{share}" if number else ""
