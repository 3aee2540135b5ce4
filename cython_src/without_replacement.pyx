"""Sampling without replacement: each tree in proportion to its weight among those not drawn yet.

A trie over the heads of successive words (Shi, Bieber & Sutton 2020) has a node for every choice
made so far, and each node holds how much of its mass remains in every next choice: for a choice
never made, its exact conditional probability; for one made, the sum of what remains there. The
weight of a drawn tree is never subtracted from anything: with a confident model that difference
would be nothing but rounding errors.

As soon as a draw leaves the trie, the rest of its tree is drawn at once, and the new nodes are for
the heads of its words from the root down, each branch in an order of its own: their distributions
then take one elimination together (see `partial_tree`).

Masses are shares of the node's own, in float64. Once all but a vanishing part of a node has been
drawn, underflow might count, and its masses are computed again as logs, with wide numbers.

Memory is O(n^2) per tree drawn.
"""
from libc.math cimport INFINITY, exp, log
from libc.stdint cimport int32_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from spacy_rootmind.kernel.inside_outside cimport (
    Draft,
    SpanSums,
    draft_begin,
    draft_choose,
    draft_weigh,
    draw_wide,
)
from spacy_rootmind.kernel.interrupt cimport poll, poll_row
from spacy_rootmind.kernel.partial_tree cimport (
    partial_begin,
    partial_draw_rest,
    partial_fix,
    partial_free,
    partial_init,
    partial_log_weights,
    partial_restart,
    partial_weights,
)
from spacy_rootmind.kernel.random cimport Stream, draw_index
from spacy_rootmind.kernel.room cimport make_room
from spacy_rootmind.kernel.status cimport Status
from weights cimport (
    ExtendedFloat,
    sum_row,
    wide_divide,
    wide_from,
    wide_log,
    wide_multiply,
)

cdef enum:
    NO_CHILD = -1
    DRAWN = -2

# A node with less than this left is switched to logs. Masses that underflowed are much smaller.
cdef double LEAST_REMAINING = 1e-100


# --- memory ------------------------------------------------------------------------------------

cdef void trie_free(Trie* trie) noexcept nogil:
    """Free all memory; harmless when called twice."""
    free(trie.nodes)
    free(trie.masses)
    free(trie.children)
    free(trie.path)
    free(trie.scratch)
    partial_free(&trie.tree)
    memset(trie, 0, sizeof(Trie))


cdef int room_for_node(Trie* trie) noexcept nogil:
    """Make room for one more node; returns a Status."""
    cdef Py_ssize_t rows = (trie.n_nodes + 1) * trie.width
    cdef int status = make_room(
        <void**>&trie.nodes, &trie.room, trie.n_nodes + 1, sizeof(TrieNode))
    if status == Status.OK:
        status = make_room(<void**>&trie.masses, &trie.row_room, rows, sizeof(double))
    if status == Status.OK:
        status = make_room(
            <void**>&trie.children, &trie.child_room, rows, sizeof(Py_ssize_t))
    return status


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


cdef void sum_up(Trie* trie, Py_ssize_t number) noexcept nogil:
    """Add up what remains in a node."""
    cdef TrieNode* node = &trie.nodes[number]
    cdef const double* masses = trie.masses + number * trie.width
    if node.in_logs:
        node.log_remaining = log_sum_exp(masses, trie.width, trie.scratch)
        node.remaining = exp(node.log_remaining)
    else:
        node.remaining = sum_of(masses, trie.width)
        node.log_remaining = log(node.remaining) if node.remaining > 0 else -INFINITY


cdef int fill_logs(Trie* trie, Py_ssize_t number) noexcept nogil:
    """Find a node's masses in logs, less what was drawn. The tree must have the node's choices."""
    cdef TrieNode* node = &trie.nodes[number]
    cdef double* masses = trie.masses + number * trie.width
    cdef const Py_ssize_t* children = trie.children + number * trie.width
    cdef TrieNode* child
    cdef double total
    cdef Py_ssize_t head
    cdef int status = partial_log_weights(&trie.tree, masses)
    if status != Status.OK:
        return status
    total = log_sum_exp(masses, trie.width, trie.scratch)
    for head in range(trie.width):
        masses[head] -= total
        if children[head] == DRAWN:
            masses[head] = -INFINITY
        elif children[head] != NO_CHILD:
            child = &trie.nodes[children[head]]
            child.share = masses[head]
            masses[head] += child.log_remaining
    node.in_logs = True
    return Status.OK


cdef int add_node(Trie* trie, Py_ssize_t parent, Py_ssize_t head) noexcept nogil:
    """Add a node for the next word of the tree, which has fixed the choices that lead there."""
    cdef Py_ssize_t number = trie.n_nodes
    cdef TrieNode* node
    cdef double* masses
    cdef double total
    cdef Py_ssize_t i
    cdef int status = room_for_node(trie)
    if status != Status.OK:
        return status
    node = &trie.nodes[number]
    masses = trie.masses + number * trie.width
    node.word = trie.tree.order[trie.tree.n_fixed]
    node.in_logs = False
    if parent >= 0:
        node.share = trie.masses[parent * trie.width + head]
        trie.children[parent * trie.width + head] = number
    for i in range(trie.width):
        trie.children[number * trie.width + i] = NO_CHILD
    trie.n_nodes += 1
    status = partial_weights(&trie.tree, masses, &total)
    if status == Status.UNSETTLED:
        return fill_logs(trie, number)
    for i in range(trie.width):
        masses[i] /= total
    return status


cdef int trie_init(Trie* trie, Py_ssize_t max_words) noexcept nogil:
    """Allocate for sentences of up to `max_words` words; whatever is returned, free it."""
    memset(trie, 0, sizeof(Trie))
    return partial_init(&trie.tree, max_words)


cdef int trie_begin(Trie* trie, const double* square, TreeSum* sum) noexcept nogil:
    """Begin a sentence that `sum` was summed over; returns a Status."""
    cdef Py_ssize_t width = sum.n + 1
    cdef int status
    partial_begin(&trie.tree, square, sum)
    trie.width = width
    trie.n_nodes = 0
    status = make_room(<void**>&trie.path, &trie.path_room, width, sizeof(Py_ssize_t))
    if status == Status.OK:
        status = make_room(<void**>&trie.scratch, &trie.scratch_room, width, sizeof(double))
    return status


cdef double trie_log_remaining(const Trie* trie) noexcept nogil:
    return trie.nodes[0].log_remaining if trie.n_nodes > 0 else 0


# --- draws -------------------------------------------------------------------------------------

cdef Py_ssize_t choose(Trie* trie, Py_ssize_t number, Stream* random) noexcept nogil:
    """Draw the next head by what remains of it."""
    cdef const TrieNode* node = &trie.nodes[number]
    cdef const double* masses = trie.masses + number * trie.width
    if not node.in_logs:
        return draw_index(masses, trie.width, node.remaining, random)
    log_sum_exp(masses, trie.width, trie.scratch)
    return draw_index(trie.scratch, trie.width, sum_of(trie.scratch, trie.width), random)


cdef Py_ssize_t descend(Trie* trie, Stream* random) noexcept nogil:
    """Choose heads while there are nodes; returns their number, and fills `path` and the order."""
    cdef Py_ssize_t number = 0, depth = 0, head
    while trie.n_nodes > 0 and number >= 0:
        poll_row(depth, 4 * trie.tree.n)
        head = choose(trie, number, random)
        trie.path[depth] = number
        trie.tree.order[depth] = trie.nodes[number].word
        trie.tree.heads[trie.nodes[number].word] = <int32_t>head
        number = trie.children[number * trie.width + head]
        depth += 1
        if depth == trie.tree.n:
            break
    return depth


cdef int branch_off(
        Trie* trie, Py_ssize_t depth, Stream* random) noexcept nogil:
    """Draw the heads of the words from `depth` on, adding a node for each; fills `path`."""
    cdef Py_ssize_t parent = trie.path[depth - 1] if depth > 0 else -1
    cdef Py_ssize_t head = trie.tree.heads[trie.tree.order[depth - 1]] if depth > 0 else 0
    cdef int status
    partial_restart(&trie.tree, depth, depth)
    status = partial_draw_rest(&trie.tree, random)
    while status == Status.OK and depth < trie.tree.n:
        poll_row(depth, 16 * trie.tree.n)
        trie.path[depth] = trie.n_nodes
        status = add_node(trie, parent, head)
        parent = trie.path[depth]
        head = trie.tree.heads[trie.tree.order[depth]]
        depth += 1
        if depth < trie.tree.n:
            partial_fix(&trie.tree, head)
    return status


cdef int remove_tree(Trie* trie) noexcept nogil:
    """Remove the tree that was drawn, and add up what remains along its path.

    Returns a Status.
    """
    cdef Py_ssize_t depth, number, place
    cdef TrieNode* node
    cdef int status
    for depth in range(trie.tree.n - 1, -1, -1):
        poll_row(depth, 4 * trie.tree.n)
        number = trie.path[depth]
        node = &trie.nodes[number]
        place = number * trie.width + trie.tree.heads[node.word]
        if depth == trie.tree.n - 1:
            trie.children[place] = DRAWN
            trie.masses[place] = -INFINITY if node.in_logs else 0
        elif node.in_logs:
            trie.masses[place] = (
                trie.nodes[trie.children[place]].share
                + trie.nodes[trie.children[place]].log_remaining)
        else:
            trie.masses[place] = (
                trie.nodes[trie.children[place]].share
                * trie.nodes[trie.children[place]].remaining)
        sum_up(trie, number)
        if not node.in_logs and node.remaining < LEAST_REMAINING:
            partial_restart(&trie.tree, depth, depth + 1)
            status = fill_logs(trie, number)
            if status != Status.OK:
                return status
            sum_up(trie, number)
    return Status.OK


cdef int trie_draw(Trie* trie, Stream* random, int32_t* heads) noexcept nogil:
    """Draw a tree that was not drawn yet; returns a Status, EXHAUSTED if there is none."""
    cdef Py_ssize_t depth
    cdef int status = Status.OK
    if trie_log_remaining(trie) == -INFINITY:
        return Status.EXHAUSTED
    depth = descend(trie, random)
    if depth < trie.tree.n:
        status = branch_off(trie, depth, random)
    memcpy(heads, trie.tree.heads, trie.width * sizeof(int32_t))
    return remove_tree(trie) if status == Status.OK else status


# --- projective trees --------------------------------------------------------------------------
#
# A trie (Shi, Bieber & Sutton 2020) over the choices by which a tree is drawn from the root down
# (see `inside_outside`): its root token, then for span after span the outermost dependent and the
# border. Each choice depends on earlier ones alone, so each node has its own. It holds how
# much of its mass remains in every alternative: for one never chosen its share, exact from the sums
# over spans; for the others their share times what remains in the node that follows. As above,
# nothing is ever subtracted. Masses have a wide exponent, so what remains after the probable trees
# is as accurate as they are.
#
# A tree takes at most 2 n choices among at most n alternatives, and adds nodes for those below the
# point where it leaves the trie: memory is O(n^2) per tree drawn, and less where spans are split
# near the middle.

# A choice to be made after others of a tree that was drawn.
cdef struct Node:
    ExtendedFloat share     # of the parent's mass before anything was drawn
    ExtendedFloat remaining  # of its own mass
    Py_ssize_t row          # its first alternative, in the arrays of masses and children
    Py_ssize_t n_choices
    Py_ssize_t chosen       # by the tree at hand


cdef void projective_trie_free(ProjectiveTrie* trie) noexcept nogil:
    """Free all memory; harmless when called twice."""
    free(trie.nodes)
    free(trie.masses)
    free(trie.children)
    free(trie.path)
    memset(trie, 0, sizeof(ProjectiveTrie))


cdef int room_for_choice(ProjectiveTrie* trie, Py_ssize_t n_choices) noexcept nogil:
    """Make room for one more node; returns a Status."""
    cdef Py_ssize_t rows = trie.n_masses + n_choices
    cdef int status = make_room(&trie.nodes, &trie.room, trie.n_nodes + 1, sizeof(Node))
    if status == Status.OK:
        status = make_room(&trie.masses, &trie.row_room, rows, sizeof(ExtendedFloat))
    if status == Status.OK:
        status = make_room(
            <void**>&trie.children, &trie.child_room, rows, sizeof(Py_ssize_t))
    return status


cdef int projective_trie_begin(ProjectiveTrie* trie, Py_ssize_t n) noexcept nogil:
    """Begin a sentence; returns a Status."""
    trie.n_nodes = trie.n_masses = 0
    trie.exhausted = False
    trie.log_remaining = 0
    return make_room(<void**>&trie.path, &trie.path_room, 2 * n, sizeof(Py_ssize_t))


cdef int add_choice(
        ProjectiveTrie* trie, const SpanSums* sums, const Draft* draft, Py_ssize_t place
) noexcept nogil:
    """Add a node for a draft's next choice, below the alternative at `place` unless NO_CHILD."""
    cdef Node* node
    cdef ExtendedFloat* row
    cdef Py_ssize_t i
    cdef int status = room_for_choice(trie, draft.n_choices)
    if status != Status.OK:
        return status
    node = &(<Node*>trie.nodes)[trie.n_nodes]
    node.row = trie.n_masses
    node.n_choices = draft.n_choices
    node.share = wide_from(1, 0)
    if place != NO_CHILD:
        node.share = (<ExtendedFloat*>trie.masses)[place]
        trie.children[place] = trie.n_nodes
    row = <ExtendedFloat*>trie.masses + node.row
    node.remaining = draft_weigh(sums, draft, row)
    for i in range(node.n_choices):
        row[i] = wide_divide(row[i], node.remaining)
        trie.children[node.row + i] = NO_CHILD
    node.remaining = wide_from(1, 0)
    trie.n_nodes += 1
    trie.n_masses += node.n_choices
    return Status.OK


cdef void remove_choices(ProjectiveTrie* trie, Py_ssize_t n_made) noexcept nogil:
    """Remove the tree of that many choices along the path, and add up what remains there."""
    cdef ExtendedFloat* masses = <ExtendedFloat*>trie.masses
    cdef ExtendedFloat left = wide_from(0, 0)    # of the alternative that was chosen
    cdef Node* node
    cdef Py_ssize_t i
    cdef double low
    for i in range(n_made - 1, -1, -1):
        node = &(<Node*>trie.nodes)[trie.path[i]]
        masses[node.row + node.chosen] = left
        node.remaining = sum_row(masses + node.row, node.n_choices)
        left = wide_multiply(node.share, node.remaining)
        poll(4 * node.n_choices)
    trie.exhausted = left.part == 0
    trie.log_remaining = wide_log(left, &low) + low


cdef int projective_trie_draw(
        ProjectiveTrie* trie, SpanSums* sums, Stream* random, int32_t* heads
) noexcept nogil:
    """Draw a tree that was not drawn yet, of which there must be one. O(n^2) at most.

    `sums` belong to the sentence, the same each time. Returns a Status.
    """
    cdef Draft draft
    cdef Node* node
    cdef Py_ssize_t n_made = 0, place = NO_CHILD, number = 0
    cdef int status
    draft_begin(sums, heads, &draft)
    while draft.n_choices > 0:
        if number == NO_CHILD or trie.n_nodes == 0:
            number = trie.n_nodes
            status = add_choice(trie, sums, &draft, place)
            if status != Status.OK:
                return status
        node = &(<Node*>trie.nodes)[number]
        node.chosen = draw_wide(
            <const ExtendedFloat*>trie.masses + node.row, node.n_choices, node.remaining, random)
        poll(8 * node.n_choices)
        draft_choose(sums, &draft, node.chosen)
        trie.path[n_made] = number
        n_made += 1
        place = node.row + node.chosen
        number = trie.children[place]
    remove_choices(trie, n_made)
    return Status.OK
