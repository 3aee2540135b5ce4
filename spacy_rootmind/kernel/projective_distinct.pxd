"""Sampling of projective trees without replacement."""
from libc.stdint cimport int32_t

from spacy_rootmind.kernel.inside_outside cimport SpanSums
from spacy_rootmind.kernel.random cimport RandomSource

# Masses have a wide exponent (wide.h).
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
# Begins a sentence of n words; returns a DecodeStatus.
cdef int projective_trie_begin(ProjectiveTrie* trie, Py_ssize_t n) noexcept nogil
# Draws a tree that was not drawn yet to heads[0..n], unless all have been. `sums` are those of the
# sentence (`sum_projective`), the same each time. Returns a DecodeStatus.
cdef int projective_trie_draw(
    ProjectiveTrie* trie, SpanSums* sums, const RandomSource* random, int32_t* heads
) noexcept nogil
