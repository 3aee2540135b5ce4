"""The one Python boundary of the kernel: views, batches, release of the GIL.

Arguments are checked in spacy_rootmind.trees; here they are taken as promised there.
"""
from libc.math cimport INFINITY
from libc.stddef cimport size_t
from libc.stdint cimport int32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

import numpy as np

from spacy_rootmind._decode cimport (
    DECODE_LOST_DIGITS,
    DECODE_NO_MEMORY,
    DECODE_NO_TREE,
    DECODE_OK,
    TreeWorkspace,
    decode_tree,
    heads_form_tree,
    score_t,
    tree_is_projective,
    workspace_free,
    workspace_init,
)
from spacy_rootmind._eisner cimport (
    ChartWorkspace,
    chart_workspace_free,
    chart_workspace_init,
    decode_projective,
)
from spacy_rootmind._kbest cimport KBestSearch, k_best_free, k_best_trees
from spacy_rootmind._reductions cimport (
    NAIVE,
    PRESELECTION,
    REWEIGHTING,
    UNCONSTRAINED,
    Reduction,
    ReductionWorkspace,
    decode_by_reduction,
    reduction_workspace_free,
    reduction_workspace_init,
)

OK = DECODE_OK
NO_TREE = DECODE_NO_TREE
LOST_DIGITS = DECODE_LOST_DIGITS

REDUCTIONS = {
    "unconstrained": UNCONSTRAINED,
    "naive": NAIVE,
    "preselection": PRESELECTION,
    "reweighting": REWEIGHTING,
}


# --- decoders ----------------------------------------------------------------------------------

cdef class Decoder:
    """An algorithm with its memory, for one thread and sentences of up to `max_words` words."""
    cdef Py_ssize_t max_words
    cdef bint single_root
    cdef bint arcmax
    cdef double* square
    # Where the scores may be read as they lie, without the copy in `square`; else NULL.
    cdef TreeWorkspace* in_place

    def __dealloc__(self):
        free(self.square)

    cdef double* square_buffer(self) except NULL:
        """Room for a copy of one sentence's scores, made when first asked for."""
        cdef size_t width = <size_t>self.max_words + 1
        if self.square is NULL:
            self.square = <double*>malloc(width * width * sizeof(double))
            if self.square is NULL:
                raise no_memory(self.max_words)
        return self.square

    cdef int decode_square(self, Py_ssize_t n, int32_t* heads) noexcept nogil:
        """Decode the sentence in `square`, which may be changed; returns a DecodeStatus."""
        return DECODE_NO_TREE


cdef object no_memory(Py_ssize_t max_words):
    return MemoryError(
        f"decoding a sentence of {max_words} words needs more memory than there is; split it first"
    )


cdef class TreeDecoder(Decoder):
    """Tarjan, and Gabow & Tarjan: the fast way."""
    cdef TreeWorkspace workspace

    def __cinit__(self, Py_ssize_t max_words, bint single_root, bint arcmax):
        self.max_words = max_words
        self.single_root = single_root
        self.arcmax = arcmax
        if workspace_init(&self.workspace, max_words) != DECODE_OK:
            raise no_memory(max_words)
        self.in_place = &self.workspace

    def __dealloc__(self):
        workspace_free(&self.workspace)

    cdef int decode_square(self, Py_ssize_t n, int32_t* heads) noexcept nogil:
        return decode_tree(
            <const double*>self.square, n + 1, n, self.single_root, self.arcmax, heads,
            &self.workspace)


cdef class ReductionDecoder(Decoder):
    """The published reductions, and the textbook algorithm by itself."""
    cdef ReductionWorkspace workspace
    cdef Reduction reduction

    def __cinit__(
            self, Py_ssize_t max_words, str reduction not None, bint textbook, bint arcmax,
            bint arcmax_inside):
        self.max_words = max_words
        self.reduction = REDUCTIONS[reduction]
        self.arcmax = arcmax
        if reduction_workspace_init(
                &self.workspace, max_words, textbook, arcmax_inside) != DECODE_OK:
            raise no_memory(max_words)

    def __dealloc__(self):
        reduction_workspace_free(&self.workspace)

    cdef int decode_square(self, Py_ssize_t n, int32_t* heads) noexcept nogil:
        return decode_by_reduction(
            self.square, n, self.reduction, self.arcmax, heads, &self.workspace)


cdef class ProjectiveDecoder(Decoder):
    """Eisner."""
    cdef ChartWorkspace workspace

    def __cinit__(self, Py_ssize_t max_words, bint single_root, bint arcmax):
        self.max_words = max_words
        self.single_root = single_root
        self.arcmax = arcmax
        if chart_workspace_init(&self.workspace, max_words) != DECODE_OK:
            raise no_memory(max_words)

    def __dealloc__(self):
        chart_workspace_free(&self.workspace)

    cdef int decode_square(self, Py_ssize_t n, int32_t* heads) noexcept nogil:
        return decode_projective(
            self.square, n, self.single_root, self.arcmax, heads, &self.workspace)


# --- batches -----------------------------------------------------------------------------------

cdef struct Layout:
    const char* scores
    Py_ssize_t row_bytes
    Py_ssize_t column_bytes
    const char* allowed             # NULL where all arcs are
    Py_ssize_t allowed_row_bytes
    Py_ssize_t allowed_column_bytes


cdef void gather(
        const Layout* layout, Py_ssize_t n, const score_t* of_type, double* out) noexcept nogil:
    """Copy one sentence of any layout to contiguous rows, with -inf where an arc is not allowed.

    Row 0 and the diagonal are never read. `of_type` only tells the type of the scores.
    """
    cdef Py_ssize_t dep, head
    cdef const char* score
    cdef const char* allowed
    for dep in range(1, n + 1):
        score = layout.scores + dep * layout.row_bytes
        if layout.allowed is NULL:
            for head in range(n + 1):
                if head != dep:
                    out[head + dep * (n + 1)] = (
                        <const score_t*>(score + head * layout.column_bytes))[0]
        else:
            allowed = layout.allowed + dep * layout.allowed_row_bytes
            for head in range(n + 1):
                if head != dep and allowed[head * layout.allowed_column_bytes]:
                    out[head + dep * (n + 1)] = (
                        <const score_t*>(score + head * layout.column_bytes))[0]
                else:
                    out[head + dep * (n + 1)] = -INFINITY
        out[dep + dep * (n + 1)] = -INFINITY


def decode_range(
        const score_t[:, :, :] scores not None, const unsigned char[:, :, :] allowed,
        const Py_ssize_t[::1] lengths not None, int32_t[:, ::1] heads not None,
        Py_ssize_t start, Py_ssize_t stop, Decoder decoder not None):
    """Decode sentences start..stop-1 to heads, padded with -1.

    Returns (status, sentence) of the first that fails, or else (OK, stop). Precondition: the decoder is this thread's alone.
    """
    cdef Layout layout
    cdef bint in_place
    cdef double* square = NULL
    cdef const score_t* first
    cdef Py_ssize_t i, n, padding, row_stride
    cdef int status = DECODE_OK
    if start >= stop:
        return DECODE_OK, stop
    first = &scores[0, 0, 0]
    layout.row_bytes = scores.strides[1]
    layout.column_bytes = scores.strides[2]
    layout.allowed = NULL
    layout.allowed_row_bytes = layout.allowed_column_bytes = 0
    if allowed is not None:
        layout.allowed_row_bytes = allowed.strides[1]
        layout.allowed_column_bytes = allowed.strides[2]
    in_place = (
        decoder.in_place is not NULL and allowed is None
        and layout.column_bytes == sizeof(score_t) and layout.row_bytes % sizeof(score_t) == 0)
    if not in_place:
        square = decoder.square_buffer()
    row_stride = layout.row_bytes // <Py_ssize_t>sizeof(score_t)
    with nogil:
        for i in range(start, stop):
            n = lengths[i]
            layout.scores = <const char*>first + i * scores.strides[0]
            if in_place:
                status = decode_tree(
                    <const score_t*>layout.scores, row_stride, n, decoder.single_root,
                    decoder.arcmax, &heads[i, 0], decoder.in_place)
            else:
                if allowed is not None:
                    layout.allowed = <const char*>&allowed[0, 0, 0] + i * allowed.strides[0]
                gather(&layout, n, first, square)
                status = decoder.decode_square(n, &heads[i, 0])
            if status != DECODE_OK:
                break
            for padding in range(n + 1, heads.shape[1]):
                heads[i, padding] = -1
        else:
            i = stop
    return status, i


def decode_kbest(const double[:, ::1] scores not None, Py_ssize_t k, bint single_root):
    """Find the k best trees of one sentence; returns (status, heads)."""
    cdef KBestSearch search
    cdef Py_ssize_t n = scores.shape[0] - 1
    cdef int32_t[:, ::1] heads
    cdef int status
    with nogil:
        status = k_best_trees(&scores[0, 0], n, k, single_root, &search)
    try:
        if status == DECODE_NO_MEMORY:
            raise MemoryError(
                f"no memory for the {k} best trees of {n} words; ask for fewer"
            )
        if status != DECODE_OK:
            return status, None
        found = np.empty((search.found, n + 1), dtype=np.int32)
        heads = found
        memcpy(&heads[0, 0], search.heads, search.found * (n + 1) * sizeof(int32_t))
        return status, found
    finally:
        k_best_free(&search)


def form_trees(
        const int32_t[:, ::1] heads not None, const Py_ssize_t[::1] lengths not None,
        bint single_root, unsigned char[::1] out not None):
    """Set out[i] to whether heads[i, 1..n] form a tree; heads must lie within 0..n."""
    cdef int32_t[::1] stamp = np.empty(heads.shape[1], dtype=np.int32)
    cdef Py_ssize_t i
    with nogil:
        for i in range(heads.shape[0]):
            out[i] = heads_form_tree(&heads[i, 0], lengths[i], single_root, &stamp[0])


def are_projective(
        const int32_t[:, ::1] heads not None, const Py_ssize_t[::1] lengths not None,
        unsigned char[::1] out not None):
    """Set out[i] to whether the tree heads[i, 1..n] is projective."""
    cdef int32_t[::1] scratch = np.empty(4 * heads.shape[1], dtype=np.int32)
    cdef Py_ssize_t i
    with nogil:
        for i in range(heads.shape[0]):
            out[i] = tree_is_projective(&heads[i, 0], lengths[i], &scratch[0])
