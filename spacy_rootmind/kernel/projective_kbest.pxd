"""The k best projective trees of one sentence."""
from libc.stdint cimport int32_t

# A way to make a span of two others.
cdef struct Derivation:
    double score
    Py_ssize_t left_rank
    Py_ssize_t right_rank
    int32_t split
