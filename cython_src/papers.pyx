"""The papers' other decoders and samplers, for comparison; the names are the papers'.

Stanojevic & Cohen 2021: `naive` (section 3) tries every word as the only child of ROOT;
`preselection` (section 3) tries only the root children of the best unconstrained tree;
`reweighting` (section 4) lowers all root arcs by more than any tree can gain and decodes once.
Below them is Tarjan's algorithm (see `decode`) or the textbook's (Chu & Liu 1965, Edmonds 1967):
greedy heads, contract a cycle, repeat. Every round of this looks at all scores that are left, and
there may be n - 1 rounds, so it costs O(n^3) where Tarjan's costs O(n^2). Rows and columns are both
merged, and every entry carries the original arc that it stands for.

Colbourn, Myrvold & Neufeld 1996, for dependency trees Zmigrod, Vieira & Cotterell 2021 (section 4):
sampling word after word from the inverse Laplacian, O(n^3) per tree. The Laplacian M has a row per
word: minus the weights of its heads, with their sum on the diagonal; with a single root, column 1
holds the root weights instead (Koo et al. 2007). Its determinant is the weight of all trees, its
inverse B gives the probabilities of a word's heads, and fixing a word's head leaves that arc alone
in its row, which changes B by a matrix of rank one. Everything in this is a difference, and where
two words strongly prefer each other all digits may be lost. Probabilities then do not add up to 1.
"""
from libc.math cimport INFINITY, fabs
from libc.stddef cimport size_t
from libc.stdint cimport int32_t
from libc.stdlib cimport free
from libc.string cimport memcpy

from spacy_rootmind.kernel.batch cimport Batch, check_memory, gather, scores_of
from spacy_rootmind.kernel.decode cimport (
    OUTERMOST_ROWS,
    Decoder,
    DecoderState,
    TreeWorkspace,
    arcmax_tree,
    decode_tree,
    workspace_free,
    workspace_init,
)
from spacy_rootmind.kernel.interrupt cimport poll_row
from spacy_rootmind.kernel.random cimport Stream, draw_index
from spacy_rootmind.kernel.room cimport Layout, add_array, allocate
from spacy_rootmind.kernel.status cimport Status

# For the textbook's algorithm on one dense square.
cdef struct CycleWorkspace:
    void* block
    double* weight          # (n+1) x (n+1): best arc between two live nodes, reduced
    int32_t* arc_dep        # same shape: the word it enters
    int32_t* arc_head       # same shape: the word or ROOT it leaves
    int32_t* slot           # live slots; a slot is a row and column of the squares
    int32_t* node           # per slot: the node it holds now
    int32_t* best           # per slot: the slot of its greedy head
    int32_t* mark           # per slot: which walk came by
    int32_t* cycle          # slots of the cycle found
    int32_t* chosen_dep     # per node: its greedy arc when it was contracted, or at the end
    int32_t* chosen_head
    int32_t* parent         # per node: the cycle it was contracted into, 0 if none

# Writes the best tree of a square, which it may change, to heads[0..n]; returns a Status.
ctypedef int (*Reduction)(
    double* square, Py_ssize_t n, int32_t* heads, ReductionWorkspace* ws) noexcept nogil

cdef struct ReductionWorkspace:
    Reduction reduction
    TreeWorkspace tree
    CycleWorkspace cycles   # only with textbook = True
    bint textbook           # Chu-Liu-Edmonds below, not Tarjan
    bint arcmax             # every unconstrained run starts with ArcMax
    void* block
    double* root            # the root column as it was
    int32_t* candidate      # heads of the tree at hand
    int32_t* tried          # per word: whether it is to be tried as the only root child


# --- the textbook's algorithm ------------------------------------------------------------------

cdef int cycle_workspace_init(CycleWorkspace* ws, Py_ssize_t max_words) noexcept nogil:
    """Allocate one block: 16 (n + 1)^2 + O(n) bytes. Status.OK or Status.NO_MEMORY."""
    cdef size_t width = <size_t>max_words + 1
    cdef Layout layout
    layout.n_arrays = layout.size = 0
    add_array(&layout, <void**>&ws.weight, width * width, sizeof(double))
    add_array(&layout, <void**>&ws.arc_dep, width * width, sizeof(int32_t))
    add_array(&layout, <void**>&ws.arc_head, width * width, sizeof(int32_t))
    add_array(&layout, <void**>&ws.slot, width, sizeof(int32_t))
    add_array(&layout, <void**>&ws.node, width, sizeof(int32_t))
    add_array(&layout, <void**>&ws.best, width, sizeof(int32_t))
    add_array(&layout, <void**>&ws.mark, width, sizeof(int32_t))
    add_array(&layout, <void**>&ws.cycle, width, sizeof(int32_t))
    add_array(&layout, <void**>&ws.chosen_dep, 2 * width, sizeof(int32_t))
    add_array(&layout, <void**>&ws.chosen_head, 2 * width, sizeof(int32_t))
    add_array(&layout, <void**>&ws.parent, 2 * width, sizeof(int32_t))
    return allocate(&layout, &ws.block, False)


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
    """Write the best unconstrained tree to heads[0..n]; Status.OK or Status.NO_TREE. O(n^3).

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
            return Status.NO_TREE
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
    return Status.OK


# --- reductions --------------------------------------------------------------------------------

cdef int reduction_workspace_init(
        ReductionWorkspace* ws, Py_ssize_t max_words, bint textbook, bint arcmax) noexcept nogil:
    """Allocate what both algorithms below need; a Status. `ws` holds zeros, and is to be freed."""
    cdef size_t width = <size_t>max_words + 1
    cdef Layout layout
    cdef int status
    ws.textbook = textbook
    ws.arcmax = arcmax
    status = workspace_init(&ws.tree, max_words, OUTERMOST_ROWS)
    if status == Status.OK and textbook:
        status = cycle_workspace_init(&ws.cycles, max_words)
    layout.n_arrays = layout.size = 0
    add_array(&layout, <void**>&ws.root, width, sizeof(double))
    add_array(&layout, <void**>&ws.candidate, width, sizeof(int32_t))
    add_array(&layout, <void**>&ws.tried, width, sizeof(int32_t))
    return allocate(&layout, &ws.block, False) if status == Status.OK else status


cdef void reduction_workspace_free(ReductionWorkspace* ws) noexcept nogil:
    """Free all of it; harmless when called twice."""
    workspace_free(&ws.tree)
    free(ws.cycles.block)
    free(ws.block)
    ws.cycles.block = ws.block = NULL


cdef int decode_unconstrained(
        double* square, Py_ssize_t n, int32_t* heads, ReductionWorkspace* ws) noexcept nogil:
    """One run of the algorithm below."""
    cdef int status
    if not ws.textbook:
        return decode_tree(square, n + 1, n, False, ws.arcmax, heads, &ws.tree)
    if ws.arcmax:
        status = arcmax_tree(square, n + 1, n, False, heads, &ws.tree)
        if status != Status.UNSETTLED:
            return status
    return chu_liu_edmonds(square, n, heads, &ws.cycles)


cdef inline double arc_score(
        const double* square, Py_ssize_t n, Py_ssize_t word, int32_t head,
        ReductionWorkspace* ws) noexcept nogil:
    return ws.root[word] if head == 0 else square[word * (n + 1) + head]


cdef double candidate_gain(
        const double* square, Py_ssize_t n, const int32_t* heads,
        ReductionWorkspace* ws) noexcept nogil:
    """The gain of the candidate over another tree, arc by arc: small differences are not lost."""
    cdef Py_ssize_t word
    cdef double gain = 0
    for word in range(1, n + 1):
        if ws.candidate[word] != heads[word]:
            gain += arc_score(square, n, word, ws.candidate[word], ws) - arc_score(
                square, n, word, heads[word], ws)
    return gain


cdef int try_roots(
        double* square, Py_ssize_t n, int32_t* heads, ReductionWorkspace* ws) noexcept nogil:
    """Let each word of `ws.tried` be the only root child in turn; keep the best tree."""
    cdef Py_ssize_t width = n + 1
    cdef Py_ssize_t root, word
    cdef bint found = False
    for word in range(1, width):
        ws.root[word] = square[word * width]
        square[word * width] = -INFINITY
    for root in range(1, width):
        if not ws.tried[root] or ws.root[root] == -INFINITY:
            continue
        square[root * width] = ws.root[root]
        if decode_unconstrained(square, n, ws.candidate, ws) == Status.OK:
            if not found or candidate_gain(square, n, heads, ws) > 0:
                found = True
                for word in range(1, width):
                    heads[word] = ws.candidate[word]
        square[root * width] = -INFINITY
    return Status.OK if found else Status.NO_TREE


cdef int decode_naively(
        double* square, Py_ssize_t n, int32_t* heads, ReductionWorkspace* ws) noexcept nogil:
    """One run for every word: n times the cost of an unconstrained run."""
    cdef Py_ssize_t word
    for word in range(1, n + 1):
        ws.tried[word] = True
    return try_roots(square, n, heads, ws)


cdef int decode_by_preselection(
        double* square, Py_ssize_t n, int32_t* heads, ReductionWorkspace* ws) noexcept nogil:
    """One run for every root child of the best unconstrained tree, if there are several."""
    cdef Py_ssize_t word, n_roots = 0
    cdef int status = decode_unconstrained(square, n, heads, ws)
    if status != Status.OK:
        return status
    for word in range(1, n + 1):
        ws.tried[word] = heads[word] == 0
        n_roots += ws.tried[word]
    return Status.OK if n_roots == 1 else try_roots(square, n, heads, ws)


cdef int decode_by_reweighting(
        double* square, Py_ssize_t n, int32_t* heads, ReductionWorkspace* ws) noexcept nogil:
    """One unconstrained run with root arcs lowered by 1 + n (max - min) of the finite scores."""
    cdef Py_ssize_t width = n + 1
    cdef Py_ssize_t dep, head
    cdef double value, constant, lowest = INFINITY, highest = -INFINITY
    cdef Py_ssize_t n_roots = 0
    cdef int status
    for dep in range(1, width):
        poll_row(dep, width)
        for head in range(width):
            value = square[dep * width + head]
            if head != dep and value != -INFINITY:
                lowest = min(lowest, value)
                highest = max(highest, value)
    constant = 1 + n * (highest - lowest)
    if constant == INFINITY:
        return Status.LOST_DIGITS
    for dep in range(1, width):
        square[dep * width] -= constant
    status = decode_unconstrained(square, n, heads, ws)
    if status != Status.OK:
        return status
    for dep in range(1, width):
        n_roots += heads[dep] == 0
    if n_roots == 1:
        return Status.OK
    # Either there is no single-root tree, or adding the constant has lost the digits that matter.
    status = decode_tree(square, width, n, True, False, ws.candidate, &ws.tree)
    return Status.LOST_DIGITS if status == Status.OK else Status.NO_TREE


# --- batches -----------------------------------------------------------------------------------

cdef int decode(
        DecoderState* state, const Batch* batch, Py_ssize_t sentence, int32_t* heads
) noexcept nogil:
    """Write the best single-root tree, or with "unconstrained" the best tree; a Status.

    `state.arcmax` is that before the reduction, `ws.arcmax` is that inside.
    """
    cdef ReductionWorkspace* ws = <ReductionWorkspace*>state.workspace
    cdef const char* scores = scores_of(batch, sentence)
    cdef Py_ssize_t n = batch.lengths[sentence]
    cdef int status
    heads[0] = -1
    # It finds bad scores, so it is made in any case, before scores are copied.
    if batch.is_float32:
        status = arcmax_tree(
            <const float*>scores, batch.row_stride, n, state.single_root, heads, &ws.tree)
    else:
        status = arcmax_tree(
            <const double*>scores, batch.row_stride, n, state.single_root, heads, &ws.tree)
    if n == 0 or status < 0 or (state.arcmax and status == Status.OK):
        return status
    gather(batch, sentence, state.square)
    return ws.reduction(state.square, n, heads, ws)


NAMES = "unconstrained", "naive", "preselection", "reweighting"
cdef Reduction[4] REDUCTIONS
REDUCTIONS[:] = [
    decode_unconstrained, decode_naively, decode_by_preselection, decode_by_reweighting]


cdef class ReductionDecoder(Decoder):
    """The published reductions by name, over Tarjan's algorithm or the textbook's.

    "unconstrained" is that algorithm itself.
    """
    cdef ReductionWorkspace ws

    def __cinit__(
            self, Py_ssize_t max_words, bint single_root, bint arcmax, bint arcmax_inside,
            str reduction not None, bint textbook):
        self.c.decode = decode
        self.c.workspace = &self.ws
        self.c.square = self.make_square(max_words)
        self.ws.reduction = REDUCTIONS[NAMES.index(reduction)]
        check_memory(max_words, reduction_workspace_init(
            &self.ws, max_words, textbook, arcmax_inside))

    def __dealloc__(self):
        reduction_workspace_free(&self.ws)


# --- sampling by the inverse Laplacian ---------------------------------------------------------

# How far from 1 the sum of the probabilities of a word's heads may be, and how far below 0 one.
cdef double TOLERANCE = 1e-7


cdef void fill_laplacian(
        const double* weights, Py_ssize_t stride, Py_ssize_t n, bint single_root, double* matrix
) noexcept nogil:
    cdef Py_ssize_t i, head
    cdef const double* row
    cdef double total
    for i in range(n):
        row = weights + (i + 1) * stride
        total = 0 if single_root else row[0]
        for head in range(1, n + 1):
            total += 0 if head == i + 1 else row[head]
            matrix[i * n + head - 1] = -row[head]
        matrix[i * n + i] = total
        if single_root:
            matrix[i * n] = row[0]


cdef bint invert_laplacian(
        const double* weights, Py_ssize_t stride, Py_ssize_t n, bint single_root, double* inverse,
        Py_ssize_t* swapped) noexcept nogil:
    """Invert the Laplacian of weights[dep * stride + head], n x n. O(n^3).

    `swapped` has room for n. Returns False if there is no inverse, up to rounding. Gauss-Jordan
    elimination in place with partial pivoting, as long as a few draws take. LAPACK is faster, but
    Ctrl-C would have to wait until it is done.
    """
    cdef Py_ssize_t k, i, j, largest
    cdef double* pivot
    cdef double* row
    cdef double factor
    fill_laplacian(weights, stride, n, single_root, inverse)
    for k in range(n):
        largest = k
        for i in range(k + 1, n):
            if fabs(inverse[i * n + k]) > fabs(inverse[largest * n + k]):
                largest = i
        # NaN is no pivot either.
        if not fabs(inverse[largest * n + k]) > 0:
            return False
        swapped[k] = largest
        pivot = inverse + k * n
        row = inverse + largest * n
        for j in range(n):
            pivot[j], row[j] = row[j], pivot[j]
        factor = pivot[k]
        pivot[k] = 1
        for j in range(n):
            pivot[j] /= factor
        for i in range(n):
            poll_row(i, n)
            row = inverse + i * n
            factor = row[k]
            if i != k and factor != 0:
                row[k] = 0
                for j in range(n):
                    row[j] -= factor * pivot[j]
    # Rows that were swapped are columns of the inverse.
    for i in range(n):
        poll_row(i, n)
        row = inverse + i * n
        for k in range(n - 1, -1, -1):
            factor = row[k]
            row[k] = row[swapped[k]]
            row[swapped[k]] = factor
    return True


cdef void fill_probabilities(
        const double* row, const double* inverse, Py_ssize_t n, Py_ssize_t word, bint single_root,
        double* probabilities) noexcept nogil:
    """The weights of a word's heads times their derivatives of the log determinant."""
    cdef Py_ssize_t column = word - 1, head
    cdef double own = 0 if single_root and word == 1 else inverse[column * n + column]
    if single_root:
        probabilities[0] = row[0] * inverse[column]
    else:
        probabilities[0] = row[0] * own
    for head in range(1, n + 1):
        probabilities[head] = row[head] * own
        if not (single_root and head == 1):
            probabilities[head] -= row[head] * inverse[(head - 1) * n + column]
    probabilities[word] = 0


cdef bint settle_probabilities(double* probabilities, Py_ssize_t n) noexcept nogil:
    """Take away what rounding left below 0; False if that, or the sum, is more than rounding."""
    cdef Py_ssize_t head
    cdef double total = 0
    for head in range(n + 1):
        if not probabilities[head] > -TOLERANCE:
            return False
        probabilities[head] = max(probabilities[head], 0.0)
        total += probabilities[head]
    return fabs(total - 1) < TOLERANCE


cdef void fix_arc(
        double* inverse, Py_ssize_t n, Py_ssize_t word, Py_ssize_t head, bint single_root,
        double* step, double* column) noexcept nogil:
    """Update the inverse for a row `word` that holds one arc alone, of weight 1. O(n^2)."""
    cdef Py_ssize_t own = word - 1
    cdef Py_ssize_t i, j
    cdef double pivot
    # The new row times the inverse.
    for j in range(n):
        step[j] = 0
        column[j] = inverse[j * n + own]
    if not (single_root and (word == 1 or head == 0)):
        for j in range(n):
            step[j] = inverse[own * n + j]
    if head == 0 and single_root:
        for j in range(n):
            step[j] = inverse[j]
    elif head > 0 and not (single_root and head == 1):
        for j in range(n):
            step[j] -= inverse[(head - 1) * n + j]
    pivot = step[own]
    step[own] -= 1
    for i in range(n):
        poll_row(i, n)
        for j in range(n):
            inverse[i * n + j] -= column[i] / pivot * step[j]


cdef int draw_by_inverse(
        const double* weights, Py_ssize_t stride, Py_ssize_t n, bint single_root,
        const double* inverse, Stream* random, int32_t* heads, double* work
) noexcept nogil:
    """Draw heads[0..n] from the weights and that inverse, the first word's head first.

    `work` has room for n x n + 3 n + 1. Returns Status.OK, or Status.LOST_DIGITS where
    probabilities do not add up.
    """
    cdef double* current = work
    cdef double* step = work + n * n
    cdef double* column = step + n
    cdef double* probabilities = column + n
    cdef Py_ssize_t word, head
    heads[0] = -1
    for word in range(n):
        poll_row(word, n)
        memcpy(current + word * n, inverse + word * n, n * sizeof(double))
    for word in range(1, n + 1):
        fill_probabilities(
            weights + word * stride, current, n, word, single_root, probabilities)
        if not settle_probabilities(probabilities, n):
            return Status.LOST_DIGITS
        head = draw_index(probabilities, n + 1, 1, random)
        heads[word] = <int32_t>head
        fix_arc(current, n, word, head, single_root, step, column)
    return Status.OK
