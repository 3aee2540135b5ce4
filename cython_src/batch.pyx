"""Batches of scores, and the one loop over their sentences.

Arguments are checked in spacy_rootmind.trees and trusted here.
"""
from cpython.buffer cimport (
    PyBUF_C_CONTIGUOUS,
    PyBUF_STRIDED_RO,
    PyBuffer_Release,
    PyObject_GetBuffer,
)
from cpython.pythread cimport (
    WAIT_LOCK,
    PyThread_acquire_lock,
    PyThread_allocate_lock,
    PyThread_free_lock,
    PyThread_release_lock,
    PyThread_start_new_thread,
    PyThread_type_lock,
)
from libc.limits cimport ULONG_MAX
from libc.math cimport INFINITY
from libc.stddef cimport size_t
from libc.stdlib cimport free, malloc

import numpy as np

from spacy_rootmind.kernel.interrupt cimport (
    ROWS_PER_POLL,
    await_signals,
    do_part,
    poll,
    run_call,
    this_call,
)
from spacy_rootmind.kernel.status cimport Status

cdef enum:
    MANY_STEPS = 1 << 20    # at most, in sentences that are too short to poll

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
        if self.score_view.ndim != 3:
            raise ValueError("expected scores in three dimensions")
        if self.score_view.strides[2] != self.score_view.itemsize or (
                self.score_view.strides[1] % self.score_view.itemsize != 0):
            PyBuffer_Release(&self.score_view)
            PyObject_GetBuffer(
                np.array(scores, order="C"), &self.score_view, PyBUF_STRIDED_RO)
        PyObject_GetBuffer(lengths, &self.length_view, PyBUF_C_CONTIGUOUS)
        if self.length_view.ndim != 1 or self.length_view.itemsize != sizeof(Py_ssize_t):
            raise ValueError("expected lengths of dtype intp in one dimension")
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


# --- threads -----------------------------------------------------------------------------------
#
# Helper threads run no Python, and end with their call. The calling thread works as well, on what
# no helper has taken yet.

cdef extern from "Python.h" nogil:
    ctypedef enum PyLockStatus:
        PY_LOCK_ACQUIRED
    PyLockStatus PyThread_acquire_lock_timed(
        PyThread_type_lock lock, long long microseconds, int by_signals) noexcept


cdef enum:
    CHUNKS_PER_THREAD = 16  # enough that one hard sentence does not leave the others waiting
    MICROSECONDS_PER_CHECK = 50000  # for signals

# The data of a thread: its crew, its worker's function and memory, and the sentences it has taken.
cdef struct Thread:
    Crew* crew
    SentenceFunction handle
    void* state
    Py_ssize_t start
    Py_ssize_t stop
    Py_ssize_t failed           # the first sentence that did

# All threads of a batch, and what they share.
cdef struct Crew:
    const Batch* batch
    void* call
    Py_ssize_t n_threads
    Thread[MAX_THREADS] threads
    double chunk_cost
    PyThread_type_lock lock     # guards all below
    PyThread_type_lock finished  # held until the last helper is done
    Py_ssize_t next_sentence    # first one that nobody has taken
    Py_ssize_t n_helpers        # at work now
    int status                  # of the lowest sentence that failed
    Py_ssize_t failed           # and its number


cdef Py_ssize_t take_chunk(Crew* crew) noexcept nogil:
    """Take sentences off the front; returns the end of the chunk. The lock must be held."""
    cdef double cost = 0
    cdef double n
    while crew.next_sentence < crew.batch.n_sentences and cost < crew.chunk_cost:
        n = crew.batch.lengths[crew.next_sentence] + 1
        cost += n * n
        crew.next_sentence += 1
    return crew.next_sentence


cdef void work(Thread* thread) noexcept nogil:
    """Handle chunks until none is left. The lock must be held, and is held again at the end."""
    cdef Crew* crew = thread.crew
    cdef Py_ssize_t start, stop
    cdef int status
    while crew.next_sentence < crew.batch.n_sentences:
        start = crew.next_sentence
        stop = take_chunk(crew)
        PyThread_release_lock(crew.lock)
        status = handle_chunk(thread, start, stop)
        PyThread_acquire_lock(crew.lock, WAIT_LOCK)
        if status != 0 and (crew.status == 0 or thread.failed < crew.failed):
            # Chunks are taken in order: all that might hold a lower failure are taken by now.
            crew.next_sentence = crew.batch.n_sentences
            crew.status = status
            crew.failed = thread.failed


cdef void run_helper(void* argument) noexcept nogil:
    """Work with the others. The crew's memory is gone once the last helper has said so."""
    cdef Thread* thread = <Thread*>argument
    cdef Crew* crew = thread.crew
    cdef bint is_last
    PyThread_acquire_lock(crew.lock, WAIT_LOCK)
    work(thread)
    crew.n_helpers -= 1
    is_last = crew.n_helpers == 0
    PyThread_release_lock(crew.lock)
    if is_last:
        PyThread_release_lock(crew.finished)


cdef int run_crew(void* argument) noexcept nogil:
    """Handle all sentences with all threads, in chunks that are even in the squares of lengths.

    Returns 0, or the status of the lowest sentence that failed, and its number in `crew.failed`;
    every sentence before it went well. The lock must be held; helpers wait for it.
    """
    cdef Crew* crew = <Crew*>argument
    crew.call = this_call()
    if crew.n_helpers == 0:
        crew.status = handle_chunk(&crew.threads[0], 0, crew.batch.n_sentences)
        crew.failed = crew.threads[0].failed
        return crew.status
    work(&crew.threads[0])
    PyThread_release_lock(crew.lock)
    # Helpers stop early if a signal's handler raises.
    while PyThread_acquire_lock_timed(
            crew.finished, MICROSECONDS_PER_CHECK, True) != PY_LOCK_ACQUIRED:
        await_signals()
    return crew.status


cdef int start_helpers(Crew* crew) except -1:
    """Start a thread for each worker except the first, or all that start; they await the lock."""
    cdef Py_ssize_t i
    cdef double n, cost = 0
    crew.lock = PyThread_allocate_lock()
    crew.finished = PyThread_allocate_lock()
    if crew.lock is NULL or crew.finished is NULL:
        return 0
    for i in range(crew.batch.n_sentences):
        n = crew.batch.lengths[i] + 1
        cost += n * n
    crew.chunk_cost = cost / (crew.n_threads * CHUNKS_PER_THREAD)
    PyThread_acquire_lock(crew.finished, WAIT_LOCK)
    PyThread_acquire_lock(crew.lock, WAIT_LOCK)
    for i in range(1, crew.n_threads):
        if <unsigned long>PyThread_start_new_thread(run_helper, &crew.threads[i]) == ULONG_MAX:
            break
        crew.n_helpers += 1
    return 0


# --- sentences ---------------------------------------------------------------------------------

cdef class Worker:
    """An algorithm with its memory, for one thread."""

    def __dealloc__(self):
        free(self.square)

    cdef double* make_square(self, Py_ssize_t max_words) except NULL:
        """Allocate the square for the scores of one sentence, unless it is there."""
        cdef size_t width = <size_t>max_words + 1
        if self.square is NULL:
            self.square = <double*>malloc(width * width * sizeof(double))
            if self.square is NULL:
                check_memory(max_words, Status.NO_MEMORY)
        return self.square


cdef int check_memory(Py_ssize_t max_words, int status) except -1:
    if status != Status.OK:
        raise MemoryError(f"no memory for a sentence of {max_words} words; split it first")
    return 0


cdef int handle_sentences(void* argument) noexcept nogil:
    """Handle the sentences that a thread has taken, up to the first that fails."""
    cdef Thread* thread = <Thread*>argument
    cdef SentenceFunction handle = thread.handle
    cdef Py_ssize_t sentence
    cdef int status
    for sentence in range(thread.start, thread.stop):
        if sentence % ROWS_PER_POLL == 0:
            poll(MANY_STEPS)
        status = handle(thread.state, thread.crew.batch, sentence)
        if status != Status.OK:
            thread.failed = sentence
            return status
    return Status.OK


cdef int handle_chunk(Thread* thread, Py_ssize_t start, Py_ssize_t stop) noexcept nogil:
    """Handle sentences start..stop-1, up to the first that fails."""
    thread.start = thread.failed = start
    thread.stop = stop
    return do_part(thread.crew.call, handle_sentences, thread)


cdef tuple run_batch(ScoreBuffer buffer, list workers):
    """Handle all sentences of a batch with one thread per worker, at most MAX_THREADS.

    Returns the status and the number of the first sentence that failed, or (Status.OK, any).
    """
    cdef Py_ssize_t i
    cdef Crew crew
    cdef Worker worker
    crew.lock = crew.finished = NULL
    crew.batch = &buffer.c
    crew.n_threads = len(workers)
    crew.next_sentence = crew.n_helpers = crew.failed = 0
    crew.status = Status.OK
    for i in range(crew.n_threads):
        worker = workers[i]
        crew.threads[i].handle = worker.handle
        crew.threads[i].state = worker.state
        crew.threads[i].crew = &crew
    if crew.n_threads > 1:
        start_helpers(&crew)
    try:
        return run_call(run_crew, &crew), crew.failed
    finally:
        if crew.lock is not NULL:
            PyThread_free_lock(crew.lock)
        if crew.finished is not NULL:
            PyThread_free_lock(crew.finished)
