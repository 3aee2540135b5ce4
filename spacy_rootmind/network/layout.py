"""Layout of a batch of sentences in flat and padded arrays.

All layers share one flat array, with a row for ROOT and one for each word, sentence by sentence.
Only the square arc scores are padded: sentences of similar length share a bucket, so that padding
stays a small part of the work whatever the lengths in a batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from thinc.api import Ops, get_array_module

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
    rows : int array of shape (b, m)
        Flat row of each position; `n_rows` past the end of a sentence.
    n_rows : int
        Number of rows of the flat array.
    """

    sentences: list[int]
    lengths: Ints1d
    rows: Ints2d
    n_rows: int

    @cached_property
    def inside(self) -> tuple[Ints1d, Ints1d]:
        """Positions inside sentences, in (b, m) flattened, and their flat rows."""
        rows = self.rows.ravel()
        positions = (rows < self.n_rows).nonzero()[0]
        return positions, rows[positions]

    @cached_property
    def allowed(self) -> Floats3d:
        """1 where (dep, head) may be an arc: both inside, dep not ROOT, and not equal."""
        xp = get_array_module(self.rows)
        inside = (self.rows < self.n_rows).astype("f")
        allowed = inside[:, :, None] * inside[:, None, :]
        allowed[:, 0] = 0.0
        allowed *= 1.0 - xp.eye(self.rows.shape[1], dtype="f")
        return allowed

    def select(self, places: Ints1d) -> "Bucket":
        """Make a bucket of some of its sentences, with the same padding."""
        sentences = [self.sentences[place] for place in places.tolist()]
        return Bucket(sentences, self.lengths[places], self.rows[places], self.n_rows)

    def pad(self, flat: Floats2d) -> Floats3d:
        """Copy rows (n_rows, w) to (b, m, w), with zeros past the end of each sentence."""
        b, m = self.rows.shape
        positions, rows = self.inside
        padded = get_array_module(flat).zeros((b * m, flat.shape[1]), dtype=flat.dtype)
        padded[positions] = flat[rows]
        return padded.reshape((b, m, flat.shape[1]))

    def add_unpadded(self, padded: Floats3d, out: Floats2d) -> None:
        """Add (b, m, w) to its rows in `out`; entries past the end of a sentence are dropped."""
        positions, rows = self.inside
        # Each row occurs once, so plain indexing adds everything.
        out[rows] += padded.reshape((-1, padded.shape[2]))[positions]


@dataclass
class Layout:
    """The sentences of a batch: their lengths and their rows.

    Attributes
    ----------
    lengths : numpy int array of shape (s,)
        Words in each sentence.
    roots : int array of shape (s,)
        Flat row of each sentence's ROOT; its words follow.
    words : int array of shape (t,)
        Flat rows of all words, in order.
    sentence_of_row : int array of shape (n_rows,)
    buckets : list of Bucket
    """

    lengths: Ints1d
    roots: Ints1d
    words: Ints1d
    sentence_of_row: Ints1d
    buckets: list[Bucket]

    @property
    def n_rows(self) -> int:
        """Number of rows of the flat array: one per word and one per sentence."""
        return len(self.sentence_of_row)

    @classmethod
    def from_lengths(cls, ops: Ops, lengths: Sequence[int]) -> "Layout":
        """Lay out sentences of given lengths."""
        words: Ints1d = np.asarray(lengths, dtype="i8").reshape(-1)
        ends = np.cumsum(words + 1)
        roots = ends - words - 1
        n_rows = int(ends[-1]) if len(ends) else 0
        is_word: Ints1d = np.ones(n_rows, dtype=bool)
        is_word[roots] = False
        sentence_of_row: Ints1d = np.repeat(np.arange(len(words)), words + 1)
        buckets = [_make_bucket(ops, members, words, roots, n_rows) for members in _group(words)]
        return cls(
            lengths=words,
            roots=ops.asarray(roots),
            words=ops.asarray(is_word.nonzero()[0]),
            sentence_of_row=ops.asarray(sentence_of_row),
            buckets=buckets,
        )


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


def _make_bucket(
    ops: Ops, members: list[int], lengths: Ints1d, roots: Ints1d, n_rows: int
) -> Bucket:
    positions = np.arange(lengths[members].max() + 1)
    rows = roots[members][:, None] + positions
    rows[positions > lengths[members][:, None]] = n_rows
    return Bucket(
        sentences=members, lengths=lengths[members], rows=ops.asarray(rows), n_rows=n_rows
    )
