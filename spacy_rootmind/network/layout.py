"""Layout of a batch of sentences in flat and padded arrays.

All layers share one flat array, with a row for ROOT and one for each word, sentence by sentence.
Only the square arc scores are padded: sentences of similar length share a bucket, so that padding
stays a small part of the work whatever the lengths in a batch.

Code on the host reads NumPy arrays of a layout. Layers read `Layout.on_device`, a layout whose
arrays are all copied to the network's device at once; on the CPU, nothing is copied.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TypeAlias

import numpy as np
from thinc.api import NumpyOps, Ops, get_array_module

from spacy_rootmind.kernel import layers as kernel
from spacy_rootmind.network import distance
from spacy_rootmind.network.transfer import to_device
from spacy_rootmind.network.types import Floats2d, Floats3d, Ints1d, Ints2d

# Longest sentence of a bucket as a multiple of its shortest ...
MAX_STRETCH = 1.25
# ... or by this many more words, which cost little in short sentences.
MIN_SLACK = 3
# Scores in a bucket, which bounds memory.
MAX_BUCKET_SCORES = 1 << 20

# Layouts of single sentences of up to this length are kept.
KEPT_WORDS = 64

# Starts and stops of sums over arcs.
SumRange: TypeAlias = tuple[Ints2d, Ints2d]


@dataclass
class Bucket:
    """Sentences padded to a common number of positions m, ROOT's included.

    Attributes
    ----------
    sentences : list of int
        Number of each sentence in the batch, along the first axis.
    lengths : int array of shape (b,)
        Words in each.
    rows : numpy int array of shape (b, m)
        Flat row of each position; `n_rows` past the end of a sentence. Always on the host.
    n_rows : int
        Number of rows of the flat array.
    on_host : bool
        Whether the layers' arrays are NumPy's, too.
    """

    sentences: list[int]
    lengths: Ints1d
    rows: Ints2d
    n_rows: int
    on_host: bool = False

    @cached_property
    def distances(self) -> Ints2d:
        """The bucket of each arc's distance, of shape (m, m): `distance.bucket_table`."""
        return distance.bucket_table(self.rows.shape[1])

    @cached_property
    def inside(self) -> tuple[Ints1d, Ints1d]:
        """Positions inside sentences, in (b, m) flattened, and their flat rows."""
        rows = self.rows.ravel()
        positions = (rows < self.n_rows).nonzero()[0]
        return positions, rows[positions]

    @cached_property
    def ranges(self) -> list[tuple[int, int]]:
        """The first flat row of each sentence, and the one after its last."""
        starts = self.rows[:, 0]
        return list(zip(starts.tolist(), (starts + self.lengths + 1).tolist(), strict=True))

    @cached_property
    def allowed(self) -> Floats3d:
        """1 where (dep, head) may be an arc: both inside, dep not ROOT, and not equal."""
        xp, m = get_array_module(self.lengths), self.rows.shape[1]
        inside = (xp.arange(m) <= self.lengths[:, None]).astype("f")
        allowed = inside[:, :, None] * inside[:, None, :]
        allowed[:, 0] = 0.0
        allowed *= 1.0 - xp.eye(m, dtype="f")
        return allowed

    def pad(self, flat: Floats2d) -> Floats3d:
        """Copy rows (n_rows, w) to (b, m, w), with zeros past the end of each sentence."""
        if self.on_host:
            padded = np.zeros((*self.rows.shape, flat.shape[1]), dtype=flat.dtype)
            for own, (start, stop) in zip(padded, self.ranges, strict=True):
                own[: stop - start] = flat[start:stop]
            return padded
        positions, rows = self.inside
        (b, m), w = self.rows.shape, flat.shape[1]
        padded = get_array_module(flat).zeros((b * m, w), dtype=flat.dtype)
        padded[positions] = flat[rows]
        return padded.reshape((b, m, w))

    def add_unpadded(self, padded: Floats3d, out: Floats2d) -> None:
        """Add (b, m, w) to its rows in `out`; entries past the end of a sentence are dropped."""
        if self.on_host:
            for own, (start, stop) in zip(padded, self.ranges, strict=True):
                out[start:stop] += own[: stop - start]
            return
        # Each row occurs once, so plain indexing adds everything.
        positions, rows = self.inside
        out[rows] += padded.reshape((-1, padded.shape[2]))[positions]


@dataclass
class Layout:
    """The sentences of a batch, in a flat array and in buckets.

    Attributes
    ----------
    ops : Ops
        The network's.
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

    @cached_property
    def is_compiled(self) -> bool:
        """Whether compiled loops take the layers' arrays."""
        return isinstance(self.ops, NumpyOps)

    @cached_property
    def n_rows(self) -> int:
        """Number of rows of the flat array: one per word and one per sentence."""
        return len(self.sentence_of_row)

    @classmethod
    def from_lengths(cls, ops: Ops, lengths: Sequence[int], padded: bool = True) -> "Layout":
        """Lay out sentences of given lengths."""
        if len(lengths) == 1 and lengths[0] <= KEPT_WORDS:
            return _lay_out_one(ops, int(lengths[0]), padded)
        return cls._make(ops, lengths, padded)

    @classmethod
    def _make(cls, ops: Ops, lengths: Sequence[int], padded: bool) -> "Layout":
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
        groups = _group(self.lengths) if self.padded else []
        return [self.make_bucket(members) for members in groups]

    def make_bucket(self, members: list[int]) -> Bucket:
        """Pad some of the sentences to the longest of them."""
        lengths = self.lengths[members]
        positions = np.arange(lengths.max() + 1)
        rows = self.roots[members][:, None] + positions
        rows[positions > lengths[:, None]] = self.n_rows
        return Bucket(members, lengths, rows, self.n_rows, self.ops.xp is np)

    def pad(self, flat: Ints1d, fill: int) -> list[Ints2d]:
        """Copy numbers of rows, on the host, to an array (b, m) for each bucket."""
        extended = np.append(flat, np.array(fill, dtype=flat.dtype))
        return [extended[bucket.rows] for bucket in self.buckets]

    @property
    def on_device(self) -> "Layout":
        """The layout in arrays of the network's device; itself on the CPU."""
        return self if self.ops.xp is np else self._copied

    @cached_property
    def _copied(self) -> "Layout":
        arrays = [self.roots, self.words, self.sentence_of_row]
        for bucket in self.buckets:
            arrays += [bucket.lengths, bucket.distances, *bucket.inside]
        found = iter(to_device(self.ops.xp, arrays))
        roots, words, sentence_of_row = next(found), next(found), next(found)
        there = replace(self, roots=roots, words=words, sentence_of_row=sentence_of_row)
        there.buckets = []
        for bucket, lengths, distances, *inside in zip(self.buckets, *[found] * 4, strict=True):
            copied = replace(bucket, lengths=lengths)
            copied.distances, copied.inside = distances, tuple(inside)
            there.buckets.append(copied)
        return there

    @cached_property
    def sum_ranges(self) -> list[tuple[SumRange, SumRange]]:
        """Ranges of sums over heads and over dependents in each bucket: `distance.sum_ranges`.

        They are on the network's device. Only gradients need them.
        """
        tables = [
            table
            for bucket in self.buckets
            for over_heads in (True, False)
            for table in distance.sum_ranges(bucket.rows.shape[1], over_heads)
        ]
        found = iter(to_device(self.ops.xp, tables))
        return [((a, b), (c, d)) for a, b, c, d in zip(*[found] * 4, strict=True)]

    def arc_distances(self, deps: Ints1d, heads: Ints1d) -> Ints1d:
        """Find the bucket of each arc's distance; `deps` and `heads` are flat rows."""
        ends = deps.astype(np.intp, copy=False), heads.astype(np.intp, copy=False)
        return kernel.find_distances(*ends, self.sentence_of_row, self.roots, distance.BUCKETS)


@lru_cache(maxsize=128)
def _lay_out_one(ops: Ops, n_words: int, padded: bool) -> Layout:
    """Lay out one sentence. Layouts never change, so that texts of a sentence can share them."""
    return Layout._make(ops, [n_words], padded)


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
