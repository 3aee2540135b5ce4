"""The textbook algorithm (Chu & Liu 1965, Edmonds 1967): greedy heads, contract a cycle, repeat.

Kept for comparison. Every round looks at all scores that are left, and there may be n - 1 rounds,
so this costs O(n^3) where `decode` costs O(n^2). Rows and columns are both merged, and every entry
carries the original arc that it stands for.
"""
from libc.math cimport INFINITY
from libc.stddef cimport size_t
from libc.stdint cimport int32_t
from libc.stdlib cimport free, malloc

from spacy_rootmind.kernel.decode cimport DECODE_NO_MEMORY, DECODE_NO_TREE, DECODE_OK
from spacy_rootmind.kernel.interrupt cimport poll_row

cdef extern from "ieee.h":
    pass


cdef int cycle_workspace_init(CycleWorkspace* ws, Py_ssize_t max_words) noexcept nogil:
    """Allocate one block: 16 (n + 1)^2 + O(n) bytes. DECODE_OK or DECODE_NO_MEMORY."""
    cdef size_t width = <size_t>max_words + 1
    cdef size_t area = width * width
    cdef int32_t* ints
    ws.max_words = max_words
    ws.block = NULL
    # The same bound as for the other workspace, and that of a size_t of 32 bits.
    if max_words > 1 << 28 or area > (<size_t>-1) // 32:
        return DECODE_NO_MEMORY
    ws.block = malloc(area * (sizeof(double) + 2 * sizeof(int32_t)) + 11 * width * sizeof(int32_t))
    if ws.block is NULL:
        return DECODE_NO_MEMORY
    ws.weight = <double*>ws.block
    ints = <int32_t*>(ws.weight + area)
    ws.arc_dep = ints
    ws.arc_head = ints + area
    ints += 2 * area
    ws.slot = ints
    ws.node = ints + width
    ws.best = ints + 2 * width
    ws.mark = ints + 3 * width
    ws.cycle = ints + 4 * width
    ws.chosen_dep = ints + 5 * width
    ws.chosen_head = ints + 7 * width
    ws.parent = ints + 9 * width
    return DECODE_OK


cdef void cycle_workspace_free(CycleWorkspace* ws) noexcept nogil:
    """Free the block; harmless when called twice."""
    free(ws.block)
    ws.block = NULL


cdef void start(const double* square, Py_ssize_t n, CycleWorkspace* ws) noexcept nogil:
    """Every word is a node of its own, every entry its own arc."""
    cdef Py_ssize_t width = n + 1
    cdef Py_ssize_t dep, head
    ws.slot[0] = ws.node[0] = 0
    for dep in range(1, width):
        poll_row(dep, n)
        ws.slot[dep] = ws.node[dep] = <int32_t>dep
        ws.parent[dep] = 0
        for head in range(width):
            ws.weight[dep * width + head] = square[dep * width + head]
            ws.arc_dep[dep * width + head] = <int32_t>dep
            ws.arc_head[dep * width + head] = <int32_t>head


cdef bint choose_heads(Py_ssize_t n, Py_ssize_t n_slots, CycleWorkspace* ws) noexcept nogil:
    """Give every live node its greedy head, lowest slot among equals; False if one has none."""
    cdef Py_ssize_t i, j, slot, head, entry
    cdef double largest, value
    for i in range(1, n_slots):
        poll_row(i, n_slots)
        slot = ws.slot[i]
        largest = -INFINITY
        ws.best[slot] = -1
        for j in range(n_slots):
            head = ws.slot[j]
            value = ws.weight[slot * (n + 1) + head]
            if head != slot and value > largest:
                largest = value
                ws.best[slot] = <int32_t>head
        if ws.best[slot] < 0:
            return False
        entry = slot * (n + 1) + ws.best[slot]
        ws.chosen_dep[ws.node[slot]] = ws.arc_dep[entry]
        ws.chosen_head[ws.node[slot]] = ws.arc_head[entry]
    return True


cdef Py_ssize_t find_cycle(Py_ssize_t n_slots, CycleWorkspace* ws) noexcept nogil:
    """Write the slots of one cycle of greedy arcs; returns its length, 0 if there is none."""
    cdef Py_ssize_t i, length = 0
    cdef int32_t slot, start
    for i in range(n_slots):
        ws.mark[ws.slot[i]] = 0
    for i in range(1, n_slots):
        start = ws.slot[i]
        slot = start
        while slot != 0 and ws.mark[slot] == 0:
            ws.mark[slot] = start
            slot = ws.best[slot]
        if slot != 0 and ws.mark[slot] == start:
            start = slot
            while True:
                ws.cycle[length] = slot
                length += 1
                slot = ws.best[slot]
                if slot == start:
                    return length
    return 0


cdef Py_ssize_t contract_cycle(
        Py_ssize_t n, Py_ssize_t n_slots, Py_ssize_t length, int32_t cycle_node,
        CycleWorkspace* ws) noexcept nogil:
    """Merge the cycle into the slot of its first member; returns the number of live slots."""
    cdef Py_ssize_t width = n + 1
    cdef Py_ssize_t i, j, member, other, kept, target, entry, live
    cdef double value
    for i in range(length):
        ws.mark[ws.cycle[i]] = -1
    kept = ws.cycle[0]
    for i in range(length):
        poll_row(i, n_slots)
        member = ws.cycle[i]
        ws.parent[ws.node[member]] = cycle_node
        value = ws.weight[member * width + ws.best[member]]
        for j in range(n_slots):
            other = ws.slot[j]
            if ws.mark[other] != -1:
                ws.weight[member * width + other] -= value
    for j in range(n_slots):
        poll_row(j, 2 * length)
        other = ws.slot[j]
        if ws.mark[other] == -1:
            continue
        for i in range(1, length):
            member = ws.cycle[i]
            target = kept * width + other
            entry = member * width + other
            if ws.weight[entry] > ws.weight[target]:
                ws.weight[target] = ws.weight[entry]
                ws.arc_dep[target] = ws.arc_dep[entry]
                ws.arc_head[target] = ws.arc_head[entry]
            target = other * width + kept
            entry = other * width + member
            if other != 0 and ws.weight[entry] > ws.weight[target]:
                ws.weight[target] = ws.weight[entry]
                ws.arc_dep[target] = ws.arc_dep[entry]
                ws.arc_head[target] = ws.arc_head[entry]
    ws.node[kept] = cycle_node
    ws.parent[cycle_node] = 0
    live = 0
    for j in range(n_slots):
        if ws.mark[ws.slot[j]] != -1 or ws.slot[j] == kept:
            ws.slot[live] = ws.slot[j]
            live += 1
    return live


cdef int chu_liu_edmonds(
        const double* square, Py_ssize_t n, int32_t* heads, CycleWorkspace* ws) noexcept nogil:
    """Write the best unconstrained tree to heads[0..n]; DECODE_OK or DECODE_NO_TREE. O(n^3).

    `square` holds scores[dep, head], (n + 1) x (n + 1), contiguous. Preconditions: neither NaN nor
    +inf in it; `ws` was made for at least n words.
    """
    cdef Py_ssize_t n_slots = n + 1
    cdef Py_ssize_t length
    cdef int32_t next_node = <int32_t>(n + 1)
    cdef int32_t cycle, dep, head, member, word
    heads[0] = -1
    start(square, n, ws)
    while True:
        if not choose_heads(n, n_slots, ws):
            return DECODE_NO_TREE
        length = find_cycle(n_slots, ws)
        if length == 0:
            break
        n_slots = contract_cycle(n, n_slots, length, next_node, ws)
        next_node += 1
    # Newest cycle first: the member that holds the word entered leaves its own arc.
    for cycle in range(next_node - 1, <int32_t>n, -1):
        dep = ws.chosen_dep[cycle]
        head = ws.chosen_head[cycle]
        member = dep
        while ws.parent[member] != cycle:
            member = ws.parent[member]
        ws.chosen_dep[member] = dep
        ws.chosen_head[member] = head
    for word in range(1, <int32_t>(n + 1)):
        heads[word] = ws.chosen_head[word]
    return DECODE_OK
