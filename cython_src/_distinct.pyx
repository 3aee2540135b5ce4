"""Trees drawn without replacement: each in proportion to its weight among those not drawn yet.

A trie over the heads of word after word (Shi, Bieber & Sutton 2020) has a node for every choice made
so far, and each node knows how much of its mass remains in every next choice: for one never made,
its exact conditional probability; for one made, the sum of what remains there. The weight of a drawn
tree is never subtracted from anything: with a confident model that difference would be all rounding.

Masses are shares of the node's own, in float64. They are found anew in logs, with wide numbers, at
the time that all but a vanishing part has been drawn; from then on underflow might count.

Memory is O(n^2) a tree drawn.
"""
from libc.math cimport INFINITY, exp, log
from libc.stddef cimport size_t
from libc.stdint cimport int32_t
from libc.stdlib cimport free, realloc


from spacy_rootmind._conditional cimport (
    PartialTree,
    partial_fix,
    partial_log_weights,
    partial_restart,
    partial_start,
    partial_weights,
)
from spacy_rootmind._decode cimport DECODE_NO_MEMORY, DECODE_OK, DECODE_UNSETTLED
from spacy_rootmind._random cimport RandomSource, draw_index

cdef enum:
    NO_CHILD = -1
    DRAWN = -2

# A node with less than this left goes over to logs. What underflowed is much smaller.
cdef double LITTLE = 1e-100


# --- memory ------------------------------------------------------------------------------------

cdef void trie_free(Trie* trie) noexcept nogil:
    """Free all memory; harmless when called twice."""
    free(trie.nodes)
    free(trie.masses)
    free(trie.children)
    free(trie.path)
    free(trie.scratch)
    trie.nodes = NULL
    trie.masses = trie.scratch = NULL
    trie.children = trie.path = NULL
    trie.room = trie.row_room = trie.path_room = 0


cdef inline bint grow(void** array, size_t items, size_t size) noexcept nogil:
    cdef void* grown = NULL
    if items <= (<size_t>-1) / 4 / size:
        grown = realloc(array[0], items * size)
    if grown is NULL:
        return False
    array[0] = grown
    return True


cdef int make_room(Trie* trie) noexcept nogil:
    """Have room for one more node; what there is doubles."""
    cdef Py_ssize_t rows = (trie.n_nodes + 1) * trie.width
    if trie.n_nodes == trie.room:
        if not grow(<void**>&trie.nodes, 2 * trie.room + 8, sizeof(TrieNode)):
            return DECODE_NO_MEMORY
        trie.room = 2 * trie.room + 8
    if rows > trie.row_room:
        rows = max(rows, 2 * trie.row_room)
        if not grow(<void**>&trie.masses, rows, sizeof(double)):
            return DECODE_NO_MEMORY
        if not grow(<void**>&trie.children, rows, sizeof(Py_ssize_t)):
            return DECODE_NO_MEMORY
        trie.row_room = rows
    return DECODE_OK


# --- nodes -------------------------------------------------------------------------------------

cdef double sum_of(const double* masses, Py_ssize_t n) noexcept nogil:
    cdef double total = 0
    cdef Py_ssize_t i
    for i in range(n):
        total += masses[i]
    return total


cdef double log_sum_exp(const double* logs, Py_ssize_t n, double* weights) noexcept nogil:
    """Return the log of the sum, and leave exp(logs - largest) in `weights`."""
    cdef double largest = -INFINITY
    cdef Py_ssize_t i
    for i in range(n):
        largest = max(largest, logs[i])
    if largest == -INFINITY:
        return -INFINITY
    for i in range(n):
        weights[i] = exp(logs[i] - largest)
    return largest + log(sum_of(weights, n))


cdef void measure(Trie* trie, Py_ssize_t number) noexcept nogil:
    """Add up what remains in a node."""
    cdef TrieNode* node = &trie.nodes[number]
    cdef const double* masses = trie.masses + number * trie.width
    if node.in_logs:
        node.log_remaining = log_sum_exp(masses, trie.width, trie.scratch)
        node.remaining = exp(node.log_remaining)
    else:
        node.remaining = sum_of(masses, trie.width)
        node.log_remaining = log(node.remaining) if node.remaining > 0 else -INFINITY


cdef int fill_logs(Trie* trie, Py_ssize_t number, PartialTree* tree) noexcept nogil:
    """Find a node's masses in logs, less what was drawn. The tree's heads must be its choices."""
    cdef TrieNode* node = &trie.nodes[number]
    cdef double* masses = trie.masses + number * trie.width
    cdef Py_ssize_t* children = trie.children + number * trie.width
    cdef TrieNode* child
    cdef double total
    cdef Py_ssize_t head
    cdef int status = partial_log_weights(tree, masses, &total)
    if status != DECODE_OK:
        return status
    total = log_sum_exp(masses, trie.width, trie.scratch)
    for head in range(trie.width):
        masses[head] -= total
        if children[head] == DRAWN:
            masses[head] = -INFINITY
        elif children[head] != NO_CHILD:
            child = &trie.nodes[children[head]]
            child.log_share = masses[head]
            masses[head] += child.log_remaining
    node.in_logs = True
    return DECODE_OK


cdef int add_node(
        Trie* trie, Py_ssize_t parent, Py_ssize_t head, PartialTree* tree) noexcept nogil:
    """Add a node whose choices are the heads that the tree has fixed."""
    cdef Py_ssize_t number = trie.n_nodes
    cdef TrieNode* node
    cdef double* masses
    cdef double total
    cdef Py_ssize_t i
    cdef int status = make_room(trie)
    if status != DECODE_OK:
        return status
    node = &trie.nodes[number]
    masses = trie.masses + number * trie.width
    node.parent = parent
    node.head = head
    node.in_logs = False
    node.share = node.log_share = 0
    if parent >= 0:
        node.share = node.log_share = trie.masses[parent * trie.width + head]
        trie.children[parent * trie.width + head] = number
    for i in range(trie.width):
        trie.children[number * trie.width + i] = NO_CHILD
    trie.n_nodes += 1
    status = partial_weights(tree, masses, &total)
    if status == DECODE_UNSETTLED:
        status = fill_logs(trie, number, tree)
    else:
        for i in range(trie.width):
            masses[i] /= total
    if status == DECODE_OK:
        measure(trie, number)
    return status


cdef int trie_begin(Trie* trie, PartialTree* tree) noexcept nogil:
    """Begin a sentence that `tree` has begun; returns a DecodeStatus."""
    cdef Py_ssize_t width = tree.n + 1
    trie.width = width
    trie.n_nodes = 0
    if width > trie.path_room:
        if not grow(<void**>&trie.path, width, sizeof(Py_ssize_t)):
            return DECODE_NO_MEMORY
        if not grow(<void**>&trie.scratch, width, sizeof(double)):
            return DECODE_NO_MEMORY
        trie.path_room = width
    partial_start(tree, 0)
    return add_node(trie, -1, 0, tree)


# --- draws -------------------------------------------------------------------------------------

cdef Py_ssize_t choose(Trie* trie, Py_ssize_t number, const RandomSource* random) noexcept nogil:
    """Draw the next head by what remains of it."""
    cdef const TrieNode* node = &trie.nodes[number]
    cdef const double* masses = trie.masses + number * trie.width
    if not node.in_logs:
        return draw_index(masses, trie.width, node.remaining, random)
    log_sum_exp(masses, trie.width, trie.scratch)
    return draw_index(trie.scratch, trie.width, sum_of(trie.scratch, trie.width), random)


cdef int descend(
        Trie* trie, PartialTree* tree, const RandomSource* random) noexcept nogil:
    """Choose heads for all words, adding nodes where no one has been; fills `path`."""
    cdef Py_ssize_t n = tree.n
    cdef Py_ssize_t number = 0, depth, head, child
    # Whether the tree has fixed the same heads as the path.
    cdef bint in_step = False
    cdef int status
    for depth in range(n):
        trie.path[depth] = number
        head = choose(trie, number, random)
        tree.heads[tree.order[depth]] = <int32_t>head
        if depth == n - 1:
            trie.children[number * trie.width + head] = DRAWN
            trie.masses[number * trie.width + head] = (
                -INFINITY if trie.nodes[number].in_logs else 0)
            break
        child = trie.children[number * trie.width + head]
        if child == NO_CHILD:
            if in_step:
                partial_fix(tree, head)
            else:
                partial_restart(tree, depth + 1)
                in_step = True
            child = trie.n_nodes
            status = add_node(trie, number, head, tree)
            if status != DECODE_OK:
                return status
        number = child
    return DECODE_OK


cdef int update(Trie* trie, PartialTree* tree) noexcept nogil:
    """Add up what remains along the path, from its end; returns a DecodeStatus."""
    cdef Py_ssize_t depth, number, parent
    cdef TrieNode* node
    cdef int status
    for depth in range(tree.n - 1, -1, -1):
        number = trie.path[depth]
        measure(trie, number)
        node = &trie.nodes[number]
        if not node.in_logs and node.remaining < LITTLE:
            partial_restart(tree, depth)
            status = fill_logs(trie, number, tree)
            if status != DECODE_OK:
                return status
            measure(trie, number)
        parent = node.parent
        if parent >= 0:
            if trie.nodes[parent].in_logs:
                trie.masses[parent * trie.width + node.head] = (
                    node.log_share + node.log_remaining)
            else:
                trie.masses[parent * trie.width + node.head] = node.share * node.remaining
    return DECODE_OK


cdef int trie_draw(
        Trie* trie, PartialTree* tree, const RandomSource* random, bint* exhausted) noexcept nogil:
    """Draw a tree into tree.heads, or set `exhausted`; returns a DecodeStatus."""
    cdef int status
    exhausted[0] = trie.nodes[0].log_remaining == -INFINITY
    if exhausted[0]:
        return DECODE_OK
    status = descend(trie, tree, random)
    return update(trie, tree) if status == DECODE_OK else status
