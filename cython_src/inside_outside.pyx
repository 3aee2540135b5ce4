"""Sums over all projective trees of a sentence: the inside-outside algorithm on Eisner's spans.

`chart` defines the spans: the span of a head splits before what its outermost dependent
governs, and the span between a head and a dependent where the one's descendants end. A single root
splits the sentence in two; with several, ROOT is a head like others, to the left of all.

Weights have a word's highest score as their unit, and a wide exponent. They are only added and
multiplied, so that all numbers, small marginals among them, are accurate relative to themselves.

Derivatives in the direction of given values are found by the same functions, from weights that know
how their log changes: by the sum in a product, by the mean in a sum (see `derivatives`).
"""
from libc.stddef cimport size_t
from libc.stdint cimport int32_t
from libc.stdlib cimport abs, free
from libc.string cimport memset

from spacy_rootmind.kernel.chart cimport (
    Dual,
    change_of,
    fill_chart,
    number_from,
    number_t,
    plus,
    times,
    weight_of,
)
from spacy_rootmind.kernel.interrupt cimport ROWS_PER_POLL, poll
from spacy_rootmind.kernel.partition cimport TreeSum, find_highest
from spacy_rootmind.kernel.random cimport Stream, next_double
from spacy_rootmind.kernel.room cimport Layout, add_array, allocate
from spacy_rootmind.kernel.status cimport Status
from weights cimport (
    ExtendedFloat,
    add_exactly,
    exp_row,
    wide_add,
    wide_divide,
    wide_from,
    wide_log,
    wide_multiply,
    wide_to_double,
)


# --- memory ------------------------------------------------------------------------------------

cdef int span_sums_init(
        SpanSums* ws, Py_ssize_t max_words, bint with_changes) noexcept nogil:
    """Allocate 96 n^2 + O(n) bytes; a Status. With changes, 144 n^2, for derivatives alone."""
    cdef size_t width = <size_t>max_words + 1
    cdef size_t area = width * width
    cdef size_t item = sizeof(Dual) if with_changes else sizeof(ExtendedFloat)
    cdef Layout layout
    memset(ws, 0, sizeof(SpanSums))
    layout.n_arrays = layout.size = 0
    add_array(&layout, &ws.weights, area, item)
    add_array(&layout, &ws.chart.right, area, item)
    add_array(&layout, &ws.chart.left, area, item)
    add_array(&layout, &ws.chart.arcs, area, item)
    add_array(&layout, &ws.outer_complete, area, item)
    add_array(&layout, &ws.outer_arcs, area, item)
    add_array(&layout, &ws.total, 1, item)
    add_array(&layout, &ws.row, width, sizeof(ExtendedFloat))
    add_array(&layout, <void**>&ws.highest, width, sizeof(double))
    add_array(&layout, <void**>&ws.todo, 6 * width, sizeof(int32_t))
    return allocate(&layout, &ws.block, False)


cdef void span_sums_free(SpanSums* ws) noexcept nogil:
    """Free all memory; harmless when called twice."""
    free(ws.block)
    ws.block = NULL


# --- inside ------------------------------------------------------------------------------------

cdef bint weigh(
        const number_t* of_type, const double* square, const double* values, Py_ssize_t width,
        SpanSums* ws) noexcept nogil:
    """Fill the weights of all arcs; returns whether some score is too low for one."""
    cdef number_t* weights = <number_t*>ws.weights
    cdef ExtendedFloat* row = <ExtendedFloat*>ws.row
    cdef Py_ssize_t n = ws.n, dep, head
    cdef int dropped = 0
    for dep in range(1, n + 1):
        exp_row(row, square + dep * (n + 1), ws.highest[dep], n + 1, &dropped)
        for head in range(n + 1):
            weights[dep * (n + 1) + head] = number_from(
                row[head], 0 if values is NULL else values[dep * width + head], of_type)
    return dropped


cdef inline number_t weight_of_root(
        const number_t* of_type, const SpanSums* ws, Py_ssize_t root) noexcept nogil:
    """The weight of all trees whose only root token is `root`."""
    cdef Py_ssize_t place = root * (ws.n + 1)
    return times(
        (<const number_t*>ws.weights)[place],
        times(
            (<const number_t*>ws.chart.left)[place + 1],
            (<const number_t*>ws.chart.right)[place + ws.n]))


cdef void fill_spans(const number_t* of_type, SpanSums* ws) noexcept nogil:
    """Sum over all spans and trees, given the weights. O(n^3)."""
    cdef number_t* total = <number_t*>ws.total
    cdef Py_ssize_t i
    fill_chart(<const number_t*>ws.weights, ws.n, ws.single_root, &ws.chart)
    if not ws.single_root:
        total[0] = (<number_t*>ws.chart.right)[ws.n]
        return
    total[0] = number_from(wide_from(0, 0), 0, of_type)
    for i in range(1, ws.n + 1):
        total[0] = plus(total[0], weight_of_root(of_type, ws, i))


cdef int sum_numbers(
        const number_t* of_type, const double* square, const double* values, Py_ssize_t width,
        SpanSums* ws) noexcept nogil:
    """Sum over the trees of `ws.n` words; returns a Status."""
    cdef int status
    cdef bint dropped
    cdef TreeSum units
    (<number_t*>ws.total)[0] = number_from(wide_from(1, 0), 0, of_type)
    if ws.n == 0:
        return Status.OK
    # ROOT's arcs have the unit of their word, whether or not a tree may have several.
    units.highest = ws.highest
    status = find_highest(square, ws.n, False, &units)
    if status != Status.OK:
        return status
    dropped = weigh(of_type, square, values, width, ws)
    fill_spans(of_type, ws)
    if weight_of((<number_t*>ws.total)[0]).part == 0:
        return Status.LOST_DIGITS if dropped else Status.NO_TREE
    return Status.OK


cdef int sum_projective(
        const double* square, Py_ssize_t n, bint single_root, SpanSums* ws, TreeSum* sum
) noexcept nogil:
    """Sum the weights of all projective trees. O(n^3).

    `square` holds scores[dep, head], (n + 1) x (n + 1), contiguous, -inf on the diagonal. Returns
    Status.OK, Status.BAD_SCORE, Status.NO_TREE or Status.LOST_DIGITS. `sum` then describes it as
    one over all trees, for functions of `partition`: it shares `highest`, and has no matrices.
    """
    cdef Py_ssize_t dep
    cdef int status
    ws.n = n
    ws.single_root = single_root
    status = sum_numbers(<const ExtendedFloat*>NULL, square, NULL, 0, ws)
    if status != Status.OK:
        return status
    memset(sum, 0, sizeof(TreeSum))
    sum.n = n
    sum.single_root = single_root
    sum.highest = ws.highest
    for dep in range(1, n + 1):
        sum.scale.high = add_exactly(sum.scale.high, ws.highest[dep], &sum.scale.low)
    sum.scale.log_mass = wide_log((<ExtendedFloat*>ws.total)[0], &sum.scale.log_mass_low)
    return Status.OK


# --- outside -----------------------------------------------------------------------------------

cdef inline void push_back(
        number_t outer, number_t one, number_t other, number_t* outer_one, number_t* outer_other
) noexcept nogil:
    """Add the derivative of a product to the derivatives of its two factors."""
    outer_one[0] = plus(outer_one[0], times(outer, other))
    outer_other[0] = plus(outer_other[0], times(outer, one))


cdef inline void follow_back(
        const number_t* of_type, SpanSums* ws, Py_ssize_t i, Py_ssize_t j) noexcept nogil:
    """Go back through `fill_span`, once all longer spans are done. O(j - i)."""
    cdef Py_ssize_t width = ws.n + 1, k
    cdef const number_t* weights = <const number_t*>ws.weights
    cdef const number_t* right = <const number_t*>ws.chart.right
    cdef const number_t* left = <const number_t*>ws.chart.left
    cdef const number_t* arcs = <const number_t*>ws.chart.arcs
    cdef number_t* outer_complete = <number_t*>ws.outer_complete
    cdef number_t* outer_arcs = <number_t*>ws.outer_arcs
    cdef number_t outer = outer_complete[i * width + j]
    if weight_of(outer).part > 0:
        for k in range(i + 1, j + 1):
            push_back(
                outer, arcs[i * width + k], right[j * width + k], &outer_arcs[i * width + k],
                &outer_complete[k * width + j])
    outer = outer_complete[j * width + i]
    if weight_of(outer).part > 0:
        for k in range(i, j):
            push_back(
                outer, arcs[j * width + k], left[i * width + k], &outer_arcs[j * width + k],
                &outer_complete[k * width + i])
    outer = times(outer_arcs[i * width + j], weights[j * width + i])
    if i > 0:
        outer = plus(outer, times(outer_arcs[j * width + i], weights[i * width + j]))
    if weight_of(outer).part > 0:
        for k in range(i, j):
            push_back(
                outer, right[i * width + k], left[j * width + k + 1],
                &outer_complete[i * width + k], &outer_complete[j * width + k + 1])


cdef inline double result_of(number_t number) noexcept nogil:
    """A probability, or its derivative."""
    cdef double probability = min(wide_to_double(weight_of(number)), 1.0)
    if number_t is ExtendedFloat:
        return probability
    else:
        return probability * number.change


cdef number_t begin_back(const number_t* of_type, SpanSums* ws) noexcept nogil:
    """Fill the derivatives of the log of the total by the spans that it is made of.

    Returns its inverse.
    """
    cdef Py_ssize_t width = ws.n + 1, i
    cdef const number_t* weights = <const number_t*>ws.weights
    cdef const number_t* right = <const number_t*>ws.chart.right
    cdef const number_t* left = <const number_t*>ws.chart.left
    cdef number_t* outer_complete = <number_t*>ws.outer_complete
    cdef number_t* outer_arcs = <number_t*>ws.outer_arcs
    cdef number_t total = (<number_t*>ws.total)[0]
    cdef number_t one = number_from(
        wide_divide(wide_from(1, 0), weight_of(total)), -change_of(total), of_type)
    for i in range(width * width):
        outer_complete[i] = outer_arcs[i] = number_from(wide_from(0, 0), 0, of_type)
    if not ws.single_root:
        outer_complete[ws.n] = one
        return one
    for i in range(1, width):
        push_back(
            times(one, weights[i * width]), left[i * width + 1], right[i * width + ws.n],
            &outer_complete[i * width + 1], &outer_complete[i * width + ws.n])
    return one


cdef void find_results(
        const number_t* of_type, double* out, Py_ssize_t width, SpanSums* ws) noexcept nogil:
    """Fill the probabilities of all arcs, or their derivatives. O(n^3)."""
    cdef Py_ssize_t n = ws.n, first = ws.single_root, i, j
    cdef number_t* outer_arcs = <number_t*>ws.outer_arcs
    cdef const number_t* arcs = <const number_t*>ws.chart.arcs
    cdef number_t one
    if n == 0:
        return
    one = begin_back(of_type, ws)
    for i in range(1, n + 1):
        out[i * width + i] = 0
        if ws.single_root:
            out[i * width] = result_of(times(one, weight_of_root(of_type, ws, i)))
    for j in range(n, first, -1):
        for i in range(first, j):
            if (j - i) % ROWS_PER_POLL == 0:
                poll(60 * ROWS_PER_POLL * (j - i))
            follow_back(of_type, ws, i, j)
            out[j * width + i] = result_of(
                times(outer_arcs[i * (n + 1) + j], arcs[i * (n + 1) + j]))
            if i > 0:
                out[i * width + j] = result_of(
                    times(outer_arcs[j * (n + 1) + i], arcs[j * (n + 1) + i]))


cdef void projective_marginals(double* marginals, Py_ssize_t width, SpanSums* ws) noexcept nogil:
    """Fill the marginals of the words of the sentence last summed over. O(n^3)."""
    find_results(<const ExtendedFloat*>NULL, marginals, width, ws)


cdef int projective_derivatives(
        const double* square, Py_ssize_t n, bint single_root, double* values, Py_ssize_t width,
        SpanSums* ws) noexcept nogil:
    """Put the derivatives of the marginals along values[dep * width + head] in their place. O(n^3).

    `ws` has been made with changes. Returns a Status.
    """
    cdef int status
    ws.n = n
    ws.single_root = single_root
    status = sum_numbers(<const Dual*>NULL, square, values, width, ws)
    if status == Status.OK:
        find_results(<const Dual*>NULL, values, width, ws)
    return status


# --- samples -----------------------------------------------------------------------------------

cdef inline ExtendedFloat weight_of_side(
        const SpanSums* ws, Py_ssize_t head, Py_ssize_t end) noexcept nogil:
    """The weight of all that a head governs on that side, up to `end`."""
    cdef const void* side = ws.chart.right if end > head else ws.chart.left
    return (<const ExtendedFloat*>side)[head * (ws.n + 1) + end]


cdef Py_ssize_t draw_wide(
        const ExtendedFloat* weights, Py_ssize_t n, ExtendedFloat total, Stream* random
) noexcept nogil:
    """Draw one of 0..n-1 in proportion to its weight; `total` is their positive sum, rounded."""
    cdef double left = next_double(random)
    cdef Py_ssize_t i, last = 0
    for i in range(n):
        if weights[i].part > 0:
            last = i
            left -= wide_to_double(wide_divide(weights[i], total))
            if left < 0:
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


cdef inline void next_span(const SpanSums* ws, Draft* draft) noexcept nogil:
    """Turn to the outermost dependent of the span on top, if there is one."""
    draft.stage = DRAFT_COMPLETE
    draft.n_choices = 0
    if draft.top > 0:
        draft.stage = DRAFT_DEPENDENT
        draft.n_choices = abs(ws.todo[draft.top - 1] - ws.todo[draft.top - 2])


cdef void draft_begin(SpanSums* ws, int32_t* heads, Draft* draft) noexcept nogil:
    """Begin a tree in heads[0..n], for which others make the choices."""
    heads[0] = -1
    draft.heads = heads
    draft.top = 0
    if ws.single_root and ws.n > 0:
        draft.stage = DRAFT_ROOT
        draft.n_choices = ws.n
    else:
        draft.top = push(ws.todo, 0, 0, ws.n)
        next_span(ws, draft)


cdef ExtendedFloat draft_weigh(
        const SpanSums* ws, const Draft* draft, ExtendedFloat* weights) noexcept nogil:
    """Find the weights of the choices in order, n_choices of them; returns their sum. O(n)."""
    cdef ExtendedFloat total
    cdef Py_ssize_t i, head, dep, end, step
    if draft.stage == DRAFT_ROOT:
        for i in range(draft.n_choices):
            weights[i] = weight_of_root(<const ExtendedFloat*>NULL, ws, i + 1)
        return (<const ExtendedFloat*>ws.total)[0]
    head = ws.todo[draft.top - 2]
    end = ws.todo[draft.top - 1]
    if draft.stage == DRAFT_DEPENDENT:
        step = 1 if end > head else -1
        for i in range(draft.n_choices):
            dep = head + step * (i + 1)
            weights[i] = wide_multiply(
                (<const ExtendedFloat*>ws.chart.arcs)[head * (ws.n + 1) + dep],
                weight_of_side(ws, dep, end))
        return weight_of_side(ws, head, end)
    head, end = min(head, draft.dep), max(head, draft.dep)
    total = wide_from(0, 0)
    for i in range(draft.n_choices):
        weights[i] = wide_multiply(
            weight_of_side(ws, head, head + i), weight_of_side(ws, end, head + i + 1))
        total = wide_add(total, weights[i])
    return total


cdef void draft_choose(SpanSums* ws, Draft* draft, Py_ssize_t choice) noexcept nogil:
    """Make a choice and go on to the next one. O(1)."""
    cdef Py_ssize_t head, end, step, low, high
    if draft.stage == DRAFT_ROOT:
        draft.heads[choice + 1] = 0
        draft.top = push(ws.todo, push(ws.todo, 0, choice + 1, ws.n), choice + 1, 1)
        next_span(ws, draft)
        return
    head = ws.todo[draft.top - 2]
    end = ws.todo[draft.top - 1]
    if draft.stage == DRAFT_DEPENDENT:
        step = 1 if end > head else -1
        draft.dep = head + step * (choice + 1)
        draft.heads[draft.dep] = <int32_t>head
        draft.stage = DRAFT_BORDER
        draft.n_choices = choice + 1
        return
    # The parts take the place of the span.
    low, high = min(head, draft.dep), max(head, draft.dep)
    draft.top = push(ws.todo, draft.top - 2, draft.dep, end)
    draft.top = push(ws.todo, draft.top, high, low + choice + 1)
    draft.top = push(ws.todo, draft.top, low, low + choice)
    next_span(ws, draft)


cdef void draw_projective(
        SpanSums* ws, Stream* random, int32_t* heads) noexcept nogil:
    """Draw a tree in proportion to its weight, from the root down. O(n^2) at most."""
    cdef ExtendedFloat* weights = <ExtendedFloat*>ws.row
    cdef ExtendedFloat total
    cdef Draft draft
    draft_begin(ws, heads, &draft)
    while draft.n_choices > 0:
        total = draft_weigh(ws, &draft, weights)
        poll(2 * draft.n_choices)
        draft_choose(ws, &draft, draw_wide(weights, draft.n_choices, total, random))
