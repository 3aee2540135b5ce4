"""Batches of scores, and the copy of one sentence that most algorithms work on."""
from cpython.buffer cimport PyBUF_STRIDED_RO, PyBuffer_Release, PyObject_GetBuffer
from libc.math cimport INFINITY


cdef class ScoreBuffer:
    """The memory of an array of scores, of its mask and of the sentences' lengths.

    `scores` is float32 or float64 in three dimensions, `allowed` None or bytes of the same shape;
    `lengths` must outlive this. Typed views of arrays of either type would cost more than decoding
    a short sentence.
    """

    def __cinit__(self, object scores, object allowed, const Py_ssize_t[::1] lengths not None):
        self.score_view.buf = self.allowed_view.buf = NULL
        PyObject_GetBuffer(scores, &self.score_view, PyBUF_STRIDED_RO)
        if allowed is not None:
            PyObject_GetBuffer(allowed, &self.allowed_view, PyBUF_STRIDED_RO)
        if self.score_view.ndim != 3 or (allowed is not None and self.allowed_view.ndim != 3):
            raise ValueError("expected scores and mask in three dimensions")
        self.c.lengths = &lengths[0] if lengths.shape[0] > 0 else NULL
        self.c.n_sentences = lengths.shape[0]
        describe(&self.c, &self.score_view, &self.allowed_view)

    def __dealloc__(self):
        if self.score_view.buf is not NULL:
            PyBuffer_Release(&self.score_view)
        if self.allowed_view.buf is not NULL:
            PyBuffer_Release(&self.allowed_view)


cdef void describe(Batch* batch, const Py_buffer* scores, const Py_buffer* allowed) noexcept:
    """Describe the scores and the mask; `allowed.buf` is NULL without one."""
    batch.scores = <const char*>scores.buf
    batch.sentence_bytes = scores.strides[0]
    batch.row_bytes = scores.strides[1]
    batch.column_bytes = scores.strides[2]
    batch.is_float32 = scores.itemsize == sizeof(float)
    batch.allowed = <const char*>allowed.buf
    if batch.allowed is not NULL:
        batch.allowed_sentence_bytes = allowed.strides[0]
        batch.allowed_row_bytes = allowed.strides[1]
        batch.allowed_column_bytes = allowed.strides[2]
    batch.is_plain = (
        batch.allowed is NULL and batch.column_bytes == scores.itemsize
        and batch.row_bytes % scores.itemsize == 0)


cdef void gather(
        const Batch* batch, Py_ssize_t sentence, const score_t* of_type,
        double* square) noexcept nogil:
    """Copy one sentence of any layout to contiguous rows, with -inf where an arc is not allowed.

    Row 0 and the diagonal are never read. `of_type` only tells the type of the scores.
    """
    cdef Py_ssize_t n = batch.lengths[sentence]
    cdef const char* scores = batch.scores + sentence * batch.sentence_bytes
    cdef const char* allowed = NULL
    cdef const char* row
    cdef double* out
    cdef Py_ssize_t dep, head
    for dep in range(1, n + 1):
        row = scores + dep * batch.row_bytes
        out = square + dep * (n + 1)
        if batch.is_plain:
            for head in range(dep):
                out[head] = (<const score_t*>row)[head]
            for head in range(dep + 1, n + 1):
                out[head] = (<const score_t*>row)[head]
        else:
            for head in range(n + 1):
                if head != dep:
                    out[head] = (<const score_t*>(row + head * batch.column_bytes))[0]
        out[dep] = -INFINITY
        if batch.allowed is not NULL:
            allowed = batch.allowed + (
                sentence * batch.allowed_sentence_bytes + dep * batch.allowed_row_bytes)
            for head in range(n + 1):
                if not allowed[head * batch.allowed_column_bytes]:
                    out[head] = -INFINITY
