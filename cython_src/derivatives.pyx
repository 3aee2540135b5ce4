"""Derivatives of arc marginals in the direction of given values, in O(n^3).

With scores s + h v in place of s, the derivative of an arc's probability by h at 0 is the
covariance, over trees, of that arc and of the sum of v over a tree's arcs. So it gives
second-order expectations, and the gradients of first-order ones.

The elimination and its way back (see `elimination`, `matrix_tree`) are gone through once more. What
is computed for each weight, and each adjoint, is the derivative of its log. It is a difference of
two expectations of v: however small or large the weights are, it lies within a few times the
differences among the values of v, and fits float64. It is a mean of other such derivatives, weighed
by positive weights. So errors are not magnified, and are absolute: those of marginals times
these differences.
"""
from libc.math cimport fabs
from libc.stddef cimport size_t
from libc.stdlib cimport calloc, free, malloc

from spacy_rootmind.kernel.batch cimport Batch, ScoreBuffer, Worker, gather, run_batch
from spacy_rootmind.kernel.decode cimport DECODE_LOST_DIGITS, DECODE_OK
from spacy_rootmind.kernel.elimination cimport TreeSum, tree_sum_free, tree_sum_init
from spacy_rootmind.kernel.inside_outside cimport (
    SpanSums,
    projective_derivatives,
    span_sums_free,
    span_sums_init,
)
from spacy_rootmind.kernel.interrupt cimport poll_pivot, poll_row
from spacy_rootmind.kernel.matrix_tree cimport arc_marginals, sum_trees, sum_trees_wide
from weights cimport (
    Wide,
    add,
    add_signed,
    divide,
    is_zero,
    multiply,
    to_double,
    weight_from,
    weight_t,
)

# What the derivatives of a word's marginals, which cancel, may add up to, over n. For values of at
# most 1.
cdef double TOLERANCE = 1e-9
# Beyond this a difference holds no digits of what was subtracted.
cdef double DIGITS = 2.0**53


cdef struct Means:
    # Per head: a sum of weights, as weight_t, and the mean of what is weighed by them; for float64
    # their sum of products instead.
    void* totals
    double* means

cdef struct DerivativeTask:
    bint single_root
    Py_ssize_t width            # N + 1
    Py_ssize_t n_directions     # per sentence
    const double* values        # directions: squares of `width`, at most 1 in magnitude
    double* out                 # the derivatives, of the same shape

cdef struct DerivativeState:
    const DerivativeTask* task
    TreeSum sum
    double* square              # the scores of one sentence
    double* marginals
    double* forward             # per arc and pivot: derivative of its log
    double* backward            # per adjoint: the same
    double* of_sums             # per word: that of its sum
    Means means
    SpanSums spans              # for projective trees, which need none of the above but the square


# --- weighted means ----------------------------------------------------------------------------

cdef inline void start_means(
        const weight_t* of_type, Means* means, Py_ssize_t n) noexcept nogil:
    cdef weight_t* totals = <weight_t*>means.totals
    cdef Py_ssize_t i
    for i in range(n):
        totals[i] = weight_from(0, of_type)
        means.means[i] = 0


cdef inline void add_to_mean(
        weight_t weight, double value, weight_t* total, double* mean) noexcept nogil:
    """Let a value take part in a mean."""
    if weight_t is double:
        total[0] += weight
        mean[0] += weight * value
    else:
        if not is_zero(weight):
            total[0] = add(total[0], weight)
            mean[0] += (value - mean[0]) * to_double(divide(weight, total[0]))


cdef inline double mean_of(weight_t total, double mean) noexcept nogil:
    """The mean of all values; 0 if none has any weight."""
    if weight_t is double:
        return mean / total if total > 0 else 0.0
    else:
        return mean


# --- forwards ----------------------------------------------------------------------------------

cdef void follow_elimination(
        const weight_t* of_type, const double* values, Py_ssize_t width, DerivativeState* ws
) noexcept nogil:
    """Fill `forward` and `of_sums`: how log weights, shares of heads and their sums change.

    As `eliminate` of `elimination`.
    """
    cdef const TreeSum* sum = ws.sum.wide if ws.sum.beyond_float64 else &ws.sum
    cdef Py_ssize_t n = sum.n, stride = sum.stride
    cdef const weight_t* weights = <const weight_t*>sum.weights
    cdef const weight_t* pivots = <const weight_t*>sum.pivots
    cdef const weight_t* factors = <const weight_t*>sum.factors
    cdef weight_t* totals = <weight_t*>ws.means.totals
    cdef double* means = ws.means.means
    cdef weight_t total, factor
    cdef double mean, change
    cdef Py_ssize_t word, head, k, first
    for word in range(n, 0, -1):
        poll_pivot(n - word)
        start_means(of_type, &ws.means, n + 1)
        for head in range(word < sum.root_word, n + 1):
            add_to_mean(
                weights[word * stride + head], values[word * width + head],
                &totals[head], &means[head])
        for k in range(n, word, -1):
            factor = factors[word * stride + k]
            if is_zero(factor):
                continue
            change = mean_of(totals[k], means[k])
            ws.forward[word * (n + 1) + k] = change
            # From words before the root token, words after it no longer lead to ROOT.
            first = word < sum.root_word < k
            for head in range(first, k):
                add_to_mean(
                    multiply(factor, pivots[k * stride + head]),
                    change + ws.forward[k * (n + 1) + head], &totals[head], &means[head])
        total = weight_from(0, of_type)
        mean = 0
        if word == sum.root_word:
            add_to_mean(totals[0], mean_of(totals[0], means[0]), &total, &mean)
        else:
            for head in range(sum.single_root and word > sum.root_word, word):
                add_to_mean(totals[head], mean_of(totals[head], means[head]), &total, &mean)
        ws.of_sums[word] = mean_of(total, mean)
        for head in range(word):
            ws.forward[word * (n + 1) + head] = (
                0.0 if word == sum.root_word
                else mean_of(totals[head], means[head]) - ws.of_sums[word])


# --- backwards ---------------------------------------------------------------------------------

cdef inline double bounded(double change, Py_ssize_t n) noexcept nogil:
    """Bring back the derivative of a log that rounding took beyond what it can be.

    That is less than three times the most that sums of n values of at most 1 can differ by. What
    was rounded has next to no weight.
    """
    return min(max(change, -6.0 * n), 6.0 * n)


cdef inline void add_rest(
        weight_t pulled, double change, double rest, double rest_change, bint wanted,
        weight_t* out, double* out_change) noexcept nogil:
    """Add `rest` to a weight, if wanted, but not below 0; and the change of its log."""
    cdef double ratio, rest_ratio
    out[0] = pulled
    out_change[0] = change
    if not wanted:
        return
    out[0] = add_signed(pulled, rest)
    out_change[0] = 0
    if is_zero(out[0]):
        return
    ratio = to_double(divide(pulled, out[0]))
    rest_ratio = to_double(divide(weight_from(fabs(rest_change), &out[0]), out[0]))
    # Else it is what rounding left of a difference.
    if ratio < DIGITS:
        out_change[0] = ratio * change + (rest_ratio if rest_change > 0 else -rest_ratio)


cdef void follow_back(const weight_t* of_type, DerivativeState* ws) noexcept nogil:
    """Fill `backward`: how the logs of adjoints change.

    As `differentiate` of `matrix_tree`, whose adjoints are found again on the way: it clears those
    of arcs from ROOT to words before the root token once they have been used.
    """
    cdef TreeSum* sum = ws.sum.wide if ws.sum.beyond_float64 else &ws.sum
    cdef Py_ssize_t n = sum.n, stride = sum.stride
    cdef weight_t* adjoints = <weight_t*>sum.adjoints
    cdef const weight_t* pivots = <const weight_t*>sum.pivots
    cdef const weight_t* factors = <const weight_t*>sum.factors
    cdef const weight_t* sums = <const weight_t*>sum.sums
    cdef weight_t* pulled = <weight_t*>ws.means.totals
    cdef double* means = ws.means.means
    cdef weight_t product, adjoint, factor
    cdef double mean, change, rest, rest_change, share
    cdef Py_ssize_t k, j, head
    for k in range(1, n + 1):
        poll_pivot(k)
        start_means(of_type, &ws.means, k)
        for j in range(1, k):
            product = weight_from(0, of_type)
            mean = 0
            factor = factors[j * stride + k]
            for head in range(k):
                adjoint = adjoints[j * stride + head]
                change = ws.backward[j * (n + 1) + head]
                add_to_mean(
                    multiply(adjoint, pivots[k * stride + head]),
                    change + ws.forward[k * (n + 1) + head], &product, &mean)
                add_to_mean(
                    multiply(adjoint, factor), change + ws.forward[j * (n + 1) + k],
                    &pulled[head], &means[head])
            adjoints[j * stride + k] = product
            ws.backward[j * (n + 1) + k] = bounded(mean_of(product, mean), n)
        rest = 1
        rest_change = 0
        for head in range(k):
            means[head] = mean_of(pulled[head], means[head])
            share = to_double(multiply(pulled[head], pivots[k * stride + head]))
            rest -= share
            rest_change -= share * (means[head] + ws.forward[k * (n + 1) + head])
        for head in range(k):
            # ROOT had no part in S.
            add_rest(
                pulled[head], means[head], rest, rest_change,
                head > 0 or not sum.single_root or k <= sum.root_word, &product, &mean)
            adjoints[k * stride + head] = divide(product, sums[k])
            ws.backward[k * (n + 1) + head] = bounded(mean - ws.of_sums[k], n)
        adjoints[k * stride + k] = weight_from(0, of_type)
        ws.backward[k * (n + 1) + k] = 0
        if k == sum.root_word:
            for j in range(1, k):
                adjoints[j * stride] = weight_from(0, of_type)


# --- a sentence --------------------------------------------------------------------------------

cdef bint follow(const double* values, double* out, DerivativeState* ws) noexcept nogil:
    """Find the derivatives in one direction; returns whether those of each word add up to 0."""
    cdef Py_ssize_t n = ws.sum.n, width = ws.task.width
    cdef Py_ssize_t dep, head
    cdef double total, marginal
    cdef bint sound = True
    if ws.sum.beyond_float64:
        follow_elimination(<const Wide*>NULL, values, width, ws)
        follow_back(<const Wide*>NULL, ws)
    else:
        follow_elimination(<const double*>NULL, values, width, ws)
        follow_back(<const double*>NULL, ws)
    for dep in range(1, n + 1):
        poll_row(dep, n)
        total = 0
        for head in range(n + 1):
            marginal = ws.marginals[dep * (n + 1) + head]
            if marginal > 0:
                out[dep * width + head] = marginal * (
                    values[dep * width + head] + ws.backward[dep * (n + 1) + head])
                total += out[dep * width + head]
        sound &= fabs(total) < TOLERANCE * n
    return sound


cdef int differentiate_sentence(
        void* state, const Batch* batch, Py_ssize_t sentence) noexcept nogil:
    """Find the derivatives of one sentence in all its directions; returns a DecodeStatus."""
    cdef DerivativeState* ws = <DerivativeState*>state
    cdef const DerivativeTask* task = ws.task
    cdef Py_ssize_t n = batch.lengths[sentence], area = task.width * task.width
    cdef Py_ssize_t direction = sentence * task.n_directions
    cdef Py_ssize_t stop = direction + task.n_directions
    cdef int status
    if n == 0:
        return DECODE_OK
    gather(batch, sentence, ws.square)
    status = sum_trees(ws.square, n, task.single_root, &ws.sum)
    if status == DECODE_OK:
        status = arc_marginals(ws.square, ws.marginals, n + 1, &ws.sum)
    while status == DECODE_OK and direction < stop:
        if follow(task.values + direction * area, task.out + direction * area, ws):
            direction += 1
        elif ws.sum.beyond_float64:
            return DECODE_LOST_DIGITS
        else:
            # Adjoints may be too small for float64 where marginals are not.
            status = sum_trees_wide(ws.square, &ws.sum)
            if status == DECODE_OK:
                status = arc_marginals(ws.square, ws.marginals, n + 1, &ws.sum)
    return status


cdef int differentiate_projective(
        void* state, const Batch* batch, Py_ssize_t sentence) noexcept nogil:
    """`differentiate_sentence` for projective trees."""
    cdef DerivativeState* ws = <DerivativeState*>state
    cdef const DerivativeTask* task = ws.task
    cdef Py_ssize_t n = batch.lengths[sentence], area = task.width * task.width
    cdef Py_ssize_t i, first = sentence * task.n_directions
    cdef int status
    if n == 0:
        return DECODE_OK
    gather(batch, sentence, ws.square)
    for i in range(first, first + task.n_directions):
        status = projective_derivatives(
            ws.square, n, task.single_root, task.values + i * area, task.width,
            task.out + i * area, &ws.spans)
        if status != DECODE_OK:
            return status
    return DECODE_OK


cdef class Differentiation(Worker):
    """What one thread needs for sentences of up to `max_words` words."""
    cdef DerivativeState c

    def __cinit__(self, Py_ssize_t max_words, bint projective=False):
        cdef size_t width = <size_t>max_words + 1
        cdef int status
        self.handle = differentiate_projective if projective else differentiate_sentence
        self.state = &self.c
        # Zeros: the derivative of a log stays 0 where there is no weight.
        self.c.square = <double*>calloc(
            (1 if projective else 4) * width * width + 2 * width, sizeof(double))
        self.c.means.totals = malloc(width * sizeof(Wide))
        if projective:
            status = span_sums_init(&self.c.spans, max_words, True)
        else:
            status = tree_sum_init(&self.c.sum, max_words)
        if (
                self.c.square is NULL or self.c.means.totals is NULL
                or status != DECODE_OK):
            raise MemoryError(
                f"derivatives of marginals of {max_words} words need at least "
                f"{64 * max_words * max_words / 2**20:.0f} MiB; split the sentence first")
        if projective:
            return
        self.c.marginals = self.c.square + width * width
        self.c.forward = self.c.marginals + width * width
        self.c.backward = self.c.forward + width * width
        self.c.of_sums = self.c.backward + width * width
        self.c.means.means = self.c.of_sums + width

    def __dealloc__(self):
        tree_sum_free(&self.c.sum)
        span_sums_free(&self.c.spans)
        free(self.c.square)
        free(self.c.means.totals)


def differentiate_batch(
        object scores, object allowed, object lengths, bint single_root, list workers,
        const double[:, :, :, ::1] values not None, double[:, :, :, ::1] out not None):
    """Find derivatives of the marginals of all sentences, with one thread per worker.

    `scores`, `allowed` and `lengths` are as for ScoreBuffer. values[sentence, direction, dep, head]
    are at most 1 in magnitude. Adds to `out`, of the same shape, which holds zeros. Returns
    (status, sentence) of the first sentence that fails, or (OK, any).
    """
    cdef ScoreBuffer buffer = ScoreBuffer(scores, allowed, lengths)
    cdef Differentiation worker
    cdef DerivativeTask task
    if values.shape[0] == 0 or values.shape[1] == 0:
        return DECODE_OK, 0
    task.single_root = single_root
    task.width = values.shape[3]
    task.n_directions = values.shape[1]
    task.values = &values[0, 0, 0, 0]
    task.out = &out[0, 0, 0, 0]
    for worker in workers:
        worker.c.task = &task
    return run_batch(buffer, workers)
