"""Covariances of the arcs of a tree with a sum over its arcs, in O(n^3), in float64.

These are derivatives of the marginals along a direction: scores grow by `values` times a vanishing
step. The sums over trees are made first (see `matrix_tree`); then the elimination and the way back
through it are made once more for the derivatives of all its numbers. Row by row, constants are
taken off the values, so that derivatives stay in proportion to what they belong to; nothing is
subtracted in the weights themselves.

Sentences whose weights are beyond float64 are left to the caller.
"""
from libc.math cimport fabs, isfinite
from libc.stddef cimport size_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

from spacy_rootmind.kernel.batch cimport Batch, ScoreBuffer, Worker, gather, run_batch
from spacy_rootmind.kernel.decode cimport DECODE_NO_MEMORY, DECODE_OK
from spacy_rootmind.kernel.elimination cimport TreeSum, tree_sum_free, tree_sum_init
from spacy_rootmind.kernel.interrupt cimport poll_pivot, poll_row
from spacy_rootmind.kernel.matrix_tree cimport sum_trees
from weights cimport choose_weight_passes, weight_passes

# How far from 1 the sum of the probabilities of a word's heads may be.
cdef double TOLERANCE = 1e-9


def use_simd(bint wanted):
    """Use the processor's SIMD instructions, or the portable C; returns whether SIMD is in use.

    For tests and benchmarks. Not while another thread is at work.
    """
    return bool(choose_weight_passes(wanted))


use_simd(True)


# Derivatives of the matrices of a TreeSum, with rows of its stride.
cdef struct Tangents:
    void* block
    double* factors
    double* pivots
    double* adjoints
    double* sums            # as a row
    double* root_pivots     # as a row
    double* column          # rows of scratch, as all below
    double* pulled
    double* products
    double* pulled_change
    double* products_change
    double* more
    double* column_change


cdef int tangents_init(Tangents* t, Py_ssize_t stride, Py_ssize_t max_words) noexcept nogil:
    cdef size_t matrix = <size_t>stride * (<size_t>max_words + 1)
    cdef double* place
    # Zeros: vector passes read what nobody has written, to multiply it by zero.
    t.block = calloc(3 * matrix + 9 * stride, sizeof(double))
    if t.block is NULL:
        return DECODE_NO_MEMORY
    place = <double*>t.block
    t.factors = place
    t.pivots = place + matrix
    t.adjoints = place + 2 * matrix
    place += 3 * matrix
    t.sums = place
    t.root_pivots = place + stride
    t.column = place + 2 * stride
    t.pulled = place + 3 * stride
    t.products = place + 4 * stride
    t.pulled_change = place + 5 * stride
    t.products_change = place + 6 * stride
    t.more = place + 7 * stride
    t.column_change = place + 8 * stride
    return DECODE_OK


cdef void forget_numbers(Tangents* t, TreeSum* sum) noexcept nogil:
    """Remove numbers that overflowed, which must not be multiplied by the zeros of later ones."""
    cdef size_t matrix = <size_t>sum.stride * (<size_t>sum.max_words + 1)
    memset(t.block, 0, (3 * matrix + 9 * sum.stride) * sizeof(double))
    memset(sum.adjoints, 0, matrix * sizeof(double))


# --- forwards ----------------------------------------------------------------------------------

cdef inline void apply_changed_pivot(
        double* row, const double* pivot, const double* change, double by, double factor,
        Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        row[i] += by * pivot[i] + factor * change[i]


cdef void move_root(TreeSum* sum, Tangents* t, Py_ssize_t word) noexcept nogil:
    """Let `word` take the place of ROOT for the words before it, as the elimination did."""
    cdef double* pivots = <double*>sum.pivots
    cdef Py_ssize_t k
    for k in range(word + 1, sum.n + 1):
        pivots[k * sum.stride] = 0
        t.root_pivots[k] = t.pivots[k * sum.stride]
        t.pivots[k * sum.stride] = 0


cdef void change_pivot(
        TreeSum* sum, Tangents* t, Py_ssize_t word, bint has_root) noexcept nogil:
    """Find the derivatives of the sum and the pivot row of a word from those of its row."""
    cdef const double* pivot = <const double*>sum.pivots + word * sum.stride
    cdef const double* row = t.factors + word * sum.stride
    cdef double* change = t.pivots + word * sum.stride
    cdef double total = (<const double*>sum.sums)[word]
    cdef double change_of_total = 0
    cdef Py_ssize_t head
    if word == sum.root_word:
        change_of_total = row[0]
        for head in range(word):
            change[head] = 0
    else:
        for head in range(not has_root, word):
            change_of_total += row[head]
        for head in range(word):
            change[head] = (row[head] - pivot[head] * change_of_total) / total
    for head in range(word, min(word + 4, sum.stride)):
        change[head] = 0
    t.sums[word] = change_of_total


cdef void change_elimination(
        const double* values, Py_ssize_t width, TreeSum* sum, Tangents* t) noexcept nogil:
    """Eliminate the words once more, for the derivatives of what the elimination left."""
    cdef Py_ssize_t n = sum.n, stride = sum.stride
    cdef double* pivots = <double*>sum.pivots
    cdef const double* root_pivots = <const double*>sum.root_pivots
    cdef const double* factors = <const double*>sum.factors
    cdef const double* weights = <const double*>sum.weights
    cdef double* row
    cdef Py_ssize_t word, head, k
    # As they were before ROOT lost its place.
    for k in range(sum.root_word + 1, n + 1):
        if sum.root_word > 0:
            pivots[k * stride] = root_pivots[k]
    for word in range(n, 0, -1):
        row = t.factors + word * stride
        for head in range(n + 1):
            row[head] = weights[word * stride + head] * values[word * width + head]
        if word < sum.root_word:
            row[0] = 0
        poll_pivot(n - word)
        for k in range(n, word, -1):
            apply_changed_pivot(
                row, pivots + k * stride, t.pivots + k * stride, row[k], factors[word * stride + k],
                k)
        change_pivot(sum, t, word, not sum.single_root or word < sum.root_word)
        if word == sum.root_word:
            move_root(sum, t, word)


# --- backwards ---------------------------------------------------------------------------------

cdef void change_adjoints(TreeSum* sum, Tangents* t) noexcept nogil:
    """Find the adjoints of the weights as `matrix_tree` does, and their derivatives."""
    cdef Py_ssize_t n = sum.n, stride = sum.stride
    cdef double* adjoints = <double*>sum.adjoints
    cdef double* pivots = <double*>sum.pivots
    cdef const double* factors = <const double*>sum.factors
    cdef const double* sums = <const double*>sum.sums
    cdef const double* root_pivots = <const double*>sum.root_pivots
    cdef const double* pivot
    cdef const double* pivot_change
    cdef double* own
    cdef double* change
    cdef Py_ssize_t k, j, head
    cdef double rest, rest_change
    for k in range(1, n + 1):
        own = adjoints + k * stride
        change = t.adjoints + k * stride
        pivot = pivots + k * stride
        pivot_change = t.pivots + k * stride
        for j in range(1, k):
            t.column[j] = factors[j * stride + k]
            t.column_change[j] = t.factors[j * stride + k]
        poll_pivot(3 * k)
        # The products by both factors of each sum, one of which is a derivative.
        weight_passes.pull_back(t.adjoints, stride, k, pivot, t.column, t.more, t.products)
        weight_passes.pull_back(
            adjoints, stride, k, pivot_change, t.column_change, t.pulled_change, t.products_change)
        for head in range(k):
            t.pulled_change[head] += t.more[head]
        for j in range(1, k):
            t.adjoints[j * stride + k] = t.products_change[j] + t.products[j]
        weight_passes.pull_back(adjoints, stride, k, pivot, t.column, t.pulled, t.products)
        rest = 1
        rest_change = 0
        for head in range(k):
            rest -= t.pulled[head] * pivot[head]
            rest_change -= t.pulled_change[head] * pivot[head] + t.pulled[head] * pivot_change[head]
        for j in range(1, k):
            adjoints[j * stride + k] = t.products[j]
        for head in range(k):
            if sum.single_root and head == 0 and k > sum.root_word:
                # ROOT had no part in S.
                own[0] = t.pulled[0] / sums[k]
                change[0] = (t.pulled_change[0] - own[0] * t.sums[k]) / sums[k]
            else:
                own[head] = max(t.pulled[head] + rest, 0.0) / sums[k]
                change[head] = (
                    t.pulled_change[head] + rest_change - own[head] * t.sums[k]) / sums[k]
        own[k] = 0
        change[k] = 0
        if k == sum.root_word:
            for j in range(1, k):
                adjoints[j * stride] = 0
                t.adjoints[j * stride] = 0
            for j in range(k + 1, n + 1):
                pivots[j * stride] = root_pivots[j]
                t.pivots[j * stride] = t.root_pivots[j]


cdef bint multiply_by_weights(
        const double* values, double* found, Py_ssize_t width, const TreeSum* sum,
        const Tangents* t) noexcept nogil:
    """Fill the covariances; returns whether they are finite, and the marginals add up to 1."""
    cdef const double* weights
    cdef const double* adjoints
    cdef const double* changes
    cdef Py_ssize_t dep, head
    cdef double total, marginal
    cdef bint sound = True
    for dep in range(1, sum.n + 1):
        poll_row(dep, 2 * sum.n)
        weights = <const double*>sum.weights + dep * sum.stride
        adjoints = <const double*>sum.adjoints + dep * sum.stride
        changes = t.adjoints + dep * sum.stride
        total = 0
        for head in range(sum.n + 1):
            marginal = weights[head] * adjoints[head]
            total += marginal
            found[dep * width + head] = (
                marginal * values[dep * width + head] + weights[head] * changes[head])
            sound &= isfinite(found[dep * width + head])
        sound &= fabs(total - 1) < TOLERANCE
    return sound


# --- the boundary ------------------------------------------------------------------------------

cdef struct CovarianceTask:
    bint single_root
    Py_ssize_t width        # N + 1
    const double* values
    double* out
    unsigned char* settled

cdef struct CovarianceState:
    const CovarianceTask* task
    TreeSum sum
    Tangents tangents
    double* square          # the scores of one sentence: contiguous, -inf where not allowed


cdef int find_covariances(void* state, const Batch* batch, Py_ssize_t sentence) noexcept nogil:
    """Find those of one sentence, or say that it is not settled; returns a DecodeStatus."""
    cdef CovarianceState* worker = <CovarianceState*>state
    cdef const CovarianceTask* task = worker.task
    cdef Py_ssize_t width = task.width
    cdef const double* values = task.values + sentence * width * width
    cdef double* out = task.out + sentence * width * width
    cdef int status
    gather(batch, sentence, worker.square)
    status = sum_trees(worker.square, batch.lengths[sentence], task.single_root, &worker.sum)
    if status != DECODE_OK:
        return status
    if worker.sum.n > 0 and not worker.sum.beyond_float64:
        change_elimination(values, width, &worker.sum, &worker.tangents)
        change_adjoints(&worker.sum, &worker.tangents)
        if not multiply_by_weights(values, out, width, &worker.sum, &worker.tangents):
            forget_numbers(&worker.tangents, &worker.sum)
            task.settled[sentence] = False
    else:
        task.settled[sentence] = worker.sum.n == 0
    return DECODE_OK


cdef class CovarianceWorker(Worker):
    """What one thread needs for sentences of up to `max_words` words: 64 n^2 + O(n) bytes."""
    cdef CovarianceState c

    def __cinit__(self, Py_ssize_t max_words):
        cdef size_t width = <size_t>max_words + 1
        self.handle = find_covariances
        self.state = &self.c
        self.c.square = <double*>malloc(width * width * sizeof(double))
        if (
                self.c.square is NULL
                or tree_sum_init(&self.c.sum, max_words) != DECODE_OK
                or tangents_init(&self.c.tangents, self.c.sum.stride, max_words) != DECODE_OK):
            raise MemoryError(
                f"covariances of the arcs of {max_words} words need at least "
                f"{64 * max_words * max_words / 2**20:.0f} MiB; split the sentence first")

    def __dealloc__(self):
        free(self.c.tangents.block)
        tree_sum_free(&self.c.sum)
        free(self.c.square)


def covariance_batch(
        object scores, object allowed, object lengths, bint single_root, list workers,
        const double[:, :, ::1] values not None, double[:, :, ::1] out not None,
        unsigned char[::1] settled not None):
    """Find the covariance of each arc with the sum of the values of a tree's arcs.

    `scores`, `allowed` and `lengths` are as for ScoreBuffer; `values` are finite. Fills `out` for
    the words of each sentence, and sets `settled` to 0 for sentences beyond float64. Returns
    (status, sentence) of the first sentence that fails, or (OK, any).
    """
    cdef ScoreBuffer buffer = ScoreBuffer(scores, allowed, lengths)
    cdef CovarianceWorker worker
    cdef CovarianceTask task
    if out.shape[0] == 0:
        return DECODE_OK, 0
    task.single_root = single_root
    task.width = out.shape[2]
    task.values = &values[0, 0, 0]
    task.out = &out[0, 0, 0]
    task.settled = &settled[0]
    for worker in workers:
        worker.c.task = &task
    return run_batch(buffer, workers)
