"""The k best projective trees, exact and distinct: O(n^3), then O(n log n) to O(n^2) for each.

`chart` defines the spans; each tree is made of them in one way, so that different
derivations are different trees. A span's derivations are listed best first, and only when a
better tree asks for them (Huang & Chiang 2005, algorithm 3). A derivation is a split and the ranks
of its two parts in their own lists. Candidates for the next place wait in a heap per span: first
the best of each split, and after a derivation was listed, the two with the next rank of one part.
Both ranks can be raised in two orders, and only one is used: the second part's rank is raised while
the first is its best.
"""
from libc.math cimport INFINITY
from libc.stddef cimport size_t
from libc.stdint cimport int32_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

from spacy_rootmind.kernel.decode cimport (
    DECODE_BAD_SCORE,
    DECODE_LOST_DIGITS,
    DECODE_NO_MEMORY,
    DECODE_NO_TREE,
    DECODE_OK,
    sums_overflow,
)
from spacy_rootmind.kernel.eisner cimport (
    Chart,
    ChartWorkspace,
    chart_workspace_free,
    chart_workspace_init,
    fill_best,
)
from spacy_rootmind.kernel.heap cimport heap_pop, heap_push
from spacy_rootmind.kernel.interrupt cimport poll, run_part
from spacy_rootmind.kernel.kbest cimport trees_found
from spacy_rootmind.kernel.room cimport make_room

cdef enum SpanKind:
    COMPLETE        # of a head, up to an end
    INNER           # between a head and its dependent, either way round, without their arc
    WHOLE           # the sentence, with a single root

cdef struct Span:
    SpanKind kind
    int32_t first           # the head if it is complete
    int32_t last
    Derivation* listed      # best first
    Py_ssize_t n_listed
    Py_ssize_t listed_room
    Derivation* waiting     # heap of those that may come next
    Py_ssize_t n_waiting
    Py_ssize_t waiting_room
    bint exhausted

# A part of a span: the number of a Span, or NO_SPAN for a single word, which has one derivation.
cdef struct Part:
    SpanKind kind
    Py_ssize_t first
    Py_ssize_t last

# A span whose list is to become longer by one, and what has been done for that.
cdef struct Advance:
    Py_ssize_t span
    int stage

cdef struct Search:
    Py_ssize_t n
    Py_ssize_t k            # trees wanted
    bint single_root
    const double* square    # (n + 1) x (n + 1), as given
    double* scores          # (n + 1) x (n + 1), less the highest of the row
    ChartWorkspace best     # scores
    int32_t* numbers        # of complete spans, then of inner ones; 0 if not made yet
    Span* spans             # from 1
    Py_ssize_t n_spans
    Py_ssize_t spans_room
    Advance* advances       # stack
    Py_ssize_t* todo        # stack of derivations to be written out: span and rank
    int32_t* heads          # found x (n + 1)
    Py_ssize_t found
    Py_ssize_t heads_room


# --- memory ------------------------------------------------------------------------------------

cdef int search_init(Search* search, Py_ssize_t n, bint single_root) noexcept nogil:
    """Prepare an empty search; on DECODE_NO_MEMORY, too, `search_free` is to be called."""
    cdef size_t width = <size_t>n + 1
    cdef size_t area = width * width
    memset(search, 0, sizeof(Search))
    search.n = n
    search.single_root = single_root
    # The area has to fit a size_t of 32 bits, too.
    if area > (<size_t>-1) // 32:
        return DECODE_NO_MEMORY
    search.scores = <double*>malloc(area * sizeof(double))
    search.numbers = <int32_t*>calloc(2 * area, sizeof(int32_t))
    search.advances = <Advance*>malloc((2 * width + 2) * sizeof(Advance))
    search.todo = <Py_ssize_t*>malloc(4 * (2 * width + 2) * sizeof(Py_ssize_t))
    if (
            search.scores is NULL or search.numbers is NULL or search.advances is NULL
            or search.todo is NULL):
        return DECODE_NO_MEMORY
    return chart_workspace_init(&search.best, n, True)


cdef void search_free(Search* search) noexcept nogil:
    """Free all that a search holds; harmless when called twice."""
    cdef Py_ssize_t i
    for i in range(1, search.n_spans + 1):
        free(search.spans[i].listed)
        free(search.spans[i].waiting)
    free(search.spans)
    chart_workspace_free(&search.best)
    free(search.scores)
    free(search.numbers)
    free(search.advances)
    free(search.todo)
    free(search.heads)
    memset(search, 0, sizeof(Search))


# --- best scores -------------------------------------------------------------------------------

cdef int lower_scores(
        const double* square, Py_ssize_t n, double* scores) noexcept nogil:
    """Copy scores less the highest of their word; returns a DecodeStatus."""
    cdef Py_ssize_t dep, head
    cdef double highest
    cdef bint bad = False, no_head = False, lost = False
    for dep in range(1, n + 1):
        highest = -INFINITY
        for head in range(n + 1):
            if head != dep:
                bad |= not square[dep * (n + 1) + head] < INFINITY
                highest = max(highest, square[dep * (n + 1) + head])
        no_head |= highest == -INFINITY
        for head in range(n + 1):
            scores[dep * (n + 1) + head] = (
                -INFINITY if head == dep or highest == -INFINITY
                else square[dep * (n + 1) + head] - highest)
            lost |= (
                scores[dep * (n + 1) + head] == -INFINITY and head != dep
                and square[dep * (n + 1) + head] > -INFINITY)
    if bad:
        return DECODE_BAD_SCORE
    if no_head:
        return DECODE_NO_TREE
    return DECODE_LOST_DIGITS if lost else DECODE_OK


cdef inline double best_score(const Search* search, Part part) noexcept nogil:
    cdef const Chart* chart = &search.best.chart
    cdef const void* scores = chart.inner
    if part.kind == COMPLETE:
        scores = chart.right if part.first < part.last else chart.left
    return (<const double*>scores)[part.first * (search.n + 1) + part.last]


# --- derivations -------------------------------------------------------------------------------

cdef void find_parts(
        const Search* search, const Span* span, Py_ssize_t split, Part* left, Part* right,
        double* arc) noexcept nogil:
    """Find the two parts of a span at a split, and the score of the arc that joins them."""
    cdef Py_ssize_t width = search.n + 1
    arc[0] = 0
    left.kind = right.kind = COMPLETE
    if span.kind == COMPLETE:
        left.kind = INNER
        left.first = min(<Py_ssize_t>span.first, split)
        left.last = max(<Py_ssize_t>span.first, split)
        right.first = split
        right.last = span.last
        arc[0] = search.scores[split * width + span.first]
    elif span.kind == INNER:
        left.first = span.first
        left.last = split
        right.first = span.last
        right.last = split + 1
    else:
        left.first = right.first = split
        left.last = 1
        right.last = search.n
        arc[0] = search.scores[split * width]


cdef int wait_for(Span* span, Derivation derivation) noexcept nogil:
    """Add to a span's heap; returns a DecodeStatus."""
    cdef int status = make_room(
        <void**>&span.waiting, &span.waiting_room, span.n_waiting + 1, sizeof(Derivation))
    if status == DECODE_OK:
        heap_push(span.waiting, &span.n_waiting, derivation)
    return status


cdef int list_next(Span* span) noexcept nogil:
    """Move the best from a span's heap to its list, if there is any; returns a DecodeStatus."""
    cdef int status
    if span.n_waiting == 0:
        span.exhausted = True
        return DECODE_OK
    status = make_room(
        <void**>&span.listed, &span.listed_room, span.n_listed + 1, sizeof(Derivation))
    if status == DECODE_OK:
        span.listed[span.n_listed] = heap_pop(span.waiting, &span.n_waiting)
        span.n_listed += 1
    return status


cdef int make_span(Search* search, Part part, Py_ssize_t* number) noexcept nogil:
    """Make a span with its best derivation, and all others with best parts in its heap. O(n)."""
    cdef Span* span
    cdef Part left, right
    cdef Derivation derivation
    cdef Py_ssize_t split, first, last
    cdef double arc
    cdef int status = make_room(
        <void**>&search.spans, &search.spans_room, search.n_spans + 2, sizeof(Span))
    if status != DECODE_OK:
        return status
    search.n_spans += 1
    number[0] = search.n_spans
    span = &search.spans[search.n_spans]
    memset(span, 0, sizeof(Span))
    span.kind = part.kind
    span.first = <int32_t>part.first
    span.last = <int32_t>part.last
    first = min(part.first, part.last)
    last = max(part.first, part.last)
    # The kind of span decides which of the two ends is a split.
    if part.kind == INNER or (part.kind == COMPLETE and part.first > part.last):
        last -= 1
    elif part.kind == COMPLETE:
        first += 1
    derivation.left_rank = derivation.right_rank = 0
    for split in range(first, last + 1):
        find_parts(search, span, split, &left, &right, &arc)
        derivation.split = <int32_t>split
        derivation.score = best_score(search, left) + best_score(search, right) + arc
        if derivation.score > -INFINITY:
            status = wait_for(span, derivation)
            if status != DECODE_OK:
                return status
    return list_next(span)


cdef int find_span(Search* search, Part part, Py_ssize_t* number) noexcept nogil:
    """Find the number of a span, which may have to be made; 0 for a single word."""
    cdef Py_ssize_t width = search.n + 1
    cdef int32_t* place = search.numbers + (part.kind == INNER) * width * width
    cdef int status
    number[0] = 0
    if part.kind == COMPLETE and part.first == part.last:
        return DECODE_OK
    place += part.first * width + part.last
    if place[0] == 0:
        status = make_span(search, part, number)
        if status != DECODE_OK:
            return status
        place[0] = <int32_t>number[0]
    number[0] = place[0]
    return DECODE_OK


cdef inline bint has_rank(const Search* search, Py_ssize_t number, Py_ssize_t rank) noexcept nogil:
    return rank == 0 if number == 0 else rank < search.spans[number].n_listed


cdef inline double score_of(
        const Search* search, Py_ssize_t number, Py_ssize_t rank) noexcept nogil:
    return 0 if number == 0 else search.spans[number].listed[rank].score


cdef int list_one_more(Search* search, Py_ssize_t number) noexcept nogil:
    """Make the list of a span longer by one derivation, or mark it as exhausted.

    The successors of the last derivation in the list need the next ranks of its parts; so their
    lists may have to become longer first. Parts are shorter than their span, or have one arc less,
    so the stack holds at most 2 n. Returns a DecodeStatus.
    """
    cdef Py_ssize_t top = 1
    cdef Advance* advance
    cdef Span* span
    cdef Derivation next
    cdef Part left, right
    cdef Py_ssize_t one, other, grown
    cdef double arc
    cdef int status
    search.advances[0].span = number
    search.advances[0].stage = 0
    while top > 0:
        poll(100)
        advance = &search.advances[top - 1]
        span = &search.spans[advance.span]
        next = span.listed[span.n_listed - 1]
        if advance.stage == 2 or span.exhausted:
            status = list_next(span)
            if status != DECODE_OK:
                return status
            top -= 1
            continue
        find_parts(search, span, next.split, &left, &right, &arc)
        status = find_span(search, left, &one)
        if status == DECODE_OK:
            status = find_span(search, right, &other)
        if status != DECODE_OK:
            return status
        # The array of spans may have moved.
        span = &search.spans[advance.span]
        if advance.stage == 0:
            next.left_rank += 1
            grown = one
        elif next.left_rank == 0:
            next.right_rank += 1
            grown = other
        else:
            advance.stage = 2
            continue
        if has_rank(search, one, next.left_rank) and has_rank(search, other, next.right_rank):
            next.score = (
                score_of(search, one, next.left_rank) + score_of(search, other, next.right_rank)
                + arc)
            status = wait_for(span, next)
            if status != DECODE_OK:
                return status
            advance.stage += 1
        elif grown == 0 or search.spans[grown].exhausted:
            advance.stage += 1
        else:
            search.advances[top].span = grown
            search.advances[top].stage = 0
            top += 1
    return DECODE_OK


# --- trees -------------------------------------------------------------------------------------

cdef int write_tree(Search* search, Py_ssize_t number, Py_ssize_t rank) noexcept nogil:
    """Append the tree of a derivation of the whole sentence; returns a DecodeStatus."""
    cdef Py_ssize_t width = search.n + 1, top = 0
    cdef int32_t* heads
    cdef const Span* span
    cdef Derivation derivation
    cdef Part left, right
    cdef Py_ssize_t one, other
    cdef double arc
    cdef int status = make_room(
        <void**>&search.heads, &search.heads_room, search.found + 1, width * sizeof(int32_t))
    if status != DECODE_OK:
        return status
    heads = search.heads + search.found * width
    heads[0] = -1
    search.todo[0] = number
    search.todo[1] = rank
    top = 2 if number > 0 else 0
    while top > 0:
        top -= 2
        span = &search.spans[search.todo[top]]
        derivation = span.listed[search.todo[top + 1]]
        if span.kind != INNER:
            heads[derivation.split] = span.first
        find_parts(search, span, derivation.split, &left, &right, &arc)
        status = find_span(search, left, &one)
        if status == DECODE_OK:
            status = find_span(search, right, &other)
        if status != DECODE_OK:
            return status
        if one > 0:
            search.todo[top] = one
            search.todo[top + 1] = derivation.left_rank
            top += 2
        if other > 0:
            search.todo[top] = other
            search.todo[top + 1] = derivation.right_rank
            top += 2
    search.found += 1
    return DECODE_OK


cdef int find_trees(Search* search) noexcept nogil:
    """Find the best trees, search.k at most, into search.heads; returns a DecodeStatus."""
    cdef Py_ssize_t n = search.n, number = 0
    cdef Part whole
    cdef int status
    if n == 0:
        return write_tree(search, 0, 0)
    status = lower_scores(search.square, n, search.scores)
    if status != DECODE_OK:
        return status
    if sums_overflow(search.scores, n):
        return DECODE_LOST_DIGITS
    fill_best(<const double*>search.scores, n, search.single_root, &search.best.chart)
    whole.kind = WHOLE if search.single_root else COMPLETE
    whole.first = 1 if search.single_root else 0
    whole.last = n
    status = make_span(search, whole, &number)
    if status != DECODE_OK:
        return status
    if search.single_root:
        # The head of what is split off.
        search.spans[number].first = 0
    if search.spans[number].n_listed == 0:
        return DECODE_NO_TREE
    while status == DECODE_OK and not search.spans[number].exhausted:
        status = write_tree(search, number, search.found)
        if search.found == search.k:
            break
        if status == DECODE_OK:
            status = list_one_more(search, number)
    return status


# --- the Python boundary -----------------------------------------------------------------------

cdef int search_part(void* search) noexcept nogil:
    return find_trees(<Search*>search)


def decode_kbest(const double[:, ::1] scores not None, Py_ssize_t k, bint single_root):
    """Find the k best projective trees of one sentence; returns (status, heads).

    Arguments are checked in spacy_rootmind.trees.decoding and trusted here.
    """
    cdef Search search
    cdef int status = search_init(&search, scores.shape[0] - 1, single_root)
    search.square = &scores[0, 0]
    search.k = k
    try:
        if status == DECODE_OK:
            status = run_part(search_part, &search)
        return trees_found(status, search.heads, search.found, search.n, k)
    finally:
        search_free(&search)
