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
from libc.stddef cimport size_t
from libc.stdlib cimport free, malloc

from _thread import allocate_lock, start_new_thread

import numpy as np

from spacy_rootmind.kernel.interrupt cimport ROWS_PER_POLL, poll, run_part
from spacy_rootmind.kernel.status cimport Status

cdef enum:
    MANY_STEPS = 1 << 20    # at most, in sentences that are too short to poll
    CHUNKS_PER_THREAD = 16  # enough that one hard sentence does not leave the others waiting

OK = Status.OK
NO_TREE = Status.NO_TREE
BAD_SCORE = Status.BAD_SCORE
NO_MEMORY = Status.NO_MEMORY
LOST_DIGITS = Status.LOST_DIGITS
MOST_THREADS = MAX_THREADS


# --- scores ------------------------------------------------------------------------------------

cdef class ScoreBuffer:
    """The memory of an array of scores and of the sentences' lengths.

    `scores` is float32 or float64 in three dimensions, and is copied if its rows are not
    contiguous; `lengths` has one Py_ssize_t per sentence. Typed views of arrays of either type
    would cost more than decoding a short sentence.
    """

    def __cinit__(self, object scores, object lengths):
        self.score_view.buf = self.length_view.buf = NULL
        PyObject_GetBuffer(scores, &self.score_view, PyBUF_STRIDED_RO)
        if self.score_view.strides[2] != self.score_view.itemsize or (
                self.score_view.strides[1] % self.score_view.itemsize != 0):
            PyBuffer_Release(&self.score_view)
            PyObject_GetBuffer(
                np.array(scores, order="C"), &self.score_view, PyBUF_STRIDED_RO)
        PyObject_GetBuffer(lengths, &self.length_view, PyBUF_C_CONTIGUOUS)
        self.c.scores = <const char*>self.score_view.buf
        self.c.sentence_bytes = self.score_view.strides[0]
        self.c.row_stride = self.score_view.strides[1] // self.score_view.itemsize
        self.c.is_float32 = self.score_view.itemsize == sizeof(float)
        self.c.lengths = <const Py_ssize_t*>self.length_view.buf
        self.c.n_sentences = self.length_view.shape[0]

    def __dealloc__(self):
        if self.score_view.buf is not NULL:
            PyBuffer_Release(&self.score_view)
        if self.length_view.buf is not NULL:
            PyBuffer_Release(&self.length_view)


cdef inline void gather_as(
        const score_t* scores, Py_ssize_t row_stride, Py_ssize_t n, double* square,
        Py_ssize_t first, Py_ssize_t last) noexcept nogil:
    """`gather` for some rows and one type of scores."""
    cdef const score_t* row
    cdef double* out
    cdef Py_ssize_t dep, head
    for dep in range(first, last + 1):
        row = scores + dep * row_stride
        out = square + dep * (n + 1)
        for head in range(dep):
            out[head] = row[head]
        for head in range(dep + 1, n + 1):
            out[head] = row[head]
        out[dep] = -INFINITY


cdef void gather(const Batch* batch, Py_ssize_t sentence, double* square) noexcept nogil:
    """Copy one sentence to a contiguous square, (n + 1) x (n + 1), with -inf on the diagonal.

    Row 0 is neither read nor written.
    """
    cdef const char* scores = scores_of(batch, sentence)
    cdef Py_ssize_t n = batch.lengths[sentence], stride = batch.row_stride
    cdef Py_ssize_t first = 1, last
    while True:
        last = min(first + ROWS_PER_POLL, n)
        if batch.is_float32:
            gather_as(<const float*>scores, stride, n, square, first, last)
        else:
            gather_as(<const double*>scores, stride, n, square, first, last)
        if last == n:
            return
        poll(ROWS_PER_POLL * n)
        first = last + 1


# --- sentences ---------------------------------------------------------------------------------

cdef class Worker:
    """An algorithm with its memory, for one thread."""

    def __dealloc__(self):
        free(self.square)

    cdef double* make_square(self, Py_ssize_t max_words) except NULL:
        """Allocate the square for the scores of one sentence."""
        cdef size_t width = <size_t>max_words + 1
        self.square = <double*>malloc(width * width * sizeof(double))
        if self.square is NULL:
            check_memory(max_words, Status.NO_MEMORY)
        return self.square


cdef int check_memory(Py_ssize_t max_words, int status) except -1:
    if status != Status.OK:
        raise MemoryError(f"no memory for a sentence of {max_words} words; split it first")
    return 0


# Sentences for a worker to handle.
cdef struct Chunk:
    const Batch* batch
    SentenceFunction handle
    void* state
    Py_ssize_t start            # in the end, the first sentence that failed
    Py_ssize_t stop


cdef int handle_chunk(void* argument) noexcept nogil:
    """Handle sentences up to the first that fails."""
    cdef Chunk* chunk = <Chunk*>argument
    while chunk.start < chunk.stop:
        if chunk.start % ROWS_PER_POLL == 0:
            poll(MANY_STEPS)
        chunk.handle(chunk.state, chunk.batch, chunk.start)
        chunk.start += 1
    return Status.OK


cdef class Crew:
    """The workers of a batch, and what they share.

    Each has a thread that takes chunks of sentences, even in the squares of lengths, until none is
    left; the first one works in the calling thread.
    """
    cdef const Batch* batch
    cdef object lock            # guards all below
    cdef double chunk_cost
    cdef Py_ssize_t next_sentence  # first one that nobody has taken
    cdef int stop               # whether a signal's handler has raised
    cdef int status             # of the lowest sentence that failed
    cdef Py_ssize_t failed      # and its number

    cdef bint take(self, Chunk* chunk) except -1:
        """Take sentences off the front; returns whether any were left."""
        cdef double n, cost = 0
        with self.lock:
            chunk.start = self.next_sentence
            while self.next_sentence < self.batch.n_sentences and cost < self.chunk_cost:
                n = self.batch.lengths[self.next_sentence] + 1
                cost += n * n
                self.next_sentence += 1
            chunk.stop = self.next_sentence
        return chunk.start < chunk.stop

    cdef int work(self, Worker worker) except -1:
        """Handle chunks until none is left, or a sentence fails."""
        cdef Chunk chunk
        cdef int status
        chunk.batch, chunk.handle, chunk.state = self.batch, worker.handle, worker.state
        while self.take(&chunk):
            status = run_part(handle_chunk, &chunk, &self.stop)
            if status != Status.OK:
                with self.lock:
                    if self.status == Status.OK or chunk.start < self.failed:
                        self.status, self.failed = status, chunk.start
                    # Chunks are taken in order: all that might hold a lower failure are taken.
                    self.next_sentence = self.batch.n_sentences
        return 0

    def help(self, worker, ended):
        """Work in another thread; releases a lock in the end."""
        try:
            self.work(worker)
        finally:
            ended.release()

    def start(self, workers):
        """Start a thread for each worker, or all that start; returns locks that they release."""
        helpers = []
        for worker in workers:
            ended = allocate_lock()
            ended.acquire()
            try:
                start_new_thread(self.help, (worker, ended))
            except RuntimeError:
                break
            helpers.append(ended)
        return helpers

    def wait_for(self, helpers):
        """Wait until helpers have ended, also if a signal's handler raises meanwhile."""
        try:
            for ended in helpers:
                with ended:
                    pass
        except BaseException:
            self.stop = True
            self.wait_for(helpers)
            raise


cdef tuple run_batch(ScoreBuffer buffer, list workers):
    """Handle all sentences of a batch with one thread per worker.

    Returns the status and the number of the first sentence that failed, or (Status.OK, any).
    """
    cdef Crew crew
    cdef Chunk chunk
    cdef Worker only = workers[0]
    cdef Py_ssize_t i
    cdef double n, cost = 0
    cdef int stop = 0
    if len(workers) == 1:
        chunk = Chunk(&buffer.c, only.handle, only.state, 0, buffer.c.n_sentences)
        return run_part(handle_chunk, &chunk, &stop), chunk.start
    crew = Crew.__new__(Crew)
    crew.batch = &buffer.c
    crew.lock = allocate_lock()
    for i in range(buffer.c.n_sentences):
        n = buffer.c.lengths[i] + 1
        cost += n * n
    crew.chunk_cost = cost / (len(workers) * CHUNKS_PER_THREAD)
    helpers = crew.start(workers[1:])
    try:
        crew.work(only)
    finally:
        crew.wait_for(helpers)
    return crew.status, crew.failed
