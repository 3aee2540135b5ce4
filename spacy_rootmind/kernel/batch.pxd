"""Batches of scores as the kernel reads them, and the one loop over their sentences.

An algorithm brings a function for a single sentence and a Worker per thread that owns the memory
it needs; threads, strides, float widths and failures are handled here.
"""
from cpython.buffer cimport Py_buffer

ctypedef fused score_t:
    float
    double

cdef enum:
    MAX_THREADS = 256   # per batch; more than any machine gains from

# Scores, float32 or float64. Rows are contiguous, at a distance of any number of scores.
cdef struct Batch:
    const char* scores
    Py_ssize_t sentence_bytes
    Py_ssize_t row_stride           # in scores
    const Py_ssize_t* lengths
    Py_ssize_t n_sentences
    bint is_float32
    const void* task                # what an algorithm is to do with all sentences

# Holds the arrays' memory while it lives.
cdef class ScoreBuffer:
    cdef Py_buffer score_view
    cdef Py_buffer length_view
    cdef Batch c

# Handles one sentence with one thread's memory, or gives up, which ends the batch.
ctypedef void (*SentenceFunction)(
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

# The scores of a sentence.
cdef inline const char* scores_of(const Batch* batch, Py_ssize_t sentence) noexcept nogil:
    return batch.scores + sentence * batch.sentence_bytes

# The score of one arc between different nodes.
cdef inline double score_of_arc(
        const Batch* batch, Py_ssize_t sentence, Py_ssize_t dep, Py_ssize_t head) noexcept nogil:
    cdef const char* scores = scores_of(batch, sentence)
    cdef Py_ssize_t place = dep * batch.row_stride + head
    return (<const float*>scores)[place] if batch.is_float32 else (<const double*>scores)[place]

cdef void gather(const Batch* batch, Py_ssize_t sentence, double* square) noexcept nogil
