"""Tree distributions of a teacher in Docs, and the training targets made from them.

A distribution over trees is stored by its arc weights, not by its arc probabilities. Any
weights give the marginals of a distribution over trees with one root, whichever arcs were left out
and however the weights were rounded. Rounded probabilities do not: if the arcs from ROOT do not sum
to one, the cross entropy of tree distributions has no lower bound.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from spacy.strings import StringStore
from spacy.tokens import Doc, Span
from spacy.training import Example

from spacy_rootmind.annotation.alignment import single_counterparts
from spacy_rootmind.annotation.details import StoredDistribution
from spacy_rootmind.annotation.records import (
    OutdatedDetailsError,
    has_records,
    is_record_key,
    read_record,
)
from spacy_rootmind.annotation.sentences import words_of
from spacy_rootmind.trees.conventions import MISSING, ROOT
from spacy_rootmind.trees.distribution import TreeDistribution
from spacy_rootmind.trees.errors import NoTreeError


@dataclass(frozen=True, eq=False)
class TeacherTarget:
    """A teacher's distribution of a sentence; words are numbered from 1, with ROOT as 0."""

    # Probability of each arc, `marginals[dep, head]`, (n + 1, n + 1), in a distribution over trees
    # with a single root.
    marginals: NDArray[np.float64]
    # Arcs between words, one entry for each of their labels: label hashes, and the probability of
    # arc and label together; all (n_entries,).
    deps: NDArray[np.int64]
    heads: NDArray[np.int64]
    labels: NDArray[np.uint64]
    label_probs: NDArray[np.float64]
    # That each word starts a sentence, (n,); None if the teacher predicts no boundaries.
    start_probs: NDArray[np.float64] | None


def find_targets(
    example: Example, starts: NDArray[np.int64], sentences: Sequence[NDArray[np.int64]]
) -> dict[int, TeacherTarget]:
    """Find the targets of the sentences of a predicted Doc, by the number of the sentence.

    A sentence has a target if the reference has the same sentence with the same tokens and with
    a distribution. `starts` are as from `gold.training_starts`; `sentences` are the scored tokens.
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
        sentence = example.reference[int(gold[0]) : int(gold[-1]) + 1]
        stored = read_distribution(sentence)
        if stored is not None:
            try:
                targets[number] = make_target(stored, len(words), sentence.vocab.strings)
            except ValueError as error:
                text = sentence.text[:40]
                raise ValueError(f"cannot learn the sentence {text!r}: {error}") from error
    return targets


def _has_same_tokens(gold: NDArray[np.int64], predicted_of: NDArray[np.int64], start: int) -> bool:
    """Tell whether tokens from `start` on are consecutive gold tokens, one for one."""
    n = len(gold)
    return (
        gold[0] != MISSING
        and np.array_equal(gold, np.arange(gold[0], gold[0] + n))
        and np.array_equal(predicted_of[gold], np.arange(start, start + n))
    )


def read_distribution(sentence: Span) -> StoredDistribution | None:
    """Read the distribution of a sentence; None if it has none.

    Raises UnreadableDetailsError if its record has another format or is damaged.
    """
    with suppress(OutdatedDetailsError):
        details = read_record(sentence)
        return None if details is None else details.distribution
    return None


def has_distributions(doc: Doc) -> bool:
    """Tell whether a Doc has tree distributions; True for a Doc without words."""
    return not len(words_of(doc)) or any(
        is_record_key(key) and isinstance(record, dict) and "distribution" in record
        for key, record in doc.user_data.items()
    )


def make_target(stored: StoredDistribution, n_words: int, strings: StringStore) -> TeacherTarget:
    """Turn a sentence's distribution into its training target.

    Raises ValueError if the weights allow no tree, as in a damaged Doc.
    """
    marginals, label_probs = find_probabilities(stored, n_words)
    is_inner = stored.heads != stored.dependents
    hashes = np.array([strings[name] for name in stored.label_names], dtype=np.uint64)
    return TeacherTarget(
        marginals,
        stored.dependents[is_inner].astype(np.int64) + 1,
        stored.heads[is_inner].astype(np.int64) + 1,
        hashes[stored.labels[is_inner]],
        label_probs[is_inner],
        None if stored.start_probs is None else stored.start_probs.astype(np.float64),
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
