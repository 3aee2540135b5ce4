"""Sampling by rank-one updates of the inverse Laplacian (Colbourn, Myrvold & Neufeld 1996)."""
from libc.stdint cimport int32_t

from spacy_rootmind.kernel.random cimport RandomSource

# Inverts a matrix of n x n in place; `swapped` has room for n. False if it has no inverse. O(n^3).
cdef bint invert_matrix(double* matrix, Py_ssize_t n, Py_ssize_t* swapped) noexcept nogil
# Draws heads[1..n] from weights[dep * stride + head] and the inverse of their Laplacian, n x n with
# rows of inverse_stride. `work` has room for n x n + 3 n + 1. Returns a DecodeStatus.
cdef int draw_by_inverse(
    const double* weights, Py_ssize_t stride, Py_ssize_t n, bint single_root,
    const double* inverse, Py_ssize_t inverse_stride, const RandomSource* random, int32_t* heads,
    double* work) noexcept nogil
