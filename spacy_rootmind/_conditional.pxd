"""The exact law of one word's head, given the heads of others."""
from libc.stdint cimport int32_t

from spacy_rootmind._decode cimport TreeWorkspace
from spacy_rootmind._matrix_tree cimport TreeSum

# A tree whose words get their heads one after another. Words without one yet stand for the
# component that hangs from them, and are numbered 1..n - n_fixed in the order they will get it;
# 0 is whatever hangs from ROOT.
cdef struct PartialTree:
    Py_ssize_t max_words
    Py_ssize_t stride
    const double* square        # of the sentence at hand, as all below
    TreeSum* sum
    Py_ssize_t n
    Py_ssize_t n_fixed
    bint takes_root             # whether a word may still get ROOT for its head
    bint is_current             # the pivots are those of the heads fixed by now
    bint knows_wide             # the weights in wide numbers are at hand
    Py_ssize_t turn             # of the last elimination, see _matrix_tree
    Py_ssize_t kept_root        # the start whose pivots are in `kept`; -1 for none
    int32_t* heads              # of the words fixed, heads[0] = -1
    int32_t* order              # order[0..n-1]: the words
    int32_t* best_order         # the same, as the sentence began
    int32_t* place              # per word, in `order`
    int32_t* top                # per word: the word without a head that it hangs from; 0 for ROOT
    int32_t* number             # per head: that of its top
    double* pivots              # within `factored`, which shrinks from its front
    double* factored
    double* kept
    double* contracted          # weights between components
    double* reach               # per component: how likely a walk gets to 0 before 1
    double* scratch             # three rows
    void* block
    void* wide_block            # the same in wide numbers; NULL until needed
    TreeWorkspace best

cdef int partial_init(PartialTree* tree, Py_ssize_t max_words) noexcept nogil
cdef void partial_free(PartialTree* tree) noexcept nogil

# Begins a sentence that `sum` was summed over. Returns a DecodeStatus.
cdef int partial_begin(PartialTree* tree, const double* square, TreeSum* sum) noexcept nogil
# Begins a tree; with a root, that word hangs from ROOT.
cdef void partial_start(PartialTree* tree, Py_ssize_t root) noexcept nogil
# Takes the heads of the first words in order as they stand in `heads`.
cdef void partial_restart(PartialTree* tree, Py_ssize_t n_fixed) noexcept nogil
cdef Py_ssize_t partial_next(const PartialTree* tree) noexcept nogil
# weights[0..n]: of the heads of the next word, and their sum. Where float64 does not do, it returns
# DECODE_UNSETTLED; the other finds their logs, and the largest of these, in any case.
cdef int partial_weights(PartialTree* tree, double* weights, double* total) noexcept nogil
cdef int partial_log_weights(PartialTree* tree, double* logs, double* largest) noexcept nogil
# Gives the next word its head.
cdef void partial_fix(PartialTree* tree, Py_ssize_t head) noexcept nogil
