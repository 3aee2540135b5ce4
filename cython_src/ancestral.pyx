"""Sampling by undoing the elimination: words are inserted one after another.

Eliminating word k turned the weight of the arc i -> j into A'[j, i], which is A[j, i] plus
A[j, k] A[k, i] / S. So an arc of a tree T' without k stands for the arc itself, or for a route
through k, in proportion to the two terms. To insert k:

- for each arc of T', draw which of the two it is; C is the set of words whose arc leads through k;
- without those arcs, T' is a forest; R is the part of it that is still connected to ROOT;
- the words of C get the head k, and k gets a head from R, in proportion to A[k, .].

If T' is distributed by its weight, so is the result T. Proof: take a forest F and a set C of its
roots. The trees T made of them weigh, apart from F and the A[j, k] of C, the sum of A[k, i] over R.
The trees T' connect each word of C through k to some i: they are trees over the components of F, in
which every component has the same choice of heads, A[k, i] / S, that adds up to 1. By Cayley's
formula with weights, all these trees together weigh the share of R in that choice; times S, this is
again the sum of A[k, i] over R. With a single root the same holds, with R not including ROOT. Or
the arc that leads through k is the one from ROOT: then k gets ROOT, every component of F is in C,
and the trees, summed over which of them has that arc, weigh the same again. For words eliminated
after the root word, head 0 means the root word. R always has a head that k can have: the head of
the first word of C on a path from ROOT, whose arc was drawn to lead through k.

The word that an arc will lead through is drawn when the arc is made, among all words yet to be
inserted: these are the terms of one sum, whose total the elimination found. A tree takes O(n) each
time that a word gets another head: O(n^2 log n) where scores are not too far apart, O(n^3) at most,
and no more where words strongly prefer each other. There is no subtraction.
"""
from libc.stddef cimport size_t
from libc.stdint cimport int32_t
from libc.stdlib cimport free
from libc.string cimport memset

from spacy_rootmind.kernel.interrupt cimport poll_row, require
from spacy_rootmind.kernel.partition cimport TreeSum
from spacy_rootmind.kernel.random cimport Stream, draw_index, next_double
from spacy_rootmind.kernel.room cimport Layout, add_array, allocate
from weights cimport (
    ExtendedFloat,
    add,
    divide,
    divide_by_largest,
    is_zero,
    less,
    multiply,
    weight_from,
    weight_t,
)


cdef enum:
    # Heads to try one by one for a connection to ROOT, before it is found out for all of them.
    TRIES = 8
    UNKNOWN = 0
    CONNECTED = 1
    CUT_OFF = 2


# --- memory ------------------------------------------------------------------------------------

cdef void make_block(Ancestral* ancestral, size_t item_size) noexcept nogil:
    """Allocate for items of that size, unless that has been done; gives up without memory."""
    cdef size_t width = <size_t>ancestral.max_words + 1
    cdef Layout layout
    if item_size <= ancestral.item_size:
        return
    free(ancestral.block)
    layout.n_arrays = layout.size = 0
    add_array(&layout, &ancestral.columns, width * width, item_size)
    add_array(&layout, &ancestral.root_weights, width, item_size)
    add_array(&layout, &ancestral.root_totals, width, item_size)
    add_array(&layout, &ancestral.root_shares, width, item_size)
    require(allocate(&layout, &ancestral.block, False))
    ancestral.item_size = item_size


cdef int ancestral_init(Ancestral* ancestral, Py_ssize_t max_words) noexcept nogil:
    """Allocate O(n) bytes for up to `max_words` words; a Status. Draws add 8 n^2, or 16 n^2."""
    cdef size_t width = <size_t>max_words + 1
    cdef Layout layout
    memset(ancestral, 0, sizeof(Ancestral))
    ancestral.max_words = max_words
    layout.n_arrays = layout.size = 0
    add_array(&layout, <void**>&ancestral.weights, width, sizeof(double))
    add_array(&layout, <void**>&ancestral.first_waiting, width, sizeof(int32_t))
    add_array(&layout, <void**>&ancestral.next_waiting, width, sizeof(int32_t))
    add_array(&layout, <void**>&ancestral.cut, width, sizeof(char))
    add_array(&layout, <void**>&ancestral.state, width, sizeof(int32_t))
    return allocate(&layout, &ancestral.word_block, False)


cdef void ancestral_free(Ancestral* ancestral) noexcept nogil:
    """Free all memory; harmless when called twice."""
    free(ancestral.block)
    free(ancestral.word_block)
    ancestral.block = ancestral.word_block = NULL


# --- a sentence --------------------------------------------------------------------------------

cdef void fill_columns(
        const weight_t* of_type, Ancestral* ancestral, const TreeSum* sum) noexcept nogil:
    """Transpose the pivots."""
    cdef Py_ssize_t width = ancestral.max_words + 1
    cdef weight_t* columns = <weight_t*>ancestral.columns
    cdef const weight_t* pivots = <const weight_t*>sum.pivots
    cdef Py_ssize_t k, head
    for k in range(1, sum.n + 1):
        poll_row(k, 8 * k)
        for head in range(k):
            columns[head * width + k] = pivots[k * sum.stride + head]


cdef void ancestral_begin(Ancestral* ancestral, const TreeSum* sum) noexcept nogil:
    """Prepare draws from the trees that `sum` was summed over. O(n^2)."""
    ancestral.root = -1
    if sum.beyond_float64:
        make_block(ancestral, sizeof(ExtendedFloat))
        fill_columns(<const ExtendedFloat*>NULL, ancestral, sum.wide)
    else:
        make_block(ancestral, sizeof(double))
        fill_columns(<const double*>NULL, ancestral, sum)


cdef void weigh_root(
        const weight_t* of_type, Ancestral* ancestral, const TreeSum* sum, Py_ssize_t root
) noexcept nogil:
    """Redo the elimination for the root arcs of all words, or of one word. O(n^2)."""
    cdef Py_ssize_t n = sum.n
    cdef const weight_t* weights = <const weight_t*>sum.weights
    cdef const weight_t* sums = <const weight_t*>sum.sums
    cdef const weight_t* factors
    cdef weight_t* direct = <weight_t*>ancestral.root_weights
    cdef weight_t* totals = <weight_t*>ancestral.root_totals
    cdef weight_t* shares = <weight_t*>ancestral.root_shares
    cdef weight_t even, odd
    cdef Py_ssize_t word, k
    for word in range(n, sum.root_word - 1, -1):
        poll_row(word, n)
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
    ancestral.root = root


# --- draws -------------------------------------------------------------------------------------

cdef inline void route_through(Ancestral* ancestral, Py_ssize_t word, Py_ssize_t k) noexcept nogil:
    """Let the arc of a word lead through k, once that is inserted."""
    ancestral.next_waiting[word] = ancestral.first_waiting[k]
    ancestral.first_waiting[k] = <int32_t>word


cdef void draw_route(
        weight_t total, Ancestral* ancestral, const TreeSum* sum, Py_ssize_t word, Py_ssize_t head,
        Stream* random) noexcept nogil:
    """Draw the word that an arc will lead through, if any; `total` is the weight of all routes."""
    cdef const weight_t* factors = <const weight_t*>sum.factors + word * sum.stride
    cdef const weight_t* shares = <const weight_t*>ancestral.columns + head * (
        ancestral.max_words + 1)
    cdef weight_t passed = (<const weight_t*>sum.weights)[word * sum.stride + head]
    cdef weight_t left, route
    cdef Py_ssize_t k, last = 0
    if sum.single_root and head == 0:
        if word < sum.root_word:
            # For this word, head 0 is the root word.
            passed = weight_from(0, <const weight_t*>NULL)
        else:
            passed = (<const weight_t*>ancestral.root_weights)[word]
            shares = <const weight_t*>ancestral.root_shares
    left = multiply(
        total, weight_from(next_double(random), <const weight_t*>NULL))
    if less(left, passed):
        return
    for k in range(max(word, head) + 1, sum.n + 1):
        route = multiply(factors[k], shares[k])
        passed = add(passed, route)
        if not is_zero(route):
            last = k
            if less(left, passed):
                break
    if last > 0:
        route_through(ancestral, word, last)


cdef bint reaches_root(
        const Ancestral* ancestral, const int32_t* heads, Py_ssize_t word) noexcept nogil:
    """Whether a word is connected to ROOT without the arcs that are cut."""
    while word != 0 and not ancestral.cut[word]:
        word = heads[word]
    return word == 0


cdef void find_all_that_reach_root(
        Ancestral* ancestral, const int32_t* heads, Py_ssize_t n_words) noexcept nogil:
    """Set `state` of words 0..n_words - 1 to CONNECTED or CUT_OFF. O(n)."""
    cdef int32_t* state = ancestral.state
    cdef int32_t found
    cdef Py_ssize_t start, word
    memset(state, UNKNOWN, n_words * sizeof(int32_t))
    state[0] = CONNECTED
    for start in range(1, n_words):
        word = start
        while state[word] == UNKNOWN and not ancestral.cut[word]:
            word = heads[word]
        found = state[word] if state[word] != UNKNOWN else CUT_OFF
        word = start
        while state[word] == UNKNOWN:
            state[word] = found
            if ancestral.cut[word]:
                break
            word = heads[word]


cdef Py_ssize_t draw_connected_head(
        const weight_t* pivot, Py_ssize_t k, bint some_cut, const int32_t* heads,
        Ancestral* ancestral, Stream* random) noexcept nogil:
    """Draw a head for k among those connected to ROOT."""
    cdef const double* weights
    cdef double total = 1
    cdef Py_ssize_t head
    cdef int _try
    if weight_t is double:
        weights = pivot
    else:
        total = divide_by_largest(ancestral.weights, pivot, NULL, 0, k)
        weights = ancestral.weights
    for _try in range(TRIES):
        head = draw_index(weights, k, total, random)
        if not some_cut or reaches_root(ancestral, heads, head):
            return head
    find_all_that_reach_root(ancestral, heads, k)
    total = divide_by_largest(ancestral.weights, pivot, ancestral.state, CONNECTED, k)
    return draw_index(ancestral.weights, k, total, random)


cdef bint cut_waiting(Ancestral* ancestral, Py_ssize_t k, const int32_t* heads) noexcept nogil:
    """Cut the arcs that lead through k; returns whether one of them is from ROOT."""
    cdef Py_ssize_t word = ancestral.first_waiting[k]
    cdef bint root_cut = False
    while word != 0:
        ancestral.cut[word] = True
        root_cut |= heads[word] == 0
        word = ancestral.next_waiting[word]
    return root_cut


cdef void attach_waiting(
        const weight_t* factors, Ancestral* ancestral, const TreeSum* sum, Py_ssize_t k,
        Stream* random, int32_t* heads) noexcept nogil:
    """Give the words whose arcs were cut the head k."""
    cdef Py_ssize_t word = ancestral.first_waiting[k]
    cdef Py_ssize_t following, n_attached = 0
    while word != 0:
        n_attached += 1
        poll_row(n_attached, 4 * sum.n)
        following = ancestral.next_waiting[word]
        ancestral.cut[word] = False
        heads[word] = <int32_t>k
        draw_route(factors[word * sum.stride + k], ancestral, sum, word, k, random)
        word = following


cdef void draw_as(
        const weight_t* of_type, Ancestral* ancestral, const TreeSum* sum, Py_ssize_t root,
        Stream* random, int32_t* heads) noexcept nogil:
    cdef const weight_t* pivots
    cdef weight_t total
    cdef Py_ssize_t k, head
    cdef bint root_cut
    if sum.single_root and ancestral.root != root:
        weigh_root(of_type, ancestral, sum, root)
    memset(ancestral.first_waiting, 0, (sum.n + 1) * sizeof(int32_t))
    memset(ancestral.cut, 0, sum.n + 1)
    heads[0] = -1
    for k in range(1, sum.n + 1):
        poll_row(k, 16 * sum.n)
        pivots = <const weight_t*>sum.pivots + k * sum.stride
        root_cut = cut_waiting(ancestral, k, heads)
        if sum.single_root and (k == sum.root_word or (k > sum.root_word and root_cut)):
            head = 0
            total = (<const weight_t*>ancestral.root_totals)[k]
        else:
            head = draw_connected_head(
                pivots, k, ancestral.first_waiting[k] != 0, heads, ancestral, random)
            total = multiply(pivots[head], (<const weight_t*>sum.sums)[k])
        attach_waiting(<const weight_t*>sum.factors, ancestral, sum, k, random, heads)
        heads[k] = <int32_t>head
        draw_route(total, ancestral, sum, k, head, random)


cdef void ancestral_draw(
        Ancestral* ancestral, const TreeSum* sum, Py_ssize_t root, Stream* random,
        int32_t* heads) noexcept nogil:
    """Draw a tree to heads[0..n], with a single root given that it is `root`, unless that is 0."""
    if sum.beyond_float64:
        draw_as(<const ExtendedFloat*>NULL, ancestral, sum.wide, root, random, heads)
    else:
        draw_as(<const double*>NULL, ancestral, sum, root, random, heads)
