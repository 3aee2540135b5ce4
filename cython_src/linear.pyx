"""Scores of arcs that are sums of hashed weights, and their gradients.

Each token has keys, drawn at random per template: one as a dependent, one as a head. The key of a
feature is the sum of those that it is a conjunction of, and its lowest bits are the place of its
weight. Arguments are checked in spacy_rootmind.network.linear_trees and trusted here.
"""
from libc.stdint cimport int32_t, uint32_t
from libc.stdlib cimport free, malloc

from cython cimport floating

cdef enum:
    # Columns of `between`: keys of a token as the dependent, the head and the words between ...
    AS_DEP
    AS_HEAD
    AS_MIDDLE
    # ... and of the words between alone.
    ALONE


cdef struct Features:
    const uint32_t* keys            # (rows, 2 * templates): as dependents, then as heads
    const uint32_t* between         # (rows, 4)
    const int32_t* previous         # (rows,): the last row before with the same token between
    const uint32_t* bucket_keys     # (buckets, templates + 1)
    const int32_t* buckets          # (m, m)
    Py_ssize_t templates
    Py_ssize_t m
    uint32_t mask


cdef Py_ssize_t list_features(
    const Features* of, Py_ssize_t root, Py_ssize_t dep, Py_ssize_t head, uint32_t* places
) noexcept nogil:
    """Write the places of an arc's weights; returns how many."""
    cdef Py_ssize_t t, middle, n = 0
    cdef Py_ssize_t low = min(dep, head) + root, high = max(dep, head) + root
    cdef uint32_t key, direction
    cdef const uint32_t* as_dep = of.keys + (root + dep) * 2 * of.templates
    cdef const uint32_t* as_head = of.keys + (root + head) * 2 * of.templates + of.templates
    cdef const uint32_t* bucket = (
        of.bucket_keys + of.buckets[dep * of.m + head] * (of.templates + 1)
    )
    for t in range(of.templates):
        key = as_dep[t] + as_head[t]
        places[n] = key & of.mask
        places[n + 1] = (key + bucket[t]) & of.mask
        n += 2
    if head == 0:
        return n
    # The key of the direction alone: the last of each bucket's keys.
    direction = bucket[of.templates]
    key = of.between[4 * (root + dep) + AS_DEP] + of.between[4 * (root + head) + AS_HEAD]
    for middle in range(low + 1, high):
        # Equal tokens count once.
        if of.previous[middle] > low:
            continue
        places[n] = (key + of.between[4 * middle + AS_MIDDLE] + direction) & of.mask
        places[n + 1] = (of.between[4 * middle + ALONE] + direction) & of.mask
        n += 2
    return n


cdef class ArcFeatures:
    """The features of the arcs of sentences with these first rows and lengths."""
    cdef Features c
    cdef const Py_ssize_t[::1] roots
    cdef const Py_ssize_t[::1] lengths
    cdef tuple arrays               # whose memory the features are
    cdef uint32_t* places           # of one arc's weights

    def __cinit__(
        self, const uint32_t[:, ::1] keys not None, const uint32_t[:, ::1] between not None,
        const int32_t[::1] previous not None, const uint32_t[:, ::1] bucket_keys not None,
        const int32_t[:, ::1] buckets not None, const Py_ssize_t[::1] roots not None,
        const Py_ssize_t[::1] lengths not None
    ):
        cdef Features* of = &self.c
        self.arrays = keys, between, previous, bucket_keys, buckets
        self.roots, self.lengths = roots, lengths
        of.keys, of.between, of.previous = &keys[0, 0], &between[0, 0], &previous[0]
        of.bucket_keys, of.buckets = &bucket_keys[0, 0], &buckets[0, 0]
        of.templates, of.m = keys.shape[1] // 2, buckets.shape[0]
        self.places = <uint32_t*> malloc(2 * (of.templates + of.m) * sizeof(uint32_t))
        if self.places == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.places)

    def score(
        self, const floating[::1] weights not None, floating[:, :, ::1] scores not None
    ):
        """Score all arcs."""
        cdef Py_ssize_t i, dep, head, k, count
        cdef floating total
        self.c.mask = <uint32_t> (weights.shape[0] - 1)
        with nogil:
            for i in range(self.roots.shape[0]):
                for dep in range(1, self.lengths[i] + 1):
                    for head in range(self.lengths[i] + 1):
                        if head == dep:
                            continue
                        count = list_features(&self.c, self.roots[i], dep, head, self.places)
                        total = 0
                        for k in range(count):
                            total += weights[self.places[k]]
                        scores[i, dep, head] = total

    def add_gradient(
        self, floating[::1] d_weights not None, const floating[:, :, ::1] d_scores not None
    ):
        """Add the scores' gradient to the weights' gradient."""
        cdef Py_ssize_t i, dep, head, k, count
        cdef floating gradient
        self.c.mask = <uint32_t> (d_weights.shape[0] - 1)
        with nogil:
            for i in range(self.roots.shape[0]):
                for dep in range(1, self.lengths[i] + 1):
                    for head in range(self.lengths[i] + 1):
                        gradient = d_scores[i, dep, head]
                        if head == dep or gradient == 0:
                            continue
                        count = list_features(&self.c, self.roots[i], dep, head, self.places)
                        for k in range(count):
                            d_weights[self.places[k]] += gradient
