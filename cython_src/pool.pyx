"""Pool of threads that share the sentences of a batch, without Python and so without its lock.

A batch of a thousand sentences may take only a few hundred microseconds: about as long as it takes
to start a thread, or to pass Python's lock between threads. So helper threads stay between calls,
asleep, and run no Python. The calling thread works as well, on whatever no helper has taken yet,
and at the end waits only for helpers that have taken something: one that wakes up late because the
machine is busy costs nothing.

Only one call at a time uses the helpers; a second call does its work alone. Helpers do not survive
a fork, so a child process forgets those of its parent and starts its own.
"""
import os

from cpython.pythread cimport (
    NOWAIT_LOCK,
    WAIT_LOCK,
    PyThread_acquire_lock,
    PyThread_allocate_lock,
    PyThread_free_lock,
    PyThread_release_lock,
    PyThread_start_new_thread,
    PyThread_type_lock,
)
from libc.limits cimport ULONG_MAX

from spacy_rootmind.kernel.interrupt cimport await_signals

cdef extern from "ieee.h":
    pass


cdef extern from "Python.h" nogil:
    ctypedef enum PyLockStatus:
        PY_LOCK_ACQUIRED
    PyLockStatus PyThread_acquire_lock_timed(
        PyThread_type_lock lock, long long microseconds, int by_signals) noexcept


cdef enum:
    MAX_HELPERS = 255       # as many as the threads of a batch, less the caller
    CHUNKS_PER_THREAD = 16  # enough that one hard sentence does not leave the others waiting
    SPINS = 4000            # about 0.1 milliseconds
    MICROSECONDS_PER_CHECK = 50000  # for signals

cdef struct Helper:
    PyThread_type_lock wake     # held while there is nothing to do
    bint called                 # woken, and not yet back asleep
    Py_ssize_t number           # of its state: 1 for the first, the caller has 0

cdef struct Job:
    ChunkFunction function
    void** states
    Py_ssize_t n_threads
    const Py_ssize_t* lengths
    Py_ssize_t n_sentences
    Py_ssize_t next_sentence    # first one that nobody has taken
    double chunk_cost
    Py_ssize_t n_working        # helpers at work now
    bint caller_waits
    int status                  # of the lowest sentence that failed
    Py_ssize_t failed

cdef struct Pool:
    PyThread_type_lock owner    # held by the call that has the helpers
    PyThread_type_lock lock     # guards all below
    PyThread_type_lock finished  # held until the last helper is done, if the caller waits
    Py_ssize_t n_helpers
    Helper[MAX_HELPERS] helpers
    Job job

cdef Pool pool


def _make_pool():
    """Begin without helpers; also in a child process, where those of the parent do not run."""
    pool.owner = PyThread_allocate_lock()
    pool.lock = PyThread_allocate_lock()
    pool.finished = PyThread_allocate_lock()
    if pool.owner is NULL or pool.lock is NULL or pool.finished is NULL:
        raise MemoryError("no memory for locks")
    PyThread_acquire_lock(pool.finished, WAIT_LOCK)
    pool.n_helpers = 0


_make_pool()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_make_pool)


cdef void wait_for(PyThread_type_lock lock) noexcept nogil:
    """Acquire a lock that will be released soon: spin first, then sleep.

    Falling asleep and being woken take as long as a small batch.
    """
    cdef int _spin
    for _spin in range(SPINS):
        if PyThread_acquire_lock(lock, NOWAIT_LOCK):
            return
    PyThread_acquire_lock(lock, WAIT_LOCK)


cdef void wait_for_helpers() noexcept nogil:
    """Wait until the last helper is done; they stop early if a signal's handler raises."""
    cdef int _spin
    for _spin in range(SPINS):
        if PyThread_acquire_lock(pool.finished, NOWAIT_LOCK):
            return
    while PyThread_acquire_lock_timed(
            pool.finished, MICROSECONDS_PER_CHECK, True) != PY_LOCK_ACQUIRED:
        await_signals()


cdef Py_ssize_t take_chunk(Job* job) noexcept nogil:
    """Take sentences off the front; returns the end of the chunk. The lock must be held."""
    cdef double cost = 0
    cdef double n
    while job.next_sentence < job.n_sentences and cost < job.chunk_cost:
        n = job.lengths[job.next_sentence] + 1
        cost += n * n
        job.next_sentence += 1
    return job.next_sentence


cdef void work(Job* job, Py_ssize_t number) noexcept nogil:
    """Handle chunks until none is left. The lock must be held, and is held again at the end."""
    cdef Py_ssize_t start, stop, failed
    cdef int status
    while job.next_sentence < job.n_sentences:
        start = job.next_sentence
        stop = take_chunk(job)
        PyThread_release_lock(pool.lock)
        status = job.function(job.states[number], start, stop, &failed)
        wait_for(pool.lock)
        if status != 0 and (job.status == 0 or failed < job.failed):
            # Chunks are taken in order: all that might hold a lower failure are taken by now.
            job.next_sentence = job.n_sentences
            job.status = status
            job.failed = failed


cdef void run_helper(void* argument) noexcept nogil:
    """Take part in every job from now on."""
    cdef Helper* helper = <Helper*>argument
    cdef Job* job = &pool.job
    while True:
        wait_for(helper.wake)
        wait_for(pool.lock)
        # The job may be done by now, or another call may have taken over.
        if helper.number < job.n_threads and job.next_sentence < job.n_sentences:
            job.n_working += 1
            work(job, helper.number)
            job.n_working -= 1
            if job.n_working == 0 and job.caller_waits:
                job.caller_waits = False
                PyThread_release_lock(pool.finished)
        helper.called = False
        PyThread_release_lock(pool.lock)


cdef void start_helpers(Py_ssize_t n_threads):
    """Start helpers for that many threads, the caller included, as far as the system allows."""
    cdef Helper* helper
    cdef Py_ssize_t wanted = min(n_threads - 1, <Py_ssize_t>MAX_HELPERS)
    if pool.n_helpers >= wanted:
        return
    # Two calls at once must not both start them.
    if not PyThread_acquire_lock(pool.owner, NOWAIT_LOCK):
        return
    while pool.n_helpers < wanted:
        helper = &pool.helpers[pool.n_helpers]
        helper.number = pool.n_helpers + 1
        helper.called = False
        helper.wake = PyThread_allocate_lock()
        if helper.wake is NULL:
            break
        PyThread_acquire_lock(helper.wake, WAIT_LOCK)
        if <unsigned long>PyThread_start_new_thread(run_helper, helper) == ULONG_MAX:
            PyThread_free_lock(helper.wake)
            break
        pool.n_helpers += 1
    PyThread_release_lock(pool.owner)


cdef int run_chunks(
        ChunkFunction function, void** states, Py_ssize_t n_threads, const Py_ssize_t* lengths,
        Py_ssize_t n_sentences, Py_ssize_t* failed) noexcept nogil:
    """Run a function over all sentences, with n_threads threads at most, each with its own state.

    Chunks are even in the squares of the lengths. Returns 0, or the status of the lowest sentence
    that failed, and its number; every sentence before it went well.
    """
    cdef Job* job = &pool.job
    cdef Py_ssize_t i, n_helpers
    cdef double cost = 0
    cdef int status
    if n_threads <= 1 or not PyThread_acquire_lock(pool.owner, NOWAIT_LOCK):
        return function(states[0], 0, n_sentences, failed)
    for i in range(n_sentences):
        cost += <double>(lengths[i] + 1) * <double>(lengths[i] + 1)
    wait_for(pool.lock)
    n_helpers = min(n_threads - 1, pool.n_helpers)
    job.function = function
    job.states = states
    job.n_threads = n_threads
    job.lengths = lengths
    job.n_sentences = n_sentences
    job.next_sentence = 0
    job.chunk_cost = cost / (n_threads * CHUNKS_PER_THREAD)
    job.n_working = 0
    job.caller_waits = False
    job.status = 0
    for i in range(n_helpers):
        if not pool.helpers[i].called:
            pool.helpers[i].called = True
            PyThread_release_lock(pool.helpers[i].wake)
    work(job, 0)
    if job.n_working > 0:
        job.caller_waits = True
        PyThread_release_lock(pool.lock)
        wait_for_helpers()
        wait_for(pool.lock)
    status = job.status
    failed[0] = job.failed
    # A helper that wakes up now finds nothing.
    job.n_sentences = job.next_sentence = 0
    PyThread_release_lock(pool.lock)
    PyThread_release_lock(pool.owner)
    return status
