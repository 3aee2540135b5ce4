"""The one Python boundary of the kernel: views, batches, release of the GIL.

Arguments are checked in spacy_rootmind.trees; here they are taken as promised there.
"""
from libc.stdint cimport int32_t
from libc.stdlib cimport free, malloc

import numpy as np

from spacy_rootmind._decode cimport (
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

OK = DECODE_OK
NO_TREE = DECODE_NO_TREE


cdef class Workspace:
    """Memory for one thread, enough for sentences of up to `max_words` words."""
    cdef TreeWorkspace c
    cdef void* square

    def __cinit__(self, Py_ssize_t max_words):
        if workspace_init(&self.c, max_words) == DECODE_NO_MEMORY:
            raise MemoryError(
                f"decoding a sentence of {max_words} words needs about "
                f"{8 * max_words * max_words / 2**30:.1f} GiB; split it first"
            )

    def __dealloc__(self):
        workspace_free(&self.c)
        free(self.square)

    cdef void* square_buffer(self, size_t itemsize) except NULL:
        """Room for one sentence's scores, made when a layout first asks for it."""
        cdef size_t width = <size_t>self.c.max_words + 1
        if self.square is NULL:
            self.square = malloc(width * width * itemsize)
            if self.square is NULL:
                raise MemoryError(f"no room to copy a sentence of {self.c.max_words} words")
        return self.square


cdef void gather(
        const char* source, Py_ssize_t row_bytes, Py_ssize_t column_bytes, Py_ssize_t n,
        score_t* out) noexcept nogil:
    """Copy one sentence of any layout to contiguous rows; row 0 is never read."""
    cdef Py_ssize_t dep, head
    for dep in range(1, n + 1):
        for head in range(n + 1):
            out[dep * (n + 1) + head] = (
                <const score_t*>(source + dep * row_bytes + head * column_bytes))[0]


def decode_range(
        const score_t[:, :, :] scores not None, const Py_ssize_t[::1] lengths not None,
        int32_t[:, ::1] heads not None, Py_ssize_t start, Py_ssize_t stop, bint single_root,
        bint arcmax, Workspace workspace not None):
    """Decode sentences start..stop-1; returns (status, sentence) of the first that fails.

    Without a failure that is (OK, stop). Precondition: the workspace is this thread's alone.
    """
    cdef Py_ssize_t sentence_bytes = scores.strides[0]
    cdef Py_ssize_t row_bytes = scores.strides[1]
    cdef Py_ssize_t column_bytes = scores.strides[2]
    cdef bint in_place = column_bytes == sizeof(score_t) and row_bytes % sizeof(score_t) == 0
    cdef score_t* square = NULL
    cdef const char* source
    cdef Py_ssize_t i, n
    cdef int status = DECODE_OK
    if start >= stop:
        return DECODE_OK, stop
    if not in_place:
        square = <score_t*>workspace.square_buffer(sizeof(score_t))
    with nogil:
        for i in range(start, stop):
            n = lengths[i]
            source = <const char*>&scores[0, 0, 0] + i * sentence_bytes
            if in_place:
                status = decode_tree(
                    <const score_t*>source, row_bytes // <Py_ssize_t>sizeof(score_t), n,
                    single_root, arcmax, &heads[i, 0], &workspace.c)
            else:
                gather(source, row_bytes, column_bytes, n, square)
                status = decode_tree(
                    <const score_t*>square, n + 1, n, single_root, arcmax, &heads[i, 0],
                    &workspace.c)
            if status != DECODE_OK:
                break
        else:
            i = stop
    return status, i


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
