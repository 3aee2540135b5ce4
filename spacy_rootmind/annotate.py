"""From rows back to tokens, and into the Doc."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc

from spacy_rootmind._doc import set_trees
from spacy_rootmind.alternatives import keep
from spacy_rootmind.loss import MISSING
from spacy_rootmind.sentences import Sentences

# Label of whitespace tokens, which have no relation of their own; spaCy's for "some relation".
SPACE_LABEL = "dep"


class DocParse(NamedTuple):
    """Predicted trees of one Doc: token-level heads (a root's is its own index) and labels.

    `records` is what else is known of sentences, see `alternatives`; None if nothing was asked for.
    """

    heads: NDArray[np.int32]
    deps: list[str]
    starts: NDArray[np.int32]
    records: Sequence[tuple[int, int, dict[str, Any]]] | None = None


def token_parse(
    doc: Doc,
    starts: NDArray[np.int64],
    sentences: Sentences,
    row_heads: NDArray[np.int64],
    row_deps: Sequence[str],
    root_label: str,
) -> DocParse:
    """Bring a Doc's trees from rows to tokens, whitespace included."""
    heads = np.full(len(doc), MISSING, dtype=np.int32)
    deps = [SPACE_LABEL] * len(doc)
    row = 0
    for start, stop, tokens in zip(starts[:-1], starts[1:], sentences, strict=True):
        local = row_heads[row + 1 : row + 1 + len(tokens)] - row - 1
        heads[tokens] = np.where(local < 0, tokens, tokens[local])
        for place, token in enumerate(tokens.tolist(), start=row + 1):
            deps[token] = row_deps[place]
        row += len(tokens) + 1
        if len(tokens) < stop - start:
            attach_spaces(heads[start:stop], int(start))
            if not len(tokens):
                deps[start] = root_label
    return DocParse(heads, deps, starts.astype(np.int32))


def attach_spaces(heads: NDArray[np.int32], start: int) -> None:
    """Attach a sentence's whitespace tokens, in place: to the word before, else to the first.

    Where there is no word at all, the first token is the root.
    """
    words = (heads != MISSING).nonzero()[0]
    spaces = (heads == MISSING).nonzero()[0]
    if len(words):
        before = np.searchsorted(words, spaces) - 1
        heads[spaces] = start + words[np.maximum(before, 0)]
    else:
        heads[:] = start


def annotate(doc: Doc, parse: DocParse) -> None:
    """Set heads, labels and sentence boundaries of all tokens; nothing is set on an error."""
    if not len(doc):
        return
    # The Doc's StringStore may be another than the component's.
    hashes = {label: doc.vocab.strings.add(label) for label in set(parse.deps)}
    deps = np.array([hashes[label] for label in parse.deps], dtype=np.uint64)
    set_trees(doc, parse.heads, deps, parse.starts)
    # Also where nothing is known now: what was known of an earlier parse is not of this one.
    keep(doc, parse.records or ())
