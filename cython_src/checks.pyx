"""The Python boundary of tree checks.

Arguments are checked in spacy_rootmind.trees.checks and trusted here.
"""
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int32_t

import numpy as np

from spacy_rootmind.kernel.decode cimport heads_form_tree, tree_is_projective

cdef extern from "ieee.h":
    pass

cdef enum:
    SENTENCES_PER_CHECK = 1024  # for signals


def form_trees(
        const int32_t[:, ::1] heads not None, const Py_ssize_t[::1] lengths not None,
        bint single_root, unsigned char[::1] out not None):
    """Set out[i] to whether heads[i, 1..n] form a tree; heads must lie within 0..n."""
    cdef int32_t[::1] stamp = np.empty(heads.shape[1], dtype=np.int32)
    cdef Py_ssize_t i, start
    for start in range(0, heads.shape[0], SENTENCES_PER_CHECK):
        with nogil:
            for i in range(start, min(start + SENTENCES_PER_CHECK, heads.shape[0])):
                out[i] = heads_form_tree(&heads[i, 0], lengths[i], single_root, &stamp[0])
        PyErr_CheckSignals()


def are_projective(
        const int32_t[:, ::1] heads not None, const Py_ssize_t[::1] lengths not None,
        unsigned char[::1] out not None):
    """Set out[i] to whether the tree heads[i, 1..n] is projective."""
    cdef int32_t[::1] scratch = np.empty(4 * heads.shape[1], dtype=np.int32)
    cdef Py_ssize_t i, start
    for start in range(0, heads.shape[0], SENTENCES_PER_CHECK):
        with nogil:
            for i in range(start, min(start + SENTENCES_PER_CHECK, heads.shape[0])):
                out[i] = tree_is_projective(&heads[i, 0], lengths[i], &scratch[0])
        PyErr_CheckSignals()
