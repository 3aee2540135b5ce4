"""Batches of scores, and the one loop over their sentences.

Arguments are checked in spacy_rootmind.trees and trusted here.
"""
from cpython.buffer cimport (
    PyBUF_C_CONTIGUOUS,
    PyBUF_STRIDED_RO,
    PyBuffer_Release,
    PyObject_GetBuffer,
)
from libc.math cimport INFINITY

from spacy_rootmind.kernel.decode cimport (
    DECODE_BAD_SCORE,
    DECODE_LOST_DIGITS,
    DECODE_NO_MEMORY,
    DECODE_NO_TREE,
    DECODE_OK,
    score_t,
)
from spacy_rootmind.kernel.interrupt cimport (
    ROWS_PER_POLL,
    do_part,
    poll,
    run_call,
    this_call,
)
from spacy_rootmind.kernel.pool cimport run_chunks, start_helpers

cdef extern from "ieee.h":
    pass

cdef enum:
    MANY_STEPS = 1 << 20    # at most, in sentences that are too short to poll

OK = DECODE_OK
NO_TREE = DECODE_NO_TREE
BAD_SCORE = DECODE_BAD_SCORE
NO_MEMORY = DECODE_NO_MEMORY
LOST_DIGITS = DECODE_LOST_DIGITS
MOST_THREADS = MAX_THREADS


# --- scores ------------------------------------------------------------------------------------

cdef class ScoreBuffer:
    """The memory of an array of scores, its mask and the sentences' lengths.

    `scores` is float32 or float64 in three dimensions, `allowed` None or bytes of the same shape,
    `lengths` one Py_ssize_t per sentence. Typed views of arrays of either type would cost more than
    decoding a short sentence.
    """

    def __cinit__(self, object scores, object allowed, object lengths):
        self.score_view.buf = self.allowed_view.buf = self.length_view.buf = NULL
        PyObject_GetBuffer(scores, &self.score_view, PyBUF_STRIDED_RO)
        if allowed is not None:
            PyObject_GetBuffer(allowed, &self.allowed_view, PyBUF_STRIDED_RO)
        PyObject_GetBuffer(lengths, &self.length_view, PyBUF_C_CONTIGUOUS)
        if self.score_view.ndim != 3 or (allowed is not None and self.allowed_view.ndim != 3):
            raise ValueError("expected scores and mask in three dimensions")
        if self.length_view.ndim != 1 or self.length_view.itemsize != sizeof(Py_ssize_t):
            raise ValueError("expected lengths of dtype intp in one dimension")
        self.c.lengths = <const Py_ssize_t*>self.length_view.buf
        self.c.n_sentences = self.length_view.shape[0]
        describe(&self.c, &self.score_view, &self.allowed_view)

    def __dealloc__(self):
        if self.score_view.buf is not NULL:
            PyBuffer_Release(&self.score_view)
        if self.allowed_view.buf is not NULL:
            PyBuffer_Release(&self.allowed_view)
        if self.length_view.buf is not NULL:
            PyBuffer_Release(&self.length_view)


cdef void describe(Batch* batch, const Py_buffer* scores, const Py_buffer* allowed) noexcept:
    """Describe the scores and the mask; `allowed.buf` is NULL without one."""
    batch.scores = <const char*>scores.buf
    batch.sentence_bytes = scores.strides[0]
    batch.row_bytes = scores.strides[1]
    batch.column_bytes = scores.strides[2]
    batch.is_float32 = scores.itemsize == sizeof(float)
    batch.allowed = <const char*>allowed.buf
    if batch.allowed is not NULL:
        batch.allowed_sentence_bytes = allowed.strides[0]
        batch.allowed_row_bytes = allowed.strides[1]
        batch.allowed_column_bytes = allowed.strides[2]
    batch.is_plain = (
        batch.allowed is NULL and batch.column_bytes == scores.itemsize
        and batch.row_bytes % scores.itemsize == 0)


cdef inline void gather_as(
        const Batch* batch, Py_ssize_t sentence, const score_t* of_type, double* square,
        Py_ssize_t first, Py_ssize_t last) noexcept nogil:
    """`gather` for some rows and one type of scores, which is all that `of_type` stands for."""
    cdef Py_ssize_t n = batch.lengths[sentence]
    cdef const char* allowed = NULL
    cdef const char* row
    cdef double* out
    cdef Py_ssize_t dep, head
    for dep in range(first, last + 1):
        row = score_row(batch, sentence, dep)
        out = square + dep * (n + 1)
        if batch.is_plain:
            for head in range(dep):
                out[head] = (<const score_t*>row)[head]
            for head in range(dep + 1, n + 1):
                out[head] = (<const score_t*>row)[head]
        else:
            for head in range(n + 1):
                if head != dep:
                    out[head] = (<const score_t*>(row + head * batch.column_bytes))[0]
        out[dep] = -INFINITY
        if batch.allowed is not NULL:
            allowed = batch.allowed + (
                sentence * batch.allowed_sentence_bytes + dep * batch.allowed_row_bytes)
            for head in range(n + 1):
                if not allowed[head * batch.allowed_column_bytes]:
                    out[head] = -INFINITY


cdef void gather(const Batch* batch, Py_ssize_t sentence, double* square) noexcept nogil:
    """Copy one sentence of any type and layout; see the declaration."""
    cdef Py_ssize_t n = batch.lengths[sentence]
    cdef Py_ssize_t first = 1, last
    while True:
        last = min(first + ROWS_PER_POLL, n)
        if batch.is_float32:
            gather_as(batch, sentence, <const float*>NULL, square, first, last)
        else:
            gather_as(batch, sentence, <const double*>NULL, square, first, last)
        if last == n:
            return
        poll(ROWS_PER_POLL * n)
        first = last + 1


# --- sentences ---------------------------------------------------------------------------------

cdef class Worker:
    """An algorithm with its memory, for one thread."""


# What a thread works with: the call and the batch, which all share, its worker's function and
# memory, and the sentences it has taken.
cdef struct Thread:
    SentenceFunction handle
    void* state
    const Batch* batch
    void* call
    Py_ssize_t start
    Py_ssize_t stop
    Py_ssize_t failed


# All threads of a batch.
cdef struct Crew:
    const Batch* batch
    Py_ssize_t n_threads
    Thread[MAX_THREADS] threads
    (void*)[MAX_THREADS] states
    Py_ssize_t failed


cdef int handle_sentences(void* argument) noexcept nogil:
    """Handle the sentences that a thread has taken, up to the first that fails."""
    cdef Thread* thread = <Thread*>argument
    cdef SentenceFunction handle = thread.handle
    cdef Py_ssize_t sentence
    cdef int status
    for sentence in range(thread.start, thread.stop):
        if sentence % ROWS_PER_POLL == 0:
            poll(MANY_STEPS)
        status = handle(thread.state, thread.batch, sentence)
        if status != DECODE_OK:
            thread.failed = sentence
            return status
    return DECODE_OK


cdef int handle_chunk(
        void* state, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t* failed) noexcept nogil:
    """Handle sentences start..stop-1, up to the first that fails."""
    cdef Thread* thread = <Thread*>state
    cdef int status
    thread.start = thread.failed = start
    thread.stop = stop
    status = do_part(thread.call, handle_sentences, thread)
    failed[0] = thread.failed
    return status


cdef int run_crew(void* argument) noexcept nogil:
    """Handle all sentences, with all threads."""
    cdef Crew* crew = <Crew*>argument
    cdef Py_ssize_t i
    for i in range(crew.n_threads):
        crew.threads[i].call = this_call()
    return run_chunks(
        handle_chunk, crew.states, crew.n_threads, crew.batch.lengths, crew.batch.n_sentences,
        &crew.failed)


cdef tuple run_batch(ScoreBuffer buffer, list workers):
    """Handle all sentences of a batch; see the declaration. At most MAX_THREADS workers."""
    cdef Py_ssize_t i
    cdef Crew crew
    cdef Worker worker
    cdef int status
    crew.batch = &buffer.c
    crew.n_threads = len(workers)
    crew.failed = 0
    for i in range(crew.n_threads):
        worker = workers[i]
        crew.threads[i].handle = worker.handle
        crew.threads[i].state = worker.state
        crew.threads[i].batch = &buffer.c
        crew.states[i] = &crew.threads[i]
    if crew.n_threads > 1:
        start_helpers(crew.n_threads)
    status = run_call(run_crew, &crew)
    return status, crew.failed
