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
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

import numpy as np

from spacy_rootmind.kernel.decode cimport (
    DECODE_LOST_DIGITS,
    DECODE_NO_MEMORY,
    DECODE_OK,
    decode_tree,
    sums_overflow,
    workspace_free,
    workspace_init_keeping_rows,
)
from spacy_rootmind.kernel.heap cimport heap_pop, heap_push
from spacy_rootmind.kernel.interrupt cimport poll_row, run_part
from spacy_rootmind.kernel.room cimport make_room
from weights cimport add_exactly


# --- memory ------------------------------------------------------------------------------------

cdef int search_init(
        KBestSearch* search, const double* scores, Py_ssize_t n, bint single_root) noexcept nogil:
    """Prepare an empty search; on DECODE_NO_MEMORY, too, `k_best_free` is to be called."""
    cdef size_t width = <size_t>n + 1
    search.n = n
    search.single_root = single_root
    search.scores = scores
    search.heads = NULL
    search.sets = NULL
    search.queue = NULL
    search.block = NULL
    search.found = search.heads_room = 0
    search.n_sets = search.sets_room = 0
    search.n_pending = search.queue_room = 0
    search.order = 0
    if workspace_init_keeping_rows(&search.tree, n) != DECODE_OK:
        return DECODE_NO_MEMORY
    search.block = malloc(width * width * sizeof(double) + 6 * width * sizeof(int32_t))
    if search.block is NULL:
        return DECODE_NO_MEMORY
    search.square = <double*>search.block
    search.candidate = <int32_t*>(search.square + width * width)
    search.first_child = search.candidate + width
    search.next_sibling = search.candidate + 2 * width
    search.begin = search.candidate + 3 * width
    search.end = search.candidate + 4 * width
    search.todo = search.candidate + 5 * width
    return DECODE_OK


cdef void k_best_free(KBestSearch* search) noexcept nogil:
    """Free all that a search holds; harmless when called twice."""
    workspace_free(&search.tree)
    free(search.block)
    free(search.heads)
    free(search.sets)
    free(search.queue)
    search.block = search.heads = search.sets = search.queue = NULL


# --- the queue of trees to come ----------------------------------------------------------------

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


cdef int push(KBestSearch* search, Pending pending) noexcept nogil:
    """Add to the queue; returns a DecodeStatus."""
    if make_room(
            <void**>&search.queue, &search.queue_room, search.n_pending + 1, sizeof(Pending)) < 0:
        return DECODE_NO_MEMORY
    pending.order = search.order
    search.order += 1
    heap_push(search.queue, &search.n_pending, pending)
    return DECODE_OK


# --- sets of trees -----------------------------------------------------------------------------

cdef Py_ssize_t part(
        KBestSearch* search, Py_ssize_t parent, int32_t dep, int32_t head,
        bint required) noexcept nogil:
    """Describe the trees of `parent` with or without an arc; its number or DECODE_NO_MEMORY."""
    cdef TreeSet* new
    if make_room(
            <void**>&search.sets, &search.sets_room, search.n_sets + 1, sizeof(TreeSet)) < 0:
        return DECODE_NO_MEMORY
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
    """Score of the tree at hand beyond that of the first tree found, summed arc by arc.

    This distinguishes scores that differ in the last place only, however large their sum, and trees
    that lack one arc of an enormous score.
    """
    cdef const int32_t* first = search.heads
    cdef Py_ssize_t word
    cdef const double* row
    cdef Exact gain
    gain.high = gain.low = 0
    for word in range(1, search.n + 1):
        row = search.scores + word * (search.n + 1)
        if search.candidate[word] != first[word]:
            gain = add(add(gain, row[search.candidate[word]]), -row[first[word]])
    return gain


# --- the next tree of a set --------------------------------------------------------------------

cdef void number_preorder(KBestSearch* search) noexcept nogil:
    """Give every word of the tree at hand its place in preorder and that of its last descendant."""
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


# --- search ------------------------------------------------------------------------------------

cdef int await_next(
        KBestSearch* search, Py_ssize_t number, Py_ssize_t known) noexcept nogil:
    """Queue the best tree of a set except the known one; the set has just been solved."""
    cdef Py_ssize_t width = search.n + 1
    cdef const int32_t* heads = search.heads + known * width
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
            return push(search, pending)
    return push(search, pending) if find_next(search, &pending) else DECODE_OK


cdef int await_other_root(
        KBestSearch* search, Py_ssize_t number, int32_t root) noexcept nogil:
    """Queue the best single-root tree of a set with another root."""
    cdef Pending pending
    pending.tree_set = part(search, number, root, 0, False)
    if pending.tree_set < 0:
        return DECODE_NO_MEMORY
    if solve(search, pending.tree_set) != DECODE_OK:
        return DECODE_OK
    pending.known = -1
    pending.gain = candidate_gain(search)
    return push(search, pending)


cdef int keep_candidate(KBestSearch* search) noexcept nogil:
    """Append the tree at hand to those found."""
    cdef Py_ssize_t width = search.n + 1
    if make_room(
            <void**>&search.heads, &search.heads_room, search.found + 1,
            width * sizeof(int32_t)) < 0:
        return DECODE_NO_MEMORY
    memcpy(search.heads + search.found * width, search.candidate, width * sizeof(int32_t))
    search.found += 1
    return DECODE_OK


cdef int find_first_of(KBestSearch* search, Py_ssize_t number) noexcept nogil:
    """Find the best tree of a set, and queue what comes after it there."""
    cdef Py_ssize_t known = search.found
    cdef int32_t root = 0
    cdef int status = solve(search, number)
    if status == DECODE_OK:
        status = keep_candidate(search)
    if status != DECODE_OK:
        return status
    if not search.single_root or search.sets[number].one_root_arc:
        return await_next(search, number, known)
    while search.candidate[root] != 0:
        root += 1
    if await_other_root(search, number, root) != DECODE_OK:
        return DECODE_NO_MEMORY
    return find_next_with(search, number, known, root, 0)


cdef int find_next_with(
        KBestSearch* search, Py_ssize_t number, Py_ssize_t known, int32_t dep,
        int32_t head) noexcept nogil:
    """Queue the best tree, except the known one, that has an arc of it."""
    cdef int status
    number = part(search, number, dep, head, True)
    if number < 0:
        return DECODE_NO_MEMORY
    status = solve(search, number)
    return await_next(search, number, known) if status == DECODE_OK else status


cdef int k_best_trees(
        const double* scores, Py_ssize_t n, Py_ssize_t k, bint single_root, KBestSearch* search
) noexcept nogil:
    """Find the best trees, k at most, into search.heads, search.found in number.

    `scores` is (n + 1) x (n + 1), contiguous. Returns DECODE_OK, or DECODE_NO_TREE,
    DECODE_BAD_SCORE, DECODE_LOST_DIGITS or DECODE_NO_MEMORY. In any case `k_best_free` is to be
    called afterwards.
    """
    cdef Pending next
    cdef Py_ssize_t number
    cdef int status = search_init(search, scores, n, single_root)
    if status != DECODE_OK:
        return status
    if part(search, -1, 0, 0, False) < 0:
        return DECODE_NO_MEMORY
    if n == 0:
        search.candidate[0] = -1
        return keep_candidate(search)
    if sums_overflow(scores, n):
        return DECODE_LOST_DIGITS
    status = find_first_of(search, 0)
    while status == DECODE_OK and search.found < k and search.n_pending > 0:
        poll_row(search.found, 4 * n * n)
        next = heap_pop(search.queue, &search.n_pending)
        if next.known < 0:
            status = find_first_of(search, next.tree_set)
            continue
        number = part(search, next.tree_set, next.dep, next.head, False)
        if number < 0:
            return DECODE_NO_MEMORY
        status = find_first_of(search, number)
        if status == DECODE_OK:
            status = find_next_with(search, next.tree_set, next.known, next.dep, next.head)
    return status


# --- the Python boundary -----------------------------------------------------------------------

# The arguments of `k_best_trees`.
cdef struct KBestTask:
    const double* scores
    Py_ssize_t n
    Py_ssize_t k
    bint single_root
    KBestSearch* search


cdef int search_part(void* argument) noexcept nogil:
    cdef KBestTask* task = <KBestTask*>argument
    return k_best_trees(task.scores, task.n, task.k, task.single_root, task.search)


cdef tuple trees_found(
        int status, const int32_t* heads, Py_ssize_t found, Py_ssize_t n, Py_ssize_t k):
    cdef int32_t[:, ::1] rows
    if status == DECODE_NO_MEMORY:
        raise MemoryError(f"no memory for the {k} best trees of {n} words; ask for fewer")
    if status != DECODE_OK:
        return status, None
    trees = np.empty((found, n + 1), dtype=np.int32)
    rows = trees
    memcpy(&rows[0, 0], heads, found * (n + 1) * sizeof(int32_t))
    return status, trees


def decode_kbest(const double[:, ::1] scores not None, Py_ssize_t k, bint single_root):
    """Find the k best trees of one sentence; returns (status, heads).

    Arguments are checked in spacy_rootmind.trees.decoding and trusted here.
    """
    cdef KBestSearch search
    cdef KBestTask task
    cdef int status
    task.scores = &scores[0, 0]
    task.n = scores.shape[0] - 1
    task.k = k
    task.single_root = single_root
    task.search = &search
    try:
        status = run_part(search_part, &task)
        return trees_found(status, search.heads, search.found, task.n, k)
    finally:
        k_best_free(&search)
