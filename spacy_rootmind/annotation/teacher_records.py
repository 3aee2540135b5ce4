"""Tree distributions of teachers in Docs, and the training targets made from them.

A distribution over trees is stored by its arc weights, not by its arc probabilities. Any
weights give the marginals of a distribution over trees with one root, whichever arcs were left out
and however the weights were rounded. Rounded probabilities do not: if the arcs from ROOT do not sum
to one, the cross entropy of tree distributions has no lower bound.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from spacy.strings import StringStore
from spacy.tokens import Doc
from spacy.training import Example

from spacy_rootmind.annotation.alignment import single_counterparts
from spacy_rootmind.annotation.details import ParseDetails, StoredDistribution
from spacy_rootmind.annotation.records import (
    OutdatedDetailsError,
    UnreadableDetailsError,
    has_records,
    is_record_key,
    read_record,
)
from spacy_rootmind.annotation.sentences import sentence_starts, words_of
from spacy_rootmind.trees.conventions import MISSING, ROOT
from spacy_rootmind.trees.distribution import TreeDistribution
from spacy_rootmind.trees.errors import NoTreeError


@dataclass(frozen=True, eq=False)
class TeacherTarget:
    """The mean of a sentence's teachers; words are numbered from 1, with ROOT as 0."""

    # Probability of each arc, `marginals[dep, head]`, (n + 1, n + 1), in a distribution over trees
    # with a single root.
    marginals: NDArray[np.float64]
    # Arcs between words, one entry for each of their labels: label hashes, and the probability of
    # arc and label together; all (n_entries,).
    deps: NDArray[np.int64]
    heads: NDArray[np.int64]
    labels: NDArray[np.uint64]
    label_probs: NDArray[np.float64]
    # That each word starts a sentence, (n,); None if no teacher predicts boundaries.
    start_probs: NDArray[np.float64] | None


def find_targets(
    example: Example, starts: NDArray[np.int64], sentences: Sequence[NDArray[np.int64]]
) -> dict[int, TeacherTarget]:
    """Find the targets of the sentences of a predicted Doc, by the number of the sentence.

    A sentence has a target if the reference has the same sentence with the same tokens and with
    distributions. `starts` are as from `gold.training_starts`; `sentences` are the scored tokens.
    Raises ValueError if a distribution cannot be read, or allows no tree.
    """
    if not has_records(example.reference):
        return {}
    targets = {}
    gold_of = single_counterparts(example.alignment.x2y)
    predicted_of = single_counterparts(example.alignment.y2x)
    for number, words in enumerate(sentences):
        start, stop = int(starts[number]), int(starts[number + 1])
        gold = gold_of[start:stop]
        if not len(words) or not _has_same_tokens(gold, predicted_of, start):
            continue
        stored = read_sentence(example.reference, int(gold[0]), int(gold[-1]) + 1).distributions
        if stored:
            strings = example.reference.vocab.strings
            try:
                targets[number] = average(stored, len(words), strings)
            except ValueError as error:
                text = example.reference[int(gold[0]) : int(gold[-1]) + 1].text
                raise ValueError(f"cannot learn the sentence {text[:40]!r}: {error}") from error
    return targets


def _has_same_tokens(gold: NDArray[np.int64], predicted_of: NDArray[np.int64], start: int) -> bool:
    """Tell whether tokens from `start` on are consecutive gold tokens, one for one."""
    n = len(gold)
    return (
        gold[0] != MISSING
        and np.array_equal(gold, np.arange(gold[0], gold[0] + n))
        and np.array_equal(predicted_of[gold], np.arange(start, start + n))
    )


def read_sentence(doc: Doc, start: int, stop: int) -> ParseDetails:
    """Read the details of the sentence that has these tokens; empty ones if it has none.

    Raises UnreadableDetailsError if its record has another format or is damaged.
    """
    with suppress(OutdatedDetailsError):
        return read_record(doc[start:stop]) or ParseDetails()
    return ParseDetails()


def has_distributions(doc: Doc) -> bool:
    """Tell whether a Doc has tree distributions; True for a Doc without words."""
    return not len(words_of(doc)) or any(
        is_record_key(key) and isinstance(record, dict) and "distributions" in record
        for key, record in doc.user_data.items()
    )


def earlier_start_probs(doc: Doc) -> NDArray[np.float64]:
    """Read the mean probability of earlier teachers that each token starts a sentence.

    NaN where there was no teacher that predicts boundaries, or its distribution cannot be read, and
    for whitespace.
    """
    means = np.full(len(doc), np.nan)
    if has_records(doc):
        for start, stop in pairwise(sentence_starts(doc).tolist()):
            with suppress(UnreadableDetailsError):
                details = read_sentence(doc, start, stop)
                probs = [
                    distribution.start_probs
                    for distribution in details.distributions
                    if distribution.start_probs is not None
                ]
                if probs:
                    means[start + details.words] = np.mean(probs, axis=0)
    return means


def average(
    stored: Sequence[StoredDistribution], n_words: int, strings: StringStore
) -> TeacherTarget:
    """Average the distributions of a sentence's teachers.

    Raises ValueError if the weights allow no tree, as in a damaged Doc.
    """
    share = 1.0 / len(stored)
    marginals = np.zeros((n_words + 1, n_words + 1))
    deps, heads, labels, probs, start_probs = [], [], [], [], []
    for distribution in stored:
        of_arcs, of_labels = find_probabilities(distribution, n_words)
        marginals += share * of_arcs
        is_inner = distribution.heads != distribution.dependents
        deps.append(distribution.dependents[is_inner].astype(np.int64) + 1)
        heads.append(distribution.heads[is_inner].astype(np.int64) + 1)
        hashes = np.array([strings[name] for name in distribution.label_names], dtype=np.uint64)
        labels.append(hashes[distribution.labels[is_inner]])
        probs.append(share * of_labels[is_inner])
        if distribution.start_probs is not None:
            start_probs.append(distribution.start_probs.astype(np.float64))
    return TeacherTarget(
        marginals,
        np.concatenate(deps),
        np.concatenate(heads),
        np.concatenate(labels),
        np.concatenate(probs),
        np.mean(start_probs, axis=0) if start_probs else None,
    )


def find_probabilities(
    stored: StoredDistribution, n: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Compute the marginals of arcs and of labelled arcs of a distribution over n words.

    Improbable labels were left out: the labels of an arc have its probability in total. Raises
    ValueError if the arcs allow no tree, or are not as they were stored.
    """
    numbers = [stored.log_weights, stored.probs]
    numbers += [] if stored.start_probs is None else [stored.start_probs]
    deps = stored.dependents.astype(np.int64) + 1
    heads = np.where(stored.heads == stored.dependents, ROOT, stored.heads.astype(np.int64) + 1)
    try:
        if not all(np.isfinite(each).all() for each in numbers) or (stored.probs <= 0).any():
            raise NoTreeError
        weights, totals = np.full((n + 1, n + 1), -np.inf), np.zeros((n + 1, n + 1))
        weights[deps, heads] = stored.log_weights
        np.add.at(totals, (deps, heads), stored.probs)
        marginals = TreeDistribution(weights).marginals
    except (IndexError, NoTreeError) as error:
        raise ValueError(
            f"expected tree distributions as root_mst stores them, found one of {n} words whose "
            f"{len(deps)} arcs make no tree or have improbable labels alone: the Doc was damaged "
            f"or edited; parse it again with the teacher"
        ) from error
    return marginals, marginals[deps, heads] * stored.probs / totals[deps, heads]
