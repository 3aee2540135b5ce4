"""The Python boundary of probabilities and samples: batches, threads, release of the GIL.

Arguments are checked in spacy_rootmind.trees; here they are taken as promised
there. Statuses are those of spacy_rootmind.kernel.decoders.
"""
from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.math cimport INFINITY
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from spacy_rootmind.kernel.batch cimport Batch, ScoreBuffer, gather
from spacy_rootmind.kernel.decode cimport DECODE_OK, score_t
from spacy_rootmind.kernel.elimination cimport TreeSum, tree_sum_free, tree_sum_init
from spacy_rootmind.kernel.matrix_tree cimport (
    arc_marginals,
    log_partition,
    log_probability,
    sum_trees,
    tree_entropy,
)
from spacy_rootmind.kernel.pool cimport run_chunks, start_helpers
from spacy_rootmind.kernel.random cimport RandomSource
from spacy_rootmind.kernel.sample cimport (
    SAMPLE_ANCESTRAL,
    SAMPLE_AUTO,
    SAMPLE_COLBOURN,
    SAMPLE_DISTINCT,
    SAMPLE_NO_STEPS,
    SAMPLE_WILSON,
    SAMPLE_WILSON_BIASED,
    SAMPLE_WILSON_REJECT,
    TreeSampler,
    sampler_begin,
    sampler_draw,
    sampler_free,
    sampler_init,
)


cdef extern from "numpy/random/bitgen.h" nogil:
    ctypedef struct bitgen_t:
        void* state
        double (*next_double)(void* state) noexcept nogil

cdef enum:
    MAX_THREADS = 256

NO_STEPS = SAMPLE_NO_STEPS
METHODS = {
    "auto": SAMPLE_AUTO,
    "ancestral": SAMPLE_ANCESTRAL,
    "colbourn": SAMPLE_COLBOURN,
    "wilson": SAMPLE_WILSON,
    "wilson_reject": SAMPLE_WILSON_REJECT,
    "wilson_biased": SAMPLE_WILSON_BIASED,
    "distinct": SAMPLE_DISTINCT,
}


# --- memory ------------------------------------------------------------------------------------

cdef class Summation:
    """What one thread needs to sum over the trees of sentences of up to `max_words` words."""
    cdef TreeSum sum
    cdef double* square         # the scores of one sentence: contiguous, -inf where not allowed
    cdef double* marginals      # of one sentence, where only its entropy is asked for

    def __cinit__(self, Py_ssize_t max_words, bint with_entropy):
        cdef size_t width = <size_t>max_words + 1
        self.square = <double*>malloc(width * width * sizeof(double))
        if with_entropy:
            self.marginals = <double*>malloc(width * width * sizeof(double))
        if (
            self.square is NULL or (with_entropy and self.marginals is NULL)
            or tree_sum_init(&self.sum, max_words) != DECODE_OK
        ):
            raise MemoryError(
                f"summing over the trees of {max_words} words needs at least "
                f"{40 * max_words * max_words / 2**20:.0f} MiB; split the sentence first"
            )

    def __dealloc__(self):
        tree_sum_free(&self.sum)
        free(self.square)
        free(self.marginals)


# --- sums over all trees -----------------------------------------------------------------------

# What is wanted for each sentence; NULL for what is not.
cdef struct Wanted:
    double* log_z
    double* marginals
    double* entropy
    double* log_prob
    const int32_t* heads        # of the trees for log_prob; heads[0] = 0 where they are none
    Py_ssize_t width

# What a thread gets.
cdef struct SumThread:
    const Batch* batch
    const Wanted* wanted
    bint single_root
    TreeSum* sum
    double* square
    double* marginals


cdef double checked_log_probability(
        const double* square, const int32_t* heads, const TreeSum* sum) noexcept nogil:
    """The log probability of a tree; -inf if it is none, or has a forbidden arc."""
    cdef Py_ssize_t dep
    if heads[0] != -1:
        return -INFINITY
    for dep in range(1, sum.n + 1):
        if square[dep * (sum.n + 1) + heads[dep]] == -INFINITY:
            return -INFINITY
    return log_probability(square, heads, sum)


cdef int sum_sentence(
        const SumThread* thread, Py_ssize_t sentence, const score_t* of_type) noexcept nogil:
    """Find what is wanted of one sentence; returns a DecodeStatus."""
    cdef const Wanted* wanted = thread.wanted
    cdef Py_ssize_t n = thread.batch.lengths[sentence]
    cdef double* marginals = thread.marginals
    cdef Py_ssize_t width = n + 1
    cdef int status
    gather(thread.batch, sentence, of_type, thread.square)
    status = sum_trees(thread.square, n, thread.single_root, thread.sum)
    if status != DECODE_OK:
        return status
    if wanted.log_z is not NULL:
        wanted.log_z[sentence] = log_partition(thread.sum)
    if wanted.log_prob is not NULL:
        wanted.log_prob[sentence] = checked_log_probability(
            thread.square, wanted.heads + sentence * wanted.width, thread.sum)
    if wanted.marginals is not NULL:
        width = wanted.width
        marginals = wanted.marginals + sentence * width * width
    if marginals is not NULL:
        status = arc_marginals(thread.square, marginals, width, thread.sum)
    if wanted.entropy is not NULL:
        wanted.entropy[sentence] = tree_entropy(thread.square, marginals, width, thread.sum)
    return status


cdef inline int sum_chunk(
        const SumThread* thread, Py_ssize_t start, Py_ssize_t stop, const score_t* of_type,
        Py_ssize_t* failed) noexcept nogil:
    cdef Py_ssize_t i
    cdef int status
    for i in range(start, stop):
        status = sum_sentence(thread, i, of_type)
        if status != DECODE_OK:
            failed[0] = i
            return status
    return DECODE_OK


cdef int sum_chunk_f32(
        void* state, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t* failed) noexcept nogil:
    return sum_chunk(<SumThread*>state, start, stop, <const float*>NULL, failed)


cdef int sum_chunk_f64(
        void* state, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t* failed) noexcept nogil:
    return sum_chunk(<SumThread*>state, start, stop, <const double*>NULL, failed)


def sum_batch(
        object scores, object allowed, const Py_ssize_t[::1] lengths not None, bint single_root,
        list summations not None, double[::1] log_z=None, double[:, :, ::1] marginals=None,
        double[::1] entropy=None, const int32_t[:, ::1] heads=None, double[::1] log_prob=None):
    """Fill those of the arrays that are given, for all sentences; a thread for each summation.

    `marginals` must be zeros. `heads` belong to `log_prob`; where they are no tree of the
    wanted kind, their first is not -1. Returns (status, sentence) of the first sentence that fails,
    or else (OK, any).
    """
    cdef Py_ssize_t n_threads = len(summations)
    cdef Py_ssize_t i, failed = 0
    cdef ScoreBuffer buffer
    cdef Summation summation
    cdef Wanted wanted
    cdef SumThread[MAX_THREADS] threads
    cdef (void*)[MAX_THREADS] states
    cdef int status
    if lengths.shape[0] == 0:
        return DECODE_OK, 0
    memset(&wanted, 0, sizeof(Wanted))
    if log_z is not None:
        wanted.log_z = &log_z[0]
    if marginals is not None:
        wanted.marginals = &marginals[0, 0, 0]
        wanted.width = marginals.shape[2]
    if entropy is not None:
        wanted.entropy = &entropy[0]
    if log_prob is not None:
        wanted.log_prob = &log_prob[0]
        wanted.heads = &heads[0, 0]
        wanted.width = heads.shape[1]
    buffer = ScoreBuffer(scores, allowed, lengths)
    for i in range(n_threads):
        summation = summations[i]
        threads[i].batch = &buffer.c
        threads[i].wanted = &wanted
        threads[i].single_root = single_root
        threads[i].sum = &summation.sum
        threads[i].square = summation.square
        threads[i].marginals = summation.marginals
        states[i] = &threads[i]
    if n_threads > 1:
        start_helpers(n_threads)
    with nogil:
        status = run_chunks(
            sum_chunk_f32 if buffer.c.is_float32 else sum_chunk_f64, states, n_threads,
            buffer.c.lengths, buffer.c.n_sentences, &failed)
    return status, failed


# --- samples -----------------------------------------------------------------------------------

cdef class Sampler:
    """A way to draw trees with its memory, for one thread and up to `max_words` words."""
    cdef TreeSampler c
    cdef double* square

    def __cinit__(
            self, str method not None, Py_ssize_t max_words, bint single_root, int64_t max_steps):
        cdef size_t width = <size_t>max_words + 1
        self.square = <double*>malloc(width * width * sizeof(double))
        if (
            sampler_init(&self.c, METHODS[method], max_words, single_root, max_steps) != DECODE_OK
            or self.square is NULL
        ):
            raise MemoryError(
                f"sampling trees of {max_words} words needs at least "
                f"{56 * max_words * max_words / 2**20:.0f} MiB; split the sentence first"
            )

    def __dealloc__(self):
        sampler_free(&self.c)
        free(self.square)


# What a thread gets.
cdef struct SampleThread:
    const Batch* batch
    TreeSampler* sampler
    double* square
    const RandomSource* sources     # one a sentence
    Py_ssize_t k
    int32_t* heads                  # k rows a sentence
    Py_ssize_t width
    double* log_probabilities       # k a sentence
    Py_ssize_t* found               # per sentence
    const double* inverses
    const double* inverse_weights
    Py_ssize_t inverse_stride


cdef int sample_sentence(
        const SampleThread* thread, Py_ssize_t sentence, const score_t* of_type) noexcept nogil:
    """Draw trees of one sentence; returns a DecodeStatus or SAMPLE_NO_STEPS."""
    cdef Py_ssize_t n = thread.batch.lengths[sentence]
    cdef Py_ssize_t stride = thread.inverse_stride
    cdef int status
    gather(thread.batch, sentence, of_type, thread.square)
    if thread.inverses is not NULL:
        thread.sampler.inverse = thread.inverses + sentence * stride * stride
        thread.sampler.inverse_weights = (
            thread.inverse_weights + sentence * (stride + 1) * (stride + 1))
        thread.sampler.inverse_stride = stride
    status = sampler_begin(thread.sampler, thread.square, n)
    if status != DECODE_OK:
        return status
    return sampler_draw(
        thread.sampler, thread.k, &thread.sources[sentence],
        thread.heads + sentence * thread.k * thread.width, thread.width,
        thread.log_probabilities + sentence * thread.k, &thread.found[sentence])


cdef inline int sample_chunk(
        const SampleThread* thread, Py_ssize_t start, Py_ssize_t stop, const score_t* of_type,
        Py_ssize_t* failed) noexcept nogil:
    cdef Py_ssize_t i
    cdef int status
    for i in range(start, stop):
        status = sample_sentence(thread, i, of_type)
        if status != DECODE_OK:
            failed[0] = i
            return status
    return DECODE_OK


cdef int sample_chunk_f32(
        void* state, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t* failed) noexcept nogil:
    return sample_chunk(<SampleThread*>state, start, stop, <const float*>NULL, failed)


cdef int sample_chunk_f64(
        void* state, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t* failed) noexcept nogil:
    return sample_chunk(<SampleThread*>state, start, stop, <const double*>NULL, failed)


cdef int find_sources(list bit_generators, RandomSource* sources) except -1:
    """Unwrap numpy's bit generators, which must outlive this and be in no one else's hands."""
    cdef bitgen_t* generator
    cdef Py_ssize_t i
    for i in range(len(bit_generators)):
        generator = <bitgen_t*>PyCapsule_GetPointer(bit_generators[i].capsule, "BitGenerator")
        sources[i].next_double = generator.next_double
        sources[i].state = generator.state
    return 0


def sample_batch(
        object scores, object allowed, const Py_ssize_t[::1] lengths not None, list samplers,
        list bit_generators, int32_t[:, :, ::1] heads not None,
        double[:, ::1] log_probabilities not None, Py_ssize_t[::1] found not None,
        const double[:, :, ::1] inverses=None, const double[:, :, ::1] inverse_weights=None):
    """Draw trees of all sentences, with a bit generator for each; a thread for each sampler.

    For colbourn, `inverses` are those of the sentences' Laplacians, n x n, and `inverse_weights`
    what those were made of, (n + 1) x (n + 1). Returns (status, sentence) of
    the first sentence that fails, or else (OK, any).
    """
    cdef Py_ssize_t n_threads = len(samplers)
    cdef Py_ssize_t i, failed = 0
    cdef ScoreBuffer buffer
    cdef Sampler sampler
    cdef SampleThread[MAX_THREADS] threads
    cdef (void*)[MAX_THREADS] states
    cdef RandomSource* sources
    cdef int status
    if lengths.shape[0] == 0:
        return DECODE_OK, 0
    buffer = ScoreBuffer(scores, allowed, lengths)
    sources = <RandomSource*>malloc(lengths.shape[0] * sizeof(RandomSource))
    if sources is NULL:
        raise MemoryError("no memory for random streams")
    try:
        find_sources(bit_generators, sources)
        for i in range(n_threads):
            sampler = samplers[i]
            threads[i].batch = &buffer.c
            threads[i].sampler = &sampler.c
            threads[i].square = sampler.square
            threads[i].sources = sources
            threads[i].k = heads.shape[1]
            threads[i].heads = &heads[0, 0, 0]
            threads[i].width = heads.shape[2]
            threads[i].log_probabilities = &log_probabilities[0, 0]
            threads[i].found = &found[0]
            threads[i].inverses = NULL
            threads[i].inverse_stride = 0
            if inverses is not None and inverses.shape[2] > 0:
                threads[i].inverses = &inverses[0, 0, 0]
                threads[i].inverse_weights = &inverse_weights[0, 0, 0]
                threads[i].inverse_stride = inverses.shape[2]
            states[i] = &threads[i]
        if n_threads > 1:
            start_helpers(n_threads)
        with nogil:
            status = run_chunks(
                sample_chunk_f32 if buffer.c.is_float32 else sample_chunk_f64, states, n_threads,
                buffer.c.lengths, buffer.c.n_sentences, &failed)
        return status, failed
    finally:
        free(sources)
