"""Sampling of trees in proportion to the exponential of their score."""
from libc.stdint cimport int32_t, int64_t

from spacy_rootmind.kernel.ancestral cimport Ancestral
from spacy_rootmind.kernel.inside_outside cimport SpanSums
from spacy_rootmind.kernel.partition cimport TreeSum
from spacy_rootmind.kernel.random cimport RandomSource
from spacy_rootmind.kernel.without_replacement cimport ProjectiveTrie, Trie

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

# Methods, as indices.
cdef enum:
    SAMPLE_AUTO
    SAMPLE_ANCESTRAL
    SAMPLE_COLBOURN
    SAMPLE_WILSON
    SAMPLE_WILSON_REJECT
    SAMPLE_DISTINCT             # ancestral without replacement
    SAMPLE_PROJECTIVE
    SAMPLE_PROJECTIVE_DISTINCT
    N_SAMPLE_KINDS

# A method to draw trees, by functions of a SamplerWorkspace.
cdef struct SampleMethod:
    bint (*init)(SamplerWorkspace* sampler) noexcept nogil
    # Sums over the trees of the n words of `sampler.square`; returns a Status.
    int (*begin)(SamplerWorkspace* sampler, Py_ssize_t n) noexcept nogil
    # Draws one tree of a sentence that has words; returns a status.
    int (*draw)(
        SamplerWorkspace* sampler, const RandomSource* random, int32_t* heads) noexcept nogil
    bint distinct           # whether no tree is drawn twice

# A method with its memory, for one thread and sentences of up to max_words words.
cdef struct SamplerWorkspace:
    SampleMethod method
    Py_ssize_t max_words
    bint single_root
    int64_t max_steps       # of the walks for one tree; 0 for a number that fits the sentence
    TreeSum sum
    TreeSum root_sum        # with words and ROOT on one scale, for wilson_reject
    Ancestral ancestral
    WalkTables walk
    Trie trie
    SpanSums spans          # for projective trees, which `sum` then describes
    ProjectiveTrie projective_trie
    double* root_weights    # of words to be the root token
    double root_total       # and their sum
    double* inverse         # for colbourn: that of the Laplacian of the sentence at hand,
    double* work            # n x n + 3 n + 1,
    Py_ssize_t* swapped     # and n
    const double* square    # of the sentence at hand, as all below
    bint has_ancestral      # whether `ancestral` is ready for it
    double log_remaining    # where trees are distinct: the mass not drawn yet, before a draw

cdef int sampler_init(
    SamplerWorkspace* sampler, int kind, Py_ssize_t max_words, bint single_root,
    int64_t max_steps) noexcept nogil
cdef void sampler_free(SamplerWorkspace* sampler) noexcept nogil
cdef int sampler_begin(
    SamplerWorkspace* sampler, const double* square, Py_ssize_t n) noexcept nogil
cdef int sampler_draw(
    SamplerWorkspace* sampler, Py_ssize_t k, const RandomSource* random, int32_t* heads,
    Py_ssize_t width, double* log_probabilities, Py_ssize_t* found, double* log_remaining
) noexcept nogil
