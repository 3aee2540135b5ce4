"""Ctrl-C during long work without Python's lock, and the end of work that cannot go on.

A call does its work by `run_part`, in each of its threads. Long work polls: if a signal's handler
has raised meanwhile, the poll does not return, but `run_part` does; so it is with work that gives
up. So whoever polls or gives up must hold no lock, and no memory that is freed by nobody else.
Outside of such calls, polls do nothing, and nothing may give up.
"""
from spacy_rootmind.kernel.status cimport Status

# Work on any argument; returns a status.
ctypedef int (*Work)(void* argument) noexcept nogil

# Does work of a call without Python's lock; returns its status. In the main thread, where handlers
# run, it raises what a handler has raised. `stop`, 0 at first and the same for all threads of the
# call, then puts an end to the others' work: Status.INTERRUPTED.
cdef int run_part(Work work, void* argument, int* stop) except? -1

# Counts elementary steps, of a nanosecond or so each, and looks for signals every million.
cdef void poll(Py_ssize_t steps) noexcept nogil

# Ends the work, which then returns this status.
cdef void give_up(int status) noexcept nogil

# Gives up if something has failed.
cdef inline void require(int status) noexcept nogil:
    if status != Status.OK:
        give_up(status)

cdef enum:
    ROWS_PER_POLL = 64      # so that short sentences never poll
    POLLED_PIVOTS = 128     # from this one on

# Polls at every 64th row, for rows of n elements.
cdef inline void poll_row(Py_ssize_t row, Py_ssize_t n) noexcept nogil:
    if row % ROWS_PER_POLL == 0:
        poll(ROWS_PER_POLL * n)


# Polls at every pivot that costs a matrix of k x k.
cdef inline void poll_pivot(Py_ssize_t k) noexcept nogil:
    if k >= POLLED_PIVOTS:
        poll(k * k)
