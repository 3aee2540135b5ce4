"""The functions of the kernel for other packages; see the declarations.

Workspaces of the kernel change from release to release. Other packages know them by their address
alone, so that these need not be compiled again.
"""
from libc.math cimport INFINITY
from libc.stddef cimport size_t
from libc.stdint cimport int32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from spacy_rootmind.kernel.decode cimport (
    TreeWorkspace,
    decode_tree as kernel_decode_tree,
    workspace_free,
    workspace_init,
)
from spacy_rootmind.kernel.eisner cimport (
    ChartWorkspace,
    chart_workspace_free,
    chart_workspace_init,
    decode_projective as kernel_decode_projective,
)
from spacy_rootmind.kernel.kbest cimport KBestSearch, k_best_free, k_best_init, k_best_trees
from spacy_rootmind.kernel.partition cimport (
    TreeSum,
    arc_marginals,
    log_partition,
    sum_trees as kernel_sum_trees,
    tree_sum_free,
    tree_sum_init,
)
from spacy_rootmind.kernel.random cimport RandomSource
from spacy_rootmind.kernel.sample_batch cimport (
    SAMPLE_AUTO,
    SamplerWorkspace,
    sampler_begin,
    sampler_draw,
    sampler_free,
    sampler_init,
)
from spacy_rootmind.kernel.status cimport Status


# --- scores ------------------------------------------------------------------------------------

# Room for the scores of one sentence as the kernel wants them: contiguous, float64, -inf on the
# diagonal.
cdef struct Square:
    Py_ssize_t max_words
    double* scores


cdef bint square_init(Square* square, Py_ssize_t max_words) noexcept nogil:
    """Allocate; returns whether there is memory."""
    cdef size_t width = <size_t>max_words + 1
    square.max_words = max_words
    # Also where a size_t has 32 bits.
    if max_words < 0 or width > (<size_t>-1) // sizeof(double) // width:
        square.scores = NULL
    else:
        square.scores = <double*>calloc(width * width, sizeof(double))
    return square.scores is not NULL


cdef bint fill_square(
        Square* square, const score_t* scores, Py_ssize_t row_stride, Py_ssize_t n
) noexcept nogil:
    """Copy a sentence; returns whether there is room for it."""
    cdef Py_ssize_t dep, head
    cdef double* row
    if not 0 <= n <= square.max_words:
        return False
    for dep in range(1, n + 1):
        row = square.scores + dep * (n + 1)
        for head in range(n + 1):
            row[head] = scores[dep * row_stride + head]
        row[dep] = -INFINITY
    return True


# --- the best trees ----------------------------------------------------------------------------

cdef struct TreeDecoder:
    Py_ssize_t max_words
    TreeWorkspace workspace


cdef TreeDecoder* tree_decoder_new(Py_ssize_t max_words) noexcept nogil:
    cdef TreeDecoder* decoder = <TreeDecoder*>calloc(1, sizeof(TreeDecoder))
    if decoder is not NULL and 0 <= max_words:
        decoder.max_words = max_words
        if workspace_init(&decoder.workspace, max_words) == Status.OK:
            return decoder
    tree_decoder_free(decoder)
    return NULL


cdef void tree_decoder_free(TreeDecoder* decoder) noexcept nogil:
    if decoder is not NULL:
        workspace_free(&decoder.workspace)
        free(decoder)


cdef int decode_tree(
        TreeDecoder* decoder, const score_t* scores, Py_ssize_t row_stride, Py_ssize_t n,
        bint single_root, int32_t* heads) noexcept nogil:
    if not 0 <= n <= decoder.max_words:
        return Status.NO_MEMORY
    return kernel_decode_tree(scores, row_stride, n, single_root, True, heads, &decoder.workspace)


cdef struct ProjectiveDecoder:
    Square square
    ChartWorkspace workspace


cdef ProjectiveDecoder* projective_decoder_new(Py_ssize_t max_words) noexcept nogil:
    cdef ProjectiveDecoder* decoder = <ProjectiveDecoder*>calloc(1, sizeof(ProjectiveDecoder))
    if decoder is not NULL and square_init(&decoder.square, max_words):
        if chart_workspace_init(&decoder.workspace, max_words, False) == Status.OK:
            return decoder
    projective_decoder_free(decoder)
    return NULL


cdef void projective_decoder_free(ProjectiveDecoder* decoder) noexcept nogil:
    if decoder is not NULL:
        chart_workspace_free(&decoder.workspace)
        free(decoder.square.scores)
        free(decoder)


cdef int decode_projective(
        ProjectiveDecoder* decoder, const score_t* scores, Py_ssize_t row_stride, Py_ssize_t n,
        bint single_root, int32_t* heads) noexcept nogil:
    if not fill_square(&decoder.square, scores, row_stride, n):
        return Status.NO_MEMORY
    return kernel_decode_projective(
        decoder.square.scores, n, single_root, True, heads, &decoder.workspace)


cdef int decode_kbest(
        const double* scores, Py_ssize_t row_stride, Py_ssize_t n, Py_ssize_t k, bint single_root,
        int32_t* heads, Py_ssize_t* found) noexcept nogil:
    cdef Square square
    cdef KBestSearch search
    cdef int status
    found[0] = 0
    if k < 1:
        return Status.OK
    if not square_init(&square, n):
        return Status.NO_MEMORY
    fill_square(&square, scores, row_stride, n)
    status = k_best_init(&search, square.scores, n, k, single_root)
    if status == Status.OK:
        status = k_best_trees(&search)
    if status == Status.OK:
        found[0] = search.found
        memcpy(heads, search.heads, search.found * (n + 1) * sizeof(int32_t))
    k_best_free(&search)
    free(square.scores)
    return status


# --- sums --------------------------------------------------------------------------------------

cdef struct TreeSums:
    Square square
    TreeSum sum


cdef TreeSums* tree_sums_new(Py_ssize_t max_words) noexcept nogil:
    cdef TreeSums* sums = <TreeSums*>calloc(1, sizeof(TreeSums))
    if sums is not NULL and square_init(&sums.square, max_words):
        if tree_sum_init(&sums.sum, max_words) == Status.OK:
            return sums
    tree_sums_free(sums)
    return NULL


cdef void tree_sums_free(TreeSums* sums) noexcept nogil:
    if sums is not NULL:
        tree_sum_free(&sums.sum)
        free(sums.square.scores)
        free(sums)


cdef int sum_trees(
        TreeSums* sums, const score_t* scores, Py_ssize_t row_stride, Py_ssize_t n,
        bint single_root, double* log_z, double* marginals) noexcept nogil:
    cdef int status
    if not fill_square(&sums.square, scores, row_stride, n):
        return Status.NO_MEMORY
    status = kernel_sum_trees(sums.square.scores, n, single_root, &sums.sum)
    if status != Status.OK:
        return status
    log_z[0] = log_partition(&sums.sum)
    if marginals is NULL:
        return Status.OK
    memset(marginals, 0, (n + 1) * sizeof(double))
    return arc_marginals(sums.square.scores, marginals, n + 1, &sums.sum)


# --- samples -----------------------------------------------------------------------------------

cdef struct TreeSampler:
    Square square
    SamplerWorkspace sampler


cdef TreeSampler* tree_sampler_new(Py_ssize_t max_words, bint single_root) noexcept nogil:
    cdef TreeSampler* sampler = <TreeSampler*>calloc(1, sizeof(TreeSampler))
    if sampler is not NULL and square_init(&sampler.square, max_words):
        if sampler_init(&sampler.sampler, SAMPLE_AUTO, max_words, single_root, 0) == Status.OK:
            return sampler
    tree_sampler_free(sampler)
    return NULL


cdef void tree_sampler_free(TreeSampler* sampler) noexcept nogil:
    if sampler is not NULL:
        sampler_free(&sampler.sampler)
        free(sampler.square.scores)
        free(sampler)


cdef int tree_sampler_begin(
        TreeSampler* sampler, const score_t* scores, Py_ssize_t row_stride, Py_ssize_t n
) noexcept nogil:
    if not fill_square(&sampler.square, scores, row_stride, n):
        return Status.NO_MEMORY
    return sampler_begin(&sampler.sampler, sampler.square.scores, n)


cdef int tree_sampler_draw(
        TreeSampler* sampler, Py_ssize_t k, NextDouble next_double, void* state, int32_t* heads,
        double* log_probs) noexcept nogil:
    cdef RandomSource random
    cdef Py_ssize_t found
    random.next_double = next_double
    random.state = state
    return sampler_draw(
        &sampler.sampler, k, &random, heads, sampler.sampler.sum.n + 1, log_probs, &found, NULL)
