"""Layout of a batch of sentences in flat and padded arrays.

All layers share one flat array, with a row for ROOT and one for each word, sentence by sentence.
Only the square arc scores are padded: sentences of similar length share a bucket, so that padding
stays a small part of the work whatever the lengths in a batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from spacy_rootmind.kernel import layers as kernel
from spacy_rootmind.network import distance
from spacy_rootmind.network.types import Floats2d, Floats3d, Ints1d, Ints2d

# Longest sentence of a bucket as a multiple of its shortest ...
MAX_STRETCH = 1.25
# ... or by this many more words, which cost little in short sentences.
MIN_SLACK = 3
# Scores in a bucket, which bounds memory.
MAX_BUCKET_SCORES = 1 << 20

# Layouts of single sentences of up to this length are kept.
KEPT_WORDS = 64


@dataclass
class Bucket:
    """Sentences padded to a common number of positions m, ROOT's included.

    Attributes
    ----------
    sentences : list of int
        Number of each sentence in the batch, along the first axis.
    lengths : int array of shape (b,)
        Words in each.
    rows : int array of shape (b, m)
        Flat row of each position; the number of all rows past the end of a sentence.
    """

    sentences: list[int]
    lengths: Ints1d
    rows: Ints2d

    @cached_property
    def distances(self) -> Ints2d:
        """The bucket of each arc's distance, (m, m); row 0 and the diagonal are arbitrary."""
        positions = np.arange(self.rows.shape[1])
        return distance.bucket_of(positions[:, None], positions).astype(np.int32)

    @cached_property
    def ranges(self) -> list[tuple[int, int]]:
        """The first flat row of each sentence, and the one after its last."""
        starts = self.rows[:, 0]
        return list(zip(starts.tolist(), (starts + self.lengths + 1).tolist(), strict=True))

    @cached_property
    def allowed(self) -> Floats3d:
        """1 where (dep, head) may be an arc: both inside, dep not ROOT, and not equal."""
        m = self.rows.shape[1]
        inside = np.arange(m) <= self.lengths[:, None]
        allowed = inside[:, :, None] & inside[:, None] & ~np.eye(m, dtype=bool)
        allowed[:, 0] = False
        return allowed.astype("f")

    def pad(self, flat: Floats2d) -> Floats3d:
        """Copy rows (n_rows, w) to (b, m, w), with zeros past the end of each sentence."""
        padded = np.zeros((*self.rows.shape, flat.shape[1]), dtype=flat.dtype)
        for own, (start, stop) in zip(padded, self.ranges, strict=True):
            own[: stop - start] = flat[start:stop]
        return padded

    def add_unpadded(self, padded: Floats3d, out: Floats2d) -> None:
        """Add (b, m, w) to its rows in `out`; entries past the end of a sentence are dropped."""
        for own, (start, stop) in zip(padded, self.ranges, strict=True):
            out[start:stop] += own[: stop - start]


@dataclass
class Layout:
    """The sentences of a batch, in a flat array and in buckets.

    Attributes
    ----------
    lengths : int array of shape (s,)
        Words in each sentence.
    roots : int array of shape (s,)
        Flat row of each sentence's ROOT; its words follow.
    words : int array of shape (t,)
        Flat rows of all words, in order.
    sentence_of_row : int array of shape (n_rows,)
    """

    lengths: Ints1d
    roots: Ints1d
    words: Ints1d
    sentence_of_row: Ints1d

    @cached_property
    def n_rows(self) -> int:
        """Number of rows of the flat array: one per word and one per sentence."""
        return len(self.sentence_of_row)

    @classmethod
    def from_lengths(cls, lengths: Sequence[int]) -> "Layout":
        """Lay out sentences of given lengths."""
        if len(lengths) == 1 and lengths[0] <= KEPT_WORDS:
            return _lay_out_one(int(lengths[0]))
        return cls._make(lengths)

    @classmethod
    def _make(cls, lengths: Sequence[int]) -> "Layout":
        words: Ints1d = np.asarray(lengths, dtype="i8").reshape(-1)
        ends = np.cumsum(words + 1)
        roots = ends - words - 1
        is_word: Ints1d = np.ones(int(ends[-1]) if len(ends) else 0, dtype=bool)
        is_word[roots] = False
        return cls(
            lengths=words,
            roots=roots,
            words=is_word.nonzero()[0],
            sentence_of_row=np.repeat(np.arange(len(words)), words + 1),
        )

    @cached_property
    def buckets(self) -> list[Bucket]:
        """Sentences of similar length together."""
        return [self.make_bucket(members) for members in _group(self.lengths)]

    def make_bucket(self, members: list[int]) -> Bucket:
        """Pad some of the sentences to the longest of them."""
        lengths = self.lengths[members]
        positions = np.arange(lengths.max() + 1)
        rows = self.roots[members][:, None] + positions
        rows[positions > lengths[:, None]] = self.n_rows
        return Bucket(members, lengths, rows)

    def pad(self, flat: Ints1d, fill: int) -> list[Ints2d]:
        """Copy numbers of rows to an array (b, m) for each bucket."""
        extended = np.append(flat, np.array(fill, dtype=flat.dtype))
        return [extended[bucket.rows] for bucket in self.buckets]

    def arc_distances(self, deps: Ints1d, heads: Ints1d) -> Ints1d:
        """Find the bucket of each arc's distance; `deps` and `heads` are flat rows."""
        ends = deps.astype(np.intp, copy=False), heads.astype(np.intp, copy=False)
        return kernel.find_distances(*ends, self.sentence_of_row, self.roots, distance.BUCKETS)


@lru_cache(maxsize=128)
def _lay_out_one(n_words: int) -> Layout:
    """Lay out one sentence. Layouts never change, so that texts of a sentence can share them."""
    return Layout._make([n_words])


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
