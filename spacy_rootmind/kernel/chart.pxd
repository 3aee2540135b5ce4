"""Eisner's chart: the spans of projective trees, by best score or by the weights of all.

A complete span covers a head at one end and all that it governs on that side; a span with an arc
covers a head, a dependent at the other end, and all between them. Each tree is made of spans in
exactly one way (Eisner 1996). Complete spans are stored under (i, j) and under (j, i), so that both
halves of a split are read along rows.
"""
from libc.math cimport INFINITY

from spacy_rootmind.kernel.eisner cimport Chart
from spacy_rootmind.kernel.interrupt cimport ROWS_PER_POLL, poll
from spacy_rootmind.kernel.simd cimport row_passes
from weights cimport ExtendedFloat, wide_add, wide_divide, wide_from, wide_multiply, wide_to_double

# A weight, and the derivative of its log.
cdef struct Dual:
    ExtendedFloat weight
    double change

ctypedef fused number_t:
    ExtendedFloat
    Dual

ctypedef fused item_t:
    double              # a best score: sums for products, maxima for sums
    ExtendedFloat
    Dual


# --- numbers -----------------------------------------------------------------------------------

cdef inline number_t number_from(
        ExtendedFloat weight, double change, const number_t* of_type) noexcept nogil:
    """Make a number of the type that `of_type` stands for."""
    cdef Dual dual
    if number_t is ExtendedFloat:
        return weight
    else:
        dual.weight = weight
        dual.change = change
        return dual


cdef inline ExtendedFloat weight_of(number_t number) noexcept nogil:
    if number_t is ExtendedFloat:
        return number
    else:
        return number.weight


cdef inline double change_of(number_t number) noexcept nogil:
    if number_t is ExtendedFloat:
        return 0
    else:
        return number.change


cdef inline number_t plus(number_t a, number_t b) noexcept nogil:
    cdef Dual sum
    if number_t is ExtendedFloat:
        return wide_add(a, b)
    else:
        if b.weight.part == 0:
            return a
        if a.weight.part == 0:
            return b
        sum.weight = wide_add(a.weight, b.weight)
        sum.change = a.change + (b.change - a.change) * wide_to_double(
            wide_divide(b.weight, sum.weight))
        return sum


cdef inline number_t times(number_t a, number_t b) noexcept nogil:
    cdef Dual product
    if number_t is ExtendedFloat:
        return wide_multiply(a, b)
    else:
        product.weight = wide_multiply(a.weight, b.weight)
        product.change = a.change + b.change
        return product


# --- spans -------------------------------------------------------------------------------------

cdef inline item_t empty(const item_t* of_type) noexcept nogil:
    """That of no tree."""
    if item_t is double:
        return -INFINITY
    else:
        return number_from(wide_from(0, 0), 0, of_type)


cdef inline item_t of_word(const item_t* of_type) noexcept nogil:
    """That of a span of one word."""
    if item_t is double:
        return 0
    else:
        return number_from(wide_from(1, 0), 0, of_type)


cdef inline item_t join(item_t a, item_t b) noexcept nogil:
    if item_t is double:
        return a + b
    else:
        return times(a, b)


cdef inline item_t join_all(const item_t* a, const item_t* b, Py_ssize_t n) noexcept nogil:
    """Join each of a with that of b: the best of them, or their sum."""
    cdef item_t total
    cdef Py_ssize_t k
    if item_t is double:
        return row_passes.max_sum(a, b, n)
    else:
        total = empty(a)
        for k in range(n):
            total = plus(total, times(a[k], b[k]))
        return total


cdef inline void fill_span(
        const item_t* arc, Py_ssize_t width, Py_ssize_t i, Py_ssize_t j, const Chart* chart
) noexcept nogil:
    """Find all kinds of spans from i to j, whose parts are there already. O(j - i)."""
    cdef item_t* right = <item_t*>chart.right
    cdef item_t* left = <item_t*>chart.left
    cdef item_t* arcs = <item_t*>chart.arcs
    cdef Py_ssize_t length = j - i
    cdef item_t inner = join_all(right + i * width + i, left + j * width + i + 1, length)
    if chart.inner is not NULL:
        (<item_t*>chart.inner)[i * width + j] = inner
    arcs[i * width + j] = join(inner, arc[j * width + i])
    arcs[j * width + i] = empty(arc) if i == 0 else join(inner, arc[i * width + j])
    right[i * width + j] = join_all(
        arcs + i * width + i + 1, right + j * width + i + 1, length)
    right[j * width + i] = right[i * width + j]
    left[i * width + j] = join_all(left + i * width + i, arcs + j * width + i, length)
    left[j * width + i] = left[i * width + j]


cdef inline void fill_chart(
        const item_t* arc, Py_ssize_t n, Py_ssize_t first, const Chart* chart) noexcept nogil:
    """Fill the chart for all spans within first..n, given arc[dep * (n + 1) + head]. O(n^3).

    first = 0 takes ROOT as a node like others.
    """
    cdef Py_ssize_t width = n + 1
    cdef Py_ssize_t i, j, stop
    for i in range(first, width):
        (<item_t*>chart.right)[i * width + i] = of_word(arc)
        (<item_t*>chart.left)[i * width + i] = of_word(arc)
    # Long spans from short ones; for j downwards every part of (i, j) is there already.
    for j in range(first + 1, width):
        stop = j
        while stop - first > ROWS_PER_POLL:
            for i in range(stop - 1, stop - 1 - ROWS_PER_POLL, -1):
                fill_span(arc, width, i, j, chart)
            stop -= ROWS_PER_POLL
            poll((3 if item_t is double else 30) * ROWS_PER_POLL * (j - stop))
        for i in range(stop - 1, first - 1, -1):
            fill_span(arc, width, i, j, chart)
