"""The exact law of one word's head, given the heads of others, without subtraction.

A word that has its head joins the component of that head; what hangs from ROOT is ROOT, and with a
single root, no one else can hang from it then. Left is a smaller problem of the same kind, whose
words are those without a head. All of them but the one in question are eliminated (_matrix_tree).
Substituting forward then gives each one's chance to reach ROOT before that word, and the
probability of a head is proportional to the weight of its arc times the chance of its component.
Only sums, products and quotients of positive numbers: every probability, however small, is accurate
relative to itself.

An elimination costs m^3 / 3 with m words left, all of them n^4 / 12. But if the head hangs from ROOT
already, the next word needs none: two columns of the last one are added. So words come in the order
of the best tree from its root down, and with a confident model nearly all of a tree costs what one
word would.
"""
from libc.math cimport INFINITY
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from spacy_rootmind._decode cimport (
    DECODE_NO_MEMORY,
    DECODE_NO_TREE,
    DECODE_OK,
    DECODE_UNSETTLED,
    decode_tree,
    workspace_free,
    workspace_init,
)
from spacy_rootmind._matrix_tree cimport eliminate_words, find_wide_weights


cdef extern from "weights.h" nogil:
    ctypedef struct Wide:
        double part
        int64_t exponent
    ctypedef struct WeightPasses:
        double (*dot)(const double*, const double*, Py_ssize_t) noexcept nogil
    WeightPasses weight_passes
    int choose_weight_passes(int simd) noexcept
    Wide wide_from(double part, int64_t exponent) noexcept
    Wide wide_multiply(Wide a, Wide b) noexcept
    Wide wide_add(Wide a, Wide b) noexcept
    double wide_log(Wide a) noexcept
    Wide wide_dot(const Wide*, const Wide*, Py_ssize_t) noexcept

ctypedef fused weight_t:
    double
    Wide

# Weights of heads add up to no less than this, or are found again in wide numbers.
cdef double LEAST_TOTAL = 1e-100


def use_simd(bint wanted):
    """Use the processor's SIMD instructions, or the portable C; returns whether SIMD is in use.

    For tests and benchmarks. Not while another thread is at work.
    """
    return bool(choose_weight_passes(wanted))


use_simd(True)


# --- memory ------------------------------------------------------------------------------------

cdef int partial_init(PartialTree* tree, Py_ssize_t max_words) noexcept nogil:
    """Allocate for sentences of up to `max_words` words: 24 n^2 + O(n) bytes, and a decoder.

    48 n^2 more once a sentence needs wide numbers. Returns DECODE_OK or DECODE_NO_MEMORY.
    """
    cdef size_t stride = (<size_t>max_words + 8) & ~<size_t>3
    cdef size_t width = <size_t>max_words + 1
    # Rows that shrink from their front run on into the next one, the last into one more.
    cdef size_t matrix = stride * (width + 1)
    memset(tree, 0, sizeof(PartialTree))
    tree.max_words = max_words
    tree.stride = stride
    if workspace_init(&tree.best, max_words) != DECODE_OK:
        return DECODE_NO_MEMORY
    # Zeros: vector passes read what nobody has written, to multiply it by zero.
    tree.block = calloc(
        (3 * matrix + 4 * stride) * sizeof(double) + 6 * width * sizeof(int32_t), 1)
    if tree.block is NULL:
        return DECODE_NO_MEMORY
    tree.factored = <double*>tree.block
    tree.kept = tree.factored + matrix
    tree.contracted = tree.kept + matrix
    tree.reach = tree.contracted + matrix
    tree.scratch = tree.reach + stride
    tree.heads = <int32_t*>(tree.scratch + 3 * stride)
    tree.order = tree.heads + width
    tree.best_order = tree.heads + 2 * width
    tree.place = tree.heads + 3 * width
    tree.top = tree.heads + 4 * width
    tree.number = tree.heads + 5 * width
    return DECODE_OK


cdef void partial_free(PartialTree* tree) noexcept nogil:
    """Free all memory; harmless when called twice."""
    workspace_free(&tree.best)
    free(tree.block)
    free(tree.wide_block)
    tree.block = tree.wide_block = NULL


# --- the order of words, and components --------------------------------------------------------

cdef int partial_begin(PartialTree* tree, const double* square, TreeSum* sum) noexcept nogil:
    """Begin a sentence: its words will come in the order of its best tree, from the root down."""
    cdef Py_ssize_t n = sum.n
    cdef Py_ssize_t done, found = 0, dep
    cdef int status
    tree.square = square
    tree.sum = sum
    tree.n = n
    tree.kept_root = -1
    tree.knows_wide = False
    status = decode_tree(square, n + 1, n, sum.single_root, True, tree.heads, &tree.best)
    if status != DECODE_OK:
        return status
    # Breadth first; ROOT's dependents come first.
    for dep in range(1, n + 1):
        if tree.heads[dep] == 0:
            tree.best_order[found] = <int32_t>dep
            found += 1
    done = 0
    while done < found:
        for dep in range(1, n + 1):
            if tree.heads[dep] == tree.best_order[done]:
                tree.best_order[found] = <int32_t>dep
                found += 1
        done += 1
    return DECODE_OK


cdef void put_first(PartialTree* tree, Py_ssize_t root) noexcept nogil:
    """Set the order, with `root`, unless it is 0, before all others."""
    cdef Py_ssize_t i, next_place = 0
    if root > 0:
        tree.order[0] = <int32_t>root
        next_place = 1
    for i in range(tree.n):
        if tree.best_order[i] != root:
            tree.order[next_place] = tree.best_order[i]
            next_place += 1
    for i in range(tree.n):
        tree.place[tree.order[i]] = <int32_t>i


cdef void partial_restart(PartialTree* tree, Py_ssize_t n_fixed) noexcept nogil:
    """Take the heads of the first `n_fixed` words in order as they stand. O(n d) for depth d."""
    cdef Py_ssize_t word, above
    tree.n_fixed = n_fixed
    tree.is_current = False
    tree.takes_root = True
    for word in range(1, tree.n + 1):
        above = word
        while above != 0 and tree.place[above] < n_fixed:
            above = tree.heads[above]
        tree.top[word] = <int32_t>above
        if tree.sum.single_root and above == 0:
            tree.takes_root = False


cdef void partial_start(PartialTree* tree, Py_ssize_t root) noexcept nogil:
    """Begin a tree; if `root` is not 0, that word hangs from ROOT.

    What the elimination gave for the last start with the same root is used again.
    """
    cdef size_t size
    put_first(tree, root)
    tree.heads[0] = -1
    if root > 0:
        tree.heads[root] = 0
    partial_restart(tree, root > 0)
    if tree.n_fixed == tree.n:
        return
    size = tree.stride * (tree.n + 1) * sizeof(double)
    if tree.kept_root == root:
        memcpy(tree.factored, tree.kept, size)
        tree.pivots = tree.factored
        # Only a start whose elimination set no turn is kept.
        tree.turn = 0
        tree.is_current = True
        number_components(tree)
        return
    if factor(tree) and tree.turn == 0:
        memcpy(tree.kept, tree.factored, size)
        tree.kept_root = root


cdef Py_ssize_t partial_next(const PartialTree* tree) noexcept nogil:
    """The word whose head comes next; 0 if all have one."""
    return tree.order[tree.n_fixed] if tree.n_fixed < tree.n else 0


cdef void number_components(PartialTree* tree) noexcept nogil:
    """Number heads by their component: 1 is that of the next word, 0 that of ROOT."""
    cdef Py_ssize_t head
    tree.number[0] = 0
    for head in range(1, tree.n + 1):
        tree.number[head] = (
            <int32_t>(tree.place[tree.top[head]] - tree.n_fixed + 1) if tree.top[head] != 0 else 0)


# --- elimination -------------------------------------------------------------------------------

cdef void contract(
        const PartialTree* tree, const weight_t* weights, Py_ssize_t weights_stride,
        weight_t* contracted) noexcept nogil:
    """Add up the weights between components. O(n m) for m of them."""
    cdef Py_ssize_t n = tree.n
    cdef Py_ssize_t m = n - tree.n_fixed
    cdef Py_ssize_t i, head
    cdef const weight_t* row
    cdef weight_t* out
    for i in range(1, m + 1):
        row = weights + tree.order[tree.n_fixed + i - 1] * weights_stride
        out = contracted + i * tree.stride
        memset(out, 0, (m + 1) * sizeof(weight_t))
        if tree.takes_root:
            out[0] = row[0]
        for head in range(1, n + 1):
            if weight_t is double:
                out[tree.number[head]] += row[head]
            else:
                out[tree.number[head]] = wide_add(out[tree.number[head]], row[head])


cdef bint factor(PartialTree* tree) noexcept nogil:
    """Eliminate all words without a head but the next one, O(m^3); False if float64 does not do."""
    cdef double* scratch = tree.scratch
    number_components(tree)
    contract(tree, <const double*>tree.sum.weights, tree.sum.stride, tree.contracted)
    tree.pivots = tree.factored
    tree.is_current = DECODE_OK == eliminate_words(
        tree.contracted, tree.pivots, scratch, 0, scratch + tree.stride,
        scratch + 2 * tree.stride, tree.stride, tree.n - tree.n_fixed, 2,
        tree.sum.single_root and tree.takes_root, False, &tree.turn)
    return tree.is_current


cdef inline bint root_is_open(const PartialTree* tree) noexcept nogil:
    """Whether the next word may hang from ROOT itself."""
    return tree.takes_root and not (tree.sum.single_root and tree.turn > 0)


cdef int partial_weights(PartialTree* tree, double* weights, double* total) noexcept nogil:
    """Fill weights[0..n] in proportion to the probabilities of the next word's heads.

    O(m^2) for m words without a head if the last one came to hang from ROOT, directly or not;
    otherwise O(m^3). Returns DECODE_OK, or DECODE_UNSETTLED where float64 does not do.
    """
    cdef Py_ssize_t m = tree.n - tree.n_fixed
    cdef Py_ssize_t word = partial_next(tree)
    cdef const double* row = <const double*>tree.sum.weights + word * tree.sum.stride
    cdef double* reach = tree.reach
    cdef Py_ssize_t i, head
    if not tree.is_current and not factor(tree):
        return DECODE_UNSETTLED
    memset(reach, 0, (m + 5) * sizeof(double))
    reach[0] = 1
    for i in range(2, m + 1):
        reach[i] = weight_passes.dot(reach, tree.pivots + i * tree.stride, i)
    weights[0] = row[0] if root_is_open(tree) else 0
    total[0] = weights[0]
    for head in range(1, tree.n + 1):
        weights[head] = row[head] * reach[tree.number[head]]
        total[0] += weights[head]
    return DECODE_OK if total[0] > LEAST_TOTAL else DECODE_UNSETTLED


cdef void partial_fix(PartialTree* tree, Py_ssize_t head) noexcept nogil:
    """Give the next word its head. O(n)."""
    cdef Py_ssize_t m = tree.n - tree.n_fixed
    cdef Py_ssize_t stride = tree.stride
    cdef Py_ssize_t word = partial_next(tree)
    cdef int32_t above = tree.top[head] if head != 0 else 0
    cdef double* pivots = tree.pivots
    cdef bint root_taken = tree.sum.single_root and head == 0
    cdef Py_ssize_t other, i
    tree.heads[word] = <int32_t>head
    for other in range(1, tree.n + 1):
        if tree.top[other] == word:
            tree.top[other] = above
    tree.n_fixed += 1
    if root_taken:
        tree.takes_root = False
    if above != 0:
        tree.is_current = False
    if tree.is_current:
        # Column 1 becomes column 0, with what was in that unless nothing hangs from ROOT any more.
        for i in range(2, m + 1):
            if not root_taken:
                pivots[i * stride + 1] += pivots[i * stride]
        tree.pivots += stride + 1
        number_components(tree)


# --- in wide numbers ---------------------------------------------------------------------------

cdef int log_weights_wide(
        PartialTree* tree, const Wide* weights, Py_ssize_t weights_stride, double* logs
) noexcept nogil:
    cdef Py_ssize_t m = tree.n - tree.n_fixed
    cdef Py_ssize_t stride = tree.stride
    cdef Py_ssize_t matrix = stride * (tree.max_words + 1)
    cdef Wide* contracted = <Wide*>tree.wide_block
    cdef Wide* pivots = contracted + matrix
    cdef Wide* scratch = pivots + matrix
    cdef Wide* reach = scratch + 3 * stride
    cdef const Wide* row = weights + partial_next(tree) * weights_stride
    cdef Py_ssize_t i, head
    cdef int status
    number_components(tree)
    contract(tree, weights, weights_stride, contracted)
    status = eliminate_words(
        contracted, pivots, scratch, 0, scratch + stride, scratch + 2 * stride, stride, m, 2,
        tree.sum.single_root and tree.takes_root, True, &tree.turn)
    # The pivots in float64 are not those of this turn.
    tree.is_current = False
    if status != DECODE_OK:
        return status
    reach[0] = wide_from(1, 0)
    reach[1] = wide_from(0, 0)
    for i in range(2, m + 1):
        reach[i] = wide_dot(reach, pivots + i * stride, i)
    logs[0] = wide_log(row[0]) if root_is_open(tree) else -INFINITY
    for head in range(1, tree.n + 1):
        logs[head] = wide_log(wide_multiply(row[head], reach[tree.number[head]]))
    return DECODE_OK


cdef int partial_log_weights(PartialTree* tree, double* logs, double* largest) noexcept nogil:
    """Fill logs[0..n] with the logs of the same weights, of any magnitude. O(m^3), and slower.

    Returns DECODE_OK, DECODE_NO_MEMORY, DECODE_NO_TREE or DECODE_LOST_DIGITS.
    """
    cdef size_t stride = tree.stride
    cdef size_t matrix = stride * (<size_t>tree.max_words + 1)
    cdef Py_ssize_t head
    cdef int status = DECODE_OK
    if tree.wide_block is NULL:
        tree.wide_block = calloc((2 * matrix + 4 * stride) * sizeof(Wide), 1)
        if tree.wide_block is NULL:
            return DECODE_NO_MEMORY
    if not tree.knows_wide:
        status = find_wide_weights(tree.square, tree.sum)
        if status != DECODE_OK:
            return status
        tree.knows_wide = True
    status = log_weights_wide(tree, <const Wide*>tree.sum.wide.weights, tree.sum.stride, logs)
    if status != DECODE_OK:
        return status
    largest[0] = -INFINITY
    for head in range(tree.n + 1):
        largest[0] = max(largest[0], logs[head])
    return DECODE_OK if largest[0] > -INFINITY else DECODE_NO_TREE
