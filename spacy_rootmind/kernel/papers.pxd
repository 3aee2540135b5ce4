"""Sampling by rank-one updates of the inverse Laplacian (Colbourn, Myrvold & Neufeld 1996)."""
from libc.stdint cimport int32_t

from spacy_rootmind.kernel.random cimport RandomSource

# Inverts the Laplacian of weights[dep * stride + head], n x n; `swapped` has room for n. False if
# it has no inverse, up to rounding. O(n^3).
cdef bint invert_laplacian(
    const double* weights, Py_ssize_t stride, Py_ssize_t n, bint single_root, double* inverse,
    Py_ssize_t* swapped) noexcept nogil
# Draws heads[1..n] from the weights and that inverse. `work` has room for n x n + 3 n + 1. Returns
# a DecodeStatus.
cdef int draw_by_inverse(
    const double* weights, Py_ssize_t stride, Py_ssize_t n, bint single_root,
    const double* inverse, const RandomSource* random, int32_t* heads, double* work) noexcept nogil
