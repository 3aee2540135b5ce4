"""Gold trees of training examples, aligned with the tokens and sentences to parse."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import pairwise
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import DEP, HEAD, IS_SPACE, ORTH, SENT_START
from spacy.tokens import Doc
from spacy.training import Example

from spacy_rootmind.annotation.alignment import aligned_heads
from spacy_rootmind.annotation.reading import (
    NO_LABEL,
    annotated_heads,
    annotated_starts,
    training_start_marks,
)
from spacy_rootmind.annotation.records import has_records
from spacy_rootmind.annotation.sentences import (
    CERTAIN,
    Sentences,
    TokenRow,
    bounds,
    choose_starts,
    row_starts,
    scored_tokens,
    words_of,
)
from spacy_rootmind.annotation.teacher_records import TeacherTarget, find_targets
from spacy_rootmind.trees.checks import is_tree
from spacy_rootmind.trees.conventions import MISSING

# The attributes of tokens that gold trees and their alignment depend on.
READ = [ORTH, IS_SPACE, HEAD, DEP, SENT_START]


def _predicted_words(example: Example, starts: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Find the first predicted word of each reference sentence."""
    lengths = np.asarray(example.alignment.y2x.lengths)
    ends = np.cumsum(lengths)
    predicted = np.asarray(example.alignment.y2x.data)
    found = []
    for first, stop in pairwise(bounds(np.flatnonzero(starts), len(starts)).tolist()):
        begin = ends[first] - lengths[first]
        # A sentence may have no counterpart in the predicted Doc at all.
        if begin < ends[stop - 1]:
            found.append(int(predicted[begin]))
    words = words_of(example.predicted)
    # Whitespace belongs to the sentence before.
    place = np.searchsorted(words, found)
    return words[place[place < len(words)]]


def training_starts(
    example: Example, root_label: str, mode: str = "auto", max_words: int | None = None
) -> NDArray[np.int64]:
    """Choose the sentence starts to train with: the Doc's own, and gold ones where it has none.

    With mode "doc", the Doc is one sentence. Sentences of more than `max_words` words are split.
    """
    doc, gold = example.predicted, example.reference
    row = TokenRow([doc])
    if mode == "doc" or not len(doc):
        starts = bounds([], len(doc))
    else:
        likely = np.full(len(doc), -1.0)
        if gold.has_annotation("SENT_START"):
            likely[_predicted_words(example, training_start_marks(gold, root_label))] = 1.0
        starts = row_starts(row, likely + CERTAIN * annotated_starts(row, root_label))
    if max_words is None or max_words >= len(doc):
        return starts
    log_odds = np.full(len(doc), -1.0)
    log_odds[starts[:-1]] = 1.0
    return choose_starts(row, log_odds, max_words)[0]


def gold_boundaries(example: Example, root_label: str) -> NDArray[np.int8]:
    """Tell which predicted tokens start a gold sentence: 1 yes, 0 no, MISSING unknown.

    Whitespace and a Doc's first word are never trained on, nor are tokens that the reference leaves
    open; see `reading.annotated_starts`.
    """
    doc, gold = example.predicted, example.reference
    truths = np.full(len(doc), MISSING, dtype=np.int8)
    if not len(doc) or not gold.has_annotation("SENT_START"):
        return truths
    gold_starts = annotated_starts(TokenRow([gold]), root_label)
    covered = np.asarray(example.alignment.x2y.data)
    token = np.repeat(np.arange(len(doc)), np.asarray(example.alignment.x2y.lengths))
    # A token cannot start a sentence if none of the gold tokens that it covers may.
    may_start = np.zeros(len(doc), dtype=bool)
    may_start[token[gold_starts[covered] >= 0]] = True
    words = words_of(doc)[1:]
    truths[words[~may_start[words]]] = 0
    starts = _predicted_words(example, gold_starts == 1)
    truths[starts[np.isin(starts, words)]] = 1
    return truths


@dataclass(frozen=True, eq=False)
class GoldBatch:
    """Gold trees of a batch, in flat rows: per sentence ROOT's row, then one per word."""

    # The tokens to score, one list of sentences per Doc.
    sentences: list[Sentences]
    # Flat row of each row's gold head, (n_rows,); MISSING where unknown, for ROOT, and in sentences
    # with teachers. And label hashes; 0 where the head is MISSING or the label unknown.
    heads: NDArray[np.int64]
    deps: NDArray[np.uint64]
    # Probability that each token starts a sentence, one Doc after another: as returned by
    # `gold_boundaries`, or what teachers say.
    boundaries: NDArray[np.float64]
    # Targets of sentences with teachers, by their number in the batch. They replace gold.
    targets: Mapping[int, TeacherTarget] = field(default_factory=dict)

    @classmethod
    def from_examples(
        cls,
        examples: Iterable[Example],
        root_label: str,
        mode: str = "auto",
        max_words: int | None = None,
        *,
        teachers: bool = True,
    ) -> "GoldBatch":
        """Align each example; a head outside the sentence or on whitespace counts as missing.

        `training_starts` explains `mode` and `max_words`. Without `teachers`, the distributions
        that references may have are ignored.
        """
        settings = (root_label, mode, max_words, teachers)
        return _joined([_kept_gold(example, settings) for example in examples])


# Gold of references that are still in memory, next to a digest of what it was made from.
_KEPT: WeakKeyDictionary[Doc, tuple[bytes, GoldBatch]] = WeakKeyDictionary()


def _joined(parts: Sequence[GoldBatch]) -> GoldBatch:
    """Join the gold trees of Docs."""
    heads, targets = [np.zeros(0, dtype=np.int64)], {}
    n_rows = n_sentences = 0
    for part in parts:
        heads.append(np.where(part.heads == MISSING, MISSING, part.heads + n_rows))
        for number, target in part.targets.items():
            targets[n_sentences + number] = target
        n_rows += len(part.heads)
        n_sentences += len(part.sentences[0])
    return GoldBatch(
        [sentences for part in parts for sentences in part.sentences],
        np.concatenate(heads),
        np.concatenate([np.zeros(0, dtype=np.uint64), *(part.deps for part in parts)]),
        np.concatenate([np.zeros(0), *(part.boundaries for part in parts)]),
        targets,
    )


def _kept_gold(example: Example, settings: tuple[Any, ...]) -> GoldBatch:
    """Align an example, or return what this gave before, as in an earlier epoch.

    `nlp.update` copies predicted Docs: only references are the same in each epoch. Distributions of
    teachers have no digest.
    """
    docs = (example.predicted, example.reference)
    if has_records(example.reference):
        return _align(example, *settings)
    found = blake2b(repr((settings, *map(len, docs))).encode())
    for doc in docs:
        found.update(doc.to_array(READ).tobytes())
    digest = found.digest()
    kept, gold = _KEPT.get(example.reference, (None, None))
    if gold is None or kept != digest:
        gold = _align(example, *settings)
        _KEPT[example.reference] = digest, gold
    return gold


def _align(
    example: Example, root_label: str, mode: str, max_words: int | None, teachers: bool
) -> GoldBatch:
    """Find the gold trees of one Doc; see `GoldBatch.from_examples`."""
    starts = training_starts(example, root_label, mode, max_words)
    sentences = scored_tokens(TokenRow([example.predicted]), starts)
    heads, deps = aligned_heads(example, root_label)
    boundaries = gold_boundaries(example, root_label).astype(np.float64)
    targets = find_targets(example, starts, sentences) if teachers else {}
    for number, target in targets.items():
        words = sentences[number]
        heads[words], deps[words] = MISSING, NO_LABEL
        if target.start_probs is not None:
            truths = boundaries[words]
            boundaries[words] = np.where(truths == MISSING, truths, target.start_probs)
    row_heads, row_deps, n_rows = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.uint64)], 0
    for tokens in sentences:
        local, known = _within_sentence(heads, tokens)
        row_heads += [np.array([MISSING]), np.where(known, local + n_rows, MISSING)]
        row_deps += [np.zeros(1, np.uint64), np.where(known, deps[tokens], NO_LABEL)]
        n_rows += len(tokens) + 1
    return GoldBatch(
        [sentences],
        np.concatenate(row_heads),
        np.concatenate(row_deps).astype(np.uint64),
        boundaries,
        targets,
    )


def _within_sentence(
    heads: NDArray[np.int64], tokens: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Convert heads to places in their sentence, 0 for ROOT; also mark those that are known."""
    gold = heads[tokens]
    place = np.searchsorted(tokens, gold)
    place[place == len(tokens)] = 0
    known = (gold != MISSING) & (tokens[place] == gold) if len(tokens) else gold != MISSING
    return np.where(gold == tokens, 0, place + 1), known


def drop_contradictions(heads: NDArray[np.int64], lengths: NDArray[np.intp]) -> NDArray[np.int64]:
    """Drop gold heads that no tree with a single root can have together.

    Heads are of shape (b, m), MISSING where unknown, for ROOT and in the padding. In the result,
    they are MISSING also on cycles, and for all root tokens of a sentence with several. Some tree
    agrees with all the others.
    """
    at_root = np.where(heads == MISSING, 0, heads)
    at_root[:, 0] = MISSING
    sound = np.atleast_1d(is_tree(at_root, lengths=lengths, single_root=False))
    sound &= (heads == 0).sum(axis=1) <= 1
    if sound.all():
        return heads
    heads = heads.copy()
    for sentence in np.flatnonzero(~sound).tolist():
        sent_heads = heads[sentence]
        sent_heads[on_cycles(sent_heads)] = MISSING
        if (sent_heads == 0).sum() > 1:
            sent_heads[sent_heads == 0] = MISSING
    return heads


def on_cycles(heads: NDArray[np.int64]) -> list[int]:
    """List the words that are their own ancestors, of a sentence with a place for ROOT."""
    above = np.maximum(heads, 0)
    # After n steps up, only ROOT and words on cycles are left.
    for _ in range(len(heads).bit_length()):
        above = above[above]
    return sorted(set(above.tolist()) - {0})


def count_labels(examples: Sequence[Example]) -> tuple[dict[str, int], dict[str, int]]:
    """Count the labels of root arcs, and of all other arcs, in the references."""
    roots: dict[str, int] = {}
    others: dict[str, int] = {}
    for example in examples:
        heads, deps = annotated_heads(example.reference)
        is_root = heads == np.arange(len(heads))
        for counts, chosen in ((roots, is_root), (others, ~is_root & (heads != MISSING))):
            labels, frequencies = np.unique(deps[chosen], return_counts=True)
            for label, frequency in zip(labels.tolist(), frequencies.tolist(), strict=True):
                name = example.reference.vocab.strings[label]
                counts[name] = counts.get(name, 0) + frequency
    return roots, others
