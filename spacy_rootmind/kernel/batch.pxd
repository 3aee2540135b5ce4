"""Batches of scores as the kernel reads them: any strides, float32 or float64, with a mask."""
from cpython.buffer cimport Py_buffer

from spacy_rootmind.kernel.decode cimport score_t

cdef struct Batch:
    const char* scores
    Py_ssize_t sentence_bytes
    Py_ssize_t row_bytes
    Py_ssize_t column_bytes
    const char* allowed             # NULL where all arcs are
    Py_ssize_t allowed_sentence_bytes
    Py_ssize_t allowed_row_bytes
    Py_ssize_t allowed_column_bytes
    const Py_ssize_t* lengths
    Py_ssize_t n_sentences
    bint is_float32
    bint is_plain                   # rows are contiguous and without a mask

# Holds the arrays' memory while it lives.
cdef class ScoreBuffer:
    cdef Py_buffer score_view
    cdef Py_buffer allowed_view
    cdef Batch c

cdef void gather(
    const Batch* batch, Py_ssize_t sentence, const score_t* of_type, double* square
) noexcept nogil
