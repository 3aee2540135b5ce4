"""Sums over all trees of a sentence, by elimination of its words; arc marginals, entropy.

Arrays follow the conventions of spacy_rootmind.trees; sentences come as contiguous squares of
float64, (n + 1) x (n + 1), with -inf on the diagonal and where an arc is forbidden.
"""
from libc.stdint cimport int32_t

# The logs of numbers of a sum, each as a sum of two.
cdef struct SumScale:
    double high             # of the number that the weights were divided by in all
    double low
    double root_shift       # of what root scores were lowered by, beyond the highest of their word
    double root_shift_low
    double log_mass         # of the weight of all trees, after that division
    double log_mass_low

# Sums over the trees of one sentence of up to max_words words. Matrices of weights have rows of
# `stride`; their elements are float64, or ExtendedFloat (extended_float.h) where float64 would
# underflow.
cdef struct TreeSum:
    Py_ssize_t max_words
    Py_ssize_t stride
    bint is_wide
    TreeSum* wide           # NULL until it is needed
    Py_ssize_t n            # of the sentence at hand, as all below
    bint single_root
    bint beyond_float64     # the sums are in `wide`
    bint dropped            # some score is too low to be told from a forbidden arc
    Py_ssize_t root_word    # with a single root: the word eliminated as the dependent of ROOT
    SumScale scale
    void* block
    double* highest         # per word: the score that the others of its word were lowered by
    void* weights           # row d: exp(score - highest[d]), the heads of word d
    void* pivots            # row k: the heads of k when it was eliminated, over their sum
    void* sums              # per word: that sum
    void* root_pivots       # per word: its share of ROOT, before `root_word` took its place
    void* factors           # row j: for k > j the weight of the arc k -> j when k was eliminated
    void* adjoints          # derivative of log_mass by each weight
    void* scratch           # three rows

cdef int tree_sum_init(TreeSum* ws, Py_ssize_t max_words, bint is_wide) noexcept nogil
cdef void tree_sum_free(TreeSum* ws) noexcept nogil
cdef void make_wide(TreeSum* ws) noexcept nogil

cdef int find_highest(
    const double* square, Py_ssize_t n, bint single_root, TreeSum* ws) noexcept nogil
cdef int weigh_arcs(
    const double* square, Py_ssize_t n, bint single_root, TreeSum* ws) noexcept nogil
cdef int eliminate_words(TreeSum* ws, Py_ssize_t first) noexcept nogil

cdef int sum_trees(
    const double* square, Py_ssize_t n, bint single_root, TreeSum* ws) noexcept nogil
cdef double log_partition(const TreeSum* ws) noexcept nogil
cdef double log_probability(
    const double* square, const int32_t* heads, const TreeSum* ws) noexcept nogil
cdef void arc_marginals(double* marginals, Py_ssize_t width, TreeSum* ws) noexcept nogil
cdef double cross_entropy(
    const double* square, const double* marginals, Py_ssize_t width, const TreeSum* ws,
    double* low) noexcept nogil
cdef double log_ratio(const TreeSum* part, const TreeSum* whole) noexcept nogil
cdef void root_shares(double* shares, TreeSum* ws) noexcept nogil
