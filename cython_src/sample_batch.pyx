"""Sampling of trees in proportion to the exponential of their score, by the published methods.

- ancestral: word after word, each inserted into the tree of the words before it (see `ancestral`).
- colbourn: the head of one word after another, by rank-one updates of the inverse Laplacian.
- wilson: the root token by its exact marginal, and a loop-erased walk to it (Stanojevic 2022;
  Zmigrod, Vieira & Cotterell 2021). wilson_reject: walks to ROOT until one has a single root.
- auto: wilson, until a walk takes too long. Then the walk is discarded and the tree drawn word
  after word *with the root token already drawn*: given the root, the number of steps is independent
  of the tree (see `wilson`), but a new root would be biased towards those that do not trap a walk.
  Without a single root, the walk's root is ROOT, and a whole new tree is right.
- distinct: without replacement (see `without_replacement`).

Arguments of the Python boundary are checked in spacy_rootmind.trees.sampling and trusted here.
"""
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from spacy_rootmind.kernel.ancestral cimport (
    insertion_begin,
    insertion_draw,
    insertion_free,
    insertion_init,
)
from spacy_rootmind.kernel.batch cimport Batch, ScoreBuffer, Worker, gather, run_batch
from spacy_rootmind.kernel.colbourn cimport draw_by_inverse, invert_laplacian
from spacy_rootmind.kernel.decode cimport (
    DECODE_LOST_DIGITS,
    DECODE_NO_MEMORY,
    DECODE_OK,
    DECODE_UNSETTLED,
)
from spacy_rootmind.kernel.elimination cimport TreeSum, tree_sum_free, tree_sum_init, weigh_arcs
from spacy_rootmind.kernel.inside_outside cimport (
    SpanSums,
    describe_sum,
    draw_projective,
    span_sums_free,
    span_sums_init,
    sum_projective,
)
from spacy_rootmind.kernel.interrupt cimport poll_row
from spacy_rootmind.kernel.partial_tree cimport partial_begin, partial_free, partial_init
from spacy_rootmind.kernel.partition cimport log_probability, root_shares, sum_trees, sum_trees_wide
from spacy_rootmind.kernel.random cimport (
    RandomSource,
    Stream,
    draw_index,
    stream_begin,
    stream_double,
)
from spacy_rootmind.kernel.wilson cimport prepare_walk, walk_free, walk_init, walk_tree
from spacy_rootmind.kernel.without_replacement cimport (
    ProjectiveTrie,
    projective_trie_begin,
    projective_trie_draw,
    projective_trie_free,
    trie_begin,
    trie_draw,
    trie_free,
    trie_log_remaining,
)

cdef extern from "ieee.h":
    pass


# --- memory ------------------------------------------------------------------------------------

cdef bint is_walk(SampleMethod method) noexcept nogil:
    return method in (SAMPLE_AUTO, SAMPLE_WILSON, SAMPLE_WILSON_REJECT)


cdef int sampler_init(
        SamplerWorkspace* sampler, SampleMethod method, Py_ssize_t max_words, bint single_root,
        int64_t max_steps) noexcept nogil:
    """Allocate what the method needs; O(n^2) bytes. Returns DECODE_OK or DECODE_NO_MEMORY.

    `sampler_free` is to be called whatever is returned.
    """
    cdef size_t width = <size_t>max_words + 1
    cdef bint fits
    memset(sampler, 0, sizeof(SamplerWorkspace))
    sampler.method = method
    sampler.max_words = max_words
    sampler.single_root = single_root
    sampler.max_steps = max_steps
    sampler.root_weights = <double*>malloc(width * sizeof(double))
    fits = sampler.root_weights is not NULL and tree_sum_init(&sampler.sum, max_words) == DECODE_OK
    if is_walk(method):
        fits = fits and walk_init(&sampler.walk, max_words) == DECODE_OK
    if method == SAMPLE_WILSON_REJECT:
        fits = fits and tree_sum_init(&sampler.root_sum, max_words) == DECODE_OK
    if method in (SAMPLE_AUTO, SAMPLE_ANCESTRAL):
        fits = fits and insertion_init(&sampler.insertion, max_words) == DECODE_OK
    if method == SAMPLE_DISTINCT:
        fits = fits and partial_init(&sampler.partial, max_words) == DECODE_OK
    if method == SAMPLE_COLBOURN:
        sampler.inverse = <double*>malloc(width * width * sizeof(double))
        sampler.work = <double*>malloc((width * width + 3 * width) * sizeof(double))
        sampler.swapped = <Py_ssize_t*>malloc(width * sizeof(Py_ssize_t))
        fits = fits and sampler.inverse is not NULL and sampler.work is not NULL
        fits = fits and sampler.swapped is not NULL
    return DECODE_OK if fits else DECODE_NO_MEMORY


cdef void sampler_free(SamplerWorkspace* sampler) noexcept nogil:
    """Free all memory; harmless when called twice."""
    tree_sum_free(&sampler.sum)
    tree_sum_free(&sampler.root_sum)
    insertion_free(&sampler.insertion)
    partial_free(&sampler.partial)
    walk_free(&sampler.walk)
    trie_free(&sampler.trie)
    free(sampler.root_weights)
    free(sampler.inverse)
    free(sampler.work)
    free(sampler.swapped)
    sampler.root_weights = sampler.inverse = sampler.work = NULL
    sampler.swapped = NULL


# --- a sentence --------------------------------------------------------------------------------

cdef int begin_walks(SamplerWorkspace* sampler) noexcept nogil:
    """Prepare draws of the root token and of heads; returns a DecodeStatus."""
    cdef TreeSum* weights = &sampler.sum
    cdef Py_ssize_t n = sampler.sum.n
    cdef Py_ssize_t lowest = 1, word
    cdef int status
    if not sampler.single_root:
        lowest = 0
    elif sampler.method == SAMPLE_WILSON_REJECT:
        lowest = 0
        weights = &sampler.root_sum
        status = weigh_arcs(sampler.square, n, False, weights)
        if status != DECODE_OK:
            return status
    else:
        status = root_shares(sampler.square, sampler.root_weights, &sampler.sum)
        if status != DECODE_OK:
            return status
    if lowest == 1:
        sampler.root_total = 0
        for word in range(1, n + 1):
            sampler.root_total += sampler.root_weights[word]
    prepare_walk(<const double*>weights.weights, weights.stride, n, lowest, &sampler.walk)
    return DECODE_OK


cdef int sampler_begin(
        SamplerWorkspace* sampler, const double* square, Py_ssize_t n) noexcept nogil:
    """Sum over the trees of a sentence and prepare to draw; O(n^3). Returns a DecodeStatus."""
    cdef int status
    sampler.square = square
    sampler.has_insertion = False
    status = sum_trees(square, n, sampler.single_root, &sampler.sum)
    if status != DECODE_OK or n == 0:
        return status
    if is_walk(sampler.method):
        return begin_walks(sampler)
    if sampler.method == SAMPLE_COLBOURN:
        if not invert_laplacian(
                <const double*>sampler.sum.weights, sampler.sum.stride, n, sampler.single_root,
                sampler.inverse, sampler.swapped):
            return DECODE_LOST_DIGITS
    if sampler.method == SAMPLE_DISTINCT:
        partial_begin(&sampler.partial, square, &sampler.sum)
        status = trie_begin(&sampler.trie, &sampler.partial)
    return status


# --- single draws ------------------------------------------------------------------------------

cdef int draw_ancestral(
        SamplerWorkspace* sampler, Py_ssize_t root, const RandomSource* random, int32_t* heads
) noexcept nogil:
    """Draw a tree word after word, with that root token unless it is 0; returns a DecodeStatus."""
    cdef int status = DECODE_OK
    if not sampler.has_insertion:
        status = insertion_begin(&sampler.insertion, &sampler.sum)
        sampler.has_insertion = True
    if status == DECODE_OK:
        status = insertion_draw(&sampler.insertion, &sampler.sum, root, random, heads)
    if status == DECODE_UNSETTLED:
        if sampler.sum.beyond_float64:
            return DECODE_LOST_DIGITS
        status = sum_trees_wide(sampler.square, &sampler.sum)
        sampler.has_insertion = False
        if status == DECODE_OK:
            return draw_ancestral(sampler, root, random, heads)
    return status


cdef int64_t steps_for(const SamplerWorkspace* sampler) noexcept nogil:
    """The number of steps allowed to the walks for one tree.

    By default that of "auto" is several times the usual, which takes about as long as an insertion.
    """
    cdef int64_t n = sampler.sum.n
    if sampler.max_steps > 0:
        return sampler.max_steps
    return 16 * n


cdef int draw_by_walk(
        SamplerWorkspace* sampler, const RandomSource* random, int32_t* heads) noexcept nogil:
    """Draw a root token, and walk to it; for "auto", fall back on `draw_ancestral`."""
    cdef Py_ssize_t n = sampler.sum.n
    cdef Py_ssize_t root = 0
    cdef int64_t steps = steps_for(sampler)
    if sampler.single_root:
        root = 1 + draw_index(sampler.root_weights + 1, n, sampler.root_total, random)
    if walk_tree(root, &steps, random, heads, &sampler.walk):
        return DECODE_OK
    if sampler.method == SAMPLE_AUTO:
        return draw_ancestral(sampler, root, random, heads)
    return SAMPLE_NO_STEPS


cdef int draw_by_rejection(
        SamplerWorkspace* sampler, const RandomSource* random, int32_t* heads) noexcept nogil:
    """Walk to ROOT until the tree has a single root."""
    cdef Py_ssize_t n = sampler.sum.n
    cdef Py_ssize_t word, n_roots = 0, n_walks = 0
    cdef int64_t steps = steps_for(sampler)
    while n_roots != 1:
        n_walks += 1
        poll_row(n_walks, 32 * n)
        if not walk_tree(0, &steps, random, heads, &sampler.walk):
            return SAMPLE_NO_STEPS
        heads[0] = -1
        n_roots = 0
        for word in range(1, n + 1):
            n_roots += heads[word] == 0
    return DECODE_OK


cdef int draw_tree(
        SamplerWorkspace* sampler, const RandomSource* random, int32_t* heads, bint* exhausted
) noexcept nogil:
    """Draw one tree of a sentence that has words; returns a DecodeStatus or SAMPLE_NO_STEPS."""
    cdef int status
    exhausted[0] = False
    if sampler.method == SAMPLE_ANCESTRAL:
        return draw_ancestral(sampler, 0, random, heads)
    if sampler.method == SAMPLE_COLBOURN:
        return draw_by_inverse(
            <const double*>sampler.sum.weights, sampler.sum.stride, sampler.sum.n,
            sampler.single_root, sampler.inverse, random, heads, sampler.work)
    if sampler.method == SAMPLE_WILSON_REJECT:
        return draw_by_rejection(sampler, random, heads)
    if sampler.method == SAMPLE_DISTINCT:
        status = trie_draw(&sampler.trie, &sampler.partial, random, exhausted)
        if status == DECODE_OK and not exhausted[0]:
            memcpy(heads, sampler.partial.heads, (sampler.sum.n + 1) * sizeof(int32_t))
        return status
    return draw_by_walk(sampler, random, heads)


cdef int sampler_draw(
        SamplerWorkspace* sampler, Py_ssize_t k, const RandomSource* random, int32_t* heads,
        Py_ssize_t width, double* log_probabilities, Py_ssize_t* found) noexcept nogil:
    """Draw up to k trees, one after another; fewer only without replacement."""
    cdef Py_ssize_t i
    cdef bint exhausted
    cdef int status
    found[0] = 0
    for i in range(k):
        poll_row(i, 32 * sampler.sum.n)
        if sampler.sum.n == 0:
            if i > 0 and sampler.method == SAMPLE_DISTINCT:
                return DECODE_OK
            heads[i * width] = -1
        else:
            if sampler.log_remaining is not NULL:
                sampler.log_remaining[i] = trie_log_remaining(&sampler.trie)
            status = draw_tree(sampler, random, heads + i * width, &exhausted)
            if status != DECODE_OK or exhausted:
                return status
        log_probabilities[i] = log_probability(
            sampler.square, heads + i * width, &sampler.sum)
        found[0] = i + 1
    return DECODE_OK


# --- batches -----------------------------------------------------------------------------------

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
    const uint64_t* seeds           # of the streams, two words per sentence
    Py_ssize_t k
    int32_t* heads                  # k rows per sentence
    Py_ssize_t width
    double* log_probabilities       # k per sentence
    double* log_remaining           # the same, or NULL
    Py_ssize_t* found               # per sentence

cdef struct SampleState:
    const SampleTask* task
    SamplerWorkspace sampler
    Stream stream                   # of the sentence, and how algorithms draw from it
    RandomSource source
    SpanSums spans                  # for projective trees, instead of `sampler`
    ProjectiveTrie trie             # for different ones
    bint single_root
    double* square                  # the scores of one sentence


cdef double next_of_stream(void* state) noexcept nogil:
    return stream_double(<Stream*>state)


cdef const RandomSource* begin_stream(SampleState* worker, Py_ssize_t sentence) noexcept nogil:
    """Begin the random numbers of a sentence."""
    stream_begin(&worker.stream, worker.task.seeds + 2 * sentence)
    worker.source.next_double = next_of_stream
    worker.source.state = &worker.stream
    return &worker.source


cdef int sample_sentence(void* state, const Batch* batch, Py_ssize_t sentence) noexcept nogil:
    """Draw trees of one sentence; returns a DecodeStatus or SAMPLE_NO_STEPS."""
    cdef SampleState* worker = <SampleState*>state
    cdef const SampleTask* task = worker.task
    cdef SamplerWorkspace* sampler = &worker.sampler
    cdef int status
    gather(batch, sentence, worker.square)
    sampler.log_remaining = NULL
    if task.log_remaining is not NULL:
        sampler.log_remaining = task.log_remaining + sentence * task.k
    status = sampler_begin(sampler, worker.square, batch.lengths[sentence])
    if status != DECODE_OK:
        return status
    return sampler_draw(
        sampler, task.k, begin_stream(worker, sentence),
        task.heads + sentence * task.k * task.width,
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
    begin_stream(worker, sentence)
    for i in range(first, first + task.k):
        draw_projective(&worker.spans, &worker.source, task.heads + i * task.width)
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
    begin_stream(worker, sentence)
    for i in range(first, first + task.k):
        if worker.trie.exhausted:
            break
        if task.log_remaining is not NULL:
            task.log_remaining[i] = worker.trie.log_remaining
        status = projective_trie_draw(
            &worker.trie, &worker.spans, &worker.source, task.heads + i * task.width)
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


def sample_batch(
        object scores, object allowed, object lengths, list samplers,
        const uint64_t[:, ::1] seeds not None, int32_t[:, :, ::1] heads not None,
        double[:, ::1] log_probabilities not None, Py_ssize_t[::1] found not None,
        double[:, ::1] log_remaining=None):
    """Draw trees of all sentences, with one thread per sampler.

    `scores`, `allowed` and `lengths` are as for ScoreBuffer. Each sentence has a random stream of
    its own, begun from two words of `seeds`, of shape (B, 2). Without replacement, `log_remaining`
    gets the log of the mass that was left before each draw.
    Returns (status, sentence) of the first sentence that fails, or (OK, any).
    """
    cdef ScoreBuffer buffer = ScoreBuffer(scores, allowed, lengths)
    cdef Sampler sampler
    cdef SampleTask task
    if buffer.c.n_sentences == 0:
        return DECODE_OK, 0
    task.k = heads.shape[1]
    task.heads = &heads[0, 0, 0]
    task.width = heads.shape[2]
    task.log_probabilities = &log_probabilities[0, 0]
    task.found = &found[0]
    task.log_remaining = NULL if log_remaining is None else &log_remaining[0, 0]
    task.seeds = &seeds[0, 0]
    for sampler in samplers:
        sampler.c.task = &task
    return run_batch(buffer, samplers)
