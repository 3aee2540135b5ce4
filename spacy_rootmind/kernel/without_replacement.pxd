"""Sampling without replacement, of all trees and of projective ones."""
from libc.stdint cimport int32_t

from spacy_rootmind.kernel.ancestral cimport Ancestral
from spacy_rootmind.kernel.inside_outside cimport SpanSums
from spacy_rootmind.kernel.partition cimport TreeSum
from spacy_rootmind.kernel.random cimport Stream
from weights cimport ExtendedFloat

# The part of an elimination that the words after the next one need.
cdef struct Elimination:
    bint is_current             # whether the heads fixed so far are its own
    void* pivots                # where the pivots of the components left begin
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
    bint has_wide_weights       # the sentence's weights in wide numbers are at hand
    bint beyond_float64         # since the last restart
    int32_t* heads              # of the words fixed, heads[0] = -1
    int32_t* order              # order[0..n-1]: the words
    int32_t* place              # per word, in `order`
    int32_t* top                # per word: the word without a head above it; 0 for ROOT
    int32_t* number             # per head: its top's number
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

# A choice to be made after others, with which at least one tree was drawn.
cdef struct TrieNode:
    ExtendedFloat share     # of the parent's mass before anything was drawn
    ExtendedFloat remaining  # of its own mass
    Py_ssize_t row          # its first alternative, in the arrays of masses and children
    Py_ssize_t n_choices
    Py_ssize_t chosen       # by the tree at hand
    Py_ssize_t word         # whose head is chosen; 0 in projective trees
    bint is_wide            # whether its masses have been found in wide numbers

cdef struct Trie:
    TrieNode* nodes
    ExtendedFloat* masses   # a row per node: what remains of it in each alternative
    Py_ssize_t* children    # the same: a node, or NO_CHILD, or DRAWN
    Py_ssize_t n_nodes
    Py_ssize_t n_masses
    Py_ssize_t room         # nodes
    Py_ssize_t row_room     # elements of rows of masses
    Py_ssize_t child_room   # and of children
    Py_ssize_t* path        # nodes of the tree at hand
    Py_ssize_t path_room
    bint exhausted          # whether all trees have been drawn
    PartialTree tree        # the tree at hand, unless it is projective

cdef int trie_init(Trie* trie, Py_ssize_t max_words) noexcept nogil
cdef void trie_free(Trie* trie) noexcept nogil
cdef void trie_begin(Trie* trie, Py_ssize_t n_choices) noexcept nogil
cdef void trie_begin_all(Trie* trie, const double* square, TreeSum* sum) noexcept nogil
cdef void trie_draw(Trie* trie, Stream* random, int32_t* heads) noexcept nogil
cdef void trie_draw_projective(
    Trie* trie, SpanSums* sums, Stream* random, int32_t* heads) noexcept nogil
