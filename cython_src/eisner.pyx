"""The best projective tree by dynamic programming over spans (Eisner 1996), O(n^3).

The best splits of the spans are not stored (see `chart`); the few that the tree needs are found
again at the end.
"""
from libc.math cimport INFINITY
from libc.stddef cimport size_t
from libc.stdint cimport int32_t
from libc.stdlib cimport free

from spacy_rootmind.kernel.batch cimport Batch, check_memory, gather
from spacy_rootmind.kernel.chart cimport fill_chart
from spacy_rootmind.kernel.decode cimport (
    NO_ROWS,
    Decoder,
    DecoderState,
    arcmax_tree,
    sums_overflow,
    tree_is_projective,
    workspace_free,
    workspace_init,
)
from spacy_rootmind.kernel.interrupt cimport poll_row
from spacy_rootmind.kernel.room cimport Layout, add_array, allocate
from spacy_rootmind.kernel.status cimport Status


cdef enum SpanKind:
    RIGHT
    LEFT
    ARC


cdef int chart_workspace_init(
        ChartWorkspace* ws, Py_ssize_t max_words, bint with_inner) noexcept nogil:
    """Allocate 24 (n + 1)^2 + O(n) bytes, 32 (n + 1)^2 with `inner`. A Status.

    `ws` holds zeros, and is to be freed whatever is returned.
    """
    cdef size_t width = <size_t>max_words + 1
    cdef Layout layout
    layout.n_arrays = layout.size = 0
    add_array(&layout, &ws.chart.right, width * width, sizeof(double))
    add_array(&layout, &ws.chart.left, width * width, sizeof(double))
    add_array(&layout, &ws.chart.arcs, width * width, sizeof(double))
    if with_inner:
        add_array(&layout, &ws.chart.inner, width * width, sizeof(double))
    add_array(&layout, <void**>&ws.todo, 6 * width, sizeof(int32_t))
    if workspace_init(&ws.tree, max_words, NO_ROWS) != Status.OK:
        return Status.NO_MEMORY
    return allocate(&layout, &ws.block, False)


cdef void chart_workspace_free(ChartWorkspace* ws) noexcept nogil:
    """Free all of it; harmless when called twice."""
    workspace_free(&ws.tree)
    free(ws.block)
    ws.block = NULL


cdef Py_ssize_t find_split(
        const double* first, const double* second, Py_ssize_t length) noexcept nogil:
    """The first place at which the sum of both is largest: the sums are the chart's."""
    cdef Py_ssize_t place, best = 0
    for place in range(1, length):
        if first[place] + second[place] > first[best] + second[best]:
            best = place
    return best


cdef Py_ssize_t push(
        int32_t* todo, Py_ssize_t top, SpanKind kind, Py_ssize_t i, Py_ssize_t j) noexcept nogil:
    """Put a span of more than one word on the stack."""
    if i == j:
        return top
    todo[top] = <int32_t>kind
    todo[top + 1] = <int32_t>i
    todo[top + 2] = <int32_t>j
    return top + 3


cdef void follow_splits(
        Py_ssize_t n, Py_ssize_t top, int32_t* heads, ChartWorkspace* ws) noexcept nogil:
    """Expand the spans on the stack down to their arcs; O(n) each, O(n^2) in all."""
    cdef const double* right = <const double*>ws.chart.right
    cdef const double* left = <const double*>ws.chart.left
    cdef const double* arcs = <const double*>ws.chart.arcs
    cdef Py_ssize_t width = n + 1
    cdef Py_ssize_t i, j, length, k, n_spans = 0
    cdef int32_t kind
    while top > 0:
        n_spans += 1
        poll_row(n_spans, n)
        top -= 3
        kind = ws.todo[top]
        i = min(ws.todo[top + 1], ws.todo[top + 2])
        j = max(ws.todo[top + 1], ws.todo[top + 2])
        length = j - i
        if kind == RIGHT:
            k = i + 1 + find_split(
                arcs + i * width + i + 1, right + j * width + i + 1, length)
            top = push(ws.todo, top, ARC, i, k)
            top = push(ws.todo, top, RIGHT, k, j)
        elif kind == LEFT:
            k = i + find_split(left + i * width + i, arcs + j * width + i, length)
            top = push(ws.todo, top, LEFT, i, k)
            top = push(ws.todo, top, ARC, j, k)
        else:
            heads[ws.todo[top + 2]] = ws.todo[top + 1]
            k = i + find_split(right + i * width + i, left + j * width + i + 1, length)
            top = push(ws.todo, top, RIGHT, i, k)
            top = push(ws.todo, top, LEFT, k + 1, j)


cdef int decode_projective(
        const double* square, Py_ssize_t n, bint single_root, bint arcmax, int32_t* heads,
        ChartWorkspace* ws) noexcept nogil:
    """Write the best projective tree to heads[0..n]. O(n^3); O(n^2) where ArcMax settles it.

    `square` holds scores[dep, head], (n + 1) x (n + 1), contiguous. Returns a Status.
    """
    cdef const double* right = <const double*>ws.chart.right
    cdef const double* left = <const double*>ws.chart.left
    cdef Py_ssize_t width = n + 1
    cdef Py_ssize_t root, best = 0, top = 0
    cdef double score, largest = -INFINITY
    cdef int status
    heads[0] = -1
    if n == 0:
        return Status.OK
    status = arcmax_tree(square, width, n, single_root, heads, &ws.tree)
    if status < 0:
        return status
    if arcmax and status == Status.OK and tree_is_projective(heads, n, ws.todo):
        return Status.OK
    if sums_overflow(square, n):
        return Status.LOST_DIGITS
    if not single_root:
        fill_chart(square, n, 0, &ws.chart)
        if right[n] == -INFINITY:
            return Status.NO_TREE
        follow_splits(n, push(ws.todo, 0, RIGHT, 0, n), heads, ws)
        return Status.OK
    fill_chart(square, n, 1, &ws.chart)
    for root in range(1, width):
        score = left[width + root] + square[root * width] + right[root * width + n]
        if score > largest:
            largest = score
            best = root
    if best == 0:
        return Status.NO_TREE
    heads[best] = 0
    top = push(ws.todo, top, LEFT, 1, best)
    top = push(ws.todo, top, RIGHT, best, n)
    follow_splits(n, top, heads, ws)
    return Status.OK


# --- batches -----------------------------------------------------------------------------------

cdef int decode_copy(
        DecoderState* state, const Batch* batch, Py_ssize_t sentence, int32_t* heads
) noexcept nogil:
    gather(batch, sentence, state.square)
    return decode_projective(
        state.square, batch.lengths[sentence], state.single_root, state.arcmax, heads,
        <ChartWorkspace*>state.workspace)


cdef class ProjectiveDecoder(Decoder):
    """Eisner's algorithm."""
    cdef ChartWorkspace chart

    def __cinit__(self, Py_ssize_t max_words, *args):
        self.c.decode = decode_copy
        self.c.workspace = &self.chart
        self.c.square = self.make_square(max_words)
        check_memory(max_words, chart_workspace_init(&self.chart, max_words, False))

    def __dealloc__(self):
        chart_workspace_free(&self.chart)
