"""The k best trees, exact and distinct, in O(k n^2).

The trees are partitioned into sets, each described by arcs that its trees must or must not have
(Lawler 1972). In every set one tree is known, and the score of the best other one, with an arc of
the known tree that this one lacks. The set with the best such score is split in two by that arc.
It is quadratic because of Camerini, Fratta & Maffioli 1980: one pass over the contractions that led
to a tree finds the score of the next one, where solving a set for every arc of its tree would take
O(n^3).

With the root constraint (Zmigrod, Vieira & Cotterell 2021), a set either has its root arc fixed,
and is then an unconstrained problem with one root arc left; or its next tree with another root is
the best single-root tree without this root arc.
"""
from libc.math cimport INFINITY
from libc.stddef cimport size_t
from libc.stdint cimport int32_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

import numpy as np

from spacy_rootmind.kernel.chart cimport fill_chart
from spacy_rootmind.kernel.decode cimport (
    ALL_ROWS,
    TreeWorkspace,
    decode_tree,
    sums_overflow,
    workspace_free,
    workspace_init,
)
from spacy_rootmind.kernel.eisner cimport (
    Chart,
    ChartWorkspace,
    chart_workspace_free,
    chart_workspace_init,
)
from spacy_rootmind.kernel.interrupt cimport poll, poll_row, require, run_part
from spacy_rootmind.kernel.room cimport Layout, add_array, allocate, make_room
from spacy_rootmind.kernel.status cimport Status
from weights cimport add_exactly

# The trees found, best first.
cdef struct TreeList:
    Py_ssize_t k            # trees wanted
    Py_ssize_t found
    Py_ssize_t room
    int32_t* heads          # found x (n + 1)

# A set of trees: all in the parent set that have the arc, or all that do not. Set 0 holds all
# trees.
cdef struct TreeSet:
    Py_ssize_t parent
    int32_t dep
    int32_t head
    bint required
    bint one_root_arc       # some set up to here requires a root arc, which rules out all others

# A number as the sum of two, the second below the last place of the first.
cdef struct Exact:
    double high
    double low

# The best tree of a set that is still to come, known by its score and by an arc that it lacks.
cdef struct Pending:
    Exact gain              # how far its score exceeds the first tree's
    Py_ssize_t order        # ties go to the older
    Py_ssize_t tree_set
    Py_ssize_t known        # the tree of the set that has been found before; -1 if none
    int32_t dep             # an arc of the known tree that the best other one lacks
    int32_t head

cdef struct KBestSearch:
    Py_ssize_t n
    bint single_root
    TreeList trees
    const double* scores    # (n+1) x (n+1), as given
    double* square          # the same, with the arcs of one set
    TreeWorkspace tree
    TreeSet* sets
    Py_ssize_t n_sets
    Py_ssize_t sets_room
    Pending* queue          # binary heap
    Py_ssize_t n_pending
    Py_ssize_t queue_room
    Py_ssize_t order
    void* block
    int32_t* candidate      # heads of the tree at hand
    int32_t* first_child    # per word of it: lists of dependents
    int32_t* next_sibling
    int32_t* begin          # per word of it: its place in preorder
    int32_t* end            # per word of it: one past the place of its last descendant
    int32_t* todo


# --- heaps ---------------------------------------------------------------------------------------

# A way to make a span of two others.
cdef struct Derivation:
    double score
    Py_ssize_t left_rank
    Py_ssize_t right_rank
    int32_t split

ctypedef fused item_t:
    Pending
    Derivation


cdef inline bint comes_first(const item_t* a, const item_t* b) noexcept nogil:
    if item_t is Derivation:
        return a.score > b.score
    else:
        if a.gain.high != b.gain.high:
            return a.gain.high > b.gain.high
        if a.gain.low != b.gain.low:
            return a.gain.low > b.gain.low
        return a.order < b.order


cdef inline void heap_push(item_t* heap, Py_ssize_t* size, item_t item) noexcept nogil:
    """Add to a heap, which has room for it."""
    cdef Py_ssize_t place = size[0], above
    size[0] += 1
    while place > 0:
        above = (place - 1) // 2
        if not comes_first(&item, &heap[above]):
            break
        heap[place] = heap[above]
        place = above
    heap[place] = item


cdef inline item_t heap_pop(item_t* heap, Py_ssize_t* size) noexcept nogil:
    """Take the best from a heap, which is not empty."""
    cdef item_t best = heap[0]
    cdef item_t last
    cdef Py_ssize_t place = 0, below
    size[0] -= 1
    last = heap[size[0]]
    while True:
        below = 2 * place + 1
        if below >= size[0]:
            break
        if below + 1 < size[0] and comes_first(&heap[below + 1], &heap[below]):
            below += 1
        if not comes_first(&heap[below], &last):
            break
        heap[place] = heap[below]
        place = below
    heap[place] = last
    return best


# --- memory --------------------------------------------------------------------------------------

cdef int32_t* add_tree(TreeList* trees, Py_ssize_t width) noexcept nogil:
    """Make room for the heads of another tree, and count it."""
    make_room(<void**>&trees.heads, &trees.room, trees.found + 1, width * sizeof(int32_t))
    trees.found += 1
    return trees.heads + (trees.found - 1) * width


cdef int k_best_init(
        KBestSearch* search, const double* scores, Py_ssize_t n, Py_ssize_t k, bint single_root
) noexcept nogil:
    """Prepare an empty search; whatever is returned, `k_best_free` is to be called."""
    cdef size_t width = <size_t>n + 1
    cdef Layout layout
    memset(search, 0, sizeof(KBestSearch))
    search.n = n
    search.trees.k = k
    search.single_root = single_root
    search.scores = scores
    if workspace_init(&search.tree, n, ALL_ROWS) != Status.OK:
        return Status.NO_MEMORY
    layout.n_arrays = layout.size = 0
    add_array(&layout, <void**>&search.square, width * width, sizeof(double))
    add_array(&layout, <void**>&search.candidate, width, sizeof(int32_t))
    add_array(&layout, <void**>&search.first_child, width, sizeof(int32_t))
    add_array(&layout, <void**>&search.next_sibling, width, sizeof(int32_t))
    add_array(&layout, <void**>&search.begin, width, sizeof(int32_t))
    add_array(&layout, <void**>&search.end, width, sizeof(int32_t))
    add_array(&layout, <void**>&search.todo, width, sizeof(int32_t))
    return allocate(&layout, &search.block, False)


cdef void k_best_free(KBestSearch* search) noexcept nogil:
    """Free all that a search holds; harmless when called twice."""
    workspace_free(&search.tree)
    free(search.block)
    free(search.trees.heads)
    free(search.sets)
    free(search.queue)
    memset(search, 0, sizeof(KBestSearch))


# --- the queue of trees to come ------------------------------------------------------------------

cdef inline bint exceeds(Exact a, Exact b) noexcept nogil:
    return a.high > b.high or (a.high == b.high and a.low > b.low)


cdef inline Exact add(Exact total, double term) noexcept nogil:
    """Add a term; what rounding takes from the first part goes to the second."""
    total.high = add_exactly(total.high, term, &total.low)
    # The first part is much the larger, if it is not 0.
    cdef double high = total.high + total.low
    total.low = total.low - (high - total.high)
    total.high = high
    return total


cdef void push(KBestSearch* search, Pending pending) noexcept nogil:
    """Add to the queue."""
    make_room(<void**>&search.queue, &search.queue_room, search.n_pending + 1, sizeof(Pending))
    pending.order = search.order
    search.order += 1
    heap_push(search.queue, &search.n_pending, pending)


# --- sets of trees -------------------------------------------------------------------------------

cdef Py_ssize_t split_off(
        KBestSearch* search, Py_ssize_t parent, int32_t dep, int32_t head,
        bint required) noexcept nogil:
    """Describe the trees of `parent` with or without an arc; returns its number."""
    cdef TreeSet* new
    make_room(<void**>&search.sets, &search.sets_room, search.n_sets + 1, sizeof(TreeSet))
    new = &search.sets[search.n_sets]
    new.parent = parent
    new.dep = dep
    new.head = head
    new.required = required
    new.one_root_arc = parent >= 0 and search.sets[parent].one_root_arc
    if search.single_root and required and head == 0:
        new.one_root_arc = True
    search.n_sets += 1
    return search.n_sets - 1


cdef void load_set(KBestSearch* search, Py_ssize_t number) noexcept nogil:
    """Write the scores to the square, with -inf for all arcs that the set rules out.

    O(n^2) however long the chain of sets is: on it, an arc stands once, and a required arc (n at
    most) is what costs O(n).
    """
    cdef Py_ssize_t width = search.n + 1
    cdef Py_ssize_t other
    cdef double* row
    cdef double score
    cdef TreeSet* rule
    for other in range(1, width):
        poll_row(other, width)
        memcpy(
            search.square + other * width, search.scores + other * width, width * sizeof(double))
    while number > 0:
        rule = &search.sets[number]
        row = search.square + rule.dep * width
        if not rule.required:
            row[rule.head] = -INFINITY
        else:
            score = row[rule.head]
            for other in range(width):
                row[other] = -INFINITY
            row[rule.head] = score
            if search.single_root and rule.head == 0:
                for other in range(1, width):
                    if other != rule.dep:
                        search.square[other * width] = -INFINITY
        number = rule.parent


cdef int solve(KBestSearch* search, Py_ssize_t number) noexcept nogil:
    """Write the best tree of a set to `candidate`, and leave its contractions in the workspace."""
    cdef bint single_root = search.single_root and not search.sets[number].one_root_arc
    load_set(search, number)
    # Without ArcMax, so that the nodes are there to look at.
    return decode_tree(
        <const double*>search.square, search.n + 1, search.n, single_root, False,
        search.candidate, &search.tree)


cdef Exact candidate_gain(KBestSearch* search) noexcept nogil:
    """How far the tree at hand exceeds the score of the first tree found, summed arc by arc.

    This distinguishes scores that differ in the last place only, however large their sum, and trees
    that lack one arc of an enormous score.
    """
    cdef const int32_t* first = search.trees.heads
    cdef Py_ssize_t word
    cdef const double* row
    cdef Exact gain
    gain.high = gain.low = 0
    for word in range(1, search.n + 1):
        row = search.scores + word * (search.n + 1)
        if search.candidate[word] != first[word]:
            gain = add(add(gain, row[search.candidate[word]]), -row[first[word]])
    return gain


# --- the next tree of a set ----------------------------------------------------------------------

cdef void number_preorder(KBestSearch* search) noexcept nogil:
    """Find the place of each word, and of its last descendant, in the preorder of the tree."""
    cdef Py_ssize_t n = search.n
    cdef int32_t word, child, place = 0
    cdef Py_ssize_t top
    for word in range(<int32_t>n + 1):
        search.first_child[word] = 0
    for word in range(<int32_t>n, 0, -1):
        search.next_sibling[word] = search.first_child[search.candidate[word]]
        search.first_child[search.candidate[word]] = word
    # A word stays on the stack until its dependents are through.
    search.todo[0] = 0
    search.begin[0] = 0
    top = 1
    while top > 0:
        word = search.todo[top - 1]
        child = search.first_child[word]
        if child == 0:
            search.end[word] = place + 1
            top -= 1
        else:
            search.first_child[word] = search.next_sibling[child]
            place += 1
            search.begin[child] = place
            search.todo[top] = child
            top += 1


cdef inline const double* row_of(KBestSearch* search, Py_ssize_t node) noexcept nogil:
    if node <= search.n:
        return search.square + node * (search.n + 1)
    return search.tree.rows + search.tree.slot[node] * search.tree.row_width


cdef inline double arc_into(
        KBestSearch* search, Py_ssize_t node, Py_ssize_t head) noexcept nogil:
    """Score of the best arc from a word or ROOT into a node, in the node's own terms."""
    if head == 0:
        return search.tree.root_score[node]
    return row_of(search, node)[head]


cdef double best_from_same_head(
        KBestSearch* search, Py_ssize_t node, Py_ssize_t* dep) noexcept nogil:
    """Best way for the arc that enters a node to enter another of its words; finds the word too."""
    cdef TreeWorkspace* ws = &search.tree
    cdef Py_ssize_t head = ws.entering[node]
    cdef Py_ssize_t member, entered
    cdef double via, largest = -INFINITY
    cdef double cost = 0
    while node > search.n:
        entered = ws.entered_member[node]
        member = ws.first_member[node]
        while member != 0:
            if member != entered:
                via = arc_into(search, member, head) - ws.best_score[member] - cost
                largest = max(largest, via)
            member = ws.next_member[member]
        cost += ws.best_score[entered]
        node = entered
    dep[0] = node
    return largest


cdef double best_from_other_heads(
        KBestSearch* search, Py_ssize_t node, Py_ssize_t dep, double largest) noexcept nogil:
    """Best arc into a node that is better than `largest`, from a head that neither hangs from it
    nor is the head it has; `largest` if there is none.
    """
    cdef TreeWorkspace* ws = &search.tree
    cdef Py_ssize_t present = ws.entering[node]
    cdef Py_ssize_t head
    cdef int32_t begin = search.begin[dep]
    cdef int32_t end = search.end[dep]
    cdef const double* row = row_of(search, node)
    if present != 0 and ws.root_score[node] > largest:
        largest = ws.root_score[node]
    for head in range(1, search.n + 1):
        if row[head] > largest and head != present and not (begin <= search.begin[head] < end):
            largest = row[head]
    return largest


cdef bint find_next(KBestSearch* search, Pending* pending) noexcept nogil:
    """Find the gain of the best other tree than the one at hand, and an arc that it lacks.

    The tree at hand must be a best one of the square, decoded without the root constraint just
    now. Every arc of it is the greedy arc of one node; leaving it out costs the difference to the
    node's next best arc that does not come from below. Returns whether there is another tree.
    """
    cdef TreeWorkspace* ws = &search.tree
    cdef Py_ssize_t node, dep, cycle
    cdef double next_best
    cdef Exact present = candidate_gain(search)
    cdef Exact gain
    cdef bint found = False
    number_preorder(search)
    # A member that its cycle was entered by has lost its greedy arc; `stamp` is free to mark it.
    for node in range(1, ws.n_nodes):
        ws.stamp[node] = 0
    for cycle in range(search.n + 1, ws.n_nodes):
        ws.stamp[ws.entered_member[cycle]] = 1
    for node in range(1, ws.n_nodes):
        poll_row(node, 2 * search.n)
        if ws.stamp[node]:
            continue
        next_best = best_from_same_head(search, node, &dep)
        next_best = best_from_other_heads(search, node, dep, next_best)
        if next_best == -INFINITY:
            continue
        gain = add(add(present, next_best), -ws.best_score[node])
        if not found or exceeds(gain, pending.gain):
            found = True
            pending.gain = gain
            pending.dep = <int32_t>dep
            pending.head = ws.entering[node]
    return found


# --- search --------------------------------------------------------------------------------------

cdef void await_next(
        KBestSearch* search, Py_ssize_t number, Py_ssize_t known) noexcept nogil:
    """Queue the best tree of a set except the known one; the set has just been solved."""
    cdef Py_ssize_t width = search.n + 1
    cdef const int32_t* heads = search.trees.heads + known * width
    cdef Py_ssize_t word
    cdef Pending pending
    pending.tree_set = number
    pending.known = known
    for word in range(1, width):
        if search.candidate[word] != heads[word]:
            # Another one of the same score was found first, and is the next one.
            pending.dep = <int32_t>word
            pending.head = heads[word]
            pending.gain = candidate_gain(search)
            push(search, pending)
            return
    if find_next(search, &pending):
        push(search, pending)


cdef void await_other_root(
        KBestSearch* search, Py_ssize_t number, int32_t root) noexcept nogil:
    """Queue the best single-root tree of a set with another root."""
    cdef Pending pending
    pending.tree_set = split_off(search, number, root, 0, False)
    if solve(search, pending.tree_set) == Status.OK:
        pending.known = -1
        pending.gain = candidate_gain(search)
        push(search, pending)


cdef void find_first_of(KBestSearch* search, Py_ssize_t number) noexcept nogil:
    """Find the best tree of a set, and queue what comes after it there."""
    cdef Py_ssize_t known = search.trees.found, width = search.n + 1
    cdef int32_t root = 0
    require(solve(search, number))
    memcpy(add_tree(&search.trees, width), search.candidate, width * sizeof(int32_t))
    if not search.single_root or search.sets[number].one_root_arc:
        await_next(search, number, known)
        return
    while search.candidate[root] != 0:
        root += 1
    await_other_root(search, number, root)
    find_next_with(search, number, known, root, 0)


cdef void find_next_with(
        KBestSearch* search, Py_ssize_t number, Py_ssize_t known, int32_t dep,
        int32_t head) noexcept nogil:
    """Queue the best tree, except the known one, that has an arc of it."""
    number = split_off(search, number, dep, head, True)
    require(solve(search, number))
    await_next(search, number, known)


cdef int k_best_trees(void* argument) noexcept nogil:
    """Find the best trees into search.trees; returns a Status."""
    cdef KBestSearch* search = <KBestSearch*>argument
    cdef TreeList* trees = &search.trees
    cdef Py_ssize_t n = search.n
    cdef Pending next
    if n == 0:
        add_tree(trees, 1)[0] = -1
        return Status.OK
    if sums_overflow(search.scores, n):
        return Status.LOST_DIGITS
    find_first_of(search, split_off(search, -1, 0, 0, False))
    while trees.found < trees.k and search.n_pending > 0:
        poll_row(trees.found, 4 * n * n)
        next = heap_pop(search.queue, &search.n_pending)
        if next.known < 0:
            find_first_of(search, next.tree_set)
            continue
        find_first_of(search, split_off(search, next.tree_set, next.dep, next.head, False))
        find_next_with(search, next.tree_set, next.known, next.dep, next.head)
    return Status.OK


# --- projective trees ----------------------------------------------------------------------------
#
# O(n^3), then O(n log n) to O(n^2) for each. `chart` defines the spans; each tree is made of them
# in one way, so that different derivations are different trees. A span's derivations are listed
# best first, and only when a better tree asks for them (Huang & Chiang 2005, algorithm 3). A
# derivation is a split and the ranks of its two parts in their own lists. Candidates for the next
# place wait in a heap per span: first the best of each split, and after a derivation was listed,
# the two with the next rank of one part. Both ranks can be raised in two orders, and only one is
# used: the second part's rank is raised while the first is its best.

cdef enum SpanKind:
    COMPLETE        # of a head, up to an end
    INNER           # between a head and its dependent, either way round, without their arc
    WHOLE           # the sentence, with a single root

# A span, or a part of one; a single word is one as well, which has one derivation.
cdef struct Part:
    SpanKind kind
    Py_ssize_t first        # the head if it is complete; ROOT in the whole sentence
    Py_ssize_t last

cdef struct Span:
    Part part
    Derivation* listed      # best first
    Py_ssize_t n_listed
    Py_ssize_t listed_room
    Derivation* waiting     # heap of those that may come next
    Py_ssize_t n_waiting
    Py_ssize_t waiting_room
    bint exhausted

# A span whose list is to become longer by one, and what has been done for that.
cdef struct Advance:
    Py_ssize_t span
    int stage

cdef struct SpanSearch:
    Py_ssize_t n
    bint single_root
    TreeList trees
    const double* square    # (n + 1) x (n + 1), as given
    void* block
    double* scores          # (n + 1) x (n + 1), less the highest of the row
    ChartWorkspace best     # scores
    int32_t* numbers        # of complete spans, then of inner ones; 0 if not made yet
    Span* spans             # from 1
    Py_ssize_t n_spans
    Py_ssize_t spans_room
    Advance* advances       # stack
    Py_ssize_t* todo        # stack of derivations to be written out: span and rank


# --- spans ---------------------------------------------------------------------------------------

cdef int span_search_init(
        SpanSearch* search, const double* square, Py_ssize_t n, Py_ssize_t k, bint single_root
) noexcept nogil:
    """Prepare an empty search; whatever is returned, `span_search_free` is to be called."""
    cdef size_t width = <size_t>n + 1
    cdef size_t area = width * width
    cdef Layout layout
    memset(search, 0, sizeof(SpanSearch))
    search.n = n
    search.trees.k = k
    search.single_root = single_root
    search.square = square
    layout.n_arrays = layout.size = 0
    add_array(&layout, <void**>&search.scores, area, sizeof(double))
    add_array(&layout, <void**>&search.numbers, 2 * area, sizeof(int32_t))
    add_array(&layout, <void**>&search.advances, 2 * width + 2, sizeof(Advance))
    add_array(&layout, <void**>&search.todo, 4 * (2 * width + 2), sizeof(Py_ssize_t))
    if allocate(&layout, &search.block, True) != Status.OK:
        return Status.NO_MEMORY
    return chart_workspace_init(&search.best, n, True)


cdef void span_search_free(SpanSearch* search) noexcept nogil:
    """Free all that a search holds; harmless when called twice."""
    cdef Py_ssize_t i
    for i in range(1, search.n_spans + 1):
        free(search.spans[i].listed)
        free(search.spans[i].waiting)
    free(search.spans)
    chart_workspace_free(&search.best)
    free(search.block)
    free(search.trees.heads)
    memset(search, 0, sizeof(SpanSearch))


# --- best scores ---------------------------------------------------------------------------------

cdef int lower_scores(
        const double* square, Py_ssize_t n, double* scores) noexcept nogil:
    """Copy scores less the highest of their word; returns a Status."""
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
        return Status.BAD_SCORE
    if no_head:
        return Status.NO_TREE
    return Status.LOST_DIGITS if lost else Status.OK


cdef inline double best_score(const SpanSearch* search, Part part) noexcept nogil:
    cdef const Chart* chart = &search.best.chart
    cdef const void* scores = chart.inner
    if part.kind == COMPLETE:
        scores = chart.right if part.first < part.last else chart.left
    return (<const double*>scores)[part.first * (search.n + 1) + part.last]


# --- derivations ---------------------------------------------------------------------------------

cdef void find_parts(
        const SpanSearch* search, Part span, Py_ssize_t split, Part* left, Part* right, double* arc
) noexcept nogil:
    """Find the two parts of a span at a split, and the score of the arc that joins them."""
    cdef Py_ssize_t width = search.n + 1
    arc[0] = 0
    left.kind = right.kind = COMPLETE
    if span.kind == COMPLETE:
        left.kind = INNER
        left.first = min(span.first, split)
        left.last = max(span.first, split)
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


cdef void wait_for(Span* span, Derivation derivation) noexcept nogil:
    """Add to a span's heap."""
    make_room(<void**>&span.waiting, &span.waiting_room, span.n_waiting + 1, sizeof(Derivation))
    heap_push(span.waiting, &span.n_waiting, derivation)


cdef void list_next(Span* span) noexcept nogil:
    """Move the best from a span's heap to its list, if there is any."""
    if span.n_waiting == 0:
        span.exhausted = True
        return
    make_room(<void**>&span.listed, &span.listed_room, span.n_listed + 1, sizeof(Derivation))
    span.listed[span.n_listed] = heap_pop(span.waiting, &span.n_waiting)
    span.n_listed += 1


cdef Py_ssize_t make_span(SpanSearch* search, Part part) noexcept nogil:
    """Make a span with its best derivation, and all others with best parts in its heap. O(n).

    Returns its number.
    """
    cdef Span* span
    cdef Part left, right
    cdef Derivation derivation
    cdef Py_ssize_t split, first, last
    cdef double arc
    make_room(<void**>&search.spans, &search.spans_room, search.n_spans + 2, sizeof(Span))
    search.n_spans += 1
    span = &search.spans[search.n_spans]
    memset(span, 0, sizeof(Span))
    span.part = part
    first = min(part.first, part.last)
    last = max(part.first, part.last)
    # The kind of span decides which of the two ends is a split.
    if part.kind == INNER or (part.kind == COMPLETE and part.first > part.last):
        last -= 1
    else:
        first += 1
    derivation.left_rank = derivation.right_rank = 0
    for split in range(first, last + 1):
        find_parts(search, part, split, &left, &right, &arc)
        derivation.split = <int32_t>split
        derivation.score = best_score(search, left) + best_score(search, right) + arc
        if derivation.score > -INFINITY:
            wait_for(span, derivation)
    list_next(span)
    return search.n_spans


cdef Py_ssize_t find_span(SpanSearch* search, Part part) noexcept nogil:
    """Find the number of a span, which may have to be made; 0 for a single word."""
    cdef Py_ssize_t width = search.n + 1
    cdef int32_t* place = search.numbers + (part.kind == INNER) * width * width
    if part.kind == COMPLETE and part.first == part.last:
        return 0
    place += part.first * width + part.last
    if place[0] == 0:
        place[0] = <int32_t>make_span(search, part)
    return place[0]


cdef inline bint has_rank(
        const SpanSearch* search, Py_ssize_t number, Py_ssize_t rank) noexcept nogil:
    return rank == 0 if number == 0 else rank < search.spans[number].n_listed


cdef inline double score_of(
        const SpanSearch* search, Py_ssize_t number, Py_ssize_t rank) noexcept nogil:
    return 0 if number == 0 else search.spans[number].listed[rank].score


cdef void list_one_more(SpanSearch* search, Py_ssize_t number) noexcept nogil:
    """Make the list of a span longer by one derivation, or mark it as exhausted.

    The successors of the last derivation in the list need the next ranks of its parts; so their
    lists may have to become longer first. Parts are shorter than their span, or have one arc less,
    so the stack holds at most 2 n.
    """
    cdef Py_ssize_t top = 1
    cdef Advance* advance
    cdef Span* span
    cdef Derivation next
    cdef Part left, right
    cdef Py_ssize_t one, other, grown
    cdef double arc
    search.advances[0].span = number
    search.advances[0].stage = 0
    while top > 0:
        poll(100)
        advance = &search.advances[top - 1]
        span = &search.spans[advance.span]
        next = span.listed[span.n_listed - 1]
        if advance.stage == 2 or span.exhausted:
            list_next(span)
            top -= 1
            continue
        find_parts(search, span.part, next.split, &left, &right, &arc)
        one, other = find_span(search, left), find_span(search, right)
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
            wait_for(span, next)
            advance.stage += 1
        elif grown == 0 or search.spans[grown].exhausted:
            advance.stage += 1
        else:
            search.advances[top].span = grown
            search.advances[top].stage = 0
            top += 1


# --- trees ---------------------------------------------------------------------------------------

cdef void write_tree(SpanSearch* search, Py_ssize_t number, Py_ssize_t rank) noexcept nogil:
    """Append the tree of a derivation of the whole sentence."""
    cdef Py_ssize_t top = 0
    cdef int32_t* heads = add_tree(&search.trees, search.n + 1)
    cdef const Span* span
    cdef Derivation derivation
    cdef Part left, right
    cdef Py_ssize_t one, other
    cdef double arc
    heads[0] = -1
    search.todo[0] = number
    search.todo[1] = rank
    top = 2
    while top > 0:
        top -= 2
        span = &search.spans[search.todo[top]]
        derivation = span.listed[search.todo[top + 1]]
        if span.part.kind != INNER:
            heads[derivation.split] = <int32_t>span.part.first
        find_parts(search, span.part, derivation.split, &left, &right, &arc)
        one, other = find_span(search, left), find_span(search, right)
        if one > 0:
            search.todo[top] = one
            search.todo[top + 1] = derivation.left_rank
            top += 2
        if other > 0:
            search.todo[top] = other
            search.todo[top + 1] = derivation.right_rank
            top += 2


cdef int k_best_projective(void* argument) noexcept nogil:
    """Find the best trees into search.trees; returns a Status."""
    cdef SpanSearch* search = <SpanSearch*>argument
    cdef TreeList* trees = &search.trees
    cdef Py_ssize_t n = search.n, number
    cdef Part whole
    if n == 0:
        add_tree(trees, 1)[0] = -1
        return Status.OK
    require(lower_scores(search.square, n, search.scores))
    if sums_overflow(search.scores, n):
        return Status.LOST_DIGITS
    fill_chart(<const double*>search.scores, n, search.single_root, &search.best.chart)
    whole.kind = WHOLE if search.single_root else COMPLETE
    whole.first = 0
    whole.last = n
    number = make_span(search, whole)
    if search.spans[number].n_listed == 0:
        return Status.NO_TREE
    while trees.found < trees.k and not search.spans[number].exhausted:
        write_tree(search, number, trees.found)
        if trees.found < trees.k:
            list_one_more(search, number)
    return Status.OK


# --- the Python boundary -------------------------------------------------------------------------

def decode_kbest(
        const double[:, ::1] scores not None, Py_ssize_t k, bint single_root, bint projective):
    """Find the k best trees of one sentence; returns (status, heads).

    Arguments are checked in spacy_rootmind.trees.decoding and trusted here.
    """
    cdef Py_ssize_t n = scores.shape[0] - 1
    cdef KBestSearch search
    cdef SpanSearch spans
    cdef TreeList* trees = &spans.trees if projective else &search.trees
    cdef int status, stop = 0
    cdef int32_t[:, ::1] rows
    if projective:
        status = span_search_init(&spans, &scores[0, 0], n, k, single_root)
    else:
        status = k_best_init(&search, &scores[0, 0], n, k, single_root)
    try:
        if status == Status.OK and projective:
            status = run_part(k_best_projective, &spans, &stop)
        elif status == Status.OK:
            status = run_part(k_best_trees, &search, &stop)
        if status == Status.NO_MEMORY:
            raise MemoryError(f"no memory for the {k} best trees of {n} words; ask for fewer")
        if status != Status.OK:
            return status, None
        heads = np.empty((trees.found, n + 1), dtype=np.int32)
        rows = heads
        memcpy(&rows[0, 0], trees.heads, heads.nbytes)
        return status, heads
    finally:
        if projective:
            span_search_free(&spans)
        else:
            k_best_free(&search)
