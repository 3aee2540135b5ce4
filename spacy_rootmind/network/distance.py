"""Scores of relative position: signed, bucketed distance from dependent to head.

A convolution sees only a few neighbours, so two equal words far apart have equal vectors; without
this term their arcs would also have equal scores. As in the feature lists of Jurafsky & Martin
(Speech and Language Processing, section 18.3.2), buckets are finer at short distances.
"""

from functools import lru_cache

import numpy as np
from thinc.api import get_array_module

from spacy_rootmind.network.types import Floats2d, Floats3d, Ints1d, Ints2d

# Lower bounds of the buckets on either side; the last is open.
BOUNDS = (1, 2, 3, 4, 5, 7, 10, 15, 22, 32)
# Both sides, and one bucket for arcs from ROOT, whose position means nothing.
N_BUCKETS = 2 * len(BOUNDS) + 1
ROOT_BUCKET = 0
# Tables for up to this many positions are cached; larger ones are rarely needed.
CACHED_POSITIONS = 256


# The bucket of each distance from -FAR to FAR, which longer ones share, and then ROOT's.
FAR = BOUNDS[-1]
_near = np.maximum(np.searchsorted(BOUNDS, np.abs(np.arange(-FAR, FAR + 1)), side="right"), 1)
_near += np.repeat([0, len(BOUNDS)], [FAR, FAR + 1])
BUCKETS = np.append(_near, ROOT_BUCKET).astype("int32")


def bucket_of(deps: Ints1d, heads: Ints1d) -> Ints1d:
    """Find the bucket of each arc from the positions of its dependent and head; head 0 is ROOT."""
    distance = np.maximum(np.minimum(heads - deps, FAR), -FAR)
    return np.where(heads == 0, np.int32(ROOT_BUCKET), BUCKETS[distance + FAR])


@lru_cache(maxsize=128)
def _cached_buckets(m: int) -> Ints2d:
    positions = np.arange(m, dtype="int32")
    return bucket_of(positions[:, None], positions[None, :])


def bucket_table(m: int) -> Ints2d:
    """List the bucket of every (dep, head); row 0 and the diagonal are arbitrary."""
    if m <= CACHED_POSITIONS:
        return _cached_buckets(m)
    return _cached_buckets.__wrapped__(m)


@lru_cache(maxsize=128)
def sum_ranges(m: int, over_heads: bool) -> tuple[Ints2d, Ints2d]:
    """Find the first and the last (exclusive) arc of each bucket, two arrays (m, N_BUCKETS).

    A dependent's arcs lie along a row and a head's along a column. The arcs of a bucket are
    contiguous in both, so that sums over a bucket are differences of running sums.
    """
    own = np.arange(m)[:, None]
    near, far = np.array(BOUNDS), np.array([*BOUNDS[1:], m])
    before = own - far + 1, own - near + 1
    after = own + near, own + far
    # The first buckets are of heads before their dependents, or dependents after their heads.
    sides = (before, after) if over_heads else (after, before)
    starts = np.concatenate([np.zeros((m, 1), int), *(side[0] for side in sides)], axis=1)
    stops = np.concatenate([np.ones((m, 1), int), *(side[1] for side in sides)], axis=1)
    # Position 0 is ROOT, which only the first bucket's arcs touch.
    starts[:, 1:], stops[:, 1:] = starts[:, 1:].clip(1, m), stops[:, 1:].clip(1, m)
    if not over_heads:
        starts[:, ROOT_BUCKET] = stops[:, ROOT_BUCKET] = 0
        starts[0], stops[0] = 0, 0
        starts[0, ROOT_BUCKET], stops[0, ROOT_BUCKET] = min(1, m), m
    return starts, stops


def spread(by_bucket: Floats3d, buckets: Ints2d, *, over_heads: bool) -> Floats3d:
    """Expand scores per bucket to scores per arc.

    Parameters
    ----------
    by_bucket : float array of shape (b, m, N_BUCKETS)
        A score for each position and bucket.
    buckets : int array of shape (m, m)
        `bucket_table(m)`, on the device of the scores.
    over_heads : bool
        Whether the positions are dependents, rather than heads.

    Returns
    -------
    scores : float array of shape (b, m, m), indexed [dep, head]
    """
    xp = get_array_module(by_bucket)
    b, m, _ = by_bucket.shape
    own = xp.arange(m)[:, None] if over_heads else xp.arange(m)[None, :]
    flat = by_bucket.reshape((b, m * N_BUCKETS))
    return xp.take(flat, own * N_BUCKETS + buckets, axis=1)


def collect(scores: Floats3d, ranges: tuple[Ints2d, Ints2d], *, over_heads: bool) -> Floats3d:
    """Sum (b, m, m) into (b, m, N_BUCKETS): the transpose of `spread`.

    Row 0 and the diagonal must be zero. `ranges` come from `sum_ranges(m, over_heads)`, on the
    device of the scores.
    """
    xp = get_array_module(scores)
    b, m, _ = scores.shape
    starts, stops = ranges
    running = xp.zeros((b, m, m + 1), dtype=scores.dtype)
    running[:, :, 1:] = xp.cumsum(scores if over_heads else scores.transpose((0, 2, 1)), axis=2)
    flat = running.reshape((b, m * (m + 1)))
    own = xp.arange(m)[:, None] * (m + 1)
    upper = xp.take(flat, own + stops, axis=1)
    lower = xp.take(flat, own + starts, axis=1)
    return upper - lower


def collect_flat(d_scores: Floats2d, buckets: Ints1d) -> Floats2d:
    """Sum rows (k, w) by their bucket into (N_BUCKETS, w)."""
    xp = get_array_module(d_scores)
    one_hot = (xp.arange(N_BUCKETS)[:, None] == buckets[None, :]).astype(d_scores.dtype)
    return one_hot @ d_scores
