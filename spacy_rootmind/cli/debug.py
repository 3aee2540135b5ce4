"""The command `debug root-mst`: training data as a config would have it read."""

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from spacy import util
from spacy.cli._util import show_validation_error
from spacy.language import Language
from spacy.schemas import ConfigSchemaTraining
from spacy.training import Example
from spacy.util import registry, resolve_dot_names
from wasabi import Printer

from spacy_rootmind.annotation.gold import aligned_heads
from spacy_rootmind.annotation.reading import annotated_heads
from spacy_rootmind.cli.check import compare, count, report, say
from spacy_rootmind.cli.checks import WARNING, Findings, check_treebank
from spacy_rootmind.cli.messages import CommandError
from spacy_rootmind.cli.treebanks import doc_annotation, gold_docs
from spacy_rootmind.trees.conventions import MISSING

# Above this share of gold heads that cannot be learnt, something is wrong with the tokens.
MANY_LOST = 0.05


@dataclass
class Corpus:
    """A corpus as training reads it.

    Attributes
    ----------
    name : str
        "train" or "dev".
    findings : Findings
        Of the gold Docs.
    n_heads, n_lost : int
        Gold heads, and those of them that the tokens to be parsed do not have, being others.
    texts : set of str
        To compare with those of others.
    warnings : list of str
        What is wrong beside the trees.
    """

    name: str
    findings: Findings
    n_heads: int = 0
    n_lost: int = 0
    texts: set[str] = field(default_factory=set)
    warnings: list[str] = field(default_factory=list)


def debug(config_path: Path, overrides: dict[str, Any], *, limit: int, as_json: bool) -> int:
    """Run the command; returns the exit code.

    Raises
    ------
    CommandError
        If the pipeline has no `root_mst`, or a corpus cannot be read.
    """
    with show_validation_error(config_path):
        config = util.load_config(config_path, overrides=overrides)
        nlp = util.load_model_from_config(config)
        interpolated = nlp.config.interpolate()
        training = registry.resolve(interpolated["training"], schema=ConfigSchemaTraining)
        readers = resolve_dot_names(
            interpolated, [training["train_corpus"], training["dev_corpus"]]
        )
    names = [name for name in nlp.pipe_names if nlp.get_pipe_meta(name).factory == "root_mst"]
    if not names:
        raise CommandError(
            f"The pipeline of {config_path} has no component root_mst",
            f"Found: {', '.join(nlp.pipe_names) or 'no components'}.",
        )
    settings = [interpolated["components"][name] for name in names]
    longest = min(one["max_sentence_length"] for one in settings)
    corpora = [
        read_corpus(name, reader, nlp, limit, longest)
        for name, reader in zip(("train", "dev"), readers, strict=True)
    ]
    compare([corpus.findings for corpus in corpora])
    add_warnings(corpora, settings)
    return report_corpora(corpora, as_json=as_json)


def read_corpus(
    name: str,
    reader: Callable[[Language], Iterable[Example]],
    nlp: Language,
    limit: int,
    max_sentence_length: int,
) -> Corpus:
    """Read a corpus, or the beginning of it, and check it.

    Raises
    ------
    CommandError
        If it cannot be read.
    """
    try:
        examples = list(islice(reader(nlp), limit or None))
    except Exception as error:
        raise CommandError(
            f"Cannot read the corpus for {name}", f"{type(error).__name__}: {error}"
        ) from error
    annotation = [doc_annotation(example.reference) for example in examples]
    docs = gold_docs([f"{name}, example {i + 1}" for i in range(len(examples))], annotation)
    corpus = Corpus(name, check_treebank(name, docs, max_sentence_length))
    root_label = corpus.findings.root_label or "ROOT"
    for example in examples:
        known, lost = lost_heads(example, root_label)
        corpus.n_heads += known
        corpus.n_lost += lost
        corpus.texts.add(example.reference.text)
    return corpus


def lost_heads(example: Example, root_label: str) -> tuple[int, int]:
    """Count gold heads, and those that are not there on the predicted tokens."""
    words = np.array([not token.is_space for token in example.reference], dtype=bool)
    known = int((words & (annotated_heads(example.reference, root_label)[0] != MISSING)).sum())
    words = np.array([not token.is_space for token in example.predicted], dtype=bool)
    found = int((words & (aligned_heads(example, root_label)[0] != MISSING)).sum())
    return known, max(known - found, 0)


def add_warnings(corpora: list[Corpus], settings: list[dict[str, Any]]) -> None:
    """Warn of what is wrong with the corpora as they will be used."""
    train, dev = corpora
    for corpus in corpora:
        if corpus.n_lost > MANY_LOST * corpus.n_heads:
            corpus.warnings.append(
                f"{count(corpus.n_lost, corpus.n_heads)} of the gold heads are not there on the "
                f"tokens that the pipeline makes: its tokenizer differs from the treebank, or "
                f"multiword tokens are split there; consider gold_preproc, or `spacy convert "
                f"--merge-subtokens`"
            )
    if overlap := len(train.texts & dev.texts):
        dev.warnings.append(f"{count(overlap, len(dev.texts))} of the texts are in train as well")
    several = train.findings.n_docs_of_several
    if any(one.get("sentences") == "auto" for one in settings) and not several:
        train.warnings.append(
            'all Docs have one sentence each, and with sentences = "auto" boundaries cannot be '
            "learnt from them: convert the treebank with several sentences a Doc, as `spacy "
            "convert -n 10` does, and leave gold_preproc off"
        )


def report_corpora(corpora: list[Corpus], *, as_json: bool) -> int:
    """Print all that was found; returns the exit code."""
    findings = [corpus.findings for corpus in corpora]
    if as_json:
        more = [
            {
                "name": corpus.name,
                "gold_heads": corpus.n_heads,
                "gold_heads_lost": corpus.n_lost,
                "warnings": corpus.warnings,
            }
            for corpus in corpora
        ]
        return report(findings, as_json=True, more={"corpora": more})
    code = report(findings, as_json=False)
    printer = Printer(pretty=sys.stdout.isatty())
    printer.divider("As training reads it")
    for corpus in corpora:
        printer.text(
            f"{corpus.name}: {count(corpus.findings.n_docs)} examples, "
            f"{count(corpus.n_heads - corpus.n_lost, corpus.n_heads)} gold heads on the tokens "
            f"that the pipeline makes"
        )
        for warning in corpus.warnings:
            say(printer, WARNING, f"{corpus.name}: {warning}")
    return code
