"""What a Doc says already of heads and of where sentences start, and what it leaves open."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import DEP, HEAD, IS_SPACE, SENT_START
from spacy.tokens import Doc

from spacy_rootmind.trees.conventions import MISSING

# The hash of no label at all; spaCy calls both head and label of such a token missing.
NO_LABEL = 0


def choose_root_label(counts: Mapping[str, int]) -> str:
    """Choose the root's label from the labels of root arcs and their counts.

    A label spelled "root", in any case, wins over all others: a missing head next to a known label
    looks like a root arc. Otherwise the most frequent label wins, and the first in alphabetical
    order among equals. "ROOT" where there are no root arcs.
    """
    spelled_root = [label for label in counts if label.lower() == "root"]
    return max(sorted(spelled_root or counts), key=counts.__getitem__, default="ROOT")


def reference_heads(
    doc: Doc, root_label: str | None = None
) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Heads (a root's is its own index, MISSING where unknown) and label hashes of a Doc.

    spaCy stores a head that is missing beside a known label as the token itself. Given the root's
    label, such tokens are told from roots by their own.
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


def known_boundaries(doc: Doc) -> NDArray[np.int8]:
    """Tell for each token whether it starts a sentence: 1 yes, -1 no, 0 unknown.

    The first token of a Doc does; a whitespace token of which nothing is said does not.
    """
    known = doc.to_array(SENT_START).astype("i8").astype("i1").reshape(len(doc))
    is_space = doc.to_array(IS_SPACE).astype(bool).reshape(len(doc))
    known[is_space & (known == 0)] = -1
    known[:1] = 1
    return known


def known_starts(doc: Doc, root_label: str) -> NDArray[np.int8]:
    """Tell for each token whether it is known to start a sentence: 1 yes, -1 no, 0 unknown.

    As `known_boundaries`, but where heads are missing and boundaries are only those that spaCy made
    of heads: a word without a head may belong to the sentence on either side, so nothing is known
    beside it; within a tree, nothing starts. A token that is its own head counts as one without a
    head if its label is no root's, and others in the Doc have one.
    """
    known = known_boundaries(doc)
    if not (doc.has_annotation("DEP") and doc.has_annotation("SENT_START")):
        return known
    tops, has_root = _trees(doc, root_label)
    if has_root.all() or not _starts_are_those_of_heads(doc):
        return known
    within = _within_a_tree(tops)
    beside_missing = np.append(False, ~(has_root[1:] & has_root[:-1]))
    known[beside_missing] = 0
    known[within] = -1
    known[:1] = 1
    return known


def likely_starts(doc: Doc, root_label: str) -> NDArray[np.bool_]:
    """Tell which tokens start a sentence to train with.

    Those known to, and where words without a head lie between two trees, the first of the second:
    somewhere there, a sentence starts.
    """
    known = known_starts(doc, root_label)
    starts = known == 1
    if (known == 0).any() and doc.has_annotation("DEP"):
        _, has_root = _trees(doc, root_label)
        comes_after_a_tree = np.cumsum(has_root) > has_root
        marked = known_boundaries(doc) == 1
        starts |= marked & (known == 0) & has_root & comes_after_a_tree
    return starts


def _trees(doc: Doc, root_label: str) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Find the token that each one's chain of heads ends at, and whether that is a root.

    It is none where a head is missing on the way, or the chain runs into a cycle. Whitespace
    without a head counts with the token before it.
    """
    at = np.arange(len(doc))
    heads, _ = reference_heads(doc)
    is_root = reference_heads(doc, root_label)[0] == at
    if not is_root.any():
        # The labels are others than the parser's.
        is_root = heads == at
    tops = np.where(heads == MISSING, at, heads)
    for _ in range(len(doc).bit_length()):
        tops = tops[tops]
    for i in np.flatnonzero((heads == MISSING) & (doc.to_array(IS_SPACE) == 1)).tolist():
        if i:
            tops[i] = tops[i - 1]
    return tops, is_root[tops]


def _within_a_tree(tops: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell which tokens come after the first of a tree, and not after its last."""
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
    """Tell whether boundaries are what spaCy makes of heads, and say nothing of their own."""
    heads, _ = reference_heads(doc)
    own = heads == np.arange(len(doc))
    made = np.full(len(doc), -1, dtype=np.int8)
    for root in np.flatnonzero(own).tolist():
        made[doc[root].left_edge.i] = 1
    marks = doc.to_array(SENT_START).astype("i8").astype("i1")
    # Heads that are set one by one leave what they do not reach without a mark.
    agrees = marks == made
    if (heads != MISSING)[~own].any():
        agrees |= (marks == 0) & (made == -1)
    return bool(agrees[1:].all())
