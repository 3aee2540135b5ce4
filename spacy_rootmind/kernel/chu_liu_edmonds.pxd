"""The textbook algorithm for the best unconstrained tree, O(n^3), on one dense square."""
from libc.stdint cimport int32_t


cdef struct CycleWorkspace:
    Py_ssize_t max_words
    void* block
    double* weight          # (n+1) x (n+1): best arc between two live nodes, reduced
    int32_t* arc_dep        # same shape: the word it enters
    int32_t* arc_head       # same shape: the word or ROOT it leaves
    int32_t* slot           # live slots; a slot is a row and column of the squares
    int32_t* node           # per slot: the node it holds now
    int32_t* best           # per slot: the slot of its greedy head
    int32_t* mark           # per slot: which walk came by
    int32_t* cycle          # slots of the cycle found
    int32_t* chosen_dep     # per node: its greedy arc when it was contracted, or at the end
    int32_t* chosen_head
    int32_t* parent         # per node: the cycle it was contracted into, 0 if none

cdef int cycle_workspace_init(CycleWorkspace* ws, Py_ssize_t max_words) noexcept nogil
cdef void cycle_workspace_free(CycleWorkspace* ws) noexcept nogil
cdef int chu_liu_edmonds(
    const double* square, Py_ssize_t n, int32_t* heads, CycleWorkspace* ws) noexcept nogil
