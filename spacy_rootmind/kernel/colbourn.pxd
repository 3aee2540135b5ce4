"""Sampling by rank-one updates of the inverse Laplacian (Colbourn, Myrvold & Neufeld 1996)."""
from libc.stdint cimport int32_t

from spacy_rootmind.kernel.random cimport RandomSource

# Draws heads[1..n] from weights[dep * stride + head] and the inverse of their Laplacian, n x n with
# rows of inverse_stride. `work` has room for n x n + 3 n + 1. Returns a DecodeStatus.
cdef int draw_by_inverse(
    const double* weights, Py_ssize_t stride, Py_ssize_t n, bint single_root,
    const double* inverse, Py_ssize_t inverse_stride, const RandomSource* random, int32_t* heads,
    double* work) noexcept nogil
