"""Maximum spanning arborescences with at most one root arc, dense, in O(n^2).

Three stages, each leaving early when it settles the sentence:

1. ArcMax (Stanojevic & Cohen 2021, section 5): the best head of every word, if that is a tree.
2. Tarjan 1977 for dense graphs: walk along best arcs, contract every cycle met. Only rows are
   merged; columns stay the original heads, and labels name the node that holds a head now. So a
   node's best head is a column index, words are read in place, and nothing is moved.
3. Gabow & Tarjan 1984, as Zmigrod, Vieira & Cotterell 2020 (section 2.2) use it: while ROOT has
   several children, take away the root arc that costs least, contracting the cycle if one arises.

A contraction of k members costs O(k n) and the members never come back, so all contractions
together cost O(n^2). A cycle takes over the row of its largest member, so that a nested cycle needs
no memory of its own and its row stays in the processor's cache. Expansion does not need what a
merge overwrites: for every merge and head one bit says which side the better arc came from.
"""
from cpython.exc cimport PyErr_CheckSignals
from libc.float cimport DBL_MAX
from libc.math cimport INFINITY, NAN, fabs
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, uint8_t
from libc.stdlib cimport free

import numpy as np

from spacy_rootmind.kernel.batch cimport (
    Batch,
    ScoreBuffer,
    check_memory,
    run_batch,
    scores_of,
)
from spacy_rootmind.kernel.interrupt cimport ROWS_PER_POLL, poll, poll_row, require
from spacy_rootmind.kernel.room cimport Layout, add_array, allocate
from spacy_rootmind.kernel.simd cimport SCAN_NO_HEAD, SCAN_OK, row_passes
from spacy_rootmind.kernel.status cimport Status

cdef enum:
    SENTENCES_PER_CHECK = 1024  # of trees, for signals


# --- workspace ---------------------------------------------------------------------------------

cdef inline Py_ssize_t row_width(Py_ssize_t n) noexcept nogil:
    """Room for n + 1 scores, and for passes that go by eight."""
    return (n + 8) // 8 * 8


cdef int workspace_init(TreeWorkspace* ws, Py_ssize_t max_words, RowsKept rows) noexcept nogil:
    """Allocate one block for sentences of up to `max_words` words: O(n) bytes, and the rows' own.

    Returns Status.OK or Status.NO_MEMORY; then `ws` needs no free.
    """
    # A cycle that is not inside another has at least two words.
    cdef Py_ssize_t n_rows = rows * max_words // 2
    cdef size_t n = <size_t>max_words
    cdef size_t nodes = 2 * n + 1
    cdef size_t width = <size_t>row_width(max_words)
    cdef size_t n_bits = n * width // 8 if n_rows > 0 else 0
    cdef Layout layout
    ws.keep_rows = rows == ALL_ROWS
    ws.block = NULL
    # Longer sentences overflow int32 node numbers, and not only the memory.
    if n > 1 << 28:
        return Status.NO_MEMORY
    layout.n_arrays = layout.size = 0
    add_array(&layout, <void**>&ws.root_score, nodes, sizeof(double))
    add_array(&layout, <void**>&ws.alt_score, nodes, sizeof(double))
    add_array(&layout, <void**>&ws.best_score, nodes, sizeof(double))
    add_array(&layout, <void**>&ws.gain, n + 1, sizeof(double))
    add_array(&layout, <void**>&ws.rows, n_rows * width, sizeof(double))
    add_array(&layout, <void**>&ws.alt_head, nodes, sizeof(int32_t))
    add_array(&layout, <void**>&ws.best_head, nodes, sizeof(int32_t))
    add_array(&layout, <void**>&ws.entering, nodes, sizeof(int32_t))
    add_array(&layout, <void**>&ws.first_member, nodes, sizeof(int32_t))
    add_array(&layout, <void**>&ws.next_member, nodes, sizeof(int32_t))
    add_array(&layout, <void**>&ws.entered_member, nodes, sizeof(int32_t))
    add_array(&layout, <void**>&ws.first_merge, nodes, sizeof(int32_t))
    add_array(&layout, <void**>&ws.slot, nodes, sizeof(int32_t))
    add_array(&layout, <void**>&ws.n_words, nodes, sizeof(int32_t))
    add_array(&layout, <void**>&ws.first_word, nodes, sizeof(int32_t))
    add_array(&layout, <void**>&ws.last_word, nodes, sizeof(int32_t))
    add_array(&layout, <void**>&ws.stamp, nodes, sizeof(int32_t))
    add_array(&layout, <void**>&ws.next_word, n + 1, sizeof(int32_t))
    add_array(&layout, <void**>&ws.label, n + 1, sizeof(int32_t))
    add_array(&layout, <void**>&ws.labelled, n + 1, sizeof(int32_t))
    add_array(&layout, <void**>&ws.free_slots, n + 1, sizeof(int32_t))
    add_array(&layout, <void**>&ws.path, n + 1, sizeof(int32_t))
    add_array(&layout, <void**>&ws.merge_bits, n_bits, sizeof(uint8_t))
    return allocate(&layout, &ws.block, False)


cdef void workspace_free(TreeWorkspace* ws) noexcept nogil:
    """Free the block; harmless when called twice."""
    free(ws.block)
    ws.block = NULL


# --- tree checks -------------------------------------------------------------------------------

cdef bint heads_form_tree(
        const int32_t* heads, Py_ssize_t n, bint single_root, int32_t* above) noexcept nogil:
    """Tell whether heads[1..n], each within 0..n, form a tree.

    O(n log n), O(n log d) for trees of depth d: every word climbs twice as far in each round, until
    all are at ROOT or n steps up. On the shallow trees of sentences this is faster than walks with
    marks, which the processor cannot predict. Precondition: `above` has room for n + 1 numbers; it
    gets 0 for words that heads lead to ROOT, else a word on the way.
    """
    cdef Py_ssize_t word, n_roots = 0, steps = 1
    cdef int32_t below_root
    above[0] = 0
    for word in range(1, n + 1):
        above[word] = heads[word]
        n_roots += heads[word] == 0
    while True:
        below_root = 0
        for word in range(1, n + 1):
            above[word] = above[above[word]]
            below_root |= above[word]
        steps *= 2
        if below_root == 0:
            return n_roots == 1 or n == 0 or not single_root
        if steps >= n:
            return False


cdef bint tree_is_projective(
        const int32_t* heads, Py_ssize_t n, int32_t* scratch) noexcept nogil:
    """Tell whether every subtree covers a contiguous stretch of words; O(n).

    Preconditions: heads[1..n] form a tree; `scratch` has room for 4 (n + 1) numbers. Words are
    peeled off leaf by leaf, and each hands its leftmost word, rightmost word and size to its head.
    """
    cdef int32_t* left = scratch
    cdef int32_t* right = scratch + (n + 1)
    cdef int32_t* size = scratch + 2 * (n + 1)
    cdef int32_t* pending = scratch + 3 * (n + 1)
    cdef Py_ssize_t word, node, head
    for word in range(n + 1):
        left[word] = right[word] = <int32_t>word
        size[word] = 1
        pending[word] = 0
    for word in range(1, n + 1):
        pending[heads[word]] += 1
    for word in range(1, n + 1):
        node = word
        # A node is ready once all its dependents are in; `pending` then drops below zero so that
        # the outer loop does not start from it again.
        while node != 0 and pending[node] == 0:
            if right[node] - left[node] + 1 != size[node]:
                return False
            pending[node] = -1
            head = heads[node]
            left[head] = min(left[head], left[node])
            right[head] = max(right[head], right[node])
            size[head] += size[node]
            pending[head] -= 1
            node = head
    return True


cdef bint sums_overflow(const double* square, Py_ssize_t n) noexcept nogil:
    """Tell whether n finite scores of a contiguous square may add up to more than float64 holds."""
    cdef Py_ssize_t dep, head
    cdef double score, largest = 0
    for dep in range(1, n + 1):
        poll_row(dep, n)
        for head in range(n + 1):
            score = fabs(square[dep * (n + 1) + head])
            if head != dep and largest < score < INFINITY:
                largest = score
    return largest > DBL_MAX / (2 * n + 2)


# --- rows --------------------------------------------------------------------------------------

cdef inline void lower_row(
        double* out, const score_t* row, double cost, Py_ssize_t n) noexcept nogil:
    """Make a cycle's row: its first member's, less the score of the member's cycle arc."""
    if score_t is float:
        row_passes.lower_f32(out, row, cost, n)
    else:
        row_passes.lower_f64(out, row, cost, n)


cdef inline void merge_row(
        double* out, double lowering, const score_t* row, double cost, Py_ssize_t n,
        uint8_t* from_row) noexcept nogil:
    """Lower the cycle's row, then replace what a further member improves on."""
    if score_t is float:
        row_passes.merge_f32(out, lowering, row, cost, n, from_row)
    else:
        row_passes.merge_f64(out, lowering, row, cost, n, from_row)


cdef inline double* row_of(TreeWorkspace* ws, Py_ssize_t cycle) noexcept nogil:
    return ws.rows + ws.slot[cycle] * ws.row_width


cdef inline Py_ssize_t outermost(TreeWorkspace* ws, Py_ssize_t word) noexcept nogil:
    """The node that holds a word, or ROOT, and is in no cycle itself."""
    return ws.labelled[ws.label[word]]


cdef inline void choose_best(TreeWorkspace* ws, Py_ssize_t node) noexcept nogil:
    """Fix a node's greedy arc; ROOT, having the lowest index, wins ties."""
    if ws.root_score[node] >= ws.alt_score[node]:
        ws.best_score[node] = ws.root_score[node]
        ws.best_head[node] = 0
    else:
        ws.best_score[node] = ws.alt_score[node]
        ws.best_head[node] = ws.alt_head[node]


cdef inline int scan_sentence(
        const score_t* scores, Py_ssize_t row_stride, Py_ssize_t n, int32_t* heads,
        TreeWorkspace* ws) noexcept nogil:
    """Write the best head of each word to heads[1..n], and note its best arc from a word.

    The one pass over the input that every sentence costs. Status.BAD_SCORE for NaN or +inf,
    Status.NO_TREE if a word has no head above -inf.
    """
    cdef int found
    if score_t is float:
        found = row_passes.scan_f32(scores, row_stride, n, ws.alt_score, ws.alt_head, heads)
    else:
        found = row_passes.scan_f64(scores, row_stride, n, ws.alt_score, ws.alt_head, heads)
    if n >= ROWS_PER_POLL:
        poll(n * n)
    if found == SCAN_OK:
        return Status.OK
    return Status.NO_TREE if found == SCAN_NO_HEAD else Status.BAD_SCORE


# --- contraction -------------------------------------------------------------------------------

cdef double* begin_row(
        const score_t* scores, Py_ssize_t row_stride, Py_ssize_t n, Py_ssize_t cycle,
        Py_ssize_t base, double* lowering, TreeWorkspace* ws) noexcept nogil:
    """Give the cycle a row that holds its base's; what is still to be subtracted is `lowering`."""
    cdef double cost = ws.best_score[base]
    cdef double* out
    lowering[0] = 0
    if base > n and not ws.keep_rows:
        ws.slot[cycle] = ws.slot[base]
        lowering[0] = cost
        return row_of(ws, cycle)
    if ws.n_free > 0:
        ws.n_free -= 1
        ws.slot[cycle] = ws.free_slots[ws.n_free]
    else:
        ws.slot[cycle] = <int32_t>ws.n_slots
        ws.n_slots += 1
    out = row_of(ws, cycle)
    if base > n:
        lower_row(out, <const double*>row_of(ws, base), cost, n)
    else:
        lower_row(out, scores + base * row_stride, cost, n)
        out[base] = NAN
    return out


cdef void merge_member(
        const score_t* scores, Py_ssize_t row_stride, Py_ssize_t n, Py_ssize_t cycle,
        Py_ssize_t node, double* out, double lowering, TreeWorkspace* ws) noexcept nogil:
    """Merge a member into the cycle: its row, its arc from ROOT, its words."""
    cdef uint8_t* from_row = ws.merge_bits + ws.n_merges * ws.bits_width
    cdef double cost = ws.best_score[node]
    cdef double via_node = ws.root_score[node] - cost
    cdef int32_t label = ws.label[ws.first_word[cycle]]
    cdef int32_t word
    poll_row(ws.n_merges, n)
    if node <= n:
        merge_row(out, lowering, scores + node * row_stride, cost, n, from_row)
    else:
        merge_row(out, lowering, <const double*>row_of(ws, node), cost, n, from_row)
        if not ws.keep_rows:
            ws.free_slots[ws.n_free] = ws.slot[node]
            ws.n_free += 1
    # The rows' own bit 0 means nothing: ROOT's arcs are kept apart from them.
    from_row[0] &= 0xfe
    if via_node > ws.root_score[cycle]:
        ws.root_score[cycle] = via_node
        from_row[0] |= 1
    ws.n_merges += 1
    word = ws.first_word[node]
    ws.next_word[ws.last_word[cycle]] = word
    ws.last_word[cycle] = ws.last_word[node]
    ws.n_words[cycle] += ws.n_words[node]
    while word != 0:
        ws.label[word] = label
        out[word] = NAN
        word = ws.next_word[word]


cdef Py_ssize_t contract(
        const score_t* scores, Py_ssize_t row_stride, Py_ssize_t n, Py_ssize_t cycle,
        const int32_t* members, Py_ssize_t n_members, TreeWorkspace* ws) noexcept nogil:
    """Make node number `cycle` from members whose best arcs form a cycle; returns it.

    It takes over row and label of the member of most words, so that a word takes another label only
    from a larger node: O(log n) a word in all. Otherwise O(k n).
    """
    cdef Py_ssize_t i, _i, node, place = 0
    cdef double lowering
    cdef double* out
    for i in range(1, n_members):
        if ws.n_words[members[i]] > ws.n_words[members[place]]:
            place = i
    node = members[place]
    out = begin_row(scores, row_stride, n, cycle, node, &lowering, ws)
    ws.root_score[cycle] = ws.root_score[node] - ws.best_score[node]
    ws.first_member[cycle] = <int32_t>node
    ws.first_merge[cycle] = <int32_t>ws.n_merges
    ws.first_word[cycle] = ws.first_word[node]
    ws.last_word[cycle] = ws.last_word[node]
    ws.n_words[cycle] = ws.n_words[node]
    ws.labelled[ws.label[ws.first_word[node]]] = <int32_t>cycle
    for _i in range(1, n_members):
        place = place + 1 if place + 1 < n_members else 0
        ws.next_member[node] = members[place]
        node = members[place]
        merge_member(scores, row_stride, n, cycle, node, out, lowering, ws)
        lowering = 0
    ws.next_member[node] = 0
    ws.alt_head[cycle] = row_passes.scan_row(out, n, &ws.alt_score[cycle])
    ws.stamp[cycle] = 0
    choose_best(ws, cycle)
    return cycle


cdef Py_ssize_t contract_greedy_cycles(
        const score_t* scores, Py_ssize_t row_stride, Py_ssize_t n, bint climbed,
        TreeWorkspace* ws) noexcept nogil:
    """Tarjan's algorithm: contract until the best arcs form an arborescence.

    Returns the number of the next free node, or Status.NO_TREE. `stamp` is 0 for a node not seen,
    its 1-based place on the current path, or -1 once it is known to lead to ROOT: with
    `climbed`, that is what `heads_form_tree` has found there.
    """
    cdef Py_ssize_t next_node = n + 1
    cdef Py_ssize_t word, node, length, place
    ws.row_width = row_width(n)
    ws.bits_width = ws.row_width // 8
    ws.n_slots = ws.n_free = ws.n_merges = 0
    ws.label[0] = ws.labelled[0] = 0
    for word in range(1, n + 1):
        ws.label[word] = ws.labelled[word] = <int32_t>word
        ws.first_word[word] = ws.last_word[word] = <int32_t>word
        ws.n_words[word] = 1
        ws.next_word[word] = 0
        ws.stamp[word] = -1 if climbed and ws.stamp[word] == 0 else 0
        ws.root_score[word] = scores[word * row_stride]
        choose_best(ws, word)
    ws.stamp[0] = -1
    for word in range(1, n + 1):
        node = outermost(ws, word)
        length = 0
        while ws.stamp[node] != -1:
            if ws.stamp[node] == 0:
                if ws.best_score[node] == -INFINITY:
                    return Status.NO_TREE
                ws.path[length] = <int32_t>node
                length += 1
                ws.stamp[node] = <int32_t>length
                node = outermost(ws, ws.best_head[node])
            else:
                place = ws.stamp[node] - 1
                node = contract(
                    scores, row_stride, n, next_node, ws.path + place, length - place, ws)
                next_node += 1
                length = place
        while length > 0:
            length -= 1
            ws.stamp[ws.path[length]] = -1
    return next_node


cdef Py_ssize_t cycle_through(Py_ssize_t child, TreeWorkspace* ws, int32_t* cycle) noexcept nogil:
    """Follow heads from a root child that took its alternative arc.

    Returns the length of the cycle it closed, written to `cycle`, or 0 if ROOT is reached.
    """
    cdef Py_ssize_t length = 1
    cdef Py_ssize_t node = outermost(ws, ws.alt_head[child])
    cycle[0] = <int32_t>child
    while node != child:
        if node == 0:
            return 0
        cycle[length] = <int32_t>node
        length += 1
        node = outermost(ws, ws.best_head[node])
    return length


cdef Py_ssize_t remove_root_arcs(
        const score_t* scores, Py_ssize_t row_stride, Py_ssize_t n, Py_ssize_t next_node,
        TreeWorkspace* ws) noexcept nogil:
    """Gabow & Tarjan: keep the best arcs optimal while root arcs go, until one is left.

    Every round drops a root arc or contracts a cycle, so there are fewer than 2n rounds of O(n).
    Returns the number of the next free node, or Status.NO_TREE.
    """
    # Outermost nodes are recognised by their first word; `entering` is not in use before expansion.
    # A child's alternative stays the same as long as it is a child, and so does what it gains.
    cdef int32_t* children = ws.path
    cdef int32_t* cycle = ws.entering
    cdef double* gain = ws.gain
    cdef Py_ssize_t n_children = 0
    cdef Py_ssize_t word, node, child, length
    cdef int32_t place
    cdef double best_gain
    for word in range(1, n + 1):
        node = outermost(ws, word)
        if ws.first_word[node] == word and ws.best_head[node] == 0:
            n_children += 1
            children[n_children] = <int32_t>node
            gain[n_children] = ws.alt_score[node] - ws.root_score[node]
    while n_children > 1:
        poll_row(n_children, n)
        place = row_passes.scan_row(gain, n_children, &best_gain)
        if place == 0:
            return Status.NO_TREE
        child = children[place]
        length = cycle_through(child, ws, cycle)
        ws.best_head[child] = ws.alt_head[child]
        ws.best_score[child] = ws.alt_score[child]
        if length == 0:
            ws.root_score[child] = -INFINITY
            children[place] = children[n_children]
            gain[place] = gain[n_children]
            n_children -= 1
        else:
            node = contract(scores, row_stride, n, next_node, cycle, length, ws)
            next_node += 1
            children[place] = <int32_t>node
            gain[place] = ws.alt_score[node] - ws.root_score[node]
    return next_node


# --- expansion ---------------------------------------------------------------------------------

cdef void expand(
        Py_ssize_t n, Py_ssize_t next_node, int32_t* heads, TreeWorkspace* ws) noexcept nogil:
    """Undo the contractions, newest first: in each cycle the entered member leaves its arc. O(n).

    It is the last member whose merge improved the arc from the head in question, or else the first.
    """
    cdef Py_ssize_t word, node, cycle, head, member, entered
    cdef const uint8_t* from_row
    for word in range(1, n + 1):
        node = outermost(ws, word)
        ws.entering[node] = ws.best_head[node]
    for cycle in range(next_node - 1, n, -1):
        head = ws.entering[cycle]
        from_row = ws.merge_bits + ws.first_merge[cycle] * ws.bits_width
        entered = member = ws.first_member[cycle]
        ws.entering[member] = ws.best_head[member]
        member = ws.next_member[member]
        while member != 0:
            ws.entering[member] = ws.best_head[member]
            if from_row[head >> 3] >> (head & 7) & 1:
                entered = member
            from_row += ws.bits_width
            member = ws.next_member[member]
        ws.entering[entered] = <int32_t>head
        ws.entered_member[cycle] = <int32_t>entered
    for word in range(1, n + 1):
        heads[word] = ws.entering[word]


# --- whole sentences ---------------------------------------------------------------------------

cdef int arcmax_tree(
        const score_t* scores, Py_ssize_t row_stride, Py_ssize_t n, bint single_root,
        int32_t* heads, TreeWorkspace* ws) noexcept nogil:
    """Write the best head of each word to heads[1..n]; Status.OK if they form a tree. O(n^2).

    Otherwise Status.UNSETTLED, or Status.BAD_SCORE, or Status.NO_TREE if a word has no head at all.
    """
    cdef int status = scan_sentence(scores, row_stride, n, heads, ws)
    if status != Status.OK:
        return status
    return Status.OK if heads_form_tree(heads, n, single_root, ws.stamp) else Status.UNSETTLED


cdef int decode_tree(
        const score_t* scores, Py_ssize_t row_stride, Py_ssize_t n, bint single_root, bint arcmax,
        int32_t* heads, TreeWorkspace* ws) noexcept nogil:
    """Write the best tree of one sentence to heads[0..n].

    `row_stride` counts elements; within a row they are contiguous. Precondition: `ws` was made for
    at least n words. Returns a Status; unless it is Status.OK, `heads` is not meaningful.
    """
    cdef Py_ssize_t next_node
    cdef int status
    heads[0] = -1
    if n == 0:
        return Status.OK
    status = scan_sentence(scores, row_stride, n, heads, ws)
    if status != Status.OK:
        return status
    if arcmax and heads_form_tree(heads, n, single_root, ws.stamp):
        return Status.OK
    next_node = contract_greedy_cycles(scores, row_stride, n, arcmax, ws)
    if next_node > 0 and single_root:
        next_node = remove_root_arcs(scores, row_stride, n, next_node, ws)
    if next_node < 0:
        return Status.NO_TREE
    expand(n, next_node, heads, ws)
    ws.n_nodes = next_node
    return Status.OK


# --- batches -----------------------------------------------------------------------------------

# The output, a row per sentence.
cdef struct HeadRows:
    int32_t* heads
    Py_ssize_t width


cdef void decode_sentence(
        void* state, const Batch* batch, Py_ssize_t sentence) noexcept nogil:
    """Decode one sentence to its row of heads, padded with -1."""
    cdef DecoderState* decoder = <DecoderState*>state
    cdef const HeadRows* rows = <const HeadRows*>batch.task
    cdef int32_t* heads = rows.heads + sentence * rows.width
    cdef Py_ssize_t padding
    require(decoder.decode(decoder, batch, sentence, heads))
    for padding in range(batch.lengths[sentence] + 1, rows.width):
        heads[padding] = -1


cdef class Decoder(Worker):
    """An algorithm with its memory, for one thread and sentences of up to `max_words` words.

    Subclasses take these arguments first, then their own.
    """

    def __cinit__(
            self, Py_ssize_t max_words, bint single_root, bint arcmax, bint arcmax_inside, *args):
        self.handle = decode_sentence
        self.state = &self.c
        self.c.single_root = single_root
        self.c.arcmax = arcmax


def decode_batch(
        ScoreBuffer buffer not None, int32_t[:, ::1] heads not None, list decoders not None):
    """Decode all sentences to heads, padded with -1, with one thread per decoder; as `run_batch`.

    Arguments are checked in spacy_rootmind.trees.decoding and trusted here.
    """
    cdef HeadRows rows
    if buffer.c.n_sentences == 0:
        return Status.OK, 0
    rows.heads, rows.width = &heads[0, 0], heads.shape[1]
    buffer.c.task = &rows
    return run_batch(buffer, decoders)


# --- the decoder of trees ----------------------------------------------------------------------

cdef int decode_in_place(
        DecoderState* state, const Batch* batch, Py_ssize_t sentence, int32_t* heads
) noexcept nogil:
    cdef TreeWorkspace* ws = <TreeWorkspace*>state.workspace
    cdef const char* scores = scores_of(batch, sentence)
    cdef Py_ssize_t n = batch.lengths[sentence]
    if batch.is_float32:
        return decode_tree(
            <const float*>scores, batch.row_stride, n, state.single_root, state.arcmax, heads, ws)
    return decode_tree(
        <const double*>scores, batch.row_stride, n, state.single_root, state.arcmax, heads, ws)


cdef class TreeDecoder(Decoder):
    """Tarjan's algorithm, and Gabow & Tarjan's for a single root."""
    cdef TreeWorkspace tree

    def __cinit__(self, Py_ssize_t max_words, *args):
        self.c.decode = decode_in_place
        self.c.workspace = &self.tree
        check_memory(max_words, workspace_init(&self.tree, max_words, OUTERMOST_ROWS))

    def __dealloc__(self):
        workspace_free(&self.tree)


# --- tree checks of batches --------------------------------------------------------------------

def form_trees(
        const int32_t[:, ::1] heads not None, const Py_ssize_t[::1] lengths not None,
        bint single_root, bint projective, unsigned char[::1] out not None):
    """Set out[i] to whether heads[i, 1..n] form a tree of the kind; heads must lie within 0..n."""
    cdef int32_t[::1] scratch = np.empty(4 * heads.shape[1], dtype=np.int32)
    cdef Py_ssize_t i, start
    for start in range(0, heads.shape[0], SENTENCES_PER_CHECK):
        with nogil:
            for i in range(start, min(start + SENTENCES_PER_CHECK, heads.shape[0])):
                out[i] = heads_form_tree(&heads[i, 0], lengths[i], single_root, &scratch[0]) and (
                    not projective or tree_is_projective(&heads[i, 0], lengths[i], &scratch[0]))
        PyErr_CheckSignals()
