"""Sampling by loop-erased random walks (Wilson 1996).

From each word a walk goes from head to head, each drawn by its weight, until it meets the tree;
the last head drawn at each word stays. The tree is then distributed by its weight among all trees
with the same root. This takes the mean time to reach the root, which has no bound: two words that
strongly prefer each other trap a walk. Given the root, the number of steps is independent of the
tree (cycle popping: Wilson's section 4), so one may give up after any number of steps and draw the
tree in another way.

Heads are drawn by the alias method (Walker 1977, tables as of Vose 1991).
"""
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free
from libc.string cimport memset

from spacy_rootmind.kernel.interrupt cimport poll, poll_row
from spacy_rootmind.kernel.random cimport RandomSource, next_double
from spacy_rootmind.kernel.room cimport Layout, add_array, allocate

cdef enum:
    STEPS_PER_POLL = 1 << 16    # of a walk, each a dozen nanoseconds

# A place in a cell below this is drawn again within it, so that rare heads keep their probability.
cdef double REDRAW_BELOW = 2.0 ** -20


cdef int walk_init(WalkTables* tables, Py_ssize_t max_words) noexcept nogil:
    """Allocate for sentences of up to `max_words` words: 16 n^2 + O(n) bytes."""
    cdef size_t width = <size_t>max_words + 1
    cdef Layout layout
    tables.max_words = max_words
    layout.n_arrays = layout.size = 0
    add_array(&layout, <void**>&tables.cells, width * width, sizeof(Cell))
    add_array(&layout, <void**>&tables.scratch, width, sizeof(double))
    add_array(&layout, <void**>&tables.todo, 2 * width, sizeof(int32_t))
    add_array(&layout, <void**>&tables.has_head, width, sizeof(char))
    add_array(&layout, <void**>&tables.in_tree, width, sizeof(char))
    return allocate(&layout, &tables.block, False)


cdef void walk_free(WalkTables* tables) noexcept nogil:
    """Free all memory; harmless when called twice."""
    free(tables.block)
    tables.block = NULL


cdef bint fill_cells(
        Cell* cells, Py_ssize_t n_cells, Py_ssize_t lowest, WalkTables* tables) noexcept nogil:
    """Make the cells of one word from the weights in `scratch`; False if all are 0. O(n)."""
    cdef double* share = tables.scratch
    cdef int32_t* small = tables.todo
    cdef int32_t* large = tables.todo + n_cells
    cdef Py_ssize_t i, n_small = 0, n_large = 0
    cdef int32_t few, many
    cdef double total = 0
    for i in range(n_cells):
        total += share[i]
    if total == 0:
        return False
    for i in range(n_cells):
        share[i] *= n_cells / total
        if share[i] < 1:
            small[n_small] = <int32_t>i
            n_small += 1
        else:
            large[n_large] = <int32_t>i
            n_large += 1
    # Fill up each cell that has less than its share from one that has more.
    while n_small > 0 and n_large > 0:
        n_small -= 1
        few = small[n_small]
        many = large[n_large - 1]
        cells[few].threshold = share[few]
        cells[few].first = <int32_t>(few + lowest)
        cells[few].second = <int32_t>(many + lowest)
        share[many] -= 1 - share[few]
        if share[many] < 1:
            n_large -= 1
            small[n_small] = many
            n_small += 1
    # The remaining heads have their shares, up to rounding.
    while n_large > 0:
        n_large -= 1
        fill_whole(&cells[large[n_large]], large[n_large] + lowest)
    while n_small > 0:
        n_small -= 1
        fill_whole(&cells[small[n_small]], small[n_small] + lowest)
    return True


cdef inline void fill_whole(Cell* cell, Py_ssize_t head) noexcept nogil:
    cell.threshold = 1
    cell.first = cell.second = <int32_t>head


cdef void prepare_walk(
        const double* weights, Py_ssize_t stride, Py_ssize_t n, Py_ssize_t lowest,
        WalkTables* tables) noexcept nogil:
    """Make the tables of weights[dep * stride + head], heads lowest..n, of any scale. O(n^2)."""
    cdef Py_ssize_t dep, head
    tables.n = n
    tables.n_cells = n + 1 - lowest
    for dep in range(1, n + 1):
        poll_row(dep, 8 * n)
        for head in range(lowest, n + 1):
            tables.scratch[head - lowest] = weights[dep * stride + head] if head != dep else 0
        tables.has_head[dep] = fill_cells(
            tables.cells + dep * tables.n_cells, tables.n_cells, lowest, tables)


cdef inline int32_t draw_head(
        const Cell* cells, Py_ssize_t n_cells, const RandomSource* random) noexcept nogil:
    """Draw one head of a word."""
    cdef double place = next_double(random) * n_cells
    cdef Py_ssize_t i = min(<Py_ssize_t>place, n_cells - 1)
    place -= i
    if place < REDRAW_BELOW:
        place = REDRAW_BELOW * next_double(random)
    return cells[i].first if place < cells[i].threshold else cells[i].second


cdef bint walk_tree(
        Py_ssize_t root, int64_t* steps, const RandomSource* random, int32_t* heads,
        WalkTables* tables) noexcept nogil:
    """Draw a tree in which all words hang from `root`, which is ROOT or a word that hangs from it.

    Returns whether `steps`, from which the steps taken are deducted, sufficed.
    """
    cdef Py_ssize_t n_cells = tables.n_cells
    cdef Py_ssize_t start, word
    # The steps allowed up to the next poll, and all later ones.
    cdef int64_t left = min(steps[0], STEPS_PER_POLL)
    cdef int64_t later = steps[0] - left
    cdef unsigned char* in_tree = tables.in_tree
    memset(in_tree, 0, tables.n + 1)
    in_tree[root] = True
    heads[root] = 0
    heads[0] = -1
    for start in range(1, tables.n + 1):
        word = start
        while not in_tree[word]:
            if left == 0:
                poll(16 * STEPS_PER_POLL)
                left = min(later, STEPS_PER_POLL)
                later -= left
            if left == 0 or not tables.has_head[word]:
                steps[0] = 0
                return False
            left -= 1
            heads[word] = draw_head(tables.cells + word * n_cells, n_cells, random)
            word = heads[word]
        word = start
        while not in_tree[word]:
            in_tree[word] = True
            word = heads[word]
    steps[0] = left + later
    return True
