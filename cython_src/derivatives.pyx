"""Derivatives of arc marginals in the direction of given values, in O(n^3).

With scores s + h v in place of s, the derivative of an arc's probability by h at 0 is the
covariance, over trees, of that arc and of the sum of v over a tree's arcs. So it gives
second-order expectations, and the gradients of first-order ones.

The sums over trees are made first (see `partition`); then the elimination and the
way back through it are made once more, for the derivatives of all their numbers. Each is the number
times a difference of two expectations of v, which lies within a few times the differences among the
values of v. Nothing is subtracted in the weights themselves, so errors are not magnified, and are
absolute: the errors of marginals times these differences.

Numbers are float64 where that is enough for the sums, and wide ones elsewhere.
"""
from libc.math cimport fabs, frexp, isfinite, ldexp
from libc.stddef cimport size_t
from libc.stdlib cimport free

from spacy_rootmind.kernel.batch cimport Batch, ScoreBuffer, Worker, check_memory, gather, run_batch
from spacy_rootmind.kernel.inside_outside cimport (
    SpanSums,
    projective_derivatives,
    span_sums_free,
    span_sums_init,
)
from spacy_rootmind.kernel.interrupt cimport give_up, poll_pivot, poll_row, require
from spacy_rootmind.kernel.partition cimport (
    TreeSum,
    sum_trees,
    tree_sum_free,
    tree_sum_init,
)
from spacy_rootmind.kernel.room cimport Layout, add_array, allocate
from spacy_rootmind.kernel.status cimport Status
from weights cimport (
    ExtendedFloat,
    add,
    add_signed,
    divide,
    dot,
    multiply,
    pull_back,
    subtract,
    subtract_exactly,
    to_double,
    weight_from,
    weight_t,
)

# Differences of four values cannot overflow if the values are this much smaller.
cdef double EIGHTH = 0.125


# --- values ------------------------------------------------------------------------------------

cdef double value_of_likeliest(
        const double* given, const double* marginals, Py_ssize_t n, bint single_root
) noexcept nogil:
    """An eighth of the value of a word's likeliest arc; from ROOT only if there is no other."""
    cdef Py_ssize_t head, likeliest = 0
    cdef double most = 0
    for head in range(single_root, n + 1):
        if marginals[head] > most:
            most = marginals[head]
            likeliest = head
    return EIGHTH * given[likeliest]


cdef int normalize(
        const double* given, const double* marginals, Py_ssize_t width, Py_ssize_t n,
        bint single_root, double* values) noexcept nogil:
    """Take from values what is the same in all trees, and divide by a power of two above the rest.

    So the values of likeliest arcs become 0, as do values of impossible arcs. Returns the exponent
    of the power; gives up with Status.BAD_SCORE if a value that counts is not finite.
    """
    cdef Py_ssize_t dep, head, i, root = 1
    cdef int exponent
    cdef double constant, value, rest, scale, root_constant = 0, largest = 0
    cdef bint finite = True
    if single_root and n > 0:
        for dep in range(2, n + 1):
            if marginals[dep * width] > marginals[root * width]:
                root = dep
        i = root * width
        root_constant = EIGHTH * given[i] - value_of_likeliest(given + i, marginals + i, n, True)
    for dep in range(1, n + 1):
        i = dep * width
        constant = value_of_likeliest(given + i, marginals + i, n, single_root)
        for head in range(n + 1):
            value = 0
            if marginals[i + head] > 0:
                value = subtract_exactly(EIGHTH * given[i + head], constant, &rest)
                if head == 0 and single_root:
                    # They may be large before: keep what was rounded away.
                    value = value - root_constant + rest
                finite &= isfinite(value)
                largest = max(largest, fabs(value))
            values[i + head] = value
    if not finite:
        give_up(Status.BAD_SCORE)
    frexp(largest, &exponent)
    # Its inverse, too, has to be in float64.
    exponent = max(exponent, -1000)
    scale = ldexp(1.0, -exponent)
    for dep in range(1, n + 1):
        for head in range(n + 1):
            values[dep * width + head] *= scale
    return exponent + 3


# --- workspace ---------------------------------------------------------------------------------

# Derivatives of the numbers of a TreeSum, of the same type, and with rows of its stride.
cdef struct Tangents:
    void* block             # NULL until it is needed
    void* factors
    void* pivots
    void* adjoints
    void* sums              # as a row
    void* root_pivots       # as a row
    void* scratch           # seven rows


cdef void make_tangents(Tangents* t, const TreeSum* sum) noexcept nogil:
    """Allocate for all sentences of a TreeSum, unless that has been done."""
    cdef size_t item = sizeof(ExtendedFloat) if sum.is_wide else sizeof(double)
    cdef size_t stride = <size_t>sum.stride
    cdef size_t matrix = stride * (<size_t>sum.max_words + 1)
    cdef Layout layout
    if t.block is not NULL:
        return
    layout.n_arrays = layout.size = 0
    add_array(&layout, &t.factors, matrix, item)
    add_array(&layout, &t.pivots, matrix, item)
    add_array(&layout, &t.adjoints, matrix, item)
    add_array(&layout, &t.sums, stride, item)
    add_array(&layout, &t.root_pivots, stride, item)
    add_array(&layout, &t.scratch, 7 * stride, item)
    # Zeros: vector passes read what nobody has written, to multiply it by zero.
    require(allocate(&layout, &t.block, True))


# --- forwards ----------------------------------------------------------------------------------

cdef void change_pivot(
        const weight_t* of_type, TreeSum* sum, Tangents* t, Py_ssize_t word, bint has_root
) noexcept nogil:
    """Find the derivatives of a word's sum and pivot row from the derivatives of its row."""
    cdef const weight_t* pivot = <const weight_t*>sum.pivots + word * sum.stride
    cdef const weight_t* row = <const weight_t*>t.factors + word * sum.stride
    cdef weight_t* change = <weight_t*>t.pivots + word * sum.stride
    cdef weight_t total = (<const weight_t*>sum.sums)[word]
    cdef weight_t change_of_total = weight_from(0, of_type)
    cdef Py_ssize_t head
    if word == sum.root_word:
        change_of_total = row[0]
        for head in range(word):
            change[head] = weight_from(0, of_type)
    else:
        for head in range(not has_root, word):
            change_of_total = add(change_of_total, row[head])
        for head in range(word):
            change[head] = divide(
                subtract(row[head], multiply(pivot[head], change_of_total)), total)
    for head in range(word, min(word + 4, sum.stride)):
        change[head] = weight_from(0, of_type)
    (<weight_t*>t.sums)[word] = change_of_total


cdef void change_elimination(
        const weight_t* of_type, const double* values, Py_ssize_t width, TreeSum* sum, Tangents* t
) noexcept nogil:
    """Eliminate the words once more, for the derivatives of what the elimination left."""
    cdef Py_ssize_t n = sum.n, stride = sum.stride
    cdef weight_t* pivots = <weight_t*>sum.pivots
    cdef const weight_t* root_pivots = <const weight_t*>sum.root_pivots
    cdef const weight_t* factors = <const weight_t*>sum.factors
    cdef const weight_t* weights = <const weight_t*>sum.weights
    cdef weight_t* changes = <weight_t*>t.pivots
    cdef const weight_t* pivot
    cdef const weight_t* change
    cdef weight_t* row
    cdef weight_t factor, by
    cdef Py_ssize_t word, head, k
    # As they were before ROOT lost its place.
    for k in range(sum.root_word + 1, n + 1):
        if sum.root_word > 0:
            pivots[k * stride] = root_pivots[k]
    for word in range(n, 0, -1):
        row = <weight_t*>t.factors + word * stride
        for head in range(n + 1):
            row[head] = multiply(
                weights[word * stride + head], weight_from(values[word * width + head], of_type))
        if word < sum.root_word:
            row[0] = weight_from(0, of_type)
        poll_pivot(n - word)
        for k in range(n, word, -1):
            pivot, change = pivots + k * stride, changes + k * stride
            factor, by = factors[word * stride + k], row[k]
            for head in range(k):
                row[head] = add(
                    row[head], add(multiply(by, pivot[head]), multiply(factor, change[head])))
        change_pivot(of_type, sum, t, word, not sum.single_root or word < sum.root_word)
        if word == sum.root_word:
            # It takes the place of ROOT for the words before it, as in the elimination.
            for k in range(word + 1, n + 1):
                pivots[k * stride] = weight_from(0, of_type)
                (<weight_t*>t.root_pivots)[k] = changes[k * stride]
                changes[k * stride] = weight_from(0, of_type)


# --- backwards ---------------------------------------------------------------------------------

cdef void change_adjoints(const weight_t* of_type, TreeSum* sum, Tangents* t) noexcept nogil:
    """Find the adjoints of the weights as `partition` does, and their derivatives."""
    cdef Py_ssize_t n = sum.n, stride = sum.stride
    cdef weight_t* adjoints = <weight_t*>sum.adjoints
    cdef weight_t* changes = <weight_t*>t.adjoints
    cdef weight_t* pivots = <weight_t*>sum.pivots
    cdef weight_t* pivot_changes = <weight_t*>t.pivots
    cdef const weight_t* factors = <const weight_t*>sum.factors
    cdef const weight_t* factor_changes = <const weight_t*>t.factors
    cdef const weight_t* sums = <const weight_t*>sum.sums
    cdef const weight_t* sum_changes = <const weight_t*>t.sums
    cdef weight_t* column = <weight_t*>t.scratch
    cdef weight_t* column_change = column + stride
    cdef weight_t* pulled = column + 2 * stride
    cdef weight_t* pulled_change = column + 3 * stride
    cdef weight_t* products = column + 4 * stride
    cdef weight_t* products_change = column + 5 * stride
    cdef weight_t* more = column + 6 * stride
    cdef const weight_t* pivot
    cdef const weight_t* pivot_change
    cdef weight_t* own
    cdef weight_t* change
    cdef Py_ssize_t k, j, head
    cdef double rest, rest_change
    for k in range(1, n + 1):
        own = adjoints + k * stride
        change = changes + k * stride
        pivot = pivots + k * stride
        pivot_change = pivot_changes + k * stride
        for j in range(1, k):
            column[j] = factors[j * stride + k]
            column_change[j] = factor_changes[j * stride + k]
        poll_pivot(3 * k)
        # The products by both factors of each sum, one of which is a derivative.
        pull_back(changes, stride, k, pivot, column, more, products)
        pull_back(
            adjoints, stride, k, pivot_change, column_change, pulled_change, products_change)
        for head in range(k):
            pulled_change[head] = add(pulled_change[head], more[head])
        for j in range(1, k):
            changes[j * stride + k] = add(products_change[j], products[j])
        pull_back(adjoints, stride, k, pivot, column, pulled, products)
        rest = 1 - to_double(dot(pulled, pivot, k))
        rest_change = -to_double(
            add(dot(pulled_change, pivot, k), dot(pulled, pivot_change, k)))
        for j in range(1, k):
            adjoints[j * stride + k] = products[j]
        for head in range(k):
            if sum.single_root and head == 0 and k > sum.root_word:
                # ROOT had no part in S.
                own[0] = divide(pulled[0], sums[k])
                change[0] = pulled_change[0]
            else:
                own[head] = divide(add_signed(pulled[head], rest), sums[k])
                change[head] = add(pulled_change[head], weight_from(rest_change, of_type))
            change[head] = divide(
                subtract(change[head], multiply(own[head], sum_changes[k])), sums[k])
        own[k] = weight_from(0, of_type)
        change[k] = weight_from(0, of_type)
        if k == sum.root_word:
            for j in range(1, k):
                adjoints[j * stride] = weight_from(0, of_type)
                changes[j * stride] = weight_from(0, of_type)
            for j in range(k + 1, n + 1):
                pivots[j * stride] = (<const weight_t*>sum.root_pivots)[j]
                pivot_changes[j * stride] = (<const weight_t*>t.root_pivots)[j]


# --- a sentence --------------------------------------------------------------------------------

cdef void differentiate(
        const weight_t* of_type, double* values, Py_ssize_t width, TreeSum* sum, Tangents* t
) noexcept nogil:
    """Find the derivatives in the direction of values, and put them in their place."""
    cdef const weight_t* weights
    cdef const weight_t* adjoints
    cdef const weight_t* changes
    cdef weight_t marginal
    cdef Py_ssize_t dep, head
    make_tangents(t, sum)
    change_elimination(of_type, values, width, sum, t)
    change_adjoints(of_type, sum, t)
    for dep in range(1, sum.n + 1):
        poll_row(dep, 2 * sum.n)
        weights = <const weight_t*>sum.weights + dep * sum.stride
        adjoints = <const weight_t*>sum.adjoints + dep * sum.stride
        changes = <const weight_t*>t.adjoints + dep * sum.stride
        for head in range(sum.n + 1):
            marginal = multiply(weights[head], adjoints[head])
            values[dep * width + head] = to_double(add(
                multiply(marginal, weight_from(values[dep * width + head], of_type)),
                multiply(weights[head], changes[head])))


cdef struct DerivativeTask:
    bint single_root
    Py_ssize_t width            # N + 1
    const double* given         # directions: squares of `width`
    const double* marginals     # of the same shape, as all below
    double* out                 # the derivatives

cdef struct DerivativeState:
    bint projective
    double* square              # the scores of one sentence
    TreeSum sum
    Tangents tangents
    Tangents wide               # tangents of sum.wide
    SpanSums spans              # for projective trees, which need none of the above but the square


cdef void differentiate_sentence(
        void* state, const Batch* batch, Py_ssize_t sentence) noexcept nogil:
    """Find the derivatives of one sentence in its direction."""
    cdef DerivativeState* ws = <DerivativeState*>state
    cdef const DerivativeTask* task = <const DerivativeTask*>batch.task
    cdef Py_ssize_t n = batch.lengths[sentence], width = task.width, dep, head
    cdef Py_ssize_t start = sentence * width * width
    cdef double* out = task.out + start
    cdef int exponent = normalize(
        task.given + start, task.marginals + start, width, n, task.single_root, out)
    gather(batch, sentence, ws.square)
    if ws.projective:
        require(projective_derivatives(ws.square, n, task.single_root, out, width, &ws.spans))
    else:
        require(sum_trees(ws.square, n, task.single_root, &ws.sum))
        if ws.sum.beyond_float64:
            differentiate(<const ExtendedFloat*>NULL, out, width, ws.sum.wide, &ws.wide)
        else:
            differentiate(<const double*>NULL, out, width, &ws.sum, &ws.tangents)
    for dep in range(1, n + 1):
        for head in range(n + 1):
            out[dep * width + head] = ldexp(out[dep * width + head], exponent)


# --- the boundary ------------------------------------------------------------------------------

cdef class Differentiation(Worker):
    """The memory of one thread for sentences of up to `max_words` words."""
    cdef DerivativeState c

    def __cinit__(self, Py_ssize_t max_words, bint projective=False):
        cdef int status
        self.handle = differentiate_sentence
        self.state = &self.c
        self.c.projective = projective
        self.c.square = self.make_square(max_words)
        if projective:
            status = span_sums_init(&self.c.spans, max_words, True)
        else:
            status = tree_sum_init(&self.c.sum, max_words, False)
        check_memory(max_words, status)

    def __dealloc__(self):
        free(self.c.wide.block)
        free(self.c.tangents.block)
        tree_sum_free(&self.c.sum)
        span_sums_free(&self.c.spans)


def differentiate_batch(
        ScoreBuffer buffer not None, bint single_root, list workers not None,
        const double[:, :, ::1] given not None, const double[:, :, ::1] marginals not None,
        double[:, :, ::1] out not None):
    """Find derivatives of the marginals of all sentences, with one thread per worker.

    In the direction given[sentence, dep, head], whose values count where arcs are possible. Fills
    `out`, of the same shape, for the words of each sentence. Returns as `run_batch`, with
    BAD_SCORE where a value that counts is not finite.
    """
    cdef DerivativeTask task
    if given.shape[0] == 0:
        return Status.OK, 0
    task.single_root = single_root
    task.width = given.shape[2]
    task.given = &given[0, 0, 0]
    task.marginals = &marginals[0, 0, 0]
    task.out = &out[0, 0, 0]
    buffer.c.task = &task
    return run_batch(buffer, workers)
