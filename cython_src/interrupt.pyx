"""Ctrl-C during long work without Python's lock; see the declarations."""
import os
import threading

from cpython.pythread cimport PyThread_get_thread_ident

from spacy_rootmind.kernel.status cimport Status


cdef extern from "interrupt.h" nogil:
    ctypedef struct Watch:
        pass
    void count_steps(Py_ssize_t steps) noexcept
    void check_signals_of_call() noexcept
    int watch_call(Work work, void* argument, int takes_signals, int* stopped) noexcept
    int work_for_call(Watch* watch, Work work, void* argument, int if_stopped) noexcept
    Watch* watch_of_this_thread() noexcept

cdef unsigned long main_thread


def _find_main_thread():
    """Note which thread runs handlers of signals; in a child process it may be another one."""
    global main_thread
    main_thread = threading.main_thread().ident


_find_main_thread()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_find_main_thread)


cdef int run_call(Work work, void* argument) except? -1:
    cdef bint takes_signals = <unsigned long>PyThread_get_thread_ident() == main_thread
    cdef int stopped = 0
    cdef int status
    with nogil:
        status = watch_call(work, argument, takes_signals, &stopped)
    # The error is set already.
    return -1 if stopped else status


cdef void* this_call() noexcept nogil:
    return watch_of_this_thread()


cdef int do_part(void* call, Work work, void* argument) noexcept nogil:
    return work_for_call(<Watch*>call, work, argument, Status.INTERRUPTED)


cdef struct Part:
    Work work
    void* argument


cdef int do_all(void* argument) noexcept nogil:
    cdef Part* part = <Part*>argument
    return do_part(this_call(), part.work, part.argument)


cdef int run_part(Work work, void* argument) except? -1:
    cdef Part part = Part(work, argument)
    return run_call(do_all, &part)


cdef void await_signals() noexcept nogil:
    check_signals_of_call()


cdef void poll(Py_ssize_t steps) noexcept nogil:
    count_steps(steps)
