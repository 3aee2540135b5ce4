"""Arrays that grow, and workspaces of several arrays in one block."""
from libc.stddef cimport size_t
from libc.stdlib cimport calloc, malloc, realloc

from spacy_rootmind.kernel.interrupt cimport give_up
from spacy_rootmind.kernel.status cimport Status

cdef enum:
    MAX_ARRAYS = 32
    ALIGNMENT = 16

# The arrays of a workspace, until they get their places in one block.
cdef struct Layout:
    int n_arrays
    (void**)[MAX_ARRAYS] arrays
    size_t[MAX_ARRAYS] places
    size_t size             # of the block; more than there can be once that is so


cdef inline void make_room(
        void** array, Py_ssize_t* room, Py_ssize_t wanted, size_t item) noexcept nogil:
    """Let an array hold at least `wanted` items; its size doubles. Gives up without memory."""
    cdef Py_ssize_t larger = max(wanted, 2 * room[0])
    cdef void* grown = NULL
    if wanted <= room[0]:
        return
    if <size_t>larger <= (<size_t>-1) / 2 / item:
        grown = realloc(array[0], larger * item)
    if grown is NULL:
        give_up(Status.NO_MEMORY)
    array[0] = grown
    room[0] = larger


cdef inline void add_array(
        Layout* layout, void** array, size_t count, size_t item) noexcept nogil:
    """Add an array of `count` items, whose address will be written to `array`."""
    cdef size_t most = (<size_t>-1) / 2
    layout.arrays[layout.n_arrays] = array
    layout.places[layout.n_arrays] = layout.size
    layout.n_arrays += 1
    if layout.size > most or count > (most - layout.size) / item:
        layout.size = <size_t>-1
    else:
        layout.size += (count * item + ALIGNMENT - 1) & ~<size_t>(ALIGNMENT - 1)


cdef inline int allocate(Layout* layout, void** block, bint zeros) noexcept nogil:
    """Allocate the block, NULL on failure, and fill in the addresses. Returns a Status."""
    cdef int i
    block[0] = NULL
    if layout.size <= (<size_t>-1) / 2:
        block[0] = calloc(layout.size, 1) if zeros else malloc(layout.size)
    if block[0] is NULL:
        return Status.NO_MEMORY
    for i in range(layout.n_arrays):
        layout.arrays[i][0] = <char*>block[0] + layout.places[i]
    return Status.OK
