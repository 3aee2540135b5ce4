"""Sampling by rank-one updates of the inverse Laplacian (Colbourn, Myrvold & Neufeld 1996)."""
from libc.stdint cimport int32_t

from spacy_rootmind.kernel.random cimport Stream

cdef bint invert_laplacian(
    const double* weights, Py_ssize_t stride, Py_ssize_t n, bint single_root, double* inverse,
    Py_ssize_t* swapped) noexcept nogil
cdef int draw_by_inverse(
    const double* weights, Py_ssize_t stride, Py_ssize_t n, bint single_root,
    const double* inverse, Stream* random, int32_t* heads, double* work) noexcept nogil
