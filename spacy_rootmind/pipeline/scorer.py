"""Attachment scores, registered as `spacy_rootmind.parser_scorer.v1`."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
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
# The score of each name: the counts whose share it is. "_np" is without punctuation.
SHARES = {
    "dep_ls": ("labels_right_np", "words_np"),
    "dep_uas_all": ("heads_right", "words"),
    "dep_las_all": ("arcs_right", "words"),
    # An F1 score: each right arc is one of both.
    "dep_las_conll18": ("main_arcs_right_in_both", "words_in_both"),
    "dep_uem": ("heads_exact", "sentences"),
    "dep_lem": ("arcs_exact", "sentences"),
    "root_acc": ("roots_right", "roots"),
    "root_violations": ("not_single_root", "predicted_sentences"),
}


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
    counts: Counter[str] = Counter()
    for example, (gold_scored, predicted_scored) in zip(examples, scored, strict=True):
        counts["words_in_both"] += int(gold_scored.sum() + predicted_scored.sum())
        _count_arcs(example, gold_scored, counts)
        _count_roots(example.predicted, counts)
    for name, (part, whole) in SHARES.items():
        results[name] = counts[part] / counts[whole] if counts[whole] else None
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


def _count_arcs(example: Example, scored: Marks, counts: Counter[str]) -> None:
    """Compare one example's arcs, gold word by gold word."""
    gold_doc, doc = example.reference, example.predicted
    gold_heads, heads = annotated_heads(gold_doc)[0], annotated_heads(doc)[0]
    doc_of = single_counterparts(example.alignment.y2x)
    gold_of = single_counterparts(example.alignment.x2y)
    gold_labels, labels = ([token.dep_.lower() for token in each] for each in (gold_doc, doc))
    head_right, label_right, main_right = np.zeros((3, len(gold_doc)), dtype=bool)
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
    counts["words"] += int(scored.sum())
    counts["heads_right"] += int(head_right.sum())
    counts["arcs_right"] += int(both_right.sum())
    counts["main_arcs_right_in_both"] += 2 * int((head_right & main_right).sum())
    counts["words_np"] += int(plain.sum())
    counts["labels_right_np"] += int(label_right[plain].sum())
    for start, stop in itertools.pairwise(sentence_starts(gold_doc)):
        inside = np.arange(start, stop)[scored[start:stop]]
        if not len(inside):
            continue
        counts["sentences"] += 1
        counts["heads_exact"] += bool(head_right[inside].all())
        counts["arcs_exact"] += bool(both_right[inside].all())
        roots = inside[gold_heads[inside] == inside]
        if len(roots) == 1:
            counts["roots"] += 1
            counts["roots_right"] += bool(head_right[roots[0]])


def _count_roots(doc: Doc, counts: Counter[str]) -> None:
    """Count the predicted sentences without exactly one root; unparsed Docs do not count."""
    if not doc.has_annotation("DEP"):
        return
    heads, _ = annotated_heads(doc)
    for start, stop in itertools.pairwise(sentence_starts(doc)):
        n_roots = (heads[start:stop] == np.arange(start, stop)).sum()
        counts["predicted_sentences"] += 1
        counts["not_single_root"] += int(n_roots != 1)
