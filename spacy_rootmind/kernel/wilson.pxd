"""Sampling by loop-erased random walks (Wilson 1996)."""
from libc.stdint cimport int32_t, int64_t

from spacy_rootmind.kernel.random cimport RandomSource

# For draws of a head in a single step: a cell is chosen evenly, and stands for two heads.
cdef struct Cell:
    double threshold        # below it, of the cell's width, the first
    int32_t first
    int32_t second

cdef struct WalkTables:
    Py_ssize_t max_words
    Py_ssize_t n            # of the sentence at hand, as all below
    Py_ssize_t n_cells      # per word
    Cell* cells             # a row per word
    unsigned char* has_head  # per word
    unsigned char* in_tree  # per word
    double* scratch         # a row of weights
    int32_t* todo           # two rows
    void* block

cdef int walk_init(WalkTables* tables, Py_ssize_t max_words) noexcept nogil
cdef void walk_free(WalkTables* tables) noexcept nogil
cdef void prepare_walk(
    const double* weights, Py_ssize_t stride, Py_ssize_t n, Py_ssize_t lowest, WalkTables* tables
) noexcept nogil
cdef bint walk_tree(
    Py_ssize_t root, int64_t* steps, const RandomSource* random, int32_t* heads,
    WalkTables* tables) noexcept nogil
