"""Conversion of trees from words to tokens, and their annotation on a Doc."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import DEP, HEAD
from spacy.tokens import Doc

from spacy_rootmind.annotation import doc_trees
from spacy_rootmind.annotation.details import ParseDetails
from spacy_rootmind.annotation.record_schema import UnreadableDetailsError
from spacy_rootmind.annotation.records import store_records
from spacy_rootmind.annotation.sentences import (
    SPACE_LABEL,
    Sentences,
    attach_spaces,
    sentence_starts,
)
from spacy_rootmind.annotation.teacher_records import read_distributions
from spacy_rootmind.annotation.warn_once import WarnOnce
from spacy_rootmind.trees.conventions import MISSING, ROOT, ROOT_LABEL

warn_of_dropped = WarnOnce(
    "Tree distributions that earlier teachers left on a Doc are dropped: %s."
)


@dataclass(frozen=True, eq=False)
class SentenceParse:
    """The tree of a sentence over its words, numbers of labels, (n,), and details.

    Heads, (n + 1,), are as returned by `decode`.
    """

    heads: NDArray[np.int32]
    labels: NDArray[np.int32]
    details: ParseDetails


class DocParse(NamedTuple):
    """The trees of a Doc over its tokens: heads, where a root is its own, and labels.

    `starts` are as returned by `sentences.sentence_starts`. Details are the first token, the end
    and the details over tokens of each sentence that has any.
    """

    heads: NDArray[np.int32]
    deps: list[str]
    starts: NDArray[np.int32]
    details: Sequence[tuple[int, int, ParseDetails]] = ()


def join_sentences(
    doc: Doc,
    starts: NDArray[np.int64],
    sentences: Sentences,
    parses: Iterator[SentenceParse],
    labels: Sequence[str],
) -> DocParse:
    """Convert the trees of a Doc's sentences from words to tokens, whitespace included.

    `parses` yields the parse of each sentence, in order. `labels` are the names of all labels by
    number, the root's first.
    """
    heads = np.full(len(doc), MISSING, dtype=np.int32)
    deps = [SPACE_LABEL] * len(doc)
    details = []
    for start, stop, tokens in zip(
        starts[:-1].tolist(), starts[1:].tolist(), sentences, strict=True
    ):
        parse = next(parses)
        local = parse.heads[1:]
        heads[tokens] = np.where(local == ROOT, tokens, tokens[local - 1])
        for token, label in zip(tokens.tolist(), parse.labels.tolist(), strict=True):
            deps[token] = labels[label]
        if len(tokens) < stop - start:
            attach_spaces(heads[start:stop], start)
            if not len(tokens):
                deps[start] = labels[ROOT_LABEL]
        if not parse.details.is_empty:
            # The confidence is that of this tree: with other heads it no longer holds.
            tree = heads[start:stop] - start
            details.append((start, stop, parse.details.over_tokens(tokens - start, tree)))
    return DocParse(heads, deps, starts.astype(np.int32), details)


def annotate(doc: Doc, parse: DocParse) -> None:
    """Set heads, labels and sentence boundaries of all tokens; nothing is set on an error."""
    if not len(doc):
        return
    # The Doc's StringStore may be another than the component's.
    hashes = {label: doc.vocab.strings.add(label) for label in set(parse.deps)}
    deps = np.array([hashes[label] for label in parse.deps], dtype=np.uint64)
    doc_trees.set_trees(doc, parse.heads, deps, parse.starts)
    # Even without new details: an earlier parse's no longer hold.
    store_records(doc, [_with_earlier_teachers(doc, *details) for details in parse.details])


def _with_earlier_teachers(
    doc: Doc, start: int, stop: int, details: ParseDetails
) -> tuple[int, int, ParseDetails]:
    """Join a sentence's new distribution to those that other teachers have left on the Doc.

    One that the same teacher has left is replaced. If these cannot be read, they are dropped
    like all else that an earlier parser has left, with a warning: a Doc is parsed whatever it
    carries.
    """
    new = details.distributions
    if new:
        try:
            earlier = read_distributions(doc, start, stop)
        except UnreadableDetailsError as error:
            warn_of_dropped(error)
            earlier = ()
        teachers = {distribution.teacher for distribution in new}
        others = [other for other in earlier if other.teacher not in teachers]
        details = replace(details, distributions=(*others, *new))
    return start, stop, details


def restore_edges(doc: Doc) -> Doc:
    """Recompute the subtrees of a parsed Doc from its heads; returns the Doc.

    spaCy does so by itself when it makes a Doc of a parsed one (`Doc.from_bytes`, `DocBin`,
    `n_process`, `Doc.from_json`, `Doc.from_docs`, `Span.as_doc`) or merges or splits its tokens,
    but stops early on strongly non-projective trees: `token.left_edge`, `right_edge` and `subtree`
    are then too narrow. Heads, labels and sentences stay as they are.

    Raises
    ------
    ValueError
        If a sentence of the Doc is not a tree; the Doc is then unchanged.
    """
    annotation = doc.to_array([HEAD, DEP]).reshape((len(doc), 2))
    heads = annotation[:, 0].astype(np.int64) + np.arange(len(doc))
    doc_trees.set_trees(
        doc,
        heads.astype(np.int32),
        np.ascontiguousarray(annotation[:, 1]),
        sentence_starts(doc).astype(np.int32),
    )
    return doc
