"""Ctrl-C during long work without Python's lock; see the declarations."""
import os
import threading

from cpython.pythread cimport PyThread_get_thread_ident

from spacy_rootmind.kernel.status cimport Status


cdef extern from "interrupt.h" nogil:
    bint count_steps(Py_ssize_t steps) noexcept
    void end_work(int status) noexcept
    int do_work(Work work, void* argument, int* stop, int takes_signals) noexcept

cdef unsigned long main_thread


def _find_main_thread():
    """Note which thread runs handlers of signals; in a child process it may be another one."""
    global main_thread
    main_thread = threading.main_thread().ident


_find_main_thread()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_find_main_thread)


cdef int run_part(Work work, void* argument, int* stop) except? -1:
    cdef bint takes_signals = <unsigned long>PyThread_get_thread_ident() == main_thread
    cdef int status
    with nogil:
        status = do_work(work, argument, stop, takes_signals)
    # The error is set already.
    return -1 if takes_signals and stop[0] else status


cdef void poll(Py_ssize_t steps) noexcept nogil:
    if count_steps(steps):
        end_work(Status.INTERRUPTED)


cdef void give_up(int status) noexcept nogil:
    end_work(status)
