"""Elimination of the words of a sentence, without subtraction, in O(n^3).

The last word is eliminated first: the dependents of word k become dependents of k's heads, in
proportion to their weights,

    A[j, i] += A[j, k] A[k, i] / S,    S = sum of A[k, i] over the heads i < k that remain,

and the weight of all trees is the product of the S. With exactly one root, the root arcs take part
like those from any head but are left out of S: they are the first-order term in a root weight that
vanishes. Nothing is ever subtracted, so every number is accurate relative to itself (the argument
of Grassmann, Taksar & Heyman 1985 for Markov chains).

Weights are float64 numbers, with a word's highest score as their unit, or else numbers with a wide
exponent. Float64 suffices unless words lose so much weight in elimination that what underflowed
might have counted, which shows in the S.
"""
from libc.math cimport INFINITY, exp, frexp, isfinite
from libc.stddef cimport size_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from spacy_rootmind.kernel.decode cimport (
    DECODE_BAD_SCORE,
    DECODE_LOST_DIGITS,
    DECODE_NO_MEMORY,
    DECODE_NO_TREE,
    DECODE_OK,
    DECODE_UNSETTLED,
)
from spacy_rootmind.kernel.interrupt cimport poll_pivot, poll_row
from spacy_rootmind.kernel.simd cimport weight_passes
from weights cimport (
    ExtendedFloat,
    add_exactly,
    apply_pivots,
    divide,
    divide_row,
    exp_row,
    is_zero,
    larger,
    multiply,
    subtract_exactly,
    sum_row,
    weight_from,
    weight_t,
    wide_log2_above,
)

cdef enum:
    # Words may lose this many binary digits of weight in total, of the 1022 of float64 below 1.
    # The weight of all trees is at least 2^-loss of what it is with any one arc in its word's unit,
    # so arcs that have underflowed have probabilities below n 2^(loss - 1021).
    MAX_LOSS = 400

# And this many in wide numbers, where scores below 1e15 are those that count as forbidden.
cdef double MAX_WIDE_LOSS = 1e15
# Root scores this far above the scores of a word's other heads are the unit for these, too.
cdef double FAR_ABOVE = 1024


# --- workspace ---------------------------------------------------------------------------------

cdef int tree_sum_init_as(TreeSum* ws, Py_ssize_t max_words, bint is_wide) noexcept nogil:
    cdef size_t item = sizeof(ExtendedFloat) if is_wide else sizeof(double)
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
    """Allocate sums in wide numbers; returns DECODE_OK or DECODE_NO_MEMORY."""
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

cdef int find_highest(
        const double* square, Py_ssize_t n, bint single_root, TreeSum* ws) noexcept nogil:
    """Find the score that each word's scores are lowered by, and the sum of these.

    With a single root it is the highest score of an arc from a word. Root scores, which are never
    added to others, are lowered again, by the highest of these differences. But where a root
    score is so far above that digits of the difference count, it is the root score. Returns a
    DecodeStatus.
    """
    cdef Py_ssize_t dep
    cdef int bad = 0
    cdef bint no_head = False, has_root = False
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
                has_root = True
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
    if no_head:
        return DECODE_NO_TREE
    if ws.root_shift == -INFINITY:
        # All differences between root scores and others overflow, or there are no root scores.
        return DECODE_LOST_DIGITS if has_root else DECODE_NO_TREE
    ws.scale_high = add_exactly(scale, ws.root_shift, &ws.scale_low)
    ws.scale_low += ws.root_shift_low
    return DECODE_OK if isfinite(ws.scale_high) and isfinite(ws.scale_low) else DECODE_LOST_DIGITS


cdef double lower_root_score(
        const double* square, Py_ssize_t dep, const TreeSum* ws, double* low) noexcept nogil:
    """The root score of a word as lowered, at most 0, as the sum of the result and `low`."""
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
        # Also where the difference overflows.
        dropped |= is_zero(column[dep - 1]) and square[dep * (n + 1)] > -INFINITY
        if not is_zero(column[dep - 1]):
            lower_root_score(square, dep, ws, &low)
            weights[dep * ws.stride] = multiply(column[dep - 1], weight_from(exp(low), of_type))
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

    Returns DECODE_OK, DECODE_BAD_SCORE, DECODE_NO_TREE or DECODE_LOST_DIGITS.
    """
    cdef int status
    ws.n = n
    ws.single_root = single_root
    status = find_highest(square, n, single_root, ws)
    if status != DECODE_OK:
        return status
    if ws.is_wide:
        weigh_as(square, <const ExtendedFloat*>NULL, ws)
    else:
        weigh_as(square, <const double*>NULL, ws)
    return DECODE_OK


# --- elimination -------------------------------------------------------------------------------

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


cdef void make_root_word(
        weight_t* pivots, weight_t* root_pivots, Py_ssize_t stride, Py_ssize_t word, Py_ssize_t n
) noexcept nogil:
    """Let `word` be the dependent of ROOT, and take the place of ROOT for the words before it."""
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
        bint single_root, Py_ssize_t* root_word) noexcept nogil:
    cdef const weight_t* of_type = NULL
    cdef weight_t* row
    cdef weight_t* pivot
    cdef weight_t total, whole
    cdef Py_ssize_t word, head
    cdef double loss = 0
    # Whether ROOT counts among the heads that remain.
    cdef bint has_root = not single_root
    root_word[0] = 0
    for word in range(n, first - 1, -1):
        row = factors + word * factors_stride
        pivot = pivots + word * stride
        memcpy(row, weights + word * stride, (n + 1) * sizeof(weight_t))
        if root_word[0] > 0:
            row[0] = weight_from(0, of_type)
        poll_pivot(n - word)
        apply_pivots(row, pivots, stride, n, word + 1)
        total = sum_row(row + (not has_root), word - (not has_root))
        whole = sum_row(weights + word * stride + single_root, n + 1 - single_root)
        if is_zero(total):
            # No word is left that could be its head, so its head is ROOT.
            total = row[0]
            if has_root or is_zero(total):
                return DECODE_NO_TREE
            has_root = True
            root_word[0] = word
            make_root_word(pivots, root_pivots, stride, word, n)
            loss += binary_loss(total)
        else:
            # The row may have begun with more than 1, up to n, which is then lost as well.
            loss += binary_loss(divide(total, larger(whole, weight_from(1, of_type))))
            divide_row(pivot, row, total, word)
            for head in range(word, min(word + 4, stride)):
                pivot[head] = weight_from(0, of_type)
        sums[word] = total
    if weight_t is double:
        return DECODE_OK if loss <= MAX_LOSS else DECODE_UNSETTLED
    else:
        return DECODE_OK if loss <= MAX_WIDE_LOSS else DECODE_LOST_DIGITS


cdef int eliminate_words(
        const void* weights, void* pivots, void* factors, Py_ssize_t factors_stride, void* sums,
        void* root_pivots, Py_ssize_t stride, Py_ssize_t n, Py_ssize_t first, bint single_root,
        bint is_wide, Py_ssize_t* root_word) noexcept nogil:
    """Eliminate words n, n - 1, ..., first of n words; n^3 / 3 multiplications for all.

    With `factors_stride` 0, `factors` is one row of scratch. With a single root, a word without any
    other word left as its head must be the dependent of ROOT: it becomes `root_word` (0 if there is
    none), and takes the place of ROOT for the words that remain. Word 1 always is one, if none was
    before. Returns DECODE_OK, DECODE_NO_TREE, DECODE_LOST_DIGITS, or DECODE_UNSETTLED where float64
    does not suffice, which may also be the case where it finds no tree.
    """
    if is_wide:
        return eliminate(
            <const ExtendedFloat*>weights, <ExtendedFloat*>pivots, <ExtendedFloat*>factors,
            factors_stride, <ExtendedFloat*>sums, <ExtendedFloat*>root_pivots, stride, n, first,
            single_root, root_word)
    return eliminate(
        <const double*>weights, <double*>pivots, <double*>factors, factors_stride, <double*>sums,
        <double*>root_pivots, stride, n, first, single_root, root_word)


cdef int eliminate_all(TreeSum* ws) noexcept nogil:
    """Eliminate all words, whatever their weights are; see `eliminate_words`."""
    return eliminate_words(
        ws.weights, ws.pivots, ws.factors, ws.stride, ws.sums, ws.root_pivots, ws.stride, ws.n, 1,
        ws.single_root, ws.is_wide, &ws.root_word)


cdef int find_wide_weights(const double* square, TreeSum* ws) noexcept nogil:
    """Fill `ws.wide.weights` for the sentence last summed over as well. O(n^2).

    Returns DECODE_OK or DECODE_NO_MEMORY.
    """
    cdef int status
    if ws.beyond_float64:
        return DECODE_OK
    status = make_wide(ws)
    return weigh_arcs(square, ws.n, ws.single_root, ws.wide) if status == DECODE_OK else status
