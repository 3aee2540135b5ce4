"""Relative position as a score: signed, bucketed distance from dependent to head.

A convolution sees a few neighbours only, so two equal words far apart look alike to it; without
this term their arcs would score alike as well. As in the feature lists of Jurafsky & Martin
(Speech and Language Processing, section 18.3.2), nearer distances are told apart more finely.
"""

from functools import lru_cache

import numpy as np
from thinc.api import get_array_module

from spacy_rootmind.layers.types import Floats2d, Floats3d, Ints1d, Ints2d

# Lower bounds of the buckets on either side; the last is open.
BOUNDS = (1, 2, 3, 4, 5, 7, 10, 15, 22, 32)
# Two sides, and one bucket for the arc from ROOT, whose position says nothing.
N_BUCKETS = 2 * len(BOUNDS) + 1
ROOT_BUCKET = 0


def bucket_of(deps: Ints1d, heads: Ints1d) -> Ints1d:
    """Bucket of each arc from its dependent's and its head's position; head 0 is ROOT."""
    distance = heads - deps
    nearness = np.searchsorted(BOUNDS, np.abs(distance), side="right") - 1
    bucket = 1 + np.where(distance < 0, 0, len(BOUNDS)) + np.maximum(nearness, 0)
    return np.where(heads == 0, ROOT_BUCKET, bucket)


@lru_cache(maxsize=64)
def _buckets(m: int) -> Ints2d:
    """Bucket of every (dep, head) of m positions; those of row 0 and the diagonal mean nothing."""
    positions = np.arange(m)
    return bucket_of(positions[:, None], positions[None, :])


@lru_cache(maxsize=64)
def _ranges(m: int) -> tuple[Ints2d, Ints2d, Ints2d, Ints2d]:
    """Where each bucket begins and ends: heads along a row, then deps along a column.

    Four arrays of shape (m, N_BUCKETS). Both run over contiguous positions, so that sums over a
    bucket are differences of running sums.
    """
    table = _buckets(m).copy()
    table[np.arange(m), np.arange(m)] = -1
    table[0] = -1
    member = table[:, :, None] == np.arange(N_BUCKETS)
    ranges = []
    for axis in (1, 0):
        starts = member.argmax(axis=axis)
        ranges += [starts, starts + member.sum(axis=axis)]
    return tuple(ranges)


def spread(by_bucket: Floats3d, *, over_heads: bool) -> Floats3d:
    """Take scores per bucket to scores per arc.

    Parameters
    ----------
    by_bucket : float array of shape (b, m, N_BUCKETS)
        A score for each position and bucket.
    over_heads : bool
        Whether the positions are dependents, rather than heads.

    Returns
    -------
    scores : float array of shape (b, m, m), indexed [dep, head]
    """
    xp = get_array_module(by_bucket)
    b, m, _ = by_bucket.shape
    buckets = xp.asarray(_buckets(m))
    own = xp.arange(m)[:, None] if over_heads else xp.arange(m)[None, :]
    flat = by_bucket.reshape((b, m * N_BUCKETS))
    return xp.take(flat, own * N_BUCKETS + buckets, axis=1)


def collect(scores: Floats3d, *, over_heads: bool) -> Floats3d:
    """Sum (b, m, m) into (b, m, N_BUCKETS): the transpose of `spread`.

    Row 0 and the diagonal are taken to be zero.
    """
    xp = get_array_module(scores)
    b, m, _ = scores.shape
    starts, stops = _ranges(m)[:2] if over_heads else _ranges(m)[2:]
    running = xp.zeros((b, m, m + 1), dtype=scores.dtype)
    xp.cumsum(scores if over_heads else scores.transpose((0, 2, 1)), axis=2, out=running[:, :, 1:])
    flat = running.reshape((b, m * (m + 1)))
    own = xp.arange(m)[:, None] * (m + 1)
    upper = xp.take(flat, own + xp.asarray(stops), axis=1)
    lower = xp.take(flat, own + xp.asarray(starts), axis=1)
    return upper - lower


def collect_flat(d_scores: Floats2d, buckets: Ints1d) -> Floats2d:
    """Sum rows (k, w) by their bucket into (N_BUCKETS, w)."""
    xp = get_array_module(d_scores)
    one_hot = (xp.arange(N_BUCKETS)[:, None] == buckets[None, :]).astype(d_scores.dtype)
    return one_hot @ d_scores
