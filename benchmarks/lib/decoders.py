"""Decoders to compare, and our own algorithms among them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lib.inputs import Batch
from spacy_rootmind import __version__
from spacy_rootmind.trees import decoding

Call = Callable[[], Any]

# Tasks of decoders.
ONE_ROOT, ANY_ROOTS, ARGMAX = "one root", "any roots", "argmax"


@dataclass(frozen=True)
class Decoder:
    """One way to decode a batch.

    `bind` converts a batch to the decoder's own layout and dtype (not timed), and returns the call
    to time. It can be repeated, and returns the heads of each sentence. `precision` is the type of
    the decoder's arithmetic, which bounds the rounding error of its scores.
    """

    name: str
    kind: str
    task: str
    bind: Callable[[Batch], Call]
    language: str
    version: str
    precision: type[np.floating] = np.float64
    note: str = ""


def one_by_one(
    decode: Callable[[Any], Any], convert: Callable[[NDArray[np.floating]], Any]
) -> Callable[[Batch], Call]:
    """Bind a decoder that takes one sentence per call."""

    def bind(batch: Batch) -> Call:
        inputs = [convert(scores) for scores in batch.sentences()]
        return lambda: [decode(scores) for scores in inputs]

    return bind


def padded_heads(result: Sequence[Any], batch: Batch) -> NDArray[np.int32]:
    """Convert any decoder's heads to our form: padded, with -1 at index 0 and in the padding."""
    heads = np.full(batch.scores.shape[:2], -1, dtype=np.int32)
    for row, tree, n in zip(heads, result, batch.lengths, strict=True):
        row[1 : n + 1] = np.asarray(tree[1 : n + 1], dtype=np.int64)
    return heads


def _our_batch(**options: Any) -> Callable[[Batch], Call]:
    return lambda batch: lambda: decoding.decode(batch.scores, lengths=batch.lengths, **options)


def _our_calls(**options: Any) -> Callable[[Batch], Call]:
    return one_by_one(lambda scores: decoding.decode(scores, **options), lambda scores: scores)


def _ours(name: str, task: str, bind: Callable[[Batch], Call]) -> Decoder:
    return Decoder(name, "ours", task, bind, "Cython", __version__)


def our_decoders() -> list[Decoder]:
    """List our algorithms: the default, with ArcMax and without, and those compared with it."""
    found = []
    for name, options in (
        ("gabow_tarjan", {}),
        ("gabow_tarjan, ArcMax off", {"arcmax": False}),
        ("reweighting", {"algorithm": "reweighting"}),
    ):
        found.append(_ours(name, ONE_ROOT, _our_batch(**options)))
    found.append(_ours("gabow_tarjan, one call each", ONE_ROOT, _our_calls()))
    free = {"algorithm": "tarjan", "single_root": False}
    found.append(_ours("tarjan", ANY_ROOTS, _our_batch(**free)))
    found.append(_ours("tarjan, one call each", ANY_ROOTS, _our_calls(**free)))
    return found


def row_argmax() -> Decoder:
    """Find the best head of each word with NumPy: a reference, not a decoder."""

    def bind(batch: Batch) -> Call:
        if len(set(batch.lengths.tolist())) == 1:
            return lambda: batch.scores.argmax(axis=2)
        sentences = batch.sentences()
        return lambda: [scores.argmax(axis=1) for scores in sentences]

    note = "reads the scores once; no tree"
    return Decoder("row argmax (NumPy)", "reference", ARGMAX, bind, "C", np.__version__, note=note)
