"""The three published reductions of single-root to unconstrained decoding, for comparison.

Stanojevic & Cohen 2021: `naive` (section 3) tries every word as the only child of ROOT;
`preselection` (section 3) tries only the root children of the best unconstrained tree;
`reweighting` (section 4) lowers all root arcs by more than any tree can gain and decodes once.
Below them is Tarjan's algorithm or the textbook's.
"""
from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.stdlib cimport free, malloc

from spacy_rootmind.kernel.batch cimport Batch, score_row
from spacy_rootmind.kernel.chu_liu_edmonds cimport (
    chu_liu_edmonds,
    cycle_workspace_free,
    cycle_workspace_init,
)
from spacy_rootmind.kernel.decode cimport (
    DECODE_LOST_DIGITS,
    DECODE_NO_MEMORY,
    DECODE_NO_TREE,
    DECODE_OK,
    DECODE_UNSETTLED,
    arcmax_tree,
    decode_tree,
    workspace_free,
    workspace_init,
)
from spacy_rootmind.kernel.decoders cimport Decoder, DecoderState, check_memory
from spacy_rootmind.kernel.interrupt cimport poll_row

cdef extern from "ieee.h":
    pass

NAMES = {
    "unconstrained": UNCONSTRAINED,
    "naive": NAIVE,
    "preselection": PRESELECTION,
    "reweighting": REWEIGHTING,
}


cdef int reduction_workspace_init(
        ReductionWorkspace* ws, Py_ssize_t max_words, bint textbook, bint arcmax) noexcept nogil:
    """Allocate what both algorithms below need. DECODE_OK or DECODE_NO_MEMORY."""
    cdef Py_ssize_t width = max_words + 1
    cdef int status
    ws.textbook = textbook
    ws.arcmax = arcmax
    ws.cycles.block = NULL
    ws.block = NULL
    status = workspace_init(&ws.tree, max_words)
    if status == DECODE_OK and textbook:
        status = cycle_workspace_init(&ws.cycles, max_words)
    if status == DECODE_OK:
        ws.block = malloc(width * (sizeof(double) + 2 * sizeof(int32_t)))
        if ws.block is NULL:
            status = DECODE_NO_MEMORY
    if status != DECODE_OK:
        reduction_workspace_free(ws)
        return status
    ws.root = <double*>ws.block
    ws.candidate = <int32_t*>(ws.root + width)
    ws.tried = ws.candidate + width
    return DECODE_OK


cdef void reduction_workspace_free(ReductionWorkspace* ws) noexcept nogil:
    """Free all of it; harmless when called twice."""
    workspace_free(&ws.tree)
    cycle_workspace_free(&ws.cycles)
    free(ws.block)
    ws.block = NULL


cdef int decode_unconstrained(
        const double* square, Py_ssize_t n, int32_t* heads, ReductionWorkspace* ws) noexcept nogil:
    """One run of the algorithm below."""
    cdef int status
    if not ws.textbook:
        return decode_tree(square, n + 1, n, False, ws.arcmax, heads, &ws.tree)
    if ws.arcmax:
        status = arcmax_tree(square, n + 1, n, False, heads, &ws.tree)
        if status != DECODE_UNSETTLED:
            return status
    return chu_liu_edmonds(square, n, heads, &ws.cycles)


cdef inline double arc_score(
        const double* square, Py_ssize_t n, Py_ssize_t word, int32_t head,
        ReductionWorkspace* ws) noexcept nogil:
    return ws.root[word] if head == 0 else square[word * (n + 1) + head]


cdef double candidate_gain(
        const double* square, Py_ssize_t n, const int32_t* heads,
        ReductionWorkspace* ws) noexcept nogil:
    """What the candidate gains over another tree, arc by arc: small differences are not lost."""
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
        if decode_unconstrained(square, n, ws.candidate, ws) == DECODE_OK:
            if not found or candidate_gain(square, n, heads, ws) > 0:
                found = True
                for word in range(1, width):
                    heads[word] = ws.candidate[word]
        square[root * width] = -INFINITY
    return DECODE_OK if found else DECODE_NO_TREE


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
    if status != DECODE_OK:
        return status
    for word in range(1, n + 1):
        ws.tried[word] = heads[word] == 0
        n_roots += ws.tried[word]
    return DECODE_OK if n_roots == 1 else try_roots(square, n, heads, ws)


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
        return DECODE_LOST_DIGITS
    for dep in range(1, width):
        square[dep * width] -= constant
    status = decode_unconstrained(square, n, heads, ws)
    if status != DECODE_OK:
        return status
    for dep in range(1, width):
        n_roots += heads[dep] == 0
    if n_roots == 1:
        return DECODE_OK
    # Either there is no single-root tree, or adding the constant has lost the digits that matter.
    status = decode_tree(square, width, n, True, False, ws.candidate, &ws.tree)
    return DECODE_LOST_DIGITS if status == DECODE_OK else DECODE_NO_TREE


cdef int decode_by_reduction(
        double* square, Py_ssize_t n, Reduction reduction, bint arcmax, int32_t* heads,
        ReductionWorkspace* ws) noexcept nogil:
    """Write the best single-root tree, or with UNCONSTRAINED the best tree, to heads[0..n].

    `square` holds scores[dep, head], (n + 1) x (n + 1), contiguous; its root column is overwritten.
    `arcmax` is that before the reduction; `ws.arcmax` is that inside. Returns a DecodeStatus.
    """
    cdef int status
    heads[0] = -1
    if n == 0:
        return DECODE_OK
    status = arcmax_tree(square, n + 1, n, reduction != UNCONSTRAINED, heads, &ws.tree)
    # The scan is what finds bad scores, so it is made in any case.
    if status < 0 or (arcmax and status == DECODE_OK):
        return status
    if reduction == NAIVE:
        return decode_naively(square, n, heads, ws)
    if reduction == PRESELECTION:
        return decode_by_preselection(square, n, heads, ws)
    if reduction == REWEIGHTING:
        return decode_by_reweighting(square, n, heads, ws)
    return decode_unconstrained(square, n, heads, ws)


# --- batches -----------------------------------------------------------------------------------

cdef struct ReductionState:
    Reduction reduction
    ReductionWorkspace ws


cdef int decode_copy(DecoderState* state, Py_ssize_t n, int32_t* heads) noexcept nogil:
    cdef ReductionState* own = <ReductionState*>state.workspace
    return decode_by_reduction(state.square, n, own.reduction, state.arcmax, heads, &own.ws)


cdef int decode_in_place(
        DecoderState* state, const Batch* batch, Py_ssize_t sentence, int32_t* heads
) noexcept nogil:
    """ArcMax, which most sentences are settled by before their scores are copied."""
    cdef ReductionState* own = <ReductionState*>state.workspace
    cdef const char* rows = score_row(batch, sentence, 0)
    cdef Py_ssize_t n = batch.lengths[sentence]
    heads[0] = -1
    if batch.is_float32:
        return arcmax_tree(
            <const float*>rows, batch.row_bytes // <Py_ssize_t>sizeof(float), n,
            state.single_root, heads, &own.ws.tree)
    return arcmax_tree(
        <const double*>rows, batch.row_bytes // <Py_ssize_t>sizeof(double), n,
        state.single_root, heads, &own.ws.tree)


cdef class ReductionDecoder(Decoder):
    """The published reductions by name, over Tarjan's algorithm or the textbook's.

    "unconstrained" is that algorithm itself.
    """
    cdef ReductionState own

    def __cinit__(
            self, Py_ssize_t max_words, bint single_root, bint arcmax, bint arcmax_inside,
            str reduction not None, bint textbook):
        self.c.decode_copy = decode_copy
        if arcmax:
            self.c.decode_in_place = decode_in_place
        self.c.workspace = &self.own
        self.own.reduction = NAMES[reduction]
        check_memory(max_words, reduction_workspace_init(
            &self.own.ws, max_words, textbook, arcmax_inside))

    def __dealloc__(self):
        reduction_workspace_free(&self.own.ws)
