"""Batches of scores as the kernel reads them, and the one loop over their sentences.

An algorithm brings a function for a single sentence and a Worker per thread that owns the memory
it needs; threads, strides, float widths, masks and failures are handled here.
"""
from cpython.buffer cimport Py_buffer
from libc.math cimport INFINITY

ctypedef fused score_t:
    float
    double

cdef enum:
    MAX_THREADS = 256   # per batch; more than any machine gains from

# Scores in any strides, float32 or float64, with an optional mask.
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
    bint is_plain                   # rows are contiguous and there is no mask

# Holds the arrays' memory while it lives.
cdef class ScoreBuffer:
    cdef Py_buffer score_view
    cdef Py_buffer allowed_view
    cdef Py_buffer length_view
    cdef Batch c

# Handles one sentence with one thread's memory. Returns 0, or a status that ends the batch.
ctypedef int (*SentenceFunction)(
    void* state, const Batch* batch, Py_ssize_t sentence) noexcept nogil

# An algorithm with its memory, for one thread. Subclasses set the first two fields.
cdef class Worker:
    cdef SentenceFunction handle
    cdef void* state                # the first argument of `handle`
    cdef double* square             # for the scores of one sentence, by `gather`; NULL until made
    cdef double* make_square(self, Py_ssize_t max_words) except NULL

# Raises MemoryError for a Status other than Status.OK, from allocating.
cdef int check_memory(Py_ssize_t max_words, int status) except -1

cdef tuple run_batch(ScoreBuffer buffer, list workers)

# First score of the row of a word; its scores are contiguous where the batch is plain.
cdef inline const char* score_row(
        const Batch* batch, Py_ssize_t sentence, Py_ssize_t dep) noexcept nogil:
    return batch.scores + sentence * batch.sentence_bytes + dep * batch.row_bytes

# The score of one arc between different nodes; -inf where it is not allowed.
cdef inline double score_of_arc(
        const Batch* batch, Py_ssize_t sentence, Py_ssize_t dep, Py_ssize_t head) noexcept nogil:
    cdef const char* place = score_row(batch, sentence, dep) + head * batch.column_bytes
    if batch.allowed is not NULL and not batch.allowed[
            sentence * batch.allowed_sentence_bytes + dep * batch.allowed_row_bytes
            + head * batch.allowed_column_bytes]:
        return -INFINITY
    return (<const float*>place)[0] if batch.is_float32 else (<const double*>place)[0]

cdef void gather(const Batch* batch, Py_ssize_t sentence, double* square) noexcept nogil
