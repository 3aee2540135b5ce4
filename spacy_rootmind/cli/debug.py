"""The command `debug`: what a parser cannot learn from the corpora of a config.

`spacy debug data` checks corpora for other components and counts tokens that differ from the gold
ones, and `udvalidate` checks treebanks against the guidelines of Universal Dependencies.
"""

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import load_config, registry
from thinc.api import ConfigValidationError
from wasabi import Printer

from spacy_rootmind.annotation.gold import count_labels, on_cycles
from spacy_rootmind.annotation.reading import annotated_heads, choose_root_label
from spacy_rootmind.annotation.sentences import sentence_starts, words_of
from spacy_rootmind.compat import (
    ConfigSchemaTraining,
    load_model_from_config,
    resolve_dot_names,
    show_validation_error,
)
from spacy_rootmind.parsing.settings import RunError
from spacy_rootmind.trees.conventions import MISSING

# How many places of each kind of problem are shown.
N_PLACES = 5

# Problems to mend before training, and others that are worth a look.
ERRORS = {
    "head_outside": "heads that are no word of their sentence",
    "cycle": "words on cycles of heads",
    "root_label_inside": "arcs between words with the root's label",
}
WARNINGS = {
    "root_with_other_label": "roots, or tokens that are their own head, without the root's label; "
    "training treats their heads as missing",
    "new_label": "labels that do not occur in the training data",
}


@dataclass
class Findings:
    """Counts and problems of a corpus.

    The root's label is that which training chooses. `problems` are the places of each kind.
    """

    name: str
    root_label: str
    n_docs: int = 0
    labels: Counter[str] = field(default_factory=Counter)
    problems: dict[str, list[str]] = field(default_factory=dict)

    def add(self, kind: str, place: str) -> None:
        """Keep the place of a problem."""
        self.problems.setdefault(kind, []).append(place)

    def add_doc(self, place: str, doc: Doc) -> None:
        """Check the heads and labels of a Doc's words, and count the labels."""
        words, starts = words_of(doc), sentence_starts(doc)
        sentence = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        self.n_docs += 1
        self.labels.update(filter(None, (doc[i].dep_ for i in words.tolist())))
        plain, heads = annotated_heads(doc)[0], annotated_heads(doc, self.root_label)[0]
        # As in a tree of all tokens, with a place for ROOT.
        tree = np.concatenate(([MISSING], np.where(heads == np.arange(len(doc)), 0, heads + 1)))
        cycles = {i - 1 for i in on_cycles(tree)}
        for i in words.tolist():
            own, label, head = f"{place}, token {i + 1}", doc[i].dep_, heads[i]
            if plain[i] == i != head:
                self.add("root_with_other_label", f"{own}: {label}")
            elif head not in (i, MISSING) and sentence[head] != sentence[i]:
                self.add("head_outside", own)
            elif head not in (i, MISSING) and label == self.root_label:
                self.add("root_label_inside", own)
            if i in cycles:
                self.add("cycle", own)


def check_examples(
    name: str, examples: Sequence[Example], root_label: str | None = None
) -> Findings:
    """Check a corpus; the root's label is by default the one that training would choose."""
    findings = Findings(name, root_label or choose_root_label(count_labels(examples)[0]))
    for i, example in enumerate(examples, start=1):
        findings.add_doc(f"{name}, example {i}", example.reference)
    return findings


def check_corpora(config_path: Path, overrides: dict[str, Any]) -> int:
    """Run the command; returns the exit code.

    Raises RunError if the pipeline has no `root_mst`, or a corpus cannot be read.
    """
    with show_validation_error(config_path):
        config = load_config(config_path, overrides=overrides)
        nlp = load_model_from_config(config)
        interpolated = nlp.config.interpolate()
        training = registry.resolve(interpolated["training"], schema=ConfigSchemaTraining)
        if not any(nlp.get_pipe_meta(name).factory == "root_mst" for name in nlp.pipe_names):
            raise RunError(
                f"The pipeline of {config_path} has no component root_mst",
                f"Found: {', '.join(nlp.pipe_names) or 'no components'}.",
            )
        corpora = _read_corpora(interpolated, training, nlp)
    train = check_examples("train", corpora[0])
    # The root's label is learnt from the training corpus, also where dev has other labels.
    dev = check_examples("dev", corpora[1], train.root_label)
    for label in sorted(dev.labels.keys() - train.labels.keys()):
        dev.add("new_label", f"{label}: {dev.labels[label]}")
    printer = Printer(pretty=sys.stdout.isatty())
    for findings in (train, dev):
        _show(printer, findings)
    return int(bool(ERRORS.keys() & (train.problems.keys() | dev.problems.keys())))


def _read_corpora(
    config: dict[str, Any], training: dict[str, Any], nlp: Language
) -> list[list[Example]]:
    names = [training["train_corpus"], training["dev_corpus"]]
    try:
        return [list(reader(nlp)) for reader in resolve_dot_names(config, names)]
    except ConfigValidationError:
        raise
    except Exception as error:
        raise RunError(
            f"Cannot read the corpora {' and '.join(names)}", f"{type(error).__name__}: {error}"
        ) from error


def _show(printer: Printer, findings: Findings) -> None:
    """Print findings; without colours, problems with their severity."""
    printer.divider(findings.name)
    print(f"{findings.n_docs:,} Docs, {len(findings.labels):,} labels")
    for severity, kinds, show in (
        ("Error", ERRORS, printer.fail),
        ("Warning", WARNINGS, printer.warn),
    ):
        for kind, meaning in kinds.items():
            places = findings.problems.get(kind)
            if places is None:
                continue
            title = f"{meaning[0].upper()}{meaning[1:]}: {len(places):,}"
            show(title if printer.pretty else f"{severity}: {title}")
            print("".join(f"  {place}\n" for place in places[:N_PLACES]), end="")
            if len(places) > N_PLACES:
                print("  ...")
    if not findings.problems:
        printer.good("No problems found")
