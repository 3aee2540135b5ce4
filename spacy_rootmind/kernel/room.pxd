"""Arrays that grow."""
from libc.stddef cimport size_t
from libc.stdlib cimport realloc

from spacy_rootmind.kernel.decode cimport DECODE_NO_MEMORY, DECODE_OK


cdef inline int make_room(
        void** array, Py_ssize_t* room, Py_ssize_t wanted, size_t item) noexcept nogil:
    """Let an array hold at least `wanted` items; its size doubles. Returns a DecodeStatus."""
    cdef Py_ssize_t larger = max(wanted, 2 * room[0])
    cdef void* grown
    if wanted <= room[0]:
        return DECODE_OK
    if <size_t>larger > (<size_t>-1) / 2 / item:
        return DECODE_NO_MEMORY
    grown = realloc(array[0], larger * item)
    if grown is NULL:
        return DECODE_NO_MEMORY
    array[0] = grown
    room[0] = larger
    return DECODE_OK
