"""Projective sampling without replacement: each tree in proportion to its weight among the rest.

A trie (Shi, Bieber & Sutton 2020) over the choices by which a tree is drawn from the root down (see
`inside_outside`): its root token, then for span after span the outermost dependent and the border.
Which choice is next depends on earlier ones alone, so each node has its own. It holds how much of
its mass remains in every alternative: for one never chosen its share, exact from the sums over
spans; for the others their share times what remains in the node that follows. As in `distinct`,
nothing is ever subtracted. Masses have a wide exponent, so what remains after the probable trees is
as accurate as they are.

A tree takes at most 2 n choices among at most n alternatives, and adds nodes for those below the
point where it leaves the trie: memory is O(n^2) per tree drawn, and less where spans are split near
the middle.
"""
from libc.stdint cimport int32_t
from libc.stdlib cimport free

from spacy_rootmind.kernel.decode cimport DECODE_OK
from spacy_rootmind.kernel.inside_outside cimport (
    Draft,
    SpanSums,
    draft_begin,
    draft_choose,
    draft_weigh,
)
from spacy_rootmind.kernel.interrupt cimport poll
from spacy_rootmind.kernel.random cimport RandomSource, next_double
from spacy_rootmind.kernel.room cimport make_room
from weights cimport (
    Wide,
    wide_divide,
    wide_from,
    wide_log,
    wide_multiply,
    wide_sum_row,
    wide_to_double,
)

cdef extern from "ieee.h":
    pass

cdef enum:
    NO_CHILD = -1

# A choice to be made after those of a tree that was drawn.
cdef struct Node:
    Wide share              # of the parent's mass before anything was drawn
    Wide remaining          # of its own mass
    Py_ssize_t row          # its first alternative, in the arrays of masses and children
    Py_ssize_t n_choices
    Py_ssize_t chosen       # by the tree at hand


# --- memory ------------------------------------------------------------------------------------

cdef void projective_trie_free(ProjectiveTrie* trie) noexcept nogil:
    """Free all memory; harmless when called twice."""
    free(trie.nodes)
    free(trie.masses)
    free(trie.children)
    free(trie.path)
    trie.nodes = trie.masses = NULL
    trie.children = trie.path = NULL
    trie.room = trie.row_room = trie.child_room = trie.path_room = 0


cdef int room_for_node(ProjectiveTrie* trie, Py_ssize_t n_choices) noexcept nogil:
    """Make room for one more node; returns a DecodeStatus."""
    cdef Py_ssize_t rows = trie.n_masses + n_choices
    cdef int status = make_room(&trie.nodes, &trie.room, trie.n_nodes + 1, sizeof(Node))
    if status == DECODE_OK:
        status = make_room(&trie.masses, &trie.row_room, rows, sizeof(Wide))
    if status == DECODE_OK:
        status = make_room(
            <void**>&trie.children, &trie.child_room, rows, sizeof(Py_ssize_t))
    return status


cdef int projective_trie_begin(ProjectiveTrie* trie, Py_ssize_t n) noexcept nogil:
    """Begin a sentence; returns a DecodeStatus."""
    trie.n_nodes = trie.n_masses = 0
    trie.exhausted = False
    trie.log_remaining = 0
    return make_room(<void**>&trie.path, &trie.path_room, 2 * n, sizeof(Py_ssize_t))


# --- draws -------------------------------------------------------------------------------------

cdef int add_node(
        ProjectiveTrie* trie, const SpanSums* sums, const Draft* draft, Py_ssize_t place
) noexcept nogil:
    """Add a node for a draft's next choice, below the alternative at `place` unless NO_CHILD."""
    cdef Node* node
    cdef Wide* row
    cdef Py_ssize_t i
    cdef int status = room_for_node(trie, draft.n_choices)
    if status != DECODE_OK:
        return status
    node = &(<Node*>trie.nodes)[trie.n_nodes]
    node.row = trie.n_masses
    node.n_choices = draft.n_choices
    node.share = wide_from(1, 0)
    if place != NO_CHILD:
        node.share = (<Wide*>trie.masses)[place]
        trie.children[place] = trie.n_nodes
    row = <Wide*>trie.masses + node.row
    draft_weigh(sums, draft, row)
    node.remaining = wide_sum_row(row, node.n_choices)
    for i in range(node.n_choices):
        row[i] = wide_divide(row[i], node.remaining)
        trie.children[node.row + i] = NO_CHILD
    node.remaining = wide_from(1, 0)
    trie.n_nodes += 1
    trie.n_masses += node.n_choices
    return DECODE_OK


cdef void choose(Node* node, const Wide* masses, const RandomSource* random) noexcept nogil:
    """Draw an alternative by what remains of it."""
    cdef double left = next_double(random)
    cdef Py_ssize_t i
    for i in range(node.n_choices):
        if masses[node.row + i].part > 0:
            node.chosen = i
            left -= wide_to_double(wide_divide(masses[node.row + i], node.remaining))
            if left < 0:
                break


cdef void remove_tree(ProjectiveTrie* trie, Py_ssize_t n_made) noexcept nogil:
    """Remove the tree of that many choices along the path, and add up what remains there."""
    cdef Wide* masses = <Wide*>trie.masses
    cdef Wide left = wide_from(0, 0)    # of the alternative that was chosen
    cdef Node* node
    cdef Py_ssize_t i
    cdef double low
    for i in range(n_made - 1, -1, -1):
        node = &(<Node*>trie.nodes)[trie.path[i]]
        masses[node.row + node.chosen] = left
        node.remaining = wide_sum_row(masses + node.row, node.n_choices)
        left = wide_multiply(node.share, node.remaining)
        poll(4 * node.n_choices)
    trie.exhausted = left.part == 0
    trie.log_remaining = wide_log(left, &low) + low


cdef int projective_trie_draw(
        ProjectiveTrie* trie, SpanSums* sums, const RandomSource* random, int32_t* heads
) noexcept nogil:
    """Draw a tree that was not drawn yet; see the declaration. O(n^2) at most."""
    cdef Draft draft
    cdef Node* node
    cdef Py_ssize_t n_made = 0, place = NO_CHILD, number = 0
    cdef int status
    draft_begin(sums, heads, &draft)
    while draft.n_choices > 0:
        if number == NO_CHILD or trie.n_nodes == 0:
            number = trie.n_nodes
            status = add_node(trie, sums, &draft, place)
            if status != DECODE_OK:
                return status
        node = &(<Node*>trie.nodes)[number]
        choose(node, <const Wide*>trie.masses, random)
        poll(8 * node.n_choices)
        draft_choose(sums, &draft, node.chosen)
        trie.path[n_made] = number
        n_made += 1
        place = node.row + node.chosen
        number = trie.children[place]
    remove_tree(trie, n_made)
    return DECODE_OK
