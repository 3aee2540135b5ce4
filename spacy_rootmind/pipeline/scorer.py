"""Attachment scores, registered as `spacy_rootmind.parser_scorer.v1`."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import IS_SPACE
from spacy.scorer import Scorer
from spacy.tokens import Doc, Token
from spacy.training import Example

from spacy_rootmind.annotation.alignment import single_counterparts
from spacy_rootmind.annotation.reading import annotated_heads
from spacy_rootmind.annotation.sentences import sentence_starts
from spacy_rootmind.trees.conventions import MISSING

Marks = NDArray[np.bool_]

# Labels that spaCy's own parser scorer leaves out; compared in lower case.
PUNCTUATION = ("p", "punct")
# The label that stands for one that is not scored at all.
NOT_SCORED = "(not scored)"


def make_parser_scorer() -> Callable[[Iterable[Example]], dict[str, Any]]:
    """Return the scoring function; see `score_parses`."""
    return score_parses


def score_parses(examples: Iterable[Example], **kwargs: Any) -> dict[str, Any]:
    """Score dependency trees and sentence boundaries.

    The scores of spaCy's own parser scorer (`dep_uas`, `dep_las`, `dep_las_per_type`, `sents_p`,
    `sents_r`, `sents_f`), which leaves out tokens labelled "punct" or "p", and:

    - `dep_ls`: share of words with the right label, without punctuation;
    - `dep_uas_all`, `dep_las_all`: attachment scores over all words, with punctuation;
    - `dep_las_conll18`: LAS as in the CoNLL 2018 shared task: the F1 score of right arcs over all
      words, gold and predicted, with labels without their subtypes (after the colon);
    - `dep_uem`, `dep_lem`: share of gold sentences in which every head, or every head and label,
      is right, with punctuation;
    - `root_acc`: share of gold sentences whose root word was predicted as a root;
    - `root_violations`: share of predicted sentences without exactly one root.

    Scores are over words (not whitespace) with a known gold head; a word without a single
    counterpart in the predicted Doc counts as wrong. A score of nothing is None.
    """
    examples = list(examples)
    scored = [scored_words(example) for example in examples]
    results = Scorer.score_spans(examples, "sents", has_annotation=_has_boundaries, **kwargs)
    del results["sents_per_type"]
    results.update(_score_deps(examples, scored, **kwargs))
    counts = Counts()
    for example, (gold_scored, predicted_scored) in zip(examples, scored, strict=True):
        counts.predicted_words += int(predicted_scored.sum())
        _count_arcs(example, gold_scored, counts)
        _count_roots(example.predicted, counts)
    results.update(counts.shares())
    return results


def scored_words(example: Example) -> tuple[Marks, Marks]:
    """Mark the tokens that are scored, in the reference and in the predicted Doc.

    Whitespace is not, nor are words without a gold head, nor predicted words that cover only such.
    """
    x2y = example.alignment.x2y
    gold_scored = _is_word(example.reference)
    gold_scored &= annotated_heads(example.reference)[0] != MISSING
    covers_scored = [not n or gold_scored[x2y[i]].any() for i, n in enumerate(x2y.lengths)]
    return gold_scored, _is_word(example.predicted) & np.array(covers_scored, dtype=bool)


def _is_word(doc: Doc) -> Marks:
    return (doc.to_array(IS_SPACE) == 0).reshape(len(doc))


def _has_boundaries(doc: Doc) -> bool:
    return doc.has_annotation("SENT_START")


def _score_deps(
    examples: list[Example],
    scored: list[tuple[Marks, Marks]],
    *,
    ignore_labels: Iterable[str] = PUNCTUATION,
    **kwargs: Any,
) -> dict[str, Any]:
    """Compute spaCy's scores from the marked tokens.

    `Scorer.score_deps` (spaCy 3.8.18) leaves out the places of missing gold heads in all later Docs
    too, and counts whitespace only in references. A label that it ignores leaves out a token.
    """
    marks: dict[Doc, Marks] = {}

    def marked_examples() -> Iterator[Example]:
        for example, (gold_scored, predicted_scored) in zip(examples, scored, strict=True):
            marks[example.reference] = gold_scored
            marks[example.predicted] = predicted_scored
            yield example

    def label(token: Token, _: str) -> str:
        return token.dep_.lower() if marks[token.doc][token.i] else NOT_SCORED

    ignored = (*ignore_labels, NOT_SCORED)
    return Scorer.score_deps(
        marked_examples(), "dep", getter=label, ignore_labels=ignored, **kwargs
    )


@dataclass
class Counts:
    """Counts over examples, from which the shares are computed."""

    words: int = 0
    heads_right: int = 0
    arcs_right: int = 0
    arcs_right_main: int = 0
    predicted_words: int = 0
    words_np: int = 0
    labels_right_np: int = 0
    sentences: int = 0
    heads_exact: int = 0
    arcs_exact: int = 0
    roots: int = 0
    roots_right: int = 0
    predicted_sentences: int = 0
    not_single_root: int = 0

    def shares(self) -> dict[str, float | None]:
        """Compute the scores."""

        def share(part: int, whole: int) -> float | None:
            return part / whole if whole else None

        return {
            "dep_ls": share(self.labels_right_np, self.words_np),
            "dep_uas_all": share(self.heads_right, self.words),
            "dep_las_all": share(self.arcs_right, self.words),
            "dep_las_conll18": share(2 * self.arcs_right_main, self.words + self.predicted_words),
            "dep_uem": share(self.heads_exact, self.sentences),
            "dep_lem": share(self.arcs_exact, self.sentences),
            "root_acc": share(self.roots_right, self.roots),
            "root_violations": share(self.not_single_root, self.predicted_sentences),
        }


def _count_arcs(example: Example, scored: Marks, counts: Counts) -> None:
    """Compare one example's arcs, gold word by gold word."""
    gold_doc, doc = example.reference, example.predicted
    gold_heads, _ = annotated_heads(gold_doc)
    heads, _ = annotated_heads(doc)
    doc_of = single_counterparts(example.alignment.y2x)
    gold_of = single_counterparts(example.alignment.x2y)
    gold_labels = [token.dep_.lower() for token in gold_doc]
    labels = [token.dep_.lower() for token in doc]
    head_right = np.zeros(len(gold_doc), dtype=bool)
    label_right = np.zeros(len(gold_doc), dtype=bool)
    main_right = np.zeros(len(gold_doc), dtype=bool)
    for i in scored.nonzero()[0].tolist():
        predicted = doc_of[i]
        if predicted == MISSING or gold_of[predicted] != i or heads[predicted] == MISSING:
            continue
        head_right[i] = gold_of[heads[predicted]] == gold_heads[i]
        label_right[i] = labels[predicted] == gold_labels[i]
        # A piece of the gold head does not count as the gold head.
        main_right[i] = doc_of[gold_heads[i]] == heads[predicted] and (
            labels[predicted].split(":")[0] == gold_labels[i].split(":")[0]
        )
    plain = scored & np.array([label not in PUNCTUATION for label in gold_labels], dtype=bool)
    both_right = head_right & label_right
    counts.words += int(scored.sum())
    counts.heads_right += int(head_right[scored].sum())
    counts.arcs_right += int(both_right[scored].sum())
    counts.arcs_right_main += int((head_right & main_right)[scored].sum())
    counts.words_np += int(plain.sum())
    counts.labels_right_np += int(label_right[plain].sum())
    _count_sentences(gold_doc, gold_heads, scored, head_right, both_right, counts)


def _count_sentences(
    gold_doc: Doc, gold_heads: Any, scored: Any, head_right: Any, both_right: Any, counts: Counts
) -> None:
    """Count exact matches and right roots, gold sentence by gold sentence."""
    starts = sentence_starts(gold_doc)
    for start, stop in itertools.pairwise(starts):
        inside = np.arange(start, stop)[scored[start:stop]]
        if not len(inside):
            continue
        counts.sentences += 1
        counts.heads_exact += bool(head_right[inside].all())
        counts.arcs_exact += bool(both_right[inside].all())
        roots = inside[gold_heads[inside] == inside]
        if len(roots) == 1:
            counts.roots += 1
            counts.roots_right += bool(head_right[roots[0]])


def _count_roots(doc: Doc, counts: Counts) -> None:
    """Count the predicted sentences without exactly one root; unparsed Docs do not count."""
    if not doc.has_annotation("DEP"):
        return
    heads, _ = annotated_heads(doc)
    starts = sentence_starts(doc)
    for start, stop in itertools.pairwise(starts):
        inside = heads[start:stop]
        counts.predicted_sentences += 1
        counts.not_single_root += int((inside == np.arange(start, stop)).sum() != 1)
