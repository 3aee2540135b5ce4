"""Trees and sums over trees of single sentences, for `cimport` in other packages.

Arrays follow the conventions of spacy_rootmind.trees: scores[dep, head], index 0 is ROOT, row 0
and the diagonal are never read, -inf forbids an arc. Row d of the scores of n words begins at
scores + d * row_stride. Heads are heads[0..n], heads[0] = -1.

Functions need no lock of Python, and one workspace serves one thread at a time. A workspace is for
sentences of up to `max_words` words; making one returns NULL where there is no memory, and freeing
NULL does nothing. Other functions return a TreeStatus. No other `.pxd` is installed, and signatures
here are never altered.
"""
from libc.stdint cimport int32_t

ctypedef fused score_t:
    float
    double

cdef enum TreeStatus:
    TREE_OK = 0
    TREE_NONE = -1          # no tree of the wanted kind
    TREE_BAD_SCORE = -2     # NaN or +inf
    TREE_NO_MEMORY = -3     # also for more words than the workspace is for
    TREE_LOST_DIGITS = -4   # magnitudes too large to be added up

# The best tree. O(n^2); 4 n^2 bytes.
cdef struct TreeDecoder
cdef TreeDecoder* tree_decoder_new(Py_ssize_t max_words) noexcept nogil
cdef void tree_decoder_free(TreeDecoder* decoder) noexcept nogil
cdef int decode_tree(
    TreeDecoder* decoder, const score_t* scores, Py_ssize_t row_stride, Py_ssize_t n,
    bint single_root, int32_t* heads) noexcept nogil

# The best projective tree. O(n^3); 32 n^2 bytes.
cdef struct ProjectiveDecoder
cdef ProjectiveDecoder* projective_decoder_new(Py_ssize_t max_words) noexcept nogil
cdef void projective_decoder_free(ProjectiveDecoder* decoder) noexcept nogil
cdef int decode_projective(
    ProjectiveDecoder* decoder, const score_t* scores, Py_ssize_t row_stride, Py_ssize_t n,
    bint single_root, int32_t* heads) noexcept nogil

# The k best trees, `found` in number, best first, in k rows of n + 1 heads. O(k n^2).
cdef int decode_kbest(
    const double* scores, Py_ssize_t row_stride, Py_ssize_t n, Py_ssize_t k, bint single_root,
    int32_t* heads, Py_ssize_t* found) noexcept nogil

# log Z, and unless it is NULL marginals[dep, head], (n + 1) x (n + 1). O(n^3); 40 n^2 bytes.
cdef struct TreeSums
cdef TreeSums* tree_sums_new(Py_ssize_t max_words) noexcept nogil
cdef void tree_sums_free(TreeSums* sums) noexcept nogil
cdef int sum_trees(
    TreeSums* sums, const score_t* scores, Py_ssize_t row_stride, Py_ssize_t n, bint single_root,
    double* log_z, double* marginals) noexcept nogil

# Trees in proportion to the exponential of their score. The first function sums over all trees,
# O(n^3); then the second draws any number of them, as method "auto" of `sample_trees`, to k rows of
# n + 1 heads. `next_double` returns a random number from 0 to below 1.
ctypedef double (*NextDouble)(void* state) noexcept nogil

cdef struct TreeSampler
cdef TreeSampler* tree_sampler_new(Py_ssize_t max_words, bint single_root) noexcept nogil
cdef void tree_sampler_free(TreeSampler* sampler) noexcept nogil
cdef int tree_sampler_begin(
    TreeSampler* sampler, const score_t* scores, Py_ssize_t row_stride, Py_ssize_t n
) noexcept nogil
cdef int tree_sampler_draw(
    TreeSampler* sampler, Py_ssize_t k, NextDouble next_double, void* state, int32_t* heads,
    double* log_probs) noexcept nogil
