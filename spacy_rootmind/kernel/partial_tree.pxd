"""Exact conditional distributions over trees, given the heads of some words."""
from libc.stdint cimport int32_t

from spacy_rootmind.kernel.ancestral cimport Ancestral
from spacy_rootmind.kernel.partition cimport TreeSum
from spacy_rootmind.kernel.random cimport Stream
from weights cimport ExtendedFloat

# The part of an elimination that the words after the next one need.
cdef struct Elimination:
    bint is_current             # whether it is that of the heads fixed so far
    void* pivots                # where those of the components left begin
    Py_ssize_t root_word        # as in TreeSum

# A tree whose words get their heads one after another. A word without a head yet stands for the
# component below it; these are numbered 1..n - n_fixed in their order, and 0 is the component of
# ROOT.
cdef struct PartialTree:
    Py_ssize_t max_words
    const double* square        # of the sentence at hand, as all below
    TreeSum* sum
    Py_ssize_t n
    Py_ssize_t n_fixed
    bint takes_root             # whether a word may still get the head ROOT
    bint has_wide_weights             # the sentence's weights in wide numbers are at hand
    bint beyond_float64         # since the last restart
    int32_t* heads              # of the words fixed, heads[0] = -1
    int32_t* order              # order[0..n-1]: the words
    int32_t* place              # per word, in `order`
    int32_t* top                # per word: the word without a head above it; 0 for ROOT
    int32_t* number             # per head: that of its top
    int32_t* drawn              # per number: the head it was drawn to have
    int32_t* first_below        # per top: the tops right below its component, a list
    int32_t* next_below
    double* weights             # a row
    double* reach               # per number: probability that a walk reaches 0 before 1
    void* block
    void* wide_reach            # the same in wide numbers; NULL until needed
    TreeSum rest                # over the trees of the components
    Elimination others          # of all components but that of the next word, in float64
    Elimination wide_others     # the same in wide numbers
    Ancestral ancestral

cdef int partial_init(PartialTree* tree, Py_ssize_t max_words) noexcept nogil
cdef void partial_free(PartialTree* tree) noexcept nogil
cdef void partial_begin(PartialTree* tree, const double* square, TreeSum* sum) noexcept nogil
cdef void partial_restart(
    PartialTree* tree, Py_ssize_t n_fixed, Py_ssize_t n_ordered) noexcept nogil
cdef int partial_draw_rest(PartialTree* tree, Stream* random) noexcept nogil
cdef int partial_weights(
    PartialTree* tree, ExtendedFloat* weights, ExtendedFloat* total, bint* is_wide) noexcept nogil
cdef int partial_wide_weights(
    PartialTree* tree, ExtendedFloat* weights, ExtendedFloat* total) noexcept nogil
cdef void partial_fix(PartialTree* tree, Py_ssize_t head) noexcept nogil
