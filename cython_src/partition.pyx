"""Sums over all trees of a sentence, and their derivatives, the arc marginals, in O(n^3).

The weight of all trees comes from eliminating the words (see `elimination`). Determinant and
inverse of the Laplacian (Koo et al. 2007) give the same numbers, but with subtractions: where two
words strongly prefer each other all digits are lost.

Marginals are weights times the derivatives of the log of that sum, found by going through the
elimination backwards. One difference of probabilities occurs there, so their absolute error is that
of rounding.
"""
from libc.math cimport INFINITY, fabs, isfinite
from libc.stdint cimport int32_t
from libc.string cimport memset

from spacy_rootmind.kernel.decode cimport (
    DECODE_LOST_DIGITS,
    DECODE_NO_TREE,
    DECODE_OK,
    DECODE_UNSETTLED,
)
from spacy_rootmind.kernel.elimination cimport (
    eliminate_all,
    lower_root_score,
    make_wide,
    weigh_arcs,
)
from spacy_rootmind.kernel.interrupt cimport poll_pivot, poll_row
from weights cimport (
    ExtendedFloat,
    add,
    add_exactly,
    add_signed,
    divide,
    dot,
    is_zero,
    multiply,
    multiply_rows,
    pull_back,
    subtract_exactly,
    to_double,
    to_wide,
    weight_from,
    weight_t,
    wide_from,
    wide_log,
    wide_multiply,
)

# How far from 1 the sum of the probabilities of a word's heads may be.
cdef double TOLERANCE = 1e-9
# With scores times this, no difference of scores and no sum of n of them overflows.
cdef double NO_OVERFLOW = 2.0**-64


# --- log partition -----------------------------------------------------------------------------

cdef double log_product(const weight_t* sums, Py_ssize_t n, double* low) noexcept nogil:
    """The log of the product of sums[1..n], as the sum of the result and `low`."""
    cdef ExtendedFloat product = wide_from(1, 0)
    cdef Py_ssize_t word
    for word in range(1, n + 1):
        product = wide_multiply(product, to_wide(sums[word]))
    return wide_log(product, low)


cdef int sum_trees_as_is(
        const double* square, Py_ssize_t n, bint single_root, TreeSum* ws) noexcept nogil:
    cdef int status = weigh_arcs(square, n, single_root, ws)
    if status == DECODE_OK:
        status = eliminate_all(ws)
    else:
        return status
    if status == DECODE_NO_TREE:
        # Weights that underflowed may have been the weights of all trees.
        if not ws.is_wide:
            return DECODE_UNSETTLED
        if ws.dropped:
            return DECODE_LOST_DIGITS
    if status == DECODE_OK:
        ws.log_mass = (
            log_product(<const ExtendedFloat*>ws.sums, n, &ws.log_mass_low) if ws.is_wide
            else log_product(<const double*>ws.sums, n, &ws.log_mass_low))
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
    ws.log_mass_low = ws.wide.log_mass_low
    return status


cdef double log_partition(const TreeSum* ws) noexcept nogil:
    """The log of the sum over trees of the exponential of their score."""
    cdef double low, total
    if ws.n == 0:
        return 0.0
    low = ws.scale_low + ws.log_mass_low
    total = add_exactly(ws.scale_high, ws.log_mass, &low)
    return total + low


cdef inline double scaled_log_probability(
        const double* square, const int32_t* heads, const TreeSum* ws, double scale
) noexcept nogil:
    """The log probability of a tree times a power of two, to rounding of the differences."""
    cdef Py_ssize_t dep
    cdef double low = 0, rest
    cdef double total = 0, difference
    for dep in range(1, ws.n + 1):
        difference = subtract_exactly(
            scale * square[dep * (ws.n + 1) + heads[dep]], scale * ws.highest[dep], &rest)
        total = add_exactly(total, difference, &low)
        low += rest
    total = add_exactly(total, -scale * ws.root_shift, &low)
    low -= scale * ws.root_shift_low
    total = add_exactly(total, -scale * ws.log_mass, &low)
    low -= scale * ws.log_mass_low
    return total + low


cdef double log_probability(
        const double* square, const int32_t* heads, const TreeSum* ws) noexcept nogil:
    """The log probability of a tree; see the declaration."""
    cdef double found
    if ws.n == 0:
        return 0.0
    found = scaled_log_probability(square, heads, ws, 1)
    if not isfinite(found):
        # Some difference or sum overflows, which need not be so of the whole.
        found = scaled_log_probability(square, heads, ws, NO_OVERFLOW) / NO_OVERFLOW
    return min(found, 0.0)


# --- marginals ---------------------------------------------------------------------------------

cdef void differentiate(const weight_t* of_type, TreeSum* ws) noexcept nogil:
    """Fill `adjoints`, going through the elimination backwards. 2 n^3 / 3 multiplications.

    Un-eliminating k, from A' = A + A[:, k] A[k, :] / S: an adjoint of what remained is one of what
    was there before, and adjoints of row and column k are sums of products of these.
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
        poll_pivot(k)
        pull_back(adjoints, stride, k, pivots + k * stride, column, pulled, products)
        for j in range(1, k):
            adjoints[j * stride + k] = products[j]
        # The derivative of log S itself; of the reduced arcs by S.
        rest = 1 - to_double(dot(pulled, pivots + k * stride, k))
        for head in range(k):
            own[head] = divide(add_signed(pulled[head], rest), sums[k])
        own[k] = weight_from(0, of_type)
        if ws.single_root and k > ws.root_word:
            # ROOT had no part in S.
            own[0] = divide(pulled[0], sums[k])
        if k == ws.root_word:
            for j in range(1, k):
                adjoints[j * stride] = weight_from(0, of_type)
            for j in range(k + 1, n + 1):
                pivots[j * stride] = root_pivots[j]


cdef bint multiply_by_weights(
        const weight_t* of_type, double* marginals, Py_ssize_t width, const TreeSum* ws
) noexcept nogil:
    """marginals = weights times adjoints; returns whether each word's marginals add up to 1."""
    cdef Py_ssize_t dep
    cdef const weight_t* weights
    cdef const weight_t* adjoints
    cdef double total
    cdef bint sound = True
    for dep in range(1, ws.n + 1):
        poll_row(dep, ws.n)
        weights = <const weight_t*>ws.weights + dep * ws.stride
        adjoints = <const weight_t*>ws.adjoints + dep * ws.stride
        total = multiply_rows(marginals + dep * width, weights, adjoints, ws.n + 1)
        sound &= fabs(total - 1) < TOLERANCE
    return sound


cdef bint arc_marginals_as_is(
        double* marginals, Py_ssize_t width, TreeSum* ws) noexcept nogil:
    if ws.is_wide:
        differentiate(<const ExtendedFloat*>NULL, ws)
        return multiply_by_weights(<const ExtendedFloat*>NULL, marginals, width, ws)
    differentiate(<const double*>NULL, ws)
    return multiply_by_weights(<const double*>NULL, marginals, width, ws)


cdef int arc_marginals(
        const double* square, double* marginals, Py_ssize_t width, TreeSum* ws) noexcept nogil:
    """Fill marginals[dep * width + head] for the words of the sentence last summed over.

    Returns DECODE_OK, DECODE_NO_MEMORY or DECODE_LOST_DIGITS. Overwrites what `sum_trees` left:
    call it once per sum.
    """
    cdef int status
    if ws.n == 0:
        return DECODE_OK
    if not ws.beyond_float64:
        if arc_marginals_as_is(marginals, width, ws):
            return DECODE_OK
        # Derivatives overflowed, and must not be multiplied by the zeros of a later sentence.
        memset(ws.adjoints, 0, (ws.max_words + 1) * ws.stride * sizeof(double))
        status = sum_trees_wide(square, ws)
        if status != DECODE_OK:
            return status
    return DECODE_OK if arc_marginals_as_is(marginals, width, ws.wide) else DECODE_LOST_DIGITS


cdef inline double lower_score(
        const double* square, Py_ssize_t dep, Py_ssize_t head, const TreeSum* ws, double scale
) noexcept nogil:
    """The score of an arc as lowered, at most 0, times a power of two."""
    cdef double rest
    if scale == 1 and head == 0 and ws.single_root:
        return lower_root_score(square, dep, ws, &rest)
    rest = ws.root_shift if head == 0 else 0
    return (
        scale * square[dep * (ws.n + 1) + head] - scale * ws.highest[dep] - scale * rest)


cdef inline double scaled_cross_entropy(
        const double* square, const double* marginals, Py_ssize_t width, const TreeSum* ws,
        double scale, double* low) noexcept nogil:
    """`cross_entropy` times a power of two."""
    cdef Py_ssize_t dep, head
    cdef double entropy = scale * ws.log_mass, rests = scale * ws.log_mass_low, marginal
    for dep in range(1, ws.n + 1):
        poll_row(dep, 4 * ws.n)
        for head in range(ws.n + 1):
            marginal = marginals[dep * width + head]
            if marginal > 0 and square[dep * (ws.n + 1) + head] > -INFINITY:
                entropy = add_exactly(
                    entropy, -marginal * lower_score(square, dep, head, ws, scale), &rests)
    low[0] = rests
    return entropy


cdef double cross_entropy(
        const double* square, const double* marginals, Py_ssize_t width, const TreeSum* ws,
        double* low) noexcept nogil:
    """The mean of minus the log probability of trees with these marginals; see the declaration.

    Scores are taken as lowered, which cancels where a word, or ROOT, prefers one arc by far.
    """
    cdef double entropy
    low[0] = 0
    if ws.n == 0:
        return 0.0
    entropy = scaled_cross_entropy(square, marginals, width, ws, 1, low)
    if not isfinite(entropy + low[0]):
        # Some difference or sum overflows, which need not be so of the mean.
        entropy = scaled_cross_entropy(square, marginals, width, ws, NO_OVERFLOW, low)
        entropy /= NO_OVERFLOW
        low[0] /= NO_OVERFLOW
    return entropy


cdef double tree_entropy(
        const double* square, const double* marginals, Py_ssize_t width, const TreeSum* ws
) noexcept nogil:
    """The entropy of the distribution over trees, in nats, given its marginals. O(n^2)."""
    cdef double low
    cdef double entropy = cross_entropy(square, marginals, width, ws, &low)
    # Rounding may take it below.
    return max(entropy + low, 0.0)


cdef inline double scaled_log_ratio(
        const TreeSum* part, const TreeSum* whole, double scale) noexcept nogil:
    """`log_ratio` times a power of two, to rounding of the differences."""
    cdef Py_ssize_t dep
    cdef double total = 0, low = 0, difference, rest
    for dep in range(1, part.n + 1):
        difference = subtract_exactly(
            scale * part.highest[dep], scale * whole.highest[dep], &rest)
        total = add_exactly(total, difference, &low)
        low += rest
    total = add_exactly(total, scale * part.root_shift, &low)
    total = add_exactly(total, -scale * whole.root_shift, &low)
    low += scale * part.root_shift_low - scale * whole.root_shift_low
    total = add_exactly(total, scale * part.log_mass, &low)
    total = add_exactly(total, -scale * whole.log_mass, &low)
    low += scale * part.log_mass_low - scale * whole.log_mass_low
    return total + low


cdef double log_ratio(const TreeSum* part, const TreeSum* whole) noexcept nogil:
    """The log of the share that one sum's trees have among another's; see the declaration.

    The scores' units in both sums are subtracted word by word, so that no digits are lost.
    """
    cdef double found
    if part.n == 0:
        return 0.0
    found = scaled_log_ratio(part, whole, 1)
    if not isfinite(found):
        # Some difference or sum overflows, which need not be so of the whole.
        found = scaled_log_ratio(part, whole, NO_OVERFLOW) / NO_OVERFLOW
    return min(found, 0.0)


# --- root tokens -------------------------------------------------------------------------------

cdef bint root_shares_as(
        const weight_t* of_type, double* shares, TreeSum* ws) noexcept nogil:
    """The share of a word is its root weight times the weight of the trees below it.

    By the Markov chain tree theorem, the latter is the stationary distribution of the chain that
    walks from dependents to heads; Grassmann, Taksar & Heyman find it by substitution.
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
    for word in range(ws.root_word, n + 1):
        poll_row(word, n)
        below[word] = (
            weight_from(1, of_type) if word == ws.root_word else divide(below[word], sums[word]))
        factor = below[word]
        for k in range(word + 1, n + 1):
            below[k] = add(below[k], multiply(factor, factors[word * stride + k]))
    for word in range(ws.root_word, n + 1):
        below[word] = multiply(below[word], weights[word * stride])
        total = add(total, below[word])
    if is_zero(total):
        return False
    for word in range(ws.root_word, n + 1):
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
        DECODE_OK if root_shares_as(<const ExtendedFloat*>NULL, shares, ws.wide)
        else DECODE_LOST_DIGITS)
