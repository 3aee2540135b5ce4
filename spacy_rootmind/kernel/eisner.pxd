"""The best projective tree, O(n^3)."""
from libc.stdint cimport int32_t

from spacy_rootmind.kernel.chart cimport Chart
from spacy_rootmind.kernel.decode cimport TreeWorkspace


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
