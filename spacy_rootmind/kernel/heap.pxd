"""The binary heaps of the searches for the k best trees."""
from spacy_rootmind.kernel.kbest cimport Pending
from spacy_rootmind.kernel.projective_kbest cimport Derivation

ctypedef fused item_t:
    Pending
    Derivation


cdef inline bint comes_first(const item_t* a, const item_t* b) noexcept nogil:
    if item_t is Derivation:
        return a.score > b.score
    else:
        if a.gain.high != b.gain.high:
            return a.gain.high > b.gain.high
        if a.gain.low != b.gain.low:
            return a.gain.low > b.gain.low
        return a.order < b.order


cdef inline void heap_push(item_t* heap, Py_ssize_t* size, item_t item) noexcept nogil:
    """Add to a heap, which has room for it."""
    cdef Py_ssize_t place = size[0], above
    size[0] += 1
    while place > 0:
        above = (place - 1) // 2
        if not comes_first(&item, &heap[above]):
            break
        heap[place] = heap[above]
        place = above
    heap[place] = item


cdef inline item_t heap_pop(item_t* heap, Py_ssize_t* size) noexcept nogil:
    """Take the best from a heap, which is not empty."""
    cdef item_t best = heap[0]
    cdef item_t last
    cdef Py_ssize_t place = 0, below
    size[0] -= 1
    last = heap[size[0]]
    while True:
        below = 2 * place + 1
        if below >= size[0]:
            break
        if below + 1 < size[0] and comes_first(&heap[below + 1], &heap[below]):
            below += 1
        if not comes_first(&heap[below], &last):
            break
        heap[place] = heap[below]
        place = below
    heap[place] = last
    return best
