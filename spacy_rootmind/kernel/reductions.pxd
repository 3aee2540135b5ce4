"""The published reductions of single-root to unconstrained decoding."""
from libc.stdint cimport int32_t

from spacy_rootmind.kernel.chu_liu_edmonds cimport CycleWorkspace
from spacy_rootmind.kernel.decode cimport TreeWorkspace

cdef enum Reduction:
    UNCONSTRAINED = 0
    NAIVE = 1
    PRESELECTION = 2
    REWEIGHTING = 3

cdef struct ReductionWorkspace:
    TreeWorkspace tree
    CycleWorkspace cycles   # only with textbook = True
    bint textbook           # Chu-Liu-Edmonds below, not Tarjan
    bint arcmax             # every unconstrained run starts with ArcMax
    void* block
    double* root            # the root column as it was
    int32_t* candidate      # heads of the tree at hand
    int32_t* tried          # per word: whether it is to be tried as the only root child

cdef int reduction_workspace_init(
    ReductionWorkspace* ws, Py_ssize_t max_words, bint textbook, bint arcmax) noexcept nogil
cdef void reduction_workspace_free(ReductionWorkspace* ws) noexcept nogil
cdef int decode_by_reduction(
    double* square, Py_ssize_t n, Reduction reduction, bint arcmax, int32_t* heads,
    ReductionWorkspace* ws) noexcept nogil
