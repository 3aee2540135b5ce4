"""Conversion of trees from words to tokens, and their annotation on a Doc."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc

from spacy_rootmind.annotation import doc_trees
from spacy_rootmind.annotation.details import ParseDetails
from spacy_rootmind.annotation.records import store_records
from spacy_rootmind.annotation.sentences import SPACE_LABEL, Starts, TokenRow


class ParsedSentences(NamedTuple):
    """The trees of sentences over their words, one after the other, and the details of each.

    Heads and labels have a row for the ROOT of each sentence and then one for each word: heads as
    returned by `decode`, and numbers of labels. Details are None where nothing was asked for.
    """

    heads: NDArray[np.int32]
    labels: NDArray[np.int32]
    details: Sequence[ParseDetails | None]


class DocParse(NamedTuple):
    """The trees of a Doc over its tokens: heads, where a root is its own, and labels.

    Labels are places in `label_names`. `starts` are as returned by `sentences.sentence_starts`.
    Details are the first token, the end and the details of each sentence that has any.
    """

    heads: NDArray[np.int32]
    labels: NDArray[np.int32]
    label_names: Sequence[str]
    starts: NDArray[np.int32]
    details: Sequence[tuple[int, int, ParseDetails]] = ()


def join_sentences(
    row: TokenRow, starts: Starts, trees: ParsedSentences, labels: Sequence[str]
) -> list[DocParse]:
    """Convert the trees of the sentences of Docs from words to tokens, whitespace included.

    `labels` are the names of all labels by number, the root's first.
    """
    names, parses = (*labels, SPACE_LABEL), []
    heads, numbers = doc_trees.join_trees(starts, row.words, trees.heads, trees.labels, len(labels))
    stops = starts.searchsorted(row.bounds).tolist()
    for number, sentences in enumerate(itertools.starmap(range, itertools.pairwise(stops))):
        place, details = row.place(number), []
        for i in sentences:
            of_words = trees.details[i]
            if of_words is not None:
                first, stop = starts[i : i + 2].tolist()
                # The confidence is about this tree, and does not hold with other heads.
                tree = heads[first:stop] - np.int32(first)
                found = replace(of_words, tree=tree, is_word=~row.is_space[first:stop])
                details.append((first - place.start, stop - place.start, found))
        own = starts[sentences.start : sentences.stop + 1] - place.start
        own_heads = heads[place] - np.int32(place.start)
        parses.append(DocParse(own_heads, numbers[place], names, own.astype(np.int32), details))
    return parses


def annotate(doc: Doc, parse: DocParse) -> None:
    """Set heads, labels and sentence boundaries of all tokens; nothing is set on an error."""
    if not len(doc):
        return
    # The Doc's StringStore may be another than the component's.
    hashes = np.zeros(len(parse.label_names), dtype=np.uint64)
    for label in set(parse.labels.tolist()):
        hashes[label] = doc.vocab.strings.add(parse.label_names[label])
    doc_trees.set_trees(doc, parse.heads, hashes[parse.labels], parse.starts)
    # Even without new details: an earlier parse's no longer hold.
    if parse.details or doc.user_data:
        store_records(doc, parse.details)
