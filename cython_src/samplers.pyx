"""The Python boundary of sampling.

Arguments are checked in spacy_rootmind.trees.sampling and trusted here.
"""
from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc

from spacy_rootmind.kernel.batch cimport Batch, ScoreBuffer, Worker, gather, run_batch
from spacy_rootmind.kernel.colbourn cimport invert_matrix
from spacy_rootmind.kernel.decode cimport DECODE_OK
from spacy_rootmind.kernel.elimination cimport TreeSum
from spacy_rootmind.kernel.inside_outside cimport (
    SpanSums,
    describe_sum,
    draw_projective,
    span_sums_free,
    span_sums_init,
    sum_projective,
)
from spacy_rootmind.kernel.interrupt cimport run_part
from spacy_rootmind.kernel.matrix_tree cimport log_probability
from spacy_rootmind.kernel.projective_distinct cimport (
    ProjectiveTrie,
    projective_trie_begin,
    projective_trie_draw,
    projective_trie_free,
)
from spacy_rootmind.kernel.random cimport RandomSource
from spacy_rootmind.kernel.sample cimport (
    SAMPLE_ANCESTRAL,
    SAMPLE_AUTO,
    SAMPLE_COLBOURN,
    SAMPLE_DISTINCT,
    SAMPLE_NO_STEPS,
    SAMPLE_WILSON,
    SAMPLE_WILSON_REJECT,
    TreeSampler,
    sampler_begin,
    sampler_draw,
    sampler_free,
    sampler_init,
)

cdef extern from "ieee.h":
    pass


cdef extern from "numpy/random/bitgen.h" nogil:
    ctypedef struct bitgen_t:
        void* state
        double (*next_double)(void* state) noexcept nogil

NO_STEPS = SAMPLE_NO_STEPS
METHODS = {
    "auto": SAMPLE_AUTO,
    "ancestral": SAMPLE_ANCESTRAL,
    "colbourn": SAMPLE_COLBOURN,
    "wilson": SAMPLE_WILSON,
    "wilson_reject": SAMPLE_WILSON_REJECT,
    "distinct": SAMPLE_DISTINCT,
}

# What is drawn, of which all threads share the arrays.
cdef struct SampleTask:
    const RandomSource* sources     # one per sentence
    Py_ssize_t k
    int32_t* heads                  # k rows per sentence
    Py_ssize_t width
    double* log_probabilities       # k per sentence
    double* log_remaining           # the same, or NULL
    Py_ssize_t* found               # per sentence
    const double* inverses
    const double* inverse_weights
    Py_ssize_t inverse_stride

cdef struct SampleState:
    const SampleTask* task
    TreeSampler sampler
    SpanSums spans                  # for projective trees, instead of `sampler`
    ProjectiveTrie trie             # for different ones
    bint single_root
    double* square                  # the scores of one sentence


cdef int sample_sentence(void* state, const Batch* batch, Py_ssize_t sentence) noexcept nogil:
    """Draw trees of one sentence; returns a DecodeStatus or SAMPLE_NO_STEPS."""
    cdef SampleState* worker = <SampleState*>state
    cdef const SampleTask* task = worker.task
    cdef TreeSampler* sampler = &worker.sampler
    cdef Py_ssize_t stride = task.inverse_stride
    cdef int status
    gather(batch, sentence, worker.square)
    if task.inverses is not NULL:
        sampler.inverse = task.inverses + sentence * stride * stride
        sampler.inverse_weights = task.inverse_weights + sentence * (stride + 1) * (stride + 1)
        sampler.inverse_stride = stride
    sampler.log_remaining = NULL
    if task.log_remaining is not NULL:
        sampler.log_remaining = task.log_remaining + sentence * task.k
    status = sampler_begin(sampler, worker.square, batch.lengths[sentence])
    if status != DECODE_OK:
        return status
    return sampler_draw(
        sampler, task.k, &task.sources[sentence], task.heads + sentence * task.k * task.width,
        task.width, task.log_probabilities + sentence * task.k, &task.found[sentence])


cdef int begin_projective(
        SampleState* worker, const Batch* batch, Py_ssize_t sentence) noexcept nogil:
    """Sum over the projective trees of a sentence; returns a DecodeStatus."""
    gather(batch, sentence, worker.square)
    return sum_projective(
        worker.square, batch.lengths[sentence], worker.single_root, &worker.spans)


cdef int sample_projective(void* state, const Batch* batch, Py_ssize_t sentence) noexcept nogil:
    """Draw projective trees of one sentence; returns a DecodeStatus."""
    cdef SampleState* worker = <SampleState*>state
    cdef const SampleTask* task = worker.task
    cdef Py_ssize_t i, first = sentence * task.k
    cdef TreeSum sum
    cdef int status = begin_projective(worker, batch, sentence)
    if status != DECODE_OK:
        return status
    describe_sum(&worker.spans, &sum)
    for i in range(first, first + task.k):
        draw_projective(
            &worker.spans, &task.sources[sentence], task.heads + i * task.width)
        task.log_probabilities[i] = log_probability(
            worker.square, task.heads + i * task.width, &sum)
    task.found[sentence] = task.k
    return DECODE_OK


cdef int sample_projective_distinct(
        void* state, const Batch* batch, Py_ssize_t sentence) noexcept nogil:
    """Draw different projective trees of one sentence; returns a DecodeStatus."""
    cdef SampleState* worker = <SampleState*>state
    cdef const SampleTask* task = worker.task
    cdef Py_ssize_t i, first = sentence * task.k
    cdef TreeSum sum
    cdef int status = begin_projective(worker, batch, sentence)
    if status == DECODE_OK:
        status = projective_trie_begin(&worker.trie, batch.lengths[sentence])
    if status != DECODE_OK:
        return status
    describe_sum(&worker.spans, &sum)
    for i in range(first, first + task.k):
        if worker.trie.exhausted:
            break
        if task.log_remaining is not NULL:
            task.log_remaining[i] = worker.trie.log_remaining
        status = projective_trie_draw(
            &worker.trie, &worker.spans, &task.sources[sentence], task.heads + i * task.width)
        if status != DECODE_OK:
            return status
        task.log_probabilities[i] = log_probability(
            worker.square, task.heads + i * task.width, &sum)
        task.found[sentence] += 1
    return DECODE_OK


cdef class Sampler(Worker):
    """A way to draw trees with its memory, for one thread and up to `max_words` words."""
    cdef SampleState c

    def __cinit__(
            self, str method not None, Py_ssize_t max_words, bint single_root, int64_t max_steps):
        cdef size_t width = <size_t>max_words + 1
        cdef int status
        self.state = &self.c
        self.c.single_root = single_root
        self.c.square = <double*>malloc(width * width * sizeof(double))
        if method in ("projective", "projective_distinct"):
            self.handle = sample_projective
            if method == "projective_distinct":
                self.handle = sample_projective_distinct
            status = span_sums_init(&self.c.spans, max_words, False)
        else:
            self.handle = sample_sentence
            status = sampler_init(
                &self.c.sampler, METHODS[method], max_words, single_root, max_steps)
        if status != DECODE_OK or self.c.square is NULL:
            raise MemoryError(
                f"sampling trees of {max_words} words needs at least "
                f"{56 * max_words * max_words / 2**20:.0f} MiB; split the sentence first"
            )

    def __dealloc__(self):
        sampler_free(&self.c.sampler)
        span_sums_free(&self.c.spans)
        projective_trie_free(&self.c.trie)
        free(self.c.square)


cdef int find_sources(list bit_generators, RandomSource* sources) except -1:
    """Unwrap numpy's bit generators, which must outlive this and be in no one else's hands."""
    cdef bitgen_t* generator
    cdef Py_ssize_t i
    for i in range(len(bit_generators)):
        generator = <bitgen_t*>PyCapsule_GetPointer(bit_generators[i].capsule, "BitGenerator")
        sources[i].next_double = generator.next_double
        sources[i].state = generator.state
    return 0


# The arguments of `invert_matrix`, and its result.
cdef struct InverseTask:
    double* matrix
    Py_ssize_t n
    Py_ssize_t* swapped
    bint exists


cdef int invert_part(void* argument) noexcept nogil:
    cdef InverseTask* task = <InverseTask*>argument
    task.exists = invert_matrix(task.matrix, task.n, task.swapped)
    return DECODE_OK


def invert(double[:, ::1] matrix not None):
    """Invert a square matrix in place; returns whether it has an inverse, up to rounding."""
    cdef InverseTask task
    task.n = matrix.shape[0]
    if task.n == 0:
        return True
    task.matrix = &matrix[0, 0]
    task.swapped = <Py_ssize_t*>malloc(task.n * sizeof(Py_ssize_t))
    if task.swapped is NULL:
        raise MemoryError("no memory for a row")
    try:
        run_part(invert_part, &task)
    finally:
        free(task.swapped)
    return bool(task.exists)


def sample_batch(
        object scores, object allowed, object lengths, list samplers, list bit_generators,
        int32_t[:, :, ::1] heads not None, double[:, ::1] log_probabilities not None,
        Py_ssize_t[::1] found not None, const double[:, :, ::1] inverses=None,
        const double[:, :, ::1] inverse_weights=None, double[:, ::1] log_remaining=None):
    """Draw trees of all sentences, with one bit generator per sentence and thread per sampler.

    `scores`, `allowed` and `lengths` are as for ScoreBuffer. For colbourn, `inverses` are those of
    the sentences' Laplacians, n x n, and `inverse_weights` the weights in these, (n + 1) x (n + 1).
    Without replacement, `log_remaining` gets the log of the mass that was left before each draw.
    Returns (status, sentence) of the first sentence that fails, or (OK, any).
    """
    cdef ScoreBuffer buffer = ScoreBuffer(scores, allowed, lengths)
    cdef Sampler sampler
    cdef SampleTask task
    cdef RandomSource* sources
    if buffer.c.n_sentences == 0:
        return DECODE_OK, 0
    task.k = heads.shape[1]
    task.heads = &heads[0, 0, 0]
    task.width = heads.shape[2]
    task.log_probabilities = &log_probabilities[0, 0]
    task.found = &found[0]
    task.log_remaining = NULL if log_remaining is None else &log_remaining[0, 0]
    task.inverses = task.inverse_weights = NULL
    task.inverse_stride = 0
    if inverses is not None and inverses.shape[2] > 0:
        task.inverses = &inverses[0, 0, 0]
        task.inverse_weights = &inverse_weights[0, 0, 0]
        task.inverse_stride = inverses.shape[2]
    sources = <RandomSource*>malloc(buffer.c.n_sentences * sizeof(RandomSource))
    if sources is NULL:
        raise MemoryError("no memory for random streams")
    try:
        find_sources(bit_generators, sources)
        task.sources = sources
        for sampler in samplers:
            sampler.c.task = &task
        return run_batch(buffer, samplers)
    finally:
        free(sources)
