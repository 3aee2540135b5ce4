"""The one Python boundary of the kernel: views, batches, release of the GIL.

Arguments are checked in spacy_rootmind.trees.decoding; here they are taken as promised there.
"""
from libc.stddef cimport size_t
from libc.stdint cimport int32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

import numpy as np

from spacy_rootmind.kernel.batch cimport Batch, ScoreBuffer, gather
from spacy_rootmind.kernel.decode cimport (
    DECODE_LOST_DIGITS,
    DECODE_NO_MEMORY,
    DECODE_NO_TREE,
    DECODE_OK,
    DECODE_UNSETTLED,
    TreeWorkspace,
    arcmax_tree,
    decode_tree,
    heads_form_tree,
    score_t,
    tree_is_projective,
    workspace_free,
    workspace_init,
)
from spacy_rootmind.kernel.eisner cimport (
    ChartWorkspace,
    chart_workspace_free,
    chart_workspace_init,
    decode_projective,
)
from spacy_rootmind.kernel.kbest cimport KBestSearch, k_best_free, k_best_trees
from spacy_rootmind.kernel.pool cimport run_chunks, start_helpers
from spacy_rootmind.kernel.reductions cimport (
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
NO_MEMORY = DECODE_NO_MEMORY
LOST_DIGITS = DECODE_LOST_DIGITS

cdef enum:
    MAX_THREADS = 256   # of a batch; more than any machine gains from

MOST_THREADS = MAX_THREADS
REDUCTIONS = {
    "unconstrained": UNCONSTRAINED,
    "naive": NAIVE,
    "preselection": PRESELECTION,
    "reweighting": REWEIGHTING,
}


# --- decoders ----------------------------------------------------------------------------------

# An algorithm with its memory, for one thread.
cdef struct SentenceDecoder:
    # Decodes the sentence in `square`, which it may change; returns a DecodeStatus.
    int (*decode_square)(SentenceDecoder*, Py_ssize_t n, int32_t* heads) noexcept nogil
    double* square          # a copy of the scores: contiguous, float64, -inf where not allowed
    bint single_root
    bint arcmax
    Reduction reduction
    TreeWorkspace* arcmax_first     # for ArcMax before the scores are copied; NULL for none
    TreeWorkspace tree
    ReductionWorkspace reduced
    ChartWorkspace chart


cdef int decode_square_tree(
        SentenceDecoder* decoder, Py_ssize_t n, int32_t* heads) noexcept nogil:
    return decode_tree(
        <const double*>decoder.square, n + 1, n, decoder.single_root, decoder.arcmax, heads,
        &decoder.tree)


cdef int decode_square_reduced(
        SentenceDecoder* decoder, Py_ssize_t n, int32_t* heads) noexcept nogil:
    return decode_by_reduction(
        decoder.square, n, decoder.reduction, decoder.arcmax, heads, &decoder.reduced)


cdef int decode_square_projective(
        SentenceDecoder* decoder, Py_ssize_t n, int32_t* heads) noexcept nogil:
    return decode_projective(
        decoder.square, n, decoder.single_root, decoder.arcmax, heads, &decoder.chart)


cdef class Decoder:
    """An algorithm with its memory, for one thread and sentences of up to `max_words` words."""
    cdef SentenceDecoder c
    cdef Py_ssize_t max_words

    def __cinit__(self, Py_ssize_t max_words, *args):
        self.max_words = max_words

    def __dealloc__(self):
        workspace_free(&self.c.tree)
        reduction_workspace_free(&self.c.reduced)
        chart_workspace_free(&self.c.chart)
        free(self.c.square)

    cdef int make_square(self) except -1:
        """Make room for a copy of one sentence's scores, if there is none yet."""
        cdef size_t width = <size_t>self.max_words + 1
        if self.c.square is NULL:
            self.c.square = <double*>malloc(width * width * sizeof(double))
        return check_memory(self.max_words, DECODE_NO_MEMORY if self.c.square is NULL else 0)


cdef int check_memory(Py_ssize_t max_words, int status) except -1:
    if status == DECODE_NO_MEMORY:
        raise MemoryError(
            f"decoding a sentence of {max_words} words needs at least "
            f"{4 * max_words * max_words / 2**30:.1f} GiB; split it first"
        )
    return 0


cdef class TreeDecoder(Decoder):
    """Tarjan, and Gabow & Tarjan: the fast way."""

    def __cinit__(self, Py_ssize_t max_words, bint single_root, bint arcmax):
        self.c.decode_square = decode_square_tree
        self.c.single_root = single_root
        self.c.arcmax = arcmax
        check_memory(max_words, workspace_init(&self.c.tree, max_words))


cdef class ReductionDecoder(Decoder):
    """The published reductions, and the textbook algorithm by itself."""

    def __cinit__(
            self, Py_ssize_t max_words, str reduction not None, bint textbook, bint arcmax,
            bint arcmax_inside):
        self.c.decode_square = decode_square_reduced
        self.c.reduction = REDUCTIONS[reduction]
        self.c.single_root = self.c.reduction != UNCONSTRAINED
        self.c.arcmax = arcmax
        check_memory(max_words, reduction_workspace_init(
            &self.c.reduced, max_words, textbook, arcmax_inside))
        if arcmax:
            self.c.arcmax_first = &self.c.reduced.tree
        self.make_square()


cdef class ProjectiveDecoder(Decoder):
    """Eisner."""

    def __cinit__(self, Py_ssize_t max_words, bint single_root, bint arcmax):
        self.c.decode_square = decode_square_projective
        self.c.single_root = single_root
        self.c.arcmax = arcmax
        check_memory(max_words, chart_workspace_init(&self.c.chart, max_words))
        self.make_square()


# --- batches -----------------------------------------------------------------------------------

# What a thread gets: the batch, which all share, and a decoder of its own.
cdef struct BatchThread:
    const Batch* batch
    SentenceDecoder* decoder
    bint in_place           # the decoder reads the scores as they lie
    int32_t* heads
    Py_ssize_t width        # of a row of heads


cdef inline int decode_sentence(
        const BatchThread* thread, Py_ssize_t sentence, const score_t* of_type) noexcept nogil:
    """Decode one sentence to its row of heads, padded with -1; returns a DecodeStatus."""
    cdef const Batch* batch = thread.batch
    cdef SentenceDecoder* decoder = thread.decoder
    cdef Py_ssize_t n = batch.lengths[sentence]
    cdef int32_t* heads = thread.heads + sentence * thread.width
    cdef const score_t* scores = <const score_t*>(
        batch.scores + sentence * batch.sentence_bytes)
    cdef Py_ssize_t row_stride = batch.row_bytes // <Py_ssize_t>sizeof(score_t)
    cdef Py_ssize_t padding
    cdef int status = DECODE_UNSETTLED
    if thread.in_place:
        status = decode_tree(
            scores, row_stride, n, decoder.single_root, decoder.arcmax, heads, &decoder.tree)
    elif batch.is_plain and decoder.arcmax_first is not NULL:
        heads[0] = -1
        status = arcmax_tree(
            scores, row_stride, n, decoder.single_root, heads, decoder.arcmax_first)
    if status == DECODE_UNSETTLED:
        gather(batch, sentence, of_type, decoder.square)
        status = decoder.decode_square(decoder, n, heads)
    for padding in range(n + 1, thread.width):
        heads[padding] = -1
    return status


cdef inline int decode_chunk(
        const BatchThread* thread, Py_ssize_t start, Py_ssize_t stop, const score_t* of_type,
        Py_ssize_t* failed) noexcept nogil:
    cdef Py_ssize_t i
    cdef int status
    for i in range(start, stop):
        status = decode_sentence(thread, i, of_type)
        if status != DECODE_OK:
            failed[0] = i
            return status
    return DECODE_OK


cdef int decode_chunk_f32(
        void* state, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t* failed) noexcept nogil:
    return decode_chunk(<BatchThread*>state, start, stop, <const float*>NULL, failed)


cdef int decode_chunk_f64(
        void* state, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t* failed) noexcept nogil:
    return decode_chunk(<BatchThread*>state, start, stop, <const double*>NULL, failed)


def decode_batch(
        object scores, object allowed, const Py_ssize_t[::1] lengths not None,
        int32_t[:, ::1] heads not None, list decoders not None):
    """Decode all sentences to heads, padded with -1; one thread for each decoder.

    `scores` is float32 or float64 in three dimensions, `allowed` None or bytes of the same shape.
    Returns (status, sentence) of the first sentence that fails, or else (OK, any).
    """
    cdef Py_ssize_t n_threads = len(decoders)
    cdef Py_ssize_t i, failed = 0
    cdef ScoreBuffer buffer
    cdef Decoder decoder
    cdef BatchThread[MAX_THREADS] threads
    cdef (void*)[MAX_THREADS] states
    cdef int status
    if lengths.shape[0] == 0:
        return DECODE_OK, 0
    buffer = ScoreBuffer(scores, allowed, lengths)
    for i in range(n_threads):
        decoder = decoders[i]
        threads[i].batch = &buffer.c
        threads[i].decoder = &decoder.c
        threads[i].in_place = buffer.c.is_plain and isinstance(decoder, TreeDecoder)
        threads[i].heads = &heads[0, 0]
        threads[i].width = heads.shape[1]
        states[i] = &threads[i]
        if not threads[i].in_place:
            decoder.make_square()
    if n_threads > 1:
        start_helpers(n_threads)
    with nogil:
        status = run_chunks(
            decode_chunk_f32 if buffer.c.is_float32 else decode_chunk_f64, states, n_threads,
            buffer.c.lengths, buffer.c.n_sentences, &failed)
    return status, failed


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
