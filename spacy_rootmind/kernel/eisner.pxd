"""The best projective tree, O(n^3)."""
from libc.stdint cimport int32_t

from spacy_rootmind.kernel.decode cimport TreeWorkspace


# The spans of a sentence, of best scores or of weights (chart.pxd): matrices of (n + 1) x (n + 1).
cdef struct Chart:
    void* right             # complete spans with their head at the left end, symmetric
    void* left              # with their head at the right end
    void* arcs              # [head, dep]: spans with an arc
    void* inner             # [i, j] for i < j: the same without the arc; NULL unless asked for

cdef struct ChartWorkspace:
    TreeWorkspace tree      # for ArcMax
    void* block
    Chart chart             # best scores
    int32_t* todo           # stack of spans to be expanded, three numbers each

cdef int chart_workspace_init(
    ChartWorkspace* ws, Py_ssize_t max_words, bint with_inner) noexcept nogil
cdef void chart_workspace_free(ChartWorkspace* ws) noexcept nogil
cdef int decode_projective(
    const double* square, Py_ssize_t n, bint single_root, bint arcmax, int32_t* heads,
    ChartWorkspace* ws) noexcept nogil
