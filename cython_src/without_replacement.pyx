"""Sampling without replacement: each tree in proportion to its weight among those not drawn yet.

A trie over the choices by which a tree is drawn (Shi, Bieber & Sutton 2020) has a node for every
choice made so far, and each node holds how much of its mass remains in every alternative: for one
never chosen, its exact share; for one chosen, its share times what remains in the node that
follows. The weight of a drawn tree is never subtracted from anything: with a confident model that
difference would be nothing but rounding errors. Masses have a wide exponent, so what remains after
the probable trees is as accurate as they are.

The choices of a tree are the heads of its words. As soon as a draw leaves the trie, the rest of its
tree is drawn at once, and the new nodes are for the heads of its words from the root down, each
branch in an order of its own: their distributions then take one elimination together (see
`partial_tree`). The masses of a node are first found in float64, and again in wide numbers once all
but a vanishing part of it has been drawn, where underflow might count.

The choices of a projective tree, from the root down, are its root token, then for span after span
the outermost dependent and the border (see `inside_outside`).

A tree takes n choices, or 2 n if it is projective, among n alternatives at most, and adds nodes for
those below the point where it leaves the trie: memory is O(n^2) per tree drawn.
"""
from libc.stdint cimport int32_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from spacy_rootmind.kernel.inside_outside cimport (
    Draft,
    draft_begin,
    draft_choose,
    draft_weigh,
    draw_wide,
)
from spacy_rootmind.kernel.interrupt cimport poll, poll_row
from spacy_rootmind.kernel.partial_tree cimport (
    partial_draw_rest,
    partial_fix,
    partial_restart,
    partial_weights,
    partial_wide_weights,
)
from spacy_rootmind.kernel.room cimport make_room
from spacy_rootmind.kernel.status cimport Status
from weights cimport (
    sum_row,
    wide_divide,
    wide_from,
    wide_log,
    wide_multiply,
    wide_to_double,
)

cdef enum:
    NO_CHILD = -1
    DRAWN = -2

# A node with less than this left is weighed in wide numbers. Masses that underflowed are much
# smaller.
cdef double LEAST_REMAINING = 1e-100


# --- nodes -------------------------------------------------------------------------------------

cdef void trie_free(Trie* trie) noexcept nogil:
    """Free all memory; harmless when called twice."""
    free(trie.nodes)
    free(trie.masses)
    free(trie.children)
    free(trie.path)
    memset(trie, 0, sizeof(Trie))


cdef int trie_begin(Trie* trie, Py_ssize_t n_choices) noexcept nogil:
    """Begin a sentence whose trees are of at most that many choices; returns a Status."""
    trie.n_nodes = trie.n_masses = 0
    trie.exhausted = False
    trie.log_remaining = 0
    return make_room(<void**>&trie.path, &trie.path_room, n_choices, sizeof(Py_ssize_t))


cdef int make_node(Trie* trie, Py_ssize_t place, Py_ssize_t n_choices) noexcept nogil:
    """Make a node below the alternative at `place` unless NO_CHILD, without masses; a Status."""
    cdef Py_ssize_t i, rows = trie.n_masses + n_choices
    cdef TrieNode* node
    cdef int status = make_room(
        <void**>&trie.nodes, &trie.room, trie.n_nodes + 1, sizeof(TrieNode))
    if status == Status.OK:
        status = make_room(<void**>&trie.masses, &trie.row_room, rows, sizeof(ExtendedFloat))
    if status == Status.OK:
        status = make_room(
            <void**>&trie.children, &trie.child_room, rows, sizeof(Py_ssize_t))
    if status != Status.OK:
        return status
    node = &trie.nodes[trie.n_nodes]
    node.row = trie.n_masses
    node.n_choices = n_choices
    node.word = 0
    node.is_wide = True
    node.share = node.remaining = wide_from(1, 0)
    if place != NO_CHILD:
        node.share = trie.masses[place]
        trie.children[place] = trie.n_nodes
    for i in range(node.row, rows):
        trie.children[i] = NO_CHILD
    trie.n_nodes += 1
    trie.n_masses = rows
    return Status.OK


cdef void divide_masses(Trie* trie, const TrieNode* node, ExtendedFloat total) noexcept nogil:
    """Turn weights into shares, given their sum."""
    cdef Py_ssize_t i
    for i in range(node.row, node.row + node.n_choices):
        trie.masses[i] = wide_divide(trie.masses[i], total)


cdef int weigh_again(Trie* trie, PartialTree* tree, TrieNode* node) noexcept nogil:
    """Find a node's masses in wide numbers, less what was drawn; returns a Status.

    The tree must have the node's choices.
    """
    cdef ExtendedFloat total
    cdef TrieNode* child
    cdef Py_ssize_t i
    cdef int status = partial_wide_weights(tree, trie.masses + node.row, &total)
    if status != Status.OK:
        return status
    divide_masses(trie, node, total)
    for i in range(node.row, node.row + node.n_choices):
        if trie.children[i] == DRAWN:
            trie.masses[i] = wide_from(0, 0)
        elif trie.children[i] != NO_CHILD:
            child = &trie.nodes[trie.children[i]]
            child.share = trie.masses[i]
            trie.masses[i] = wide_multiply(child.share, child.remaining)
    node.is_wide = True
    node.remaining = sum_row(trie.masses + node.row, node.n_choices)
    return Status.OK


cdef int remove_choices(Trie* trie, PartialTree* tree, Py_ssize_t n_made) noexcept nogil:
    """Remove the tree of that many choices along the path, and add up what remains there.

    `tree` is only for nodes that are not wide. Returns a Status.
    """
    cdef ExtendedFloat left = wide_from(0, 0)    # of the alternative that was chosen
    cdef TrieNode* node
    cdef Py_ssize_t i
    cdef double low
    cdef int status
    for i in range(n_made - 1, -1, -1):
        node = &trie.nodes[trie.path[i]]
        trie.masses[node.row + node.chosen] = left
        node.remaining = sum_row(trie.masses + node.row, node.n_choices)
        poll(4 * node.n_choices)
        if not node.is_wide and wide_to_double(node.remaining) < LEAST_REMAINING:
            partial_restart(tree, i, i + 1)
            status = weigh_again(trie, tree, node)
            if status != Status.OK:
                return status
        left = wide_multiply(node.share, node.remaining)
    trie.exhausted = left.part == 0
    trie.log_remaining = wide_log(left, &low) + low
    return Status.OK


cdef inline Py_ssize_t choose(Trie* trie, Py_ssize_t number, Stream* random) noexcept nogil:
    """Draw an alternative of a node by what remains of it; returns its place."""
    cdef TrieNode* node = &trie.nodes[number]
    node.chosen = draw_wide(trie.masses + node.row, node.n_choices, node.remaining, random)
    return node.row + node.chosen


# --- all trees ---------------------------------------------------------------------------------

cdef int add_head(Trie* trie, PartialTree* tree, Py_ssize_t place) noexcept nogil:
    """Add a node for the tree's next word, and choose the head that it has; returns a Status."""
    cdef TrieNode* node
    cdef ExtendedFloat total
    cdef int status = make_node(trie, place, tree.n + 1)
    if status != Status.OK:
        return status
    node = &trie.nodes[trie.n_nodes - 1]
    node.word = tree.order[tree.n_fixed]
    node.chosen = tree.heads[node.word]
    status = partial_weights(tree, trie.masses + node.row, &total, &node.is_wide)
    if status == Status.OK:
        divide_masses(trie, node, total)
    return status


cdef int trie_draw(
        Trie* trie, PartialTree* tree, Stream* random, int32_t* heads) noexcept nogil:
    """Draw a tree that was not drawn yet, of which there must be one; returns a Status.

    `tree` belongs to the sentence, the same each time.
    """
    cdef TrieNode* node
    cdef Py_ssize_t depth = 0, place = NO_CHILD, number = 0 if trie.n_nodes > 0 else NO_CHILD
    cdef int status = Status.OK
    while number >= 0 and depth < tree.n:
        poll_row(depth, 4 * tree.n)
        place = choose(trie, number, random)
        node = &trie.nodes[number]
        trie.path[depth] = number
        tree.order[depth] = <int32_t>node.word
        tree.heads[node.word] = <int32_t>node.chosen
        number = trie.children[place]
        depth += 1
    if depth < tree.n:
        partial_restart(tree, depth, depth)
        status = partial_draw_rest(tree, random)
    while status == Status.OK and depth < tree.n:
        poll_row(depth, 16 * tree.n)
        trie.path[depth] = trie.n_nodes
        status = add_head(trie, tree, place)
        node = &trie.nodes[trie.n_nodes - 1]
        place = node.row + node.chosen
        depth += 1
        if depth < tree.n:
            partial_fix(tree, node.chosen)
    if status != Status.OK:
        return status
    trie.children[place] = DRAWN
    memcpy(heads, tree.heads, (tree.n + 1) * sizeof(int32_t))
    return remove_choices(trie, tree, tree.n)


# --- projective trees --------------------------------------------------------------------------

cdef int add_choice(
        Trie* trie, const SpanSums* sums, const Draft* draft, Py_ssize_t place) noexcept nogil:
    """Add a node for a draft's next choice; returns a Status."""
    cdef TrieNode* node
    cdef int status = make_node(trie, place, draft.n_choices)
    if status == Status.OK:
        node = &trie.nodes[trie.n_nodes - 1]
        divide_masses(trie, node, draft_weigh(sums, draft, trie.masses + node.row))
    return status


cdef int trie_draw_projective(
        Trie* trie, SpanSums* sums, Stream* random, int32_t* heads) noexcept nogil:
    """Draw a tree that was not drawn yet, of which there must be one. O(n^2) at most.

    `sums` belong to the sentence, the same each time. Returns a Status.
    """
    cdef Draft draft
    cdef Py_ssize_t n_made = 0, place = NO_CHILD, number = 0
    cdef int status
    draft_begin(sums, heads, &draft)
    while draft.n_choices > 0:
        if number == NO_CHILD or trie.n_nodes == 0:
            number = trie.n_nodes
            status = add_choice(trie, sums, &draft, place)
            if status != Status.OK:
                return status
        poll(8 * draft.n_choices)
        place = choose(trie, number, random)
        draft_choose(sums, &draft, trie.nodes[number].chosen)
        trie.path[n_made] = number
        n_made += 1
        number = trie.children[place]
    return remove_choices(trie, NULL, n_made)
