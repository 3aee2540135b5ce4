"""Sampling of trees in proportion to the exponential of their score, by the published methods.

- ancestral: word after word, each inserted into the tree of the words before it (see `ancestral`).
- colbourn: the head of one word after another, by rank-one updates of the inverse Laplacian.
- wilson: the root token by its exact marginal, and a loop-erased walk to it (Stanojevic 2022;
  Zmigrod, Vieira & Cotterell 2021). wilson_reject: walks to ROOT until one has a single root.
- auto: wilson, until a walk takes too long. Then the walk is discarded and the tree drawn word
  after word *with the root token already drawn*: given the root, the number of steps is independent
  of the tree, but a new root would be biased towards those that do not trap a walk.
  Without a single root, the walk's root is ROOT, and a whole new tree is right.
- distinct: without replacement (see `without_replacement`).

Arguments of the Python boundary are checked in spacy_rootmind.trees.sampling and trusted here.
"""
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memset

from spacy_rootmind.kernel.ancestral cimport (
    Ancestral,
    ancestral_begin,
    ancestral_draw,
    ancestral_free,
    ancestral_init,
)
from spacy_rootmind.kernel.batch cimport Batch, ScoreBuffer, Worker, check_memory, gather, run_batch
from spacy_rootmind.kernel.inside_outside cimport (
    SpanSums,
    draw_projective,
    span_sums_free,
    span_sums_init,
    sum_projective,
)
from spacy_rootmind.kernel.interrupt cimport give_up, poll, poll_row, require
from spacy_rootmind.kernel.papers cimport draw_by_inverse, invert_laplacian
from spacy_rootmind.kernel.partition cimport (
    TreeSum,
    log_probability,
    root_shares,
    sum_trees,
    tree_sum_free,
    tree_sum_init,
    weigh_arcs,
)
from spacy_rootmind.kernel.random cimport Stream, draw_index, next_double, stream_begin
from spacy_rootmind.kernel.room cimport Layout, add_array, allocate
from spacy_rootmind.kernel.status cimport Status
from spacy_rootmind.kernel.without_replacement cimport (
    Trie,
    trie_begin,
    trie_begin_all,
    trie_draw,
    trie_draw_projective,
    trie_free,
    trie_init,
)


# For draws of a head in a single step: a cell is chosen evenly, and stands for two heads.
cdef struct Cell:
    double threshold        # below it, of the cell's width, the first
    int32_t first
    int32_t second

cdef struct WalkTables:
    Py_ssize_t n            # words of the sentence at hand
    Py_ssize_t n_cells      # per word
    Cell* cells             # a row per word
    unsigned char* has_head  # per word
    unsigned char* in_tree  # per word
    double* root_weights    # of words to be the root token
    double root_total       # and their sum
    double* scratch         # a row of weights
    int32_t* todo           # two rows
    void* block

# A method to draw trees, by functions of a SamplerWorkspace.
cdef struct SampleMethod:
    bint (*init)(SamplerWorkspace* sampler) noexcept nogil
    # Sums over the trees of the n words of `sampler.square`.
    void (*begin)(SamplerWorkspace* sampler, Py_ssize_t n) noexcept nogil
    # Draws one tree of a sentence that has words.
    void (*draw)(SamplerWorkspace* sampler, Stream* random, int32_t* heads) noexcept nogil
    bint distinct           # whether no tree is drawn twice

# The drawn trees, in arrays that all threads share.
cdef struct SampleTask:
    const uint64_t* seeds           # of the streams, two words per sentence
    Py_ssize_t k
    int32_t* heads                  # k rows per sentence
    Py_ssize_t width
    double* log_probabilities       # k per sentence
    Py_ssize_t* found               # per sentence

# A method with its memory, for one thread and sentences of up to max_words words.
cdef struct SamplerWorkspace:
    SampleMethod method
    Py_ssize_t max_words
    bint single_root
    int64_t max_steps       # of the walks for one tree; 0 for a number that fits the sentence
    TreeSum sum
    TreeSum root_sum        # with words and ROOT on one scale, for wilson_reject
    Ancestral ancestral
    WalkTables walk
    SpanSums spans          # for projective trees, which `sum` then describes
    Trie trie               # for distinct trees of either kind
    void* block             # for colbourn:
    double* inverse         # inverse of the sentence's Laplacian,
    double* work            # n x n + 3 n + 1,
    Py_ssize_t* swapped     # and n
    double* square          # the scores of the sentence at hand
    bint has_ancestral      # whether `ancestral` is ready for it


# --- all trees of a sentence -------------------------------------------------------------------

cdef bint init_sum(SamplerWorkspace* sampler) noexcept nogil:
    return tree_sum_init(&sampler.sum, sampler.max_words, False) == Status.OK


cdef void begin_sum(SamplerWorkspace* sampler, Py_ssize_t n) noexcept nogil:
    require(sum_trees(sampler.square, n, sampler.single_root, &sampler.sum))


# --- ancestral ---------------------------------------------------------------------------------

cdef bint init_ancestral(SamplerWorkspace* sampler) noexcept nogil:
    return init_sum(sampler) and (
        ancestral_init(&sampler.ancestral, sampler.max_words) == Status.OK)


cdef void draw_with_root(
        SamplerWorkspace* sampler, Py_ssize_t root, Stream* random, int32_t* heads
) noexcept nogil:
    """Draw a tree word after word, with that root token unless it is 0."""
    if not sampler.has_ancestral:
        ancestral_begin(&sampler.ancestral, &sampler.sum)
        sampler.has_ancestral = True
    ancestral_draw(&sampler.ancestral, &sampler.sum, root, random, heads)


cdef void draw_ancestral(
        SamplerWorkspace* sampler, Stream* random, int32_t* heads) noexcept nogil:
    draw_with_root(sampler, 0, random, heads)


# --- walks -------------------------------------------------------------------------------------

# Loop-erased random walks (Wilson 1996). From each word a walk goes from head to head, each drawn
# by its weight, until it meets the tree; the last head drawn at each word stays. The tree is then
# distributed by its weight among all trees with the same root. This takes the mean time to reach
# the root, which has no bound: two words that strongly prefer each other trap a walk. Given the
# root, the number of steps is independent of the tree (cycle popping: Wilson's section 4), so one
# may give up after any number of steps and draw the tree in another way. Heads are drawn by the
# alias method (Walker 1977, tables as of Vose 1991).

cdef enum:
    STEPS_PER_POLL = 1 << 16    # of a walk, each a dozen nanoseconds

# A place in a cell below this is drawn again within it, so that rare heads keep their probability.
cdef double REDRAW_BELOW = 2.0 ** -20


cdef int walk_init(WalkTables* tables, Py_ssize_t max_words) noexcept nogil:
    """Allocate for sentences of up to `max_words` words: 16 n^2 + O(n) bytes."""
    cdef size_t width = <size_t>max_words + 1
    cdef Layout layout
    layout.n_arrays = layout.size = 0
    add_array(&layout, <void**>&tables.cells, width * width, sizeof(Cell))
    add_array(&layout, <void**>&tables.root_weights, width, sizeof(double))
    add_array(&layout, <void**>&tables.scratch, width, sizeof(double))
    add_array(&layout, <void**>&tables.todo, 2 * width, sizeof(int32_t))
    add_array(&layout, <void**>&tables.has_head, width, sizeof(char))
    add_array(&layout, <void**>&tables.in_tree, width, sizeof(char))
    return allocate(&layout, &tables.block, False)


cdef void walk_free(WalkTables* tables) noexcept nogil:
    """Free all memory; harmless when called twice."""
    free(tables.block)
    tables.block = NULL


cdef bint fill_cells(
        Cell* cells, Py_ssize_t n_cells, Py_ssize_t lowest, WalkTables* tables) noexcept nogil:
    """Make the cells of one word from the weights in `scratch`; False if all are 0. O(n)."""
    cdef double* share = tables.scratch
    cdef int32_t* small = tables.todo
    cdef int32_t* large = tables.todo + n_cells
    cdef const int32_t* rest
    cdef Py_ssize_t i, n_small = 0, n_large = 0
    cdef int32_t few, many
    cdef double total = 0
    for i in range(n_cells):
        total += share[i]
    if total == 0:
        return False
    for i in range(n_cells):
        share[i] *= n_cells / total
        if share[i] < 1:
            small[n_small] = <int32_t>i
            n_small += 1
        else:
            large[n_large] = <int32_t>i
            n_large += 1
    # Fill up each cell that has less than its share from one that has more.
    while n_small > 0 and n_large > 0:
        n_small -= 1
        few = small[n_small]
        many = large[n_large - 1]
        cells[few].threshold = share[few]
        cells[few].first = <int32_t>(few + lowest)
        cells[few].second = <int32_t>(many + lowest)
        share[many] -= 1 - share[few]
        if share[many] < 1:
            n_large -= 1
            small[n_small] = many
            n_small += 1
    # One list is left, of heads that have their shares, up to rounding.
    rest = large if n_large > 0 else small
    for i in range(n_large + n_small):
        few = rest[i]
        cells[few].threshold = 1
        cells[few].first = cells[few].second = <int32_t>(few + lowest)
    return True


cdef void prepare_walk(
        const double* weights, Py_ssize_t stride, Py_ssize_t n, Py_ssize_t lowest,
        WalkTables* tables) noexcept nogil:
    """Make the tables of weights[dep * stride + head], heads lowest..n, of any scale. O(n^2)."""
    cdef Py_ssize_t dep, head
    tables.n = n
    tables.n_cells = n + 1 - lowest
    for dep in range(1, n + 1):
        poll_row(dep, 8 * n)
        for head in range(lowest, n + 1):
            tables.scratch[head - lowest] = weights[dep * stride + head] if head != dep else 0
        tables.has_head[dep] = fill_cells(
            tables.cells + dep * tables.n_cells, tables.n_cells, lowest, tables)


cdef inline int32_t draw_head(
        const Cell* cells, Py_ssize_t n_cells, Stream* random) noexcept nogil:
    """Draw one head of a word."""
    cdef double place = next_double(random) * n_cells
    cdef Py_ssize_t i = min(<Py_ssize_t>place, n_cells - 1)
    place -= i
    if place < REDRAW_BELOW:
        place = REDRAW_BELOW * next_double(random)
    return cells[i].first if place < cells[i].threshold else cells[i].second


cdef bint walk_tree(
        Py_ssize_t root, int64_t* steps, Stream* random, int32_t* heads,
        WalkTables* tables) noexcept nogil:
    """Draw a tree in which all words hang from `root`, which is ROOT or a word that hangs from it.

    Returns whether `steps`, from which the steps taken are deducted, sufficed.
    """
    cdef Py_ssize_t n_cells = tables.n_cells
    cdef Py_ssize_t start, word
    # The steps allowed up to the next poll, and all later ones.
    cdef int64_t left = min(steps[0], STEPS_PER_POLL)
    cdef int64_t later = steps[0] - left
    cdef unsigned char* in_tree = tables.in_tree
    memset(in_tree, 0, tables.n + 1)
    in_tree[root] = True
    heads[root] = 0
    heads[0] = -1
    for start in range(1, tables.n + 1):
        word = start
        while not in_tree[word]:
            if left == 0:
                poll(16 * STEPS_PER_POLL)
                left = min(later, STEPS_PER_POLL)
                later -= left
            if left == 0 or not tables.has_head[word]:
                steps[0] = 0
                return False
            left -= 1
            heads[word] = draw_head(tables.cells + word * n_cells, n_cells, random)
            word = heads[word]
        word = start
        while not in_tree[word]:
            in_tree[word] = True
            word = heads[word]
    steps[0] = left + later
    return True


cdef bint init_wilson(SamplerWorkspace* sampler) noexcept nogil:
    return init_sum(sampler) and walk_init(&sampler.walk, sampler.max_words) == Status.OK


cdef void begin_wilson(SamplerWorkspace* sampler, Py_ssize_t n) noexcept nogil:
    """Prepare draws of the root token and of heads."""
    cdef WalkTables* walk = &sampler.walk
    cdef Py_ssize_t word
    begin_sum(sampler, n)
    if sampler.single_root and n > 0:
        root_shares(walk.root_weights, &sampler.sum)
        walk.root_total = 0
        for word in range(1, n + 1):
            walk.root_total += walk.root_weights[word]
    prepare_walk(
        <const double*>sampler.sum.weights, sampler.sum.stride, n, sampler.single_root, walk)


cdef int64_t steps_for(const SamplerWorkspace* sampler) noexcept nogil:
    """The number of steps allowed to the walks for one tree.

    By default several times what is usual, so that "auto" takes about as long as "ancestral".
    """
    return sampler.max_steps if sampler.max_steps > 0 else 16 * sampler.sum.n


cdef bint walk_to_root(
        SamplerWorkspace* sampler, Stream* random, int32_t* heads, Py_ssize_t* root
) noexcept nogil:
    """Draw a root token, 0 for any, and walk to it; returns whether the steps sufficed."""
    cdef int64_t steps = steps_for(sampler)
    root[0] = 0
    if sampler.single_root:
        root[0] = 1 + draw_index(
            sampler.walk.root_weights + 1, sampler.sum.n, sampler.walk.root_total, random)
    return walk_tree(root[0], &steps, random, heads, &sampler.walk)


cdef void draw_wilson(
        SamplerWorkspace* sampler, Stream* random, int32_t* heads) noexcept nogil:
    cdef Py_ssize_t root
    if not walk_to_root(sampler, random, heads, &root):
        give_up(Status.NO_STEPS)


cdef bint init_auto(SamplerWorkspace* sampler) noexcept nogil:
    return init_wilson(sampler) and (
        ancestral_init(&sampler.ancestral, sampler.max_words) == Status.OK)


cdef void draw_auto(
        SamplerWorkspace* sampler, Stream* random, int32_t* heads) noexcept nogil:
    cdef Py_ssize_t root
    if not walk_to_root(sampler, random, heads, &root):
        draw_with_root(sampler, root, random, heads)


cdef bint init_reject(SamplerWorkspace* sampler) noexcept nogil:
    return init_wilson(sampler) and (
        tree_sum_init(&sampler.root_sum, sampler.max_words, False) == Status.OK)


cdef void begin_reject(SamplerWorkspace* sampler, Py_ssize_t n) noexcept nogil:
    cdef TreeSum* weights = &sampler.root_sum
    begin_sum(sampler, n)
    require(weigh_arcs(sampler.square, n, False, weights))
    prepare_walk(<const double*>weights.weights, weights.stride, n, 0, &sampler.walk)


cdef void draw_reject(
        SamplerWorkspace* sampler, Stream* random, int32_t* heads) noexcept nogil:
    """Walk to ROOT until the tree has a single root."""
    cdef Py_ssize_t n = sampler.sum.n
    cdef Py_ssize_t word, n_roots = 0, n_walks = 0
    cdef int64_t steps = steps_for(sampler)
    while n_roots != 1:
        n_walks += 1
        poll_row(n_walks, 32 * n)
        if not walk_tree(0, &steps, random, heads, &sampler.walk):
            give_up(Status.NO_STEPS)
        heads[0] = -1
        n_roots = 0
        for word in range(1, n + 1):
            n_roots += heads[word] == 0


# --- the inverse Laplacian ---------------------------------------------------------------------

cdef bint init_colbourn(SamplerWorkspace* sampler) noexcept nogil:
    cdef size_t width = <size_t>sampler.max_words + 1
    cdef Layout layout
    layout.n_arrays = layout.size = 0
    add_array(&layout, <void**>&sampler.inverse, width * width, sizeof(double))
    add_array(&layout, <void**>&sampler.work, width * width + 3 * width, sizeof(double))
    add_array(&layout, <void**>&sampler.swapped, width, sizeof(Py_ssize_t))
    return allocate(&layout, &sampler.block, False) == Status.OK and init_sum(sampler)


cdef void begin_colbourn(SamplerWorkspace* sampler, Py_ssize_t n) noexcept nogil:
    begin_sum(sampler, n)
    if not invert_laplacian(
            <const double*>sampler.sum.weights, sampler.sum.stride, n, sampler.single_root,
            sampler.inverse, sampler.swapped):
        give_up(Status.LOST_DIGITS)


cdef void draw_colbourn(
        SamplerWorkspace* sampler, Stream* random, int32_t* heads) noexcept nogil:
    require(draw_by_inverse(
        <const double*>sampler.sum.weights, sampler.sum.stride, sampler.sum.n,
        sampler.single_root, sampler.inverse, random, heads, sampler.work))


# --- without replacement -----------------------------------------------------------------------

cdef bint init_distinct(SamplerWorkspace* sampler) noexcept nogil:
    return init_sum(sampler) and trie_init(&sampler.trie, sampler.max_words) == Status.OK


cdef void begin_distinct(SamplerWorkspace* sampler, Py_ssize_t n) noexcept nogil:
    begin_sum(sampler, n)
    trie_begin_all(&sampler.trie, sampler.square, &sampler.sum)


cdef void draw_distinct(
        SamplerWorkspace* sampler, Stream* random, int32_t* heads) noexcept nogil:
    trie_draw(&sampler.trie, random, heads)


# --- projective trees --------------------------------------------------------------------------

cdef bint init_projective(SamplerWorkspace* sampler) noexcept nogil:
    return span_sums_init(&sampler.spans, sampler.max_words, False) == Status.OK


cdef void begin_projective(SamplerWorkspace* sampler, Py_ssize_t n) noexcept nogil:
    require(sum_projective(
        sampler.square, n, sampler.single_root, &sampler.spans, &sampler.sum))


cdef void draw_projective_tree(
        SamplerWorkspace* sampler, Stream* random, int32_t* heads) noexcept nogil:
    draw_projective(&sampler.spans, random, heads)


cdef void begin_projective_distinct(SamplerWorkspace* sampler, Py_ssize_t n) noexcept nogil:
    begin_projective(sampler, n)
    trie_begin(&sampler.trie, 2 * n)


cdef void draw_projective_distinct(
        SamplerWorkspace* sampler, Stream* random, int32_t* heads) noexcept nogil:
    trie_draw_projective(&sampler.trie, &sampler.spans, random, heads)


# --- batches -----------------------------------------------------------------------------------

NO_STEPS = Status.NO_STEPS
METHODS = (
    "auto", "ancestral", "colbourn", "wilson", "wilson_reject",
    "distinct", "projective", "projective_distinct",
)
cdef SampleMethod[8] TABLE
TABLE[:] = [
    SampleMethod(init_auto, begin_wilson, draw_auto, False),
    SampleMethod(init_ancestral, begin_sum, draw_ancestral, False),
    SampleMethod(init_colbourn, begin_colbourn, draw_colbourn, False),
    SampleMethod(init_wilson, begin_wilson, draw_wilson, False),
    SampleMethod(init_reject, begin_reject, draw_reject, False),
    SampleMethod(init_distinct, begin_distinct, draw_distinct, True),
    SampleMethod(init_projective, begin_projective, draw_projective_tree, False),
    SampleMethod(init_projective, begin_projective_distinct, draw_projective_distinct, True),
]


cdef void draw_trees(
        SamplerWorkspace* sampler, const SampleTask* task, Py_ssize_t sentence) noexcept nogil:
    """Draw up to k trees of the sentence begun; fewer if all are distinct."""
    cdef Py_ssize_t i, n = sampler.sum.n
    cdef int32_t* heads
    cdef Stream random
    stream_begin(&random, task.seeds + 2 * sentence)
    task.found[sentence] = 0
    for i in range(sentence * task.k, (sentence + 1) * task.k):
        heads = task.heads + i * task.width
        poll_row(task.found[sentence], 32 * n)
        if sampler.method.distinct and sampler.trie.exhausted:
            return
        if n > 0:
            sampler.method.draw(sampler, &random, heads)
        else:
            heads[0] = -1
            sampler.trie.exhausted = True
        task.log_probabilities[i] = log_probability(sampler.square, heads, &sampler.sum)
        task.found[sentence] += 1


cdef void sample_sentence(void* state, const Batch* batch, Py_ssize_t sentence) noexcept nogil:
    """Draw trees of one sentence."""
    cdef SamplerWorkspace* sampler = <SamplerWorkspace*>state
    gather(batch, sentence, sampler.square)
    sampler.has_ancestral = False
    sampler.method.begin(sampler, batch.lengths[sentence])
    draw_trees(sampler, <const SampleTask*>batch.task, sentence)


cdef class Sampler(Worker):
    """A way to draw trees with its memory, for one thread and up to `max_words` words."""
    cdef SamplerWorkspace c

    def __cinit__(
            self, str method not None, Py_ssize_t max_words, bint single_root, int64_t max_steps):
        self.handle = sample_sentence
        self.state = &self.c
        self.c.method = TABLE[METHODS.index(method)]
        self.c.max_words = max_words
        self.c.single_root = single_root
        self.c.max_steps = max_steps
        self.c.square = self.make_square(max_words)
        check_memory(max_words, Status.OK if self.c.method.init(&self.c) else Status.NO_MEMORY)

    def __dealloc__(self):
        tree_sum_free(&self.c.sum)
        tree_sum_free(&self.c.root_sum)
        ancestral_free(&self.c.ancestral)
        walk_free(&self.c.walk)
        span_sums_free(&self.c.spans)
        trie_free(&self.c.trie)
        free(self.c.block)


def sample_batch(
        ScoreBuffer buffer not None, list samplers not None,
        const uint64_t[:, ::1] seeds not None, int32_t[:, :, ::1] heads not None,
        double[:, ::1] log_probabilities not None, Py_ssize_t[::1] found not None):
    """Draw trees of all sentences, with one thread per sampler.

    Each sentence has a random stream of its own, begun from two words of `seeds`, of shape (B, 2).
    Returns as `run_batch`.
    """
    cdef SampleTask task
    if buffer.c.n_sentences == 0:
        return Status.OK, 0
    task.k = heads.shape[1]
    task.heads = &heads[0, 0, 0]
    task.width = heads.shape[2]
    task.log_probabilities = &log_probabilities[0, 0]
    task.found = &found[0]
    task.seeds = &seeds[0, 0]
    buffer.c.task = &task
    return run_batch(buffer, samplers)
