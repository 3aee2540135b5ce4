"""Sampling without replacement: each tree in proportion to its weight among those not drawn yet.

A trie over the choices by which a tree is drawn (Shi, Bieber & Sutton 2020) has a node for every
choice made so far, and each node holds how much of its mass remains in every alternative: for one
never chosen, its exact share; for one chosen, its share times what remains in the node that
follows. The weight of a drawn tree is never subtracted from anything: with a confident model that
difference would be nothing but rounding errors. Masses have a wide exponent, so what remains after
the probable trees is as accurate as they are.

The choices of a tree are the heads of its words. As soon as a draw leaves the trie, the rest of its
tree is drawn at once, and the new nodes are for the heads of its words from the root down, each
branch in an order of its own: their distributions then take one elimination together. The masses of
a node are first found in float64, and again in wide numbers once all but a vanishing part of it has
been drawn, where underflow might count.

The choices of a projective tree, from the root down, are its root token, then for span after span
the outermost dependent and the border (see `inside_outside`).

A tree takes n choices, or 2 n if it is projective, among n alternatives at most, and adds nodes for
those below the point where it leaves the trie: memory is O(n^2) per tree drawn.

A word with a fixed head joins the component of that head; the component of ROOT takes the place of
ROOT, and with a single root it takes no further dependents of ROOT. There remains a smaller
problem of the same kind, whose words are those without a head.

To draw all of their heads, eliminate these words (see `partition`) and insert them again (see
`ancestral`). For the distribution of one word's head, eliminate the others. Forward substitution
then gives the probability of each to reach ROOT before that word, and the probability of a head is
proportional to the weight of its arc times its component's. Only sums, products and quotients of
positive numbers occur: every probability, however small, is accurate relative to itself.

Eliminating m words costs m^3 / 3 multiplications. But if a word's head is connected to ROOT
already, the next word needs no elimination: two columns of the last one are added. So once a tree
is known, one elimination gives the distributions of all its words' heads, from the root down.
"""
from libc.stddef cimport size_t
from libc.stdint cimport int32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from spacy_rootmind.kernel.ancestral cimport (
    ancestral_begin,
    ancestral_draw,
    ancestral_free,
    ancestral_init,
)
from spacy_rootmind.kernel.inside_outside cimport (
    Draft,
    draft_begin,
    draft_choose,
    draft_weigh,
    draw_wide,
)
from spacy_rootmind.kernel.interrupt cimport give_up, poll, poll_row, require
from spacy_rootmind.kernel.partition cimport (
    eliminate_words,
    make_wide,
    tree_sum_free,
    tree_sum_init,
    weigh_arcs,
)
from spacy_rootmind.kernel.random cimport Stream, draw_index
from spacy_rootmind.kernel.room cimport Layout, add_array, allocate, make_room
from spacy_rootmind.kernel.status cimport Status
from weights cimport (
    ExtendedFloat,
    add,
    divide_by_largest,
    dot,
    is_zero,
    multiply,
    sum_row,
    weight_from,
    weight_t,
    wide_divide,
    wide_from,
    wide_multiply,
    wide_to_double,
)

cdef enum:
    NO_CHILD = -1
    DRAWN = -2

# A node with less than this left is weighed in wide numbers. Masses that underflowed are much
# smaller.
cdef double LEAST_REMAINING = 1e-100
# Weights of heads that add up to less than this are computed a second time, in wide numbers.
cdef double LEAST_TOTAL = 1e-100


# --- memory ------------------------------------------------------------------------------------

cdef int trie_init(Trie* trie, Py_ssize_t max_words) noexcept nogil:
    """Allocate for all trees of sentences of up to `max_words` words: 40 n^2 + O(n) bytes.

    Three times as much once a sentence needs wide numbers. Returns Status.OK or Status.NO_MEMORY.
    """
    cdef size_t stride = (<size_t>max_words + 8) & ~<size_t>3
    cdef size_t width = <size_t>max_words + 1
    cdef Layout layout
    cdef PartialTree* tree = &trie.tree
    tree.max_words = max_words
    if (
        tree_sum_init(&tree.rest, max_words, False) != Status.OK
        or ancestral_init(&tree.ancestral, max_words) != Status.OK
    ):
        return Status.NO_MEMORY
    layout.n_arrays = layout.size = 0
    add_array(&layout, <void**>&tree.weights, stride, sizeof(double))
    add_array(&layout, <void**>&tree.reach, stride, sizeof(double))
    add_array(&layout, <void**>&tree.heads, width, sizeof(int32_t))
    add_array(&layout, <void**>&tree.order, width, sizeof(int32_t))
    add_array(&layout, <void**>&tree.place, width, sizeof(int32_t))
    add_array(&layout, <void**>&tree.top, width, sizeof(int32_t))
    add_array(&layout, <void**>&tree.number, width, sizeof(int32_t))
    add_array(&layout, <void**>&tree.drawn, width, sizeof(int32_t))
    add_array(&layout, <void**>&tree.first_below, width, sizeof(int32_t))
    add_array(&layout, <void**>&tree.next_below, width, sizeof(int32_t))
    return allocate(&layout, &tree.block, True)


cdef void trie_free(Trie* trie) noexcept nogil:
    """Free all memory; harmless when called twice."""
    tree_sum_free(&trie.tree.rest)
    ancestral_free(&trie.tree.ancestral)
    free(trie.tree.block)
    free(trie.tree.wide_reach)
    free(trie.nodes)
    free(trie.masses)
    free(trie.children)
    free(trie.path)
    memset(trie, 0, sizeof(Trie))


# --- components --------------------------------------------------------------------------------

cdef void restart(
        PartialTree* tree, Py_ssize_t n_fixed, Py_ssize_t n_ordered) noexcept nogil:
    """Take the heads of the first `n_fixed` words in order as they stand. O(n d) for depth d.

    After the first `n_ordered` the other words follow as in the sentence.
    """
    cdef Py_ssize_t i, word, above, next_place = n_ordered
    for word in range(1, tree.n + 1):
        tree.place[word] = -1
    for i in range(n_ordered):
        tree.place[tree.order[i]] = <int32_t>i
    for word in range(1, tree.n + 1):
        if tree.place[word] < 0:
            tree.order[next_place] = <int32_t>word
            tree.place[word] = <int32_t>next_place
            next_place += 1
    tree.n_fixed = n_fixed
    tree.others.is_current = tree.wide_others.is_current = False
    tree.beyond_float64 = False
    tree.takes_root = True
    for word in range(1, tree.n + 1):
        poll_row(word, tree.n)
        above = word
        while above != 0 and tree.place[above] < n_fixed:
            above = tree.heads[above]
        tree.top[word] = <int32_t>above
        if tree.sum.single_root and above == 0:
            tree.takes_root = False
    number_components(tree)


cdef void number_components(PartialTree* tree) noexcept nogil:
    """Number heads by their component: 1 holds the next word, 0 holds ROOT.

    ROOT itself has no number once it takes no more dependents.
    """
    cdef Py_ssize_t head
    tree.number[0] = 0 if tree.takes_root else -1
    for head in range(1, tree.n + 1):
        tree.number[head] = (
            <int32_t>(tree.place[tree.top[head]] - tree.n_fixed + 1) if tree.top[head] != 0 else 0)


cdef void contract(
        const PartialTree* tree, const weight_t* weights, weight_t* contracted) noexcept nogil:
    """Add up the weights between components. O(n m) for m of them."""
    cdef Py_ssize_t m = tree.n - tree.n_fixed
    cdef Py_ssize_t i, head
    cdef const weight_t* row
    cdef weight_t* out
    for i in range(1, m + 1):
        poll_row(i, 2 * tree.n)
        row = weights + tree.order[tree.n_fixed + i - 1] * tree.sum.stride
        out = contracted + i * tree.rest.stride
        memset(out, 0, (m + 1) * sizeof(weight_t))
        if tree.takes_root:
            out[0] = row[0]
        for head in range(1, tree.n + 1):
            out[tree.number[head]] = add(out[tree.number[head]], row[head])


cdef void contract_to_rest(PartialTree* tree, bint is_wide) noexcept nogil:
    """Make `rest`, or its wide form, the problem that is left."""
    cdef TreeSum* rest = &tree.rest
    rest.n = tree.n - tree.n_fixed
    rest.single_root = tree.sum.single_root and tree.takes_root
    rest.beyond_float64 = is_wide
    if not is_wide:
        contract(tree, <const double*>tree.sum.weights, <double*>rest.weights)
        return
    make_wide(rest)
    if not (tree.has_wide_weights or tree.sum.beyond_float64):
        make_wide(tree.sum)
        require(weigh_arcs(tree.square, tree.n, tree.sum.single_root, tree.sum.wide))
    tree.has_wide_weights = True
    rest.wide.n = rest.n
    rest.wide.single_root = rest.single_root
    contract(tree, <const ExtendedFloat*>tree.sum.wide.weights, <ExtendedFloat*>rest.wide.weights)


# --- drawing the rest --------------------------------------------------------------------------

cdef void draw_components(PartialTree* tree, Stream* random) noexcept nogil:
    """Draw a tree of the components into `drawn`."""
    cdef TreeSum* rest = &tree.rest
    contract_to_rest(tree, False)
    if eliminate_words(rest, 1) != Status.OK:
        contract_to_rest(tree, True)
        require(eliminate_words(rest.wide, 1))
    ancestral_begin(&tree.ancestral, rest)
    ancestral_draw(&tree.ancestral, rest, 0, random, tree.drawn)


cdef void order_from_root_down(PartialTree* tree) noexcept nogil:
    """Order the words that are not fixed by the tree that `heads` now is. O(n)."""
    cdef Py_ssize_t i, word, above
    cdef Py_ssize_t next_place = tree.n_fixed
    memset(tree.first_below, 0, (tree.n + 1) * sizeof(int32_t))
    for i in range(tree.n - 1, tree.n_fixed - 1, -1):
        word = tree.order[i]
        above = tree.top[tree.heads[word]] if tree.heads[word] != 0 else 0
        tree.next_below[word] = tree.first_below[above]
        tree.first_below[above] = <int32_t>word
    above = 0
    i = tree.n_fixed
    while True:
        word = tree.first_below[above]
        while word != 0:
            tree.order[next_place] = <int32_t>word
            next_place += 1
            word = tree.next_below[word]
        if i == next_place:
            break
        above = tree.order[i]
        i += 1
    for i in range(tree.n_fixed, tree.n):
        tree.place[tree.order[i]] = <int32_t>i
    number_components(tree)


cdef void draw_rest(PartialTree* tree, Stream* random) noexcept nogil:
    """Draw all heads that are not fixed, and put their words in order from the root down.

    They do not become fixed. O(m^3 + n m) for m of them.
    """
    cdef Py_ssize_t i, word, row, n_heads = tree.n + 1
    cdef double total
    draw_components(tree, random)
    for i in range(1, tree.n - tree.n_fixed + 1):
        poll_row(i, 4 * tree.n)
        word = tree.order[tree.n_fixed + i - 1]
        row = word * tree.sum.stride
        # One of those in the component that was drawn.
        if tree.rest.beyond_float64:
            total = divide_by_largest(
                tree.weights, <const ExtendedFloat*>tree.sum.wide.weights + row, tree.number,
                tree.drawn[i], n_heads)
        else:
            total = divide_by_largest(
                tree.weights, <const double*>tree.sum.weights + row, tree.number, tree.drawn[i],
                n_heads)
        tree.heads[word] = <int32_t>draw_index(tree.weights, n_heads, total, random)
    order_from_root_down(tree)
    tree.others.is_current = tree.wide_others.is_current = False
    tree.beyond_float64 = tree.rest.beyond_float64


# --- the distribution of one head --------------------------------------------------------------

cdef int eliminate_others(
        PartialTree* tree, bint is_wide, Elimination* others) noexcept nogil:
    """Eliminate all components but the next word's, unless this has been done. O(m^3). A Status."""
    cdef TreeSum* rest
    cdef int status
    if others.is_current:
        return Status.OK
    contract_to_rest(tree, is_wide)
    rest = tree.rest.wide if is_wide else &tree.rest
    status = eliminate_words(rest, 2)
    others.root_word = rest.root_word
    others.pivots = rest.pivots
    others.is_current = status == Status.OK
    return status


cdef weight_t weigh_next(
        const PartialTree* tree, const Elimination* others, const weight_t* weights,
        weight_t* reach, weight_t* out) noexcept nogil:
    """Fill out[0..n] with the weights of the next word's heads, and return their sum. O(m^2)."""
    cdef Py_ssize_t m = tree.n - tree.n_fixed
    cdef const weight_t* row = weights + tree.order[tree.n_fixed] * tree.sum.stride
    cdef const weight_t* pivots = <const weight_t*>others.pivots
    cdef Py_ssize_t i, head
    cdef weight_t total
    # With a single root, the root word of the elimination has taken the place of ROOT.
    cdef bint root_taken = tree.sum.single_root and others.root_word > 0
    memset(reach, 0, (m + 5) * sizeof(weight_t))
    reach[0] = weight_from(1, weights)
    for i in range(2, m + 1):
        poll_row(i, m)
        reach[i] = dot(<const weight_t*>reach, pivots + i * tree.rest.stride, i)
    out[0] = row[0] if tree.takes_root and not root_taken else weight_from(0, weights)
    total = out[0]
    for head in range(1, tree.n + 1):
        out[head] = multiply(row[head], reach[tree.number[head]])
        total = add(total, out[head])
    return total


cdef ExtendedFloat weigh_heads(
        PartialTree* tree, ExtendedFloat* weights, bint* is_wide) noexcept nogil:
    """Fill weights[0..n] in proportion to the probabilities of the next word's heads.

    Returns their sum. O(m^2) for m words without a head, but O(m^3) for the first word since a
    restart. They are found in float64 unless that does not suffice.
    """
    cdef double sum
    cdef Py_ssize_t head
    if not tree.beyond_float64:
        tree.beyond_float64 = eliminate_others(tree, False, &tree.others) != Status.OK
    if not tree.beyond_float64:
        sum = weigh_next(
            tree, &tree.others, <const double*>tree.sum.weights, tree.reach, tree.weights)
        if sum > LEAST_TOTAL:
            is_wide[0] = False
            for head in range(tree.n + 1):
                weights[head] = wide_from(tree.weights[head], 0)
            return wide_from(sum, 0)
    is_wide[0] = True
    return weigh_wide_heads(tree, weights)


cdef ExtendedFloat weigh_wide_heads(PartialTree* tree, ExtendedFloat* weights) noexcept nogil:
    """Fill weights[0..n] in the same way, in wide numbers."""
    cdef ExtendedFloat total
    if tree.wide_reach is NULL:
        tree.wide_reach = calloc(tree.max_words + 8, sizeof(ExtendedFloat))
        if tree.wide_reach is NULL:
            give_up(Status.NO_MEMORY)
    require(eliminate_others(tree, True, &tree.wide_others))
    total = weigh_next(
        tree, &tree.wide_others, <const ExtendedFloat*>tree.sum.wide.weights,
        <ExtendedFloat*>tree.wide_reach, weights)
    if is_zero(total):
        give_up(Status.NO_TREE)
    return total


cdef void shrink(
        Elimination* others, Py_ssize_t m, Py_ssize_t stride, bint root_taken,
        const weight_t* of_type) noexcept nogil:
    """Let column 1 take the place of column 0, and add that unless ROOT takes no dependents."""
    cdef weight_t* pivots = <weight_t*>others.pivots
    cdef Py_ssize_t i
    if not root_taken:
        for i in range(2, m + 1):
            pivots[i * stride + 1] = add(pivots[i * stride + 1], pivots[i * stride])
    others.pivots = pivots + stride + 1


cdef void fix_head(PartialTree* tree, Py_ssize_t head) noexcept nogil:
    """Give the next word its head, which is connected to ROOT. O(n)."""
    cdef Py_ssize_t m = tree.n - tree.n_fixed
    cdef Py_ssize_t word = tree.order[tree.n_fixed]
    cdef bint root_taken = tree.sum.single_root and head == 0
    cdef Py_ssize_t other
    tree.heads[word] = <int32_t>head
    for other in range(1, tree.n + 1):
        if tree.top[other] == word:
            tree.top[other] = 0
    tree.n_fixed += 1
    if root_taken:
        tree.takes_root = False
    number_components(tree)
    if tree.others.is_current:
        shrink(&tree.others, m, tree.rest.stride, root_taken, <const double*>NULL)
    if tree.wide_others.is_current:
        shrink(&tree.wide_others, m, tree.rest.stride, root_taken, <const ExtendedFloat*>NULL)


# --- nodes -------------------------------------------------------------------------------------

cdef void trie_begin(Trie* trie, Py_ssize_t n_choices) noexcept nogil:
    """Begin a sentence whose trees are of at most that many choices."""
    trie.n_nodes = trie.n_masses = 0
    trie.exhausted = False
    make_room(<void**>&trie.path, &trie.path_room, n_choices, sizeof(Py_ssize_t))


cdef void trie_begin_all(Trie* trie, const double* square, TreeSum* sum) noexcept nogil:
    """Begin a sentence with all of its trees, which `sum` was summed over."""
    trie.tree.square = square
    trie.tree.sum = sum
    trie.tree.n = sum.n
    trie.tree.has_wide_weights = False
    trie.tree.heads[0] = -1
    trie_begin(trie, sum.n)


cdef TrieNode* make_node(Trie* trie, Py_ssize_t place, Py_ssize_t n_choices) noexcept nogil:
    """Make a node below the alternative at `place` unless NO_CHILD, without masses."""
    cdef Py_ssize_t i, rows = trie.n_masses + n_choices
    cdef TrieNode* node
    make_room(<void**>&trie.nodes, &trie.room, trie.n_nodes + 1, sizeof(TrieNode))
    make_room(<void**>&trie.masses, &trie.row_room, rows, sizeof(ExtendedFloat))
    make_room(<void**>&trie.children, &trie.child_room, rows, sizeof(Py_ssize_t))
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
    return node


cdef void divide_masses(Trie* trie, const TrieNode* node, ExtendedFloat total) noexcept nogil:
    """Turn weights into shares, given their sum."""
    cdef Py_ssize_t i
    for i in range(node.row, node.row + node.n_choices):
        trie.masses[i] = wide_divide(trie.masses[i], total)


cdef void weigh_again(Trie* trie, TrieNode* node) noexcept nogil:
    """Find a node's masses in wide numbers, less what was drawn.

    The tree must have the node's choices.
    """
    cdef TrieNode* child
    cdef Py_ssize_t i
    divide_masses(trie, node, weigh_wide_heads(&trie.tree, trie.masses + node.row))
    for i in range(node.row, node.row + node.n_choices):
        if trie.children[i] == DRAWN:
            trie.masses[i] = wide_from(0, 0)
        elif trie.children[i] != NO_CHILD:
            child = &trie.nodes[trie.children[i]]
            child.share = trie.masses[i]
            trie.masses[i] = wide_multiply(child.share, child.remaining)
    node.is_wide = True
    node.remaining = sum_row(trie.masses + node.row, node.n_choices)


cdef void remove_choices(Trie* trie, Py_ssize_t n_made) noexcept nogil:
    """Remove the tree of that many choices along the path, and add up what remains there."""
    cdef ExtendedFloat left = wide_from(0, 0)    # of the alternative that was chosen
    cdef TrieNode* node
    cdef Py_ssize_t i
    for i in range(n_made - 1, -1, -1):
        node = &trie.nodes[trie.path[i]]
        trie.masses[node.row + node.chosen] = left
        node.remaining = sum_row(trie.masses + node.row, node.n_choices)
        poll(4 * node.n_choices)
        if not node.is_wide and wide_to_double(node.remaining) < LEAST_REMAINING:
            restart(&trie.tree, i, i + 1)
            weigh_again(trie, node)
        left = wide_multiply(node.share, node.remaining)
    trie.exhausted = left.part == 0


cdef inline Py_ssize_t choose(Trie* trie, Py_ssize_t number, Stream* random) noexcept nogil:
    """Draw an alternative of a node by what remains of it; returns its place."""
    cdef TrieNode* node = &trie.nodes[number]
    node.chosen = draw_wide(trie.masses + node.row, node.n_choices, node.remaining, random)
    return node.row + node.chosen


# --- all trees ---------------------------------------------------------------------------------

cdef TrieNode* add_head(Trie* trie, Py_ssize_t place) noexcept nogil:
    """Add a node for the tree's next word, and choose the head that it has."""
    cdef PartialTree* tree = &trie.tree
    cdef TrieNode* node = make_node(trie, place, tree.n + 1)
    node.word = tree.order[tree.n_fixed]
    node.chosen = tree.heads[node.word]
    divide_masses(trie, node, weigh_heads(tree, trie.masses + node.row, &node.is_wide))
    return node


cdef void trie_draw(Trie* trie, Stream* random, int32_t* heads) noexcept nogil:
    """Draw a tree that was not drawn yet, of which there must be one."""
    cdef PartialTree* tree = &trie.tree
    cdef TrieNode* node
    cdef Py_ssize_t depth = 0, place = NO_CHILD, number = 0 if trie.n_nodes > 0 else NO_CHILD
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
        restart(tree, depth, depth)
        draw_rest(tree, random)
    while depth < tree.n:
        poll_row(depth, 16 * tree.n)
        trie.path[depth] = trie.n_nodes
        node = add_head(trie, place)
        place = node.row + node.chosen
        depth += 1
        if depth < tree.n:
            fix_head(tree, node.chosen)
    trie.children[place] = DRAWN
    memcpy(heads, tree.heads, (tree.n + 1) * sizeof(int32_t))
    remove_choices(trie, tree.n)


# --- projective trees --------------------------------------------------------------------------

cdef void trie_draw_projective(
        Trie* trie, SpanSums* sums, Stream* random, int32_t* heads) noexcept nogil:
    """Draw a tree that was not drawn yet, of which there must be one. O(n^2) at most.

    `sums` belong to the sentence, the same each time.
    """
    cdef Draft draft
    cdef TrieNode* node
    cdef Py_ssize_t n_made = 0, place = NO_CHILD, number = 0
    draft_begin(sums, heads, &draft)
    while draft.n_choices > 0:
        if number == NO_CHILD or trie.n_nodes == 0:
            number = trie.n_nodes
            node = make_node(trie, place, draft.n_choices)
            divide_masses(trie, node, draft_weigh(sums, &draft, trie.masses + node.row))
        poll(8 * draft.n_choices)
        place = choose(trie, number, random)
        draft_choose(sums, &draft, trie.nodes[number].chosen)
        trie.path[n_made] = number
        n_made += 1
        number = trie.children[place]
    remove_choices(trie, n_made)
