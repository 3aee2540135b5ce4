"""The Python boundary of sums over all trees, and of what can be read off them.

`sum_batch` eliminates: it finds log Z and the marginals, and keeps a summary per sentence. From
that, the other functions find probabilities of trees and entropies in O(n) or O(n^2).
Arguments are checked in spacy_rootmind.trees.distribution and trusted here.
"""
from libc.math cimport INFINITY, isfinite
from libc.stdint cimport int32_t
from libc.string cimport memcpy, memset

from spacy_rootmind.kernel.batch cimport (
    Batch,
    ScoreBuffer,
    SentenceFunction,
    Worker,
    check_memory,
    gather,
    run_batch,
    score_of_arc,
)
from spacy_rootmind.kernel.inside_outside cimport (
    SpanSums,
    projective_marginals,
    span_sums_free,
    span_sums_init,
    sum_projective,
)
from spacy_rootmind.kernel.interrupt cimport give_up, poll_row, require
from spacy_rootmind.kernel.partition cimport (
    SumScale,
    TreeSum,
    arc_marginals,
    cross_entropy,
    log_partition,
    log_probability,
    log_ratio,
    sum_trees,
    tree_sum_free,
    tree_sum_init,
)
from spacy_rootmind.kernel.status cimport Status

cdef enum:
    # A summary holds log Z, the scale of a TreeSum, and its `highest` of words 0..N.
    AT_LOG_Z = 0
    AT_SCALE = 1
    N_CONSTANTS = 7

LOG_Z = AT_LOG_Z
CONSTANTS = N_CONSTANTS


# --- summaries ---------------------------------------------------------------------------------

cdef void write_summary(const TreeSum* sum, double* summary) noexcept nogil:
    """Keep log Z, and what `read_summary` needs. O(n)."""
    cdef Py_ssize_t dep
    summary[AT_LOG_Z] = log_partition(sum)
    memcpy(summary + AT_SCALE, &sum.scale, sizeof(SumScale))
    for dep in range(1, sum.n + 1):
        summary[N_CONSTANTS + dep] = sum.highest[dep]


cdef void read_summary(
        double* summary, Py_ssize_t n, bint single_root, TreeSum* sum) noexcept nogil:
    """Make a sum without matrices, for functions that need none. It owns no memory."""
    memset(sum, 0, sizeof(TreeSum))
    sum.n = n
    sum.single_root = single_root
    memcpy(&sum.scale, summary + AT_SCALE, sizeof(SumScale))
    sum.highest = summary + N_CONSTANTS


# --- elimination -------------------------------------------------------------------------------

cdef struct SumTask:
    bint single_root
    bint allow_no_tree      # a sentence without trees has log Z = -inf instead of failing
    Py_ssize_t width        # N + 1
    double* summaries       # a row per sentence
    double* marginals       # NULL if not wanted

cdef struct SumState:
    TreeSum sum             # over all trees; what `spans` amounts to if these are projective
    SpanSums spans
    bint projective
    double* square          # the scores of one sentence: contiguous


cdef void sum_sentence(void* state, const Batch* batch, Py_ssize_t sentence) noexcept nogil:
    """Sum over the trees of one sentence."""
    cdef SumState* worker = <SumState*>state
    cdef const SumTask* task = <const SumTask*>batch.task
    cdef Py_ssize_t width = task.width
    cdef Py_ssize_t n = batch.lengths[sentence]
    cdef double* summary = task.summaries + sentence * (N_CONSTANTS + width)
    cdef double* marginals
    cdef int status
    gather(batch, sentence, worker.square)
    if worker.projective:
        status = sum_projective(worker.square, n, task.single_root, &worker.spans, &worker.sum)
    else:
        status = sum_trees(worker.square, n, task.single_root, &worker.sum)
    if status == Status.NO_TREE and task.allow_no_tree:
        summary[AT_LOG_Z] = -INFINITY
        return
    require(status)
    write_summary(&worker.sum, summary)
    if task.marginals is not NULL:
        marginals = task.marginals + sentence * width * width
        if worker.projective:
            projective_marginals(marginals, width, &worker.spans)
        else:
            arc_marginals(marginals, width, &worker.sum)


cdef class Summation(Worker):
    """The memory of one thread for sums over trees of up to `max_words` words."""
    cdef SumState c

    def __cinit__(self, Py_ssize_t max_words, bint projective=False):
        cdef int status
        self.handle = sum_sentence
        self.state = &self.c
        self.c.projective = projective
        self.c.square = self.make_square(max_words)
        if projective:
            status = span_sums_init(&self.c.spans, max_words, False)
        else:
            status = tree_sum_init(&self.c.sum, max_words, False)
        check_memory(max_words, status)

    def __dealloc__(self):
        span_sums_free(&self.c.spans)
        tree_sum_free(&self.c.sum)


def sum_batch(
        ScoreBuffer buffer not None, bint single_root, list summations not None,
        double[:, ::1] summaries not None, double[:, :, ::1] marginals=None,
        bint allow_no_tree=False):
    """Sum over the trees of all sentences, with one thread per summation; returns as `run_batch`.

    Fills `summaries`, of shape (B, CONSTANTS + N + 1), with log Z in column LOG_Z; and `marginals`
    if given, which hold zeros where there are no words. With `allow_no_tree`, log Z of a sentence
    without trees is -inf, and nothing else is filled.
    """
    cdef SumTask task
    if buffer.c.n_sentences == 0:
        return Status.OK, 0
    task.single_root = single_root
    task.allow_no_tree = allow_no_tree
    task.width = summaries.shape[1] - N_CONSTANTS
    task.summaries = &summaries[0, 0]
    task.marginals = NULL
    if marginals is not None:
        task.marginals = &marginals[0, 0, 0]
    buffer.c.task = &task
    return run_batch(buffer, summations)


# --- queries of a sum --------------------------------------------------------------------------

cdef struct QueryTask:
    bint single_root
    Py_ssize_t width            # N + 1
    double* summaries
    const double* marginals
    const int32_t* heads        # n_trees rows per sentence; heads[0] = 0 where they form no tree
    Py_ssize_t n_trees
    double* out


cdef double find_log_prob(
        const Batch* batch, Py_ssize_t sentence, const int32_t* heads, const TreeSum* sum,
        double* square) noexcept nogil:
    """Find the log probability of a tree; -inf if heads[0] says it is none, or an arc is forbidden.

    Gives up if it is a tree of so low a probability that its log is beyond float64. Only the tree's
    arcs of `square` are used.
    """
    cdef Py_ssize_t dep
    cdef double score, found
    if heads[0] != -1:
        return -INFINITY
    for dep in range(1, sum.n + 1):
        score = score_of_arc(batch, sentence, dep, heads[dep])
        if score == -INFINITY:
            return -INFINITY
        square[dep * (sum.n + 1) + heads[dep]] = score
    found = log_probability(square, heads, sum)
    if not isfinite(found):
        give_up(Status.LOST_DIGITS)
    return found


cdef void find_log_probs(void* square, const Batch* batch, Py_ssize_t sentence) noexcept nogil:
    cdef const QueryTask* task = <const QueryTask*>batch.task
    cdef Py_ssize_t tree
    cdef TreeSum sum
    read_summary(
        task.summaries + sentence * (N_CONSTANTS + task.width), batch.lengths[sentence],
        task.single_root, &sum)
    for tree in range(sentence * task.n_trees, (sentence + 1) * task.n_trees):
        poll_row(tree, 4 * task.width)
        task.out[tree] = find_log_prob(
            batch, sentence, task.heads + tree * task.width, &sum, <double*>square)


cdef void find_cross_entropy(void* square, const Batch* batch, Py_ssize_t sentence) noexcept nogil:
    cdef const QueryTask* task = <const QueryTask*>batch.task
    cdef TreeSum sum
    gather(batch, sentence, <double*>square)
    read_summary(
        task.summaries + sentence * (N_CONSTANTS + task.width), batch.lengths[sentence],
        task.single_root, &sum)
    task.out[2 * sentence] = cross_entropy(
        <const double*>square, task.marginals + sentence * task.width * task.width, task.width,
        &sum, &task.out[2 * sentence + 1])


cdef class Query(Worker):
    """The memory of one thread for queries about sentences of up to `max_words` words."""
    def __cinit__(self, Py_ssize_t max_words):
        self.state = self.make_square(max_words)


cdef tuple ask(ScoreBuffer buffer, QueryTask* task, SentenceFunction handle, list queries):
    """Answer a question about every sentence, with one thread per query; as `run_batch`."""
    cdef Query query
    for query in queries:
        query.handle = handle
    buffer.c.task = task
    return run_batch(buffer, queries)


def log_prob_batch(
        ScoreBuffer buffer not None, bint single_root, list queries not None,
        double[:, ::1] summaries not None, const int32_t[:, :, ::1] heads not None,
        double[:, ::1] out not None):
    """Find the log probabilities of trees, heads[sentence, tree], from `summaries`.

    If heads form no tree of the wanted kind, heads[sentence, tree, 0] is not -1. Returns as
    `run_batch`.
    """
    cdef QueryTask task
    if out.shape[0] == 0 or out.shape[1] == 0:
        return Status.OK, 0
    task.single_root = single_root
    task.width = heads.shape[2]
    task.summaries = &summaries[0, 0]
    task.heads = &heads[0, 0, 0]
    task.n_trees = heads.shape[1]
    task.out = &out[0, 0]
    return ask(buffer, &task, find_log_probs, queries)


def cross_entropy_batch(
        ScoreBuffer buffer not None, bint single_root, list queries not None,
        double[:, ::1] summaries not None, const double[:, :, ::1] marginals not None,
        double[:, ::1] out not None):
    """Find the cross entropies of the scores' distributions, under others with these marginals.

    out[sentence] is the sum of two numbers, the first inf where float64 does not hold it. Arcs that
    the scores forbid are left out.
    """
    cdef QueryTask task
    if out.shape[0] > 0:
        task.single_root = single_root
        task.width = marginals.shape[2]
        task.summaries = &summaries[0, 0]
        task.marginals = &marginals[0, 0, 0]
        task.out = &out[0, 0]
        ask(buffer, &task, find_cross_entropy, queries)


def log_ratio_batch(
        const Py_ssize_t[::1] lengths not None, double[:, ::1] part not None,
        double[:, ::1] whole not None, double[::1] out not None):
    """Find log(Z of some trees / Z of these and others) from the summaries of both.

    The arcs that either sum forbids, and the number of roots, do not matter here. -inf
    where there are none of the former.
    """
    cdef TreeSum some, every
    cdef Py_ssize_t i
    for i in range(out.shape[0]):
        out[i] = -INFINITY
        if part[i, AT_LOG_Z] > -INFINITY:
            read_summary(&part[i, 0], lengths[i], False, &some)
            read_summary(&whole[i, 0], lengths[i], False, &every)
            out[i] = log_ratio(&some, &every)
