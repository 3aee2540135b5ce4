"""Where the words of a batch of sentences lie, flat and padded.

All layers share one flat array with a row for ROOT and then one for each word, sentence after
sentence. Only arc scores are square, and only they are padded: sentences of similar length share a
bucket, so that padding stays a small part of the work whatever lengths a batch mixes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from thinc.api import Ops, get_array_module

from spacy_rootmind.network.types import Floats2d, Floats3d, Ints1d, Ints2d

# A bucket ends before a sentence this many times as long as its shortest ...
MAX_STRETCH = 1.25
# ... (a few words more are no waste in short ones) ...
MIN_SLACK = 3
# ... and before it would hold more than this many scores, which bounds memory.
MAX_BUCKET_SCORES = 1 << 20


@dataclass
class Bucket:
    """Sentences padded to a common number of positions m, ROOT's included.

    Attributes
    ----------
    sentences : list of int
        Which sentences of the batch, in the order of the first axis.
    lengths : numpy int array of shape (b,)
        Words in each.
    rows : int array of shape (b, m)
        Flat row of each position; those past a sentence's end hold `n_rows`.
    n_rows : int
        Rows of the flat array.
    """

    sentences: list[int]
    lengths: Ints1d
    rows: Ints2d
    n_rows: int

    @cached_property
    def inside(self) -> tuple[Ints1d, Ints1d]:
        """Positions within sentences, counted over (b, m) flattened, and their flat rows."""
        rows = self.rows.ravel()
        positions = (rows < self.n_rows).nonzero()[0]
        return positions, rows[positions]

    @cached_property
    def allowed(self) -> Floats3d:
        """1 where (dep, head) may be an arc: dep and head inside, dep not ROOT, not the same."""
        xp = get_array_module(self.rows)
        inside = (self.rows < self.n_rows).astype("f")
        allowed = inside[:, :, None] * inside[:, None, :]
        allowed[:, 0] = 0.0
        allowed *= 1.0 - xp.eye(self.rows.shape[1], dtype="f")
        return allowed

    def pad(self, flat: Floats2d) -> Floats3d:
        """Take rows of shape (n_rows, w) to (b, m, w), zero past each sentence's end."""
        b, m = self.rows.shape
        positions, rows = self.inside
        padded = get_array_module(flat).zeros((b * m, flat.shape[1]), dtype=flat.dtype)
        padded[positions] = flat[rows]
        return padded.reshape((b, m, flat.shape[1]))

    def add_unpadded(self, padded: Floats3d, out: Floats2d) -> None:
        """Add (b, m, w) to the rows it stands for; what lies past a sentence's end is dropped."""
        positions, rows = self.inside
        # Each row occurs once, so plain indexing adds all there is.
        out[rows] += padded.reshape((-1, padded.shape[2]))[positions]


@dataclass
class Layout:
    """Sentences of a batch: words in each, and where they are.

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
        """Rows of the flat array: one a word, one a sentence."""
        return len(self.sentence_of_row)

    @classmethod
    def from_lengths(cls, ops: Ops, lengths: Sequence[int]) -> "Layout":
        """Lay out sentences of the given numbers of words."""
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
    """Group sentences by length, shortest first; stable, so that results are reproducible."""
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
