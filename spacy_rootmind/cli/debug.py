"""The command `debug root-mst`: checks of the corpora of a training config."""

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from spacy import util
from spacy.language import Language
from spacy.training import Example
from spacy.util import registry
from thinc.api import ConfigValidationError
from wasabi import Printer

from spacy_rootmind.annotation.alignment import aligned_heads, gold_counterparts
from spacy_rootmind.annotation.reading import annotated_heads
from spacy_rootmind.annotation.sentences import words_of
from spacy_rootmind.cli.check import compare, count, report, say
from spacy_rootmind.cli.checks import WARNING, Findings, check_treebank
from spacy_rootmind.cli.messages import CommandError
from spacy_rootmind.cli.treebanks import doc_annotation, gold_docs, stored_root_label
from spacy_rootmind.compat import (
    ConfigSchemaTraining,
    load_model_from_config,
    resolve_dot_names,
    show_validation_error,
)
from spacy_rootmind.pipeline.attributes import (
    SETTERS,
    attributes_read,
    require_annotated_vectors,
    unset_attributes,
)
from spacy_rootmind.trees.conventions import MISSING

# Share of gold heads lost to tokenization above which there is a warning.
MANY_LOST = 0.05


@dataclass
class Corpus:
    """A corpus as training reads it.

    Attributes
    ----------
    name : str
        "train" or "dev".
    findings : Findings
        Findings in the gold Docs.
    n_heads, n_lost : int
        Number of gold heads, and of those lost where the pipeline's tokenizer merges gold tokens.
    texts : set of str
        Texts of the gold Docs.
    warnings : list of str
        Problems that do not concern single trees.
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
        nlp = load_model_from_config(config)
        interpolated = nlp.config.interpolate()
        training = registry.resolve(interpolated["training"], schema=ConfigSchemaTraining)
        readers = make_readers(interpolated, training)
    names = [name for name in nlp.pipe_names if nlp.get_pipe_meta(name).factory == "root_mst"]
    if not names:
        raise CommandError(
            f"The pipeline of {config_path} has no component root_mst",
            f"Found: {', '.join(nlp.pipe_names) or 'no components'}.",
        )
    settings = [interpolated["components"][name] for name in names]
    longest = min(one["max_sentence_length"] for one in settings)
    train = read_corpus("train", readers[0], nlp, limit, longest)
    # The root's label is learnt from the training corpus, also where dev has other labels.
    dev = read_corpus("dev", readers[1], nlp, limit, longest, train.findings.root_label)
    corpora = [train, dev]
    compare([corpus.findings for corpus in corpora])
    add_warnings(corpora, settings)
    for name in names:
        train.warnings += attribute_warnings(nlp, name)
    return report_corpora(corpora, as_json=as_json)


def make_readers(config: dict[str, Any], training: dict[str, Any]) -> list[Any]:
    """Make the readers of both corpora.

    Raises
    ------
    CommandError
        If the config does not say where they are.
    """
    names = [training["train_corpus"], training["dev_corpus"]]
    try:
        return list(resolve_dot_names(config, names))
    except ConfigValidationError:
        raise
    except Exception as error:
        raise CommandError(f"Cannot make the corpora {' and '.join(names)}", str(error)) from error


def read_corpus(
    name: str,
    reader: Callable[[Language], Iterable[Example]],
    nlp: Language,
    limit: int,
    max_sentence_length: int,
    root_label: str | None = None,
) -> Corpus:
    """Read a corpus, or its first examples, and check it.

    Parameters
    ----------
    name : str
        "train" or "dev".
    reader : callable
        The corpus reader of the config.
    nlp : Language
        The pipeline, whose tokenizer makes the predicted Docs.
    limit : int
        How many examples to read; 0 for all.
    max_sentence_length : int
        Longer sentences are reported.
    root_label : str, optional
        The root's label; by default the one that training chooses from this corpus.

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
    root_label = root_label or stored_root_label(annotation)
    names = [f"{name}, example {i + 1}" for i in range(len(examples))]
    docs = gold_docs(names, annotation, root_label)
    corpus = Corpus(name, check_treebank(name, docs, max_sentence_length))
    for example in examples:
        n_gold, lost = lost_heads(example, root_label)
        corpus.n_heads += n_gold
        corpus.n_lost += lost
        corpus.texts.add(example.reference.text)
    return corpus


def lost_heads(example: Example, root_label: str) -> tuple[int, int]:
    """Count gold heads, and those that no predicted token learns.

    These are within merged tokens, of tokens without a counterpart, or such tokens themselves.
    """
    gold_heads, _ = annotated_heads(example.reference, root_label)
    n_gold = int((gold_heads[words_of(example.reference)] != MISSING).sum())
    words = words_of(example.predicted)
    learnt = words[aligned_heads(example, root_label)[0][words] != MISSING]
    n_learnt = len(np.unique(gold_counterparts(example, gold_heads)[learnt]))
    return n_gold, max(n_gold - n_learnt, 0)


def add_warnings(corpora: list[Corpus], settings: list[dict[str, Any]]) -> None:
    """Add warnings about tokenization, overlap and sentence boundaries."""
    train, dev = corpora
    for corpus in corpora:
        if corpus.n_lost > MANY_LOST * corpus.n_heads:
            corpus.warnings.append(
                f"{count(corpus.n_lost, corpus.n_heads)} of the gold heads are lost, because the "
                f"tokenizer merges what the treebank splits, as in multiword tokens; "
                f"consider gold_preproc, or `spacy convert --merge-subtokens`"
            )
    if overlap := len(train.texts & dev.texts):
        dev.warnings.append(f"{count(overlap, len(dev.texts))} of the texts are also in train")
    several = train.findings.n_docs_of_several
    if any(one.get("sentences") == "auto" for one in settings) and not several:
        train.warnings.append(
            'every Doc has one sentence, so that sentences = "auto" cannot learn where sentences '
            "start: convert the treebank with several sentences per Doc (`spacy convert -n 10`), "
            "and leave gold_preproc off"
        )


def attribute_warnings(nlp: Language, name: str) -> list[str]:
    """Describe what the parser's network reads and would not find in training."""
    parser: Any = nlp.get_pipe(name)
    attributes = attributes_read(parser.model)
    warnings = [
        f"the network of {name} reads {attribute}, which no component sets in training: list one "
        f"that does, such as {SETTERS[attribute]}, before {name} and in "
        f"training.annotating_components"
        for attribute in unset_attributes(nlp, name, attributes)
    ]
    try:
        reads_sentences = parser.settings.sentences != "doc"
        require_annotated_vectors(nlp, name, attributes, reads_sentences=reads_sentences)
    except ValueError as error:
        warnings.append(str(error))
    return warnings


def report_corpora(corpora: list[Corpus], *, as_json: bool) -> int:
    """Print the report; returns the exit code."""
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
            f"{count(corpus.n_heads - corpus.n_lost, corpus.n_heads)} gold heads on the "
            f"pipeline's tokens"
        )
        for warning in corpus.warnings:
            say(printer, WARNING, f"{corpus.name}: {warning}")
    return code
