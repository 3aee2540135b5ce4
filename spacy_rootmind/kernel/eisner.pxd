"""The best projective tree, O(n^3)."""
from libc.stdint cimport int32_t

from spacy_rootmind.kernel.decode cimport TreeWorkspace


cdef struct ChartWorkspace:
    TreeWorkspace tree      # for ArcMax
    void* block
    double* right           # (n+1) x (n+1), symmetric: complete span with its head at the left end
    double* left            # the same with its head at the right end
    double* arc             # arc[head, dep]: span between a head and the dependent at its other end
    double* inner           # inner[i, j]: the same without the arc, i < j; NULL unless asked for
    int32_t* todo           # stack of spans to be expanded, three numbers each

cdef int chart_workspace_init(
    ChartWorkspace* ws, Py_ssize_t max_words, bint with_inner) noexcept nogil
cdef void chart_workspace_free(ChartWorkspace* ws) noexcept nogil
# The best scores of all spans within first..n; first = 0 takes ROOT as a node like others.
cdef void fill_chart(
    const double* square, Py_ssize_t n, Py_ssize_t first, ChartWorkspace* ws) noexcept nogil
cdef int decode_projective(
    const double* square, Py_ssize_t n, bint single_root, bint arcmax, int32_t* heads,
    ChartWorkspace* ws) noexcept nogil
