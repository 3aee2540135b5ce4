"""Sampling without replacement, of all trees and of projective ones."""
from libc.stdint cimport int32_t

from spacy_rootmind.kernel.inside_outside cimport SpanSums
from spacy_rootmind.kernel.partial_tree cimport PartialTree
from spacy_rootmind.kernel.random cimport Stream
from weights cimport ExtendedFloat

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
    double log_remaining    # the mass of those that have not, of 1

cdef void trie_free(Trie* trie) noexcept nogil
cdef int trie_begin(Trie* trie, Py_ssize_t n_choices) noexcept nogil
cdef int trie_draw(
    Trie* trie, PartialTree* tree, Stream* random, int32_t* heads) noexcept nogil
cdef int trie_draw_projective(
    Trie* trie, SpanSums* sums, Stream* random, int32_t* heads) noexcept nogil
