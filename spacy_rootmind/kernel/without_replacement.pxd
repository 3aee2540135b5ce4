"""Sampling without replacement, of all trees and of projective ones."""
from libc.stdint cimport int32_t

from spacy_rootmind.kernel.inside_outside cimport SpanSums
from spacy_rootmind.kernel.partial_tree cimport PartialTree
from spacy_rootmind.kernel.partition cimport TreeSum
from spacy_rootmind.kernel.random cimport Stream

# A choice of heads for some words, with which at least one tree was drawn.
cdef struct TrieNode:
    Py_ssize_t word         # whose head is chosen here
    bint in_logs            # whether masses are logs
    double share            # of the parent's mass before anything was drawn; a log if those are
    double remaining        # of its own mass, unless in logs
    double log_remaining

cdef struct Trie:
    PartialTree tree        # at hand
    Py_ssize_t width        # n + 1 of the sentence at hand
    TrieNode* nodes
    double* masses          # a row per node: what remains of it in each head of its word
    Py_ssize_t* children    # the same: a node, or NO_CHILD, or DRAWN
    Py_ssize_t n_nodes
    Py_ssize_t room         # nodes
    Py_ssize_t row_room     # elements of rows of masses
    Py_ssize_t child_room   # and of children
    Py_ssize_t* path        # nodes of the tree at hand
    Py_ssize_t path_room
    double* scratch
    Py_ssize_t scratch_room

cdef int trie_init(Trie* trie, Py_ssize_t max_words) noexcept nogil
cdef void trie_free(Trie* trie) noexcept nogil
cdef int trie_begin(Trie* trie, const double* square, TreeSum* sum) noexcept nogil
cdef int trie_draw(Trie* trie, Stream* random, int32_t* heads) noexcept nogil
cdef double trie_log_remaining(const Trie* trie) noexcept nogil

# Masses have a wide exponent (extended_float.h).
cdef struct ProjectiveTrie:
    void* nodes
    void* masses            # a row per node: what remains of it in each alternative
    Py_ssize_t* children    # the same: a node, or NO_CHILD
    Py_ssize_t n_nodes
    Py_ssize_t n_masses
    Py_ssize_t room         # nodes
    Py_ssize_t row_room     # elements of rows of masses
    Py_ssize_t child_room   # and of children
    Py_ssize_t* path        # nodes of the tree at hand
    Py_ssize_t path_room
    bint exhausted          # whether all trees have been drawn
    double log_remaining    # the mass of those that have not, of 1

cdef void projective_trie_free(ProjectiveTrie* trie) noexcept nogil
cdef int projective_trie_begin(ProjectiveTrie* trie, Py_ssize_t n) noexcept nogil
cdef int projective_trie_draw(
    ProjectiveTrie* trie, SpanSums* sums, Stream* random, int32_t* heads
) noexcept nogil
