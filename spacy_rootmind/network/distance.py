"""Scores of relative position: signed, bucketed distance from dependent to head.

A convolution sees only a few neighbours, so two equal words far apart have equal vectors; without
this term their arcs would also have equal scores. As in the feature lists of Jurafsky & Martin
(Speech and Language Processing, section 18.3.2), buckets are finer at short distances.
"""

import numpy as np

from spacy_rootmind.network.types import Floats2d, Floats3d, Ints1d, Ints2d

# Lower bounds of the buckets on either side; the last is open.
BOUNDS = (1, 2, 3, 4, 5, 7, 10, 15, 22, 32)
# Both sides, and one bucket for arcs from ROOT, whose position means nothing.
N_BUCKETS = 2 * len(BOUNDS) + 1
ROOT_BUCKET = 0
# The bucket of each distance from -FAR to FAR, which longer ones share, and then ROOT's.
FAR = BOUNDS[-1]
_near = np.maximum(np.searchsorted(BOUNDS, np.abs(np.arange(-FAR, FAR + 1)), side="right"), 1)
_near += np.repeat([0, len(BOUNDS)], [FAR, FAR + 1])
BUCKETS = np.append(_near, ROOT_BUCKET).astype("int32")


def bucket_of(deps: Ints1d, heads: Ints1d) -> Ints1d:
    """Find the bucket of each arc from the positions of its dependent and head; head 0 is ROOT."""
    distance = np.maximum(np.minimum(heads - deps, FAR), -FAR)
    return np.where(heads == 0, np.int32(ROOT_BUCKET), BUCKETS[distance + FAR])


def collect(scores: Floats3d, buckets: Ints2d, *, over_heads: bool) -> Floats3d:
    """Sum scores of arcs (b, m, m) by their bucket, into (b, m, N_BUCKETS).

    The positions of the result are dependents, each with the sums over its heads, or heads with the
    sums over their dependents. `buckets`, (m, m), has the bucket of each arc.
    """
    b, m, _ = scores.shape
    own = np.arange(m)[:, None] if over_heads else np.arange(m)
    places = own * N_BUCKETS + buckets + (m * N_BUCKETS * np.arange(b))[:, None, None]
    sums = np.bincount(places.ravel(), scores.ravel(), b * m * N_BUCKETS)
    return sums.reshape((b, m, N_BUCKETS)).astype(scores.dtype)


def collect_flat(d_scores: Floats2d, buckets: Ints1d) -> Floats2d:
    """Sum rows (k, w) by their bucket into (N_BUCKETS, w)."""
    one_hot = (np.arange(N_BUCKETS)[:, None] == buckets[None, :]).astype(d_scores.dtype)
    return one_hot @ d_scores
