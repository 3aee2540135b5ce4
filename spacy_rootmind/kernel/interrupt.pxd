"""Ctrl-C during long work without Python's lock.

A call does its work by `run_call`. Long work polls: if a signal's handler has raised
meanwhile, the poll does not return, but `do_part` does. So whoever polls must hold no lock, and no
memory that is freed by nobody else. Outside of such calls, polls do nothing.
"""

# Work on any argument; returns a status.
ctypedef int (*Work)(void* argument) noexcept nogil

# Does all work of a call without Python's lock. Returns its status, or raises what a handler has
# raised. In the main thread only, since handlers run in no other.
cdef int run_call(Work work, void* argument) except? -1
# The call that this thread is at work for; for `do_part` in other threads.
cdef void* this_call() noexcept nogil
# Does a part of a call's work; Status.INTERRUPTED if a poll put an end to it.
cdef int do_part(void* call, Work work, void* argument) noexcept nogil
# Does all work of a call as one part; returns its status, or raises.
cdef int run_part(Work work, void* argument) except? -1
# Looks for signals, between parts.
cdef void await_signals() noexcept nogil

# Counts elementary steps, of a nanosecond or so each, and looks for signals every million.
cdef void poll(Py_ssize_t steps) noexcept nogil

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
