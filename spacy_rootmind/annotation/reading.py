"""Annotation that a Doc already has: heads, labels and sentence starts."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import DEP, HEAD, IS_SPACE
from spacy.tokens import Doc

from spacy_rootmind.annotation.sentences import TokenRow
from spacy_rootmind.trees.conventions import MISSING

# Hash of the empty label. spaCy then counts both the head and the label of the token as missing.
NO_LABEL = 0


def choose_root_label(counts: Mapping[str, int]) -> str:
    """Choose the root's label from the labels of root arcs and their counts.

    A label spelled "root", in any case, wins over all others: a missing head next to a known label
    looks like a root arc. Otherwise the most frequent label wins, and the first in alphabetical
    order among equals. "ROOT" where there are no root arcs.
    """
    spelled_root = [label for label in counts if label.lower() == "root"]
    return max(sorted(spelled_root or counts), key=counts.__getitem__, default="ROOT")


def annotated_heads(
    doc: Doc, root_label: str | None = None
) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Read the heads and label hashes of a Doc.

    A root is its own head; a missing head is MISSING. spaCy stores a missing head with a known
    label as the token itself: given the root's label, a token with another label that is its own
    head counts as one without a head.
    """
    annotation = doc.to_array([HEAD, DEP]).reshape((len(doc), 2))
    deps = annotation[:, 1].copy()
    # Offsets come out of unsigned storage as two's complement.
    heads = annotation[:, 0].astype(np.int64) + np.arange(len(doc))
    heads[deps == NO_LABEL] = MISSING
    if root_label is not None:
        for i in (heads == np.arange(len(doc))).nonzero()[0].tolist():
            if doc[i].dep_.lower() not in (root_label.lower(), "root"):
                heads[i] = MISSING
    return heads, deps


def annotated_starts(row: TokenRow, root_label: str) -> NDArray[np.int8]:
    """Infer whether each token starts a sentence: 1 yes, -1 no, 0 unknown.

    These are the Docs' marks, completed, except where heads are missing and spaCy derived the
    boundaries from the heads. A word without a head may belong to the sentence on either side, so
    the boundaries around it are unknown; within a tree, no sentence starts. A token that is its own
    head without the root's label counts as one without a head, if the Doc has tokens with the
    root's label.
    """
    known = row.marks.copy()
    for doc, place in row.docs_with(row.has_label):
        if not doc.has_annotation("SENT_START"):
            continue
        tops, has_root = _trees(doc, root_label)
        if not has_root.all() and _starts_are_those_of_heads(doc):
            own = known[place]
            own[np.append(False, ~(has_root[1:] & has_root[:-1]))] = 0
            own[_within_a_tree(tops)] = -1
    return row.complete_marks(known)


def training_start_marks(doc: Doc, root_label: str) -> NDArray[np.bool_]:
    """Choose the tokens that start a sentence in training.

    These are the known starts and, where words without a head lie between two trees, the first
    token of the second tree: somewhere in between, a sentence starts.
    """
    row = TokenRow([doc])
    known = annotated_starts(row, root_label)
    starts = known == 1
    if (known == 0).any() and doc.has_annotation("DEP"):
        _, has_root = _trees(doc, root_label)
        comes_after_a_tree = np.cumsum(has_root) > has_root
        marked = row.complete_marks(row.marks.copy()) == 1
        starts |= marked & (known == 0) & has_root & comes_after_a_tree
    return starts


def _trees(doc: Doc, root_label: str) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Follow the heads from each token to the last one, and tell whether that is a root.

    It is not a root if a head is missing on the way or the chain runs into a cycle. Whitespace
    without a head belongs to the token before it.
    """
    at = np.arange(len(doc))
    heads, _ = annotated_heads(doc)
    is_root = annotated_heads(doc, root_label)[0] == at
    if not is_root.any():
        # The Doc does not use the parser's labels.
        is_root = heads == at
    tops = np.where(heads == MISSING, at, heads)
    for _ in range(len(doc).bit_length()):
        tops = tops[tops]
    for i in np.flatnonzero((heads == MISSING) & (doc.to_array(IS_SPACE) == 1)).tolist():
        if i:
            tops[i] = tops[i - 1]
    return tops, is_root[tops]


def _within_a_tree(tops: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Mark the tokens after the first of a tree, up to its last."""
    at = np.arange(len(tops))
    first, last = np.full(len(tops), len(tops)), np.zeros(len(tops), dtype=np.int64)
    np.minimum.at(first, tops, at)
    np.maximum.at(last, tops, at)
    change = np.zeros(len(tops) + 1, dtype=np.int64)
    trees = np.unique(tops)
    np.add.at(change, first[trees] + 1, 1)
    np.add.at(change, last[trees] + 1, -1)
    return np.cumsum(change)[:-1] > 0


def _starts_are_those_of_heads(doc: Doc) -> bool:
    """Tell whether a Doc's boundaries are those that spaCy derives from its heads."""
    heads, _ = annotated_heads(doc)
    is_root = heads == np.arange(len(doc))
    made = np.full(len(doc), -1, dtype=np.int8)
    for root in np.flatnonzero(is_root).tolist():
        made[doc[root].left_edge.i] = 1
    marks = TokenRow([doc]).marks
    # Setting heads one by one leaves tokens that they do not reach unmarked.
    agrees = marks == made
    if (heads != MISSING)[~is_root].any():
        agrees |= (marks == 0) & (made == -1)
    return bool(agrees[1:].all())
