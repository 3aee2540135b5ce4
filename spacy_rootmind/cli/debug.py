"""The command `debug root-mst`: checks of the corpora of a training config."""

from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from spacy import util
from spacy.language import Language
from spacy.training import Example
from spacy.util import registry
from thinc.api import ConfigValidationError

from spacy_rootmind.annotation.alignment import aligned_heads, gold_counterparts
from spacy_rootmind.annotation.reading import annotated_heads
from spacy_rootmind.annotation.sentences import words_of
from spacy_rootmind.cli.check import Findings, check_treebank, compare, gold_doc, report
from spacy_rootmind.cli.errors import CommandError
from spacy_rootmind.compat import (
    ConfigSchemaTraining,
    load_model_from_config,
    resolve_dot_names,
    show_validation_error,
)
from spacy_rootmind.trees.conventions import MISSING

# Share of gold heads lost to tokenization above which there is a warning.
MANY_LOST = 0.05


def debug(config_path: Path, overrides: dict[str, Any], *, limit: int, as_json: bool) -> int:
    """Run the command; returns the exit code.

    Raises CommandError if the pipeline has no `root_mst`, or a corpus cannot be read.
    """
    with show_validation_error(config_path):
        config = util.load_config(config_path, overrides=overrides)
        nlp = load_model_from_config(config)
        interpolated = nlp.config.interpolate()
        training = registry.resolve(interpolated["training"], schema=ConfigSchemaTraining)
        readers = _make_readers(interpolated, training)
    names = [name for name in nlp.pipe_names if nlp.get_pipe_meta(name).factory == "root_mst"]
    if not names:
        raise CommandError(
            f"The pipeline of {config_path} has no component root_mst",
            f"Found: {', '.join(nlp.pipe_names) or 'no components'}.",
        )
    settings = [interpolated["components"][name] for name in names]
    found: list[Findings] = []
    for name, reader in zip(("train", "dev"), readers, strict=True):
        examples = _read_examples(name, reader, nlp, limit)
        gold = (gold_doc(f"{name}, example {i}", eg.reference) for i, eg in enumerate(examples, 1))
        longest = min(one["max_sentence_length"] for one in settings)
        # The root's label is learnt from the training corpus, also where dev has other labels.
        root_label = found[0].root_label if found else None
        found.append(check_treebank(name, gold, longest, root_label))
        add_lost_heads(found[-1], examples)
    compare(found, boundaries=any(one["sentences"] == "auto" for one in settings))
    return report(found, as_json=as_json)


def _make_readers(config: dict[str, Any], training: dict[str, Any]) -> list[Any]:
    names = [training["train_corpus"], training["dev_corpus"]]
    try:
        return list(resolve_dot_names(config, names))
    except ConfigValidationError:
        raise
    except Exception as error:
        raise CommandError(f"Cannot make the corpora {' and '.join(names)}", str(error)) from error


def _read_examples(
    name: str, reader: Callable[[Language], Iterable[Example]], nlp: Language, limit: int
) -> list[Example]:
    """Read a corpus, or its first examples; 0 for all."""
    try:
        return list(islice(reader(nlp), limit or None))
    except Exception as error:
        raise CommandError(
            f"Cannot read the corpus for {name}", f"{type(error).__name__}: {error}"
        ) from error


def add_lost_heads(findings: Findings, examples: Iterable[Example]) -> None:
    """Warn of gold heads that are lost to tokenization, if there are many."""
    lost = [lost_heads(example, findings.root_label) for example in examples]
    if sum(lost) > MANY_LOST * (findings.n_words - findings.n_without_head):
        for i, n_lost in enumerate(lost, start=1):
            if n_lost:
                findings.add("lost_heads", f"{findings.name}, example {i}: {n_lost}", n_lost)


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
