"""Sampling of trees in proportion to the exponential of their score, by the published methods.

- ancestral: word after word, each inserted into the tree of the words before it (see `insertion`).
- colbourn: the head of one word after another, by rank-one updates of the inverse Laplacian.
- wilson: the root token by its exact marginal, and a loop-erased walk to it (Stanojevic 2022;
  Zmigrod, Vieira & Cotterell 2021). wilson_reject: walks to ROOT until one has a single root.
- auto: wilson, until a walk takes too long. Then the walk is discarded and the tree drawn word
  after word *with the root token already drawn*: given the root, the number of steps is independent
  of the tree (see `walk`), but a new root would be biased towards those that do not trap a walk.
  Without a single root, the walk's root is ROOT, and a whole new tree is right.
- distinct: without replacement (see `distinct`).
"""
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from spacy_rootmind.kernel.colbourn cimport draw_by_inverse
from spacy_rootmind.kernel.conditional cimport partial_begin, partial_free, partial_init
from spacy_rootmind.kernel.decode cimport (
    DECODE_LOST_DIGITS,
    DECODE_NO_MEMORY,
    DECODE_OK,
    DECODE_UNSETTLED,
)
from spacy_rootmind.kernel.distinct cimport (
    trie_begin,
    trie_draw,
    trie_free,
    trie_log_remaining,
)
from spacy_rootmind.kernel.elimination cimport tree_sum_free, tree_sum_init, weigh_arcs
from spacy_rootmind.kernel.insertion cimport (
    insertion_begin,
    insertion_draw,
    insertion_free,
    insertion_init,
)
from spacy_rootmind.kernel.interrupt cimport poll_row
from spacy_rootmind.kernel.matrix_tree cimport (
    log_probability,
    root_shares,
    sum_trees,
    sum_trees_wide,
)
from spacy_rootmind.kernel.random cimport RandomSource, draw_index
from spacy_rootmind.kernel.walk cimport prepare_walk, walk_free, walk_init, walk_tree

cdef extern from "ieee.h":
    pass


# --- memory ------------------------------------------------------------------------------------

cdef bint is_walk(SampleMethod method) noexcept nogil:
    return method in (SAMPLE_AUTO, SAMPLE_WILSON, SAMPLE_WILSON_REJECT)


cdef int sampler_init(
        TreeSampler* sampler, SampleMethod method, Py_ssize_t max_words, bint single_root,
        int64_t max_steps) noexcept nogil:
    """Allocate what the method needs; O(n^2) bytes. Returns DECODE_OK or DECODE_NO_MEMORY.

    `sampler_free` is to be called whatever is returned.
    """
    cdef size_t width = <size_t>max_words + 1
    cdef bint fits
    memset(sampler, 0, sizeof(TreeSampler))
    sampler.method = method
    sampler.max_words = max_words
    sampler.single_root = single_root
    sampler.max_steps = max_steps
    sampler.root_weights = <double*>malloc(width * sizeof(double))
    fits = sampler.root_weights is not NULL and tree_sum_init(&sampler.sum, max_words) == DECODE_OK
    if is_walk(method):
        fits = fits and walk_init(&sampler.walk, max_words) == DECODE_OK
    if method == SAMPLE_WILSON_REJECT:
        fits = fits and tree_sum_init(&sampler.root_sum, max_words) == DECODE_OK
    if method in (SAMPLE_AUTO, SAMPLE_ANCESTRAL):
        fits = fits and insertion_init(&sampler.insertion, max_words) == DECODE_OK
    if method == SAMPLE_DISTINCT:
        fits = fits and partial_init(&sampler.partial, max_words) == DECODE_OK
    if method == SAMPLE_COLBOURN:
        sampler.work = <double*>malloc((width * width + 3 * width) * sizeof(double))
        fits = fits and sampler.work is not NULL
    return DECODE_OK if fits else DECODE_NO_MEMORY


cdef void sampler_free(TreeSampler* sampler) noexcept nogil:
    """Free all memory; harmless when called twice."""
    tree_sum_free(&sampler.sum)
    tree_sum_free(&sampler.root_sum)
    insertion_free(&sampler.insertion)
    partial_free(&sampler.partial)
    walk_free(&sampler.walk)
    trie_free(&sampler.trie)
    free(sampler.root_weights)
    free(sampler.work)
    sampler.root_weights = sampler.work = NULL


# --- a sentence --------------------------------------------------------------------------------

cdef int begin_walks(TreeSampler* sampler) noexcept nogil:
    """Prepare draws of the root token and of heads; returns a DecodeStatus."""
    cdef TreeSum* weights = &sampler.sum
    cdef Py_ssize_t n = sampler.sum.n
    cdef Py_ssize_t lowest = 1, word
    cdef int status
    if not sampler.single_root:
        lowest = 0
    elif sampler.method == SAMPLE_WILSON_REJECT:
        lowest = 0
        weights = &sampler.root_sum
        status = weigh_arcs(sampler.square, n, False, weights)
        if status != DECODE_OK:
            return status
    else:
        status = root_shares(sampler.square, sampler.root_weights, &sampler.sum)
        if status != DECODE_OK:
            return status
    if lowest == 1:
        sampler.root_total = 0
        for word in range(1, n + 1):
            sampler.root_total += sampler.root_weights[word]
    prepare_walk(<const double*>weights.weights, weights.stride, n, lowest, &sampler.walk)
    return DECODE_OK


cdef int sampler_begin(
        TreeSampler* sampler, const double* square, Py_ssize_t n) noexcept nogil:
    """Sum over the trees of a sentence and prepare to draw; O(n^3). Returns a DecodeStatus."""
    cdef int status
    sampler.square = square
    sampler.has_insertion = False
    status = sum_trees(square, n, sampler.single_root, &sampler.sum)
    if status != DECODE_OK or n == 0:
        return status
    if is_walk(sampler.method):
        return begin_walks(sampler)
    if sampler.method == SAMPLE_DISTINCT:
        partial_begin(&sampler.partial, square, &sampler.sum)
        status = trie_begin(&sampler.trie, &sampler.partial)
    return status


# --- single draws ------------------------------------------------------------------------------

cdef int draw_ancestral(
        TreeSampler* sampler, Py_ssize_t root, const RandomSource* random, int32_t* heads
) noexcept nogil:
    """Draw a tree word after word, with that root token unless it is 0; returns a DecodeStatus."""
    cdef int status = DECODE_OK
    if not sampler.has_insertion:
        status = insertion_begin(&sampler.insertion, &sampler.sum)
        sampler.has_insertion = True
    if status == DECODE_OK:
        status = insertion_draw(&sampler.insertion, &sampler.sum, root, random, heads)
    if status == DECODE_UNSETTLED:
        if sampler.sum.beyond_float64:
            return DECODE_LOST_DIGITS
        status = sum_trees_wide(sampler.square, &sampler.sum)
        sampler.has_insertion = False
        if status == DECODE_OK:
            return draw_ancestral(sampler, root, random, heads)
    return status


cdef int64_t steps_for(const TreeSampler* sampler) noexcept nogil:
    """The number of steps allowed to the walks for one tree.

    By default that of "auto" is several times the usual, which takes about as long as an insertion.
    """
    cdef int64_t n = sampler.sum.n
    if sampler.max_steps > 0:
        return sampler.max_steps
    return 16 * n


cdef int draw_by_walk(
        TreeSampler* sampler, const RandomSource* random, int32_t* heads) noexcept nogil:
    """Draw a root token, and walk to it; for "auto", fall back on `draw_ancestral`."""
    cdef Py_ssize_t n = sampler.sum.n
    cdef Py_ssize_t root = 0
    cdef int64_t steps = steps_for(sampler)
    if sampler.single_root:
        root = 1 + draw_index(sampler.root_weights + 1, n, sampler.root_total, random)
    if walk_tree(root, &steps, random, heads, &sampler.walk):
        return DECODE_OK
    if sampler.method == SAMPLE_AUTO:
        return draw_ancestral(sampler, root, random, heads)
    return SAMPLE_NO_STEPS


cdef int draw_by_rejection(
        TreeSampler* sampler, const RandomSource* random, int32_t* heads) noexcept nogil:
    """Walk to ROOT until the tree has a single root."""
    cdef Py_ssize_t n = sampler.sum.n
    cdef Py_ssize_t word, n_roots = 0, n_walks = 0
    cdef int64_t steps = steps_for(sampler)
    while n_roots != 1:
        n_walks += 1
        poll_row(n_walks, 32 * n)
        if not walk_tree(0, &steps, random, heads, &sampler.walk):
            return SAMPLE_NO_STEPS
        heads[0] = -1
        n_roots = 0
        for word in range(1, n + 1):
            n_roots += heads[word] == 0
    return DECODE_OK


cdef int draw_tree(
        TreeSampler* sampler, const RandomSource* random, int32_t* heads, bint* exhausted
) noexcept nogil:
    """Draw one tree of a sentence that has words; returns a DecodeStatus or SAMPLE_NO_STEPS."""
    cdef int status
    exhausted[0] = False
    if sampler.method == SAMPLE_ANCESTRAL:
        return draw_ancestral(sampler, 0, random, heads)
    if sampler.method == SAMPLE_COLBOURN:
        return draw_by_inverse(
            sampler.inverse_weights, sampler.inverse_stride + 1, sampler.sum.n,
            sampler.single_root, sampler.inverse, sampler.inverse_stride, random, heads,
            sampler.work)
    if sampler.method == SAMPLE_WILSON_REJECT:
        return draw_by_rejection(sampler, random, heads)
    if sampler.method == SAMPLE_DISTINCT:
        status = trie_draw(&sampler.trie, &sampler.partial, random, exhausted)
        if status == DECODE_OK and not exhausted[0]:
            memcpy(heads, sampler.partial.heads, (sampler.sum.n + 1) * sizeof(int32_t))
        return status
    return draw_by_walk(sampler, random, heads)


cdef int sampler_draw(
        TreeSampler* sampler, Py_ssize_t k, const RandomSource* random, int32_t* heads,
        Py_ssize_t width, double* log_probabilities, Py_ssize_t* found) noexcept nogil:
    """Draw up to k trees, one after another; fewer only without replacement."""
    cdef Py_ssize_t i
    cdef bint exhausted
    cdef int status
    found[0] = 0
    for i in range(k):
        poll_row(i, 32 * sampler.sum.n)
        if sampler.sum.n == 0:
            if i > 0 and sampler.method == SAMPLE_DISTINCT:
                return DECODE_OK
            heads[i * width] = -1
        else:
            if sampler.log_remaining is not NULL:
                sampler.log_remaining[i] = trie_log_remaining(&sampler.trie)
            status = draw_tree(sampler, random, heads + i * width, &exhausted)
            if status != DECODE_OK or exhausted:
                return status
        log_probabilities[i] = log_probability(
            sampler.square, heads + i * width, &sampler.sum)
        found[0] = i + 1
    return DECODE_OK
