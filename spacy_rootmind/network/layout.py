"""Layout of a batch of sentences in flat and padded arrays.

All layers share one flat array, with a row for ROOT and one for each word, sentence by sentence.
Only the square arc scores are padded: sentences of similar length share a bucket, so that padding
stays a small part of the work whatever the lengths in a batch.

What runs on the host reads NumPy arrays of a layout. Layers read `Layout.on_device`, which is all
copied to the network's device at once; on the CPU, nothing is copied.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from thinc.api import Ops, get_array_module

from spacy_rootmind.kernel import layers as kernel
from spacy_rootmind.network import distance
from spacy_rootmind.network.ops import is_compiled
from spacy_rootmind.network.transfer import to_device
from spacy_rootmind.network.types import Floats2d, Floats3d, Ints1d, Ints2d

# Longest sentence of a bucket as a multiple of its shortest ...
MAX_STRETCH = 1.25
# ... or by this many more words, which cost little in short sentences.
MIN_SLACK = 3
# Scores in a bucket, which bounds memory.
MAX_BUCKET_SCORES = 1 << 20


@dataclass
class Bucket:
    """Sentences padded to a common number of positions m, ROOT's included.

    Attributes
    ----------
    sentences : list of int
        Number of each sentence in the batch, along the first axis.
    lengths : numpy int array of shape (b,)
        Words in each.
    rows : numpy int array of shape (b, m)
        Flat row of each position; `n_rows` past the end of a sentence.
    n_rows : int
        Number of rows of the flat array.
    """

    sentences: list[int]
    lengths: Ints1d
    rows: Ints2d
    n_rows: int

    @cached_property
    def allowed(self) -> Floats3d:
        """1 where (dep, head) may be an arc: both inside, dep not ROOT, and not equal."""
        return _allowed_arcs(self.lengths, self.rows.shape[1])

    def select(self, places: Ints1d) -> "Bucket":
        """Make a bucket of some of its sentences, with the same padding."""
        sentences = [self.sentences[place] for place in places.tolist()]
        return Bucket(sentences, self.lengths[places], self.rows[places], self.n_rows)


@dataclass
class DeviceBucket:
    """A bucket of b sentences and m positions, for layers.

    Attributes
    ----------
    shape : (int, int)
        (b, m)
    lengths : int array of shape (b,)
    positions, rows : int array of shape (k,)
        Positions inside sentences, in (b, m) flattened, and their flat rows.
    distances : int array of shape (m, m)
        `distance.bucket_table(m)`.
    padded_rows : numpy int array of shape (b, m)
        `Bucket.rows`, on the host.
    is_compiled : bool
        Whether compiled loops take the layers' arrays.
    """

    padded_rows: Ints2d
    is_compiled: bool
    shape: tuple[int, int]
    lengths: Ints1d
    positions: Ints1d
    rows: Ints1d
    distances: Ints2d

    @cached_property
    def allowed(self) -> Floats3d:
        """As that of `Bucket`."""
        return _allowed_arcs(self.lengths, self.shape[1])

    def pad(self, flat: Floats2d) -> Floats3d:
        """Copy rows (n_rows, w) to (b, m, w), with zeros past the end of each sentence."""
        if self.is_compiled:
            return kernel.pad(np.ascontiguousarray(flat), self.padded_rows)
        b, m = self.shape
        padded = get_array_module(flat).zeros((b * m, flat.shape[1]), dtype=flat.dtype)
        padded[self.positions] = flat[self.rows]
        return padded.reshape((b, m, flat.shape[1]))

    def add_unpadded(self, padded: Floats3d, out: Floats2d) -> None:
        """Add (b, m, w) to its rows in `out`; entries past the end of a sentence are dropped."""
        if self.is_compiled:
            kernel.add_unpadded(np.ascontiguousarray(padded), self.padded_rows, out)
            return
        # Each row occurs once, so plain indexing adds everything.
        out[self.rows] += padded.reshape((-1, padded.shape[2]))[self.positions]


class SumRanges(NamedTuple):
    """Starts and stops of sums over heads, and over dependents: see `distance.sum_ranges`."""

    over_heads: tuple[Ints2d, Ints2d]
    over_deps: tuple[Ints2d, Ints2d]


@dataclass
class DeviceLayout:
    """What layers read of a layout; its attributes are those of `Layout`."""

    roots: Ints1d
    words: Ints1d
    sentence_of_row: Ints1d
    buckets: list[DeviceBucket]

    @cached_property
    def sum_ranges(self) -> list[SumRanges]:
        """Ranges of sums over the distances in each bucket; only gradients need them."""
        tables = [
            table
            for bucket in self.buckets
            for over_heads in (True, False)
            for table in distance.sum_ranges(bucket.shape[1], over_heads)
        ]
        found = iter(to_device(get_array_module(self.roots), tables))
        return [SumRanges((a, b), (c, d)) for a, b, c, d in zip(*[found] * 4, strict=True)]


@dataclass
class Layout:
    """The sentences of a batch, in a flat array and in buckets.

    Attributes
    ----------
    ops : Ops
        Those of the network.
    lengths : numpy int array of shape (s,)
        Words in each sentence.
    roots : numpy int array of shape (s,)
        Flat row of each sentence's ROOT; its words follow.
    words : numpy int array of shape (t,)
        Flat rows of all words, in order.
    sentence_of_row : numpy int array of shape (n_rows,)
    padded : bool
        Whether there are buckets; some layers need the flat array alone.
    """

    ops: Ops
    lengths: Ints1d
    roots: Ints1d
    words: Ints1d
    sentence_of_row: Ints1d
    padded: bool = True

    @property
    def n_rows(self) -> int:
        """Number of rows of the flat array: one per word and one per sentence."""
        return len(self.sentence_of_row)

    @classmethod
    def from_lengths(cls, ops: Ops, lengths: Sequence[int], padded: bool = True) -> "Layout":
        """Lay out sentences of given lengths."""
        words: Ints1d = np.asarray(lengths, dtype="i8").reshape(-1)
        ends = np.cumsum(words + 1)
        roots = ends - words - 1
        is_word: Ints1d = np.ones(int(ends[-1]) if len(ends) else 0, dtype=bool)
        is_word[roots] = False
        return cls(
            ops=ops,
            lengths=words,
            roots=roots,
            words=is_word.nonzero()[0],
            sentence_of_row=np.repeat(np.arange(len(words)), words + 1),
            padded=padded,
        )

    @cached_property
    def buckets(self) -> list[Bucket]:
        """Sentences of similar length together."""
        return [
            _make_bucket(members, self.lengths, self.roots, self.n_rows)
            for members in (_group(self.lengths) if self.padded else [])
        ]

    @cached_property
    def on_device(self) -> DeviceLayout:
        """The layout in arrays of the network's device."""
        arrays = [self.roots, self.words, self.sentence_of_row]
        for bucket in self.buckets:
            arrays += _arrays_for_layers(bucket)
        found = iter(to_device(self.ops.xp, arrays))
        rows = next(found), next(found), next(found)
        compiled = is_compiled(self.ops)
        buckets = [
            DeviceBucket(bucket.rows, compiled, bucket.rows.shape, *parts)
            for bucket, *parts in zip(self.buckets, *[found] * 4, strict=True)
        ]
        return DeviceLayout(*rows, buckets)


def _arrays_for_layers(bucket: Bucket) -> list[Any]:
    """List the arrays of a `DeviceBucket`."""
    rows = bucket.rows.ravel()
    positions = (rows < bucket.n_rows).nonzero()[0]
    return [
        bucket.lengths,
        positions,
        rows[positions],
        distance.bucket_table(bucket.rows.shape[1]),
    ]


def _allowed_arcs(lengths: Ints1d, m: int) -> Floats3d:
    xp = get_array_module(lengths)
    inside = (xp.arange(m) <= lengths[:, None]).astype("f")
    allowed = inside[:, :, None] * inside[:, None, :]
    allowed[:, 0] = 0.0
    allowed *= 1.0 - xp.eye(m, dtype="f")
    return allowed


def _group(lengths: Ints1d) -> list[list[int]]:
    """Group sentences by length, shortest first; stable, for reproducible results."""
    groups: list[list[int]] = []
    shortest = 0
    for sentence in np.argsort(lengths, kind="stable").tolist():
        n = int(lengths[sentence])
        limit = max(shortest * MAX_STRETCH, shortest + MIN_SLACK)
        if groups and n <= limit and (len(groups[-1]) + 1) * (n + 1) ** 2 <= MAX_BUCKET_SCORES:
            groups[-1].append(sentence)
        else:
            groups.append([sentence])
            shortest = n
    return groups


def _make_bucket(members: list[int], lengths: Ints1d, roots: Ints1d, n_rows: int) -> Bucket:
    positions = np.arange(lengths[members].max() + 1)
    rows = roots[members][:, None] + positions
    rows[positions > lengths[members][:, None]] = n_rows
    return Bucket(sentences=members, lengths=lengths[members], rows=rows, n_rows=n_rows)
