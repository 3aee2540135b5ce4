"""Sums over all projective trees of a sentence: the inside-outside algorithm on Eisner's spans.

The spans are those of `eisner`, with sums of products in place of maxima. Each tree is made of them
in exactly one way: the span of a head splits before what its outermost dependent governs, and the
span between a head and a dependent where the one's descendants end. A single root splits the
sentence in two; with several, ROOT is a head like others, to the left of all.

Weights have a word's highest score as their unit, and a wide exponent. They are only added and
multiplied, so that all numbers, small marginals among them, are accurate relative to themselves.
"""
from libc.math cimport INFINITY, isfinite
from libc.stddef cimport size_t
from libc.stdint cimport int32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from spacy_rootmind.kernel.decode cimport (
    DECODE_BAD_SCORE,
    DECODE_LOST_DIGITS,
    DECODE_NO_MEMORY,
    DECODE_NO_TREE,
    DECODE_OK,
)
from spacy_rootmind.kernel.elimination cimport TreeSum
from spacy_rootmind.kernel.interrupt cimport poll
from spacy_rootmind.kernel.random cimport RandomSource, next_double
from weights cimport (
    Wide,
    add_exactly,
    weight_passes,
    wide_add,
    wide_divide,
    wide_exp_row,
    wide_from,
    wide_log,
    wide_multiply,
    wide_to_double,
)


# --- memory ------------------------------------------------------------------------------------

cdef int span_sums_init(SpanSums* ws, Py_ssize_t max_words) noexcept nogil:
    """Allocate 96 n^2 + O(n) bytes; returns DECODE_OK or DECODE_NO_MEMORY."""
    cdef size_t width = <size_t>max_words + 1
    cdef size_t area = width * width
    cdef Wide* place
    memset(ws, 0, sizeof(SpanSums))
    # Of a size_t of 32 bits, too.
    if area > (<size_t>-1) // 128:
        return DECODE_NO_MEMORY
    ws.block = malloc(
        (5 * area + 1) * sizeof(Wide) + width * (sizeof(double) + 6 * sizeof(int32_t)))
    if ws.block is NULL:
        return DECODE_NO_MEMORY
    place = <Wide*>ws.block
    ws.weights = place
    ws.complete = place + area
    ws.arcs = place + 2 * area
    ws.outer_complete = place + 3 * area
    ws.outer_arcs = place + 4 * area
    ws.total = place + 5 * area
    ws.highest = <double*>(place + 5 * area + 1)
    ws.todo = <int32_t*>(ws.highest + width)
    return DECODE_OK


cdef void span_sums_free(SpanSums* ws) noexcept nogil:
    """Free all memory; harmless when called twice."""
    free(ws.block)
    ws.block = NULL


# --- inside ------------------------------------------------------------------------------------

cdef int weigh(const double* square, Py_ssize_t n, SpanSums* ws, int* dropped) noexcept nogil:
    """Fill the weights of all arcs; returns a DecodeStatus."""
    cdef Wide* weights = <Wide*>ws.weights
    cdef Py_ssize_t dep
    cdef int bad = 0
    cdef bint no_head = False
    cdef double scale = 0, low = 0
    for dep in range(1, n + 1):
        ws.highest[dep] = weight_passes.max_of_row(square + dep * (n + 1), n + 1, &bad)
        no_head |= ws.highest[dep] == -INFINITY
        scale = add_exactly(scale, ws.highest[dep], &low)
    if bad:
        return DECODE_BAD_SCORE
    if no_head:
        return DECODE_NO_TREE
    if not isfinite(scale + low):
        return DECODE_LOST_DIGITS
    for dep in range(1, n + 1):
        wide_exp_row(
            weights + dep * (n + 1), square + dep * (n + 1), ws.highest[dep], n + 1, dropped)
    return DECODE_OK


cdef inline void fill_span(
        const Wide* weights, Wide* complete, Wide* arcs, Py_ssize_t width, Py_ssize_t i,
        Py_ssize_t j) noexcept nogil:
    """Sum over all spans from i to j, whose parts are there already. O(j - i)."""
    cdef Wide sum = wide_from(0, 0)
    cdef Py_ssize_t k
    for k in range(i, j):
        sum = wide_add(
            sum, wide_multiply(complete[i * width + k], complete[j * width + k + 1]))
    arcs[i * width + j] = wide_multiply(sum, weights[j * width + i])
    arcs[j * width + i] = wide_from(0, 0) if i == 0 else wide_multiply(sum, weights[i * width + j])
    sum = wide_from(0, 0)
    for k in range(i + 1, j + 1):
        sum = wide_add(sum, wide_multiply(arcs[i * width + k], complete[k * width + j]))
    complete[i * width + j] = sum
    sum = wide_from(0, 0)
    for k in range(i, j):
        sum = wide_add(sum, wide_multiply(arcs[j * width + k], complete[k * width + i]))
    complete[j * width + i] = sum


cdef int sum_projective(
        const double* square, Py_ssize_t n, bint single_root, SpanSums* ws) noexcept nogil:
    """Sum the weights of all projective trees. O(n^3).

    `square` holds scores[dep, head], (n + 1) x (n + 1), contiguous, -inf on the diagonal. Returns
    DECODE_OK, DECODE_BAD_SCORE, DECODE_NO_TREE or DECODE_LOST_DIGITS.
    """
    cdef Py_ssize_t width = n + 1, i, j
    cdef Wide* weights = <Wide*>ws.weights
    cdef Wide* complete = <Wide*>ws.complete
    cdef Wide total = wide_from(1, 0)
    cdef int dropped = 0
    cdef int status
    ws.n = n
    ws.single_root = single_root
    (<Wide*>ws.total)[0] = total
    if n == 0:
        return DECODE_OK
    status = weigh(square, n, ws, &dropped)
    if status != DECODE_OK:
        return status
    for i in range(width):
        complete[i * width + i] = wide_from(1, 0)
    # Long spans from short ones; for j downwards every part of (i, j) is there already.
    for j in range(single_root + 1, width):
        for i in range(j - 1, single_root - 1, -1):
            if (j - i) % 64 == 0:
                poll(64 * 10 * 3 * (j - i))
            fill_span(weights, complete, <Wide*>ws.arcs, width, i, j)
    if single_root:
        total = wide_from(0, 0)
        for i in range(1, width):
            total = wide_add(total, weight_of_root(ws, i))
    else:
        total = complete[n]
    (<Wide*>ws.total)[0] = total
    if total.part == 0:
        return DECODE_LOST_DIGITS if dropped else DECODE_NO_TREE
    return DECODE_OK


cdef inline Wide weight_of_root(const SpanSums* ws, Py_ssize_t root) noexcept nogil:
    """The weight of all trees whose only root token is `root`."""
    cdef Py_ssize_t width = ws.n + 1
    cdef const Wide* complete = <const Wide*>ws.complete
    return wide_multiply(
        (<const Wide*>ws.weights)[root * width],
        wide_multiply(complete[root * width + 1], complete[root * width + ws.n]))


cdef void describe_sum(const SpanSums* ws, TreeSum* sum) noexcept nogil:
    """Describe the sum as one over all trees; see the declaration. O(n)."""
    cdef Py_ssize_t dep
    memset(sum, 0, sizeof(TreeSum))
    sum.n = ws.n
    sum.single_root = ws.single_root
    sum.highest = <double*>ws.highest
    for dep in range(1, ws.n + 1):
        sum.scale_high = add_exactly(sum.scale_high, ws.highest[dep], &sum.scale_low)
    sum.log_mass = wide_log((<Wide*>ws.total)[0], &sum.log_mass_low)


# --- outside -----------------------------------------------------------------------------------

cdef inline void push_back(
        Wide outer, Wide one, Wide other, Wide* outer_one, Wide* outer_other) noexcept nogil:
    """Add to the derivatives of two factors that of their product."""
    outer_one[0] = wide_add(outer_one[0], wide_multiply(outer, other))
    outer_other[0] = wide_add(outer_other[0], wide_multiply(outer, one))


cdef inline void follow_back(SpanSums* ws, Py_ssize_t i, Py_ssize_t j) noexcept nogil:
    """Go back through `fill_span`, once all longer spans are done. O(j - i)."""
    cdef Py_ssize_t width = ws.n + 1, k
    cdef const Wide* weights = <const Wide*>ws.weights
    cdef const Wide* complete = <const Wide*>ws.complete
    cdef const Wide* arcs = <const Wide*>ws.arcs
    cdef Wide* outer_complete = <Wide*>ws.outer_complete
    cdef Wide* outer_arcs = <Wide*>ws.outer_arcs
    cdef Wide outer = outer_complete[i * width + j]
    if outer.part > 0:
        for k in range(i + 1, j + 1):
            push_back(
                outer, arcs[i * width + k], complete[k * width + j], &outer_arcs[i * width + k],
                &outer_complete[k * width + j])
    outer = outer_complete[j * width + i]
    if outer.part > 0:
        for k in range(i, j):
            push_back(
                outer, arcs[j * width + k], complete[k * width + i], &outer_arcs[j * width + k],
                &outer_complete[k * width + i])
    outer = wide_multiply(outer_arcs[i * width + j], weights[j * width + i])
    if i > 0:
        outer = wide_add(
            outer, wide_multiply(outer_arcs[j * width + i], weights[i * width + j]))
    if outer.part > 0:
        for k in range(i, j):
            push_back(
                outer, complete[i * width + k], complete[j * width + k + 1],
                &outer_complete[i * width + k], &outer_complete[j * width + k + 1])


cdef void projective_marginals(double* marginals, Py_ssize_t width, SpanSums* ws) noexcept nogil:
    """Fill the marginals of the words of the sentence last summed over. O(n^3)."""
    cdef Py_ssize_t n = ws.n, i, j
    cdef Py_ssize_t first = ws.single_root
    cdef Wide* outer_complete = <Wide*>ws.outer_complete
    cdef Wide* outer_arcs = <Wide*>ws.outer_arcs
    cdef const Wide* complete = <const Wide*>ws.complete
    cdef const Wide* arcs = <const Wide*>ws.arcs
    cdef const Wide* weights = <const Wide*>ws.weights
    cdef Wide one = wide_divide(wide_from(1, 0), (<Wide*>ws.total)[0])
    if n == 0:
        return
    for i in range((n + 1) * (n + 1)):
        outer_complete[i] = outer_arcs[i] = wide_from(0, 0)
    if ws.single_root:
        for i in range(1, n + 1):
            push_back(
                wide_multiply(one, weights[i * (n + 1)]), complete[i * (n + 1) + 1],
                complete[i * (n + 1) + n], &outer_complete[i * (n + 1) + 1],
                &outer_complete[i * (n + 1) + n])
            marginals[i * width] = share(wide_multiply(one, weight_of_root(ws, i)))
            marginals[i * width + i] = 0
    else:
        outer_complete[n] = one
        for i in range(1, n + 1):
            marginals[i * width + i] = 0
    for j in range(n, first, -1):
        for i in range(first, j):
            if (j - i) % 64 == 0:
                poll(64 * 20 * 3 * (j - i))
            follow_back(ws, i, j)
            marginals[j * width + i] = share(
                wide_multiply(outer_arcs[i * (n + 1) + j], arcs[i * (n + 1) + j]))
            if i > 0:
                marginals[i * width + j] = share(
                    wide_multiply(outer_arcs[j * (n + 1) + i], arcs[j * (n + 1) + i]))


cdef inline double share(Wide probability) noexcept nogil:
    return min(wide_to_double(probability), 1.0)


# --- samples -----------------------------------------------------------------------------------

cdef inline bint passes(Wide weight, Wide total, double* left) noexcept nogil:
    """Tell whether a part of the total, if it has any weight, is the one that was drawn."""
    if weight.part == 0:
        return False
    left[0] -= wide_to_double(wide_divide(weight, total))
    return left[0] < 0


cdef Py_ssize_t draw_root(const SpanSums* ws, const RandomSource* random) noexcept nogil:
    cdef double left = next_double(random)
    cdef Py_ssize_t root, last = 0
    cdef Wide weight
    for root in range(1, ws.n + 1):
        weight = weight_of_root(ws, root)
        if weight.part > 0:
            last = root
            if passes(weight, (<const Wide*>ws.total)[0], &left):
                break
    return last


cdef Py_ssize_t draw_dependent(
        const SpanSums* ws, Py_ssize_t head, Py_ssize_t end, const RandomSource* random
) noexcept nogil:
    """Draw the outermost dependent of a head in the span that reaches to `end`."""
    cdef Py_ssize_t width = ws.n + 1
    cdef const Wide* complete = <const Wide*>ws.complete
    cdef double left = next_double(random)
    cdef Py_ssize_t step = 1 if end > head else -1
    cdef Py_ssize_t dep = head, last = 0
    cdef Wide weight
    while dep != end:
        dep += step
        weight = wide_multiply(
            (<const Wide*>ws.arcs)[head * width + dep], complete[dep * width + end])
        if weight.part > 0:
            last = dep
            if passes(weight, complete[head * width + end], &left):
                break
    return last


cdef Py_ssize_t draw_border(
        const SpanSums* ws, Py_ssize_t i, Py_ssize_t j, const RandomSource* random
) noexcept nogil:
    """Draw the last word between i and j that descends from i; i itself if there is none."""
    cdef Py_ssize_t width = ws.n + 1, k, last = i
    cdef const Wide* complete = <const Wide*>ws.complete
    cdef double left = next_double(random)
    cdef Wide total = wide_from(0, 0), weight
    for k in range(i, j):
        total = wide_add(
            total, wide_multiply(complete[i * width + k], complete[j * width + k + 1]))
    for k in range(i, j):
        weight = wide_multiply(complete[i * width + k], complete[j * width + k + 1])
        if weight.part > 0:
            last = k
            if passes(weight, total, &left):
                break
    return last


cdef inline Py_ssize_t push(
        int32_t* todo, Py_ssize_t top, Py_ssize_t head, Py_ssize_t end) noexcept nogil:
    """Put a span of more than one word on the stack."""
    if head == end:
        return top
    todo[top] = <int32_t>head
    todo[top + 1] = <int32_t>end
    return top + 2


cdef void draw_projective(
        SpanSums* ws, const RandomSource* random, int32_t* heads) noexcept nogil:
    """Draw a tree in proportion to its weight, from the root down. O(n^2) at most."""
    cdef Py_ssize_t top = 0
    cdef Py_ssize_t head, end, dep, border
    heads[0] = -1
    if ws.n == 0:
        return
    if ws.single_root:
        head = draw_root(ws, random)
        heads[head] = 0
        top = push(ws.todo, top, head, ws.n)
        top = push(ws.todo, top, head, 1)
    else:
        top = push(ws.todo, top, 0, ws.n)
    while top > 0:
        top -= 2
        head = ws.todo[top]
        end = ws.todo[top + 1]
        dep = draw_dependent(ws, head, end, random)
        heads[dep] = <int32_t>head
        poll(ws.n)
        border = draw_border(ws, min(head, dep), max(head, dep), random)
        top = push(ws.todo, top, dep, end)
        if head < dep:
            top = push(ws.todo, top, dep, border + 1)
            top = push(ws.todo, top, head, border)
        else:
            top = push(ws.todo, top, head, border + 1)
            top = push(ws.todo, top, dep, border)
