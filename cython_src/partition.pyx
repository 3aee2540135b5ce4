"""Sums over all trees of a sentence, and their derivatives, the arc marginals, in O(n^3).

The weight of all trees comes from eliminating the words, the last one first: the dependents of
word k become dependents of k's heads, in proportion to their weights,

    A[j, i] += A[j, k] A[k, i] / S,    S = sum of A[k, i] over the heads i < k that remain,

and the weight of all trees is the product of the S. With exactly one root, the root arcs take part
like those from any head but are left out of S: they are the first-order term in a root weight that
vanishes. Nothing is ever subtracted, so every number is accurate relative to itself (the argument
of Grassmann, Taksar & Heyman 1985 for Markov chains).

Weights are float64 numbers, with a word's highest score as their unit, or else numbers with a wide
exponent. Float64 suffices unless words lose so much weight in elimination that what underflowed
might have counted, or that derivatives overflow: both show in the S.

Determinant and inverse of the Laplacian (Koo et al. 2007) give the same numbers, but with
subtractions: where two words strongly prefer each other all digits are lost. Marginals are weights
times the derivatives of the log of the sum, found by going through the elimination backwards. One
difference of probabilities occurs there, so their absolute error is a rounding error.
"""
from libc.math cimport INFINITY, exp, isfinite
from libc.stddef cimport size_t
from libc.stdint cimport int32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from spacy_rootmind.kernel.interrupt cimport give_up, poll_pivot, poll_row
from spacy_rootmind.kernel.room cimport Layout, add_array, allocate
from spacy_rootmind.kernel.simd cimport weight_passes
from spacy_rootmind.kernel.status cimport Status
from weights cimport (
    ExtendedFloat,
    add,
    add_exactly,
    add_signed,
    apply_pivots,
    divide,
    divide_row,
    dot,
    exp_row,
    is_zero,
    larger,
    multiply,
    multiply_rows,
    pull_back,
    subtract_exactly,
    sum_row,
    to_double,
    to_wide,
    weight_from,
    weight_t,
    wide_from,
    wide_log,
    wide_log2_above,
    wide_multiply,
)

# The share of their weight that all words together have to keep for float64, which begins at
# 2^-1022. The weight of all trees is at least this share, up to a factor of n^2, of what it is with
# any one arc in its word's unit. So derivatives of its log do not overflow, and arcs whose weight
# underflows have probabilities below n^2 2^-621.
cdef double LEAST_KEPT = 2.0**-400
# And in wide numbers they may lose this many binary digits: scores below 1e15 are those that count
# as forbidden.
cdef double MAX_WIDE_LOSS = 1e15
# Root scores this far above the scores of a word's other heads are the unit for these, too.
cdef double FAR_ABOVE = 1024
# With scores times this, no difference of scores and no sum of n of them overflows.
cdef double NO_OVERFLOW = 2.0**-64


# --- workspace ---------------------------------------------------------------------------------

cdef int tree_sum_init(TreeSum* ws, Py_ssize_t max_words, bint is_wide) noexcept nogil:
    """Allocate for sentences of up to `max_words` words: 32 n^2 + O(n) bytes, or 64 n^2 if wide.

    Returns Status.OK or Status.NO_MEMORY. Wide numbers are added once a sentence needs them.
    """
    cdef size_t item = sizeof(ExtendedFloat) if is_wide else sizeof(double)
    cdef size_t stride = (<size_t>max_words + 8) & ~<size_t>3
    cdef size_t matrix = stride * (<size_t>max_words + 1)
    cdef Layout layout
    memset(ws, 0, sizeof(TreeSum))
    ws.max_words = max_words
    ws.stride = stride
    ws.is_wide = is_wide
    layout.n_arrays = layout.size = 0
    add_array(&layout, &ws.weights, matrix, item)
    add_array(&layout, &ws.pivots, matrix, item)
    add_array(&layout, &ws.factors, matrix, item)
    add_array(&layout, &ws.adjoints, matrix, item)
    add_array(&layout, &ws.sums, stride, item)
    add_array(&layout, &ws.root_pivots, stride, item)
    add_array(&layout, &ws.scratch, 3 * stride, item)
    add_array(&layout, <void**>&ws.highest, stride, sizeof(double))
    # Zeros: vector passes read what nobody has written, to multiply it by zero.
    return allocate(&layout, &ws.block, True)


cdef void tree_sum_free(TreeSum* ws) noexcept nogil:
    """Free all memory; harmless when called twice."""
    if ws.wide is not NULL:
        free(ws.wide.block)
        free(ws.wide)
    free(ws.block)
    ws.wide = NULL
    ws.block = NULL


cdef void make_wide(TreeSum* ws) noexcept nogil:
    """Allocate sums in wide numbers, unless that has been done; gives up without memory."""
    cdef TreeSum* wide
    if ws.wide is NULL:
        wide = <TreeSum*>malloc(sizeof(TreeSum))
        if wide is NULL or tree_sum_init(wide, ws.max_words, True) != Status.OK:
            free(wide)
            give_up(Status.NO_MEMORY)
        ws.wide = wide


# --- weights of a sentence ---------------------------------------------------------------------

cdef int find_highest(
        const double* square, Py_ssize_t n, bint single_root, TreeSum* ws) noexcept nogil:
    """Find the score that each word's scores are lowered by, and the sum of these.

    With a single root it is the highest score of an arc from a word. Root scores, which are never
    added to others, are lowered again, by the highest of these differences. But where a root
    score is so far above that digits of the difference count, it is the root score. Only `highest`
    of `ws` needs room. Returns a Status.
    """
    cdef Py_ssize_t dep
    cdef int bad = 0
    cdef bint no_head = False, has_root = False
    cdef double highest, root, lowered, low, scale = 0
    ws.scale.low = ws.scale.root_shift_low = 0
    ws.scale.root_shift = -INFINITY if single_root else 0
    for dep in range(1, n + 1):
        root = square[dep * (n + 1)]
        highest = weight_passes.max_of_row(
            square + dep * (n + 1) + single_root, n + 1 - single_root, &bad)
        if single_root:
            bad |= not root < INFINITY
            if root - highest > FAR_ABOVE or highest == -INFINITY:
                highest = root
            if root > -INFINITY:
                has_root = True
                lowered = subtract_exactly(root, highest, &low)
                if lowered > ws.scale.root_shift or (
                        lowered == ws.scale.root_shift and low > ws.scale.root_shift_low):
                    ws.scale.root_shift = lowered
                    ws.scale.root_shift_low = low
        no_head |= highest == -INFINITY
        ws.highest[dep] = highest
        scale = add_exactly(scale, highest, &ws.scale.low)
    if bad:
        return Status.BAD_SCORE
    if no_head:
        return Status.NO_TREE
    if ws.scale.root_shift == -INFINITY:
        # All differences between root scores and others overflow, or there are no root scores.
        return Status.LOST_DIGITS if has_root else Status.NO_TREE
    ws.scale.high = add_exactly(scale, ws.scale.root_shift, &ws.scale.low)
    ws.scale.low += ws.scale.root_shift_low
    return Status.OK if isfinite(ws.scale.high) and isfinite(ws.scale.low) else Status.LOST_DIGITS


cdef double lower_root_score(
        const double* square, Py_ssize_t dep, const TreeSum* ws, double* low) noexcept nogil:
    """The root score of a word as lowered, times NO_OVERFLOW: the sum of the result and `low`."""
    cdef double scale = NO_OVERFLOW, rest
    cdef double lowered = subtract_exactly(
        scale * square[dep * (ws.n + 1)], scale * ws.highest[dep], low)
    if lowered == -INFINITY:
        low[0] = 0
        return lowered
    lowered = subtract_exactly(lowered, scale * ws.scale.root_shift, &rest)
    low[0] += rest - scale * ws.scale.root_shift_low
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
        lowered[dep] = lower_root_score(square, dep, ws, &low) / NO_OVERFLOW
    exp_row(column, lowered + 1, 0, n, &dropped)
    for dep in range(1, n + 1):
        weights[dep * ws.stride] = column[dep - 1]
        # Also where the difference overflows.
        dropped |= is_zero(column[dep - 1]) and square[dep * (n + 1)] > -INFINITY
        if not is_zero(column[dep - 1]):
            lower_root_score(square, dep, ws, &low)
            weights[dep * ws.stride] = multiply(
                column[dep - 1], weight_from(exp(low / NO_OVERFLOW), of_type))
    ws.dropped |= dropped


cdef void weigh_as(const double* square, const weight_t* of_type, TreeSum* ws) noexcept nogil:
    cdef Py_ssize_t n = ws.n
    cdef Py_ssize_t dep
    cdef int dropped = 0
    cdef weight_t* weights = <weight_t*>ws.weights
    for dep in range(1, n + 1):
        poll_row(dep, 4 * n)
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

    Returns Status.OK, Status.BAD_SCORE, Status.NO_TREE or Status.LOST_DIGITS.
    """
    cdef int status
    ws.n = n
    ws.single_root = single_root
    status = find_highest(square, n, single_root, ws)
    if status != Status.OK:
        return status
    if ws.is_wide:
        weigh_as(square, <const ExtendedFloat*>NULL, ws)
    else:
        weigh_as(square, <const double*>NULL, ws)
    return Status.OK


# --- elimination -------------------------------------------------------------------------------

cdef int eliminate(const weight_t* weights, TreeSum* ws, Py_ssize_t first) noexcept nogil:
    cdef weight_t* pivots = <weight_t*>ws.pivots
    cdef weight_t* row
    cdef weight_t* pivot
    cdef weight_t total, whole, kept = weight_from(1, weights)
    cdef Py_ssize_t n = ws.n, stride = ws.stride, word, head, k
    # Whether ROOT counts among the heads that remain.
    cdef bint has_root = not ws.single_root
    ws.root_word = 0
    for word in range(n, first - 1, -1):
        row = <weight_t*>ws.factors + word * stride
        pivot = pivots + word * stride
        memcpy(row, weights + word * stride, (n + 1) * sizeof(weight_t))
        if ws.root_word > 0:
            row[0] = weight_from(0, weights)
        poll_pivot(n - word)
        apply_pivots(row, pivots, stride, n, word + 1)
        total = sum_row(row + (not has_root), word - (not has_root))
        whole = sum_row(weights + word * stride + ws.single_root, n + 1 - ws.single_root)
        if is_zero(total):
            # No word is left that could be its head, so its head is ROOT.
            total = whole = row[0]
            if has_root or is_zero(total):
                return Status.NO_TREE
            has_root = True
            ws.root_word = word
            # It takes the place of ROOT for the words before it.
            for k in range(word + 1, n + 1):
                (<weight_t*>ws.root_pivots)[k] = pivots[k * stride]
                pivots[k * stride] = weight_from(0, weights)
            for head in range(stride):
                pivot[head] = weight_from(0, weights)
            pivot[0] = weight_from(1, weights)
        else:
            divide_row(pivot, row, total, word)
            for head in range(word, min(word + 4, stride)):
                pivot[head] = weight_from(0, weights)
        (<weight_t*>ws.sums)[word] = total
        # The row may have begun with more than 1, up to n, which is then lost as well.
        kept = multiply(kept, divide(total, larger(whole, weight_from(1, weights))))
    if weight_t is double:
        return Status.OK if kept >= LEAST_KEPT else Status.UNSETTLED
    else:
        return Status.OK if wide_log2_above(kept) >= -MAX_WIDE_LOSS else Status.LOST_DIGITS


cdef int eliminate_words(TreeSum* ws, Py_ssize_t first) noexcept nogil:
    """Eliminate words n, n - 1, ..., first of n words; n^3 / 3 multiplications for all.

    With a single root, a word without any other word left as its head must be the dependent of
    ROOT: it becomes `root_word` (0 if there is none), and takes the place of ROOT for the words
    that remain. Word 1 always is one, if none was before. Returns Status.OK, Status.NO_TREE,
    Status.LOST_DIGITS, or Status.UNSETTLED where float64 does not suffice, which may also be the
    case where it finds no tree.
    """
    if ws.is_wide:
        return eliminate(<const ExtendedFloat*>ws.weights, ws, first)
    return eliminate(<const double*>ws.weights, ws, first)


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
    if status != Status.OK:
        return status
    status = eliminate_words(ws, 1)
    if status == Status.NO_TREE:
        # Weights that underflowed may have been the weights of all trees.
        if not ws.is_wide:
            return Status.UNSETTLED
        if ws.dropped:
            return Status.LOST_DIGITS
    if status == Status.OK:
        ws.scale.log_mass = (
            log_product(<const ExtendedFloat*>ws.sums, n, &ws.scale.log_mass_low) if ws.is_wide
            else log_product(<const double*>ws.sums, n, &ws.scale.log_mass_low))
    return status


cdef int sum_trees(
        const double* square, Py_ssize_t n, bint single_root, TreeSum* ws) noexcept nogil:
    """Sum the weights of all trees of a sentence. O(n^3) time.

    Returns Status.OK, Status.BAD_SCORE, Status.NO_TREE, or Status.LOST_DIGITS where sums of scores
    overflow, or trees need arcs too far below the others.
    """
    cdef int status
    if n == 0:
        ws.n = 0
        ws.beyond_float64 = False
        memset(&ws.scale, 0, sizeof(SumScale))
        return Status.OK
    status = sum_trees_as_is(square, n, single_root, ws)
    ws.beyond_float64 = status == Status.UNSETTLED
    if not ws.beyond_float64:
        return status
    make_wide(ws)
    status = sum_trees_as_is(square, n, single_root, ws.wide)
    ws.scale.log_mass = ws.wide.scale.log_mass
    ws.scale.log_mass_low = ws.wide.scale.log_mass_low
    return status


cdef double log_partition(const TreeSum* ws) noexcept nogil:
    """The log of the sum over trees of the exponential of their score."""
    cdef double low = ws.scale.low + ws.scale.log_mass_low
    cdef double total = add_exactly(ws.scale.high, ws.scale.log_mass, &low)
    return total + low


cdef inline void add_difference(double a, double b, double* total, double* low) noexcept nogil:
    """Add a - b, times NO_OVERFLOW, to the sum of `total` and `low`, without losing digits."""
    cdef double rest
    cdef double difference = subtract_exactly(NO_OVERFLOW * a, NO_OVERFLOW * b, &rest)
    total[0] = add_exactly(total[0], difference, low)
    low[0] += rest


cdef inline double log_share(
        const SumScale* part, const SumScale* whole, double total, double low) noexcept nogil:
    """The log of the share that one sum has of another; -inf if beyond float64.

    The units of its words are greater by `total` and `low` in all, times NO_OVERFLOW.
    """
    add_difference(part.root_shift, whole.root_shift, &total, &low)
    low += NO_OVERFLOW * (part.root_shift_low - whole.root_shift_low)
    add_difference(part.log_mass, whole.log_mass, &total, &low)
    low += NO_OVERFLOW * (part.log_mass_low - whole.log_mass_low)
    return min((total + low) / NO_OVERFLOW, 0.0)


cdef double log_probability(
        const double* square, const int32_t* heads, const TreeSum* ws) noexcept nogil:
    """The log probability of a tree summed over; -inf if it is too low for float64. O(n)."""
    cdef SumScale tree      # of the sum over this tree alone: its scores are its units
    cdef double total = 0, low = 0
    cdef Py_ssize_t dep
    memset(&tree, 0, sizeof(SumScale))
    for dep in range(1, ws.n + 1):
        add_difference(square[dep * (ws.n + 1) + heads[dep]], ws.highest[dep], &total, &low)
    return log_share(&tree, &ws.scale, total, low)


cdef double log_ratio(const TreeSum* part, const TreeSum* whole) noexcept nogil:
    """The log of the share that one sum's trees have among another's; -inf if beyond float64. O(n).

    Both are over trees of the same scores.
    """
    cdef double total = 0, low = 0
    cdef Py_ssize_t dep
    for dep in range(1, part.n + 1):
        add_difference(part.highest[dep], whole.highest[dep], &total, &low)
    return log_share(&part.scale, &whole.scale, total, low)


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


cdef void multiply_by_weights(
        const weight_t* of_type, double* marginals, Py_ssize_t width, const TreeSum* ws
) noexcept nogil:
    """marginals = weights times adjoints."""
    cdef Py_ssize_t dep
    for dep in range(1, ws.n + 1):
        poll_row(dep, ws.n)
        multiply_rows(
            marginals + dep * width, <const weight_t*>ws.weights + dep * ws.stride,
            <const weight_t*>ws.adjoints + dep * ws.stride, ws.n + 1)


cdef void arc_marginals(double* marginals, Py_ssize_t width, TreeSum* ws) noexcept nogil:
    """Fill marginals[dep * width + head] for the words of the sentence last summed over.

    Overwrites what `sum_trees` left: call it once per sum.
    """
    if ws.beyond_float64:
        differentiate(<const ExtendedFloat*>NULL, ws.wide)
        multiply_by_weights(<const ExtendedFloat*>NULL, marginals, width, ws.wide)
    else:
        differentiate(<const double*>NULL, ws)
        multiply_by_weights(<const double*>NULL, marginals, width, ws)


cdef double cross_entropy(
        const double* square, const double* marginals, Py_ssize_t width, const TreeSum* ws,
        double* low) noexcept nogil:
    """The cross entropy H(p, q): p has these marginals, and q is of the sum. O(n^2).

    It is the sum of the result and `low`; inf if it is beyond float64. Arcs that `square` forbids
    are left out. Scores are taken as lowered, which cancels where a word, or ROOT, prefers one arc
    by far.
    """
    cdef double scale = NO_OVERFLOW, lowered, rest
    cdef double entropy = scale * ws.scale.log_mass, rests = scale * ws.scale.log_mass_low, marginal
    cdef const double* row
    cdef Py_ssize_t dep, head
    for dep in range(1, ws.n + 1):
        poll_row(dep, 4 * ws.n)
        row = square + dep * (ws.n + 1)
        for head in range(ws.n + 1):
            marginal = marginals[dep * width + head]
            if marginal > 0 and row[head] > -INFINITY:
                lowered = scale * row[head] - scale * ws.highest[dep]
                if head == 0 and ws.single_root:
                    lowered = lower_root_score(square, dep, ws, &rest)
                entropy = add_exactly(entropy, -marginal * lowered, &rests)
    low[0] = rests / scale
    return entropy / scale


# --- root tokens -------------------------------------------------------------------------------

cdef void root_shares_as(
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
    for word in range(ws.root_word, n + 1):
        shares[word] = to_double(divide(below[word], total))


cdef void root_shares(double* shares, TreeSum* ws) noexcept nogil:
    """Fill shares[1..n] with the probability of each word to be the only root token. O(n^2)."""
    if ws.beyond_float64:
        root_shares_as(<const ExtendedFloat*>NULL, shares, ws.wide)
    else:
        root_shares_as(<const double*>NULL, shares, ws)
