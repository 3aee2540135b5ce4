"""From words back to tokens, whitespace included, and into the Doc."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import DEP, HEAD
from spacy.tokens import Doc

from spacy_rootmind.annotation import doc_trees
from spacy_rootmind.annotation.extensions import keep
from spacy_rootmind.annotation.sentences import Sentences, sentence_starts
from spacy_rootmind.trees.conventions import MISSING

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


@dataclass(frozen=True)
class SentenceParse:
    """A sentence's tree over its scored words.

    Attributes
    ----------
    heads : int array of shape (n + 1,)
        As of `decode`.
    deps : list of str
        Labels of the n words.
    record : dict
        What else is known of it, by words; see `beliefs`.
    """

    heads: NDArray[np.int32]
    deps: list[str]
    record: dict[str, Any]


def doc_parse(
    doc: Doc,
    starts: NDArray[np.int64],
    sentences: Sentences,
    parses: Iterator[SentenceParse],
    root_label: str,
) -> DocParse:
    """Bring a Doc's trees from words to tokens, whitespace included.

    `parses` gives those of its sentences, in order.
    """
    heads = np.full(len(doc), MISSING, dtype=np.int32)
    deps = [SPACE_LABEL] * len(doc)
    records = []
    for start, stop, tokens in zip(
        starts[:-1].tolist(), starts[1:].tolist(), sentences, strict=True
    ):
        parse = next(parses)
        local = parse.heads[1:]
        heads[tokens] = np.where(local == 0, tokens, tokens[local - 1])
        for token, dep in zip(tokens.tolist(), parse.deps, strict=True):
            deps[token] = dep
        if len(tokens) < stop - start:
            attach_spaces(heads[start:stop], start)
            if not len(tokens):
                deps[start] = root_label
        if parse.record:
            record = token_record(parse.record, tokens - start, stop - start)
            # What is known of the tree that is set: another one would not be as probable.
            records.append((start, stop, {**record, "tree": heads[start:stop] - start}))
    return DocParse(heads, deps, starts.astype(np.int32), records or None)


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
    doc_trees.set_trees(doc, parse.heads, deps, parse.starts)
    # Also where nothing is known now: what was known of an earlier parse is not of this one.
    keep(doc, parse.records or ())


def token_record(record: dict[str, Any], words: NDArray[np.int64], n: int) -> dict[str, Any]:
    """Bring what is known of a sentence from its words to its n tokens, whitespace included."""
    record = dict(record)
    if "head_probs" in record:
        probs = np.ones(n, dtype=np.float32)
        probs[words] = record["head_probs"][1:]
        record["head_probs"] = probs
    # The root's label is the last that the parser knows; arcs from ROOT have number -1.
    names = [*record.pop("labels", ()), SPACE_LABEL]
    root = len(names) - 2
    if "heads" in record:
        deps = np.full((len(record["heads"]), n), len(names) - 1, dtype=np.int32)
        deps[:, words] = np.where(record["deps"] < 0, root, record["deps"])[:, 1:]
        if not len(words):
            deps[:, 0] = root
        record["heads"] = _token_heads(record["heads"], words, n)
        record["deps"], record["labels"] = _used_labels(deps, names)
    if "arc_heads" in record:
        deps = words[record["arc_dependents"] - 1]
        heads = record["arc_heads"]
        numbers = np.where(record["arc_labels"] < 0, root, record["arc_labels"])
        record["arc_dependents"] = deps.astype(np.int32)
        record["arc_heads"] = np.where(heads == 0, deps, words[np.maximum(heads, 1) - 1]).astype(
            np.int32
        )
        record["arc_labels"], record["arc_label_names"] = _used_labels(numbers, names)
    return record


def _used_labels(
    numbers: NDArray[np.integer], names: Sequence[str]
) -> tuple[NDArray[np.int32], list[str]]:
    """Give labels new numbers, so that only those are named that occur."""
    used, anew = np.unique(numbers, return_inverse=True)
    return anew.reshape(numbers.shape).astype(np.int32), [names[i] for i in used.tolist()]


def _token_heads(
    heads: NDArray[np.int32], words: NDArray[np.int64], n_tokens: int
) -> NDArray[np.int32]:
    """Bring heads of words, (k, n + 1), to tokens, counted from 0; a root's is its own index."""
    spaces = np.full(n_tokens, MISSING, dtype=np.int32)
    spaces[words] = words
    attach_spaces(spaces, 0)
    out = np.tile(spaces, (len(heads), 1))
    if len(words):
        local = heads[:, 1:]
        out[:, words] = np.where(local == 0, words, words[np.maximum(local, 1) - 1])
    return out


def restore_edges(doc: Doc) -> Doc:
    """Find a parsed Doc's subtrees anew from its heads; returns the Doc.

    spaCy does so by itself where it rebuilds a Doc (`Doc.from_bytes`, `DocBin`, `n_process`), but
    stops early on strongly non-projective trees: `token.left_edge`, `right_edge` and `subtree` are
    then too narrow. Heads, labels and sentences stay as they are.

    Raises
    ------
    ValueError
        If a sentence of the Doc is no tree; it is unchanged then.
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
