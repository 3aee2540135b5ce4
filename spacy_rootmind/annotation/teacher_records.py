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
from spacy_rootmind.annotation.details import StoredDistribution
from spacy_rootmind.annotation.records import (
    OutdatedDetailsError,
    UnreadableDetailsError,
    has_records,
    is_record_key,
    read_record,
)
from spacy_rootmind.annotation.sentences import sentence_starts, words_of
from spacy_rootmind.trees.conventions import MISSING
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
        stored = read_distributions(example.reference, int(gold[0]), int(gold[-1]) + 1)
        if stored:
            strings = example.reference.vocab.strings
            try:
                targets[number] = average(stored, words - start, strings)
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


def read_distributions(doc: Doc, start: int, stop: int) -> tuple[StoredDistribution, ...]:
    """Read the distributions of the sentence that has these tokens; empty if it has none.

    Raises UnreadableDetailsError if its record has another format or is damaged.
    """
    with suppress(OutdatedDetailsError):
        details = read_record(doc[start:stop])
        return () if details is None else details.distributions
    return ()


def has_distributions(doc: Doc) -> bool:
    """Tell whether a Doc has tree distributions; True for a Doc without words."""
    return not len(words_of(doc)) or any(
        is_record_key(key) and isinstance(record, dict) and "distributions" in record
        for key, record in doc.user_data.items()
    )


def earlier_start_probs(doc: Doc) -> NDArray[np.float64]:
    """Read the mean probability of earlier teachers that each token starts a sentence.

    NaN where there was no teacher that predicts boundaries, or its distribution cannot be read.
    """
    means = np.full(len(doc), np.nan)
    if has_records(doc):
        for start, stop in pairwise(sentence_starts(doc).tolist()):
            with suppress(UnreadableDetailsError):
                stored = read_distributions(doc, start, stop)
                probs = [
                    distribution.start_probs
                    for distribution in stored
                    if distribution.start_probs is not None
                ]
                if probs:
                    means[start:stop] = np.mean(probs, axis=0)
    return means


def average(
    stored: Sequence[StoredDistribution], words: NDArray[np.int64], strings: StringStore
) -> TeacherTarget:
    """Average the distributions of a sentence's teachers, which are over tokens, for its words.

    Raises ValueError if the weights allow no tree or arcs are not between words, as in a damaged
    Doc.
    """
    share = 1.0 / len(stored)
    marginals = np.zeros((len(words) + 1, len(words) + 1))
    deps, heads, labels, probs, start_probs = [], [], [], [], []
    for distribution in stored:
        over_words = distribution.over_words(words)
        of_arcs = arc_probabilities(over_words, len(words))
        marginals += share * of_arcs
        arcs = over_words.label_arcs
        deps.append(over_words.dependents[arcs].astype(np.int64))
        heads.append(over_words.heads[arcs].astype(np.int64))
        hashes = np.array([strings[name] for name in over_words.label_names], dtype=np.uint64)
        labels.append(hashes[over_words.labels] if len(arcs) else np.zeros(0, np.uint64))
        joint = of_arcs[deps[-1], heads[-1]] * _normalized(over_words)
        probs.append(share * joint)
        if over_words.start_probs is not None:
            start_probs.append(over_words.start_probs.astype(np.float64))
    return TeacherTarget(
        marginals,
        np.concatenate(deps),
        np.concatenate(heads),
        np.concatenate(labels),
        np.concatenate(probs),
        np.mean(start_probs, axis=0) if start_probs else None,
    )


def arc_probabilities(stored: StoredDistribution, n: int) -> NDArray[np.float64]:
    """Compute the arc marginals of a distribution over the words of a sentence.

    Raises ValueError if its arcs allow no tree.
    """
    weights = np.full((n + 1, n + 1), -np.inf)
    weights[stored.dependents, stored.heads] = stored.log_weights
    try:
        return TreeDistribution(weights).marginals
    except NoTreeError as error:
        raise ValueError(
            f"expected tree distributions as root_mst stores them, found one of {n} words whose "
            f"{len(stored.dependents)} arcs make no tree: the Doc was damaged or edited; parse it "
            f"again with the teacher"
        ) from error


def _normalized(stored: StoredDistribution) -> NDArray[np.float64]:
    """Scale the label probabilities of each arc to a sum of one: improbable ones were left out."""
    totals = np.zeros(len(stored.dependents))
    np.add.at(totals, stored.label_arcs, stored.label_probs)
    return stored.label_probs / totals[stored.label_arcs]
