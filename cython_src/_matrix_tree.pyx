"""The weight of all trees without subtraction, O(n^3), and its derivatives: the arc marginals.

The words are eliminated one after another, the last first: whoever hung from word k now hangs from
k's heads, in the proportion of their weights,

    A[j, i] += A[j, k] A[k, i] / S,    S = sum of A[k, i] over the heads i < k that remain,

and the weight of all trees is the product of the S. With exactly one root, the root arcs take part
like those from any head but are left out of S: they are the first-order term in a root weight that
vanishes. Determinant and inverse of the Laplacian (Koo et al. 2007) give the same numbers, but
subtract; where two words strongly prefer each other all digits are lost. Here nothing is ever
subtracted, and so every number is accurate relative to itself (the argument of Grassmann, Taksar &
Heyman 1985 for Markov chains).

Marginals are weights times the derivative of the log of that product, found by going through the
elimination backwards. One difference of probabilities occurs there, that of a word to be a leaf, so
marginals are accurate to rounding in absolute terms.

All this is done in float64, with a word's highest score as the unit of its weights. Where words
lose so much weight on elimination that what underflowed might have counted, it is done again in
numbers with a wide exponent.
"""
from libc.math cimport INFINITY, fabs, frexp, isfinite
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from spacy_rootmind._decode cimport (
    DECODE_BAD_SCORE,
    DECODE_LOST_DIGITS,
    DECODE_NO_MEMORY,
    DECODE_NO_TREE,
    DECODE_OK,
    DECODE_UNSETTLED,
)


cdef extern from "weights.h" nogil:
    ctypedef struct Wide:
        double part
        int64_t exponent
    ctypedef struct WeightPasses:
        double (*max_of_row)(const double*, Py_ssize_t, int*) noexcept nogil
        void (*exp_row)(double*, const double*, double, Py_ssize_t) noexcept nogil
        double (*sum_row)(const double*, Py_ssize_t) noexcept nogil
        double (*dot)(const double*, const double*, Py_ssize_t) noexcept nogil
        void (*apply_pivots)(
            double*, const double*, Py_ssize_t, Py_ssize_t, Py_ssize_t) noexcept nogil
        void (*add_scaled)(double*, const double*, double, Py_ssize_t) noexcept nogil
        void (*pull_back)(
            const double*, Py_ssize_t, Py_ssize_t, const double*, const double*, double*, double*
        ) noexcept nogil
    WeightPasses weight_passes
    int choose_weight_passes(int simd) noexcept
    double subtract_exactly(double a, double b, double* low) noexcept
    Wide wide_from(double part, int64_t exponent) noexcept
    Wide wide_multiply(Wide a, Wide b) noexcept
    Wide wide_divide(Wide a, Wide b) noexcept
    Wide wide_add(Wide a, Wide b) noexcept
    double wide_to_double(Wide a) noexcept
    double wide_log(Wide a) noexcept
    double wide_log2_above(Wide a) noexcept
    Wide wide_exp(double high, double low) noexcept
    void wide_exp_row(Wide*, const double*, double, Py_ssize_t, int*) noexcept
    Wide wide_sum_row(const Wide*, Py_ssize_t) noexcept
    Wide wide_dot(const Wide*, const Wide*, Py_ssize_t) noexcept
    void wide_add_scaled(Wide*, const Wide*, Wide, Py_ssize_t) noexcept
    void wide_apply_pivots(Wide*, const Wide*, Py_ssize_t, Py_ssize_t, Py_ssize_t) noexcept
    void wide_pull_back(
        const Wide*, Py_ssize_t, Py_ssize_t, const Wide*, const Wide*, Wide*, Wide*) noexcept

ctypedef fused weight_t:
    double
    Wide

cdef enum:
    # Words may lose this many binary digits of weight in all, of the 1022 that float64 has below 1;
    # what has underflowed then counts for less than 2^-500 of the rest.
    MAX_LOSS = 400

# And this many in wide numbers, where scores below 1e15 are those that count as forbidden.
cdef double MAX_WIDE_LOSS = 1e15
# Root scores this far above those of a word's other heads are the unit for these, too.
cdef double FAR_ABOVE = 1024
# How far from 1 the probabilities of a word's heads may add up.
cdef double TOLERANCE = 1e-9


def use_simd(bint wanted):
    """Use the processor's SIMD instructions, or the portable C; returns whether SIMD is in use.

    For tests and benchmarks. Not while another thread is at work.
    """
    return bool(choose_weight_passes(wanted))


use_simd(True)


# --- weights of either type --------------------------------------------------------------------

cdef inline weight_t weight_from(double value, const weight_t* of_type) noexcept nogil:
    if weight_t is double:
        return value
    else:
        return wide_from(value, 0)


cdef inline bint is_zero(weight_t weight) noexcept nogil:
    if weight_t is double:
        return weight == 0.0
    else:
        return weight.part == 0.0


cdef inline weight_t multiply(weight_t a, weight_t b) noexcept nogil:
    if weight_t is double:
        return a * b
    else:
        return wide_multiply(a, b)


cdef inline weight_t divide(weight_t a, weight_t b) noexcept nogil:
    if weight_t is double:
        return a / b
    else:
        return wide_divide(a, b)


cdef inline weight_t add(weight_t a, weight_t b) noexcept nogil:
    if weight_t is double:
        return a + b
    else:
        return wide_add(a, b)


cdef inline double to_double(weight_t weight) noexcept nogil:
    if weight_t is double:
        return weight
    else:
        return wide_to_double(weight)


cdef inline Wide to_wide(weight_t weight) noexcept nogil:
    if weight_t is double:
        return wide_from(weight, 0)
    else:
        return weight


cdef inline weight_t sum_row(const weight_t* row, Py_ssize_t n) noexcept nogil:
    if weight_t is double:
        return weight_passes.sum_row(row, n)
    else:
        return wide_sum_row(row, n)


cdef inline weight_t dot(const weight_t* a, const weight_t* b, Py_ssize_t n) noexcept nogil:
    if weight_t is double:
        return weight_passes.dot(a, b, n)
    else:
        return wide_dot(a, b, n)


cdef inline double binary_loss(weight_t weight) noexcept nogil:
    """How many binary digits a positive weight lies below 1; 0 if it is larger."""
    cdef int exponent
    cdef double above
    if weight_t is double:
        frexp(weight, &exponent)
        above = exponent
    else:
        above = wide_log2_above(weight)
    return -above if above < 0 else 0


# --- workspace ---------------------------------------------------------------------------------

cdef int tree_sum_init_as(TreeSum* ws, Py_ssize_t max_words, bint is_wide) noexcept nogil:
    cdef size_t item = sizeof(Wide) if is_wide else sizeof(double)
    cdef size_t stride = (<size_t>max_words + 8) & ~<size_t>3
    cdef size_t row = stride * item
    cdef size_t matrix = row * (<size_t>max_words + 1)
    cdef char* place
    memset(ws, 0, sizeof(TreeSum))
    ws.max_words = max_words
    ws.stride = stride
    ws.is_wide = is_wide
    # Zeros: vector passes read what nobody has written, to multiply it by zero.
    ws.block = calloc(4 * matrix + 5 * row + stride * sizeof(double), 1)
    if ws.block is NULL:
        return DECODE_NO_MEMORY
    place = <char*>ws.block
    ws.weights = place
    ws.pivots = place + matrix
    ws.factors = place + 2 * matrix
    ws.adjoints = place + 3 * matrix
    place += 4 * matrix
    ws.sums = place
    ws.root_pivots = place + row
    ws.scratch = place + 2 * row
    ws.highest = <double*>(place + 5 * row)
    return DECODE_OK


cdef int tree_sum_init(TreeSum* ws, Py_ssize_t max_words) noexcept nogil:
    """Allocate for sentences of up to `max_words` words: 32 n^2 + O(n) bytes.

    Three times as much once a sentence needs wide numbers. Returns DECODE_OK or DECODE_NO_MEMORY.
    """
    return tree_sum_init_as(ws, max_words, False)


cdef void tree_sum_free(TreeSum* ws) noexcept nogil:
    """Free all memory; harmless when called twice."""
    if ws.wide is not NULL:
        free(ws.wide.block)
        free(ws.wide)
    free(ws.block)
    ws.wide = NULL
    ws.block = NULL


cdef int make_wide(TreeSum* ws) noexcept nogil:
    """Have memory for sums in wide numbers; returns DECODE_OK or DECODE_NO_MEMORY."""
    if ws.wide is NULL:
        ws.wide = <TreeSum*>malloc(sizeof(TreeSum))
        if ws.wide is NULL:
            return DECODE_NO_MEMORY
        if tree_sum_init_as(ws.wide, ws.max_words, True) != DECODE_OK:
            free(ws.wide)
            ws.wide = NULL
            return DECODE_NO_MEMORY
    return DECODE_OK


# --- weights of a sentence ---------------------------------------------------------------------

cdef inline double add_exactly(double a, double b, double* low) noexcept nogil:
    """Return a + b rounded, and add to `low` what rounding took away."""
    cdef double rest
    cdef double total = subtract_exactly(a, -b, &rest)
    low[0] += rest
    return total


cdef int find_highest(
        const double* square, Py_ssize_t n, bint single_root, TreeSum* ws) noexcept nogil:
    """Find the score that a word's others are lowered by, and what that amounts to in all.

    With a single root it is the highest among words, and root scores, which meet no others in a
    sum, are lowered once more, by the highest that is left of them. But where ROOT is so far above
    that digits of the difference count, it is ROOT's. Returns a DecodeStatus.
    """
    cdef Py_ssize_t dep
    cdef int bad = 0
    cdef bint no_head = False
    cdef double highest, root, lowered, low, scale = 0
    ws.scale_low = ws.root_shift_low = 0
    ws.root_shift = -INFINITY if single_root else 0
    for dep in range(1, n + 1):
        root = square[dep * (n + 1)]
        highest = weight_passes.max_of_row(
            square + dep * (n + 1) + single_root, n + 1 - single_root, &bad)
        if single_root:
            bad |= not root < INFINITY
            if root - highest > FAR_ABOVE or highest == -INFINITY:
                highest = root
            if root > -INFINITY:
                lowered = subtract_exactly(root, highest, &low)
                if lowered > ws.root_shift or (
                        lowered == ws.root_shift and low > ws.root_shift_low):
                    ws.root_shift = lowered
                    ws.root_shift_low = low
        no_head |= highest == -INFINITY
        ws.highest[dep] = highest
        scale = add_exactly(scale, highest, &ws.scale_low)
    if bad:
        return DECODE_BAD_SCORE
    if no_head or ws.root_shift == -INFINITY:
        return DECODE_NO_TREE
    ws.scale_high = add_exactly(scale, ws.root_shift, &ws.scale_low)
    ws.scale_low += ws.root_shift_low
    return DECODE_OK if isfinite(ws.scale_high) and isfinite(ws.scale_low) else DECODE_LOST_DIGITS


cdef inline void exp_row(
        weight_t* out, const double* scores, double shift, Py_ssize_t n, int* dropped
) noexcept nogil:
    if weight_t is double:
        weight_passes.exp_row(out, scores, shift, n)
    else:
        wide_exp_row(out, scores, shift, n, dropped)


cdef double lower_root_score(
        const double* square, Py_ssize_t dep, const TreeSum* ws, double* low) noexcept nogil:
    """What is left of the root score of a word, at most 0, with what its rounding took away."""
    cdef double rest
    cdef double lowered = subtract_exactly(square[dep * (ws.n + 1)], ws.highest[dep], low)
    if lowered == -INFINITY:
        low[0] = 0
        return lowered
    lowered = subtract_exactly(lowered, ws.root_shift, &rest)
    low[0] += rest - ws.root_shift_low
    rest = 0
    lowered = add_exactly(lowered, low[0], &rest)
    low[0] = rest
    return min(lowered, 0.0)


cdef void weigh_root_arcs(
        const double* square, const weight_t* of_type, TreeSum* ws) noexcept nogil:
    """Fill column 0 for a single root: exp(score - highest - root_shift)."""
    cdef Py_ssize_t n = ws.n
    cdef Py_ssize_t dep
    cdef double* lowered = <double*>ws.scratch
    cdef weight_t* column = <weight_t*>ws.scratch + ws.stride
    cdef weight_t* weights = <weight_t*>ws.weights
    cdef double low = 0
    cdef int dropped = 0
    for dep in range(1, n + 1):
        lowered[dep] = lower_root_score(square, dep, ws, &low)
    exp_row(column, lowered + 1, 0, n, &dropped)
    for dep in range(1, n + 1):
        weights[dep * ws.stride] = column[dep - 1]
        if not is_zero(column[dep - 1]):
            lower_root_score(square, dep, ws, &low)
            weights[dep * ws.stride] = multiply(column[dep - 1], weight_from(1 + low, of_type))
    ws.dropped |= dropped


cdef void weigh_as(const double* square, const weight_t* of_type, TreeSum* ws) noexcept nogil:
    cdef Py_ssize_t n = ws.n
    cdef Py_ssize_t dep
    cdef int dropped = 0
    cdef weight_t* weights = <weight_t*>ws.weights
    for dep in range(1, n + 1):
        exp_row(
            weights + dep * ws.stride + ws.single_root,
            square + dep * (n + 1) + ws.single_root, ws.highest[dep], n + 1 - ws.single_root,
            &dropped)
    ws.dropped = dropped
    if ws.single_root:
        weigh_root_arcs(square, of_type, ws)


cdef int weigh_arcs(
        const double* square, Py_ssize_t n, bint single_root, TreeSum* ws) noexcept nogil:
    """Fill the weights of all arcs: scores, lowered to at most 0, exponentiated. O(n^2).

    Returns DECODE_OK, DECODE_BAD_SCORE, DECODE_NO_TREE or DECODE_LOST_DIGITS.
    """
    cdef int status
    ws.n = n
    ws.single_root = single_root
    status = find_highest(square, n, single_root, ws)
    if status != DECODE_OK:
        return status
    if ws.is_wide:
        weigh_as(square, <const Wide*>NULL, ws)
    else:
        weigh_as(square, <const double*>NULL, ws)
    return DECODE_OK


# --- elimination -------------------------------------------------------------------------------

cdef inline void apply_pivots(
        weight_t* row, const weight_t* pivots, Py_ssize_t stride, Py_ssize_t last,
        Py_ssize_t first) noexcept nogil:
    if weight_t is double:
        weight_passes.apply_pivots(row, pivots, stride, last, first)
    else:
        wide_apply_pivots(row, pivots, stride, last, first)


cdef void take_from_root(
        weight_t* pivots, weight_t* root_pivots, Py_ssize_t stride, Py_ssize_t word, Py_ssize_t n
) noexcept nogil:
    """Let `word` be the one that hangs from ROOT, and for the words before it be ROOT itself."""
    cdef const weight_t* of_type = NULL
    cdef Py_ssize_t k, head
    for k in range(word + 1, n + 1):
        root_pivots[k] = pivots[k * stride]
        pivots[k * stride] = weight_from(0, of_type)
    for head in range(stride):
        pivots[word * stride + head] = weight_from(0, of_type)
    pivots[word * stride] = weight_from(1, of_type)


cdef int eliminate(
        const weight_t* weights, weight_t* pivots, weight_t* factors, Py_ssize_t factors_stride,
        weight_t* sums, weight_t* root_pivots, Py_ssize_t stride, Py_ssize_t n, Py_ssize_t first,
        bint single_root, Py_ssize_t* turn) noexcept nogil:
    cdef const weight_t* of_type = NULL
    cdef weight_t* row
    cdef weight_t* pivot
    cdef weight_t total
    cdef Py_ssize_t word, head
    cdef double loss = 0
    # Whether ROOT counts among the heads that remain.
    cdef bint has_root = not single_root
    turn[0] = 0
    for word in range(n, first - 1, -1):
        row = factors + word * factors_stride
        pivot = pivots + word * stride
        memcpy(row, weights + word * stride, (n + 1) * sizeof(weight_t))
        if turn[0] > 0:
            row[0] = weight_from(0, of_type)
        apply_pivots(row, pivots, stride, n, word + 1)
        total = sum_row(row + (not has_root), word - (not has_root))
        if is_zero(total):
            # No word is left that this one could hang from: it is the one below ROOT.
            total = row[0]
            if has_root or is_zero(total):
                return DECODE_NO_TREE
            has_root = True
            turn[0] = word
            take_from_root(pivots, root_pivots, stride, word, n)
        else:
            for head in range(word):
                pivot[head] = divide(row[head], total)
            for head in range(word, min(word + 4, stride)):
                pivot[head] = weight_from(0, of_type)
        sums[word] = total
        loss += binary_loss(total)
    if weight_t is double:
        return DECODE_OK if loss <= MAX_LOSS else DECODE_UNSETTLED
    else:
        return DECODE_OK if loss <= MAX_WIDE_LOSS else DECODE_LOST_DIGITS


cdef int eliminate_words(
        const void* weights, void* pivots, void* factors, Py_ssize_t factors_stride, void* sums,
        void* root_pivots, Py_ssize_t stride, Py_ssize_t n, Py_ssize_t first, bint single_root,
        bint is_wide, Py_ssize_t* turn) noexcept nogil:
    """Eliminate words n, n - 1, ..., first of n words; n^3 / 3 multiplications for all.

    With `factors_stride` 0, `factors` is one row of scratch. Where a word has no other word left to
    hang from, with a single root, it must be the one that hangs from ROOT, after those eliminated
    before it: it becomes `turn`, which is 0 for none, and is ROOT to the words that remain. For the
    first word of all that is always so. Returns DECODE_OK; DECODE_NO_TREE; DECODE_LOST_DIGITS; or
    DECODE_UNSETTLED where float64 does not do, as may be where it finds no tree, too.
    """
    if is_wide:
        return eliminate(
            <const Wide*>weights, <Wide*>pivots, <Wide*>factors, factors_stride, <Wide*>sums,
            <Wide*>root_pivots, stride, n, first, single_root, turn)
    return eliminate(
        <const double*>weights, <double*>pivots, <double*>factors, factors_stride, <double*>sums,
        <double*>root_pivots, stride, n, first, single_root, turn)


# --- log partition -----------------------------------------------------------------------------

cdef double log_product(const weight_t* sums, Py_ssize_t n) noexcept nogil:
    """The log of the product of sums[1..n]."""
    cdef Wide product = wide_from(1, 0)
    cdef Py_ssize_t word
    for word in range(1, n + 1):
        product = wide_multiply(product, to_wide(sums[word]))
    return wide_log(product)


cdef int eliminate_all(TreeSum* ws) noexcept nogil:
    """Eliminate all words, whatever their weights are; see `eliminate_words`."""
    return eliminate_words(
        ws.weights, ws.pivots, ws.factors, ws.stride, ws.sums, ws.root_pivots, ws.stride, ws.n, 1,
        ws.single_root, ws.is_wide, &ws.turn)


cdef int sum_trees_as_is(
        const double* square, Py_ssize_t n, bint single_root, TreeSum* ws) noexcept nogil:
    cdef int status = weigh_arcs(square, n, single_root, ws)
    if status == DECODE_OK:
        status = eliminate_all(ws)
    else:
        return status
    if status == DECODE_NO_TREE:
        # What was too low to count may have been all there is.
        if not ws.is_wide:
            return DECODE_UNSETTLED
        if ws.dropped:
            return DECODE_LOST_DIGITS
    if status == DECODE_OK:
        ws.log_mass = (
            log_product(<const Wide*>ws.sums, n) if ws.is_wide
            else log_product(<const double*>ws.sums, n))
    return status


cdef int sum_trees(
        const double* square, Py_ssize_t n, bint single_root, TreeSum* ws) noexcept nogil:
    """Sum the weights of all trees of a sentence. O(n^3) time.

    Returns DECODE_OK, DECODE_BAD_SCORE, DECODE_NO_TREE, DECODE_NO_MEMORY, or DECODE_LOST_DIGITS
    where sums of scores overflow, or trees need arcs too far below the others.
    """
    cdef int status
    if n == 0:
        ws.n = 0
        ws.beyond_float64 = False
        return DECODE_OK
    status = sum_trees_as_is(square, n, single_root, ws)
    ws.beyond_float64 = status == DECODE_UNSETTLED
    return sum_trees_wide(square, ws) if ws.beyond_float64 else status


cdef int sum_trees_wide(const double* square, TreeSum* ws) noexcept nogil:
    """Sum again over the trees of the same sentence, in wide numbers; as `sum_trees`."""
    cdef int status = make_wide(ws)
    ws.beyond_float64 = True
    if status != DECODE_OK:
        return status
    status = sum_trees_as_is(square, ws.n, ws.single_root, ws.wide)
    ws.log_mass = ws.wide.log_mass
    return status


cdef int find_wide_weights(const double* square, TreeSum* ws) noexcept nogil:
    """Have the weights of the sentence last summed over in `ws.wide.weights`, too. O(n^2).

    Returns DECODE_OK or DECODE_NO_MEMORY.
    """
    cdef int status
    if ws.beyond_float64:
        return DECODE_OK
    status = make_wide(ws)
    return weigh_arcs(square, ws.n, ws.single_root, ws.wide) if status == DECODE_OK else status


cdef double log_partition(const TreeSum* ws) noexcept nogil:
    """The log of the sum over trees of the exponential of their score."""
    return ws.scale_high + (ws.scale_low + ws.log_mass) if ws.n > 0 else 0.0


cdef double log_probability(
        const double* square, const int32_t* heads, const TreeSum* ws) noexcept nogil:
    """The log probability of a tree, to rounding of the differences between a word's scores."""
    cdef Py_ssize_t dep
    cdef double low = 0, rest
    cdef double total = 0, difference
    if ws.n == 0:
        return 0.0
    for dep in range(1, ws.n + 1):
        difference = subtract_exactly(
            square[dep * (ws.n + 1) + heads[dep]], ws.highest[dep], &rest)
        total = add_exactly(total, difference, &low)
        low += rest
    total = add_exactly(total, -ws.root_shift, &low)
    low -= ws.root_shift_low
    total = add_exactly(total, -ws.log_mass, &low)
    return min(total + low, 0.0)


# --- marginals ---------------------------------------------------------------------------------

cdef inline void pull_back(
        const weight_t* matrix, Py_ssize_t stride, Py_ssize_t k, const weight_t* pivot,
        const weight_t* factors, weight_t* sums, weight_t* products) noexcept nogil:
    if weight_t is double:
        weight_passes.pull_back(matrix, stride, k, pivot, factors, sums, products)
    else:
        wide_pull_back(matrix, stride, k, pivot, factors, sums, products)


cdef inline weight_t add_signed(weight_t weight, double other) noexcept nogil:
    """weight + other, but not below 0."""
    cdef Wide negative
    cdef double ratio
    if weight_t is double:
        return max(weight + other, 0.0)
    else:
        if other >= 0:
            return wide_add(weight, wide_from(other, 0))
        negative = wide_from(-other, 0)
        if weight.part == 0.0:
            return weight
        ratio = wide_to_double(wide_divide(negative, weight))
        return wide_multiply(weight, wide_from(max(1 - ratio, 0.0), 0))


cdef void differentiate(const weight_t* of_type, TreeSum* ws) noexcept nogil:
    """Fill `adjoints`, going through the elimination backwards. 2 n^3 / 3 multiplications.

    Un-eliminating k, from A' = A + A[:, k] A[k, :] / S: an adjoint of what remained is one of what
    was there before, and those of row and column k are sums of products of these.
    """
    cdef Py_ssize_t n = ws.n, stride = ws.stride
    cdef weight_t* adjoints = <weight_t*>ws.adjoints
    cdef weight_t* pivots = <weight_t*>ws.pivots
    cdef const weight_t* factors = <const weight_t*>ws.factors
    cdef const weight_t* sums = <const weight_t*>ws.sums
    cdef const weight_t* root_pivots = <const weight_t*>ws.root_pivots
    cdef weight_t* column = <weight_t*>ws.scratch
    cdef weight_t* pulled = <weight_t*>ws.scratch + stride
    cdef weight_t* products = <weight_t*>ws.scratch + 2 * stride
    cdef weight_t* own
    cdef Py_ssize_t k, j, head
    cdef double rest
    for k in range(1, n + 1):
        own = adjoints + k * stride
        for j in range(1, k):
            column[j] = factors[j * stride + k]
        pull_back(adjoints, stride, k, pivots + k * stride, column, pulled, products)
        for j in range(1, k):
            adjoints[j * stride + k] = products[j]
        # The derivative of log S itself; of the reduced arcs by S.
        rest = 1 - to_double(dot(pulled, pivots + k * stride, k))
        for head in range(k):
            own[head] = divide(add_signed(pulled[head], rest), sums[k])
        own[k] = weight_from(0, of_type)
        if ws.single_root and k > ws.turn:
            # ROOT had no part in S.
            own[0] = divide(pulled[0], sums[k])
        if k == ws.turn:
            for j in range(1, k):
                adjoints[j * stride] = weight_from(0, of_type)
            for j in range(k + 1, n + 1):
                pivots[j * stride] = root_pivots[j]


cdef bint multiply_by_weights(
        const weight_t* of_type, double* marginals, Py_ssize_t width, const TreeSum* ws
) noexcept nogil:
    """marginals = weights times adjoints; returns whether those of each word add up to 1."""
    cdef Py_ssize_t dep, head
    cdef const weight_t* weights
    cdef const weight_t* adjoints
    cdef double* row
    cdef double total
    cdef bint sound = True
    for dep in range(1, ws.n + 1):
        weights = <const weight_t*>ws.weights + dep * ws.stride
        adjoints = <const weight_t*>ws.adjoints + dep * ws.stride
        row = marginals + dep * width
        total = 0
        for head in range(ws.n + 1):
            row[head] = min(to_double(multiply(weights[head], adjoints[head])), 1.0)
            total += row[head]
        sound &= fabs(total - 1) < TOLERANCE
    return sound


cdef bint arc_marginals_as_is(
        double* marginals, Py_ssize_t width, TreeSum* ws) noexcept nogil:
    if ws.is_wide:
        differentiate(<const Wide*>NULL, ws)
        return multiply_by_weights(<const Wide*>NULL, marginals, width, ws)
    differentiate(<const double*>NULL, ws)
    return multiply_by_weights(<const double*>NULL, marginals, width, ws)


cdef int arc_marginals(
        const double* square, double* marginals, Py_ssize_t width, TreeSum* ws) noexcept nogil:
    """Fill marginals[dep * width + head] for the words of the sentence last summed over.

    Returns DECODE_OK, DECODE_NO_MEMORY or DECODE_LOST_DIGITS. Destroys what sum_trees left for it:
    to be called once.
    """
    cdef int status
    if ws.n == 0:
        return DECODE_OK
    if not ws.beyond_float64:
        if arc_marginals_as_is(marginals, width, ws):
            return DECODE_OK
        # Derivatives overflowed, and must not meet the zeros of a later sentence.
        memset(ws.adjoints, 0, (ws.max_words + 1) * ws.stride * sizeof(double))
        status = sum_trees_wide(square, ws)
        if status != DECODE_OK:
            return status
    return DECODE_OK if arc_marginals_as_is(marginals, width, ws.wide) else DECODE_LOST_DIGITS


cdef double tree_entropy(
        const double* square, const double* marginals, Py_ssize_t width, const TreeSum* ws
) noexcept nogil:
    """The entropy of the distribution over trees, in nats, given its marginals. O(n^2).

    Scores are taken as lowered, which cancels where a word, or ROOT, is sure of its arc.
    """
    cdef Py_ssize_t dep, head
    cdef double entropy = ws.log_mass, low = 0, marginal, lowered, rest
    if ws.n == 0:
        return 0.0
    for dep in range(1, ws.n + 1):
        for head in range(ws.n + 1):
            marginal = marginals[dep * width + head]
            if marginal > 0:
                if head == 0 and ws.single_root:
                    lowered = lower_root_score(square, dep, ws, &rest)
                else:
                    lowered = square[dep * (ws.n + 1) + head] - ws.highest[dep]
                entropy = add_exactly(entropy, -marginal * lowered, &low)
    # Rounding may take it below.
    return max(entropy + low, 0.0)


# --- root tokens -------------------------------------------------------------------------------

cdef bint root_shares_as(
        const weight_t* of_type, double* shares, TreeSum* ws) noexcept nogil:
    """The share of a word is its root weight times the weight of the trees below it.

    The latter is the stationary distribution of the chain that walks from dependents to heads, by
    the Markov chain tree theorem; Grassmann, Taksar & Heyman find it by substitution.
    """
    cdef Py_ssize_t n = ws.n, stride = ws.stride
    cdef const weight_t* weights = <const weight_t*>ws.weights
    cdef const weight_t* factors = <const weight_t*>ws.factors
    cdef const weight_t* sums = <const weight_t*>ws.sums
    cdef weight_t* below = <weight_t*>ws.scratch
    cdef weight_t total = weight_from(0, of_type)
    cdef weight_t factor
    cdef Py_ssize_t word, k
    for word in range(1, n + 1):
        below[word] = weight_from(0, of_type)
        shares[word] = 0
    for word in range(ws.turn, n + 1):
        below[word] = (
            weight_from(1, of_type) if word == ws.turn else divide(below[word], sums[word]))
        factor = below[word]
        for k in range(word + 1, n + 1):
            below[k] = add(below[k], multiply(factor, factors[word * stride + k]))
    for word in range(ws.turn, n + 1):
        below[word] = multiply(below[word], weights[word * stride])
        total = add(total, below[word])
    if is_zero(total):
        return False
    for word in range(ws.turn, n + 1):
        shares[word] = to_double(divide(below[word], total))
        if not isfinite(shares[word]):
            return False
    return True


cdef int root_shares(const double* square, double* shares, TreeSum* ws) noexcept nogil:
    """Fill shares[1..n] with the probability of each word to be the root token. O(n^2).

    Returns DECODE_OK, DECODE_NO_MEMORY or DECODE_LOST_DIGITS.
    """
    cdef int status
    if not ws.beyond_float64:
        if root_shares_as(<const double*>NULL, shares, ws):
            return DECODE_OK
        status = sum_trees_wide(square, ws)
        if status != DECODE_OK:
            return status
    return (
        DECODE_OK if root_shares_as(<const Wide*>NULL, shares, ws.wide) else DECODE_LOST_DIGITS)
