"""Trees drawn by undoing the elimination (_matrix_tree): words come back one after another.

Eliminating word k turned the weight of j -> i into A'[j, i] = A[j, i] + A[j, k] A[k, i] / S. So an
arc of a tree T' without k stands for the arc itself, or for a way through k, in proportion to the
two terms. To put k in:

- each arc of T' is drawn to be the one or the other; C are the words whose arc leads through k;
- without those arcs, T' is a forest; R is what of it still hangs from ROOT;
- the words of C get k for their head, and k gets one from R, in proportion to A[k, .].

If T' is distributed by its weight, so is the outcome T. For take a forest F and a set C of its
roots. The trees T made of them weigh, beyond F and the A[j, k] of C, the sum of A[k, i] over R. The
trees T' send each of C through k to some i, so that all is connected: a tree over the components of
F, in which every component has the same choice of heads, A[k, i] / S, that adds up to 1; all these
trees weigh what R has of that choice (Cayley's formula with weights), times S that is again the sum
of A[k, i] over R. With a single root the same holds, R being without ROOT itself. Or the arc that
leads through k is the one from ROOT: then k gets ROOT, every component of F is one of C, and the
trees, summed over which of them has that arc, weigh as much again. For words eliminated after the
turn, head 0 means the word of the turn.

Which word an arc will lead through is drawn when the arc comes up, for all words still to come:
they are the terms of one sum, whose total the elimination knew. A tree takes O(n) for each time
that a word gets another head: O(n^2 log n) where scores are not too sure, O(n^3) at most, and no
more where words strongly prefer each other. There is no subtraction.
"""
from libc.stddef cimport size_t
from libc.stdint cimport int32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from spacy_rootmind.kernel.decode cimport DECODE_NO_MEMORY, DECODE_OK, DECODE_UNSETTLED
from spacy_rootmind.kernel.elimination cimport TreeSum
from spacy_rootmind.kernel.random cimport RandomSource, draw_index, next_double
from weights cimport (
    Wide,
    add,
    divide,
    is_zero,
    less,
    multiply,
    to_double,
    weight_from,
    weight_t,
)


cdef enum:
    # Heads that may turn out not to hang from ROOT before it is found out of all which ones do.
    TRIES = 8
    UNKNOWN = 0
    HANGS = 1
    CUT_OFF = 2


# --- memory ------------------------------------------------------------------------------------

cdef int make_block(Insertion* insertion, size_t item_size) noexcept nogil:
    """Have room for items of that size; returns DECODE_OK or DECODE_NO_MEMORY."""
    cdef size_t width = <size_t>insertion.max_words + 1
    cdef size_t row = width * item_size
    if item_size > insertion.item_size:
        free(insertion.block)
        insertion.item_size = 0
        insertion.block = malloc(width * row + 3 * row)
        if insertion.block is NULL:
            return DECODE_NO_MEMORY
        insertion.item_size = item_size
    insertion.columns = insertion.block
    insertion.root_weights = <char*>insertion.block + width * row
    insertion.root_totals = <char*>insertion.root_weights + row
    insertion.root_shares = <char*>insertion.root_totals + row
    return DECODE_OK


cdef int insertion_init(Insertion* insertion, Py_ssize_t max_words) noexcept nogil:
    """Allocate for sentences of up to `max_words` words: 8 n^2 + O(n) bytes, or 16 n^2 once wide.

    Returns DECODE_OK or DECODE_NO_MEMORY.
    """
    cdef size_t width = <size_t>max_words + 1
    memset(insertion, 0, sizeof(Insertion))
    insertion.max_words = max_words
    insertion.word_block = malloc(width * (sizeof(double) + 2 * sizeof(int32_t) + 2))
    if insertion.word_block is NULL:
        return DECODE_NO_MEMORY
    insertion.weights = <double*>insertion.word_block
    insertion.first_due = <int32_t*>(insertion.weights + width)
    insertion.next_due = insertion.first_due + width
    insertion.cut = <unsigned char*>(insertion.next_due + width)
    insertion.state = insertion.cut + width
    return make_block(insertion, sizeof(double))


cdef void insertion_free(Insertion* insertion) noexcept nogil:
    """Free all memory; harmless when called twice."""
    free(insertion.block)
    free(insertion.word_block)
    insertion.block = insertion.word_block = NULL


# --- a sentence --------------------------------------------------------------------------------

cdef void fill_columns(
        const weight_t* of_type, Insertion* insertion, const TreeSum* sum) noexcept nogil:
    """Transpose the pivots."""
    cdef Py_ssize_t width = insertion.max_words + 1
    cdef weight_t* columns = <weight_t*>insertion.columns
    cdef const weight_t* pivots = <const weight_t*>sum.pivots
    cdef Py_ssize_t k, head
    for k in range(1, sum.n + 1):
        for head in range(k):
            columns[head * width + k] = pivots[k * sum.stride + head]


cdef int insertion_begin(Insertion* insertion, const TreeSum* sum) noexcept nogil:
    """Prepare draws from the trees that `sum` was summed over. O(n^2).

    Returns DECODE_OK or DECODE_NO_MEMORY.
    """
    cdef int status
    insertion.root = -1
    if sum.beyond_float64:
        status = make_block(insertion, sizeof(Wide))
        if status == DECODE_OK:
            fill_columns(<const Wide*>NULL, insertion, sum.wide)
        return status
    status = make_block(insertion, sizeof(double))
    if status == DECODE_OK:
        fill_columns(<const double*>NULL, insertion, sum)
    return status


cdef void weigh_root(
        const weight_t* of_type, Insertion* insertion, const TreeSum* sum, Py_ssize_t root
) noexcept nogil:
    """Eliminate once more, for the root arcs of all words or that of one. O(n^2)."""
    cdef Py_ssize_t n = sum.n
    cdef const weight_t* weights = <const weight_t*>sum.weights
    cdef const weight_t* sums = <const weight_t*>sum.sums
    cdef const weight_t* factors
    cdef weight_t* direct = <weight_t*>insertion.root_weights
    cdef weight_t* totals = <weight_t*>insertion.root_totals
    cdef weight_t* shares = <weight_t*>insertion.root_shares
    cdef weight_t even, odd
    cdef Py_ssize_t word, k
    for word in range(n, sum.turn - 1, -1):
        factors = <const weight_t*>sum.factors + word * sum.stride
        even = direct[word] = weights[word * sum.stride]
        if root > 0:
            even = direct[word] = weight_from(word == root, of_type)
        # Two sums, so that additions need not wait for each other.
        odd = weight_from(0, of_type)
        for k in range(word + 1, n, 2):
            even = add(even, multiply(factors[k], shares[k]))
            odd = add(odd, multiply(factors[k + 1], shares[k + 1]))
        if (n - word) % 2 == 1:
            even = add(even, multiply(factors[n], shares[n]))
        totals[word] = add(even, odd)
        shares[word] = divide(totals[word], sums[word])
    insertion.root = root


# --- draws -------------------------------------------------------------------------------------

cdef inline void put_off(Insertion* insertion, Py_ssize_t word, Py_ssize_t k) noexcept nogil:
    """Let the arc of a word lead through k."""
    insertion.next_due[word] = insertion.first_due[k]
    insertion.first_due[k] = <int32_t>word


cdef void draw_way(
        weight_t total, Insertion* insertion, const TreeSum* sum, Py_ssize_t word, Py_ssize_t head,
        const RandomSource* random) noexcept nogil:
    """Draw which word to come an arc leads through, if any; `total` is the weight of all ways."""
    cdef const weight_t* factors = <const weight_t*>sum.factors + word * sum.stride
    cdef const weight_t* shares = <const weight_t*>insertion.columns + head * (
        insertion.max_words + 1)
    cdef weight_t passed = (<const weight_t*>sum.weights)[word * sum.stride + head]
    cdef weight_t left, way
    cdef Py_ssize_t k, last = 0
    if sum.single_root and head == 0:
        if word < sum.turn:
            # To this word ROOT is that word.
            passed = weight_from(0, <const weight_t*>NULL)
        else:
            passed = (<const weight_t*>insertion.root_weights)[word]
            shares = <const weight_t*>insertion.root_shares
    left = multiply(
        total, weight_from(next_double(random), <const weight_t*>NULL))
    if less(left, passed):
        return
    for k in range(max(word, head) + 1, sum.n + 1):
        way = multiply(factors[k], shares[k])
        passed = add(passed, way)
        if not is_zero(way):
            last = k
            if less(left, passed):
                break
    if last > 0:
        put_off(insertion, word, last)


cdef bint hangs(const Insertion* insertion, const int32_t* heads, Py_ssize_t word) noexcept nogil:
    """Whether a word hangs from ROOT without the arcs that are cut."""
    while word != 0 and not insertion.cut[word]:
        word = heads[word]
    return word == 0


cdef void find_all_that_hang(
        Insertion* insertion, const int32_t* heads, Py_ssize_t n_words) noexcept nogil:
    """Set `state` of words 0..n_words - 1 to HANGS or CUT_OFF. O(n)."""
    cdef unsigned char* state = insertion.state
    cdef unsigned char found
    cdef Py_ssize_t start, word
    memset(state, UNKNOWN, n_words)
    state[0] = HANGS
    for start in range(1, n_words):
        word = start
        while state[word] == UNKNOWN and not insertion.cut[word]:
            word = heads[word]
        found = state[word] if state[word] != UNKNOWN else CUT_OFF
        word = start
        while state[word] == UNKNOWN:
            state[word] = found
            if insertion.cut[word]:
                break
            word = heads[word]


cdef bint weigh_heads(
        const weight_t* pivot, Py_ssize_t k, bint only_hanging, Insertion* insertion, double* total
) noexcept nogil:
    """Fill `weights` with those of the heads of k, of any scale; False if all are 0."""
    cdef weight_t largest = weight_from(0, pivot)
    cdef Py_ssize_t head
    for head in range(k):
        if not (only_hanging and insertion.state[head] == CUT_OFF) and less(largest, pivot[head]):
            largest = pivot[head]
    if is_zero(largest):
        return False
    total[0] = 0
    for head in range(k):
        insertion.weights[head] = 0
        if not (only_hanging and insertion.state[head] == CUT_OFF):
            insertion.weights[head] = to_double(divide(pivot[head], largest))
            total[0] += insertion.weights[head]
    return True


cdef Py_ssize_t draw_hanging_head(
        const weight_t* pivot, Py_ssize_t k, bint some_cut, const int32_t* heads,
        Insertion* insertion, const RandomSource* random) noexcept nogil:
    """Draw a head for k among those that hang from ROOT; -1 if they have no weight."""
    cdef const double* weights
    cdef double total = 1
    cdef Py_ssize_t head
    cdef int _try
    if weight_t is double:
        weights = pivot
    else:
        if not weigh_heads(pivot, k, False, insertion, &total):
            return -1
        weights = insertion.weights
    for _try in range(TRIES):
        head = draw_index(weights, k, total, random)
        if not some_cut or hangs(insertion, heads, head):
            return head
    find_all_that_hang(insertion, heads, k)
    if not weigh_heads(pivot, k, True, insertion, &total):
        return -1
    return draw_index(insertion.weights, k, total, random)


cdef bint cut_due(Insertion* insertion, Py_ssize_t k, const int32_t* heads) noexcept nogil:
    """Cut the arcs that lead through k; returns whether that from ROOT is among them."""
    cdef Py_ssize_t word = insertion.first_due[k]
    cdef bint root_cut = False
    while word != 0:
        insertion.cut[word] = True
        root_cut |= heads[word] == 0
        word = insertion.next_due[word]
    return root_cut


cdef void hang_due(
        const weight_t* factors, Insertion* insertion, const TreeSum* sum, Py_ssize_t k,
        const RandomSource* random, int32_t* heads) noexcept nogil:
    """Hang the words whose arcs were cut from k."""
    cdef Py_ssize_t word = insertion.first_due[k]
    cdef Py_ssize_t following
    while word != 0:
        following = insertion.next_due[word]
        insertion.cut[word] = False
        heads[word] = <int32_t>k
        draw_way(factors[word * sum.stride + k], insertion, sum, word, k, random)
        word = following


cdef int draw_as(
        const weight_t* of_type, Insertion* insertion, const TreeSum* sum, Py_ssize_t root,
        const RandomSource* random, int32_t* heads) noexcept nogil:
    cdef const weight_t* pivots
    cdef weight_t total
    cdef Py_ssize_t k, head
    cdef bint root_cut
    if sum.single_root and insertion.root != root:
        weigh_root(of_type, insertion, sum, root)
    memset(insertion.first_due, 0, (sum.n + 1) * sizeof(int32_t))
    memset(insertion.cut, 0, sum.n + 1)
    heads[0] = -1
    for k in range(1, sum.n + 1):
        pivots = <const weight_t*>sum.pivots + k * sum.stride
        root_cut = cut_due(insertion, k, heads)
        if sum.single_root and (k == sum.turn or (k > sum.turn and root_cut)):
            head = 0
            total = (<const weight_t*>insertion.root_totals)[k]
        else:
            head = draw_hanging_head(
                pivots, k, insertion.first_due[k] != 0, heads, insertion, random)
            if head < 0:
                return DECODE_UNSETTLED
            total = multiply(pivots[head], (<const weight_t*>sum.sums)[k])
        hang_due(<const weight_t*>sum.factors, insertion, sum, k, random, heads)
        heads[k] = <int32_t>head
        draw_way(total, insertion, sum, k, head, random)
    return DECODE_OK


cdef int insertion_draw(
        Insertion* insertion, const TreeSum* sum, Py_ssize_t root, const RandomSource* random,
        int32_t* heads) noexcept nogil:
    """Draw a tree; see the declaration.

    Returns DECODE_OK, or DECODE_UNSETTLED where float64 does not do.
    """
    if sum.beyond_float64:
        return draw_as(<const Wide*>NULL, insertion, sum.wide, root, random, heads)
    return draw_as(<const double*>NULL, insertion, sum, root, random, heads)
